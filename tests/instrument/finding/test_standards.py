"""Each standard of C and C++ that the compilers here know, by a program of its own constructs that counts for itself."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.instrument.conftest import own_counts, plain_output

C_HEAD = """\
#include <stdio.h>
static long own[40];
#define COUNT(n) (own[n]++)
static void print_own(int n) { for (int i = 0; i < n; i++) printf("own %ld\\n", own[i]); }
"""

C99 = (
    C_HEAD
    + """
#include <complex.h>
#include <stdbool.h>
#include <stdint.h>
struct point { int x, y; int rest[]; };
static inline int sum(int n, const int values[static restrict n]) {
    int total = 0; COUNT(0);
    for (int i = 0; i < n; i++) { total += values[i]; COUNT(1); }
    return total;
}
static int vla(int n) { int a[n]; for (int i = 0; i < n; i++) a[i] = i; COUNT(2); return sum(n, a) + (int)sizeof a; }
static double size(double _Complex z) { COUNT(3); return creal(z) + cimag(z); }
static int inner(struct point p) { COUNT(4); return p.x * p.y; }
static bool even(int64_t n) { COUNT(5); return !(n & 1); } // a comment to the end of the line
#define SHOW(...) printf(__VA_ARGS__)
int main(void) {
    struct point p = {.y = 3, .x = 4};
    int k = 0;
    p.x = 5; COUNT(6);
    k += (COUNT(7), inner((struct point){.x = 1, .y = 2}));
    k += sum(3, (int[]){1, 2, 3}) + vla(4) + (int)size(1.0 + 2.0 * I) + even(k) + inner(p);
    for (_Bool more = true; more; more = k++ < 100) COUNT(8);
    SHOW("%d %s\\n", k, __func__);
    print_own(9);
    return 0;
}
"""
)
C99_EVENTS = {
    "sum": {"enter": "sum"},
    "loop": {"loop": "sum#1"},
    "vla": {"return": "vla"},
    "complex": {"enter": "size"},
    "inner": {"enter": "inner"},
    "even": {"return": "even"},
    "point.x": {"write": "point.x"},
    "call": {"call": "inner", "file": "prog.c", "in": "mai[n]", "add": "k == 0"},
    "more": {"loop": "main"},
}

C11 = (
    C_HEAD
    + """
#include <stdalign.h>
#include <stdatomic.h>
#include <stdnoreturn.h>
#include <stdlib.h>
#include <threads.h>
_Static_assert(sizeof(int) >= 2, "an int has room");
struct shape { int kind; union { int side; struct { int wide, high; }; }; };
static _Thread_local int depth;
static _Atomic int hits;
static int of_int(int x) { COUNT(0); return x; }
static int of_text(const char *x) { COUNT(1); return x[0]; }
#define OF(x) _Generic((x), int: of_int, char *: of_text, const char *: of_text)(x)
noreturn static void leave(int code) { COUNT(2); printf("left\\n"); print_own(8); exit(code); }
static int area(struct shape s) { depth++; COUNT(3); return s.kind ? s.side * s.side : s.wide * s.high; }
static int aligned(void) { alignas(32) char room[32]; COUNT(4); room[0] = 1; return (int)((size_t)room % 32) + room[0]; }
int main(void) {
    struct shape s = {.kind = 1, .side = 3};
    int sum = (COUNT(0), OF(1)) - 1 + OF("text") + aligned();
    own[0]--; COUNT(5);
    for (int i = 0; i < 4; i++) { s.wide = i; COUNT(6); sum += area(s); hits++; COUNT(7); atomic_fetch_add(&hits, 2); }
    printf("%d %d %d\\n", sum, depth, hits);
    leave(0);
}
"""
)
C11_EVENTS = {
    "int": {"enter": "of_int"},
    "text": {"enter": "of_text"},
    "leave": {"call": "leave"},
    "depth": {"write": "depth"},
    "aligned": {"enter": "aligned"},
    "generic": {"call": "of_int"},
    "wide": {"write": "shape.wide"},
    "hits": {"write": "hits"},
}

C23 = (
    C_HEAD
    + """
#include <stdint.h>
_Static_assert(0b1010 == 10);
[[nodiscard]] static int twice(int x, [[maybe_unused]] int unused) { COUNT(0); return 2 * x; }
[[deprecated("old")]] static int old(int x);
static int unnamed(int x, int) { COUNT(1); return x; }
[[maybe_unused]] static int old(int x) { return x; }
enum [[maybe_unused]] colour { red [[maybe_unused]], green };
struct [[maybe_unused]] pair { [[maybe_unused]] int left; int right; };
static int choose(int n) {
    int result = 0;
    switch (n) {
    case 0: result++; COUNT(2); [[fallthrough]];
    case 1: result += 10; break;
    [[likely]] default: result = 7;
    }
    [[maybe_unused]] int kept = result;
    for (int i = 0; i < 0x1'0; i++) [[unlikely]] { COUNT(3); if (i == n) goto done; }
    kept++; COUNT(4);
done:
    COUNT(5);
    int behind = kept;
    return behind + result;
}
int main(void) {
    struct pair p = {1, 2};
    __typeof__(p.left) total = 0;
    p.right = 1'000; COUNT(6);
    for (int i = 0; i < 20; i++) total += twice(i, 0) + unnamed(i, 1) + choose(i);
    printf("%d %d\\n", (int)total, p.right + (int)sizeof(u8"text"));
    print_own(7);
    return 0;
}
"""
)
C23_EVENTS = {
    "attribute": {"enter": "twice"},
    "unnamed": {"enter": "unnamed"},
    "case": {"line": "COUNT(2)"},
    "loop": {"loop": "choose#1"},
    "write": {"line": "COUNT(4)"},
    "label": {"label": "choose::done"},
    "right": {"write": "pair.right"},
}

CXX_HEAD = """\
#include <cstdio>
static long own[40];
#define COUNT(n) (own[n]++)
static void print_own(int n) { for (int i = 0; i < n; i++) std::printf("own %ld\\n", own[i]); }
"""

CXX11 = (
    "#include <initializer_list>\n#include <memory>\n#include <string>\n#include <utility>\n#include <vector>\n"
    + CXX_HEAD
    + """
enum class Colour : unsigned char { red, green };
int operator"" _twice(unsigned long long x) { COUNT(0); return 2 * (int)x; }
template <class T> auto first(const T &all) -> decltype(*all.begin()) { COUNT(1); return *all.begin(); }
template <class... All> int count(All &&...all) { COUNT(2); return sizeof...(all); }
struct Base { virtual int go() const { COUNT(3); return 1; } virtual ~Base() noexcept = default; };
struct Derived final : Base {
    int n = 4; std::vector<int> values{1, 2};
    Derived() : Derived(7) { COUNT(4); }
    explicit Derived(int k) : n{k} { COUNT(5); }
    Derived(Derived &&other) noexcept : n(other.n) { COUNT(6); }
    int go() const override { COUNT(7); return n; }
};
int add(std::initializer_list<int> all) { int sum = 0; for (int x : all) { COUNT(8); sum += x; } return sum; }
using Text = std::string;
int main() {
    std::unique_ptr<Base> p(new Derived);
    Derived moved(std::move(static_cast<Derived &>(*p)));
    auto sum = p->go() + Base().go() + 3_twice + add({1, 2, 3}) + count(1, "two", 3.0) + first(std::vector<int>{5});
    auto by = [&sum](int x) -> int { COUNT(9); return sum += x; };
    sum += by(1) + by(2) + moved.go();
    static_assert(sizeof(Colour) == 1, "as said");
    const char *raw = R"x({ if (a) "} )x"; Text text = raw;
    std::printf("%d %s %d\\n", sum, text.c_str(), (int)Colour::green);
    print_own(10);
}
"""
)
CXX11_EVENTS = {
    "literal": {"enter": 'operator""_twice'},
    "trailing": {"enter": "first"},
    "variadic": {"enter": "count"},
    "virtual": {"enter": "Base::go"},
    "delegating": {"enter": "Derived::Derived()"},
    "explicit": {"enter": "Derived::Derived(int)"},
    "move": {"enter": "Derived::Derived(Derived &&)"},
    "override": {"return": "Derived::go"},
    "range": {"loop": "add#1"},
    "lambda": {"enter": "main::by"},
}

CXX14 = (
    "#include <utility>\n"
    + CXX_HEAD
    + """
template <class T> constexpr T pi = T(3.14159);
auto deduced(int n) { COUNT(0); if (n > 2) return n; return 2 * n; }
decltype(auto) through(int &x) { COUNT(1); return (x); }
[[deprecated]] constexpr int relaxed(int n) { int r = 1; while (n > 1) { r *= n--; } return r; }
static constexpr int table = relaxed(4);
template <class F, std::size_t... I> int each(F f, std::index_sequence<I...>) { int sum = 0; int all[] = {(sum += f(I))...}; return sum + all[0]; }
int main() {
    auto generic = [](auto x, auto y) { COUNT(2); return x + y; };
    int k = 0b101 + 1'000, hidden = 2;
    auto owner = [held = k, &alias = hidden]() mutable { COUNT(3); alias++; return held++; };
    through(k) = 4;
    int sum = deduced(1) + deduced(5) + generic(1, 2) + (int)generic(1.5, 2.5) + owner() + owner() + k + hidden + (int)pi<double>;
    sum += each([](std::size_t i) { COUNT(4); return (int)i; }, std::make_index_sequence<5>{}) + table;
    for (int i = 0; i < 3; i++) sum += generic(i, 1L) > 1;
    std::printf("%d\\n", sum);
    print_own(5);
}
"""
)
CXX14_EVENTS = {
    "deduced": {"return": "deduced"},
    "through": {"call": "through"},
    "generic": {"enter": "main::generic"},
    "owner": {"return": "main::owner"},
    "passed": {"enter": "main::lambda3"},
}

CXX17 = (
    "#include <map>\n#include <optional>\n#include <string>\n#include <tuple>\n#include <variant>\n"
    + CXX_HEAD
    + """
namespace deep::deeper { inline int total = 0; int add(int n) { COUNT(0); total += n; COUNT(1); return total; } }
template <class... All> int fold(All... all) { COUNT(2); return (... + all); }
template <auto Value> int given() { COUNT(3); return Value; }
template <class... Fs> struct Overloaded : Fs... { using Fs::operator()...; };
template <class... Fs> Overloaded(Fs...) -> Overloaded<Fs...>;
template <class T> struct Box { T value; Box(T v) : value(v) { COUNT(4); } Box(const Box &) = default; ~Box() { COUNT(13); } };
static auto halved = [](int x) { COUNT(15); return x / 2; };
struct Started { int first = [] { COUNT(16); return 2; }(); };
int told(const char *text) { COUNT(17); return text[0]; }
int told(const char *text, int n) { return told(text) + n; }
template <class T> int sized(T x) {
    if constexpr (sizeof(T) > 4) {
        COUNT(5); return 8;
    } else return (int)x;
}
[[nodiscard]] std::optional<int> maybe(int n) {
    if (n > 1) {
        COUNT(6); return n;
    }
    return std::nullopt;
}
int main() {
    using namespace deep::deeper;
    int sum = 0;
    if (auto found = maybe(3); found) sum += *found;
    if (int k = (COUNT(7), add(1)); k > 100) sum = 0; else if (auto [a, b] = std::tuple(k, 2); a < b) { sum += b; COUNT(8); }
    switch (int k = sum; k) { case 5: { sum++; } [[fallthrough]]; default: sum += 2; }
    std::map<std::string, int> ages{{"a", 1}, {"b", 2}};
    for (const auto &[name, age] : ages) { COUNT(9); sum += age + (int)name.size(); }
    std::variant<int, double, std::string> some = 2.5;
    for (int i = 0; i < 3; i++) {
        sum += std::visit(Overloaded{[](int x) { COUNT(10); return x; }, [](double x) { COUNT(11); return (int)x; }, [](auto &) { return 0; }}, some);
        if (i == 0) some = 4; else some = std::string("x");
    }
    constexpr auto square = [](int x) { return x * x; };
#if !defined __clang__ || __cplusplus > 202000L  // before C++20 clang has no constexpr lambda with assembly in it
    static_assert(square(3) == 9);
#endif
    for (int i = 0; i < 4; i++) { COUNT(12); sum += square(i + (int)ages.size()); }
    Box box(3); Box other{2.5};
    { Box copy = box; sum += halved(copy.value) + Started().first + told("a") + told("b", 1); }
    auto late = [&] { for (int i = 0; i < 2; i++) { COUNT(14); sum++; } };
    late();
    own[13] += 2;  // of box and other, which are gone only after this is printed
    sum += fold(1, 2, 3) + given<7>() + given<'a'>() + sized(1) + sized(2.0) + box.value + (int)other.value + maybe(0).value_or(1);
    std::printf("%d\\n", sum);
    print_own(18);
}
"""
)
CXX17_EVENTS = {
    "nested": {"enter": "deep::deeper::add"},
    "inline": {"write": "deep::deeper::total"},
    "fold": {"enter": "fold"},
    "auto": {"enter": "given"},
    "deduction": {"enter": "Box::Box"},
    "if constexpr": {"line": "COUNT(5)"},
    "optional": {"line": "COUNT(6)"},
    "if init": {"call": "deep::deeper::add", "in": "main"},
    "else if": {"line": "{ sum += b; COUNT(8)"},
    "bindings": {"loop": "main#1"},
    "int": {"enter": "main::lambda1"},
    "double": {"enter": "main::lambda2"},
    "constexpr lambda": {"enter": "main::square"},
    "destructor": {"enter": "Box::~Box"},
    "late": {"loop": "main::late"},
    "lambda outside": {"enter": "halved"},
    "lambda of a member": {"enter": "Started::first::lambda1"},
    "pointer": {"enter": "told(const char *)"},
}

CXX20 = (
    "#include <compare>\n#include <concepts>\n#include <string_view>\n#include <vector>\n"
    + CXX_HEAD
    + """
template <class T> concept Number = std::integral<T> || std::floating_point<T>;
template <class T> concept Sized = requires(T t) { { t.size() } -> std::convertible_to<int>; requires sizeof(T) > 1; };
template <Number T> T twice(T x) { COUNT(0); return x + x; }
auto shortly(Number auto x, auto y) { COUNT(1); return x + y; }
template <class T> requires Sized<T> int length(const T &t) { COUNT(2); return (int)t.size(); }
int length(Number auto) { COUNT(3); return 1; }
struct Version {
    int major = 1, minor = 0;
    auto operator<=>(const Version &) const = default;
    bool operator==(const Version &other) const { COUNT(4); return major == other.major && minor == other.minor; }
};
struct Custom { int n; std::strong_ordering operator<=>(const Custom &other) const { COUNT(5); return n <=> other.n; } };
consteval int immediate(int n) { return n * n; }
constinit int started = immediate(4);
constexpr int shared(int n) { int r = 0; for (int i = 0; i < n; i++) r += i; return r; }
enum class Colour { red, green };
template <auto F> struct Holder { int go(int x) { COUNT(6); return F(x); } };
using Shape = decltype([](int x) { return x; });
struct Text { const char *s; consteval Text(const char *t) : s(t) {} };
int print(Text text, int n) { COUNT(7); return n + (int)std::string_view(text.s).size(); }
int main() {
    using enum Colour;
    int sum = twice(2) + (int)twice(1.5) + shortly(1, 2) + length(std::vector<int>{1, 2}) + length(3) + (int)green;
    sum += Version{.major = 2} == Version{} ? 1 : 2;
    sum += (Custom{1} < Custom{2}) + (Custom{3} >= Custom{2});
    for (std::vector<int> v{1, 2, 3}; int x : v) { COUNT(8); sum += x; }
    auto each = []<class T>(const std::vector<T> &v) { COUNT(9); T total{}; for (T x : v) total += x; return total; };
    sum += each(std::vector<int>{4, 5}) + (int)each(std::vector<double>{0.5});
    static_assert(shared(4) == 6);
    for (int i = 0; i < 5; i++) { COUNT(10); sum += shared(i + (started > 99)); own[11] += i; }
    COUNT(12); Holder<[](int x) { return x + 1; }> holder;
    sum += holder.go(1) + holder.go(2) + Shape()(3) + sizeof(decltype([] { return 'x'; }()));
    sum += print("text", 1) + print([] { return "from a lambda"; }(), 2);
    if (sum > 1) [[likely]] sum++; else [[unlikely]] sum--;
    std::printf("%d\\n", sum);
    print_own(13);
}
"""
)
CXX20_EVENTS = {
    "concept": {"enter": "twice"},
    "abbreviated": {"enter": "shortly"},
    "requires": {"line": "COUNT(2)"},
    "constrained": {"line": "COUNT(3)"},
    "equal": {"enter": "Version::operator=="},
    "spaceship": {"enter": "Custom::operator<=>"},
    "lambda argument": {"enter": "Holder::go"},
    "immediate": {"call": "print"},
    "for with init": {"loop": "main#1"},
    "template lambda": {"enter": "main::each"},
    "constexpr": {"enter": "shared"},
    "constexpr loop": {"loop": "shared"},
    "in a type": {"line": "COUNT(12)"},
}

COROUTINES = (
    "#include <coroutine>\n#include <utility>\n"
    + CXX_HEAD
    + """
template <class T> struct Generator {
    struct promise_type {
        T value{};
        Generator get_return_object() { COUNT(0); return Generator{std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        std::suspend_always yield_value(T v) { COUNT(1); value = v; return {}; }
        void return_value(T v) { COUNT(2); value = v; }
        void unhandled_exception() {}
    };
    std::coroutine_handle<promise_type> handle;
    bool next() { handle.resume(); return !handle.done(); }
    ~Generator() { handle.destroy(); }
};
int doubled(int x) { COUNT(3); return 2 * x; }
Generator<int> count(int n) {
    COUNT(4);
    for (int i = 0; i < n; i++) {
        COUNT(5);
        co_yield (COUNT(6), doubled(i));
    }
    if (n > 3) {
        COUNT(7);
        co_return 100;
    }
    COUNT(7);
    co_return 200;
}
int main() {
    int sum = 0;
    for (int n = 2; n < 6; n++) {
        auto all = count(n);
        while (all.next()) sum += all.handle.promise().value;
        sum += all.handle.promise().value;
    }
    auto never = count(9);
    std::printf("%d\\n", sum);
    print_own(8);
}
"""
)
COROUTINE_EVENTS = {
    "made": {"enter": "Generator::promise_type::get_return_object"},
    "yields": {"enter": "Generator::promise_type::yield_value"},
    "values": {"write": "Generator::promise_type.value", "in": "Generator::promise_type::return_value"},
    "doubled": {"enter": "doubled"},
    "started": {"enter": "count"},
    "loop": {"loop": "count#1"},
    "in a yield": {"call": "doubled", "in": "count"},
    "finished": {"return": "count"},
}

CXX23 = (
    "#include <cstddef>\n"
    + CXX_HEAD
    + """
constexpr int where(int n) {
    if consteval { return n; }
    else { n += 1000; }
    if !consteval { n++; }
    return n;
}
static_assert(where(1) == 1);
#ifdef __cpp_multidimensional_subscript
#define AT(row, column) [row, column]
#define OPERATOR operator[]
#else
#define AT(row, column) (row, column)
#define OPERATOR operator()
#endif
struct Grid {
    int cells[3][4];
    int &OPERATOR(int row, int column) { COUNT(0); return cells[row][column]; }
};
int main() {
    Grid grid{};
    int sum = 0;
    for (int r = 0; r < 3; r++) for (int c = 0; c < 4; c++) { grid AT(r, c) = r * c; own[1]++; sum += grid AT(r, c); }
    int numbers[] = {1, 2, 3};
    for (using Whole = int; Whole x : numbers) { COUNT(2); sum += x; }
    auto plain = [] mutable noexcept { COUNT(3); return 1; };
    std::size_t size = 4uz;
    for (int i = 0; i < 3; i++) { COUNT(4); sum += where(i + (int)size) + plain(); }
#ifdef NEVER
#elifndef NEVER
    sum += 5;
#endif
    std::printf("%d\\n", sum);
    print_own(5);
}
"""
)
CXX23_EVENTS = {
    "subscript": {"line": "COUNT(0)"},
    "inner": {"loop": "main#2"},
    "alias": {"loop": "main#3"},
    "lambda": {"enter": "main::plain"},
    "if consteval": {"enter": "where"},
}

PROGRAMS = {
    "c": [("c99", C99, C99_EVENTS), ("c11", C11, C11_EVENTS), ("c17", C11, C11_EVENTS), ("c2x", C23, C23_EVENTS)],
    "c++": [
        ("c++11", CXX11, CXX11_EVENTS),
        ("c++14", CXX14, CXX14_EVENTS),
        ("c++17", CXX17, CXX17_EVENTS),
        ("c++20", CXX20, CXX20_EVENTS),
        ("c++20", COROUTINES, COROUTINE_EVENTS),
        ("c++23", CXX23, CXX23_EVENTS),
    ],
}
BETWEEN = ("c++14", "c++17", "c++20")
"""Standards between the oldest and the newest: `make test` tries the last of them with g++, `make validate` tries all."""
CASES = [
    pytest.param(
        compiler,
        standard,
        text,
        events,
        id=f"{compiler}-{standard}{'-coroutines' if text is COROUTINES else ''}",
        marks=[pytest.mark.long] if standard in BETWEEN and (compiler, standard) != ("g++", BETWEEN[-1]) else [],
    )
    for language, compilers in {"c": ("gcc", "clang"), "c++": ("g++", "clang++")}.items()
    for compiler in compilers
    for standard, text, events in PROGRAMS[language]
]


def placed(event, name, text):
    """Return an event with the number of the line that it describes by what stands there."""
    if "line" not in event:
        return event
    return {"line": f"{name}:{1 + next(n for n, line in enumerate(text.splitlines()) if event['line'] in line)}"}


@pytest.mark.parametrize(("compiler", "standard", "text", "events"), CASES)
def test_constructs_of_a_standard(workshop, compiler, standard, text, events):
    name = "prog.cc" if compiler.endswith("++") else "prog.c"
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    if standard == "c++23" and compiler == "clang++":
        standard = "c++2b"
    software = {metric: placed(event, name, text) for metric, event in events.items()}
    shop = workshop(software, compilers={"cxx" if name == "prog.cc" else "cc": compiler})
    shop.write(name, text)
    flags = [f"-std={standard}", "-w", "-O2"]
    try:
        expected = plain_output(shop.folder, compiler, *flags, "-O0", name)  # which no optimisation changes
    except subprocess.CalledProcessError as error:
        if error.cmd[0] != compiler:
            raise  # the program failed
        pytest.skip(f"{compiler} does not know all of this")
    for level in ("-O0", "-O2"):
        shop.call(*flags, level, name, "-o", "prog", cxx=name == "prog.cc")
        assert shop.report.skipped == {}
        output, counts = shop.run()
        assert output == expected
        assert counts == dict(zip(events, own_counts(output), strict=True))
