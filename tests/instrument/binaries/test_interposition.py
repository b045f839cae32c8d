"""Calls of library functions, counted by functions that come between.

In real programs, under both samplers, whatever is passed and returned.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.collectors.runtime.programs import BUSY, COUNTED, compile_program
from tests.instrument.python.sampled import counts, run_sampled
from unperturbed.collectors.records import NO_PINNING, Records, Setup
from unperturbed.collectors.runtime import build_interposer, build_preload
from unperturbed.collectors.sources.callgrind import Machine, valgrind_command
from unperturbed.errors import SpecError
from unperturbed.instrument.binaries.interposition import Interposed, find_function, find_functions, interposer_source
from unperturbed.instrument.events import parse_event

SAMPLERS = ("inside", "outside")


def compiled(folder: Path, text: str, *flags: str, name: str = "plain", compiler: str = "gcc") -> Path:
    """Compile a program or library as anybody would, without us."""
    source = folder / f"{name}.{'cc' if compiler.endswith('++') else 'c'}"
    source.write_text(text)
    shared = ["-shared", "-fPIC"] if name.endswith(".so") else []
    subprocess.run(
        [compiler, "-O1", "-Wall", "-Werror", *shared, str(source), *flags, "-o", str(folder / name), "-ldl"],
        check=True,
    )
    return folder / name


def interposer(*functions: str | Interposed, compiler: str = "gcc") -> Path:
    found = [item if isinstance(item, Interposed) else Interposed(item) for item in functions]
    return build_interposer(compiler, interposer_source(dict(enumerate(found))))


def metric(function: str, program: Path, *folders: Path) -> Interposed:
    return find_function(parse_event({"preload": function}), program=program, library_path=folders)


def run(
    folder: Path, command: list[str], libraries: list[Path], setup: Setup, **environment: str
) -> tuple[Records, subprocess.CompletedProcess[str]]:
    return run_sampled(folder, command, libraries, setup, {"PATH": os.environ["PATH"], **environment})


def setup(sampler: str, software: int, interval_ns: int = 1_000_000, program: str = "", **more: object) -> Setup:
    return Setup("none", interval_ns, "monotonic", software=software, sampler=sampler, program=program, **more)  # type: ignore[arg-type]


ALLOCATING = (
    BUSY
    + """
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **argument) {
    void *volatile p;
    for (int i = 0; i < 3000; i++) {
        p = malloc((size_t)i);
        if (i % 3 == 0) p = realloc(p, (size_t)i + 100);
        free(p);
        if (i % 10 == 0) { p = calloc((size_t)i, 3); free(p); }
        busy(20000);
    }
    printf("%d done\\n", count + !argument);
    return 3;
}
"""
)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_an_unbuilt_program_is_counted_as_it_runs(tmp_path: Path, sampler: str) -> None:
    program = compiled(tmp_path, ALLOCATING, "-fno-builtin")
    alone = subprocess.run([program], capture_output=True, text=True, check=False)
    names = ("malloc", "realloc", "free", "calloc", "pthread_create")
    found = [metric(name, program) for name in names]
    assert {item.library.name for item in found} == {"libc.so.6"}
    libraries = [build_preload("gcc"), interposer(*found)]
    records, done = run(tmp_path, [str(program)], libraries, setup(sampler, 5, program="plain"))
    assert (done.returncode, done.stdout, done.stderr) == (alone.returncode, alone.stdout, alone.stderr)
    # stdout's buffer is the C library's own, by malloc: it is bound so that others may replace it.
    assert counts(records) == [3001, 1000, 3300, 300, 0]
    seen = records.rows["software"]
    assert (np.diff(seen, axis=0) >= 0).all()
    assert len(np.unique(seen[:, 0])) > 10, "seen while it grows"


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_samplers_own_calls_are_not_counted(tmp_path: Path, sampler: str) -> None:
    text = (
        BUSY
        + """
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
int main(void) {
    char c;
    struct timespec t;
    int fd = open("/dev/zero", O_RDONLY);
    for (int i = 0; i < 70; i++) { if (read(fd, &c, 1) != 1) return 1; clock_gettime(CLOCK_MONOTONIC, &t); busy(600000); }
    return 0;
}
"""
    )
    names = ("read", "clock_gettime", "open", "strcmp", "dlerror", "dladdr", "mmap", "sysconf", "getrusage")
    program = compiled(tmp_path, text)
    libraries = [build_preload("gcc"), interposer(*names)]
    asked = setup(sampler, len(names), program="plain", os_metrics=("minor_faults", "chars_read"))
    records, done = run(tmp_path, [str(program)], libraries, asked)
    assert done.returncode == 0
    assert len(records.rows) > 5
    assert dict(zip(names, counts(records), strict=True)) == dict.fromkeys(names, 0) | {
        "read": 70,
        "clock_gettime": 70,
        "open": 1,
    }


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_program_built_here_needs_the_interposer_alone(tmp_path: Path, sampler: str) -> None:
    text = (
        COUNTED
        + BUSY
        + "#include <pthread.h>\n#include <stdlib.h>\nstatic void *nothing(void *p) { return p; }\n"
        + "int main(void) { pthread_t t; pthread_create(&t, 0, nothing, 0); pthread_join(t, 0);\n"
        + 'for (int i = 0; i < 50; i++) { COUNT(0); if (!getenv("PATH")) return 1; busy(300000); } return 0; }'
    )
    program = compile_program(tmp_path, text, "-pthread", "-Wl,--export-dynamic-symbol=unperturbed_register*")
    found = {3: metric("getenv", program), 2: metric("pthread_create", program)}
    library = build_interposer("gcc", interposer_source(found))
    records, done = run(tmp_path, [str(program)], [library], setup(sampler, 4))
    assert done.returncode == 0
    assert counts(records) == [50, 0, 1, 50]
    assert any("built into the program" in note for note in metric("clock_gettime", program).notes)


LIBRARY = """
#define _GNU_SOURCE
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
typedef double four __attribute__((vector_size(32)));
struct big { double a[9]; };
struct two { long a; double b; };
struct mixed { float a; int b; long double c; };
__attribute__((target("avx"))) four add4(four a, four b, double c) { return a + b * c; }
struct big give_big(long a, struct big b) { b.a[3] += (double)a; return b; }
struct two give_two(long a, double b) { return (struct two){a + 1, b * 2}; }
struct mixed give_mixed(struct mixed m, long double d) { m.c += d; return m; }
long double precise(long double a, double b, float c, long double d) { return a + b + c + d; }
long many(long a, long b, long c, long d, long e, long f, long g, long h, double i, double j, double k, double l, double m, double n,
          double o, double p, double q, double r) {
    return a + 2*b + 3*c + 4*d + 5*e + 6*f + 7*g + 8*h + (long)(i + 2*j + 3*k + 4*l + 5*m + 6*n + 7*o + 8*p + 9*q + 10*r); }
_Complex double turn(_Complex double a) { return a * 2.0; }
__int128 wide(__int128 a, int b) { return a * b; }
double sum(int n, ...) { va_list l; double s = 0; va_start(l, n); for (int i = 0; i < n; i++) s += i % 2 ? va_arg(l, double) : va_arg(l, int);
    va_end(l); return s; }
int twice(jmp_buf where, int how) { longjmp(where, how); }
long call_back(long (*f)(long, void *), void *p) { return f(21, p); }
"""

TORTURE = """
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
typedef double four __attribute__((vector_size(32)));
struct big { double a[9]; };
struct two { long a; double b; };
struct mixed { float a; int b; long double c; };
four add4(four a, four b, double c); struct big give_big(long a, struct big b); struct two give_two(long a, double b);
struct mixed give_mixed(struct mixed m, long double d); long double precise(long double a, double b, float c, long double d);
long many(long, long, long, long, long, long, long, long, double, double, double, double, double, double, double, double, double, double);
_Complex double turn(_Complex double a); __int128 wide(__int128 a, int b); double sum(int n, ...); int twice(jmp_buf, int);
long call_back(long (*f)(long, void *), void *p);
static char text[4000];
static int length;
#define SAY(...) (length += snprintf(text + length, sizeof text - (size_t)length, __VA_ARGS__))
__attribute__((target("avx"))) static void vectors(void) {
    four a = {1, 2, 3, 4}, b = {10, 20, 30, 40}, c = add4(a, b, 0.5);
    SAY("add4 %g %g %g %g\\n", c[0], c[1], c[2], c[3]);
}
static void all(void) {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx")) vectors();
    struct big big = give_big(7, (struct big){{1, 2, 3, 4, 5, 6, 7, 8, 9}});
    struct two two = give_two(4, 2.5);
    struct mixed mixed = give_mixed((struct mixed){1.5f, 3, 2.25L}, 4.0L);
    SAY("%g %g %g, %ld %g, %g %d %Lg\\n", big.a[0], big.a[3], big.a[8], two.a, two.b, mixed.a, mixed.b, mixed.c);
    SAY("%.20Lg\\n", precise(1.0L / 3, 2.5, 3.5f, 1e-10L));
    SAY("%ld\\n", many(1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
    _Complex double t = turn(__builtin_complex(1.5, -2.0));
    SAY("%g %g %ld\\n", __real__ t, __imag__ t, (long)(wide((__int128)1 << 70, 3) >> 69));
    errno = 77;
    SAY("%g %g\\n", sum(5, 1, 2.5, 3, 4.5, 5), sum(12, 1, 2., 3, 4., 5, 6., 7, 8., 9, 10., 11, 12.));
    SAY("errno %d\\n", errno);
}
static long on_call(long n, void *p) { return n * *(long *)p; }
static void enter_twice(void) {
    jmp_buf where;
    volatile int times = 0;
    int how = setjmp(where);
    if (how < 3) { times++; twice(where, how + 1); }
    long two = 2;
    int status = 0;
    SAY("times %d, callback %ld\\n", times, call_back(on_call, &two));
    pid_t child = vfork();
    if (child == 0) _exit(9);
    waitpid(child, &status, 0);
    SAY("vfork %d\\n", WEXITSTATUS(status));
}
#ifdef EARLY /* before any library is set up, the one that counts included */
__attribute__((section(".preinit_array"), used)) static void (*const early)(void) = all;
#endif
int main(void) { all(); enter_twice(); fwrite(text, 1, (size_t)length, stdout); return 0; }
"""

CALLED = {
    "add4": 1,
    "give_big": 1,
    "give_two": 1,
    "give_mixed": 1,
    "precise": 1,
    "many": 1,
    "turn": 1,
    "wide": 1,
    "sum": 2,
}


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="vector arguments of x86-64")
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("early", [False, True])
def test_whatever_is_passed_and_returned_passes_by(tmp_path: Path, early: bool, compiler: str) -> None:
    if not shutil.which(compiler):
        pytest.skip(f"there is no {compiler} here")
    library = compiled(tmp_path, LIBRARY, "-Wno-psabi", name="libmany.so")
    flags = [str(library), f"-Wl,-rpath,{tmp_path}", "-Wno-psabi", *["-DEARLY"] * early]
    program = compiled(tmp_path, TORTURE, *flags)
    alone = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    assert "times 3, callback 42\nvfork 9\n" in alone
    names = [*CALLED, "twice", "call_back", "_setjmp", "vfork", "snprintf", "fwrite"]
    libraries = [build_preload("gcc"), interposer(*names, compiler=compiler)]
    records, done = run(tmp_path, [str(program)], libraries, setup("inside", len(names), program="plain"))
    assert (done.stdout, done.stderr, done.returncode) == (alone, "", 0)
    turns = 1 + early
    expected = {name: count * turns for name, count in CALLED.items()}
    expected |= {"twice": 3, "call_back": 1, "_setjmp": 1, "vfork": 1, "fwrite": 1, "snprintf": 7 * turns + 2}
    if "add4 " not in alone:
        expected |= {"add4": 0, "snprintf": 6 * turns + 2}
    assert dict(zip(names, counts(records), strict=True)) == expected


def test_an_early_call_keeps_vectors_where_the_processor_has_no_xsave(tmp_path: Path) -> None:
    """An emulated processor without AVX takes the older way of saving registers."""
    if os.uname().machine != "x86_64" or not shutil.which("valgrind"):
        pytest.skip("needs valgrind on x86-64")
    library = compiled(tmp_path, LIBRARY, "-Wno-psabi", name="libmany.so")
    program = compiled(tmp_path, TORTURE, str(library), f"-Wl,-rpath,{tmp_path}", "-Wno-psabi", "-DEARLY")
    text = interposer_source({number: Interposed(name) for number, name in enumerate(CALLED)})
    plain = build_interposer("gcc", text.replace("$0x8000000,%r12d", "$0,%r12d"))
    alone = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    done = subprocess.run([program], env={"LD_PRELOAD": str(plain)}, capture_output=True, text=True, check=True)
    assert done.stdout.partition("\n")[2] == alone.partition("\n")[2], "all but the upper halves"


CXX_LIBRARY = """
#include <execinfo.h>
#include <stdexcept>
#include <string>
namespace store { struct Box { int n; int fill(const std::string &s); }; int Box::fill(const std::string &s) {
    if (s.empty()) { throw std::runtime_error("empty"); }
    return n + static_cast<int>(s.size()); } }
int through(int (*f)(int)) { return f(1) + 1; }
int depth() { void *frames[50]; return backtrace(frames, 50); }
"""
CXX = """
#include <cstdio>
#include <stdexcept>
#include <string>
namespace store { struct Box { int n; int fill(const std::string &s); }; }
int through(int (*f)(int));
int depth();
int thrower(int n) { throw n; }
int main() {
    store::Box box{5};
    int sum = box.fill("abc");
    try { box.fill(""); } catch (const std::runtime_error &e) { std::printf("caught %s\\n", e.what()); }
    try { through(thrower); } catch (int n) { sum += n; }
    std::printf("%d, %d frames\\n", sum, depth());
}
"""


def test_cxx_names_exceptions_and_the_stack(tmp_path: Path) -> None:
    library = compiled(tmp_path, CXX_LIBRARY, name="libbox.so", compiler="g++")
    program = compiled(tmp_path, CXX, str(library), f"-Wl,-rpath,{tmp_path}", compiler="g++")
    alone = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    fill = next(
        name
        for name in subprocess.run(["nm", "-D", library], capture_output=True, text=True, check=True).stdout.split()
        if "fill" in name
    )
    names = [fill, "_Z7throughPFiiE", "_Z5depthv", "__cxa_throw", "_Unwind_RaiseException"]
    found = [metric(name, program) for name in names]
    libraries = [build_preload("gcc"), interposer(*found)]
    records, done = run(tmp_path, [str(program)], libraries, setup("inside", 5, program="plain"))
    assert (done.stdout, done.stderr) == (alone, "")
    assert counts(records) == [2, 1, 1, 2, 2]
    with pytest.raises(SpecError, match="as the linker knows it"):
        interposer_source({0: Interposed("store::Box::fill")})


VERSIONED = """
__asm__(".symver old_f,f@V1"); __asm__(".symver new_f,f@@V2");
int old_f(void) { return 1; } int new_f(void) { return 2; } int g(void) { return 3; }
"""


def test_an_old_version_of_a_function_is_refused(tmp_path: Path) -> None:
    (tmp_path / "map").write_text("V1 { global: f; g; local: *; }; V2 { global: f; } V1;")
    (tmp_path / "map1").write_text("V1 { global: f; g; local: *; };")
    compiled(
        tmp_path,
        "int f(void) { return 1; } int g(void) { return 3; }",
        f"-Wl,--version-script={tmp_path}/map1",
        name="libv.so",
    )
    link = [str(tmp_path / "libv.so"), f"-Wl,-rpath,{tmp_path}"]
    program = "int f(void), g(void); int main(void) { return f() * 10 + g(); }"
    old = compiled(tmp_path, program, *link, name="old")
    compiled(tmp_path, VERSIONED, f"-Wl,--version-script={tmp_path}/map", "-fno-toplevel-reorder", name="libv.so")
    new = compiled(tmp_path, program, *link, name="new")
    with pytest.raises(
        SpecError, match=r"old asks for f in its old version V1, of which libv\.so has a newer one \(V2\)"
    ):
        metric("f", old)
    assert metric("g", old).library == tmp_path / "libv.so"
    libraries = [build_preload("gcc"), interposer(metric("f", new), metric("g", new))]
    records, done = run(tmp_path, [str(new)], libraries, setup("inside", 2, program="new"))
    assert done.returncode == 23
    assert counts(records) == [1, 1]


@pytest.mark.parametrize("symbolic", [False, True])
def test_what_a_library_calls_within_itself_is_said_before(tmp_path: Path, symbolic: bool) -> None:
    text = 'int inner(int n) { __asm__(""); return n + 1; } int outer(int n) { return inner(n) + inner(n); }'
    flags = ["-Wl,-Bsymbolic"] * symbolic
    library = compiled(
        tmp_path, text, "-fsemantic-interposition", "-fno-ipa-pure-const", "-fno-ipa-icf", *flags, name="libin.so"
    )
    program = compiled(
        tmp_path,
        "int inner(int), outer(int); int main(void) { return inner(1) + outer(2); }",
        str(library),
        f"-Wl,-rpath,{tmp_path}",
    )
    found = metric("inner", program)
    assert any("within libin.so itself" in text for text in found.uncounted) == symbolic
    assert ("libin.so itself" in found.notes[0]) != symbolic
    records, done = run(
        tmp_path, [str(program)], [build_preload("gcc"), interposer(found)], setup("inside", 1, program="plain")
    )
    assert done.returncode == 8
    assert counts(records) == [1 if symbolic else 3]


def test_other_names_of_a_function_are_told(tmp_path: Path) -> None:
    text = '#include <stdio.h>\nint main(int n, char **v) { printf("%d %s\\n", n, v[0]); return 0; }'
    program = compiled(tmp_path, text, "-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2")
    found = metric("printf", program)
    assert any("__printf_chk" in text for text in found.uncounted)
    assert any("nothing that plain loads when it starts calls printf" in text for text in found.uncounted)
    assert any("compilers know printf" in text for text in found.uncounted)
    assert any("chooses one for this processor" in note for note in metric("strlen", program).notes)


@pytest.mark.parametrize(
    ("function", "program", "message"),
    [
        (
            "lzma_cod",
            "/usr/bin/xz",
            r"no library that /usr/bin/xz loads when it starts has a function lzma_cod; nearest names: lzma_code",
        ),
        ("environ", "/usr/bin/xz", r"environ is a variable of .*libc\.so\.6, no function"),
        ("malloc", "{static}", r"static: a static program"),
        ("work", "{own}", r"own defines work itself: its calls go to no library"),
        ("malloc", "{script}", r"script: a script that /bin/sh -e runs"),
        ("malloc", "{nothing}", r"nothing: the binary cannot be read"),
    ],
)
def test_what_cannot_be_counted_is_refused(tmp_path: Path, function: str, program: str, message: str) -> None:
    if program.startswith("/") and not Path(program).exists():
        pytest.skip(f"there is no {program} here")
    compiled(tmp_path, "int main(void) { return 0; }", "-static", name="static")
    compiled(tmp_path, "void work(void) {} int main(void) { work(); return 0; }", "-rdynamic", name="own")
    (tmp_path / "script").write_text("#!/bin/sh -e\n")
    files = {name: str(tmp_path / name) for name in ("static", "own", "script", "nothing")}
    with pytest.raises(SpecError, match=message):
        metric(function, Path(program.format(**files)))
    software = {"other": parse_event({"enter": "f"}), "mine": parse_event({"preload": function})}
    with pytest.raises(SpecError, match=r"^software metric 'mine': "):
        find_functions(software, program=Path(program.format(**files)))


def test_a_library_that_another_opens_for_itself_is_found(tmp_path: Path) -> None:
    compiled(tmp_path, "int deep(int n) { return n * 7; }", name="libdeep.so")
    compiled(
        tmp_path,
        "int deep(int); int shallow(int n) { return deep(n); }",
        "-L.",
        str(tmp_path / "libdeep.so"),
        f"-Wl,-rpath,{tmp_path}",
        name="libshallow.so",
    )
    text = f"""
#include <dlfcn.h>
int main(void) {{
    void *library = dlopen("{tmp_path}/libshallow.so", RTLD_NOW | RTLD_LOCAL);
    int (*f)(int);
    *(void **)&f = library ? dlsym(library, "shallow") : 0;
    return f ? f(1) + f(2) + !!dlerror() : 1;
}}
"""
    program = compiled(tmp_path, text)
    records, done = run(
        tmp_path, [str(program)], [build_preload("gcc"), interposer("deep")], setup("outside", 1, program="plain")
    )
    assert done.returncode == 21
    assert counts(records) == [2]


def test_exact_counts_of_threads_that_collide(tmp_path: Path) -> None:
    compiled(tmp_path, "void poke(void) {}", name="libpoke.so")
    text = """
#include <pthread.h>
void poke(void);
static void *work(void *p) { for (int i = 0; i < 3000000; i++) poke(); return p; }
int main(void) { pthread_t t[2]; for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, work, 0); for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
    return 0; }
"""
    program = compiled(tmp_path, text, "-pthread", str(tmp_path / "libpoke.so"), f"-Wl,-rpath,{tmp_path}")
    library = interposer(Interposed("poke", exact=True), Interposed("poke"), Interposed("pthread_create"))
    asked = setup("outside", 3, program="plain", observer_cpu=NO_PINNING)
    records, _ = run(tmp_path, [str(program)], [build_preload("gcc"), library], asked)
    exact, plain, started = counts(records)
    assert (exact, started) == (6_000_000, 2)
    assert 3_000_000 <= plain <= exact


# Programs of the distribution, against a count made in another way: a hand-written function that counts and prints at
# the end.

COUNTER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static unsigned long own;
long count(long a, long b, long c, long d) __asm__(NAME);
long count(long a, long b, long c, long d) {
    static long (*next)(long, long, long, long);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, NAME);
    __atomic_fetch_add(&own, 1, __ATOMIC_RELAXED);
    return next(a, b, c, d);
}
__attribute__((destructor)) static void tell(void) {
    char text[32];
    int fd = open(getenv("COUNT_FILE"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (write(fd, text, (size_t)snprintf(text, sizeof text, "%lu", own)) < 0) _exit(99);
}
"""


def counted_by_hand(folder: Path, function: str, command: list[str], **more: str) -> tuple[int, bytes]:
    library = compiled(folder, COUNTER, f'-DNAME="{function}"', name="hand.so")
    environment = {"PATH": os.environ["PATH"], "LD_PRELOAD": str(library), "COUNT_FILE": str(folder / "own"), **more}
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    return int((folder / "own").read_text()), done.stdout


def distribution(name: str) -> Path:
    found = shutil.which(name, path="/usr/bin:/bin")
    if not found or Path(found).read_bytes()[:4] != b"\x7fELF":
        pytest.skip(f"there is no {name} here")
    return Path(found)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_xz_through_liblzma(tmp_path: Path, sampler: str) -> None:
    xz = distribution("xz")
    (tmp_path / "data").write_bytes(random.Random(1).randbytes(400_000) + bytes(2_000_000))
    command = [str(xz), "-1", "-T1", "--stdout", str(tmp_path / "data")]
    own, output = counted_by_hand(tmp_path, "lzma_code", command)
    assert own > 50
    software: Mapping[str, object] = {"steps": {"preload": "lzma_code"}, "reads": {"preload": "read"}}
    events = {name: parse_event(mapping) for name, mapping in software.items()}  # type: ignore[arg-type]
    found = find_functions(events, program=xz)
    assert found[0].library.name.startswith("liblzma.so")
    library = build_interposer("gcc", interposer_source(found))
    records, _ = run(
        tmp_path,
        ["/bin/sh", "-c", f"{' '.join(command)} > {tmp_path}/out"],
        [build_preload("gcc"), library],
        setup(sampler, 2, program="xz"),
    )
    assert (tmp_path / "out").read_bytes() == output
    assert counts(records)[0] == own
    assert counts(records)[1] == counted_by_hand(tmp_path, "read", command)[0]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("sort", ["-n", "/etc/services"]),
        ("ls", ["-la", "/usr/bin"]),
        ("awk", ["{n[$1]++} END {print length(n)}", "/etc/services"]),
    ],
)
def test_malloc_of_programs_of_the_distribution(tmp_path: Path, name: str, arguments: list[str]) -> None:
    program = distribution(name)
    if "/etc/services" in arguments and not Path("/etc/services").exists():
        pytest.skip("there is no /etc/services here")
    own, output = counted_by_hand(tmp_path, "malloc", [str(program), *arguments])
    assert own > 5
    libraries = [
        build_preload("gcc"),
        interposer(*(metric(function, program) for function in ("malloc", "free", "calloc", "realloc"))),
    ]
    for sampler in SAMPLERS:
        records, done = run(tmp_path, [str(program), *arguments], libraries, setup(sampler, 4, program=name))
        assert done.stdout.encode() == output
        assert counts(records)[0] == own


def test_under_the_simulator(tmp_path: Path) -> None:
    if not shutil.which("valgrind"):
        pytest.skip("there is no valgrind here")
    program = compiled(tmp_path, ALLOCATING, "-fno-builtin")
    asked = Setup("simulated", 20_000_000, "process-cpu", software=2, program="plain")
    found = [metric(name, program) for name in ("malloc", "free")]
    command = [*valgrind_command(Machine(), tmp_path / "dumps"), str(program)]
    records, done = run(tmp_path, command, [build_preload("gcc"), interposer(*found)], asked)
    assert (done.returncode, done.stdout) == (3, "1 done\n"), done.stderr
    assert counts(records) == [3001, 3300]
    assert len(np.unique(records.rows["software"][:, 0])) > 3


def test_the_observer_does_not_load_what_it_passes_on(tmp_path: Path) -> None:
    """Preloaded into the observer, the runtime would share its symbols.

    And a program's own preloaded library stays behind ours.
    """
    own = compiled(tmp_path, "int other(void) { return 5; }", name="own.so")
    text = (
        "#include <stdio.h>\n#include <stdlib.h>\n"
        'int main(void) { printf("%s|%s\\n", getenv("LD_PRELOAD"), getenv("UNPERTURBED_PRELOAD") ? "left" : ""); '
        "return 0; }"
    )
    program = compiled(tmp_path, text)
    libraries = [build_preload("gcc"), interposer("getenv")]
    records, done = run(tmp_path, [str(program)], libraries, setup("outside", 1, program="plain"), LD_PRELOAD=str(own))
    assert done.stdout == f"{libraries[0]}:{libraries[1]}:{own}|\n"
    assert counts(records) == [2]


def test_the_library_is_built_once_and_for_another_machine(tmp_path: Path) -> None:
    first, again = interposer("malloc"), interposer("malloc")
    assert first == again != interposer("free")
    if shutil.which("aarch64-linux-gnu-gcc"):
        assert build_interposer(
            "aarch64-linux-gnu-gcc -Wall -Wextra -Werror", interposer_source({0: Interposed("malloc", exact=True)})
        ).exists()
