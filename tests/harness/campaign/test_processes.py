"""Campaigns of programs with several processes: sums, traces of each, and what valgrind counts of the same tree."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness.phases_campaign import unperturbed
from unperturbed.collectors.data import Trace
from unperturbed.collectors.sources.dumps import executable

TREE = """
#define _GNU_SOURCE
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile long sum;
static char area[1 << 20];
void step(int n) { for (int i = 0; i < 60000; i++) { sum += i * n; area[(i * 64) % sizeof area] = 1; } }
int main(int n, char **v) {
    if (n > 1) { for (int i = 0; i < atoi(v[1]); i++) step(i); _exit(0); }
    for (int i = 0; i < 20; i++) step(i);
    for (int child = 0; child < 2; child++) {
        pid_t pid; char *words[] = {"child", child ? "60" : "30", 0};
        if (posix_spawn(&pid, v[0], 0, 0, words, environ)) return 9;
        waitpid(pid, 0, 0);
    }
    for (int i = 0; i < 20; i++) step(i);
    return 0; }
"""
_LOADING = 400_000
"""Most instructions before the first record of each process: the loading of the program and its libraries."""


def _spec(folder: Path, **measure: Any) -> Path:
    (folder / "src").mkdir()
    (folder / "src" / "tree.c").write_text(TREE)
    content = {
        "name": "tree",
        "program": {"source": "src", "build": "{cc} -O1 tree.c -o tree", "run": "{build}/tree"},
        "measure": {"software": {"steps": {"enter": "step"}}, "interval": {"records": 60}, **measure},
        "campaign": {"baseline_runs": 5, "runs": 3, "subsets": {"counted": ["steps"]}},
    }
    spec = folder / "tree.yaml"
    spec.write_text(json.dumps(content))
    return spec


def _runs(folder: Path) -> list[Path]:
    return [run for run in sorted((folder / "campaigns" / "tree" / "runs").glob("0*")) if run.name != "0000"]


@pytest.mark.parametrize("builds", ["one", "separate"])
def test_simulated_counts_of_a_tree_are_those_of_valgrind(tmp_path: Path, builds: str) -> None:
    spec = _spec(tmp_path, source="simulated", hardware=["PAPI_TOT_INS", "PAPI_L1_DCM"])
    content = json.loads(spec.read_text())
    content["campaign"]["builds"] = builds
    spec.write_text(json.dumps(content))
    done = unperturbed(tmp_path, "run", spec)
    assert done.returncode in (0, 4), done.stderr
    assert "Each run has 3 processes, whose counts are added." in " ".join(done.stderr.split() + done.stdout.split())
    subprocess.run(["gcc", "-O1", "src/tree.c", "-o", "plain"], cwd=tmp_path, check=True)
    valgrind = ["valgrind", "--tool=callgrind", "--trace-children=yes", f"--callgrind-out-file={tmp_path}/all.%p"]
    subprocess.run([*valgrind, "./plain"], cwd=tmp_path, check=True, capture_output=True)
    plain = sum(
        int(re.findall(r"^totals: (\d+)", file.read_text(), re.MULTILINE)[-1]) for file in tmp_path.glob("all.*")
    )
    lengths = set()
    for run in _runs(tmp_path):
        trace = Trace.read(run / "trace.parquet")
        counted, told = int(trace["PAPI_TOT_INS"].sum()), trace.attributes["processes"]
        steps = int(trace["steps"].sum()) if "steps" in trace.metrics else 0
        assert steps in (0, 130)
        assert 0 < plain + steps - counted < 3 * _LOADING, (plain, counted)
        assert [process["image"] for process in told] == ["tree", "tree", "tree"]
        assert sum(process["totals"]["PAPI_TOT_INS"] for process in told) == counted
        parts = [Trace.read(file) for file in sorted((run / "processes").iterdir())]
        assert [len(part) for part in parts] == [process["intervals"] for process in told]
        lengths.add(tuple(len(part) for part in parts))
    for of_one in zip(*lengths, strict=True):  # a round moves the ends of intervals, and waiting makes none
        assert max(of_one) - min(of_one) <= 2, lengths


@pytest.mark.parametrize("sampler", ["inside", "outside"])
def test_kernel_counts_of_a_tree(tmp_path: Path, sampler: str) -> None:
    spec = _spec(
        tmp_path,
        source="perf_event",
        hardware=["perf::task-clock", "perf::page-faults"],
        interval="1 ms",
        sampler=sampler,
    )
    done = unperturbed(tmp_path, "run", spec)
    assert done.returncode in (0, 4), done.stderr
    for run in _runs(tmp_path):
        trace = Trace.read(run / "trace.parquet")
        assert int(trace["perf::task-clock"].sum()) > 0
        assert ("processes" in trace.attributes) == (sampler == "inside")
        assert "steps" not in trace.metrics or int(trace["steps"].sum()) == 130


def test_the_main_thread_alone_is_refused_where_the_simulator_counts_all(tmp_path: Path) -> None:
    spec = _spec(tmp_path, source="simulated", hardware=["PAPI_TOT_INS"], threads="main", software={})
    (tmp_path / "src" / "tree.c").write_text(
        TREE.replace("#include <spawn.h>", "#include <pthread.h>\n#include <spawn.h>").replace("int main(", "int tree(")
        + "static void *act(void *none) { for (int i = 0; i < 200; i++) step(i); return none; }\n"
        "int main(void) { pthread_t t; pthread_create(&t, 0, act, 0); act(0); pthread_join(t, 0); return 0; }\n"
    )
    content = json.loads(spec.read_text())
    content["campaign"] = {"baseline_runs": 5, "retries": 0}
    spec.write_text(json.dumps(content))
    done = unperturbed(tmp_path, "run", spec)
    assert done.returncode == 1, done.stderr
    assert "`threads: main`: the simulator counts all threads of a process" in done.stderr


@pytest.mark.parametrize("command", ["./tree", "env -i ./tree"])
def test_processes_without_a_sampler_are_told(tmp_path: Path, command: str) -> None:
    (tmp_path / "tree.c").write_text(TREE)
    static = ["-static"] if command == "./tree" else []
    subprocess.run(["gcc", "-O1", *static, "tree.c", "-o", "tree"], cwd=tmp_path, check=True)
    (tmp_path / "all.sh").write_text(
        f"#!/bin/sh\ni=0\nwhile [ $i -lt 9000 ]; do i=$((i+1)); done\n{command}\necho $i\n"
    )
    (tmp_path / "all.sh").chmod(0o755)
    counts = ("--source", "perf_event", "--metrics", "perf::task-clock", "--runs", "3", "--baseline-runs", "5")
    done = unperturbed(tmp_path, "run", *counts, "--name", "all", "--interval", "1 ms", "--", "./all.sh")
    assert done.returncode in (0, 4), done.stderr
    said = " ".join(done.stdout.split())
    assert re.search(r"Processes without a sampler used \d\d % of the CPU time, and their events are missing", said)
    assert "use `sampler: outside`" in said


@pytest.mark.long
def test_a_shell_that_waits_under_the_simulator_does_not_block_the_sampler(tmp_path: Path) -> None:
    """Valgrind keeps a tick back until the program executes again, and dash then calls _exit."""
    (tmp_path / "work.sh").write_text("#!/bin/sh\nseq 1 60000 | sort -r | cksum\nseq 1 60000 | cksum\n")
    (tmp_path / "work.sh").chmod(0o755)
    spec = tmp_path / "work.yaml"
    content = {
        "name": "work",
        "program": {"run": str(tmp_path / "work.sh")},
        "measure": {"source": "simulated", "hardware": ["PAPI_TOT_INS"], "interval": {"records": 60}},
        "campaign": {"baseline_runs": 5, "retries": 0},
    }
    spec.write_text(json.dumps(content))
    done = unperturbed(tmp_path, "run", spec)
    assert done.returncode == 0, done.stderr


def test_processes_with_the_same_number_are_refused_where_the_simulator_loses_one(tmp_path: Path) -> None:
    apart = "unshare --user --map-root-user --fork --pid"
    if subprocess.run([*apart.split(), "true"], check=False, capture_output=True).returncode:
        pytest.skip("this host has no PID namespaces")
    (tmp_path / "work.sh").write_text(f"#!/bin/sh\nseq 1 90000 | cksum\n{apart} seq 1 90000\n{apart} seq 1 90000\n")
    (tmp_path / "work.sh").chmod(0o755)
    simulated = ("--source", "simulated", "--metrics", "PAPI_TOT_INS", "--runs", "3", "--baseline-runs", "5")
    done = unperturbed(tmp_path, "run", *simulated, "--name", "work", "--", "./work.sh")
    assert done.returncode == 1, done.stderr
    said = " ".join(done.stderr.split())
    assert "two processes of the run had the number 1 (the first one was seq)" in said


@pytest.mark.parametrize(
    ("children", "source", "metric"),
    [
        (250, "perf_event", "perf::task-clock"),
        pytest.param(2000, "perf_event", "perf::task-clock", marks=pytest.mark.long),
        pytest.param(20, "simulated", "PAPI_TOT_INS", marks=pytest.mark.long),
    ],
)
def test_many_short_children_are_all_counted(tmp_path: Path, children: int, source: str, metric: str) -> None:
    """Fifty at a time, which begin and end while others are counted."""
    (tmp_path / "many.sh").write_text(
        f"#!/bin/sh\ni=0\nwhile [ $i -lt {children} ]; do\n"
        "  i=$((i+1)); /bin/true &\n  [ $((i % 50)) -eq 0 ] && wait\ndone\nwait\n"
    )
    (tmp_path / "many.sh").chmod(0o755)
    spec = tmp_path / "many.yaml"
    content = {
        "name": "many",
        "program": {"run": str(tmp_path / "many.sh")},
        "measure": {"source": source, "hardware": [metric]},
        "campaign": {"baseline_runs": 5, "retries": 0},
    }
    spec.write_text(json.dumps(content))
    done = unperturbed(tmp_path, "run", spec, "--no-check")
    assert done.returncode == 0, done.stderr
    runs = [path for path in sorted((tmp_path / "campaigns/many/runs").glob("0*")) if path.name != "0000"]
    assert len(runs) == 5
    for run in runs:
        trace = Trace.read(run / "trace.parquet")
        told = trace.attributes["processes"]
        assert sum(process["image"] == "true" for process in told) == children
        assert len(list((run / "processes").iterdir())) == len(told)
        assert sum(process["totals"][metric] for process in told) == pytest.approx(trace[metric].sum(), rel=0.001)


_LIMITED = ("prlimit", "--stack=2097152")  # of which the kernel gives a quarter to arguments and environment


@pytest.mark.skipif(shutil.which("prlimit") is None, reason="no prlimit here (apt-get install util-linux)")
def test_an_environment_with_no_room_for_what_measuring_adds_is_named(tmp_path: Path) -> None:
    environment = {f"V{number}": "x" * 100_000 for number in range(5)}
    environment["LAST"] = "x" * (512 * 1024 - 500_000 - 1600)
    (tmp_path / "work.sh").write_text("#!/bin/sh\ni=0\nwhile [ $i -lt 9000 ]; do i=$((i+1)); done\n")
    (tmp_path / "work.sh").chmod(0o755)
    content = {
        "name": "large",
        "program": {"run": str(tmp_path / "work.sh"), "environment": environment},
        "measure": {"source": "perf_event", "hardware": ["perf::task-clock"], "interval": "1 ms"},
        "campaign": {"baseline_runs": 5},
    }
    (tmp_path / "large.yaml").write_text(json.dumps(content))
    tool = Path(sys.executable).with_name("unperturbed")
    command = [*_LIMITED, tool, "run", tmp_path / "large.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert "pilot run" in done.stderr
    assert "all together are longer than 512 KiB, with the few KiB that measuring adds" in done.stderr


_STRICT = """
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
static volatile long sum;
int main(void) {
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    for (long i = 0; i < 60000000; i++) sum += i;
    syscall(SYS_exit, 0); }
"""


_WIDE = """
#include <stdlib.h>
#include <string.h>
int main(void) {  // as a program with AVX-512 on a processor that has it: only valgrind refuses it
    volatile long sum = 0;
    for (long i = 0; i < 60000000; i++) sum += i;
    const char *loaded = getenv("LD_PRELOAD");
    if (loaded && strstr(loaded, "vgpreload")) __builtin_trap();
    return 0; }
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a program to another group")
def test_programs_that_admit_no_sampler_are_named(tmp_path: Path) -> None:
    (tmp_path / "tree.c").write_text(TREE)
    (tmp_path / "strict.c").write_text(_STRICT)
    (tmp_path / "wide.c").write_text(_WIDE)
    for name, *flags in (("tree",), ("strict",), ("wide",), ("my static tree", "-static")):
        source = f"{name}.c" if name in ("strict", "wide") else "tree.c"
        subprocess.run(["gcc", "-O1", *flags, source, "-o", name], cwd=tmp_path, check=True)
    os.chown(tmp_path / "tree", -1, 65534)
    (tmp_path / "tree").chmod(0o2755)
    (tmp_path / "all.sh").write_text("#!/bin/sh\ni=0\nwhile [ $i -lt 20000 ]; do i=$((i+1)); done\n./tree 400\n")
    (tmp_path / "all.sh").chmod(0o755)
    (tmp_path / "ignores.sh").write_text("#!/bin/sh\n./strict\necho ended\n")
    (tmp_path / "ignores.sh").chmod(0o755)
    kernel = ("--source", "perf_event", "--metrics", "perf::task-clock", "--interval", "1 ms")
    simulated = ("--source", "simulated", "--metrics", "PAPI_TOT_INS")
    for counters, program, message in (
        (simulated, ["./all.sh"], "the simulator does not execute ./tree, which is set-uid or set-gid"),
        (kernel, ["./tree", "400"], "/tree is set-uid or set-gid: the dynamic linker ignores LD_PRELOAD for it"),
        (simulated, ["./my static tree", "400"], "/my static tree is linked statically"),
        (simulated, ["./wide"], "does not know an instruction of the program, such as one of AVX-512"),
        (kernel, ["./ignores.sh"], "a process that the program started was killed (Segmentation fault)"),
        (kernel, ["./strict"], "If the program restricts its system calls (seccomp), the kernel ends it"),
    ):
        done = unperturbed(tmp_path, "run", "--name", "x", "--no-check", *counters, "--", *program)
        assert done.returncode == 1
        assert message in done.stderr


def test_the_name_of_a_simulated_executable_may_have_spaces(tmp_path: Path) -> None:
    dump = tmp_path / "dump"
    for command, objects, name in (
        ("/my dir/my tool some words", ("/my dir/my tool",), "my tool"),
        ("my dir/my tool", ("/here/my dir/my tool", "/lib/libc.so.6"), "my tool"),
        ("./my tool -a", ("/here/my tool",), "my tool"),
        ("/bin/sh my tool", ("/usr/bin/dash",), "sh"),
        ("ls /lib/libc.so.6", ("/usr/bin/ls", "/lib/libc.so.6"), "ls"),
        ("/usr/bin/sort  two", ("/usr/bin/sort",), "sort"),
    ):
        lines = "".join(f"ob=({number}) {path}\n" for number, path in enumerate(objects))
        dump.write_text(f"version: 1\ncmd:  {command}\n{lines}")
        assert executable(dump) == name
