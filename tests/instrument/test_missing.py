"""What is said of a metric without a site: filters that leave all out, overloads, lambdas and labels that are there, files that were looked at."""

from __future__ import annotations

import pytest

from unperturbed.instrument.events import parse_event
from unperturbed.instrument.names import Occurrence, occurrences
from unperturbed.instrument.toolchain import missing_metrics

C = """\
struct queue { int length; int head; };
static struct queue queue;
int counter;
static int cmp(int a, int b) { return a < b; /* cmp(1, 2) */ }
int sort_simple(int n) { for (int i = 0; i < n; i++) { if (cmp(i, n)) { counter += i; } } return n; }
int sort_quick(int n) {
    if (n) { while (cmp(n, 3)) n--; }
again:
    if (n) goto done;
    n = queue.length + (counter == 3); goto again;
done:
    return n;
}
int main(void) { return sort_simple(3) + sort_quick(2) > 1000; }
"""

CXX = """\
#include <string>
namespace ns {
template<class T> T twice(T a) { return a + a; }
double twice(double a, int b) { return a * b; }
int over(const std::string &s) { return (int)s.size(); }
int over(int (*f)(int)) { return f(1); }
int host(int n) { auto add = [n](int k) { return n + k; }; return add(1) + [](int z) { return z; }(2); }
struct Q { int length; } queue;
}
int use() { return ns::twice(2) + (int)ns::twice(2.0, 1) + ns::over("x") + ns::host(1); }
"""


def message(shop, event) -> str:
    (found,) = missing_metrics(shop.report, {"m": parse_event(event)}).values()
    return found


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"call": "cmp", "in": "sort_smple"}, "; cmp is in sort_simple, sort_quick, which `in: sort_smple` leaves out"),
        ({"call": "cmp", "in": "main", "file": "a.c"}, "; cmp is in sort_simple, sort_quick, which `in: main` leaves out"),
        ({"enter": "cmp", "file": "b.c"}, "; cmp is in a.c, which `b.c` leaves out"),
        ({"loop": "sort_quick#1", "file": "b.c"}, "; sort_quick is in a.c, which `b.c` leaves out"),
        ({"label": "sort_quick::done", "file": "b.c"}, "; sort_quick is in a.c, which `b.c` leaves out"),
        ({"write": "counter", "in": "sort_quick"}, "; counter is in sort_simple, which `in: sort_quick` leaves out"),
        ({"gauge": "b.c::queue.length"}, "; queue is in a.c, which `b.c` leaves out"),
        ({"label": "sort_quick::zzzz"}, "; the labels there are sort_quick::again, sort_quick::done;"),
        (
            {"gauge": "a.c::queue"},
            "; a.c:2: a.c::queue is a struct queue; name a part of it: a.c::queue.length, a.c::queue.head",
        ),
        ({"gauge": "a.c::queue.tail"}, "; a.c:2: a.c::queue has no field tail; it has length, head"),
    ],
)
def test_of_c(workshop, event, said):
    shop = workshop({"m": event})
    shop.write("a.c", C)
    shop.call("-O2", "a.c", "-o", "a")
    assert said in f"{message(shop, event)};"


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"enter": "ns::twice(int)"}, "; what has that name is ns::twice(T), ns::twice(double, int);"),
        ({"return": "ns::over(string)"}, "; what has that name is ns::over(const std::string &), ns::over(int (*)(int));"),
        ({"enter": "ns::host::lambda3"}, "; the lambdas there are ns::host::add, ns::host::lambda1, ns::host::lambda2;"),
        ({"gauge": "ns::queue"}, "; b.cc:8: ns::queue is a ns::Q; name a part of it: ns::queue.length"),
        ({"call": "ns::twice", "in": "ns::host"}, "; twice is in use, which `in: ns::host` leaves out"),
    ],
)
def test_of_cxx(workshop, event, said):
    shop = workshop({"m": event})
    shop.write("b.cc", CXX)
    shop.call("-O2", "-c", "b.cc", cxx=True)
    assert said in f"{message(shop, event)};"


@pytest.mark.parametrize("target", ["ns::twice(T)", "ns::over(const std::string &)", "ns::over(int (*)(int))", "ns::host::add"])
def test_what_a_message_lists_is_a_target(workshop, target):
    shop = workshop({"m": {"enter": target}})
    shop.write("b.cc", CXX)
    shop.call("-O2", "-c", "b.cc", cxx=True)
    assert len(shop.lines("m")) == 1


def test_names_are_found_without_a_parse(tmp_path):
    (tmp_path / "x.h").write_text("static inline int twice(int n) { return n + n; }\n")
    text = """\
#include "x.h"
#define TWICE(x) do { twice(x); } while (0)
static const char *text = "twice(1) {";
struct s { int (*twice)(int); } table = { twice };
namespace ns { class C { public: int go(int n) const { if (twice(n)) { return 1; } return 0; } }; }
int ns::D::go() { // twice(2)
    auto f = [](int n) { return twice(n); };
    for (;;) { n[3] += 1; } }
"""
    (tmp_path / "x.cc").write_text(text)
    sources = [(str(tmp_path), "x.cc", ())]
    assert occurrences(sources, "call", "twice") == [Occurrence("x.cc", "ns::C::go"), Occurrence("x.cc", "ns::D::go")]
    assert occurrences(sources, "enter", "twice") == [Occurrence("x.h", "twice")]
    assert occurrences(sources, "enter", "go") == [Occurrence("x.cc", "ns::C::go"), Occurrence("x.cc", "ns::D::go")]
    assert occurrences(sources, "write", "n") == [Occurrence("x.cc", "ns::D::go")]
    assert Occurrence("x.cc", "") in occurrences(sources, "gauge", "table")
    assert occurrences(sources, "call", "nothing") == []


def test_sources_of_configure_are_left_out_and_paths_are_short(workshop):
    shop = workshop({"m": {"enter": "work"}, "n": {"enter": "main"}})
    main = "int main(void) { return 0; }\n"
    for name in ("src/a.c", "b/CMakeFiles/3.25.1/CompilerIdC/CMakeCCompilerId.c", "b/CMakeFiles/CMakeScratch/TryCompile-x/x.c"):
        path = shop.write(name, main)
        shop.call("-c", str(path), "-o", "x.o")
    conftest, asked = shop.write("conftest.c", main), shop.write("ztest1.c", main)
    shop.call("-c", "conftest.c")
    shop.call("-c", "ztest1.c")
    conftest.unlink()
    asked.unlink()
    assert [site.file for site in shop.report.sites["n"]] == [str(shop.folder / "src/a.c"), "ztest1.c"]
    assert message(shop, {"enter": "work"}).endswith("; looked at src/a.c")
    conftest.write_text(main)
    assert "conftest.c" in shop.report.sources, "a file of that name that stays is somebody's own"
