"""Sums over the processes of a run: against slow, obvious sums; and one process alone is left as it is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unperturbed.collectors.data.trace import Metric
from unperturbed.collectors.records.counted import Counted
from unperturbed.collectors.records.processes import images, join

NAMES = ("cycles", "blocks")
METRICS = {
    "cycles": Metric("cycles", "hardware"),
    "blocks": Metric("blocks", "software"),
    "level": Metric("level", "software", semantics="gauge"),
}


def process(moments: list[int], counts: list[list[int]], pid: int = 1, image: str = "prog") -> Counted:
    columns = {name: np.array(column, np.int64) for name, column in zip(METRICS, counts, strict=True)}
    bounds = np.array(moments, np.int64)
    return Counted(image, pid, 0, METRICS, columns, bounds, 2 * bounds, np.zeros(len(moments) - 1, np.int64))


@st.composite
def processes(draw: st.DrawFn) -> list[Counted]:
    found = []
    for pid in range(1, draw(st.integers(1, 5)) + 1):
        moments = draw(st.lists(st.integers(0, 10_000), min_size=2, max_size=8, unique=True).map(sorted))
        counts = [draw(st.lists(st.integers(0, 1000), min_size=7, max_size=7)) for _ in METRICS]
        found.append(process(moments, [column[: len(moments) - 1] for column in counts], pid))
    return found


@given(processes())
@settings(max_examples=200, deadline=None)
def test_intervals_follow_each_other_in_the_order_of_their_ends(found: list[Counted]) -> None:
    joined = join(found, by_time=False)
    naive = sorted(
        ((int(one.moments_ns[i + 1]), number, i) for number, one in enumerate(found) for i in range(one.intervals)),
    )
    assert joined.intervals == len(naive)
    for name in NAMES:
        assert list(joined.columns[name]) == [int(found[number].columns[name][i]) for _, number, i in naive]
    lengths = [int(found[number].stamps_ns[i + 1] - found[number].stamps_ns[i]) for _, number, i in naive]
    assert list(np.diff(joined.stamps_ns)) == lengths


@given(processes())
@settings(max_examples=200, deadline=None)
def test_on_a_time_axis_no_count_is_lost_or_made(found: list[Counted]) -> None:
    first, joined = found[0], join(found, by_time=True)
    axis = [int(moment) for moment in joined.moments_ns]
    assert axis[: first.intervals + 1] == list(first.moments_ns)
    assert axis[-1] == max(int(one.moments_ns[-1]) for one in found)
    for name in NAMES:
        before = [_until(one, name, axis[0]) for one in found[1:]]
        everything = sum(int(one.columns[name].sum()) for one in found)
        assert abs(int(joined.columns[name].sum()) + sum(before) - everything) <= len(found)
        for left, right, count in zip(axis, axis[1:], joined.columns[name], strict=False):
            naive = sum(_until(one, name, right) - _until(one, name, left) for one in found)
            assert abs(naive - int(count)) <= len(found)


def _until(one: Counted, name: str, moment: int) -> float:
    """Return a process's counts until a moment, with an even pace in each interval."""
    total = 0.0
    for begin, end, count in zip(one.moments_ns, one.moments_ns[1:], one.columns[name], strict=False):
        total += int(count) * min(1.0, max(0.0, (moment - int(begin)) / int(end - begin)))
    return total


def test_a_run_as_one_interval_has_the_sum_of_all() -> None:
    found = [process([10, 20, 30], [[1, 2], [3, 4], [9, 8]]), process([5, 90], [[100], [200], [7]], 2)]
    joined = join(found, by_time=False, whole=True)
    assert (list(joined.moments_ns), joined.intervals) == ([5, 90], 1)
    assert [int(joined.columns[name][0]) for name in METRICS] == [103, 207, 8]


def test_a_gauge_is_that_of_the_first_process() -> None:
    found = [process([0, 10, 40], [[1, 1], [0, 0], [5, 6]]), process([12, 20, 50], [[1, 1], [0, 0], [70, 80]], 2)]
    assert list(join(found, by_time=False).columns["level"]) == [5, 5, 6, 6]


def test_one_process_alone_is_left_as_it_is() -> None:
    alone = process([0, 3, 9], [[1, 2], [3, 4], [5, 6]])
    assert join([alone], by_time=True) is alone


@pytest.mark.parametrize(("metric", "shares"), [("cycles", [0.9, 0.1]), ("", [0.25, 0.75])])
def test_shares_of_executables(metric: str, shares: list[float]) -> None:
    told = [
        process([0, 10], [[450], [0], [0]], 1, "cc1").summary(0),
        process([0, 10], [[450], [0], [0]], 2, "cc1").summary(0),
        process([10, 70], [[100], [0], [0]], 3, "make").summary(0),
    ]
    found = images(told, metric)
    assert {image: entry["processes"] for image, entry in found.items()} == {"cc1": 2, "make": 1}
    assert [found[image]["share"] for image in ("cc1", "make")] == pytest.approx(shares)
