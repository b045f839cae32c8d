import numpy as np
import pytest

from unperturbed.analysis.perturbation import Overhead, overhead
from unperturbed.collectors.data import Metric, Trace


def trace(begin=0, kind="hardware", **columns):
    length = len(next(iter(columns.values())))
    ends = begin + 10 * np.arange(1, length + 1)
    return Trace.from_columns([Metric(name, kind) for name in columns], columns, begin_ns=ends - 10, end_ns=ends)


def test_ratios_of_mean_totals():
    reference = [
        trace(PAPI_TOT_INS=[50, 50], PAPI_TOT_CYC=[100, 100]),
        trace(PAPI_TOT_INS=[60, 40], PAPI_TOT_CYC=[150, 50]),
    ]
    checked = [trace(begin=7, PAPI_TOT_INS=[50, 50, 3], PAPI_TOT_CYC=[100, 100, 100])]
    added = overhead(reference, checked)
    assert added.instructions == pytest.approx(0.03)
    assert added.cycles == pytest.approx(0.5)
    assert added.time == pytest.approx(0.5)


def test_what_was_not_counted_is_unknown():
    counted, not_counted = trace(PAPI_TOT_INS=[5, 5]), trace(OTHER=[1, 1])
    assert overhead([counted, not_counted], [counted]) == Overhead(None, None, 0.0)
    assert overhead([trace(PAPI_TOT_INS=[0, 0])], [counted]).instructions is None
    assert overhead([], [counted]) == Overhead()


def test_the_time_of_a_simulated_run_is_the_simulators():
    first, second = trace(kind="simulated", PAPI_TOT_INS=[5, 5]), trace(kind="simulated", PAPI_TOT_INS=[5, 6, 0])
    assert overhead([first], [second]) == Overhead(pytest.approx(0.1), None, None)
