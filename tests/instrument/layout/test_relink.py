"""Layouts: the same program at other addresses, drawn from a text, with every instruction and every order that matters kept."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.instrument.bzip2_program import build, bzip2_source, run
from unperturbed.collectors.runtime import BOUNDS, runtime_files
from unperturbed.errors import RunError
from unperturbed.instrument.command_line import expanded, response_text
from unperturbed.instrument.compiler import toolchain as toolchain_module
from unperturbed.instrument.compiler.cc import run_compiler
from unperturbed.instrument.compiler.toolchain import in_layout, relink
from unperturbed.instrument.layout import (
    LinkLayout,
    file_digest,
    is_object,
    read_links,
    why_order_matters,
    why_order_stays,
)

NAMES = ("alpha", "beta", "gamma", "delta")
SOFTWARE = {"works": {"enter": "work_*"}}
FILES = {
    **{
        f"{name}.c": f"static int seen_{name} = 1; int *place_{name} = &seen_{name};\n"
        f"__attribute__((noinline)) int work_{name}(int n) {{ *place_{name} += n; return n * {number + 2}; }}\n"
        for number, name in enumerate(NAMES)
    },
    "main.c": "#include <stdio.h>\n"
    + "".join(f"int work_{name}(int);\n" for name in NAMES)
    + "int main(void) { int n = 1; for (int i = 0; i < 5; i++) n = ("
    + " + ".join(f"work_{name}(n)" for name in NAMES)
    + ') % 1000; printf("%d\\n", n); return 0; }\n',
}
clang = pytest.mark.skipif(not shutil.which("clang"), reason="clang is not installed")
lld = pytest.mark.skipif(
    not shutil.which("clang") or not shutil.which("ld.lld"), reason="clang or lld is not installed"
)
WAYS = [
    ("gcc", "-O2"),
    pytest.param(("gcc", "-O0", "-g"), marks=pytest.mark.long),
    ("gcc", "-O2", "-static"),
    ("gcc", "-O2", "-flto"),
    pytest.param(("gcc", "-O2", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"), marks=pytest.mark.long),
    ("gcc", "-O2", "-fno-pie", "-no-pie", "-s"),
    ("gcc", "-O2", "-fuse-ld=gold", "-ffunction-sections", "-Wl,--gc-sections"),
    ("g++", "-O2"),
    pytest.param(("clang", "-O2"), marks=[clang, pytest.mark.long]),
    pytest.param(("clang", "-O2", "-static"), marks=[clang, pytest.mark.long]),
    pytest.param(("clang", "-O3", "-flto", "-fuse-ld=lld"), marks=[lld, pytest.mark.long]),
    pytest.param(("clang", "-O2", "-flto=thin", "-fuse-ld=lld", "-ffunction-sections", "-Wl,--gc-sections"), marks=lld),
]


def addresses(program: Path, *names: str) -> dict[str, int]:
    """Return the addresses of symbols; without link-time optimisation's own endings."""
    printed = subprocess.run(["nm", str(program)], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in printed.splitlines()]
    found = {row[2].split(".")[0]: int(row[0], 16) for row in rows if len(row) == 3}
    return {name: found[name] for name in names if name in found}


def instructions(program: Path, function: str) -> list[str]:
    """Return the operations of a function, without the addresses that they name."""
    printed = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", f"--disassemble={function}", str(program)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [line.split("\t")[1].split()[0] for line in printed.splitlines() if line.startswith(" ") and "\t" in line]


@pytest.fixture
def project(workshop):
    def make(compiler="gcc", **options):
        cxx = compiler.endswith("++")
        shop = workshop(SOFTWARE, compilers={"cxx" if cxx else "cc": compiler}, layouts=True, **options)
        for name, text in FILES.items():
            shop.write(name, text)
        return shop

    return make


def compile_objects(shop, *flags: str, cxx: bool = False) -> list[str]:
    shop.call(*flags, "-w", "-c", *FILES, cxx=cxx)
    return [name.replace(".c", ".o") for name in FILES]


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_layouts_differ_in_addresses_and_in_nothing_else(project, way):
    compiler, *flags = way
    cxx = compiler.endswith("++")
    shop = project(compiler)
    objects = compile_objects(shop, *flags, cxx=cxx)
    functions = [*(f"_Z{len(name) + 5}work_{name}i" if cxx else f"work_{name}" for name in NAMES), "main"]
    variables = [f"place_{name}" for name in NAMES]
    found, outputs, programs = [], [], []
    for number, layout in enumerate(("", "1/a/1", "1/a/2", "1/a/1")):
        if layout:
            with in_layout(shop.toolchain.folder, layout):
                shop.call(*flags, *objects, "-o", "prog", cxx=cxx)
        else:
            shop.call(*flags, *objects, "-o", "prog", cxx=cxx)
        outputs.append(shop.run())
        programs.append(shop.folder / f"program{number}")
        shutil.copy(shop.folder / "prog", programs[-1])
        if "-s" not in flags:
            found.append(addresses(shop.folder / "prog", *functions, *variables))
    assert outputs == outputs[:1] * 4
    assert outputs[0][1]["works"] == 20
    assert programs[1].read_bytes() == programs[3].read_bytes(), "a text gives one layout"
    assert len({program.read_bytes() for program in programs}) == 3
    if "-s" in flags:
        return
    for name in found[0]:
        assert len({addresses[name] for addresses in found[:3]}) == 3, name
    for function in set(functions) & found[0].keys():
        assert instructions(programs[1], function) == instructions(programs[0], function)
    if "-flto" not in " ".join(flags):
        orders = {tuple(sorted(functions[:-1], key=addresses.__getitem__)) for addresses in found[:3]}
        assert len(orders) > 1, "the objects were shuffled"
    assert list((shop.toolchain.folder / "passing").iterdir()) == [], "padding goes when it is linked"


def test_main_moves_against_the_functions_and_the_sections_against_each_other(project):
    shop = project()
    objects = compile_objects(shop, "-O2")
    distances = set()
    for number in range(6):
        with in_layout(shop.toolchain.folder, f"2/b/{number}"):
            shop.call(*objects, "-o", "prog")
        at = addresses(shop.folder / "prog", "main", "work_alpha", "place_alpha", "seen_alpha")
        distances.add((at["work_alpha"] - at["main"], (at["place_alpha"] - at["main"]) % 4096))
    assert len({code for code, _ in distances}) == len({data for _, data in distances}) == 6


def test_sources_that_are_compiled_by_the_link_itself_are_padded_in_their_order(project):
    shop = project()
    found = []
    for layout in ("1/a/1", "1/a/2"):
        with in_layout(shop.toolchain.folder, layout):
            shop.call("-O2", *FILES, "-o", "prog")
        assert shop.run()[1]["works"] == 20
        found.append(addresses(shop.folder / "prog", *(f"work_{name}" for name in NAMES)))
    distances = [{name: at[name] - at["work_alpha"] for name in at} for at in found]
    assert distances[0] != distances[1], "they move against each other too"
    ordered = [sorted(at, key=at.__getitem__) for at in found]
    assert ordered[0] == ordered[1] == [f"work_{name}" for name in NAMES]
    assert why_order_stays(tuple(FILES)) == "the link has no adjacent objects to shuffle"
    assert (
        why_order_stays(("main.o", "libwork.a", "-lm", "-o", "prog")) == "the link has no adjacent objects to shuffle"
    )


ORDERED = """\
#include <cstdio>
struct Says {{ Says() {{ std::printf("{name} "); }} ~Says() {{ std::printf("-{name} "); }} }};
static Says says;
int {name}() {{ return {number}; }}
"""


@pytest.mark.parametrize("compiler", ["g++", pytest.param("clang++", marks=[clang, pytest.mark.long])])
def test_objects_with_static_initialisers_keep_their_order(workshop, compiler):
    shop = workshop({"works": {"enter": "?"}}, compilers={"cxx": compiler}, layouts=True)
    for number, name in enumerate("abcdef"):
        shop.write(f"{name}.cc", ORDERED.format(name=name, number=number))
    shop.write("main.cc", "int a(); int f(); int main() { return a() + f() - 5; }\n")
    names = [*"abcdef", "main"]
    for name in names:
        shop.call("-O2", "-c", f"{name}.cc", cxx=True)
    objects = [f"{name}.o" for name in names]
    shop.call(*objects, "-o", "prog", cxx=True)
    expected, _ = shop.run()
    assert expected.startswith("a b c d e f ")
    assert why_order_stays([str(shop.folder / name) for name in objects]).endswith(
        "a.o: contains initialisers or finalisers (.init_array)"
    )
    assert read_links(shop.toolchain.folder)[0].order == "a.o: contains initialisers or finalisers (.init_array)"
    distances = set()
    for number in range(4):
        with in_layout(shop.toolchain.folder, f"1/a/{number}"):
            shop.call(*objects, "-o", "prog", cxx=True)
        assert shop.run()[0] == expected
        at = addresses(shop.folder / "prog", "_Z1av", "_Z1fv", "main")
        distances.add((at["main"], at["_Z1fv"] - at["_Z1av"]))
    assert len({main for main, _ in distances}) == 4
    assert len({between for _, between in distances}) > 1


@pytest.mark.parametrize(
    ("flags", "text", "reason"),
    [
        ((), "int x; int f(void) { return x; }", ""),
        (("-ffunction-sections", "-g", "-m32"), "int x; int f(void) { return x; }", ""),
        ((), "__attribute__((constructor)) void f(void) {}", "contains initialisers or finalisers (.init_array)"),
        (
            (),
            "__attribute__((constructor(200))) void f(void) {}",
            "contains initialisers or finalisers (.init_array.00200)",
        ),
        ((), "__attribute__((destructor)) void f(void) {}", "contains initialisers or finalisers (.fini_array)"),
        (
            (),
            '__attribute__((section("commands"), used)) int x;',
            "contains entries of a table that the linker collects (commands)",
        ),
        (("-flto",), "int f(void) { return 1; }", "compiled with link-time optimisation"),
        (("-flto", "-ffat-lto-objects"), "int f(void) { return 1; }", "compiled with link-time optimisation"),
        (("-fsanitize-coverage=trace-pc", "-pg"), "int f(void) { return 1; }", ""),
    ],
)
def test_whether_an_objects_place_in_the_link_matters(tmp_path, flags, text, reason):
    (tmp_path / "x.c").write_text(text + "\n")
    if subprocess.run(["gcc", *flags, "-c", "x.c"], cwd=tmp_path, capture_output=True, check=False).returncode:
        pytest.skip("this compiler has no such flags")
    assert is_object(str(tmp_path / "x.o"))
    assert why_order_matters(str(tmp_path / "x.o")) == reason


def test_counting_alone_makes_no_objects_order_matter(workshop):
    shop = workshop({"f": {"enter": "*"}, "n": {"gauge": "n"}})
    for name in ("x", "y"):
        shop.write(f"{name}.c", f"int {name}; static int n; int f{name}(void) {{ return n++; }}\n")
        shop.call("-c", f"{name}.c")
        assert b"__unperturbed_construct" in (shop.folder / f"{name}.o").read_bytes()
    subprocess.run(["ld", "-r", "x.o", "y.o", "-o", "both.o"], cwd=shop.folder, check=True)
    shop.write(
        "z.c", "static int n; __attribute__((constructor)) void begin(void) { n = 1; } int fz(void) { return n; }\n"
    )
    shop.call("-c", "z.c")
    reasons = [why_order_matters(str(shop.folder / f"{name}.o")) for name in ("x", "y", "both", "z")]
    assert reasons == ["", "", "", "contains initialisers or finalisers (.init_array)"]


def test_what_is_no_object_is_left_alone(tmp_path):
    (tmp_path / "text.o").write_text("no object, but called so")
    (tmp_path / "short.o").write_bytes(b"\x7fELF\x02\x01")
    assert not is_object(str(tmp_path / "text.o"))
    assert not is_object(str(tmp_path / "short.o"))
    assert not is_object(str(tmp_path / "gone.o"))
    (tmp_path / "damaged.o").write_bytes(b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x01\x00" + b"\xff" * 60)
    assert is_object(str(tmp_path / "damaged.o"))
    assert why_order_matters(str(tmp_path / "damaged.o")) == "not a readable ELF file"


@pytest.fixture(scope="module")
def objects(tmp_path_factory):
    folder = tmp_path_factory.mktemp("objects")
    paths = []
    for number in range(12):
        (folder / f"{number}.c").write_text(f"int f{number}(void) {{ return {number}; }}\n")
        subprocess.run(["gcc", "-c", f"{number}.c"], cwd=folder, check=True)
        paths.append(str(folder / f"{number}.o"))
    return paths


@pytest.mark.parametrize("seed", range(25))
def test_only_objects_between_the_same_libraries_change_places(objects, seed):
    chance = random.Random(seed)
    fixed = ["-lm", "-Wl,--as-needed", "libx.a", "-Xlinker", "liby.so", "-O2", "-o", "-g", "-L.", "z.c"]
    words: list[str] = []
    for path in objects:
        words.append(path)
        if chance.random() < 0.5:
            chosen = chance.choice(fixed)
            words += (
                [chosen, "prog"] if chosen == "-o" else [chosen, "--gc-sections"] if chosen == "-Xlinker" else [chosen]
            )
    pads = tuple(f"pad{number}.o" for number in range(9))
    arranged = LinkLayout(str(seed), pads, "folder").arranged(words)
    assert arranged == LinkLayout(str(seed), pads, "folder").arranged(words)
    assert arranged[0].startswith("-Wl,-u,unperturbed_pad_0u,")
    assert arranged[1] == "pad0.o"
    assert Counter(arranged[2:]) == Counter([*words, *pads[1:]])
    left = [word for word in arranged[2:] if word not in pads]
    assert [word for word in left if word not in objects] == [word for word in words if word not in objects]
    barriers = {"-lm", "-Wl,--as-needed", "libx.a", "-Xlinker", "liby.so", "z.c"}
    assert _groups(left, barriers, objects) == _groups(words, barriers, objects)


def _groups(words, barriers, objects):
    groups, current = [], set()
    for word in words:
        if word in barriers:
            groups.append(current)
            current = set()
        elif word in objects:
            current.add(word)
    return [*groups, current]


def test_every_order_of_few_objects_occurs(objects):
    drawn = {tuple(LinkLayout(f"1/a/{number}", ("pad.o",), "folder").arranged(objects[:3])[2:]) for number in range(60)}
    assert len(drawn) == 6


def test_padding_before_a_forced_language_is_no_source_of_it(objects):
    arranged = LinkLayout("s", ("p0", "p1"), "folder").arranged([objects[0], "-x", "c", "text"])
    assert arranged[2:] == [objects[0], "-x", "c", "-x", "none", "p1", "-x", "c", "text"]


def test_arguments_of_a_response_file_stay_in_one(project):
    shop = project()
    objects = compile_objects(shop, "-O2")
    shop.write("link.rsp", "\n".join([*objects, "-o", "'a prog'"]))
    shop.call("@link.rsp")
    (shop.folder / "link.rsp").unlink()
    (link,) = read_links(shop.toolchain.folder)
    before = (shop.folder / "a prog").read_bytes()
    with in_layout(shop.toolchain.folder, "1/a/1"):
        relink(shop.toolchain.folder, link)
    first = (shop.folder / "a prog").read_bytes()
    assert first != before
    with pytest.MonkeyPatch.context() as patched, in_layout(shop.toolchain.folder, "1/a/1"):
        patched.setattr(toolchain_module, "_LONG_COMMAND", 10)
        relink(shop.toolchain.folder, link)
    assert (shop.folder / "a prog").read_bytes() == first
    relink(shop.toolchain.folder, link)
    assert (shop.folder / "a prog").read_bytes() == before, "without a layout it is linked as it was"


def test_a_response_file_holds_any_words(tmp_path):
    words = ("plain", "two words", "", "'quoted'", '"double"', "back\\slash", "line\nbreak", "tab\t")
    (tmp_path / "words").write_text(response_text(words))
    assert expanded((f"@{tmp_path}/words",)) == words


def test_a_link_that_cannot_be_made_again_says_why(project, tmp_path):
    shop = project()
    objects = compile_objects(shop, "-O2")
    shop.call(*objects, "-o", "prog")
    shop.call("-x", "c", "-", "-o", "other", input="int main(void) { return 0; }")
    made, piped = read_links(shop.toolchain.folder)
    (shop.folder / "beta.o").unlink()
    with pytest.raises(RunError, match=r"repeating this link failed \(exit code 1\): gcc (?s:.*)beta\.o"):
        relink(shop.toolchain.folder, made)
    with pytest.raises(RunError, match="read its source from standard input"):
        relink(shop.toolchain.folder, piped)
    shutil.rmtree(shop.folder)
    with pytest.raises(RunError, match=r"because its folder .* no longer exists"):
        relink(shop.toolchain.folder, made)


def test_links_are_noted_with_what_they_made_last(project):
    shop = project()
    objects = compile_objects(shop)
    shop.call(*objects, "-o", "prog")
    shop.call("-shared", "-fPIC", "alpha.c", "-o", "libalpha.so")
    shop.call(*objects, "-o", "prog", "-static")
    shop.call("-c", "main.c")
    shop.call("nothing.o", "-o", "failed", code=1)
    library, program = read_links(shop.toolchain.folder)
    assert Path(library.output).name == "libalpha.so"
    assert program.words == ("gcc", *objects, "-o", "prog", "-static")
    assert program.folder == str(shop.folder)
    assert program.digest == file_digest(shop.folder / "prog")


@pytest.mark.parametrize("flags", [("-fuse-ld=bfd",), ("-fuse-ld=gold",), pytest.param(("-fuse-ld=lld",), marks=lld)])
def test_a_library_has_layouts_too(project, flags):
    shop = project()
    for name in NAMES:
        shop.call("-O2", "-fPIC", "-c", f"{name}.c")
    shop.call("-O2", "-c", "main.c")
    found = []
    for layout in ("1/a/1", "1/a/2"):
        with in_layout(shop.toolchain.folder, layout):
            shop.call(*flags, "-shared", *(f"{name}.o" for name in NAMES), "-o", "libwork.so")
            shop.call(*flags, "main.o", "-L.", "-lwork", "-o", "prog")
        assert shop.run()[1]["works"] == 20
        found.append(addresses(shop.folder / "libwork.so", *(f"work_{name}" for name in NAMES)))
    assert not set(found[0].values()) & set(found[1].values())


@pytest.mark.parametrize("flags", [("-O2",), ("-O2", "-flto")], ids=" ".join)
def test_a_sham_has_the_layout_of_the_build_that_counts(project, flags):
    programs = []
    for name in ("real", "sham"):
        shop = project(name=name, form="sham" if name == "sham" else "counting")
        objects = compile_objects(shop, *flags)
        with in_layout(shop.toolchain.folder, "7/light/3"):
            shop.call(*flags, *objects, "-o", "prog")
        assert shop.run()[1]["works"] == (20 if name == "real" else 0)
        programs.append(shop.folder / "prog")
    names = [*(f"work_{name}" for name in NAMES), *(f"place_{name}" for name in NAMES), "main", "unperturbed_register"]
    assert addresses(programs[0], *names) == addresses(programs[1], *names)


ARM = "aarch64-linux-gnu-gcc"


@pytest.mark.skipif(not shutil.which(ARM), reason=f"{ARM} is not installed")
def test_layouts_on_arm(project):
    shop = project(ARM)
    objects = compile_objects(shop, "-O2")
    found = []
    for layout in ("1/a/1", "1/a/2"):
        with in_layout(shop.toolchain.folder, layout):
            shop.call("-static", *objects, "-o", "prog")
        found.append(addresses(shop.folder / "prog", *(f"work_{name}" for name in NAMES), "main"))
    assert len(found[0]) == 5
    assert not set(found[0].values()) & set(found[1].values())


@pytest.mark.parametrize("compiler", [pytest.param("gcc", marks=pytest.mark.long), pytest.param("clang", marks=clang)])
def test_bzip2_in_three_layouts(workshop, tmp_path, compiler):
    shop = workshop(
        {"sorts": {"enter": "mainSimpleSort"}}, compilers={"cc": compiler}, runtime=runtime_files(), layouts=True
    )
    folder = build(bzip2_source(), tmp_path / "bzip2", str(shop.toolchain.cc), "-O1")
    text = bytes(range(256)) * 200 + b"once upon a time " * 2000
    expected = run(folder, text, "-9")
    (link,) = read_links(shop.toolchain.folder)
    assert link.order == ""
    functions = ("BZ2_blockSort", "BZ2_compressBlock", "BZ2_hbMakeCodeLengths", "BZ2_decompress", "main")
    found = [addresses(folder / "program", *functions)]
    for number in (1, 2):
        with in_layout(shop.toolchain.folder, f"1/a/{number}"):
            relink(shop.toolchain.folder, link)
        found.append(addresses(folder / "program", *functions))
        assert run(folder, text, "-9") == expected
    for function in functions:
        assert len({at.get(function) for at in found}) == 3
    assert len({tuple(sorted(functions[1:-1], key=at.__getitem__)) for at in found}) > 1


def test_by_hand_a_text_gives_a_layout(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    metrics = tmp_path / "metrics.yaml"
    metrics.write_text("software:\n  w: {enter: work_alpha}\n")
    for name, text in FILES.items():
        Path(name).write_text(text)
        assert run_compiler(metrics, ["gcc", "-O2", "-c", name]) == 0
    objects = [name.replace(".c", ".o") for name in FILES]
    places = []
    for layout in ("", "one", "two", "one"):
        assert (
            run_compiler(
                metrics, ["gcc", *objects, "-o", "prog"], runtime=runtime_files(), bounds=BOUNDS, layout=layout
            )
            == 0
        )
        places.append(addresses(Path("prog"), "main", "work_alpha", "place_alpha"))
        assert subprocess.run(["./prog"], check=True, capture_output=True).stdout
    assert places[1] == places[3]
    assert len({tuple(at.values()) for at in places}) == 3
