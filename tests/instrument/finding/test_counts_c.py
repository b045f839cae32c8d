"""Counts of every kind of event in C programs that count for themselves, by plain counters where the event happens."""

from __future__ import annotations

import shutil

import pytest

from tests.instrument.conftest import own_counts, plain_output

# Each COUNT(n) stands where a reader of the source would say that event n happens; the program prints the sums at its
# end.
HEAD = """\
#include <stdio.h>
#include <stdlib.h>
static long own[40];
#define COUNT(n) (own[n]++)
static void print_own(int n) { for (int i = 0; i < n; i++) printf("own %ld\\n", own[i]); }
"""


def check(workshop, software, text, *flags, compiler="gcc"):
    """Build with and without counters: the output is equal, and so are the program's own counts and ours."""
    shop = workshop(software, compilers={"cc": compiler})
    shop.write("prog.c", text)
    shop.call(*flags, "prog.c", "-o", "prog")
    output, counts = shop.run()
    dialect = [flag for flag in flags if flag.startswith(("-std", "-ansi", "-fms"))]
    assert output == plain_output(shop.folder, compiler, *dialect, "-w", "prog.c")  # which no optimisation changes
    assert shop.report.skipped == {}
    assert counts == dict(zip(software, own_counts(output), strict=True))
    return shop


ENTER = (
    HEAD
    + """
static inline int square(int x) { COUNT(0); return x * x; }
int kr(a, b) int a; char *b; { COUNT(1); return a + *b; }
int sort_a(int n) { COUNT(2); return n; }
int sort_b(int n)
{
    COUNT(2);
    return n ? sort_a(n - 1) + sort_b(n - 1) : 0;
}
__attribute__((noinline)) static void weighted(int n, int m) { own[3] += n * 2 - m; }
#define MADE(name) int name(int x) { COUNT(4); return x + 1; }
MADE(made)
int labels(void) { __label__ out; COUNT(5); goto out; out: return 0; }
int main(void) {
    int sum = 0;
    for (int i = 0; i < 10; i++) { sum += square(i) + kr(i, "a") + sort_b(2) + made(i); weighted(i, 7); labels(); }
    printf("%d\\n", sum);
    print_own(6);
    return 0;
}
"""
)
ENTER_EVENTS = {
    "square": {"enter": "square"},
    "kr": {"enter": "kr"},
    "sorts": {"enter": "sort_?"},
    "weighted": {"enter": "weighted", "add": "n * 2 - m"},
    "made": {"enter": "made"},
    "labels": {"enter": "labels"},
}


@pytest.mark.parametrize(
    "flags", [("-O0",), ("-O2", "-g"), ("-O3", "-flto"), ("-Os", "-fPIE", "-pie"), ("-O2", "-masm=intel")], ids=" ".join
)
def test_enter_at_every_optimisation(workshop, flags):
    check(workshop, ENTER_EVENTS, ENTER, *flags)


@pytest.mark.parametrize("standard", ["c90", "gnu11", "gnu2x"])
def test_enter_in_every_standard(workshop, standard):
    text = """
#include <stdio.h>
static int calls, weight;
static int f(int n) { int k = 2; calls++; weight += n; { int m = k; return m * n; } }
int main(void) { int i, sum = 0; for (i = 0; i < 5; i++) sum += f(i); printf("own %d\\nown %d\\n%d\\n", calls, weight, sum); return 0; }
"""
    check(
        workshop,
        {"f": {"enter": "f"}, "n": {"enter": "f", "add": "n"}},
        text,
        f"-std={standard}",
        "-pedantic-errors",
        "-Wall",
        "-Werror",
    )


CALL = (
    HEAD
    + """
static int f(int x) { return x + 1; }
static int g(int x) { return (COUNT(0), f(x)) * 2; }
struct pair { int a, b[2]; };
static struct pair make(int x) { struct pair p = {x, {x, x + 1}}; return p; }
static int caller(int n) {
    int x = (COUNT(0), COUNT(1), f(n)) + (n > 3 ? (COUNT(0), COUNT(1), f(1)) : n > 1 ? (COUNT(0), COUNT(1), f(2)) : 0);
    if ((COUNT(0), COUNT(1), f(x))) x++; else x--;
    while ((COUNT(0), COUNT(1), f(x)) < 5) x++;
    return (COUNT(2), make(x)).b[1] + (COUNT(2), make(x)).a + (int)sizeof(f(x)) + (COUNT(0), COUNT(1), (f)(3));
}
int main(void) {
    int (*pointer)(int) = f;
    int sum = pointer(1);
    __typeof__(f(1)) y = 2;
    for (int i = (COUNT(0), f(0)); i < 9; i += (COUNT(0), f(0))) sum += caller(i) + g(i);
    int vla[(COUNT(0), f(2))];
    COUNT(0), sum += (COUNT(0), f((COUNT(0), f(f(1))))) + (int)sizeof vla + y;
    printf("%d\\n", sum);
    print_own(3);
}
"""
)


def test_call_in_every_place_of_an_expression(workshop):
    check(
        workshop, {"all": {"call": "f"}, "inside": {"call": "f", "in": "caller"}, "make": {"call": "make"}}, CALL, "-O2"
    )


WRITE = (
    HEAD
    + """
int x, other, table[4];
typedef struct { int n; int *p; struct { int depth; } inner; union { int u; float v; }; } State;
struct tag { int n; State s; State *next; };
typedef struct tag Tag;
#define ADD(s) { (s)->n++; COUNT(1); (s)->n += 2; COUNT(1); }
static int local(int parameter) {
    int x = 3;
    static int kept;
    x = parameter; COUNT(5); x++; COUNT(5); --x; COUNT(5);
    kept = x; COUNT(6);
    parameter <<= 1; COUNT(7);
    return x + kept + parameter;
}
int main(void) {
    State s = {0}, *p = &s;
    Tag t = {0}, *q = &t;
    int y, z;
    x = 1; COUNT(0);
    y = x == 1; y = (x) != y;
    (x) = y; COUNT(0);
    x += 1, COUNT(0), x++, COUNT(0), --x, COUNT(0);
    z = x = y = 4; COUNT(0);
    for (x = 0, COUNT(0); x < 5; x++, COUNT(0)) if (x & 1) other = x; else (x = x, COUNT(0));
    if ((x = z)) y++; COUNT(0);
    switch (z) { case 4: x = 1; COUNT(0); default: x ^= 3; COUNT(0); }
    ADD(p) ADD(&s)
    s.n = 1; COUNT(1); p->n--; COUNT(1);
    t.n = 1; COUNT(2); q->n = 2; COUNT(2);
    t.s.n = 5; COUNT(1); COUNT(8); q->next = p; p->n = 1; COUNT(1); q->next->n = 2; COUNT(1);
    s.p = &y; *s.p = 3; s.p[0] = 2;
    p->inner.depth = 3; COUNT(3); s.u = 1; COUNT(4); p->u |= 2; COUNT(4);
    table[1] = 2; COUNT(9); table[x & 3]++; COUNT(9);
    y = table[0] > 0 ? (x = 1, COUNT(0), 2) : (x = 2, COUNT(0), 3);
    printf("%d %d %d\\n", local(x) + local(2), y, s.n + t.n + s.u + table[1]);
    print_own(10);
    return 0;
}
"""
)


@pytest.mark.parametrize("flags", [("-O0",), ("-O2", "-fms-extensions")], ids=" ".join)
def test_write_of_variables_fields_and_locals(workshop, flags):
    software = {
        "x": {"write": "x"},
        "State.n": {"write": "State.n"},
        "tag.n": {"write": "tag.n"},
        "depth": {"write": "State.depth"},
        "union": {"write": "State.u"},
        "local": {"write": "local::x"},
        "static": {"write": "local::kept"},
        "parameter": {"write": "local::parameter"},
        "Tag.s": {"write": "Tag.s"},
        "table": {"write": "table"},
    }
    shop = check(workshop, software, WRITE, *flags)
    assert [site.text.split(";")[0] for site in shop.report.sites["static"]] == ["kept = x"]
    assert any("address taken" in place.text for place in shop.report.uncounted.get("State.n", ())) is False


LOOP = (
    HEAD
    + """
#define ONCE(x) do { x; } while (0)
static int loops(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) { COUNT(0); COUNT(1); sum += i; }
    for (int i = 0, j = 9; i < j; i++, j--) if (COUNT(0), i & 1) sum++; else ONCE(sum--);
    while (n-- > 0) if (COUNT(0), COUNT(2), n & 1) if (n & 2) sum++; else sum--;
    do sum++, COUNT(0), COUNT(3); while (sum < 20);
    do { COUNT(0); if (sum > 30) break; sum += 2; continue; } while (sum);
    for (;;) { COUNT(0); for (int k = 0; k < 3; k++) COUNT(0), COUNT(4), sum++; if (sum > 60) break; }
    while (sum++ < 70) COUNT(0);
    for (; sum > 65; sum--, COUNT(0)) ;
    if (n) for (int i = 0; i < 3; i++) COUNT(0); else sum = 0;
    switch (sum) { default: while (sum > 60) { COUNT(0); sum--; } }
    return sum + ({ int total = 0; for (int i = 0; i < 4; i++) { COUNT(0); total += i; } total; });
}
static int other(int n) { int k = 0; while (k < n) { COUNT(5); k++; } return k; }
int main(void) {
    printf("%d %d\\n", loops(7) + loops(2), other(5));
    print_own(6);
    return 0;
}
"""
)


def test_loops_are_counted_at_each_iteration(workshop):
    line = 1 + LOOP.splitlines().index(
        "static int other(int n) { int k = 0; while (k < n) { COUNT(5); k++; } return k; }"
    )
    software = {
        "all": {"loop": "loops"},
        "first": {"loop": "loops#1"},
        "while": {"loop": "loops#3"},
        "do": {"loop": "loops#4"},
        "inner": {"loop": "loops#7"},
        "by line": {"loop": f"prog.c:{line}"},
    }
    check(workshop, software, LOOP, "-O2")


FLOW = (
    HEAD
    + """
static int leave(int n) {
    if (n == 0) return COUNT(0), 1;
    if (n == 1) { COUNT(0); return 2; } else if (n == 2) { COUNT(0); return 3; }
    while (n > 5) if (n & 1) { COUNT(0); return n; } else n--;
    switch (n) { case 3: { COUNT(0); return 9; } case 4: COUNT(0); return 10; }
    COUNT(0);
    return ({ int r = n; r; });
}
static void falls(int n) { if (n > 2) { COUNT(1); return; } own[2] += 0; COUNT(1); }
static int machine(int n) {
    int steps = 0;
again: COUNT(2);
    steps++;
    if (steps < n) goto again;
    if (n & 1) goto done; else if (n & 2) other: COUNT(3), steps += 2;
    if (steps < 9) { steps += 3; goto other; }
done: __attribute__((unused))
    COUNT(4);
    switch (steps) { case 1: last: COUNT(5); default: ; }
    if (n == 5 && steps++ < 6) goto last;
    { int z = 3; if (z) goto end; steps = 0; end: ; }
    return steps;
}
int main(void) {
    int sum = 0;
    for (int i = 0; i < 9; i++) { sum += leave(i) + machine(i); falls(i); }
    printf("%d\\n", sum);
    print_own(6);
    return 0;
}
"""
)


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_returns_and_labels(workshop, level):
    software = {
        "leave": {"return": "leave"},
        "falls": {"return": "falls"},
        "again": {"label": "machine::again"},
        "other": {"label": "machine::other"},
        "done": {"label": "machine::done"},
        "last": {"label": "machine::last"},
    }
    check(workshop, software, FLOW, level)


LINES = (
    HEAD
    + """
static int f(int n)
{
    int k = (own[0]++, 0);
    for (int i = 0; i < n; i++)
        k += (own[1]++, i);
    if (k > 3)
        k += (own[2]++, 1);
    else if (own[3]++, k == 1) {
        k--;
    }
    else
        return own[4]++, 1;
    switch (k) {
    case 1:
        own[5]++;
        break;
    default: own[6]++; k++;
    }
again:
    own[7]++;
    if (k++ < 4) goto again;
    do
        own[8]++;
    while (k++ < 12);
    return k;
}
int main(void) { own[9]++;
    int sum = 0;
    for (int i = 0; i < 6; i++) sum += f(i);
    printf("%d\\n", sum);
    print_own(10);
    return 0;
}
"""
)


@pytest.mark.skipif(not shutil.which("clang"), reason="clang is not installed")
@pytest.mark.parametrize("flags", [("-O0", "-g"), ("-O2", "-Weverything"), ("-O2", "-masm=intel")], ids=" ".join)
def test_clang_as_the_compiler(workshop, flags):
    software = {"all": {"call": "f"}, "inside": {"call": "f", "in": "caller"}, "make": {"call": "make"}}
    check(workshop, software, CALL, *flags, compiler="clang")


def test_lines_count_the_first_statement_that_starts_there(workshop):
    wanted = [next(n for n, line in enumerate(LINES.splitlines(), 1) if f"own[{k}]" in line) for k in range(9)]
    software = {f"line {k}": {"line": f"prog.c:{line}"} for k, line in enumerate(wanted)}
    software["main"] = {"line": f"prog.c:{LINES.splitlines().index('int main(void) { own[9]++;') + 1}"}
    check(workshop, software, LINES, "-O2")
