"""Patchable builds: what is patched counts exactly, what is not patched counts nothing, and nothing else differs."""

from __future__ import annotations

import shutil
import struct
import subprocess

import pytest
from elftools.elf.elffile import ELFFile

from tests.instrument.conftest import own_counts
from unperturbed.errors import RunError
from unperturbed.instrument.binaries.places import SECTION, patch, read_places

clang = pytest.mark.skipif(not shutil.which("clang++"), reason="clang is not installed")
lld = pytest.mark.skipif(
    not shutil.which("clang++") or not shutil.which("ld.lld"), reason="clang or lld is not installed"
)
COMPILERS = ["g++", pytest.param("clang++", marks=clang)]

TEMPLATES = """\
#include <cstdio>
#include <vector>
#include <algorithm>
inline long own_turns, own_folds;
template <class T> struct Mill {
    T state;
    T turn(int n) { own_turns++; for (int i = 0; i < n; i++) { own_folds++; fold(i); } return state; }
    void fold(int i) { state = state * 3 + i; }
};
int other(int n);
"""
MAIN = """\
#include "mill.h"
static int never_called(int n) { Mill<short> mill{1}; return mill.turn(n); }
int (*kept)(int) = nullptr;
int main() {
    Mill<int> a{3}; Mill<long> b{4}; long sum = 0;
    for (int i = 0; i < 100; i++) sum += a.turn(i % 7) + b.turn(i % 5) + other(i % 3);
    if (kept) sum += never_called(1);
    std::printf("%ld\\nown %ld\\nown %ld\\n", sum, own_turns, own_folds);
}
"""
OTHER = '#include "mill.h"\nint other(int n) { Mill<int> a{5}; Mill<long> b{6}; return a.turn(n) + b.turn(n + 1); }\n'
SOFTWARE = {"turns": {"enter": "Mill::turn"}, "folds": {"loop": "Mill::turn"}, "calls": {"call": "Mill::fold"}}


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(
    "flags",
    [
        ("-O0",),
        ("-O2", "-ffunction-sections", "-Wl,--gc-sections"),
        ("-O3", "-flto"),
        pytest.param(("-O2", "-static"), marks=pytest.mark.long),
        pytest.param(
            ("-O2", "-fuse-ld=lld", "-ffunction-sections", "-Wl,--gc-sections"), marks=[lld, pytest.mark.long]
        ),
        pytest.param(("-Os", "-g", "-gsplit-dwarf", "-fPIC"), marks=pytest.mark.long),
    ],
    ids=" ".join,
)
def test_templates_in_several_objects_count_exactly(workshop, compiler, flags):
    shop = workshop(SOFTWARE, compilers={"cxx": compiler}, form="patchable")
    for name, text in {"mill.h": TEMPLATES, "main.cc": MAIN, "other.cc": OTHER}.items():
        shop.write(name, text)
    shop.call("-std=c++17", *flags, "main.cc", "other.cc", "-o", "prog", cxx=True)
    subprocess.run(["strip", "-s", "prog"], cwd=shop.folder, check=True)
    untouched = (shop.folder / "prog").read_bytes()
    output, counts = shop.run()
    turns, folds = own_counts(output)
    assert counts == {"turns": 0, "folds": 0, "calls": 0}
    shop.patch("prog", ["turns", "calls"])
    assert shop.run() == (output, {"turns": turns, "folds": 0, "calls": folds})
    shop.patch("prog", ["folds"])
    assert shop.run() == (output, {"turns": 0, "folds": folds, "calls": 0})
    shop.patch("prog", [])
    assert (shop.folder / "prog").read_bytes() == untouched


def test_libraries_loaded_at_start_and_later_count_exactly(workshop):
    shop = workshop({"steps": {"enter": "step*"}, "ends": {"return": "step*"}}, form="patchable")
    shop.write("a.c", "int step_a(int n) { return n + 1; }\n")
    shop.write("b.c", "int step_b(int n) { return n + 2; }\n")
    shop.write(
        "prog.c",
        "#include <dlfcn.h>\n#include <stdio.h>\nint step_a(int);\nint main(void) { int n = 0;\n"
        "for (int i = 0; i < 10; i++) n = step_a(n);\n"
        'void *b = dlopen("./libb.so", RTLD_NOW); int (*step)(int) = (int (*)(int))dlsym(b, "step_b");\n'
        'for (int i = 0; i < 5; i++) n = step(n);\nprintf("%d\\n", n); return 0; }\n',
    )
    shop.call("-O2", "-fPIC", "-c", "a.c", "-o", "a.o")
    subprocess.run(["ar", "rc", "liba.a", "a.o"], cwd=shop.folder, check=True)
    shop.call("-shared", "-o", "liba.so", "-Wl,--whole-archive", "liba.a", "-Wl,--no-whole-archive")
    shop.call("-O2", "-shared", "-fPIC", "-o", "libb.so", "b.c")
    shop.call("-O2", "-rdynamic", "prog.c", "-o", "prog", "-L.", "-la", "-ldl")
    assert read_places(shop.folder / "prog") == ()
    assert shop.run() == ("20\n", {"steps": 0, "ends": 0})
    for file in ("liba.so", "libb.so"):
        assert len(shop.patch(file, ["steps"])) == 2
    assert shop.run() == ("20\n", {"steps": 15, "ends": 0})
    shop.patch("libb.so", ["ends"])
    assert shop.run() == ("20\n", {"steps": 10, "ends": 5})


def test_a_file_that_changed_since_it_was_built_is_refused(workshop):
    shop = workshop({"f": {"enter": "f"}}, form="patchable")
    shop.write("prog.c", "int f(int n) { return n; }\nint main(void) { return f(0); }\n")
    shop.call("-O0", "prog.c", "-o", "prog")
    program = shop.folder / "prog"
    (place,) = read_places(program)
    with program.open("r+b") as file:
        file.seek(place.offset)
        file.write(b"\xcc")
    with pytest.raises(RunError, match="has changed since the file was built"):
        patch(program, [place], [0])
    with pytest.raises(RunError, match="neither the no-op nor the counting code"):
        read_places(program)


@pytest.mark.parametrize("header", [(1, 0), (1, 2), (1, 16), (1, 5000), (2, 7)], ids=str)
def test_a_damaged_list_is_refused_with_one_message(workshop, header):
    shop = workshop({"f": {"enter": "f"}}, form="patchable")
    shop.write("prog.c", "int f(int n) { return n; }\nint main(void) { return f(0); }\n")
    shop.call("-O0", "prog.c", "-o", "prog")
    program = shop.folder / "prog"
    with program.open("rb") as file:
        at = ELFFile(file).get_section_by_name(SECTION)["sh_offset"]
    with program.open("r+b") as file:
        file.seek(at + 8)
        file.write(struct.pack("<HH", *header))
    with pytest.raises(RunError, match="is damaged" if header != (1, 2) else "does not recognise"):
        read_places(program)
    with program.open("r+b") as file:
        file.seek(at + 8)
        file.write(struct.pack("<HH", 1, 7) + b"\x90" * 7)
    with pytest.raises(RunError, match="an instruction that unperturbed does not recognise"):
        read_places(program)


def test_files_without_places_have_none(tmp_path):
    assert read_places(shutil.copy("/bin/true", tmp_path / "true")) == ()
    (tmp_path / "text").write_text("no program")
    with pytest.raises(RunError, match="cannot read the file's sections"):
        read_places(tmp_path / "text")
