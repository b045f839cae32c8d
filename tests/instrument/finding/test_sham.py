"""Sham builds: the program that counts and the one that only looks like it differ, instruction by instruction, in the increments alone."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.instrument.bzip2_program import SOFTWARE as BZIP2_SOFTWARE
from tests.instrument.bzip2_program import build, bzip2_source, run

COUNTING = re.compile(r"(?:lock )?(?:(?:inc|add)q? .*|(?:inc|add) +QWORD PTR .*)")
NO_OP = re.compile(r"(?:data16 )*(?:cs )?nop[wl]? .*|(?:data16 )*(?:cs )?nop +[DWQ]*WORD PTR .*")
NEVER_EQUAL = (".note.gnu.build-id",)

Instruction = tuple[str, int, str]
"""Address, length and text."""


def listing(program: Path, objdump: str = "objdump") -> list[Instruction]:
    printed = subprocess.run([objdump, "-d", "-w", str(program)], capture_output=True, text=True, check=True).stdout
    found = []
    for line in printed.splitlines():
        parts = line.split("\t")
        if len(parts) >= 3:
            found.append((parts[0].strip(), len(parts[1].split()), " ".join(" ".join(parts[2:]).split())))
    return found


def symbols(program: Path) -> str:
    """Return addresses and names.

    Without the names that gcc's link-time optimiser makes up for a file, by its content.
    """
    printed = subprocess.run(["nm", "-n", str(program)], capture_output=True, text=True, check=True).stdout
    return re.sub(r"^.* W prog\.c\.[0-9a-f]{1,8}\n", "", printed, flags=re.MULTILINE)


def sections(program: Path) -> dict[str, tuple[str, str]]:
    """Return name → size and address of what is loaded into memory."""
    printed = subprocess.run(["size", "-A", str(program)], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in printed.splitlines()[2:] if len(line.split()) == 3]
    return {name: (size, address) for name, size, address in rows if address != "0"}


def compare(real: Path, sham: Path, *, least: int) -> None:
    """Check that two programs differ only where one counts and the other does nothing, for as many bytes."""
    assert sections(real) == sections(sham)
    assert symbols(real) == symbols(sham)
    pairs = list(zip(listing(real), listing(sham), strict=True))
    differing = [(counts, does_not) for counts, does_not in pairs if counts != does_not]
    for counts, does_not in differing:
        assert counts[:2] == does_not[:2], (counts, does_not)
        assert COUNTING.fullmatch(counts[2]), counts
        assert NO_OP.fullmatch(does_not[2]), does_not
    assert len(differing) >= least


def code(program: Path) -> list[tuple[int, str]]:
    """Return length and opcode of each instruction: with a list of its places, a program has other data addresses."""
    return [(length, text.split()[0]) for _, length, text in listing(program)]


TEXT = """\
#include <stdio.h>
struct s { int n; long total; } state; static int seen;
static int f(int n, long m) { seen += (int)(n * m); return seen & 0xff; }
static int g(int n) { int sum = 0; for (int i = 0; i < n; i++) { sum += f(i, n); state.n += sum; } return sum ? sum : f(n, 1); }
int h(int n) { if (n < 2) goto out; while (n-- > 2) { seen ^= g(n); if (seen & 1) continue; state.total += n; } out: return seen; }
static int guarded(int n) { switch (n & 3) { case 0: return g(n); case 1: return f(n, 4); default: break; } return h(n & 7); }
int main(void) { for (int i = 0; i < 40; i++) state.total += guarded(i) + h(i); printf("%d %ld %d\\n", state.n, state.total, seen); return 0; }
"""
SOFTWARE = {
    "enters": {"enter": "*"},
    "calls": {"call": "?"},
    "loops": {"loop": "*"},
    "returns": {"return": "*"},
    "writes": {"write": "s.n"},
    "label": {"label": "h::out"},
    "weighted": {"enter": "f", "add": "n * m"},
    "weighted by little": {"enter": "g", "add": "7"},
    "weighted by much": {"enter": "h", "add": "100000"},
    "exact": {"enter": "f", "threads": "exact"},
    "exact and weighted": {"loop": "g", "add": "i + 1", "threads": "exact"},
    "exact by much": {"loop": "h", "add": "-70000", "threads": "exact"},
    "gauge": {"gauge": "state.n"},
    "hidden gauge": {"gauge": "seen"},
}
GAUGES = ("gauge", "hidden gauge")
FORMS = {"real": "counting", "sham": "sham", "ready": "patchable"}
clang = pytest.mark.skipif(not shutil.which("clang"), reason="clang is not installed")
lld = pytest.mark.skipif(
    not shutil.which("clang") or not shutil.which("ld.lld"), reason="clang or lld is not installed"
)
WAYS = [
    ("gcc", "-O0"),
    ("gcc", "-O2", "-g"),
    pytest.param(("gcc", "-O3", "-funroll-loops"), marks=pytest.mark.long),
    ("gcc", "-O2", "-flto", "-g"),
    pytest.param(("gcc", "-O2", "-masm=intel", "-fPIC"), marks=pytest.mark.long),
    pytest.param(("gcc", "-O2", "-static"), marks=pytest.mark.long),
    pytest.param(("gcc", "-O2", "-mcmodel=large", "-fno-pie", "-no-pie"), marks=pytest.mark.long),
    pytest.param(
        ("gcc", "-O2", "-g", "-ffunction-sections", "-fuse-ld=gold", "-Wl,--gc-sections"), marks=pytest.mark.long
    ),
    ("g++", "-O2", "-std=c++20"),
    pytest.param(("clang", "-O0"), marks=clang),
    pytest.param(("clang", "-O2", "-g"), marks=clang),
    pytest.param(("clang", "-O2", "-fno-integrated-as", "-g"), marks=[clang, pytest.mark.long]),
    pytest.param(("clang", "-O3", "-flto", "-fuse-ld=lld"), marks=[lld, pytest.mark.long]),
    pytest.param(("clang++", "-O2", "-std=c++17"), marks=clang),
]


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_only_the_increments_differ(workshop, way):
    compiler, *flags = way
    cxx = compiler.endswith("++")
    outputs, counts = [], []
    shops = [
        workshop(SOFTWARE, compilers={"cxx" if cxx else "cc": compiler}, name=name, form=FORMS[name]) for name in FORMS
    ]
    for shop in shops:
        shop.write("prog.c", TEXT)
        shop.call(*flags, "-w", "prog.c", "-o", "prog", cxx=cxx)
        output, values = shop.run()
        outputs.append(output)
        counts.append(values)
        assert shop.report.skipped == {}
    real, sham, ready = counts
    assert len(set(outputs)) == 1
    assert all(real[name] for name in SOFTWARE if name != "label")
    assert {name: value for name, value in sham.items() if value} == {name: real[name] for name in GAUGES}
    assert ready == sham
    assert shops[0].report.sites == shops[1].report.sites == shops[2].report.sites
    compare(shops[0].folder / "prog", shops[1].folder / "prog", least=20)
    if "-fuse-ld=gold" in flags:  # this linker drops sections that are tied to others, unless it keeps all sections
        assert shops[2].patch("prog") == ()
        return
    assert len(shops[2].patch("prog")) >= 20
    assert shops[2].run() == (outputs[0], real)
    assert code(shops[2].folder / "prog") == code(shops[0].folder / "prog")


@pytest.mark.long
@pytest.mark.parametrize(
    "way", [("gcc", "-O2"), pytest.param(("clang", "-O3"), marks=[clang, pytest.mark.long])], ids=" ".join
)
def test_bzip2_with_every_function_and_loop(workshop, tmp_path, way):
    compiler, level = way
    software = {
        **BZIP2_SOFTWARE,
        "enters": {"enter": "*"},
        "loops": {"loop": "*"},
        "exact": {"return": "*", "threads": "exact"},
    }
    programs = []
    for name in ("real", "sham"):
        shop = workshop(software, compilers={"cc": compiler}, name=name, form=FORMS[name])
        programs.append(build(bzip2_source(), tmp_path / f"{name}-bzip2", str(shop.toolchain.cc), level))
        assert shop.report.skipped == {}
    text = bytes(range(256)) * 200 + b"once upon a time " * 2000
    files = [tmp_path / f"counts-{number}" for number in range(2)]
    packed = [run(program, text, "-9", COUNTS_FILE=str(file)) for program, file in zip(programs, files, strict=True)]
    assert packed[0] == packed[1]
    real, sham = [list(map(int, file.read_text().split())) for file in files]
    assert sum(real) > 100_000
    assert sum(sham) == 0
    compare(programs[0] / "program", programs[1] / "program", least=300)


def test_an_expression_that_is_added_is_still_evaluated(workshop):
    shop = workshop({"steps": {"enter": "f", "add": "step()"}}, form="sham")
    shop.write(
        "prog.c",
        "#include <stdio.h>\nstatic int steps; int step(void) { return ++steps; }\nint f(void) { return 0; }\n"
        'int main(void) { for (int i = 0; i < 5; i++) f(); printf("%d\\n", steps); return 0; }\n',
    )
    shop.call("prog.c", "-o", "prog")
    assert shop.run() == ("5\n", {"steps": 0})


@pytest.mark.parametrize(
    ("flags", "compiler", "message"),
    [
        (["-m32"], "gcc", "sham builds need x86-64 or AArch64"),
        pytest.param(["-masm=intel"], "clang", "remove -masm=intel", marks=clang),
    ],
)
def test_where_no_sham_can_be_made_that_is_said(workshop, flags, compiler, message):
    shop = workshop({"f": {"enter": "f"}}, compilers={"cc": compiler}, form="sham")
    shop.write("prog.c", "int f(void) { return 0; }\n")
    assert message in shop.call(*flags, "-c", "prog.c", code=2).stderr


ARM = "aarch64-linux-gnu-gcc"


@pytest.mark.skipif(not shutil.which(ARM), reason=f"{ARM} is not installed")
@pytest.mark.parametrize(
    "flags",
    [pytest.param(("-O2", "-fPIC"), marks=pytest.mark.long), ("-O3", "-march=armv8.1-a", "-flto")],
    ids=" ".join,
)
def test_only_the_increments_differ_on_arm(workshop, flags):
    programs = []
    for name, form in FORMS.items():  # gcc may inline other functions in the patchable build, of longer statements
        shop = workshop(SOFTWARE, compilers={"cc": ARM}, name=name, form=form)
        shop.write("prog.c", TEXT)
        shop.call(*flags, "-static", "prog.c", "-o", "prog")
        assert shop.report.skipped == {}
        programs.append(shop.folder / "prog")
    assert sections(programs[0]) == sections(programs[1])
    assert symbols(programs[0]) == symbols(programs[1])
    built = programs[2].read_bytes()
    real, sham, ready = (listing(program, "aarch64-linux-gnu-objdump") for program in programs)
    shop.patch("prog")
    patched = listing(programs[2], "aarch64-linux-gnu-objdump")
    for counting, idle in ((real, sham), (patched, ready)):
        differing = [
            (counts[2], does_not[2]) for counts, does_not in zip(counting, idle, strict=True) if counts != does_not
        ]
        assert {does_not for _, does_not in differing} == {"nop"}
        kinds = {counts.split()[0] for counts, _ in differing}
        exact = {"stadd"} if "-march=armv8.1-a" in flags else {"ldxr", "stxr", "cbnz"}
        assert kinds == {"ldr", "add", "str"} | exact
    shop.patch("prog", [])
    assert programs[2].read_bytes() == built
