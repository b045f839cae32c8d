"""Runs joined into one trace, and stretches carried from one run to another."""

from dataclasses import replace

import numpy as np
import pytest

from unperturbed.analysis.alignment import (
    align,
    dtw,
    map_region,
    merge,
    milestone_scores,
    possible_intervals,
    redistribute_counts,
    resample,
    summarise_scores,
)
from unperturbed.collectors.data import Metric, Trace
from unperturbed.errors import DataError

KINDS = {"IPC": ("derived", "counter"), "HELD": ("software", "gauge")}
WORK = 600


def run(rng, configuration, repetition, metrics, *, noise=0.02):
    """A program of three phases at an unsteady pace: each interval does some work, and counts a tick for each unit."""
    pace = 0.7 + 0.6 * rng.random(2 * WORK)
    done = np.concatenate(([0.0], np.cumsum(pace)))
    done = np.concatenate((done[done < WORK], [WORK]))
    middles = (done[1:] + done[:-1]) / 2
    signal = 1 + 0.5 * np.sign(np.sin(middles / 17)) * (middles > 100)
    ticks = np.diff(np.floor(done + 1e-9).astype(int))
    columns = {
        "IPC": signal + noise * rng.standard_normal(len(middles)),
        "TICKS": ticks,
        "HELD": middles,
        "CACHE": (ticks * 7).astype(np.int64),
    }
    chosen = ("IPC", *metrics)
    described = [
        Metric(name, KINDS.get(name, ("software", ""))[0], semantics=KINDS.get(name, ("", "counter"))[1])
        for name in chosen
    ]
    ends = np.arange(1, len(middles) + 1) * 1_000_000
    attributes = {"configuration": configuration, "pass": "main", "run": f"{configuration}{repetition}"}
    return Trace.from_columns(
        described,
        {name: columns[name] for name in chosen},
        begin_ns=ends - 1_000_000,
        end_ns=ends,
        attributes=attributes,
    ), middles


@pytest.fixture(scope="module")
def runs():
    rng = np.random.default_rng(5)
    asked = {"first": ("TICKS",), "second": ("TICKS", "CACHE"), "third": ("HELD",)}
    return [run(rng, name, number, metrics) for name, metrics in asked.items() for number in range(3)]


@pytest.fixture(scope="module")
def merged(runs):
    return merge([trace for trace, _ in runs])


def test_every_metric_is_there_once_and_named_after_its_run(merged, runs):
    assert set(merged.trace.metrics) == {
        "IPC",
        "TICKS",
        "CACHE",
        "HELD",
        "spread:first/main",
        "spread:second/main",
        "spread:third/main",
    }
    named = merged.trace.attributes["merged"]
    assert named["reference"] == merged.sources[0].run
    assert named["sources"]["CACHE"].startswith("second")
    assert named["sources"]["HELD"].startswith("third")
    reference = next(trace for trace, _ in runs if trace.attributes["run"] == named["reference"])
    assert np.array_equal(merged.trace["IPC"], reference["IPC"])
    assert np.array_equal(merged.trace.end_ns, reference.end_ns)


def test_a_counters_total_is_kept_and_its_events_are_where_the_work_is(merged):
    assert merged.trace["CACHE"].sum() == pytest.approx(7 * WORK)
    # CACHE counts seven for each of the reference's own ticks.
    assert np.corrcoef(np.cumsum(merged.trace["CACHE"]), np.cumsum(merged.trace["TICKS"]))[0, 1] > 0.9999
    assert np.abs(np.cumsum(merged.trace["CACHE"]) / 7 - np.cumsum(merged.trace["TICKS"])).max() < 12


def test_a_gauge_is_averaged_and_its_spread_tells_how_sure_it_is(merged, runs):
    _, middles = next(
        pair for pair in runs if pair[0].attributes["run"] == merged.trace.attributes["merged"]["reference"]
    )
    error = np.abs(merged.trace["HELD"] - middles)
    spread = merged.trace["spread:third/main"]
    assert np.median(error) < 2
    assert merged.trace.metrics["spread:third/main"].unit == "intervals"
    assert (spread >= 0).all()
    assert spread.max() > 0
    # A unit of work is about an interval, and chance moves this alignment as much as those that the spread is taken
    # from.
    assert (error <= spread + 2).mean() > 0.8


def test_one_run_has_no_spread_and_a_group_without_news_is_left_out(runs):
    found = merge([runs[0][0], runs[3][0], runs[4][0]])
    assert [source.configuration for source in found.sources] == ["first", "second"]
    assert found.sources[0].spread is None
    assert "spread:first/main" not in found.trace.metrics
    again = merge([runs[3][0], runs[0][0]])
    assert [source.configuration for source in again.sources] == ["second"]


def test_a_merged_trace_is_written_and_read_again(merged, tmp_path):
    merged.trace.write(tmp_path / "merged.parquet")
    read = Trace.read(tmp_path / "merged.parquet")
    assert read.attributes["merged"] == merged.trace.attributes["merged"]
    assert np.array_equal(read["CACHE"], merged.trace["CACHE"])


def test_metrics_of_different_runs_are_drawn_on_one_axis(merged, tmp_path):
    page = merged.plot(["CACHE", "HELD"]).write_html(tmp_path / "merged.html").read_text()
    assert "CACHE and HELD of the merged trace" in page
    assert repr(merged.plot()) != repr(merged.plot("CACHE"))
    with pytest.raises(DataError, match="no plotted run has metric 'NONE'"):
        merged.plot("NONE")


def test_nothing_to_merge_is_refused():
    with pytest.raises(DataError, match="no trace to merge"):
        merge([])


def test_share_out_keeps_totals_and_resample_keeps_levels():
    rng = np.random.default_rng(6)
    for _ in range(30):
        x, y = rng.integers(0, 3, rng.integers(1, 20)), rng.integers(0, 3, rng.integers(1, 20))
        path = dtw(x, y)
        events = rng.random((len(y), 2))
        shared = redistribute_counts(path, events, len(x))
        expected = np.zeros((len(x), 2))
        for i, j in zip(path.x_index, path.y_index, strict=True):
            expected[i] += events[j] / (path.y_index == j).sum()
        assert shared == pytest.approx(expected)
        assert shared.sum(axis=0) == pytest.approx(events.sum(axis=0))
        assert resample(path, np.full(len(y), 3.0), len(x)) == pytest.approx(3.0)


def test_a_region_lies_where_its_work_is(runs):
    (a, of_a), (b, of_b) = runs[0], runs[1]
    alignment = align(a, b, anchor="TICKS", budget=8)
    for start, stop in ((0, 50), (200, 300), (len(a) - 30, len(a))):
        region = map_region(alignment, start, stop)
        true = np.searchsorted(of_b, of_a[[start, stop - 1]])
        assert abs(region.start - true[0]) <= region.uncertainty[0] + 5
        assert abs(region.stop - 1 - true[1]) <= region.uncertainty[1] + 5
    assert map_region(alignment, 0, len(a)).start == 0
    assert map_region(alignment, 0, len(a)).stop == len(b)
    for start, stop in ((-1, 3), (5, 5), (0, len(a) + 1)):
        with pytest.raises(DataError, match="empty or outside"):
            map_region(alignment, start, stop)


def test_flat_stretches_run_at_an_even_pace_and_are_told(runs):
    (a, _), (b, _) = runs[0], runs[1]
    even, warped = align(a, b), align(a, b, flat="warped")
    assert even.pace == "time"
    assert np.array_equal(warped.x_index, even.warped.x_index)
    assert even.penalty == warped.penalty > 0
    assert even.flat_share == warped.flat_share > 0.1
    start, stop = even.flat[0]
    assert stop - start > 50
    i, j = even.x_index, even.y_index
    within = (i > 10) & (i < even.warped.x_index[stop - 1] - 10)
    slope = np.polyfit(i[within], j[within], 1)
    assert np.abs(np.polyval(slope, i[within]) - j[within]).max() <= 1
    noisy = align(*(trace_of_noise(seed) for seed in (1, 2)))
    assert "flat (only noise)" in noisy.warning
    assert "use anchors" in noisy.warning
    by_ticks = align(a, b, pace="TICKS")
    assert by_ticks.pace == "TICKS"
    with pytest.raises(DataError, match="'HELD' is not a counter, so it cannot be the `pace`"):
        align(runs[6][0], runs[7][0], pace="HELD")


def trace_of_noise(seed):
    values = 1 + 0.01 * np.random.default_rng(seed).standard_normal(400)
    ends = np.arange(1, 401) * 1_000_000
    return Trace.from_columns([Metric("IPC", "derived")], {"IPC": values}, begin_ns=ends - 1_000_000, end_ns=ends)


def test_method_milestones_is_the_truth_where_they_are_dense(runs):
    (a, of_a), (b, of_b) = runs[0], runs[1]
    alignment = align(a, b, method="milestones", anchor="TICKS")
    carried = resample(alignment, of_b, len(a))
    assert np.abs(carried - of_a).max() < 3
    assert alignment.warning == ""
    with pytest.raises(DataError, match="needs an anchor: name a software counter, whose events are the milestones"):
        align(a, b, method="milestones")


def test_milestones_bound_where_an_intervals_work_can_be(runs):
    (a, of_a), (b, of_b) = runs[0], runs[1]
    possible = possible_intervals(a, b)
    true = np.abs(of_b[None, :] - of_a[:, None]).argmin(axis=1)
    assert ((possible[:, 0] <= true) & (true <= possible[:, 1])).all()
    assert (possible[:, 1] - possible[:, 0]).max() <= 4
    nothing_common = possible_intervals(a, runs[6][0])
    assert (nothing_common == [0, len(runs[6][0]) - 1]).all()


def test_what_milestones_show_to_be_wrong_is_warned_of_and_moved(runs):
    (a, _), (b, _) = runs[0], runs[1]
    # Noise that has nothing to do with the work: no path on it can be right.
    rng = np.random.default_rng(7)
    astray = [replace(trace, columns={**trace.columns, "IPC": rng.standard_normal(len(trace))}) for trace in (a, b)]
    alignment = align(*astray, penalty=0.0, flat="warped")
    assert alignment.contradicted > 0.3
    assert "software counters with the same total in both runs contradict" in alignment.warning
    possible = possible_intervals(a, b)
    for start in range(0, len(a) - 60, 40):
        region = map_region(alignment, start, start + 50)
        assert possible[start, 0] <= region.start <= possible[start, 1]
        assert possible[start + 49, 0] < region.stop <= possible[start + 49, 1] + 1
        assert region.possible[0] == tuple(possible[start])
    assert align(a, b).contradicted < alignment.contradicted / 2
    assert align(a, b, anchor="TICKS").contradicted < 0.05


def test_the_metrics_that_nothing_was_said_of(runs):
    (a, _), (b, _) = runs[0], runs[1]
    assert align(a, b).on == ("IPC",)

    def with_counters(trace, *names):
        counters = {
            "PAPI_TOT_INS": trace["IPC"] * 1e6,
            "PAPI_TOT_CYC": np.full(len(trace), 1e6),
            "PAPI_L1_DCM": trace["IPC"] * 3,
        }
        metrics = [Metric(name, "simulated") for name in names]
        bounds = {"begin_ns": trace.begin_ns, "end_ns": trace.end_ns}
        return Trace.from_columns(metrics, {name: counters[name] for name in names}, **bounds)

    rates = [with_counters(trace, "PAPI_TOT_INS", "PAPI_TOT_CYC") for trace in (a, b)]
    computed = align(*rates, pace="time")
    assert computed.on == ("IPC",)
    assert np.array_equal(computed.x_index, align(a, b, pace="time").x_index)
    assert align(*(with_counters(trace, "PAPI_L1_DCM") for trace in (a, b))).on == ("PAPI_L1_DCM",)
    with pytest.raises(DataError, match="name the metrics to align on"):
        align(with_counters(a), with_counters(b))


def test_intervals_too_short_to_tell_anything_are_as_their_neighbours(runs):
    (a, _), (b, _) = runs[0], runs[1]

    def cut(trace):
        """Cut a hundredth off every tenth interval: an interval of its own, whose rate is nonsense or none."""
        at = np.arange(50, len(trace), 10)
        begin = np.insert(trace.begin_ns, at, trace.begin_ns[at] - 10_000)
        end = np.insert(trace.end_ns, at, trace.begin_ns[at])
        end[at + np.arange(len(at)) - 1] -= 10_000
        rate = np.insert(trace["IPC"], at, np.where(np.arange(len(at)) % 2, 9.0, np.nan))
        ticks = np.insert(trace["TICKS"], at, 0)
        return Trace.from_columns(trace.metrics.values(), {"IPC": rate, "TICKS": ticks}, begin_ns=begin, end_ns=end)

    short = [cut(trace) for trace in (a, b)]
    counts = [np.cumsum(trace["TICKS"]) for trace in short]
    mended = summarise_scores(milestone_scores(align(*short), *counts))
    whole = summarise_scores(milestone_scores(align(a, b), np.cumsum(a["TICKS"]), np.cumsum(b["TICKS"])))
    assert mended.within_one > whole.within_one - 0.1
    with pytest.raises(DataError, match="is nan in interval 50"):
        align(*short, mend=False)
