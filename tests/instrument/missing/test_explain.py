"""What is said of a metric without a site.

Filters that leave all out, overloads, lambdas and labels that are there, files that were looked at.
"""

from __future__ import annotations

import re

import pytest

from unperturbed.instrument.events import parse_event
from unperturbed.instrument.events.kinds.call import Call
from unperturbed.instrument.events.kinds.gauge import Gauge
from unperturbed.instrument.events.kinds.write import Write
from unperturbed.instrument.missing import missing_metrics
from unperturbed.instrument.missing.names import Occurrence, occurrences

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


WORK = {
    "main.c": """\
#include "util.h"
#include <stdio.h>

struct queue { int length; int head; };
static struct queue queue;
static int total = 1;
int early(int n) { return n + 1; }
int work(int n)
{
    static int made;
    for (int i = 0; i < n; i++) { queue.length += i; made++; }
    if (n > 100) goto out;
    total = util_add(n) + early(n);
    printf("%d\\n", total);
out:
    return made;
}
int main(void) { return work(3) + util_sub(1) > 100; }
""",
    "util.c": """\
#include "util.h"
int util_add(int n) { return n + util_sub(n); }
int util_sub(int count) { while (count > 3) count--; return count; }
""",
    "util.h": "int util_add(int); int util_sub(int);\n",
}

GRID = {
    "grid.cc": """\
#include <vector>
namespace geo {
struct Grid {
    static int made;
    std::vector<int> cells; int filled = 0;
    void put(int n) { cells.push_back(n); filled++; }
    void fill(int n) { for (int i = 0; i < n; i++) put(i); }
};
int Grid::made = 0;
int run(int n) { Grid g; Grid::made += 1; g.fill(n); g.put(2); return g.filled; }
}
int main() { return geo::run(3) > 5; }
"""
}

WRONG_IN_C = [
    ({"enter": "util_*", "file": "main.c"}, "; `util_*` is in util.c, but not in a file that matches `main.c`"),
    ({"call": "util_*", "in": "wrok"}, "; `util_*` is called in work, main, util_add, which `in: wrok` excludes"),
    ({"call": "early", "in": "main"}, "; `early` is called in work, which `in: main` excludes"),
    ({"loop": "early"}, "; `early` is in main.c, but contains no loop"),
    ({"loop": "early#1"}, "; `early` is in main.c, but contains no loop"),
    ({"loop": "wrok#4"}, "; nearest names: work#1"),
    ({"loop": "main.c:12"}, "; no loop begins on that line; nearest lines with a loop: main.c:11"),
    (
        {"line": "main.c:999"},
        "; no statement begins on that line; nearest lines with a statement: main.c:18, main.c:16, main.c:15",
    ),
    (
        {"line": "main.c:3"},
        "; no statement begins on that line; nearest lines with a statement: main.c:7, main.c:10, main.c:11",
    ),
    ({"line": "man.c:3"}, "; nearest names: main.c:…"),
    ({"write": "lenght"}, "; nearest names: queue.length"),
    ({"write": "queue.lenght"}, "; nearest names: queue.length"),
    ({"write": "que.head"}, "; nearest names: queue"),
    ({"write": "work::mad"}, "; nearest names: work::made"),
    ({"write": "util_sub::cuont"}, "; nearest names: util_sub::count"),
    ({"label": "main::out"}, "; nearest names: work::out"),
    ({"label": "wrok::uot"}, "; nearest names: work::out"),
    ({"label": "work::uot"}, "; the labels in `work` are work::out"),
    ({"enter": "work::erly"}, "; nearest names: early"),
    ({"enter": "utl_*"}, "; nearest names: util_add, util_sub"),
    ({"call": "prinft"}, "; nearest names: printf"),
    ({"return": "mian"}, "; nearest names: main"),
    ({"gauge": "made"}, "; `made` exists as work::made"),
    ({"gauge": "lenght"}, "; nearest names: queue.length"),
    ({"gauge": "quue.length"}, "; nearest names: queue.length"),
    ({"gauge": "none.c::totl"}, "; nearest names: total"),
]

WRONG_IN_CXX = [
    ({"enter": "put"}, "; nearest names: geo::Grid::put"),
    ({"enter": "run::fil"}, "; nearest names: geo::Grid::fill"),
    ({"enter": "geo::gird::put"}, "; nearest names: geo::Grid::put"),
    ({"call": "put", "in": "run"}, "; nearest names: geo::Grid::put"),
    ({"call": "put", "in": "main"}, "which `in: main` excludes; nearest names: geo::Grid::put"),
    ({"call": "push_bak"}, "; nearest names: *::push_back"),
    ({"loop": "fill"}, "; nearest names: geo::Grid::fill"),
    ({"loop": "geo::run"}, "; `geo::run` is in grid.cc, but contains no loop"),
    ({"gauge": "made"}, "; `made` exists as geo::Grid::made"),
    ({"write": "made"}, "; nearest names: geo::Grid::made"),
    ({"write": "geo::Grid::filled"}, "; nearest names: geo::Grid.filled"),
    ({"write": "filed"}, "; nearest names: geo::Grid.filled"),
]

_TOLD = re.compile(r"(?:nearest names:|nearest lines with a \w+:|exists as|the labels in `\w+` are) ([^;]+)")


def message(shop, event, name: str = "m") -> str:
    (found,) = missing_metrics(shop.report, {name: parse_event(event)}).values()
    return found


SAID_OF_C = [
    (
        {"call": "cmp", "in": "sort_smple"},
        "; `cmp` is called in sort_simple, sort_quick, which `in: sort_smple` excludes",
    ),
    (
        {"call": "cmp", "in": "main", "file": "a.c"},
        "; `cmp` is called in sort_simple, sort_quick, which `in: main` excludes",
    ),
    ({"enter": "cmp", "file": "b.c"}, "; `cmp` is in a.c, but not in a file that matches `b.c`"),
    ({"loop": "sort_quick#1", "file": "b.c"}, "; `sort_quick` is in a.c, but not in a file that matches `b.c`"),
    ({"label": "sort_quick::done", "file": "b.c"}, "; `sort_quick` is in a.c, but not in a file that matches `b.c`"),
    ({"write": "counter", "in": "sort_quick"}, "; `counter` is in sort_simple, which `in: sort_quick` excludes"),
    ({"gauge": "b.c::queue.length"}, "; `queue` is in a.c, but not in a file that matches `b.c`"),
    ({"label": "sort_quick::zzzz"}, "; the labels in `sort_quick` are sort_quick::again, sort_quick::done;"),
    (
        {"gauge": "a.c::queue"},
        "; a.c:2: `a.c::queue` is of type struct queue; name a field: a.c::queue.length, a.c::queue.head",
    ),
    ({"gauge": "a.c::queue.tail"}, "; a.c:2: `a.c::queue` has no field `tail`; it has length, head"),
]


def numbered(events):
    return {f"m{number}": event for number, event in enumerate(events)}


def test_of_c(workshop):
    shop = workshop(numbered(event for event, _ in SAID_OF_C))
    shop.write("a.c", C)
    shop.call("-O2", "a.c", "-o", "a")
    for number, (event, said) in enumerate(SAID_OF_C):
        assert said in f"{message(shop, event, f'm{number}')};"


SAID_OF_CXX = [
    ({"enter": "ns::twice(int)"}, "; the overloads of `ns::twice` are ns::twice(T), ns::twice(double, int);"),
    (
        {"return": "ns::over(string)"},
        "; the overloads of `ns::over` are ns::over(const std::string &), ns::over(int (*)(int));",
    ),
    (
        {"enter": "ns::host::lambda3"},
        "; the lambdas in `ns::host` are ns::host::add, ns::host::lambda1, ns::host::lambda2;",
    ),
    ({"gauge": "ns::queue"}, "; b.cc:8: `ns::queue` is of type ns::Q; name a field: ns::queue.length"),
    ({"call": "ns::twice", "in": "ns::host"}, "; `twice` is called in use, which `in: ns::host` excludes"),
]


def test_of_cxx(workshop):
    shop = workshop(numbered(event for event, _ in SAID_OF_CXX))
    shop.write("b.cc", CXX)
    shop.call("-O2", "-c", "b.cc", cxx=True)
    for number, (event, said) in enumerate(SAID_OF_CXX):
        assert said in f"{message(shop, event, f'm{number}')};"


def test_what_a_message_lists_is_a_target(workshop):
    targets = ("ns::twice(T)", "ns::over(const std::string &)", "ns::over(int (*)(int))", "ns::host::add")
    shop = workshop({target: {"enter": target} for target in targets})
    shop.write("b.cc", CXX)
    shop.call("-O2", "-c", "b.cc", cxx=True)
    for target in targets:
        assert len(shop.lines(target)) == 1, target


@pytest.mark.parametrize(("texts", "wrong"), [(WORK, WRONG_IN_C), (GRID, WRONG_IN_CXX)])
def test_every_name_that_a_message_tells_has_a_site_as_a_target(workshop, texts, wrong):
    def built(software, name):
        shop = workshop(software, name=name)
        for file, text in texts.items():
            shop.write(file, text)
        for file in texts:
            if not file.endswith(".h"):
                shop.call("-c", file, cxx=file.endswith(".cc"))
        return shop.report

    events = numbered(event for event, _ in wrong)
    messages = missing_metrics(built(events, "wrong"), {name: parse_event(event) for name, event in events.items()})
    assert list(messages) == list(events)
    told = {}
    for (name, event), (_, said) in zip(events.items(), wrong, strict=True):
        assert said in messages[name]
        assert "no similar name" not in messages[name]
        kind = next(iter(event))
        names = [
            each for found in _TOLD.findall(messages[name]) for each in found.split(", ") if not each.endswith("…")
        ]
        told |= {f"{name} {number}": {kind: each} for number, each in enumerate(names)}
    assert len(told) > len(wrong) / 2
    sites = built(told, "right").sites
    assert {name: event for name, event in told.items() if not sites.get(name)} == {}


def test_what_cannot_be_read_again_is_said(workshop):
    shop = workshop({"m": {"enter": "wrok"}, "n": {"write": "totl"}})
    shop.write("d.c", "#ifndef SIZE\n#error SIZE\n#endif\nint total;\nint work(void) { total = SIZE; return 1; }\n")
    shop.call("-DSIZE=3", "-c", "d.c")
    assert "; nearest names: work; searched d.c" in message(shop, {"enter": "wrok"})
    assert "; no similar name found, but the search could not parse d.c;" in f"{message(shop, {'write': 'totl'})};"


def test_a_source_of_a_later_standard_is_read_again(workshop):
    shop = workshop({"m": {"write": "totl"}})
    shop.write(
        "c.cc",
        "template<class T> concept C = true;\nint total;\ntemplate<C T> void work(T n) requires C<T> { total = n; }\n",
    )
    shop.call("-std=c++20", "-c", "c.cc", cxx=True)
    assert "; nearest names: total;" in message(shop, {"write": "totl"})


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
    assert occurrences(sources, "twice", Call.written_as) == [
        Occurrence("x.cc", "ns::C::go"),
        Occurrence("x.cc", "ns::D::go"),
    ]
    assert occurrences(sources, "twice") == [Occurrence("x.h", "twice")]
    assert occurrences(sources, "go") == [Occurrence("x.cc", "ns::C::go"), Occurrence("x.cc", "ns::D::go")]
    assert occurrences(sources, "n", Write.written_as) == [Occurrence("x.cc", "ns::D::go")]
    assert Occurrence("x.cc", "") in occurrences(sources, "table", Gauge.written_as, outside=True)
    assert occurrences(sources, "nothing", Call.written_as) == []
    assert occurrences(sources, "t?i*", Call.written_as) == occurrences(sources, "twice", Call.written_as)
    assert occurrences(sources, "*", Call.written_as) == occurrences(sources, "twice", Call.written_as), (
        "if and for are not calls"
    )
    assert occurrences(sources, "[g]o") == occurrences(sources, "go")


def test_sources_of_configure_are_left_out_and_paths_are_short(workshop):
    shop = workshop({"m": {"enter": "work"}, "n": {"enter": "main"}})
    main = "int main(void) { return 0; }\n"
    for name in (
        "src/a.c",
        "b/CMakeFiles/3.25.1/CompilerIdC/CMakeCCompilerId.c",
        "b/CMakeFiles/CMakeScratch/TryCompile-x/x.c",
    ):
        path = shop.write(name, main)
        shop.call("-c", str(path), "-o", "x.o")
    conftest, asked = shop.write("conftest.c", main), shop.write("ztest1.c", main)
    shop.call("-c", "conftest.c")
    shop.call("-c", "ztest1.c")
    conftest.unlink()
    asked.unlink()
    assert [site.file for site in shop.report.sites["n"]] == [str(shop.folder / "src/a.c"), "ztest1.c"]
    assert message(shop, {"enter": "work"}).endswith("; searched src/a.c")
    conftest.write_text(main)
    assert "conftest.c" in shop.report.sources, "a file of that name that stays is somebody's own"
