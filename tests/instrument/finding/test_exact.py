"""Exact counting: many threads at one site lose nothing, at the price of one locked instruction."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

THREADS = 8
EVENTS = 100_000

TEXT = f"""\
#include <pthread.h>
#include <stdio.h>
static volatile int sink;
static void hit(int n) {{ sink = n; }}
static void *work(void *unused) {{
    for (int i = 0; i < {EVENTS}; i++) hit(i & 7);
    return unused;
}}
int main(void) {{
    pthread_t thread[{THREADS}];
    for (int i = 0; i < {THREADS}; i++) pthread_create(&thread[i], 0, work, 0);
    for (int i = 0; i < {THREADS}; i++) pthread_join(thread[i], 0);
    puts("done");
    return 0;
}}
"""
SOFTWARE = {
    "plain": {"enter": "hit"},
    "exact": {"enter": "hit", "threads": "exact"},
    "exact by call": {"call": "hit", "threads": "exact"},
    "exact by loop": {"loop": "work", "threads": "exact"},
    "exact weight": {"enter": "hit", "add": "n", "threads": "exact"},
    "exact constant": {"enter": "hit", "add": "1000", "threads": "exact"},
    "exact big": {"enter": "hit", "add": "-5000000000LL", "threads": "exact"},
}
clang = pytest.mark.skipif(not shutil.which("clang"), reason="clang is not installed")
WAYS = [
    ("gcc", "-O0"),
    ("gcc", "-O2"),
    ("gcc", "-O3", "-flto"),
    ("gcc", "-O2", "-masm=intel"),
    ("gcc", "-m32", "-O2"),
    ("g++", "-O2"),
    pytest.param(("clang", "-O2"), marks=clang),
    pytest.param(("clang", "-O2", "-masm=intel"), marks=clang),
    pytest.param(("clang", "-O2", "-fno-integrated-as"), marks=clang),
]


def links(compiler: str, flag: str) -> bool:
    words = [compiler, flag, "-x", "c", "-", "-o", "/dev/null"]
    return (
        subprocess.run(words, input=b"int main(void) { return 0; }", capture_output=True, check=False).returncode == 0
    )


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_threads_that_collide_lose_nothing(workshop, way):
    compiler, *flags = way
    if "-m32" in flags and not links(compiler, "-m32"):
        pytest.skip("there is no C library for -m32")
    cxx = compiler == "g++"
    shop = workshop(SOFTWARE, compilers={"cxx" if cxx else "cc": compiler})
    shop.write("prog.c", TEXT)
    shop.call(*flags, "-pthread", "prog.c", "-o", "prog", cxx=cxx)
    output, counts = shop.run()
    assert shop.report.skipped == {}
    assert output == "done\n"
    events = THREADS * EVENTS
    weight = THREADS * sum(i & 7 for i in range(EVENTS))
    assert 0 < counts.pop("plain") <= events
    assert counts == {
        "exact": events,
        "exact by call": events,
        "exact by loop": events,
        "exact weight": weight,
        "exact constant": 1000 * events,
        "exact big": -5000000000 * events,
    }


def test_it_is_one_locked_instruction(workshop):
    shop = workshop({"exact": {"enter": "hit", "threads": "exact"}})
    shop.write("prog.c", "int hit(int n) { return n; }\n")
    shop.call("-O2", "-c", "prog.c")
    listing = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", "prog.o"], cwd=shop.folder, capture_output=True, text=True, check=True
    )
    body = re.search(r"<hit>:\n(.*?)(?:\n\n|\Z)", listing.stdout, re.DOTALL)[1]
    instructions = [line.split("\t")[1].split()[0] for line in body.splitlines()]
    assert sorted(instructions) == ["lock", "mov", "ret"]
    assert "lock incq" in body
