"""The inside sampler in programs that fork, end, open libraries and close descriptors.

What it reads of the operating system.
"""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.collectors.runtime.inside.programs import (
    Build,
    assemble_plain,
    counting,
    plain,
    run,
)
from tests.collectors.runtime.programs import BUSY, COUNTED, INCLUDE, sample
from unperturbed.collectors.records.file import Mark
from unperturbed.collectors.runtime import BOUNDS
from unperturbed.errors import RunError

SPAWNING = {
    "fork": "if (fork() == 0) { busy(3000000); return 5; }",
    "fork and _exit": "if (fork() == 0) { busy(3000000); _exit(5); }",
    "fork and threads": "if (fork() == 0) { pthread_t t; pthread_create(&t, 0, member, 0); pthread_join(t, 0); "
    "return 5; }",
    "fork and exec": 'if (fork() == 0) { execl("/proc/self/exe", "program", "child", (char *)0); _exit(9); }',
    "vfork": 'if (vfork() == 0) { execl("/proc/self/exe", "program", "child", (char *)0); _exit(9); }',
    "posix_spawn": 'char *words[] = {"program", "child", 0}; posix_spawn(&p, "/proc/self/exe", 0, 0, words, environ);',
    "system": 'if (system("exit 3") != 3 << 8) return 8; if (fork() == 0) return 5;',
}


@pytest.mark.parametrize("way", SPAWNING)
def test_children_of_every_making_stay_silent(build: Build, way: str) -> None:
    text = f"""
#define _GNU_SOURCE
{COUNTED}{BUSY}
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
void *member(void *unused) {{ COUNT(0); busy(3000000); return unused; }}
int main(int n, char **v) {{
    pid_t p; int status; (void)v; (void)p;
    if (n > 1) {{ COUNT(0); busy(3000000); return 5; }}
    busy(3000000); {SPAWNING[way]}
    if (wait(&status) < 0 || status != 5 << 8) return 9;
    COUNT(1); busy(3000000); return 0; }}
"""
    records, done = run(build(text), plain(200_000, software=2, threads=True))
    assert (done.returncode, records.state) == (0, "finished")
    assert list(records.rows["software"][-1]) == [0, 1]
    assert records.threads == 1
    assert records.tables == 1
    assert set(records.rows["thread"]) == {0}
    assert (np.diff(records.rows["monotonic_ns"]) > 0).all()


def test_a_program_that_goes_to_the_background_ends_its_records_there(build: Build) -> None:
    text = (
        "#define _GNU_SOURCE\n"
        + COUNTED
        + BUSY
        + "#include <unistd.h>\nint main(void) { busy(20000000); if (daemon(1, 1)) return 3; COUNT(0); "
        "busy(20000000); return 0; }"
    )
    records, done = run(build(text), plain(software=2))
    assert done.returncode == 0
    assert records.state == "attached"
    assert int(records.rows["software"][-1][0]) == 0


def test_forks_of_a_large_program_come_to_an_end_at_short_intervals(build: Build) -> None:
    text = """
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    size_t size = 300UL << 20; char *p = malloc(size);
    memset(p, 1, size);
    for (int i = 0; i < 3; i++) { if (fork() == 0) _exit(p[i] - 1); wait(0); }
    return 0; }
"""
    records, done = run(build(text), plain(50_000))
    assert (done.returncode, records.state) == (0, "finished")


ENDINGS = {
    "_exit": ("_exit(6);", 6, "finished"),
    "quick_exit": ("quick_exit(6);", 6, "attached"),
    "abort": ("abort();", -int(signal.SIGABRT), "attached"),
    "exit in a handler": ("signal(SIGUSR1, leave); raise(SIGUSR1);", 6, "finished"),
    "exit by another thread": ("pthread_t t; pthread_create(&t, 0, out, 0); pthread_join(t, 0);", 6, "attached"),
    "the main thread leaves": ("pthread_t t; pthread_create(&t, 0, on, 0); pthread_exit(0);", 0, "failed"),
}


@pytest.mark.parametrize("way", ENDINGS)
def test_an_end_of_any_kind_keeps_its_records_and_its_exit_code(build: Build, way: str) -> None:
    act, code, state = ENDINGS[way]
    text = f"""
#define _GNU_SOURCE
{COUNTED}{BUSY}
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
void leave(int s) {{ (void)s; exit(6); }}
void *out(void *unused) {{ busy(3000000); exit(6); return unused; }}
void *on(void *unused) {{ busy(60000000); return unused; }}
int main(void) {{ for (int i = 0; i < 20; i++) {{ COUNT(0); busy(1000000); }} {act} return 1; }}
"""
    records, done = run(build(text), plain(300_000, software=2))
    assert (done.returncode, records.state) == (code, state)
    assert int(records.rows["software"][-1][0]) > 5
    assert records.rows["whole"][-1] == len(records.rows)
    if state == "failed":
        with pytest.raises(RunError, match="the main thread ended before the program"):
            assemble_plain(records)


@pytest.mark.parametrize("end", ["return 0;", "_exit(0);"])
@pytest.mark.parametrize(
    ("act", "mark"),
    [
        ("signal(SIGRTMIN + 4, SIG_IGN);", Mark.SIGNAL_TAKEN),
        ("sigset_t all; sigfillset(&all); sigprocmask(SIG_BLOCK, &all, 0);", Mark.SIGNAL_BLOCKED),
        ("", Mark(0)),
    ],
)
def test_what_the_program_did_to_the_signal_is_noted_at_every_end(build: Build, act: str, mark: Mark, end: str) -> None:
    text = f"""
#define _GNU_SOURCE
{BUSY}
#include <signal.h>
#include <unistd.h>
int main(void) {{ busy(3000000); {act} busy(30000000); {end} }}
"""
    records, done = run(build(text), plain(300_000))
    assert (done.returncode, records.state) == (0, "finished")
    assert records.marks == mark


def test_an_exit_in_a_handler_that_blocks_all_signals_is_a_right_end(build: Build) -> None:
    text = f"""
#define _GNU_SOURCE
{BUSY}
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
void leave(int s) {{ (void)s; _exit(0); }}
int main(void) {{
    struct sigaction a = {{0}}; a.sa_handler = leave; sigfillset(&a.sa_mask); sigaction(SIGUSR1, &a, 0);
    busy(30000000); raise(SIGUSR1); return 1; }}
"""
    records, done = run(build(text), plain(20_000_000))
    assert (done.returncode, records.state, records.marks) == (0, "finished", Mark(0))


COUNTING_LIBRARY = """
#include "unperturbed.h"
static uint64_t counts[1] __attribute__((section("unperturbed_sites"), used, aligned(64)));
static const uint32_t metric[1] = {1};
static struct unperturbed_table table = {0, counts, metric, 1, 1};
static void __attribute__((constructor)) enrol(void) { unperturbed_register(&table); }
void hit(void) { (*(volatile uint64_t *)counts)++; }
"""


@pytest.fixture
def counting_library(tmp_path: Path) -> Path:
    (tmp_path / "library.c").write_text(COUNTING_LIBRARY)
    library = tmp_path / "libhit.so"
    sources = [BOUNDS[0], tmp_path / "library.c", BOUNDS[1]]
    subprocess.run(
        ["gcc", "-O1", "-fPIC", "-shared", f"-I{INCLUDE}", *map(str, sources), "-o", str(library)], check=True
    )
    return library


EXPORTS = "-Wl,--export-dynamic-symbol=unperturbed_register*"


def test_a_library_that_only_a_child_opens_is_none_of_the_programs(build: Build, counting_library: Path) -> None:
    text = f"""
{BUSY}
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {{
    busy(3000000);
    if (fork() == 0) {{
        void *h = dlopen("{counting_library}", RTLD_NOW); void (*hit)(void);
        *(void **)&hit = h ? dlsym(h, "hit") : 0; if (!hit) _exit(9); hit(); busy(3000000); return 0;
    }}
    int status; wait(&status); busy(3000000); return status != 0; }}
"""
    records, done = run(build(text, EXPORTS), plain(300_000, software=2))
    assert (done.returncode, records.state) == (0, "finished")
    assert records.tables == 0, "the run is refused: the program loaded no instrumented code"
    assert list(records.rows["software"][-1]) == [0, 0]


@pytest.mark.parametrize("sampler", ["inside", "outside"])
def test_a_library_that_is_closed_keeps_its_counts(build: Build, counting_library: Path, sampler: str) -> None:
    """The handler reads its counters to the end.

    The observer's list of them is walked when the program forks or ends.
    """
    text = f"""
{COUNTED}{BUSY}
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {{
    for (int i = 0; i < 3; i++) {{
        void *h = dlopen("{counting_library}", RTLD_NOW); void (*hit)(void);
        if (dlerror()) return 8;
        *(void **)&hit = dlsym(h, "hit"); for (int k = 0; k < 10; k++) {{ hit(); busy(300000); }}
        dlclose(h); busy(3000000);
    }}
    if (fork() == 0) return 0;
    wait(0); return 0; }}
"""
    records, done = run(build(text, EXPORTS), plain(300_000, software=2, sampler=sampler))
    assert (done.returncode, records.state) == (0, "finished")
    assert int(records.rows["software"][-1][1]) == 30
    assert (np.diff(records.rows["software"], axis=0) >= 0).all()


def test_the_programs_descriptors_keep_their_numbers(build: Build) -> None:
    text = '#include <fcntl.h>\nint main(void) { return open("/dev/null", O_RDONLY); }'
    records, done = run(build(text), counting(os_metrics=("sched_run_ns", "read_calls")))
    assert (done.returncode, records.state) == (3, "finished")


def test_a_program_that_closes_all_descriptors_keeps_its_data_and_lost_counts_are_told(build: Build) -> None:
    text = (
        "#define _GNU_SOURCE\n"
        + BUSY
        + """
#include <string.h>
#include <unistd.h>
int main(void) {
    char bytes[1000]; int fd[2];
    busy(3000000); closefrom(3);
    for (int i = 0; i < 8; i++) if (pipe(fd) || write(fd[1], bytes, sizeof bytes) != sizeof bytes) return 3;
    busy(20000000);
    for (int i = 3; i < 19; i += 2) if (read(i, bytes, sizeof bytes) != sizeof bytes) return 4;
    return 0; }
"""
    )
    records, done = run(build(text), counting(300_000))
    assert done.returncode == 0
    assert records.unread > 10
    with pytest.raises(RunError, match=r"readings of the counters failed: the program probably closed the sampler"):
        assemble_plain(records)


def test_scheduler_and_file_counters_inside(build: Build) -> None:
    text = (
        BUSY + '#include <fcntl.h>\n#include <unistd.h>\nint main(void) { char c[1000]; int fd = open("/dev/zero", '
        "O_RDONLY); "
    )
    text += (
        "for (int i = 0; i < 100; i++) { if (read(fd, c, sizeof c) != 1000) return 1; busy(500000); } "
        "usleep(1000); return 0; }"
    )
    records, done = run(
        build(text), plain(os_metrics=("sched_run_ns", "sched_slices", "chars_read", "read_calls", "minor_faults"))
    )
    assert done.returncode == 0
    gained = dict(zip(records.os_columns, (records.rows["os"][-1] - records.rows["os"][0]).tolist(), strict=True))
    assert (np.diff(records.rows["os"], axis=0) >= 0).all()
    assert gained["sched_run_ns"] > 5e6
    assert gained["sched_slices"] >= 1
    # The sampler reads two files of /proc for each record, and those reads count too.
    own = len(records.rows) * 2
    assert gained["read_calls"] in range(100, 100 + own + 1)
    assert gained["chars_read"] in range(100_000, 100_000 + own * 200)


@pytest.mark.parametrize(("metric", "file"), [("read_calls", "/proc/PID/io"), ("sched_run_ns", "/proc/PID/schedstat")])
def test_counters_that_this_host_does_not_show_are_a_failure_not_zeros(
    tmp_path: Path, build: Build, metric: str, file: str
) -> None:
    program = build("int main(void) { return 0; }")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("nothing may be mounted here")
    hidden = f"mount -t tmpfs none /proc && exec {program}"
    records, done = sample(tmp_path, ["unshare", "--mount", "/bin/sh", "-c", hidden], plain(os_metrics=(metric,)))
    assert (done.returncode, records.state) == (0, "failed")
    assert file in records.message
    assert "No such file" in records.message
    with pytest.raises(RunError, match=file):
        assemble_plain(records)
