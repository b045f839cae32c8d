import numpy as np
import pytest

from unperturbed.analysis.structure.classes.classify import default_metrics, default_per, rates_of
from unperturbed.collectors.data import Metric, Trace
from unperturbed.errors import DataError


def trace(**columns):
    """Return a trace whose columns begin with the kind of their metric: h_, w_, o_, d_, g_ (a gauge)."""
    kinds = {"h": "hardware", "w": "software", "o": "os", "d": "derived", "g": "software"}
    names = {"PAPI_TOT_INS": "hardware"}
    metrics = [
        Metric(name, names.get(name) or kinds[name[0]], semantics="gauge" if name.startswith("g_") else "counter")
        for name in columns
    ]
    count = len(next(iter(columns.values()))) if columns else 0
    ends = np.cumsum([10, 10, 20, 10, 10, 10, 10, 10][:count])
    return Trace.from_columns(metrics, columns, begin_ns=ends - np.diff(ends, prepend=0), end_ns=ends)


def test_counters_are_divided_and_gauges_and_derived_metrics_are_not():
    run = trace(PAPI_TOT_INS=[100, 200, 50], h_misses=[10, 40, 0], g_queue=[3, 4, 5], d_ratio=[0.5, 0.25, 2.0])
    rates = rates_of(run, ["h_misses", "g_queue", "d_ratio"], "PAPI_TOT_INS")
    assert rates.values.tolist() == [[0.1, 3, 0.5], [0.2, 4, 0.25], [0, 5, 2]]
    assert rates.quantum.tolist() == [0.01, 0, 0]
    assert rates.informative.all()


def test_rates_of_time_and_none():
    run = trace(h_misses=[10, 40, 40])
    assert rates_of(run, ["h_misses"], "time").values[:, 0].tolist() == [1, 4, 2]
    assert rates_of(run, ["h_misses"], None).values[:, 0].tolist() == [10, 40, 40]
    assert rates_of(run, ["h_misses"], None).quantum.tolist() == [1]


def test_an_interval_that_did_next_to_nothing_tells_nothing():
    run = trace(PAPI_TOT_INS=[100, 100, 100, 4, 0], h_misses=[1, 2, 3, 4, 0])
    rates = rates_of(run, ["h_misses"], "PAPI_TOT_INS")
    assert rates.informative.tolist() == [True, True, True, False, False]
    assert rates.values[:, 0].tolist() == [0.01, 0.02, 0.03, 1, 0]


def test_rates_are_of_instructions_unless_the_program_waits():
    busy, waiting = [100] * 8, [100, 100, 0, 100, 100, 100, 0, 100]
    assert default_per(trace(PAPI_TOT_INS=busy, h_misses=busy)) == "PAPI_TOT_INS"
    assert default_per(trace(PAPI_TOT_INS=waiting, h_misses=busy)) == "time"
    assert default_per(trace(h_misses=busy)) == "time"


def test_phases_are_told_by_hardware_metrics_else_the_systems_else_all():
    assert default_metrics(trace(PAPI_TOT_INS=[1], h_a=[1], o_b=[1], w_c=[1], d_e=[1.0]), "PAPI_TOT_INS") == ("h_a",)
    assert default_metrics(trace(PAPI_TOT_INS=[1], o_b=[1], w_c=[1]), "PAPI_TOT_INS") == ("o_b",)
    assert default_metrics(trace(w_c=[1], d_e=[1.0]), "time") == ("w_c", "d_e")
    with pytest.raises(
        DataError,
        match=r"no metric other than `per` \(PAPI_TOT_INS\) by which to classify intervals: record more metrics",
    ):
        default_metrics(trace(PAPI_TOT_INS=[1]), "PAPI_TOT_INS")


@pytest.mark.parametrize(
    ("metrics", "per", "said"),
    [
        (["h_a", "nothing"], None, "no metric 'nothing'; the trace has"),
        (
            ["d_ratio"],
            None,
            r"metric 'd_ratio' is nan in interval 1 \(further missing values: 1\): use metrics that have a value",
        ),
        (["h_a"], "g_queue", "'g_queue', which is not a counter: give a counter, `time`, or `None`"),
        (["h_a"], "w_rare", "'w_rare', which is 0 in most intervals: give another counter"),
        (["h_a"], "missing", "no metric 'missing'"),
    ],
)
def test_rates_that_cannot_be_taken(metrics, per, said):
    run = trace(h_a=[1, 2, 3], g_queue=[1, 1, 1], w_rare=[0, 0, 5], d_ratio=[1.0, np.nan, np.inf])
    with pytest.raises(DataError, match=said):
        rates_of(run, metrics, per)
