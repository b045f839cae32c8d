"""What a build's site log says, and the messages for metrics without a site."""

from __future__ import annotations

import pytest

from unperturbed.instrument.events import parse_event
from unperturbed.instrument.finding.site_log import count_records
from unperturbed.instrument.missing import missing_metrics
from unperturbed.instrument.missing.explain import names_of_build

TEXT = """\
#include "state.h"
static int total;
static int mainGtU(State *s) { s->nblock++; total += 1; return total; }
int mainSort(State *s)
{
    int depth = 0;
    while (mainGtU(s) < 9) depth++;
finish:
    return depth;
}
"""
HEADER = """\
typedef struct { int nblock; } State;
static inline int in_header(State *s) { return s->nblock; }
"""
OTHER = '#include "state.h"\nint elsewhere(State *s) { return in_header(s); }\n'


@pytest.fixture
def built(workshop):
    def build(software):
        shop = workshop(software)
        shop.write("state.h", HEADER)
        shop.write("sort.c", TEXT)
        shop.write("other.c", OTHER)
        shop.call("-c", "sort.c")
        shop.call("-c", "other.c")
        return shop

    return build


def test_sites_tell_metric_file_line_and_text(built):
    shop = built(
        {"gtu": {"enter": "mainGtU"}, "header": {"enter": "in_header"}, "writes": {"write": "*", "in": "main*"}}
    )
    report = shop.report
    assert [(site.file, site.line, site.text[:7]) for site in report.sites["gtu"]] == [("sort.c", 3, "mainGtU")]
    assert [(site.file, site.line) for site in report.sites["header"]] == [("state.h", 2)], (
        "one place, though in two objects"
    )
    assert [site.text.split(";")[0] for site in report.sites["writes"]] == ["total += 1", "depth++"]
    assert report.sources == ("sort.c", "other.c")
    assert report.skipped == {}
    assert missing_metrics(report, {}) == {}


def test_compiled_sources_are_counted_while_a_build_runs(built):
    shop = built({"gtu": {"enter": "mainGtU"}})
    assert count_records(shop.toolchain.folder) == 2


def test_compiling_again_replaces_what_was_logged(built):
    shop = built({"gtu": {"enter": "mainGtU"}})
    shop.write("sort.c", "\n" + TEXT)
    shop.call("-c", "sort.c")
    assert shop.lines("gtu") == [4]


def test_names_by_kind(built):
    report = built({"all": {"enter": "*"}, "w": {"write": "*"}, "l": {"label": "*::*"}, "loops": {"loop": "*"}}).report
    names = names_of_build(report)
    assert {"mainGtU", "mainSort", "elsewhere", "in_header"} <= names.known(("function",))
    assert {"total", "State.nblock"} <= names.known(("variable", "field"))
    assert "mainSort::finish" in names.known(("label",))
    assert "mainSort#1" in names.known(("loop",))
    assert names.known(("file",)) == {"sort.c", "other.c", "state.h"}


@pytest.mark.parametrize(
    ("event", "nearest"),
    [
        ({"enter": "mainGtu"}, "mainGtU"),
        ({"return": "main_sort"}, "mainSort"),
        ({"call": "mainGtV"}, "mainGtU"),
        ({"write": "State.nblok"}, "State.nblock"),
        ({"write": "EState.nblock"}, "State.nblock"),
        ({"write": "totals"}, "total"),
        ({"loop": "mainSort#2"}, "mainSort#1"),
        ({"line": "sorted.c:5"}, "sort.c:…"),
    ],
)
def test_a_metric_without_a_site_is_told_the_nearest_names(built, event, nearest):
    software = {"wrong": parse_event(event), "right": parse_event({"enter": "mainSort"})}
    shop = built({name: metric.to_json() for name, metric in software.items()})
    (message,) = missing_metrics(shop.report, software).values()
    kind = next(iter(event))
    assert message.startswith(f"software metric 'wrong': the program has no site for `{kind}: {event[kind]}")
    assert f"nearest names: {nearest}" in message
    assert "searched sort.c, other.c" in message
    assert "\n" not in message


def test_messages_say_what_else_may_be_wrong(built, workshop):
    software = {"f": parse_event({"enter": "qqqqqqqq", "file": "*.cc"})}
    (message,) = missing_metrics(built({"f": software["f"].to_json()}).report, software).values()
    assert "enter: qqqqqqqq, file: *.cc`; no similar name" in message
    nothing = workshop({}, name="empty").report
    (message,) = missing_metrics(nothing, software, "use `{cc}`").values()
    assert message.endswith("`enter: qqqqqqqq, file: *.cc`; the instrumenting compiler compiled no source: use `{cc}`")


def test_messages_name_what_could_not_be_counted(workshop):
    software = {"nested": parse_event({"enter": "inner"})}
    shop = workshop({"nested": {"enter": "inner"}})
    shop.write("work.c", "int work(int n) { int inner(int k) { return k + n; } return inner(2); }\n")
    shop.call("-c", "work.c")
    (message,) = missing_metrics(shop.report, software).values()
    assert "could not search work.c (work.c:1: libclang: function definition is not allowed here)" in message
    software = {"power": parse_event({"enter": "power"})}
    shop = workshop({"power": {"enter": "power"}}, name="constant")
    shop.write("work.cc", "constexpr int power(int n) { return n * n; }\nint size[power(2)];\n")
    shop.call("-std=c++11", "-c", "work.cc", cxx=True)
    (message,) = missing_metrics(shop.report, software).values()
    assert message.endswith("; work.cc:1: the function is constexpr: in C++11, it cannot contain the code that counts")
