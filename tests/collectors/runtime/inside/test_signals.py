"""The inside sampler's clocks and its signal, in programs that handle, block, take and send signals themselves."""

from __future__ import annotations

import signal

import numpy as np
import pytest

from tests.collectors.runtime.inside.programs import (
    Build,
    assemble_plain,
    counting,
    plain,
    run,
)
from tests.collectors.runtime.programs import BUSY
from unperturbed.collectors.records.file import SIGNAL, Mark, Setup
from unperturbed.collectors.sources import Pass
from unperturbed.errors import RunError


@pytest.mark.parametrize("clock", ["process-cpu", "thread-cpu"])
def test_clocks_of_cpu_time_stand_still_while_the_program_sleeps(build: Build, clock: str) -> None:
    text = BUSY + "#include <unistd.h>\nint main(void) { busy(100000000); usleep(300000); busy(100000000); return 0; }"
    records, _ = run(build(text), Setup("none", 4_000_000, clock))
    rows = records.rows
    assert (np.diff(rows["cpu_ns"]) >= 0).all(), (
        "the kernel tells the process's time to a jiffy while a timer runs on it"
    )
    assert (rows["monotonic_ns"][-1] - rows["monotonic_ns"][0]) - (rows["cpu_ns"][-1] - rows["cpu_ns"][0]) > 250e6
    assert np.diff(rows["monotonic_ns"]).max() > 290e6, "no record in the sleep"
    assert len(rows) > 5


def test_each_clock_of_cpu_time_counts_whose_it_is(build: Build) -> None:
    text = BUSY + "#include <pthread.h>\nstatic void *f(void *p) { busy(100000000); return p; }\n"
    text += "int main(void) { pthread_t t; pthread_create(&t, 0, f, 0); pthread_join(t, 0); busy(30000000); return 0; }"
    program = build(text)
    spent = {}
    for clock in ("process-cpu", "thread-cpu"):
        rows = run(program, Setup("none", 4_000_000, clock))[0].rows
        spent[clock] = int(rows["cpu_ns"][-1] - rows["cpu_ns"][0])
    assert spent["process-cpu"] > 2 * spent["thread-cpu"]


@pytest.mark.parametrize("number", [signal.SIGPROF, signal.SIGUSR1, signal.SIGRTMIN + 1, signal.SIGRTMAX])
def test_any_signal_that_can_be_handled_serves(build: Build, number: int) -> None:
    records, done = run(build(BUSY + "int main(void) { busy(30000000); return 0; }"), plain(signal=int(number)))
    assert (done.returncode, records.state) == (0, "finished")
    assert len(records.rows) > 3


@pytest.mark.parametrize("number", [signal.SIGKILL, 32, 33, 65])
def test_a_signal_that_cannot_be_handled_is_refused(build: Build, number: int) -> None:
    records, done = run(build("int main(void) { return 0; }"), plain(signal=int(number)))
    assert (done.returncode, records.state) == (0, "failed")
    assert "the sampler's signal: Invalid argument" in records.message


@pytest.mark.parametrize(
    ("act", "mark", "told"),
    [
        ("signal(N, mine);", Mark.SIGNAL_TAKEN, "installed its own handler"),
        ("signal(N, SIG_IGN);", Mark.SIGNAL_TAKEN, "installed its own handler"),
        (
            "sigset_t s; sigemptyset(&s); sigaddset(&s, N); sigprocmask(SIG_BLOCK, &s, 0);",
            Mark.SIGNAL_BLOCKED,
            "blocked the sampler's",
        ),
        (
            "sigset_t s; sigfillset(&s); sigprocmask(SIG_SETMASK, &s, 0);",
            Mark.SIGNAL_BLOCKED,
            "blocked the sampler's signal",
        ),
    ],
)
def test_a_signal_taken_or_blocked_later_is_noticed_and_the_run_refused(
    build: Build, act: str, mark: Mark, told: str
) -> None:
    text = f"#include <signal.h>\n#define N {int(SIGNAL)}\n{BUSY}\nvoid mine(int s) {{ (void)s; }}\n"
    program = build(f"{text}int main(void) {{ busy(20000000); {act} busy(20000000); return 0; }}")
    records, done = run(program, plain())
    assert done.returncode == 0
    assert records.marks == mark
    with pytest.raises(RunError, match=told) as refusal:
        assemble_plain(records, Pass("main", "none", ()))
    assert "choose another signal with `signal:`, or use `sampler: outside`" in str(refusal.value)


def test_a_thread_that_blocks_the_signal_is_noticed_too(build: Build) -> None:
    text = (
        BUSY
        + """
#include <pthread.h>
#include <signal.h>
static void *member(void *unused) { sigset_t s; sigfillset(&s); pthread_sigmask(SIG_SETMASK, &s, 0); busy(10000000);
    return unused; }
int main(void) { pthread_t t; pthread_create(&t, 0, member, 0); pthread_join(t, 0); return 0; }
"""
    )
    program = build(text)
    assert Mark.SIGNAL_BLOCKED in run(program, counting(threads=True))[0].marks
    assert Mark.SIGNAL_BLOCKED not in run(program, counting())[0].marks, "no tick of the main thread's was held back"


def test_ticks_that_waited_while_the_signal_was_blocked_are_counted_as_missed(build: Build) -> None:
    text = (
        BUSY + "#include <signal.h>\nint main(void) { sigset_t s, o; busy(10000000); sigfillset(&s); "
        "sigprocmask(SIG_SETMASK, &s, &o); "
    )
    records, _ = run(
        build(text + "busy(60000000); sigprocmask(SIG_SETMASK, &o, 0); busy(10000000); return 0; }"), plain()
    )
    assert records.marks == Mark(0)
    gap_ms = np.diff(records.rows["monotonic_ns"]).max() / 1e6
    assert gap_ms > 10
    assert abs(int(records.rows["overruns"].max()) - gap_ms) < 3


def test_signals_of_the_same_number_from_elsewhere_are_nobodys_tick(build: Build) -> None:
    text = f"""
#include <signal.h>
#include <time.h>
#include <unistd.h>
{BUSY}
int main(void) {{
    struct sigevent e = {{.sigev_notify = SIGEV_SIGNAL,
                          .sigev_signo = {int(SIGNAL)}, .sigev_value.sival_ptr = (void *)0x1234}};
    struct itimerspec often = {{{{0, 300000}}, {{0, 300000}}}};
    timer_t t;
    timer_create(CLOCK_MONOTONIC, &e, &t); timer_settime(t, 0, &often, 0);
    for (int i = 0; i < 10; i++) {{ sigqueue(getpid(), {int(SIGNAL)}, (union sigval){{.sival_ptr = (void *)0x77}});
        busy(1000000); }}
    return 0; }}
"""
    records, done = run(build(text), plain(500_000_000))
    assert (done.returncode, records.state) == (0, "finished")
    assert len(records.rows) == 2


def test_a_handler_of_the_programs_that_jumps_away_does_not_end_the_sampling(build: Build) -> None:
    text = (
        BUSY
        + """
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
static sigjmp_buf back;
static void jump(int s) { (void)s; siglongjmp(back, 1); }
int main(void) {
    struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
    volatile int n = 0;
    signal(SIGALRM, jump); setitimer(ITIMER_REAL, &often, 0);
    sigsetjmp(back, 1);
    if (n++ < 5000) for (;;) busy(1000);
    setitimer(ITIMER_REAL, &never, 0); return 0; }
"""
    )
    records, done = run(build(text), counting(100_000))
    assert (done.returncode, records.state) == (0, "finished")
    assert records.nested == 0
    assert len(records.rows) > 500
    assert records.rows["whole"][-1] == len(records.rows), "no record was begun and left"


@pytest.mark.parametrize("alternate", [False, True])
def test_the_handler_runs_on_the_alternate_stack_if_that_is_asked_for(build: Build, alternate: bool) -> None:
    text = (
        BUSY
        + """
#include <signal.h>
#include <stdio.h>
#include <string.h>
static char stack[65536];
int main(void) {
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    size_t untouched = 0;
    memset(stack, 0x5a, sizeof stack); sigaltstack(&other, 0); busy(30000000);
    while (untouched < sizeof stack && stack[untouched] == 0x5a) untouched++;
    printf("%zu", sizeof stack - untouched); return 0; }
"""
    )
    records, done = run(build(text), counting(alternate_stack=alternate))
    assert len(records.rows) > 3
    used = int(done.stdout)
    assert (used > 500) is alternate
    assert used < 8192, "a stack of SIGSTKSZ is enough"


def test_a_sleep_is_cut_short_inside_though_calls_are_restarted_and_is_not_outside(build: Build) -> None:
    """A perturbation that SA_RESTART does not cover: nanosleep(2) and its like return early. There is none outside."""
    text = """
#include <stdio.h>
#include <time.h>
#include <unistd.h>
int main(void) {
    struct timespec t = {0, 20000000};
    int early = 0, fd[2];
    char c;
    for (int i = 0; i < 10; i++) early += nanosleep(&t, 0) != 0;
    if (pipe(fd)) return 3;
    if (fork() == 0) { usleep(20000); return write(fd[1], "x", 1) != 1; }
    if (read(fd[0], &c, 1) != 1) return 4;
    printf("%d", early); return 0; }
"""
    program = build(text)
    records, done = run(program, plain())
    assert done.returncode == 0, "read(2) is restarted"
    assert int(done.stdout) >= 8
    assert len(records.rows) > 10
    _, done = run(program, plain(sampler="outside"))
    assert (done.returncode, done.stdout) == (0, "0")
