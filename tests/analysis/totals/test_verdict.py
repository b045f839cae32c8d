"""Verdicts on totals, from traces: four verdicts, times, zeros, one sentence and a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from unperturbed.analysis.perturbation.verdict import overhead
from unperturbed.analysis.totals import TotalChange, check_totals
from unperturbed.analysis.totals.total_text import total_table, totals_sentence
from unperturbed.analysis.totals.verdict import combine_totals, decide_totals
from unperturbed.collectors.data import Metric, Trace


def _runs(name: str, **totals: Sequence[float]) -> list[Trace]:
    """Return runs of three intervals; `time_s` and `cpu_s` become attributes."""
    runs = []
    for at in range(len(next(iter(totals.values())))):
        own = {metric: values[at] for metric, values in totals.items()}
        times = {metric: own.pop(metric) for metric in ("time_s", "cpu_s") if metric in own}
        columns = {metric: np.array([total - 2, 1, 1], np.int64) for metric, total in own.items()}
        attributes = {"run": f"{name}-{at}", "configuration": name, "block": at, "environment_pad_bytes": at, **times}
        edges = np.arange(4, dtype=np.int64)
        runs.append(
            Trace(
                {metric: Metric(metric, "simulated") for metric in columns},
                edges[:-1],
                edges[1:],
                np.zeros(3, np.int64),
                columns,
                attributes,
            )
        )
    return runs


def _one(before: Sequence[float], after: Sequence[float], **settings: float) -> TotalChange:
    (found,) = check_totals(_runs("a", cycles=before), _runs("b", cycles=after), ["cycles"], **settings)  # type: ignore[arg-type]
    return found


LEVEL = [100_000.0, 100_100, 99_900, 100_050, 99_950]


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.001, "unperturbed"), (1.05, "perturbed"), (0.95, "perturbed"), (1.0099, "shifted")]
)
def test_the_tolerance_decides(factor: float, verdict: str) -> None:
    noise = np.array([60, -40, 30, -80, 20])
    found = _one(LEVEL, [round(factor * total + extra) for total, extra in zip(LEVEL, noise, strict=True)])
    assert found.verdict == verdict
    assert found.low < factor - 1 < found.high
    assert found.simulated


def test_noise_leaves_a_change_undecided_and_says_how_many_runs_decide() -> None:
    found = _one([100_000, 103_000, 98_000, 101_000, 99_000], [101_000, 99_500, 98_500, 103_500, 100_500])
    assert found.verdict == "undecided"
    assert found.runs_to_decide is not None
    assert found.runs_to_decide > 5
    assert found.smallest_visible > 0.02


def test_equal_to_the_last_count() -> None:
    found = _one([356, 356, 356], [356, 356, 356], tolerances={"default": 0})  # type: ignore[arg-type]
    assert (found.equal, found.verdict, found.low, found.high) == (True, "unperturbed", 0, 0)
    assert _one([356, 356, 356], [356, 356, 357]).equal is False


def test_a_total_that_is_0_in_some_runs_has_no_ratio() -> None:
    some = _one([2, 3, 2, 2, 3], [0, 2, 0, 2, 2])
    assert some.verdict == "undecided"
    assert math.isnan(some.change)
    assert "0 in some runs" in some.note
    assert some.interval == "–"
    none = _one([0, 0], [0, 0])
    assert (none.verdict, none.equal) == ("unperturbed", True)


def _timed(before: Sequence[float], after: Sequence[float]) -> TotalChange:
    (found,) = check_totals(_runs("a", time_s=before), _runs("b", time_s=after), ["time_s"])
    return found


def test_an_interval_from_minus_100_percent_is_judged_on_the_scale_of_logarithms() -> None:
    wide = _timed([1e-12, 1.0, 1e12], [1e-12, 2.0, 1e12])
    assert (wide.low, wide.verdict) == (-1, "undecided")
    assert wide.high > 1e9
    assert wide.smallest_visible > 1e9
    assert totals_sentence("b", [wide], "a") == "b: time is undecided."


def test_a_change_that_is_rounded_to_minus_100_percent() -> None:
    gone = _timed([1.0, 1.1, 0.9], [1e-20, 1.1e-20, 0.9e-20])
    assert (gone.change, gone.low, gone.high, gone.verdict) == (-1, -1, -1, "perturbed")
    assert totals_sentence("b", [gone], "a") == "b has 100 % less time than a."
    # Too few runs for a small p-value, yet with the interval at -100 %: the effect is taken from the totals.
    (unsure,) = decide_totals([replace(gone, p=0.2, p_beyond=0.2)], alpha=0.05)
    assert unsure.verdict == "undecided"
    assert unsure.runs_to_decide is not None
    (joint,) = combine_totals({"n1": [gone], "n2": [gone]}, alpha=0.05)
    assert (joint.change, joint.verdict) == (-1, "perturbed")
    assert math.isfinite(joint.p)


def test_a_spread_that_no_relative_change_can_have_is_undecided() -> None:
    wild = _timed([1e-300, 1.0, 1e300], [1e-300, 2.0, 1e300])
    assert (wild.low, wild.high, wild.smallest_visible, wild.verdict) == (-1, math.inf, math.inf, "undecided")
    assert wild.interval == "–"
    (joint,) = combine_totals({"n1": [wild], "n2": [wild]}, alpha=0.05)
    assert (joint.verdict, joint.note) == ("undecided", "")


def test_times_have_a_tolerance_of_their_own_and_are_left_out_where_a_run_has_none() -> None:
    before = _runs("a", cycles=LEVEL, time_s=[0.1, 0.1003, 0.0998, 0.1001, 0.1])
    after = _runs("b", cycles=LEVEL, time_s=[0.1012, 0.1011, 0.1013, 0.1014, 0.1012])
    found = {change.metric: change for change in check_totals(before, after, ["cycles", "time_s", "cpu_s"])}
    assert list(found) == ["cycles", "time_s"]
    assert found["time_s"].tolerance == 0.02
    assert found["time_s"].verdict == "unperturbed"
    assert not found["time_s"].simulated
    (strict,) = check_totals(before, after, ["time_s"], tolerances={"time": 0.001})
    assert strict.verdict == "perturbed"
    del after[1].attributes["time_s"]
    assert [change.metric for change in check_totals(before, after, ["cycles", "time_s"])] == ["cycles"]


def test_p_values_are_corrected_over_the_totals() -> None:
    rng = np.random.default_rng(1)
    names = [f"m{number}" for number in range(20)]
    before, after = ({name: rng.normal(1e6, 1e4, 8).round() for name in names} for _ in range(2))
    found = check_totals(_runs("a", **before), _runs("b", **after), names)
    assert all(change.p_corrected >= change.p for change in found)
    least = min(found, key=lambda change: change.p)
    assert least.p_corrected == pytest.approx(min(1, 20 * least.p))
    assert not any(change.verdict in ("perturbed", "shifted") for change in found)


def test_too_few_runs_give_no_verdict() -> None:
    assert check_totals(_runs("a", cycles=[5]), _runs("b", cycles=[5, 6]), ["cycles"]) == ()
    assert check_totals(_runs("a", cycles=[5, 6]), [], ["cycles"]) == ()


def test_the_sentence_and_the_table() -> None:
    before = _runs("a", PAPI_TOT_INS=LEVEL, PAPI_L1_DCM=[500] * 5, PAPI_LD_INS=LEVEL)
    more = [round(1.021 * total) for total in LEVEL]
    found = check_totals(
        before,
        _runs("B", PAPI_TOT_INS=more, PAPI_L1_DCM=[500] * 5, PAPI_LD_INS=[total + 10 for total in LEVEL]),
        ["PAPI_TOT_INS", "PAPI_L1_DCM", "PAPI_LD_INS"],
    )
    said = totals_sentence("B", found, "A", "unperturbed")
    assert said.startswith("B has 2.1 % more instructions")
    assert "than A; L1-data misses are exactly equal; loads are the same within 1 %" in said
    assert said.endswith("; correlations are unperturbed.")
    text = total_table({"B": found}, "Totals").to_text()
    assert "all totals except times are simulated" in text
    assert "✗ ±1" in text
    assert "equal" in text


def test_runs_that_differ_only_in_order_have_no_change() -> None:
    found = _one([900_001, 900_003, 900_007, 900_002, 900_005], [900_007, 900_005, 900_003, 900_001, 900_002])
    assert found.change == 0
    assert found.low == pytest.approx(-found.high, rel=1e-4)
    assert found.high > 0


def test_tiny_changes_are_about_zero_and_the_interval_stays_whole() -> None:
    found = _one([10**9, 10**9 + 2, 10**9 + 1, 10**9, 10**9 + 2], [10**9 + 30, 10**9 + 28, 10**9 + 31, 10**9 + 30] * 2)
    assert found.interval == "within\u00a0±0.001\u00a0%"
    crossing = _one([10**9, 10**9 + 20, 10**9 + 10, 10**9, 10**9 + 20], [10**9 + 12, 10**9, 10**9 + 9, 10**9 + 20] * 2)
    assert crossing.interval == "within\u00a0±0.001\u00a0%"
    assert replace(crossing, high=0.004).interval == "≈\u00a00 … +0.40\u00a0%"
    (column,) = (column for column in total_table({"B": [found]}).columns if column.head.endswith("interval"))
    assert column.whole


@pytest.mark.parametrize("width", [60, 80])
def test_no_number_of_the_table_is_cut_on_a_narrow_terminal(width: int) -> None:
    level = [266_200_000, 266_200_500, 266_200_200, 266_200_400, 266_200_100]
    found = check_totals(
        _runs("a", PAPI_BR_MSP=level, PAPI_TOT_INS=level, time_s=[0.05579, 0.05581, 0.05578, 0.0558, 0.05582]),
        _runs("B", PAPI_BR_MSP=level[::-1], PAPI_TOT_INS=level, time_s=[0.0561, 0.0558, 0.0557, 0.0562, 0.0558]),
        ["PAPI_BR_MSP", "PAPI_TOT_INS", "time_s"],
    )
    heads = [
        [column.head for column in total_table(of, "").columns] for of in ({"steps": found}, {"a": found, "b": found})
    ]
    assert {"baseline", "steps"} <= {*heads[0]} and {"configuration", "baseline", "here"} <= {*heads[1]}
    table = total_table({"B": found}, "Totals")
    wide, narrow = table.to_text(200), table.to_text(width)
    for change in found:
        assert change.interval in wide
        assert change.equal or change.interval in narrow
        assert f"±{100 * change.tolerance:g}\u00a0%" in narrow
    assert all(len(line) <= width for line in narrow.splitlines())


def test_the_sentence_names_the_runs_that_would_decide_a_total() -> None:
    found = _one([1000, 1014, 986, 1007, 993] * 2, [1001, 984, 1017, 994, 1005] * 2)
    assert found.verdict == "undecided"
    runs = found.runs_to_decide
    assert runs is not None
    said = totals_sentence("B", [found], "A")
    assert said.endswith(f"undecided ({runs} runs per configuration would probably decide).")
    assert totals_sentence("B", [found], "A", advice=False).endswith("undecided.")
    never = replace(found, runs_to_decide=None)
    assert totals_sentence("B", [never], "A").endswith("undecided.")


def test_means_are_of_the_rounds_that_both_have() -> None:
    """A round of the reference alone, with another level, would make the means contradict the change."""
    rounds = [1000, 1400, 1001, 1399, 1002]
    found = _one([*rounds, 2000, 2001], [round(1.1 * total) for total in rounds])
    assert found.partners == (0, 1, 2, 3, 4)
    assert found.after / found.before == pytest.approx(1 + found.change, abs=1e-3)
    assert found.to_dict()["partners"] == found.partners
    assert _one(LEVEL, LEVEL[:2]).partners == ()
    added = overhead(
        *(_runs(name, PAPI_TOT_INS=totals) for name, totals in (("a", found.reference), ("b", found.observed)))
    )
    assert added.instructions == pytest.approx(found.change)


def test_the_sentence_tells_which_change_may_lie_within_the_tolerance() -> None:
    found = _one([1000, 1001, 999, 1000, 1000], [1100, 1101, 1099, 1100, 1100])
    assert found.verdict == "perturbed"
    assert totals_sentence("B", [found], "A") == "B has 10 % more cycles than A."
    shifted = replace(found, verdict="shifted", tolerance=0.1)
    said = "B has 10 % more cycles (perhaps within the tolerance of 10 %) than A."
    assert totals_sentence("B", [shifted], "A") == said
    beyond = replace(shifted, low=0.11, high=0.13, runs_to_decide=12)
    said = totals_sentence("B", [beyond, found], "A")
    corrected = (
        "(11 to 13; after correction for 2 totals, perhaps within the tolerance of 10 %; 12 runs per configuration"
    )
    assert f"B has 10 % more cycles {corrected} would probably decide) and " in said
    assert "would probably" not in totals_sentence("B", [beyond], "A", advice=False)


def test_the_table_names_the_level_of_each_interval() -> None:
    at_look = check_totals(_runs("a", cycles=LEVEL), _runs("B", cycles=LEVEL[::-1]), ["cycles"], alpha=0.01)
    (change,) = at_look
    assert change.to_dict()["level"] == pytest.approx(0.98)
    assert "98 % interval" in [column.head for column in total_table({"B": at_look}).columns]
    later = (replace(change, level=0.95),)
    table = total_table({"B": at_look, "C": later}, "Totals")
    assert "interval" in [column.head for column in table.columns]
    assert table.caption.endswith("level of the intervals: B 98 % and C 95 %")


def test_totals_that_are_equal_in_every_round_are_called_so() -> None:
    rounds = [4367, 4366, 4366, 4367, 4366]
    found = _one(rounds, rounds)
    assert (found.equal, found.equal_in_rounds, found.verdict) == (False, True, "unperturbed")
    assert found.low < 0 < found.high
    assert found.to_dict()["equal_in_rounds"]
    said = totals_sentence("B", [found], "A")
    assert said == "B: cycles are equal in every round."
    assert total_table({"B": [found]}, "Totals").caption.endswith("; equal in every round: cycles")
    assert "equal in every round: cycles of B" in total_table({"B": [found], "C": []}, "Totals").caption
    assert not _one(rounds, rounds[::-1]).equal_in_rounds
    assert not _one([5] * 5, [5] * 5).equal_in_rounds  # said to be equal altogether


def test_runs_are_promised_only_if_they_decide_noise_alone_too() -> None:
    noisy = ((1.0, 1.4, 0.8, 1.6, 1.1), (1.5, 1.2, 2.1, 1.0, 1.7))
    runs_of_both = (tuple("abcde"), tuple("fghij"))
    error = float(np.sqrt(sum(np.log(side).var(ddof=1) / 5 for side in noisy)))
    change = TotalChange("time_s", *noisy, *runs_of_both, 0.25, 0, 0, tolerance=0.02)
    effect = float(np.log(noisy[1]).mean() - np.log(noisy[0]).mean())
    for reach, promised in ((2.0, False), (0.9, True)):
        low, high = (float(np.expm1(effect + side * reach * effect)) for side in (-1, 1))
        made = replace(
            change,
            change=float(np.expm1(effect)),
            low=low,
            high=high,
            p=0.2,
            p_beyond=0.2,
            standard_error=error,
            observed_error=error,
            freedom=8,
        )
        (decided,) = decide_totals([made], alpha=0.05)
        assert decided.verdict == "undecided"
        assert (decided.runs_to_decide is not None) is promised
