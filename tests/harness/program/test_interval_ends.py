"""Intervals that end at the program's own events: exact in every kind of build, and invisible to the program."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.harness.program.own_events import OwnEvents, lengths, own_events
from unperturbed.collectors.records.file import Mark

MAIN = """
#include <stdio.h>
int other(int);
static int step(int x) { return x * 3 + 1; }
int main(void)
{
    int sum = 0;
    for (int i = 0; i < 20050; i++)
        sum += step(i) ^ other(sum);
    printf("%d\\n", sum);
    return 0;
}
"""
OTHER = """
static int step(int a) { volatile int v[8]; for (int i = 0; i < 8; i++) v[i] = a + i; return v[a & 7]; }
int other(int a) { return a & 1 ? step(a) : a; }
"""
"""Both have sites, and some are in leaf functions that use the red zone."""

FLAGS = {
    "O0": ["-O0"],
    "O2": ["-O2"],
    "O3-lto": ["-O3", "-flto"],
    "no-pie": ["-O2", "-fno-pie", "-no-pie"],
    "pic": ["-O2", "-fPIC"],
    "static": ["-O2", "-static"],
    "sections": ["-O2", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"],
    "hidden": ["-O2", "-fvisibility=hidden"],
}


def plain_output(folder: Path, *words: str) -> str:
    """Return what a program writes if it is compiled without counters."""
    subprocess.run(["gcc", *words, "-o", "plain"], cwd=folder, check=True)
    return subprocess.run(["./plain"], cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
def test_each_interval_has_exactly_the_wanted_events(tmp_path: Path, compiler: str, flags: list[str]) -> None:
    program = own_events(tmp_path, {"main.c": MAIN, "other.c": OTHER}, compiler=compiler)
    if compiler == "clang" and "-flto" in flags:
        flags = [*flags, "-fuse-ld=lld"]
    program.compile(*flags, "main.c", "other.c", "-o", "program")
    records, done = program.run("./program")
    assert records.state == "finished", records.message
    assert done.stdout == plain_output(tmp_path, "main.c", "other.c")
    *full, rest = lengths(records)
    total = int(records.rows["software"][-1, 0] - records.rows["software"][0, 0])
    assert set(full) == {1000} and len(full) == total // 1000 and rest == total % 1000
    alone = subprocess.run(["./program"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert alone.stdout == done.stdout  # without a record file


def test_every_event_may_end_an_interval(tmp_path: Path) -> None:
    program = own_events(tmp_path, {"main.c": MAIN, "other.c": OTHER})
    program.compile("-O2", "main.c", "other.c", "-o", "program")
    records, _ = program.run("./program", every=1)
    *full, rest = lengths(records)
    assert len(full) > 20050 and set(full) == {1} and rest == 0


def test_both_dialects_of_the_assembler(tmp_path: Path) -> None:
    program = own_events(tmp_path, {"main.c": MAIN, "other.c": OTHER})
    program.compile("-O2", "-masm=intel", "main.c", "other.c", "-o", "program")
    records, _ = program.run("./program")
    assert set(lengths(records)[:-1]) == {1000}


def test_a_build_that_cannot_end_intervals_is_refused(tmp_path: Path) -> None:
    program = own_events(tmp_path, {"main.c": MAIN, "other.c": OTHER}, compiler="clang")
    words = [program.chain.cc, "-O2", "-masm=intel", "-c", "main.c"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "need code for AArch64, or for x86-64 in AT&T syntax" in done.stderr


@pytest.mark.parametrize("form", ["sham", "patchable"])
def test_the_sites_count_in_every_form(tmp_path: Path, form: str) -> None:
    program = own_events(tmp_path, {"main.c": MAIN, "other.c": OTHER}, form=form)
    program.compile("-O2", "main.c", "other.c", "-o", "program")
    records, _ = program.run("./program")
    assert set(lengths(records)[:-1]) == {1000}
    assert not records.rows["software"][-1, 1]  # `others` has no-ops


def test_cxx_constexpr_and_templates(tmp_path: Path) -> None:
    text = """
#include <cstdio>
template <class T> struct machine {
    T state;
    constexpr T step(T by) { return state = state * T(3) + by; }
};
constexpr unsigned at_compile_time()
{
    machine<unsigned> m{1};
    for (int i = 0; i < 50; i++)
        m.step(i & 1);
    return m.state;
}
int main()
{
    constexpr unsigned fixed = at_compile_time();
    machine<unsigned> a{1};
    machine<double> b{0.5};
    double sum = 0;
    for (int i = 0; i < 3333; i++)
        sum += a.step(i) % 7 + b.step(-sum) * 1e-300;
    std::printf("%u %g\\n", fixed & 7, sum);
}
"""
    program = own_events(tmp_path, {"main.cc": text}, software={"steps": {"enter": "machine::step"}})
    done = subprocess.run(
        [program.chain.cxx, "-std=c++17", "-O2", "main.cc", "-o", "program"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "no counters" not in done.stderr
    records, _ = program.run("./program", every=100)
    assert lengths(records) == [100] * 66 + [66]


LIBRARY = """
#include <stdio.h>
static int step(int x) { return x ^ 5; }
int counted(int x) { int sum = 0; for (int i = 0; i < 3; i++) sum += step(x + i); return sum; }
"""
OPENS = """
#include <dlfcn.h>
#include <stdio.h>
int counted(int);
static int step(int x) { return x * 3 + 1; }
int main(void)
{
    void *library = dlopen("./libopened.so", RTLD_NOW);
    int (*opened)(int) = library ? (int (*)(int))dlsym(library, "opened") : 0;
    int sum = 0;
    for (int i = 0; opened && i < 1000; i++)
        sum += step(i) + counted(i) + opened(i);
    printf("%d\\n", sum);
    return !opened;
}
"""


def libraries(program: OwnEvents, *flags: str) -> None:
    """Build one library, and another that is opened later."""
    (program.folder / "opened.c").write_text(LIBRARY.replace("counted", "opened"))
    for name in ("counted", "opened"):
        program.compile("-O2", "-fPIC", "-shared", *flags, f"{name}.c", "-o", f"lib{name}.so")


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_libraries_share_the_countdown(tmp_path: Path, compiler: str) -> None:
    program = own_events(tmp_path, {"main.c": OPENS, "counted.c": LIBRARY}, compiler=compiler)
    libraries(program)
    program.compile("-O2", "main.c", "-o", "program", "-L.", "-lcounted", "-Wl,-rpath,$ORIGIN", "-ldl")
    records, done = program.run("./program", every=50)
    assert done.returncode == 0, done.stderr
    assert lengths(records) == [50] * (7000 // 50) + [0]


def test_a_library_in_another_program_runs_as_usual(tmp_path: Path) -> None:
    program = own_events(tmp_path, {"main.c": OPENS, "counted.c": LIBRARY})
    libraries(program)
    subprocess.run(["gcc", "main.c", "-o", "plain", "-L.", "-lcounted", "-Wl,-rpath,$ORIGIN"], cwd=tmp_path, check=True)
    assert subprocess.run(["./plain"], cwd=tmp_path, stdout=subprocess.DEVNULL, check=False).returncode == 0
    records, _ = program.run("./plain")
    assert records.state == "waiting"


def test_a_library_with_a_countdown_of_its_own_is_noticed(tmp_path: Path) -> None:
    program = own_events(tmp_path, {"main.c": OPENS, "counted.c": LIBRARY})
    libraries(program, "-Wl,-Bsymbolic")
    program.compile("-O2", "main.c", "-o", "program", "-L.", "-lcounted", "-Wl,-rpath,$ORIGIN", "-ldl")
    records, done = program.run("./program", every=50)
    assert done.returncode == 0
    assert Mark.SEPARATE in records.marks


THREADS = """
#include <pthread.h>
#include <stdio.h>
__attribute__((noinline)) static int step(int x) { __asm__ volatile("" : "+r"(x)); return x + 1; }
static void *work(void *given) { for (int i = 0; i < 5000; i++) step(i); return given; }
int main(void)
{
    pthread_t other;
    pthread_create(&other, 0, work, 0);
    for (int i = 0; i < 2020; i++) step(i);
    pthread_join(other, 0);
    puts("done");
    return 0;
}
"""


def test_only_events_of_the_main_thread_end_intervals(tmp_path: Path) -> None:
    software = {"steps": {"enter": "step", "threads": "exact"}}
    program = own_events(tmp_path, {"main.c": THREADS}, software=software)
    program.compile("-O2", "main.c", "-o", "program", "-pthread")
    records, done = program.run("./program", every=100)
    assert done.stdout == "done\n" and records.state == "finished"
    counts = lengths(records)
    assert len(counts) == 21 and min(counts[:-1]) >= 100  # the other thread's events are in the count
    assert sum(counts) == 7020


FORKS = """
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) static int step(int x) { __asm__ volatile("" : "+r"(x)); return x + 1; }
int main(void)
{
    for (int i = 0; i < 150; i++) step(i);
    if (fork() == 0) {
        for (int i = 0; i < 1000; i++) step(i);
        _exit(0);
    }
    int status;
    wait(&status);
    for (int i = 0; i < 150; i++) step(i);
    return status;
}
"""


def test_a_child_process_does_not_record(tmp_path: Path) -> None:
    program = own_events(tmp_path, {"main.c": FORKS})
    program.compile("-O2", "main.c", "-o", "program")
    records, done = program.run("./program", every=100)
    assert done.returncode == 0
    assert lengths(records) == [100, 100, 100, 0]


SIGNALS = """
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
static sigjmp_buf back;
static volatile sig_atomic_t ready, jumps;
__attribute__((noinline)) static int step(int x) { __asm__ volatile("" : "+r"(x)); return x + 1; }
static void handle(int number)
{
    (void)number;
    step(1);
    step(2);
    if (JUMPS && ready && ++jumps % 3 == 0) {
        ready = 0;
        siglongjmp(back, 1);
    }
}
int main(void)
{
    struct sigaction action = {.sa_handler = handle};
    struct itimerval often = {{0, 100}, {0, 100}};
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &often, 0);
    volatile long done = 0;
    while (done < 400000) {
        if (sigsetjmp(back, 1) == 0) {
            ready = 1;
            for (; done < 400000; done++) {
                errno = 77;
                step((int)done);
                if (errno != 77)
                    abort();
            }
        }
        ready = 0;
    }
    return 0;
}
"""


@pytest.mark.parametrize("jumps", [False, True])
def test_events_in_signal_handlers(tmp_path: Path, jumps: bool) -> None:
    program = own_events(tmp_path, {"main.c": SIGNALS})
    program.compile("-O2", f"-DJUMPS={int(jumps)}", "main.c", "-o", "program")
    records, done = program.run("./program", every=20)
    assert done.returncode == 0, done.returncode
    assert records.state == "finished" and records.nested == 0
    counts = records.rows["software"][:, 0] - records.rows["software"][0, 0]
    assert counts[-1] > 400_000
    ahead = [int(count) - 20 * number for number, count in enumerate(counts[:-1])]
    if jumps:
        # A handler may jump out between an event's count and its countdown, and move all later ends by one event.
        assert min(ahead) >= 0 and max(ahead) < len(ahead) / 20
        return
    # A signal between an interval's last event and its record may add the handler's events: later ends do not move.
    assert min(ahead) == 0 and max(ahead) <= 4
    assert sum(excess == 0 for excess in ahead) > 0.99 * len(ahead)


REPLACES = """
#include <stdio.h>
#include <time.h>
#include <sys/syscall.h>
#include <unistd.h>
static long calls;
int clock_gettime(clockid_t clock, struct timespec *now)
{
    calls++;
    return (int)syscall(SYS_clock_gettime, clock, now);
}
__attribute__((noinline)) static int step(int x) { __asm__ volatile("" : "+r"(x)); return x + 1; }
int main(void) { for (int i = 0; i < 1000; i++) step(i); return calls == 0; }
"""


def test_a_function_that_the_sampler_calls_may_have_a_site(tmp_path: Path) -> None:
    software = {"steps": {"enter": "step"}, "clocks": {"enter": "clock_gettime"}}
    program = own_events(tmp_path, {"main.c": REPLACES}, software=software)
    program.compile("-O2", "main.c", "-o", "program")
    records, done = program.run("./program", every=10)
    assert done.returncode == 0
    assert lengths(records) == [10] * 100 + [0]
    software = {"steps": {"enter": "clock_gettime"}, "clocks": {"enter": "step"}}
    program = own_events(tmp_path, {}, software=software)
    program.compile("-O2", "main.c", "-o", "program")
    records, done = program.run("./program", every=2)
    assert done.returncode == 0  # each record has events of its own, and ends


REGISTERS = """
#include <stdint.h>
#include <stdio.h>
#include <string.h>
extern __thread long long unperturbed_remaining;
static int step(int x) { return x + 1; }
#define WIDE %WIDE%
struct state {
    uint64_t general[14];
    uint8_t red_zone[128];
    uint64_t masks[8];
    uint8_t vector[32][64];
    uint8_t x87[512];
};
static struct state before, after;
#define EACH(one) one(0) one(1) one(2) one(3) one(4) one(5) one(6) one(7) one(8) one(9) one(10) one(11) one(12) \\
    one(13) one(14) one(15)
#define HIGH(one) one(16) one(17) one(18) one(19) one(20) one(21) one(22) one(23) one(24) one(25) one(26) one(27) \\
    one(28) one(29) one(30) one(31)
void exchange(struct state *from, struct state *to);
/* General registers: rax rbx rcx rdx rsi r8 to r15, rbp; rdi has the address before and is compared too. */
__asm__(".text\\n.globl exchange\\nexchange:\\n"
    "push %rbx\\npush %rbp\\npush %r12\\npush %r13\\npush %r14\\npush %r15\\npush %rsi\\npush %rdi\\n"
#define VECTORS_AT "304"
#if WIDE
#define LOAD(i) "vmovdqu64 " VECTORS_AT "+64*" #i "(%rdi), %zmm" #i "\\n"
#define STORE(i) "vmovdqu64 %zmm" #i ", " VECTORS_AT "+64*" #i "(%rdi)\\n"
    EACH(LOAD) HIGH(LOAD)
#define MASK_LOAD(i) "kmovq 240+8*" #i "(%rdi), %k" #i "\\n"
#define MASK_STORE(i) "kmovq %k" #i ", 240+8*" #i "(%rdi)\\n"
#define MASKS(one) one(0) one(1) one(2) one(3) one(4) one(5) one(6) one(7)
    MASKS(MASK_LOAD)
#else
#define LOAD(i) "vmovdqu " VECTORS_AT "+64*" #i "(%rdi), %ymm" #i "\\n"
#define STORE(i) "vmovdqu %ymm" #i ", " VECTORS_AT "+64*" #i "(%rdi)\\n"
    EACH(LOAD)
#endif
    "fld1\\nfldpi\\nfldl2e\\n"
    /* the red zone: the 128 bytes below the stack pointer */
    "lea 112(%rdi), %rsi\\nmov %rdi, %rax\\nlea -128(%rsp), %rdi\\nmov $16, %ecx\\nrep movsq\\nmov %rax, %rdi\\n"
    "mov 0(%rdi),%rax\\nmov 8(%rdi),%rbx\\nmov 16(%rdi),%rcx\\nmov 24(%rdi),%rdx\\nmov 32(%rdi),%rsi\\n"
    "mov 40(%rdi),%rbp\\nmov 48(%rdi),%r8\\nmov 56(%rdi),%r9\\nmov 64(%rdi),%r10\\nmov 72(%rdi),%r11\\n"
    "mov 80(%rdi),%r12\\nmov 88(%rdi),%r13\\nmov 96(%rdi),%r14\\nmov 104(%rdi),%r15\\n"
    "lea -128(%rsp), %rsp\\ncall *unperturbed_interval_ends@GOTPCREL(%rip)\\nlea 128(%rsp), %rsp\\n"
    "mov %rdi, -136(%rsp)\\nmov 8(%rsp), %rdi\\n" /* the result's address; rdi itself is kept below the red zone */
    "mov %rax,0(%rdi)\\nmov %rbx,8(%rdi)\\nmov %rcx,16(%rdi)\\nmov %rdx,24(%rdi)\\nmov %rsi,32(%rdi)\\n"
    "mov %rbp,40(%rdi)\\nmov %r8,48(%rdi)\\nmov %r9,56(%rdi)\\nmov %r10,64(%rdi)\\nmov %r11,72(%rdi)\\n"
    "mov %r12,80(%rdi)\\nmov %r13,88(%rdi)\\nmov %r14,96(%rdi)\\nmov %r15,104(%rdi)\\n"
#if WIDE
    MASKS(MASK_STORE)
    EACH(STORE) HIGH(STORE)
#else
    EACH(STORE)
#endif
    "lea -128(%rsp), %rsi\\nmov %rdi, %rax\\nlea 112(%rdi), %rdi\\nmov $16, %ecx\\nrep movsq\\nmov %rax, %rdi\\n"
    "fstpt 2352(%rdi)\\nfstpt 2368(%rdi)\\nfstpt 2384(%rdi)\\n"
    "mov -136(%rsp), %rax\\nsub (%rsp), %rax\\nmov %rax, 2400(%rdi)\\n" /* 0 if rdi was kept */
    "vzeroupper\\npop %rdi\\npop %rsi\\npop %r15\\npop %r14\\npop %r13\\npop %r12\\npop %rbp\\npop %rbx\\nret\\n");
int main(void)
{
    uint8_t *byte = (uint8_t *)&before;
    for (unsigned i = 0; i < sizeof before; i++)
        byte[i] = (uint8_t)(i * 167 + 13);
    long double one = 1, pi = 3.14159265358979323851L, other;
    step(1);
    unperturbed_remaining = 0;
    exchange(&before, &after);
    if (memcmp(before.general, after.general, sizeof before.general)) return puts("general"), 1;
    if (memcmp(before.red_zone, after.red_zone, 128)) return puts("red zone"), 1;
    if (WIDE && memcmp(before.masks, after.masks, sizeof before.masks)) return puts("masks"), 1;
    for (int i = 0; i < (WIDE ? 32 : 16); i++)
        if (memcmp(before.vector[i], after.vector[i], WIDE ? 64 : 32)) return printf("vector %d\\n", i), 1;
    memcpy(&other, after.x87 + 16, 10);
    if (memcmp(&other, &pi, 10)) return puts("x87: pi"), 1;
    memcpy(&other, after.x87 + 32, 10);
    if (memcmp(&other, &one, 10)) return puts("x87: 1"), 1;
    for (int i = 48; i < 56; i++) if (after.x87[i]) return puts("rdi"), 1;
    return 0;
}
"""


def test_all_registers_are_kept(tmp_path: Path) -> None:
    flags = Path("/proc/cpuinfo").read_text()
    if " avx2 " not in flags:
        pytest.skip("the processor has no AVX2")
    text = REGISTERS.replace("%WIDE%", str(int(" avx512bw " in flags)))
    program = own_events(tmp_path, {"main.c": text})
    program.compile("-O2", "main.c", "-o", "program")
    records, done = program.run("./program", every=1000)
    assert done.returncode == 0, done.stdout
    assert len(records.rows) == 3  # one record is that of `exchange`


VECTORS = """
#include <immintrin.h>
#include <stdio.h>
static inline int step(int x) { return x ^ (x >> 3); }
__attribute__((noinline)) static long leaf(const double *v, int n)
{
    volatile long local[12] = {0};
    __m256d a = _mm256_set1_pd(1), b = _mm256_set1_pd(2), c = _mm256_set1_pd(3);
    long double exact = 0;
    long flags = 0;
    for (int i = 0; i < n; i++) {
        a = _mm256_add_pd(_mm256_mul_pd(a, _mm256_set1_pd(v[i & 63])), b);
        b = _mm256_sub_pd(c, a);
        local[i % 12] = i * 3L;
        int s = step(i);
        flags += (s < i) - (s > n) + local[(i + 5) % 12];
        c = _mm256_max_pd(b, _mm256_set1_pd((double)(s & 15)));
        exact += 1.0L / (s + 1);
    }
    double out[4];
    _mm256_storeu_pd(out, _mm256_add_pd(a, _mm256_add_pd(b, c)));
    printf("%.17g %.17g %.20Lg\\n", out[0], out[3], exact);
    return flags;
}
int main(void)
{
    double v[64];
    for (int i = 0; i < 64; i++) v[i] = 0.5 + i / 200.0;
    printf("%ld\\n", leaf(v, 5000));
    return 0;
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_program_that_keeps_values_in_registers_across_events(tmp_path: Path, compiler: str) -> None:
    if " avx2 " not in Path("/proc/cpuinfo").read_text():
        pytest.skip("the processor has no AVX2")
    program = own_events(tmp_path, {"main.c": VECTORS}, compiler=compiler)
    program.compile("-O3", "-mavx2", "main.c", "-o", "program")
    subprocess.run([compiler, "-O3", "-mavx2", "main.c", "-o", "plain"], cwd=tmp_path, check=True)
    plain = subprocess.run(["./plain"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    records, done = program.run("./program", every=1)
    assert done.stdout == plain
    assert lengths(records) == [1] * 5000 + [0]


def test_under_callgrind_every_interval_is_the_same_work(tmp_path: Path) -> None:
    text = MAIN.replace("other(sum)", "0").replace("int other(int);", "")
    program = own_events(tmp_path, {"main.c": text})
    program.compile("-O2", "main.c", "-o", "program")
    records, events = program.simulate("./program", every=50)
    assert lengths(records) == [50] * 401 + [0]
    for name in ("Ir", "Dr", "Dw", "Bc", "Bi"):
        assert len(set(events[name][1:-1].tolist())) == 1, name
    fewer, longer = program.simulate("./program", every=100)
    assert len(fewer.rows) == 202
    ends = {name: int(2 * events[name][5] - longer[name][5]) for name in ("Ir", "Dr", "Dw", "Bc", "Bi")}
    # What an interval's end adds to the program's own counts.
    assert ends == {"Ir": 6, "Dr": 4, "Dw": 1, "Bc": 0, "Bi": 1}


def test_with_a_sampler_in_every_thread_each_ends_its_own_intervals(tmp_path: Path) -> None:
    software = {"steps": {"enter": "step", "threads": "exact"}}
    program = own_events(tmp_path, {"main.c": THREADS}, software=software)
    program.compile("-O2", "main.c", "-o", "program", "-pthread")
    records, done = program.run("./program", every=100, threads=True)
    assert done.stdout == "done\n" and records.state == "finished", records.message
    threads = records.rows["thread"].tolist()
    assert [threads.count(number) for number in (0, 1)] == [22, 52]
