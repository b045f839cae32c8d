"""Counts in C++ programs that count for themselves: overloads, templates, lambdas, methods, constexpr, operators."""

from __future__ import annotations

import shutil

import pytest

from tests.instrument.conftest import own_counts, plain_output

HEAD = """\
#include <cstdio>
static long own[40];
#define COUNT(n) (own[n]++)
static void print_own(int n) { for (int i = 0; i < n; i++) std::printf("own %ld\\n", own[i]); }
"""


def check(workshop, software, text, *flags, compiler="g++"):
    shop = workshop(software, compilers={"cxx": compiler})
    shop.write("prog.cc", text)
    shop.call(*flags, "prog.cc", "-o", "prog", cxx=True)
    output, counts = shop.run()
    assert output == plain_output(shop.folder, compiler, *flags, "-O0", "-w", "prog.cc")
    assert shop.report.skipped == {}
    assert counts == dict(zip(software, own_counts(output), strict=True))
    return shop


FUNCTIONS = (
    "#include <algorithm>\n#include <string>\n#include <vector>\n"
    + HEAD
    + """
namespace geo {
inline namespace v2 { int area(int w) { COUNT(0); return w; } int area(int w, int h) { COUNT(0); COUNT(1); return w * h; } }
namespace { int hidden(int x) { COUNT(2); return x; } }
struct Shape {
    int size;
    Shape(int n) : size(area(n)) { COUNT(3); }
    Shape() try : size(area(2)) { COUNT(3); } catch (...) { throw; }
    virtual ~Shape() { COUNT(4); }
    int get() const { COUNT(5); return size; }
    operator int() const { COUNT(6); return size; }
    Shape &operator+=(int n);
    static int made(int n) { COUNT(8); return n; }
};
Shape &Shape::operator+=(int n) { COUNT(7); size += n; return *this; }
template <class T> struct Stack {
    std::vector<T> data;
    void push(T x) { COUNT(9); data.push_back(x); }
    template <class U> U as(U u);
};
template <class T> template <class U> U Stack<T>::as(U u) { COUNT(10); return u; }
template <class T> T twice(T x) { COUNT(11); return x + x; }
template <> int twice<int>(int x) { COUNT(11); return 2 * x; }
}
extern "C" int plain(int x) { COUNT(12); return x; }
int main() {
    int sum = 0;
    {
        geo::Shape a(3), b;
        b += a.get();
        sum += geo::area(1) + geo::area(2, 3) + geo::hidden(4) + a + b + geo::Shape::made(1) + plain(2);
        geo::Stack<int> s; s.push(1); s.push(2);
        geo::Stack<std::string> t; t.push("x");
        sum += s.as(1) + (int)t.as(2.5) + geo::twice(3) + (int)geo::twice(1.5);
        struct Local { int go(int x) { COUNT(13); return x; } };
        auto named = [&](int x) { COUNT(14); struct In { int f() { COUNT(16); return 1; } }; return x + sum + In().f(); };
        std::vector<int> v{3, 1, 2};
        std::sort(v.begin(), v.end(), [](int x, int y) { COUNT(15); return x < y; });
        sum += Local().go(2) + named(1) + v[0];
    }
    std::printf("%d\\n", sum);
    print_own(17);
}
"""
)
FUNCTION_EVENTS = {
    "area": {"enter": "geo::area"},
    "one overload": {"enter": "geo::area(int, int)"},
    "hidden": {"enter": "geo::hidden"},
    "constructor": {"enter": "geo::Shape::Shape"},
    "destructor": {"enter": "geo::Shape::~Shape"},
    "method": {"enter": "geo::Shape::get"},
    "conversion": {"enter": "geo::Shape::operator int"},
    "operator": {"enter": "geo::Shape::operator+="},
    "static": {"enter": "*::made"},
    "template": {"enter": "geo::Stack::push"},
    "member template": {"enter": "geo::Stack::as"},
    "function template": {"enter": "geo::twice"},
    "C": {"enter": "plain"},
    "local class": {"enter": "main::Local::go"},
    "named lambda": {"enter": "main::named"},
    "lambda": {"enter": "main::lambda2"},
    "class in lambda": {"enter": "main::lambda1::In::f"},
}


@pytest.mark.parametrize("standard", ["c++11", pytest.param("gnu++20", marks=pytest.mark.long)])
def test_enter_by_qualified_name(workshop, standard):
    check(workshop, FUNCTION_EVENTS, FUNCTIONS, f"-std={standard}", "-O1", "-Wall", "-Werror")


CONSTANT = (
    HEAD
    + """
#if __cplusplus >= 202002L
#define CONSTANT() __builtin_is_constant_evaluated()
#else
#define CONSTANT() true
#endif
constexpr int power(int x, int n) {
    int r = 1;
    for (int i = 0; i < n; i++) r *= x;
    return r;
}
static_assert(power(2, 3) == 8, "in the compiler");
constexpr int sixteen = power(4, 2);
int table[power(2, 2)];
int main(int argc, char **) {
    for (int i = 0; i < 5; i++) { COUNT(0); own[1] += i + argc - 1; own[2] += power(i, i + argc - 1); }
    std::printf("%ld %d\\n", own[2], sixteen + (int)sizeof table);
    print_own(2);
}
"""
)


@pytest.mark.parametrize("standard", ["c++14", "c++20"])
def test_constexpr_functions_count_what_runs_in_the_program(workshop, standard):
    check(workshop, {"enter": {"enter": "power"}, "loop": {"loop": "power"}}, CONSTANT, f"-std={standard}", "-O2")


def test_what_runs_in_the_compiler_is_named_as_uncounted_calls(workshop):
    shop = workshop({"power": {"enter": "power"}})
    shop.write(
        "prog.cc", 'constexpr int power(int x) { return x * x; }\nint main() { static_assert(power(2) == 4, ""); }\n'
    )
    shop.call("-std=c++11", "-c", "prog.cc", cxx=True)
    assert [place.text for place in shop.report.uncounted["power"]] == [
        "the function is constexpr: in C++11, it cannot contain the code that counts"
    ]


EVENTS = (
    "#include <stdexcept>\n#include <string>\n#include <vector>\n"
    + HEAD
    + """
namespace app { int total; struct Base { int level = 0; static int made; }; int Base::made; }
using app::total;
struct Derived : app::Base {
    std::string name;
    int values[3];
    Derived() { values[0] = 1; COUNT(3); }
    void set(int n) { level = n; COUNT(1); this->level += n; COUNT(1); name = "set"; COUNT(2); name += "!"; COUNT(2); }
};
template <class T> struct Box {
    T value;
    Box() : value() {}
    void set(T x) { value = x; COUNT(4); this->value = x; COUNT(4); }
    Box &operator++() { ++value; COUNT(4); return *this; }
};
int next(int x) { return x + 1; }
int next(double x) { return (int)x + 2; }
template <class T> int through(T x) { return (COUNT(5), next(x)) + 1; }
struct Heavy { Heavy(int) {} Heavy(const Heavy &) = delete; int n = 1; };
Heavy heavy(int n) { return Heavy(n); }
std::vector<int> list() { return {1, 2, 3}; }
int &where() { return total; }
int main() {
    Derived d;
    d.set(2); d.level--; COUNT(1);
    app::total = 3; COUNT(0); total++; COUNT(0); (total) -= 1; COUNT(0);
    app::Base::made = 4; COUNT(6);
    Box<int> b; b.set(1); ++b; Box<double> c; c.set(2); ++c;
    int sum = through(1) + through(2.5) + (COUNT(5), next(1)) + (COUNT(5), next(2.0)) + (int)sizeof(next(1));
    if (int q = (COUNT(5), next(2))) sum += q;
    Heavy h = (COUNT(7), heavy(1));
    for (int x : (COUNT(8), list())) { COUNT(9); sum += x; }
    for (const auto &x : (COUNT(8), list())) COUNT(9), sum += x;
    (COUNT(10), where()) = 5;
    auto count = [&sum](int n) { while (n-- > 0) COUNT(11), sum++; if (n) return COUNT(12), 1; COUNT(12); return 2; };
    sum += count(3) + count(2);
    try { if (sum) throw std::runtime_error("x"); } catch (const std::exception &e) { sum++; total = 9; COUNT(0); }
    decltype(next(1)) z = 1; static_assert(noexcept(next(1)) == false, "");
    sum += z + h.n + d.values[0];
    std::printf("%d %d\\n", sum, total);
    print_own(13);
}
"""
)
OTHER_EVENTS = {
    "total": {"write": "app::total"},
    "level": {"write": "app::Base.level"},
    "name": {"write": "Derived.name"},
    "values": {"write": "Derived.values"},
    "value": {"write": "Box.value"},
    "next": {"call": "next"},
    "made": {"write": "app::Base::made"},
    "heavy": {"call": "heavy"},
    "list": {"call": "list"},
    "range": {"loop": "main"},
    "where": {"call": "where"},
    "lambda loop": {"loop": "main::count#1"},
    "lambda return": {"return": "main::lambda1"},
}


@pytest.mark.parametrize("standard", [pytest.param("c++11", marks=pytest.mark.long), "c++17"])
def test_writes_calls_loops_and_returns(workshop, standard):
    # Before C++17 a value is returned by a constructor.
    text = EVENTS.replace("Heavy(const Heavy &) = delete;", "") if standard == "c++11" else EVENTS
    check(workshop, OTHER_EVENTS, text, f"-std={standard}", "-O2", "-Wall")


@pytest.mark.skipif(not shutil.which("clang++"), reason="clang is not installed")
def test_clang_as_the_compiler(workshop):
    check(workshop, FUNCTION_EVENTS, FUNCTIONS, "-std=c++17", "-O2", compiler="clang++")


def test_if_constexpr_attributes_and_initialisers(workshop):
    text = (
        HEAD
        + """
constexpr bool wide(int n) { return n > 4; }
template <class T> int pick(T x) {
    if constexpr (wide(sizeof(T))) { COUNT(0); return 1; } else { COUNT(0); return (int)x; }
}
int spin(int n) {
    if (int k = n * 2; k > 3) [[likely]] return COUNT(1), k;
    while (n < 9) [[unlikely]] { COUNT(2); n++; }
    switch (n) { case 9: n++; [[fallthrough]]; case 10: n++; }
    return COUNT(1), n;
}
int main() {
    int sum = pick(1) + pick(2.0) + spin(1) + spin(5);
    std::printf("%d\\n", sum);
    print_own(3);
}
"""
    )
    software = {"pick": {"return": "pick"}, "spin": {"return": "spin"}, "loop": {"loop": "spin"}}
    check(workshop, software, text, "-std=c++20", "-O2", "-Wall", "-Werror")


def test_labels_with_attributes(workshop):
    text = (
        HEAD
        + """
int f(int n) { if (n > 2) goto out; n += 10; { out: __attribute__((unused)); COUNT(0); } return n; }
int main() { int sum = 0; for (int i = 0; i < 6; i++) sum += f(i); std::printf("%d\\n", sum); print_own(1); return 0; }
"""
    )
    for compiler in ("g++", *(["clang++"] if shutil.which("clang++") else [])):
        check(
            lambda *a, c=compiler, **k: workshop(*a, **k, name=c),
            {"out": {"label": "f::out"}},
            text,
            "-O2",
            compiler=compiler,
        )


def test_events_that_throw_are_counted_as_they_begin(workshop):
    """As docs/how-to/software.md states; the line behind an assignment counts those that are made."""
    text = (
        HEAD
        + """
static long total;
static int odd(int i) { if (i & 1) throw i; return i; }
static int pass(int i) { return COUNT(1), odd(i); }
static int round(int i) {
    try {
        COUNT(0); COUNT(2);
        total += pass(i);
        COUNT(3);
        return 1;
    } catch (int) { return 0; }
}
int main() {
    int sum = 0;
    for (int i = 0; i < 30; i++) sum += round(i);
    std::printf("%d %ld\\n", sum, total);
    print_own(4);
}
"""
    )
    line = text[: text.index("        return 1;")].count("\n") + 1
    software = {
        "written": {"write": "total"},
        "returned": {"return": "pass"},
        "called": {"call": "pass"},
        "made": {"line": f"prog.cc:{line}"},
    }
    shop = check(workshop, software, text, "-O2", "-Wall", "-Werror")
    assert shop.run()[1] == {"written": 30, "returned": 30, "called": 30, "made": 15}
