"""Processes that a program starts: each has records of its own inside, and the observer's counters outside."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from tests.collectors.runtime.programs import BUSY, COUNTED, compile_program, sample
from unperturbed.collectors.records.file import Mark, Records, Setup, further_record_files, read_record_file
from unperturbed.collectors.runtime import build_preload

HEAD = (
    "#define _GNU_SOURCE\n"
    + COUNTED
    + BUSY
    + "#include <signal.h>\n#include <stdlib.h>\n#include <sys/wait.h>\n#include <unistd.h>\n"
)
Sampler = Literal["inside", "outside"]


def counting(sampler: Sampler, **kwargs: object) -> Setup:
    return Setup("none", 1_000_000, "monotonic", software=2, sampler=sampler, children=True, **kwargs)  # type: ignore[arg-type]


def counted(folder: Path, text: str, sampler: Sampler, **kwargs: object) -> tuple[list[int], list[Records], int]:
    """Return the total of each software metric, the records of all processes, and the exit code."""
    setup = counting(sampler, **kwargs)
    first, done = sample(folder, [str(compile_program(folder, HEAD + text))], setup)
    found = [first, *_further(folder, setup)]
    for records in found:
        assert list(records.rows["whole"]) == list(range(1, len(records.rows) + 1))
        assert (np.diff(records.rows["software"], axis=0) >= 0).all()
    return (
        list(map(int, sum(one.rows["software"][-1] - one.rows["software"][0] for one in found))),
        found,
        done.returncode,
    )


def _further(folder: Path, setup: Setup) -> list[Records]:
    deadline = time.monotonic() + 20
    while True:
        found = [read_record_file(file, setup, grows=True) for file in further_record_files(folder / "record")]
        if all(_is_over(one.owner) for one in found) or time.monotonic() > deadline:
            return [read_record_file(file, setup, grows=True) for file in further_record_files(folder / "record")]
        time.sleep(0.05)


def _is_over(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] in "ZX"
    except OSError:
        return True


WAYS = {
    "fork": "if (fork() == 0) { act(); exit(0); } wait(0);",
    "fork and _exit": "if (fork() == 0) { act(); _exit(0); } wait(0);",
    "fork in a thread": "pthread_t t; pthread_create(&t, 0, member, 0); pthread_join(t, 0);",
    "double fork": "if (fork() == 0) { setsid(); if (fork() == 0) { act(); _exit(0); } _exit(0); } wait(0);",
    "outlives its parent": "if (fork() == 0) { busy(60000000); act(); _exit(0); }",
    "a daemon that closes everything": "if (fork() == 0) { for (int i = 0; i < 1024; i++) close(i); act(); _exit(0); } "
    "wait(0);",
    "vfork and exec": 'if (vfork() == 0) { execl("/proc/self/exe", "program", "child", (char *)0); _exit(9); } '
    "wait(0);",
    "posix_spawn": 'pid_t p; char *words[] = {"program", "child", 0}; '
    'posix_spawn(&p, "/proc/self/exe", 0, 0, words, environ); wait(0);',
    "a shell": 'if (system("exec \\"$PROGRAM\\" child")) return 8;',
}


@pytest.mark.parametrize("sampler", ["inside", "outside"])
@pytest.mark.parametrize("way", WAYS)
def test_children_of_every_making_are_counted(tmp_path: Path, way: str, sampler: Sampler) -> None:
    text = f"""
#include <pthread.h>
#include <spawn.h>
static void act(void) {{ for (int i = 0; i < 100; i++) {{ COUNT(1); busy(300000); }} }}
static void *member(void *unused) {{ if (fork() == 0) {{ act(); return unused; }} wait(0); return unused; }}
int main(int n, char **v) {{
    (void)v; (void)member;
    if (n > 1) {{ act(); return 0; }}
    setenv("PROGRAM", "{tmp_path}/program", 1);
    COUNT(0); busy(3000000); {WAYS[way]}
    COUNT(0); busy(3000000); return 7; }}
"""
    totals, found, code = counted(tmp_path, text, sampler)
    assert code == 7
    assert totals == [2, 100]
    assert found[0].state == "finished"
    if sampler == "inside":
        assert {one.image for one in found[1:]} == {"exe" if way in ("vfork and exec", "posix_spawn") else "program"}
        assert {one.state for one in found[1:]} == {"finished"}


@pytest.mark.parametrize("sampler", ["inside", "outside"])
def test_a_child_that_is_killed_keeps_its_records(tmp_path: Path, sampler: Sampler) -> None:
    text = """
int main(void) { pid_t p = fork(); if (p == 0) for (;;) { COUNT(1); busy(100000); }
    busy(200000000); kill(p, SIGKILL); int status; wait(&status); COUNT(0); return WTERMSIG(status); }
"""
    totals, found, code = counted(tmp_path, text, sampler)
    assert code == signal.SIGKILL
    assert totals[0] == 1
    assert totals[1] > 1
    if sampler == "inside":
        assert [one.state for one in found] == ["finished", "attached"]


def test_a_file_grows_with_the_records_of_its_process(tmp_path: Path) -> None:
    text = "int main(void) { if (fork() == 0) { for (int i = 0; i < 400; i++) { COUNT(1); busy(4000000); } } wait(0); }"
    totals, found, _ = counted(tmp_path, text, "inside", capacity=100_000, os_metrics=("bytes_read", "user_time_us"))
    assert totals == [0, 400]
    assert len(found[1].rows) * found[1].rows.dtype.itemsize > 1 << 16
    assert found[1].lost == 0


def test_a_file_that_may_not_grow_counts_what_is_lost(tmp_path: Path) -> None:
    text = "int main(void) { if (fork() == 0) { for (int i = 0; i < 100; i++) { COUNT(1); busy(4000000); } } wait(0); }"
    setup = counting("inside", capacity=20)
    sample(tmp_path, [str(compile_program(tmp_path, HEAD + text))], setup)
    (child,) = _further(tmp_path, setup)
    assert (len(child.rows), child.lost > 10) == (20, True)


def test_a_program_that_replaces_itself_goes_on_in_another_file(tmp_path: Path) -> None:
    text = """
int main(int n, char **v) { COUNT(0); busy(30000000); if (n < 2) execl(v[0], v[0], "again", (char *)0);
    COUNT(1); busy(30000000); return 0; }
"""
    totals, found, code = counted(tmp_path, text, "inside")
    assert code == 0
    assert totals == [2, 1]
    assert Mark.EXEC not in found[0].marks
    assert found[0].owner == found[1].owner


def test_programs_that_were_not_built_here_are_counted_by_the_preloaded_runtime(tmp_path: Path) -> None:
    setup = Setup("none", 1_000_000, "monotonic", os_metrics=("user_time_us",), program="sh", children=True)
    line = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; cksum < /proc/self/exe; (exit 4); exit 3"
    environment = {"LD_PRELOAD": str(build_preload("gcc"))}
    records, done = sample(tmp_path, ["/bin/sh", "-c", line], setup, environment)
    assert (done.returncode, records.state, records.image) == (3, "finished", "sh")
    assert {"cksum", "sh"} == {one.image for one in _further(tmp_path, setup)}


def test_a_process_that_can_make_no_file_is_told(tmp_path: Path) -> None:
    gone = tmp_path.with_name(f"{tmp_path.name}-gone")
    text = f'''#include <stdio.h>
int main(void) {{ busy(1000); if (rename("{tmp_path}", "{gone}")) return 5; if (fork() == 0) busy(1000); return 0; }}'''
    setup = counting("inside")
    program = compile_program(tmp_path, HEAD + text)
    with pytest.raises(FileNotFoundError):
        sample(tmp_path, [str(program)], setup)
    assert Mark.UNCOUNTED in read_record_file(gone / "record", setup).marks


def test_a_limit_on_the_size_of_files_does_not_end_a_child(tmp_path: Path) -> None:
    text = """#include <sys/resource.h>
int main(void) { struct rlimit few = {1000, 1000}; int status; setrlimit(RLIMIT_FSIZE, &few);
    if (fork() == 0) { busy(1000); exit(4); } wait(&status); return WIFEXITED(status) ? WEXITSTATUS(status) : 99; }
"""
    setup = counting("inside")
    records, done = sample(tmp_path, [str(compile_program(tmp_path, HEAD + text))], setup)
    assert (done.returncode, records.marks, _further(tmp_path, setup)) == (4, Mark.UNCOUNTED, [])
