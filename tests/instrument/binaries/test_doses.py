"""Doses: a place holds several increments, each as costly as the first, and the metric's count is exact at each."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from tests.instrument.binaries.test_places import MAIN, OTHER, TEMPLATES
from tests.instrument.binaries.test_places import SOFTWARE as OF_TEMPLATES
from tests.instrument.conftest import own_counts
from tests.instrument.finding.test_sham import SOFTWARE, TEXT
from unperturbed.errors import RunError
from unperturbed.instrument.binaries.places import SECTION, patch, read_places
from unperturbed.instrument.compiler.settings import settings_text
from unperturbed.instrument.events import parse_event
from unperturbed.instrument.events.event import MOST_DOSES

clang = pytest.mark.skipif(not shutil.which("clang"), reason="clang is not installed")
lld = pytest.mark.skipif(
    not shutil.which("clang") or not shutil.which("ld.lld"), reason="clang or lld is not installed"
)


@pytest.mark.parametrize("compiler", ["g++", pytest.param("clang++", marks=clang)])
@pytest.mark.parametrize(
    "flags",
    [
        ("-O2", "-ffunction-sections", "-Wl,--gc-sections"),
        pytest.param(("-O0",), marks=pytest.mark.long),
        pytest.param(("-O3", "-flto"), marks=pytest.mark.long),
        pytest.param(("-O2", "-static"), marks=pytest.mark.long),
    ],
    ids=" ".join,
)
def test_templates_in_several_objects_count_exactly_at_each_dose(workshop, compiler, flags):
    shop = workshop(OF_TEMPLATES, compilers={"cxx": compiler}, form="patchable", doses=4)
    for name, text in {"mill.h": TEMPLATES, "main.cc": MAIN, "other.cc": OTHER}.items():
        shop.write(name, text)
    shop.call("-std=c++17", *flags, "main.cc", "other.cc", "-o", "prog", cxx=True)
    subprocess.run(["strip", "-s", "prog"], cwd=shop.folder, check=True)
    untouched = (shop.folder / "prog").read_bytes()
    output, counts = shop.run()
    turns, folds = own_counts(output)
    assert counts == {"turns": 0, "folds": 0, "calls": 0}
    written = {untouched}
    for dose in (1, 2, 4, 3):
        shop.patch("prog", ["turns", "calls"], dose=dose)
        assert shop.run() == (output, {"turns": turns, "folds": 0, "calls": folds})
        written.add((shop.folder / "prog").read_bytes())
    assert len(written) == 5
    shop.patch("prog", [])
    assert (shop.folder / "prog").read_bytes() == untouched


@pytest.mark.parametrize(
    "way",
    [
        ("gcc", "-O2", "-g"),
        pytest.param(("gcc", "-O2", "-masm=intel", "-fPIC"), marks=pytest.mark.long),
        pytest.param(("gcc", "-O2", "-mcmodel=large", "-fno-pie", "-no-pie"), marks=pytest.mark.long),
        pytest.param(("clang", "-O2", "-g"), marks=clang),
        pytest.param(("clang", "-O2", "-fno-integrated-as", "-g"), marks=[clang, pytest.mark.long]),
    ],
    ids=" ".join,
)
def test_every_kind_of_increment_counts_exactly_at_the_highest_dose(workshop, way):
    compiler, *flags = way
    results = {}
    for name, form, doses in (("counting", "counting", 1), ("doses", "patchable", MOST_DOSES)):
        shop = workshop(SOFTWARE, compilers={"cc": compiler}, name=name, form=form, doses=doses)
        shop.write("prog.c", TEXT)
        shop.call(*flags, "-w", "prog.c", "-o", "prog")
        assert shop.report.skipped == {}
        results[name] = shop.run()
    for dose in (MOST_DOSES, 1):
        assert all(len(place.lengths) == MOST_DOSES for place in shop.patch("prog", dose=dose))
        assert shop.run() == results["counting"]


def references(program: Path) -> tuple[int, int, int]:
    """Return the instructions, reads and writes of a run, as cachegrind counts them."""
    command = [
        "valgrind",
        "--tool=cachegrind",
        "--cache-sim=yes",
        "--cachegrind-out-file=/dev/null",
        f"./{program.name}",
    ]
    said = subprocess.run(command, cwd=program.parent, capture_output=True, text=True, check=True).stderr
    refs = re.search(r"I +refs: +([\d,]+)[\s\S]*D +refs: +[\d,]+ +\(([\d,]+) rd +\+ ([\d,]+) wr\)", said)
    assert refs is not None, said
    instructions, reads, writes = (int(number.replace(",", "")) for number in refs.groups())
    return instructions, reads, writes


def test_a_dose_costs_one_more_access_for_each_event_and_no_instruction(workshop):
    shop = workshop({"f": {"enter": "f"}}, form="patchable", doses=4)
    shop.write(
        "prog.c",
        "__attribute__((noinline)) int f(int n) { return n + 1; }\n"
        "int main(void) { int n = 0; for (int i = 0; i < 10000; i++) n = f(n); return n != 10000; }\n",
    )
    shop.call("-O2", "prog.c", "-o", "prog")
    program = shop.folder / "prog"
    counted = []
    for dose in (0, 1, 2, 3, 4):
        shop.patch("prog", ["f"] if dose else [], dose=max(dose, 1))
        counted.append(references(program))
    none = counted[0]
    for dose, (instructions, reads, writes) in enumerate(counted):
        assert (reads - none[1], writes - none[2]) == (10_000 * dose, 0)  # an access that modifies is a read there
        assert instructions == none[0]


def test_the_dummies_of_a_site_are_in_lines_of_their_own(workshop):
    shop = workshop({"f": {"enter": "f*"}}, form="patchable", doses=3)
    names = [f"f{number}" for number in range(20)]
    shop.write("prog.c", "\n".join(f"void {name}(void) {{}}" for name in names) + "\nint main(void) { return 0; }\n")
    shop.call("-O0", "-no-pie", "-fno-pie", "prog.c", "-o", "prog")
    for place in read_places(shop.folder / "prog"):
        ends = place.address, place.address + 7, place.address + 14
        targets = [
            end + 7 + struct.unpack("<i", place.counting[7 * dose + 3 : 7 * dose + 7])[0]
            for dose, end in enumerate(ends)
        ]
        assert len({target // 64 for target in targets}) == 3
        assert len({target % 64 for target in targets}) == 1


def test_without_doses_nothing_changes(workshop):
    software = {"f": parse_event({"enter": "f"})}
    assert settings_text(software, (), (), form="patchable", doses=1) == settings_text(
        software, (), (), form="patchable"
    )
    assert "doses" not in settings_text(software, (), (), form="patchable")
    shop = workshop({"f": {"enter": "f"}}, form="patchable")
    shop.write("prog.c", "int f(int n) { return n; }\nint main(void) { return f(0); }\n")
    shop.call("-O0", "prog.c", "-o", "prog")
    (place,) = read_places(shop.folder / "prog")
    assert place.lengths == (7,)
    assert b"__unperturbed_dose" not in (shop.folder / "prog").read_bytes()
    with pytest.raises(RunError, match="holds at most 1 increment, not 2"):
        patch(shop.folder / "prog", [place], [0], dose=2)


@pytest.mark.parametrize("lengths", [(7, 6), (6, 8), (0, 14), (2, 12), (255, 7)], ids=str)
def test_a_damaged_list_of_doses_is_refused(workshop, lengths):
    shop = workshop({"f": {"enter": "f"}}, form="patchable", doses=2)
    shop.write("prog.c", "int f(int n) { return n; }\nint main(void) { return f(0); }\n")
    shop.call("-O0", "prog.c", "-o", "prog")
    program = shop.folder / "prog"
    with program.open("rb") as file:
        at = ELFFile(file).get_section_by_name(SECTION)["sh_offset"]
    with program.open("r+b") as file:
        file.seek(at + 13)
        file.write(bytes(lengths))
    with pytest.raises(RunError, match=r"is damaged|does not recognise"):
        read_places(program)


ARM = """\
long n;
__attribute__((noinline)) long f(long k) { return k + 1; }
long g(long k) { for (long i = 0; i < k; i++) n += i; return n; }
long start(void) { return f(1) + g(3); }
"""
ARM_SOFTWARE = {
    "plain": {"enter": "f"},
    "weighted": {"enter": "g", "add": "k"},
    "exact": {"loop": "g", "threads": "exact"},
    "exact and weighted": {"return": "g", "add": "k + 1", "threads": "exact"},
}


@lld
@pytest.mark.parametrize("architecture", ["armv8-a", "armv8.1-a"])
def test_places_hold_all_doses_on_arm(workshop, architecture):
    compiler = "clang --target=aarch64-linux-gnu"
    shop = workshop(ARM_SOFTWARE, compilers={"cc": compiler}, runtime=(), form="patchable", doses=3)
    shop.write("lib.c", ARM)
    flags = ("-O2", "-fPIC", f"-march={architecture}", "-shared", "-nostdlib", "-fuse-ld=lld")
    shop.call(*flags, "lib.c", "-o", "lib.so")
    places = shop.patch("lib.so", dose=2)
    instructions = {0: 3, 1: 3, 2: 1 if architecture == "armv8.1-a" else 4, 3: 1 if architecture == "armv8.1-a" else 4}
    assert {place.metric for place in places} == set(instructions)
    content = (shop.folder / "lib.so").read_bytes()
    for place in places:
        assert place.lengths == (4 * instructions[place.metric],) * 3
        end = place.offset + len(place.idle)
        one = len(place.idle) // 3
        assert content[place.offset : end] == place.counting[: 2 * one] + place.idle[2 * one :]
        assert len({place.counting[:one], place.counting[one : 2 * one], place.counting[2 * one :]}) == 3
