"""Counters of each thread: the compilers' code, in programs and libraries, counts exactly what the program did."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.instrument.binaries.test_places import MAIN, OTHER, SOFTWARE, TEMPLATES
from tests.instrument.conftest import own_counts

clang = pytest.mark.skipif(not shutil.which("clang++"), reason="clang is not installed")
COMPILERS = ["g++", pytest.param("clang++", marks=clang)]
FLAGS = [
    ("-O0",),
    ("-O2", "-fPIC"),
    ("-O3", "-flto"),
    ("-O2", "-static"),
    ("-O2", "-no-pie", "-fno-pie"),
    ("-O2", "-masm=intel"),
]


def refuse(shop, *flags):
    """Require that the compiler refuses a syntax in which it cannot count."""
    shop.write(
        "main.cc",
        "#include <cstdio>\nstruct Mill { int turn(int n) { return n; } };\nint main() { return Mill().turn(0); }\n",
    )
    told = shop.call(*flags, "main.cc", "-o", "prog", cxx=True, code=2).stderr
    assert "AT&T" in told


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
@pytest.mark.parametrize("form", ["counting", "patchable"])
def test_templates_in_several_objects_count_exactly(workshop, compiler, flags, form):
    shop = workshop(SOFTWARE, compilers={"cxx": compiler}, form=form, each=True)
    if compiler == "clang++" and "-masm=intel" in flags:
        refuse(shop, *flags)
        return
    for name, text in {"mill.h": TEMPLATES, "main.cc": MAIN, "other.cc": OTHER}.items():
        shop.write(name, text)
    shop.call("-std=c++17", *flags, "main.cc", "other.cc", "-o", "prog", cxx=True)
    output, counts = shop.run()
    turns, folds = own_counts(output)
    wanted = {"turns": turns, "folds": folds, "calls": folds}
    if form == "counting":
        assert counts == wanted
        return
    assert counts == dict.fromkeys(SOFTWARE, 0)
    shop.patch("prog", ["turns", "calls"])
    assert shop.run() == (output, {"turns": turns, "folds": 0, "calls": folds})
    shop.patch("prog")
    assert shop.run() == (output, wanted)


LIBRARY = "int weigh(int n) { int s = 0; for (int i = 0; i < n; i++) s += i * n; return s; }\n"
OPENING = """\
#include <dlfcn.h>
#include <stdio.h>
int main(void) {
    void *library = dlopen("./libweigh.so", RTLD_NOW);
    if (!library) { fprintf(stderr, "%s\\n", dlerror()); return 3; }
    int (*weigh)(int) = (int (*)(int))dlsym(library, "weigh");
    for (int i = 0; i < 50; i++) weigh(i);
    return 0; }
"""
LINKED = "int weigh(int); int main(void) { for (int i = 0; i < 50; i++) weigh(i); return 0; }\n"


@pytest.mark.parametrize("compiler", ["gcc", pytest.param("clang", marks=clang)])
@pytest.mark.parametrize("form", ["counting", "patchable"])
@pytest.mark.parametrize("way", ["linked", "opened"])
def test_a_library_counts_in_the_threads_own_variables(workshop, compiler, form, way):
    software = {"calls": {"enter": "weigh"}, "turns": {"loop": "weigh"}, "sum": {"enter": "weigh", "add": "n"}}
    shop = workshop(software, compilers={"cc": compiler}, form=form, each=True)
    shop.write("weigh.c", LIBRARY)
    shop.write("main.c", LINKED if way == "linked" else OPENING)
    shop.call("-O2", "-fPIC", "-shared", "weigh.c", "-o", "libweigh.so")
    shop.call("-O2", "main.c", "-rdynamic", "-o", "prog", *(["-L.", "-lweigh"] if way == "linked" else ["-ldl"]))
    if form == "patchable":
        shop.patch("libweigh.so")
    assert shop.run()[1] == {"calls": 50, "turns": 1225, "sum": 1225}


@pytest.mark.parametrize("weight", ["n", "3", "-5000000000LL"])
def test_weights_are_added(workshop, weight):
    shop = workshop({"sum": {"enter": "weigh", "add": weight}}, each=True)
    shop.write("main.c", LIBRARY + LINKED)
    shop.call("-O2", "main.c", "-o", "prog")
    each = {"n": 1225, "3": 150, "-5000000000LL": -250_000_000_000}[weight]
    assert shop.run()[1] == {"sum": each}


def test_one_instruction_counts_in_a_program(workshop):
    shop = workshop({"calls": {"enter": "weigh"}}, each=True)
    shop.write("main.c", LIBRARY)
    shop.call("-O2", "-c", "main.c", "-o", "main.o")
    shown = subprocess.run(["objdump", "-d", "main.o"], cwd=shop.folder, capture_output=True, text=True, check=True)
    function = shown.stdout.partition("<weigh>:")[2].partition("\n\n")[0]
    counting = [line for line in function.splitlines() if "%fs" in line]
    assert len(counting) == 1, shown.stdout
    assert "incq" in counting[0]
