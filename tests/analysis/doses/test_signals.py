"""Signals at dose 0: what counting adds to each interval is taken off, where intervals are the same work."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from unperturbed.analysis.doses.response import decide_responses, responses_of_checks, responses_of_software
from unperturbed.analysis.doses.signals import runs_at_zero
from unperturbed.analysis.perturbation import Baseline
from unperturbed.collectors.data import Metric, Trace

DOSES, ROUNDS, INTERVALS = (1, 2, 4), 8, 120
METRICS = [
    Metric("loads", "simulated"),
    Metric("stores", "simulated"),
    Metric("ratio", "derived", semantics="gauge"),
]


def campaign(*, clock: str = "work", curve: float = 0.0) -> dict[int, list[Trace]]:
    """Make runs at doses 0, 1, 2 and 4, in which each event is a store more.

    `curve`: Stores that a pair of increments adds beyond those of each.
    """
    rng = np.random.default_rng(1)
    loads = rng.integers(1000, 3000, INTERVALS)
    events = rng.integers(0, 9000, INTERVALS)
    runs: dict[int, list[Trace]] = {dose: [] for dose in (0, *DOSES)}
    for number in range(ROUNDS):
        here = loads + rng.integers(0, 300, INTERVALS)
        for dose, of_dose in runs.items():
            stores = 2 * here + dose * events + rng.integers(0, 20, INTERVALS) + round(curve * dose * dose) * events
            columns = {"loads": here, "stores": stores, "ratio": stores / here}
            metrics = [*METRICS, Metric("events", "software")] if dose else METRICS
            of_dose.append(
                Trace.from_columns(
                    metrics,
                    columns | ({"events": events} if dose else {}),
                    begin_ns=np.arange(INTERVALS),
                    end_ns=np.arange(1, INTERVALS + 1),
                    attributes={"block": number, "environment_pad_bytes": 1, "layout": 0, "clock": clock},
                )
            )
    return runs


def test_an_interval_holds_what_it_would_without_counting() -> None:
    runs = campaign()
    made = runs_at_zero({dose: runs[dose] for dose in DOSES}, 1)
    assert len(made) == ROUNDS
    for extrapolated, idle in zip(made, runs[0], strict=True):
        assert extrapolated.attributes["block"] == idle.attributes["block"]
        assert np.abs(extrapolated["stores"] - idle["stores"]).max() <= 60
        assert (extrapolated["loads"] == idle["loads"]).all()
        assert (extrapolated["events"] == runs[1][0]["events"]).all()
        assert extrapolated["stores"].dtype == np.int64
    assert all((run["stores"] >= 0).all() for run in made)


def test_a_round_needs_each_dose_and_intervals_of_the_same_work() -> None:
    runs = {dose: campaign()[dose] for dose in DOSES}
    shorter = {**runs, 2: runs[2][1:]}
    assert len(runs_at_zero(shorter, 2)) == ROUNDS - 1
    by_time = {dose: each for dose, each in campaign(clock="monotonic").items() if dose}
    assert runs_at_zero(by_time, 1) == ()
    cut = [
        Trace.from_columns(
            run.metrics.values(),
            {name: run[name][:100] for name in run.metrics},
            begin_ns=run.begin_ns[:100],
            end_ns=run.end_ns[:100],
            attributes=run.attributes,
        )
        for run in runs[4]
    ]
    assert runs_at_zero({**runs, 4: cut}, 1) == ()


def responses(runs: Mapping[int, list[Trace]], *, by_signals: bool, with_none: bool) -> dict[str, str]:
    """Return the outcome of each correlation."""
    without = Baseline(runs[0], metrics=["loads", "stores"])
    checks = {dose: (runs[dose], [without.inner(runs[dose])]) for dose in DOSES}
    by_dose = {dose: runs[dose] for dose in DOSES}
    made = [runs_at_zero(by_dose, degree) for degree in (1, 2)] if by_signals else []
    at_zero = [(zero, [without.inner(zero)]) for zero in made]
    found = responses_of_checks(checks, runs[0] if with_none else (), checks[1][1][0], at_zero, alpha=0.05)
    assert {each.by_signals for each in found} == {by_signals}
    return {each.label: each.outcome for each in decide_responses("s", found, alpha=0.05).responses}


@pytest.mark.parametrize("with_none", [False, True])
def test_a_coefficient_of_extrapolated_signals_is_that_without_counting(with_none: bool) -> None:
    assert responses(campaign(), by_signals=True, with_none=with_none) == {"loads – stores": "corrected"}


def test_coefficients_alone_are_never_corrected_unseen() -> None:
    assert responses(campaign(), by_signals=False, with_none=True) == {"loads – stores": "not linear"}
    assert responses(campaign(), by_signals=False, with_none=False)["loads – stores"] in ("undecided", "not linear")


def test_a_cost_that_is_not_proportional_is_not_linear() -> None:
    assert responses(campaign(curve=1), by_signals=True, with_none=True) == {"loads – stores": "not linear"}


def test_pairs_with_a_software_metric_are_extrapolated_though_none_is_seen_without_counting() -> None:
    runs = campaign()
    at_one = Baseline(runs[1], metrics=["loads", "stores", "events"], focus=["events"], software=True)
    by_dose = {dose: runs[dose] for dose in DOSES}
    higher = {dose: (runs[dose], [at_one.inner(runs[dose])]) for dose in DOSES if dose > 1}
    zero = [(made, [at_one.inner(made)]) for made in (runs_at_zero(by_dose, degree) for degree in (1, 2))]
    found = decide_responses("s", responses_of_software(higher, runs[1], zero, alpha=0.05), alpha=0.05)
    by_label = {each.label: each for each in found.responses}
    assert {each.check for each in found.responses} == {"software"}
    stores = next(each for label, each in by_label.items() if "stores" in label)
    loads = next(each for label, each in by_label.items() if "loads" in label)
    assert stores.outcome == "corrected"
    assert stores.without is None
    assert abs(stores.value) < 0.2 < stores.means[1]
    assert loads.outcome == "not needed"
