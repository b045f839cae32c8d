"""Gauges: the value of every kind of variable with static storage, in C and C++, by every linker.

And what cannot be one, with its reason.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.instrument.conftest import Workshop, plain_output
from tests.instrument.wrapper_server import serve_wrapper
from unperturbed.collectors.records.file import Mark, Records, Setup, create_record_file, read_record_file
from unperturbed.collectors.runtime import BOUNDS, build_observer, runtime_files
from unperturbed.common.user_cache import user_cache
from unperturbed.instrument.compiler.toolchain import write_toolchain
from unperturbed.instrument.events import parse_event
from unperturbed.instrument.missing import missing_metrics

clang = pytest.param("clang", marks=pytest.mark.skipif(not shutil.which("clang"), reason="clang is not installed"))


def gauges(*targets: str, **named: str) -> dict[str, dict[str, object]]:
    return {target: {"gauge": target} for target in targets} | {
        name: {"gauge": target} for name, target in named.items()
    }


C = """\
#include <stdio.h>
#include <stdatomic.h>
enum color { RED, GREEN = 7 }; enum sign { MINUS = -3, PLUS };
struct inner { long n; short s[3]; };
struct server {
    char name[3];
    struct inner in[2];
    union { unsigned u; struct { int deep, deeper; }; };
    struct { int length; } queue;
    struct server *next;
    unsigned bits : 3;
    float load;
};
int plain = -5, *pointer = &plain, array[4] = {1, 2, 3, 4}, matrix[2][3];
unsigned char byte = 200; signed char small = -100; unsigned short word = 60000; short negative = -30000; unsigned wide = 4000000000u;
unsigned long long huge = 1ull << 63; _Bool flag = 1; enum color color = GREEN; enum sign sign = MINUS;
static long hidden = 1 << 20, second = 12;
int tentative; int tentative; static int early; static int early = 6;
extern int defined_extern; extern int defined_extern = 77;
struct server server = {"ab", {{1, {2, 3, 4}}, {5, {6, 7, 8}}}};
static struct { int a; struct { int b[2]; } c; } nameless = {1, {{2, 3}}}, *other;
struct later incomplete; struct later { int z; };
_Atomic int counted = 3; atomic_long total = -4; _Atomic(char *) where;
int (*callback)(int); volatile int shaky = 9; const volatile int port = 10;
int attributed __attribute__((aligned(32))) = 11, listed[] = {1, 2};
struct __attribute__((packed)) { char c; int odd; } packed = {1, -12};
static int count(int n) {
    static int calls; static struct inner kept = {4, {5}};
    kept.n += n; calls++;
    { static int calls2 = 100; calls2 += n; }
again: ;
    static long labelled;
    if (labelled++ < 1) goto again;
    return calls;
}
int main(void) {
    for (int i = 0; i < 5; i++) count(i);
    tentative = 21; early++; array[2] = 33; matrix[1][2] = 44; server.in[1].s[2] = -55; server.in[1].n = 66; server.deeper = 77;
    server.queue.length = 88; server.u = 99; nameless.c.b[1] = 111; incomplete.z = 122; counted++; total -= 5; where = (char *)16;
    hidden += second; server.next = (struct server *)32; listed[1] = 17; packed.odd--; callback = 0;
    printf("%d %ld\\n", plain, hidden); return 0; }
"""
C_VALUES = {
    "plain": -5,
    "array[2]": 33,
    "matrix[1][2]": 44,
    "byte": 200,
    "small": -100,
    "word": 60000,
    "negative": -30000,
    "wide": 4000000000,
    "huge": -(1 << 63),
    "flag": 1,
    "color": 7,
    "sign": -3,
    "hidden": (1 << 20) + 12,
    "second": 12,
    "tentative": 21,
    "early": 7,
    "defined_extern": 77,
    "server.in[1].s[2]": -55,
    "server.in[1].n": 66,
    "server.u": 99,
    "server.deeper": 77,
    "server.queue.length": 88,
    "server.next": 32,
    "server.name[1]": ord("b"),
    "nameless.c.b[1]": 111,
    "incomplete.z": 122,
    "counted": 4,
    "total": -9,
    "where": 16,
    "callback": 0,
    "shaky": 9,
    "port": 10,
    "attributed": 11,
    "listed[1]": 17,
    "packed.odd": -13,
    "count::calls": 5,
    "count::kept.n": 14,
    "count::calls2": 110,
    "count::labelled": 6,
    "prog.c::plain": -5,
    "*/prog.c::count::calls": 5,
    "./prog.c::server.in[0].n": 1,
}
WAYS = [
    ("gcc", "-O0"),
    pytest.param(("gcc", "-O2", "-g"), marks=pytest.mark.long),
    ("gcc", "-O3", "-flto"),
    ("gcc", "-O2", "-fdata-sections", "-ffunction-sections", "-Wl,--gc-sections"),
    ("gcc", "-Os", "-static"),
    ("gcc", "-O2", "-fPIC", "-fuse-ld=gold", "-Wl,--gc-sections"),
    ("gcc", "-std=c11", "-fno-pie", "-no-pie"),
    pytest.param(("clang", "-O2"), marks=pytest.mark.long),
    ("clang", "-O2", "-fuse-ld=lld", "-Wl,--gc-sections", "-fdata-sections"),
    ("clang", "-O1", "-flto", "-fuse-ld=lld", "-Wl,--gc-sections"),
]


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_every_kind_of_variable_in_c(workshop, way):
    compiler, *flags = way
    if not shutil.which(compiler) or ("-fuse-ld=lld" in flags and not shutil.which("ld.lld")):
        pytest.skip(f"{way} is not installed")
    shop = workshop(gauges(*C_VALUES), compilers={"cc": compiler})
    shop.write("prog.c", C)
    shop.call(*flags, "-w", "prog.c", "-o", "prog")
    output, values = shop.run()
    assert shop.report.skipped == {}
    assert shop.report.uncounted == {}
    assert values == C_VALUES
    assert output == plain_output(shop.folder, "gcc", "-w", "prog.c")  # in whatever way it is built
    assert [(site.file, site.text) for site in shop.report.sites["second"]] == [("prog.c", "second = 12;")]
    assert shop.lines("tentative") == [18]


CXX = """\
#include <atomic>
#include <cstdio>
#include <vector>
int plain = 1;
namespace outer {
  long here = 2; extern int later;
  inline namespace v1 { int versioned = 3; }
  namespace { int unnamed = 4;
    class Closed { static int secret; struct Inner { short a; int list[3]; }; static Inner inner; int field = 5;
      public: int open = 6; static void set() { secret = 77; inner.list[1] = 88; } static int shown; };
    int Closed::secret = 7; Closed::Inner Closed::inner = {1, {2, 3, 4}}; int Closed::shown = 8; }
  Closed object; void set() { Closed::set(); object.open++; }
}
int outer::later = 9;
class Pool { public: static int live; static std::atomic<int> users;
    private: static long bytes; class Page { public: static unsigned count; }; friend void use(); };
int Pool::live = 10; std::atomic<int> Pool::users{11}; long Pool::bytes = -12; unsigned Pool::Page::count = 13;
void use() { Pool::live++; Pool::users += 5; Pool::bytes--; Pool::Page::count++; }
struct Base { int of_base = 14; }; struct Derived : Base { int own = 15; virtual ~Derived() {} }; Derived derived;
template<class T> struct Queue { T *first = nullptr; int length = 0; private: int depth = 16; }; Queue<int> queue;
extern "C" { int from_c = 17; } static int kept = 18;
enum class Mode : unsigned char { A, B = 250 }; Mode mode = Mode::B; std::atomic<bool> running{true};
std::atomic_flag busy = ATOMIC_FLAG_INIT; char16_t wide_char = 0xFFFE;
struct Counter { Counter(); int step(); }; Counter::Counter() { static int made = 0; made++; }
int Counter::step() { static int steps; auto f = [] { static int inside = 19; return ++inside; }; f(); return ++steps; }
static inline int twice(int n) { static int doubled; return doubled += 2 * n; }
namespace { struct Local { int go() { static int gone = 20; return ++gone; } }; }
#if __cplusplus >= 201703L
inline int shared = 21; struct Holder { inline static int held = 22; private: inline static short locked = -23; };
namespace deep::er { inline static int nested = 24; }
#endif
int main() {
    Counter a, b; a.step(); b.step(); twice(5); Local().go(); use(); outer::set(); queue.length = 31; busy.test_and_set(); plain++;
    std::printf("%d\\n", plain); return 0; }
"""
CXX_VALUES = {
    "plain": 2,
    "outer::here": 2,
    "outer::versioned": 3,
    "outer::unnamed": 4,
    "outer::Closed::secret": 77,
    "outer::Closed::inner.list[1]": 88,
    "outer::Closed::inner.a": 1,
    "outer::Closed::shown": 8,
    "outer::object.field": 5,
    "outer::object.open": 7,
    "outer::later": 9,
    "Pool::live": 11,
    "Pool::users": 16,
    "Pool::bytes": -13,
    "::Pool::Page::count": 14,
    "derived.of_base": 14,
    "derived.own": 15,
    "queue.length": 31,
    "queue.depth": 16,
    "from_c": 17,
    "kept": 18,
    "mode": 250,
    "running": 1,
    "busy": 1,
    "wide_char": 0xFFFE,
    "Counter::Counter::made": 2,
    "Counter::step::steps": 2,
    "Counter::step::f::inside": 21,
    "twice::doubled": 10,
    "Local::go::gone": 21,
}
CXX17_VALUES = {"shared": 21, "Holder::held": 22, "Holder::locked": -23, "deep::er::nested": 24}
CXX_WAYS = [
    ("g++", "-std=c++11", "-O0"),
    pytest.param(("g++", "-std=c++14", "-O2"), marks=pytest.mark.long),
    ("g++", "-std=c++17", "-O2", "-flto"),
    ("g++", "-std=c++23", "-O3", "-Wl,--gc-sections"),
    ("clang++", "-std=c++11", "-O0"),
    pytest.param(("clang++", "-std=c++17", "-O2"), marks=pytest.mark.long),
    ("clang++", "-std=c++20", "-O2", "-flto", "-fuse-ld=lld", "-Wl,--gc-sections"),
]


@pytest.mark.parametrize("way", CXX_WAYS, ids=" ".join)
def test_every_kind_of_variable_in_cxx(workshop, way):
    compiler, standard, *flags = way
    if not shutil.which(compiler) or ("-fuse-ld=lld" in flags and not shutil.which("ld.lld")):
        pytest.skip(f"{way} is not installed")
    expected = CXX_VALUES | (CXX17_VALUES if int(standard[-2:]) >= 17 else {})
    shop = workshop(gauges(*expected), compilers={"cxx": compiler})
    shop.write("prog.cc", CXX)
    shop.call(standard, *flags, "-w", "prog.cc", "-o", "prog", cxx=True)
    output, values = shop.run()
    assert shop.report.skipped == {}
    assert shop.report.uncounted == {}
    assert values == expected
    assert output == plain_output(shop.folder, "g++", standard, "-w", "prog.cc")  # as above


REASONS = {
    "tls": ("__thread int tls;", "thread-local"),
    "omp": ("int omp;\n#pragma omp threadprivate(omp)", "thread-local"),
    "fixed": ("const int fixed = 3;", "`fixed` is `const`"),
    "table[0]": ("static const int table[2] = {1, 2};", "`table` is `const`"),
    "load": ("float load;", "floating-point"),
    "large": ("__int128 large;", "of type __int128"),
    "s.bit": ("struct { unsigned bit : 3; } s;", "`s.bit` is a bit field"),
    "s2.nothing": ("struct { int a, b; } s2;", "`s2` has no field `nothing`; it has a, b"),
    "s3": ("struct { int a; union { int b; long c; }; } s3;", "name a field: s3.a, s3.b, s3.c"),
    "list": ("int list[4];", "`list` is an array; name an element, such as `list[0]`"),
    "list2[4]": ("int list2[4];", "`list2` has only 4 elements"),
    "p.x": ("struct q { int x; } *p;", "`p` is a pointer: the memory that it points to has no fixed address"),
    "p2[1]": ("int *p2;", "`p2` is a pointer"),
    "scalar.x": ("int scalar;", "`scalar` has no fields"),
    "scalar2[0]": ("int scalar2;", "`scalar2` is not an array"),
    "tail.data[1]": ("struct { int n; int data[]; } tail;", "array of unknown size"),
    "f::local": ("int f(int n) { int local = n; return local; }", "`local` is an automatic variable"),
    "g::i": ("int g(int n) { register int i = n; return i; }", "register"),
}


def check_refusals(workshop, reasons: dict[str, tuple[str, str]], source: str, *flags: str) -> None:
    """Check that a program is built, and that no variable of it is a gauge, each for the reason told."""
    shop = workshop({target: {"gauge": target} for target in reasons})
    lines = {}
    text = ""
    for target, (definition, _) in reasons.items():
        lines[target] = text.count("\n") + 1
        text += f"{definition}\n"
    shop.write(source, f"{text}int main(void) {{ return 0; }}\n")
    shop.call(*flags, "-w", source, "-o", "prog", cxx=source.endswith(".cc"))
    for target, (_, reason) in reasons.items():
        (message,) = missing_metrics(shop.report, {target: parse_event({"gauge": target})}).values()
        assert f"`gauge: {target}`; {source}:{lines[target]}: " in message
        assert reason in message
    assert shop.run() == ("", dict.fromkeys(reasons, 0))


def test_why_a_variable_is_none(workshop):
    check_refusals(workshop, REASONS, "prog.c")


CXX_REASONS = {
    "T::n": (
        "template<class X> struct T { static int n; }; template<class X> int T<X>::n = 0; int use_t() { return "
        "T<int>::n++; }",
        "template",
    ),
    "f::n": ("template<class X> int f() { static int n; return ++n; } int use_f() { return f<int>(); }", "template"),
    "g::n": ("inline int g() { static int n; return ++n; } int use_g() { return g(); }", "inline function"),
    "C::m::n": (
        "struct C { int m() { static int n; return ++n; } }; int use_c() { return C().m(); }",
        "inline function",
    ),
    "r": ("static int x; static int &r = x;", "`r` is a reference"),
    "c": ("constexpr int c = 3;", "`c` is `const`"),
    "d.b": ("struct B { int b; }; struct D : virtual B {} d;", "virtual base class"),
    "e.b": ("struct A { int b; }; class E : A {} e;", "`e.b` is inherited and not public: it cannot be accessed"),
    "v": ("struct V { int a, b; } v;", "name a field: v.a, v.b"),
    "h::k": ("int h(int n) { if (n) static int k = 3; return 0; }", "where no statement can follow"),
    "t": ("thread_local int t;", "thread-local"),
    "m": ("struct M { int a; }; int M::*m = &M::a;", "of type int M::*"),
}


def test_why_a_variable_of_cxx_is_none(workshop):
    check_refusals(workshop, CXX_REASONS, "prog.cc", "-std=c++17")


def missing(shop, target: str) -> str:
    (message,) = missing_metrics(shop.report, {target: parse_event({"gauge": target})}).values()
    return message


def test_what_is_said_of_variables_that_are_nowhere_defined(workshop):
    shop = workshop(gauges("optarg", "counter", "lenght", "other.c::length"))
    shop.write(
        "prog.c",
        "#include <unistd.h>\nstatic int length; int main(void) { int counter = length; return !optarg + "
        "counter - 1; }\n",
    )
    shop.call("prog.c", "-o", "prog")
    assert "the sources use `optarg`, but none of them defines it" in missing(shop, "optarg")
    assert "`counter` exists as main::counter" in missing(shop, "counter")
    assert "nearest names: length" in missing(shop, "lenght")
    assert "the program has no site for `gauge: other.c::length`" in missing(shop, "other.c::length")


def test_a_variable_of_a_function_is_named_when_it_is_asked_for_without_it(workshop):
    shop = workshop(gauges("made"))
    shop.write("prog.c", "int f(void) { static int made; return made++; }\nint main(void) { return f(); }\n")
    shop.call("prog.c", "-o", "prog")
    assert "`made` exists as f::made" in missing(shop, "made")


def test_files_choose_among_variables_of_one_name_and_without_they_add_up(workshop):
    shop = workshop(
        {
            **gauges("state", "a.c::state", "sub/*.c::state", "common", "head.h::kept"),
            "filtered": {"gauge": "state", "file": "b.c"},
        }
    )
    shop.write("head.h", "static int kept; int common;\n")
    for name, value in (("a.c", 1), ("sub/b.c", 10), ("sub/c.c", 100)):
        text = f"static int state; int {Path(name).stem}(void) {{ common++; kept += 2; return state += {value}; }}\n"
        shop.write(name, f'#include "{"" if name == "a.c" else "../"}head.h"\n{text}')
    shop.write("main.c", "int a(void), b(void), c(void); int main(void) { return a() + b() + c() - 111; }\n")
    shop.call("-fcommon", "a.c", "sub/b.c", "sub/c.c", "main.c", "-o", "prog")
    _, values = shop.run()
    # Of a header's static variable each unit has its own; the one common variable is told three times and read once.
    assert values == {
        "state": 111,
        "a.c::state": 1,
        "sub/*.c::state": 110,
        "common": 3,
        "head.h::kept": 6,
        "filtered": 10,
    }
    assert [(site.file, site.line) for site in shop.report.sites["state"]] == [
        ("a.c", 2),
        ("sub/b.c", 2),
        ("sub/c.c", 2),
    ]


def test_inline_variables_of_several_units_are_read_once(workshop):
    shop = workshop(gauges("shared", "Holder::held", "mine"))
    holder = "struct Holder { private: inline static long held = 2; public: static void up() { held++; } };"
    shop.write("head.h", f"inline int shared = 1; static int mine = 3; {holder}\n")
    shop.write("a.cc", '#include "head.h"\nvoid a() { shared++; Holder::up(); mine++; }\n')
    shop.write(
        "main.cc", '#include "head.h"\nvoid a(); int main() { a(); shared++; Holder::up(); mine++; return 0; }\n'
    )
    shop.call("-std=c++17", "-O2", "a.cc", "main.cc", "-o", "prog", cxx=True)
    assert shop.run()[1] == {"shared": 3, "Holder::held": 4, "mine": 8}


def instructions(path: Path, objdump: str = "objdump") -> list[str]:
    """Return a program's instructions without addresses."""
    listing = subprocess.run(
        [objdump, "-d", "--no-show-raw-insn", str(path)], capture_output=True, text=True, check=True
    ).stdout
    lines = [line.split("\t", 1)[1] for line in listing.splitlines() if "\t" in line]
    return [re.sub(r"\s*#.*|\b0x[0-9a-f]+\b|\b[0-9a-f]{3,}\b|<[^>]*>", "", line).rstrip() for line in lines]


VISIBLE = """#include <stdio.h>
struct pool { int used; long bytes[4]; } pool; int length; unsigned generation = 1;
__attribute__((noinline)) int step(int *p, int n) {
    for (int i = 0; i < n; i++) { length++; *p += i; pool.bytes[i & 3] += *p; }
    generation++; return pool.used++; }
int main(int c, char **v) { int k = c; for (int i = 0; i < 10; i++) step(&k, i); printf("%d %d %u\\n", k, length, generation); return 0; }
"""


ARM = "aarch64-linux-gnu-gcc"


IDENTICAL = [
    *(("gcc", level) for level in ("-O0", "-O2", "-O3")),
    *(pytest.param((*clang.values, level), marks=clang.marks) for level in ("-O0", "-O2", "-O3")),
    pytest.param((ARM, "-O2"), marks=pytest.mark.skipif(not shutil.which(ARM), reason=f"{ARM} is not installed")),
]


@pytest.mark.parametrize("way", IDENTICAL, ids=" ".join)
def test_no_instruction_is_added_to_code_of_visible_variables(workshop, way):
    compiler, level = way
    targets = gauges("length", "generation", "pool.used", "pool.bytes[2]")
    plain = workshop({"none": {"enter": "nowhere"}}, compilers={"cc": compiler}, name="plain", runtime=())
    gauged = workshop(targets, compilers={"cc": compiler}, name="gauge", runtime=())
    for shop in (plain, gauged):
        shop.write("prog.c", VISIBLE)
        shop.call(level, "-g", "prog.c", "-o", "prog")
    assert len(gauged.report.sites) == 4
    objdump = compiler.replace("gcc", "objdump") if compiler == ARM else "objdump"
    found = [instructions(shop.folder / "prog", objdump) for shop in (plain, gauged)]
    assert found[0] == found[1]
    assert len(found[0]) > 50


# A call that the compiler knows would let it keep the variables in registers all the while; one that it does not know,
# as most are, does not.
BUSY = """static volatile unsigned long work;
static void busy(unsigned long n) { for (unsigned long i = 0; i < n; i++) work += i; __asm__ volatile("" ::: "memory"); }
"""


def with_runtime(folder: Path, *targets: str, **compilers: str) -> Workshop:
    """Return a workshop whose programs are sampled by the real runtime."""
    software = {target: parse_event({"gauge": target}) for target in targets}
    toolchain = write_toolchain(
        folder / "toolchain",
        software,
        compilers=compilers,
        runtime=runtime_files(),
        bounds=BOUNDS,
        objects=user_cache() / "objects",
    )
    serve_wrapper(toolchain)
    (folder / "work").mkdir()
    return Workshop(folder / "work", toolchain, targets)


def sample(shop: Workshop, sampler: str, *command: str, interval_ns: int = 1_000_000, code: int = 0) -> Records:
    record = shop.folder / "record"
    setup = Setup("none", interval_ns, "monotonic", sampler=sampler, software=len(shop.metrics))  # type: ignore[arg-type]
    create_record_file(record, setup)
    observer = [str(build_observer("gcc")), str(record)] if sampler == "outside" else []
    environment = {"PATH": os.environ["PATH"], "UNPERTURBED_RECORD": str(record), "LD_LIBRARY_PATH": "."}
    done = subprocess.run(
        [*observer, *(command or ("./prog",))],
        cwd=shop.folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return read_record_file(record, setup)


QUEUE = (
    BUSY
    + """
struct queue { int length; long done; } queue; static unsigned char small = 250;
int main(void) {
    for (int i = 0; i < 40; i++) { queue.length = i % 7 - 3; queue.done += 1000; small++; busy(2000000); }
    queue.length = -77; return 0; }
"""
)


@pytest.mark.parametrize("sampler", ["inside", "outside"])
def test_both_samplers_see_values_that_come_and_go(tmp_path, sampler):
    shop = with_runtime(tmp_path, "queue.length", "queue.done", "small")
    shop.write("prog.c", QUEUE)
    shop.call("-O2", "prog.c", "-o", "prog")
    records = sample(shop, sampler)
    assert records.state == "finished"
    length, done, small = records.rows["software"].T
    before = 250 if sampler == "inside" else 0  # an observer sees nothing before the program has attached
    assert list(records.rows["software"][0]) == [0, 0, before]
    assert [length[-1], done[-1], small[-1]] == [-77, 40000, (250 + 40) % 256]
    assert set(length[:-1]) <= {-3, -2, -1, 0, 1, 2, 3, -77}  # it may be seen while it ends
    assert len(set(length)) > 4
    assert len(set(done)) > 10
    assert (done[1:] >= done[:-1]).all()


LIBRARY = "int depth = 5; static int inner = 6; void deepen(void) { depth += 10; inner += 100; }\n"


@pytest.mark.parametrize("sampler", ["inside", "outside"])
@pytest.mark.parametrize("opened", [False, True])
def test_variables_of_libraries(tmp_path, sampler, opened):
    shop = with_runtime(tmp_path, "depth", "inner", "own")
    shop.write("lib.c", LIBRARY)
    shop.call("-O2", "-shared", "-fPIC", "lib.c", "-o", "libdeep.so")
    linked = "void deepen(void); int depth2 = 0; extern int depth; int *where = &depth;"
    opening = """#include <dlfcn.h>
        static void deepen(void) { void *l = dlopen("./libdeep.so", RTLD_NOW); ((void (*)(void))dlsym(l, "deepen"))(); dlclose(l); }"""
    shop.write(
        "prog.c",
        f"{BUSY}{opening if opened else linked} int own = 1; int main(void) "
        f"{{ deepen(); own++; busy(20000000); return 0; }}\n",
    )
    shop.call("-O2", "prog.c", "-o", "prog", *(["-ldl"] if opened else ["-L.", "-ldeep"]))
    records = sample(shop, sampler)
    assert records.state == "finished"
    # `depth` is copied into the program when the program refers to it: there is one, and it is the one that is read.
    assert list(records.rows["software"][-1]) == [15, 106, 2]


@pytest.mark.parametrize("sampler", ["inside", "outside"])
def test_a_child_changes_its_own_copy(tmp_path, sampler):
    shop = with_runtime(tmp_path, "state")
    text = "#include <sys/wait.h>\n#include <unistd.h>\nint state = 1;\n"
    text += "int main(void) { if (fork() == 0) { state = 1000; busy(5000000); _exit(0); } wait(0); state++; busy(5000000); return 0; }\n"
    shop.write("prog.c", BUSY + text)
    shop.call("-O2", "prog.c", "-o", "prog")
    assert set(sample(shop, sampler).rows["software"][:, 0]) - {0} == {1, 2}  # 0: before it is attached


def test_a_program_that_ends_abruptly_leaves_what_was_read_last(tmp_path):
    shop = with_runtime(tmp_path, "state")
    text = "#include <unistd.h>\nint state = 1; int main(void) { state = 7; busy(20000000); state = 8; _exit(3); }\n"
    shop.write("prog.c", BUSY + text)
    shop.call("-O2", "prog.c", "-o", "prog")
    values = sample(shop, "outside", code=3).rows["software"][:, 0]
    assert values[0] == 0
    assert list(values[-2:]) in ([7, 7], [7, 8], [8, 8])


def test_a_program_that_replaces_itself_leaves_its_last_values_and_is_told(tmp_path):
    shop = with_runtime(tmp_path, "state")
    text = "#include <unistd.h>\nint state = 1; int main(int c, char **v) { state = c > 1 ? 99 : 7; busy(30000000); "
    text += 'if (c == 1) execl("./prog", "./prog", "again", (char *)0); return 0; }\n'
    shop.write("prog.c", BUSY + text)
    shop.call("-O2", "-no-pie", "prog.c", "-o", "prog")  # so that the second image has all at the same addresses
    records = sample(shop, "outside")
    assert Mark.EXEC in records.marks
    assert set(records.rows["software"][1:, 0]) <= {0, 1, 7}
    assert records.rows["software"][-1, 0] == 7


@pytest.mark.parametrize("sampler", ["inside", "outside"])
def test_a_static_program(tmp_path, sampler):
    shop = with_runtime(tmp_path, "state", "none")
    shop.write("prog.c", BUSY + "static long state = -5; int main(void) { busy(9000000); state--; return 0; }\n")
    shop.call("-O2", "-static", "prog.c", "-o", "prog")
    assert list(sample(shop, sampler).rows["software"][-1]) == [-6, 0]


def test_very_many_gauges_are_read_by_several_calls(tmp_path):
    names = [f"v{number}" for number in range(2300)]
    shop = with_runtime(tmp_path, *(f"list.v{number}" for number in (0, 1, 1500, 2299)), "*::sum")
    text = "struct list { short " + ", ".join(names) + "; } list; "
    functions = "".join(f"int f{n}(void) {{ static int sum = {n}; return sum; }}\n" for n in range(1300))
    shop.write(
        "prog.c", BUSY + text + functions + "int main(void) { list.v1500 = -9; busy(9000000); return f3() - 3; }\n"
    )
    shop.call("-O0", "prog.c", "-o", "prog")
    for sampler in ("inside", "outside"):
        assert list(sample(shop, sampler).rows["software"][-1]) == [0, 0, -9, 0, sum(range(1300))]


def test_memory_that_may_not_be_read_is_a_failure_not_zeros(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs to be root, to become somebody else")
    shop = with_runtime(tmp_path, "state")
    text = "#include <sys/prctl.h>\nint state = 1; int main(void) { busy(9000000); prctl(PR_SET_DUMPABLE, 0); busy(150000000); return 0; }\n"
    shop.write("prog.c", BUSY + text)
    shop.call("-O2", "prog.c", "-o", "prog")
    folder = Path(subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True).stdout.strip())
    folder.chmod(0o777)
    shutil.copy(shop.folder / "prog", folder / "prog")
    shutil.copy(build_observer("gcc"), folder / "observer")
    setup = Setup("none", 1_000_000, "monotonic", sampler="outside", software=1)
    create_record_file(folder / "record", setup)
    (folder / "record").chmod(0o666)
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
    environment = {"PATH": os.environ["PATH"], "UNPERTURBED_RECORD": str(folder / "record")}
    subprocess.run(
        [*nobody, str(folder / "observer"), str(folder / "record"), str(folder / "prog")], env=environment, check=True
    )
    records = read_record_file(folder / "record", setup)
    shutil.rmtree(folder)
    assert records.state == "failed"
    assert "cannot read the gauges in the program's memory" in records.message
    assert "Operation not permitted" in records.message
    assert records.unread > 5
    assert set(records.rows["software"][:, 0]) <= {0, 1}
