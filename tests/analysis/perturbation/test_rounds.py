"""Comparisons within rounds: against the textbook, and where runs share what their rounds vary."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from unperturbed.analysis.multiple_testing import holm_of_intervals
from unperturbed.analysis.perturbation.compare import compare_runs
from unperturbed.analysis.perturbation.compare_outer import compare_outer_runs, pair_variance, reference_outer_rho
from unperturbed.analysis.perturbation.correlation import FloatArray, fisher, from_fisher
from unperturbed.analysis.perturbation.rounds import (
    DESIGNS,
    are_in_rounds,
    compare_outer_within_rounds,
    compare_within_rounds,
    find_partners,
    mean_outer_z,
    same_rounds,
    shared_variance,
    shorter,
)
from unperturbed.collectors.data import Metric, Trace

ALPHA, ROUNDS = 0.05, 10


def in_rounds(
    rng: np.random.Generator, *, shared: float, spread: float = 0.2, r: int = 5, fall: float = 0.0, metrics: int = 3
) -> tuple[FloatArray, FloatArray, np.ndarray]:
    """Draw ρ of ten reference runs and of r checked ones in rounds of theirs, on Fisher's scale around .8."""
    rounds = rng.choice(ROUNDS, r, replace=False)
    common = rng.standard_normal((ROUNDS, metrics))
    own = rng.standard_normal((ROUNDS + r, metrics))
    mixed = np.sqrt(shared) * np.concatenate([common, common[rounds]]) + np.sqrt(1 - shared) * own
    reference, observed = fisher(0.8) + spread * mixed[:ROUNDS], fisher(0.8 - fall) + spread * mixed[ROUNDS:]
    return from_fisher(reference), from_fisher(observed), rounds


def test_the_p_value_is_that_of_the_paired_t_test() -> None:
    rng = np.random.default_rng(1)
    reference, observed, rounds = in_rounds(rng, shared=0.5)
    compared = compare_within_rounds(reference, observed, rounds, alpha=ALPHA)
    expected = stats.ttest_rel(fisher(observed), fisher(reference[rounds]))
    # Beside the differences' error, the level's is counted, of which a change so small has almost nothing.
    assert compared.p == pytest.approx(expected.pvalue, rel=0.05)
    assert (compared.p >= expected.pvalue - 1e-12).all()
    assert np.sign(compared.effect) == pytest.approx(np.sign(expected.statistic))


def test_outer_values_are_held_against_the_other_runs_of_the_baseline() -> None:
    """By loops: both runs of a round meet every baseline run but that of their own round."""
    rng = np.random.default_rng(2)
    k, r = 6, 5
    matrix = rng.normal(1, 0.1, (k, k, 2))
    matrix[np.arange(k), np.arange(k)] = 0
    each = rng.normal(1, 0.1, (k, r, 2))
    rounds = np.array([4, 0, 1, 5, 2])
    observed = from_fisher(mean_outer_z(each, np.arange(k)[:, None] == rounds))
    compared = compare_outer_within_rounds(reference_outer_rho(matrix), observed, rounds, np.zeros(2), alpha=ALPHA)
    for metric in range(2):
        level = np.mean([np.mean([matrix[i, j, metric] for i in range(k) if i != j]) for j in range(k)])
        change = np.mean(
            [
                np.mean([each[i, at, metric] - matrix[i, own, metric] for i in range(k) if i != own])
                for at, own in enumerate(rounds)
            ]
        )
        assert compared.effect[metric] == pytest.approx(from_fisher(level + change) - from_fisher(level))


def test_what_rounds_share_makes_intervals_shorter_and_a_fall_visible() -> None:
    rng = np.random.default_rng(3)
    wins, widths = [], []
    for _ in range(40):
        reference, observed, rounds = in_rounds(rng, shared=0.99, fall=0.07)
        alone = compare_runs(reference, observed, intervals=None, alpha=ALPHA)
        both = shorter(
            compare_runs(reference, observed, intervals=None, alpha=ALPHA / DESIGNS),
            compare_within_rounds(reference, observed, rounds, alpha=ALPHA / DESIGNS),
        )
        wins.append(((both.p < ALPHA).mean(), (alone.p < ALPHA).mean()))
        widths.append((np.mean(both.high - both.low), np.mean(alone.high - alone.low)))
    found, alone_found = np.mean(wins, axis=0)
    assert found > 0.85 > 0.5 > alone_found
    width, alone_width = np.mean(widths, axis=0)
    assert width < 0.6 * alone_width


@pytest.mark.parametrize("shared", [0.0, 0.5, 0.9, 0.99])
@pytest.mark.thorough
def test_unchanged_runs_are_rarely_called_changed(shared: float) -> None:
    rng = np.random.default_rng([4, round(100 * shared)])
    p = []
    for _ in range(400):
        reference, observed, rounds = in_rounds(rng, shared=shared)
        both = shorter(
            compare_runs(reference, observed, intervals=None, alpha=ALPHA / DESIGNS),
            compare_within_rounds(reference, observed, rounds, alpha=ALPHA / DESIGNS),
        )
        p.append(both.p)
    assert (np.array(p) <= ALPHA).mean() < ALPHA + 0.01


def test_of_each_coefficient_the_shorter_interval_and_its_p_value_are_taken() -> None:
    rng = np.random.default_rng(5)
    reference, observed, rounds = in_rounds(rng, shared=0.6, metrics=40)
    all_runs = compare_runs(reference, observed, intervals=None, alpha=ALPHA / DESIGNS)
    within = compare_within_rounds(reference, observed, rounds, alpha=ALPHA / DESIGNS)
    both = shorter(all_runs, within)
    taken = 0
    for at in range(40):
        of = min((all_runs, within), key=lambda one: one.high[at] - one.low[at])
        taken += of is within
        assert (both.low[at], both.high[at], both.effect[at]) == (of.low[at], of.high[at], of.effect[at])
        assert both.p[at] == min(1, DESIGNS * of.p[at])
        assert both.p_beyond(0.1)[at] == pytest.approx(min(1, DESIGNS * of.p_beyond(0.1)[at]))
    assert 0 < taken < 40
    assert both.p_beyond(0.1).max() == 1  # a change well inside the tolerance


def test_differences_that_are_all_equal_do_not_say_that_every_round_would_be() -> None:
    """The baseline has three values; five rounds of one of them say little of the others."""
    reference = from_fisher(fisher(0.8) + np.repeat([0.0, 0.1, 0.5], [5, 3, 2])[:, None])
    compared = compare_within_rounds(reference, from_fisher(fisher(reference[:8]) - 0.01), np.arange(8), alpha=ALPHA)
    independent = 2 * fisher(reference[:8]).var(axis=0, ddof=1)
    assert compared.standard_error == pytest.approx(np.sqrt(independent / 16 / 8), rel=0.03)


def test_a_coefficient_whose_rounds_are_alike_is_known_no_better_than_half_of_the_others() -> None:
    """By loops: a fall of two coefficients, of which one has hardly any spread between rounds."""
    rng = np.random.default_rng(8)
    z = np.stack([fisher(0.8) + spread * rng.standard_normal(ROUNDS) for spread in (0.2, 0.01)], axis=1)
    after = z - 0.23 + 0.003 * rng.standard_normal(z.shape)
    compared = compare_within_rounds(from_fisher(z), from_fisher(after), np.arange(ROUNDS), alpha=ALPHA)
    between = [float(np.var(column, ddof=1)) for column in z.T]
    for metric, own in enumerate(between):
        start, end = from_fisher(z[:, metric].mean()), from_fisher(after[:, metric].mean())
        moved = 1 - (1 - (0.999 * start) ** 2) / (1 - (0.999 * end) ** 2)
        of_level = moved**2 * max(own, sum(between) / 2 / 2) / ROUNDS
        difference = after[:, metric] - z[:, metric]
        least = (own + np.var(after[:, metric], ddof=1)) / 16
        expected = np.sqrt(max(np.var(difference, ddof=1), least) / ROUNDS + of_level)
        assert compared.standard_error[metric] == pytest.approx(expected)
    alone = compare_within_rounds(from_fisher(z[:, 1:]), from_fisher(after[:, 1:]), np.arange(ROUNDS), alpha=ALPHA)
    assert compared.standard_error[1] > 2 * alone.standard_error[0], "a single coefficient has only its own rounds"


@pytest.mark.parametrize("metrics", [5, 20])
def test_a_class_of_rounds_that_a_coefficient_misses_seldom_makes_a_fall_by_the_tolerance_perturbed(
    metrics: int,
) -> None:
    """Ten rounds of three classes, almost equal within a round: by their own spread, a sixth and a third are called."""
    rng = np.random.default_rng([9, metrics])
    values, classes, campaigns = np.array([0.0, 0.4, 2.4]), [0.4, 0.35, 0.25], 300
    centre, scale = values @ classes, np.sqrt(values**2 @ classes - (values @ classes) ** 2)
    called = 0
    for _ in range(campaigns):
        common = (rng.choice(values, size=(ROUNDS, metrics), p=classes) - centre) / scale
        before, after = (
            from_fisher(fisher(rho) + 0.15 * (np.sqrt(0.99) * common + 0.1 * rng.standard_normal(common.shape)))
            for rho in (0.8, 0.7)
        )
        both = shorter(
            compare_runs(before, after, intervals=None, alpha=ALPHA / DESIGNS),
            compare_within_rounds(before, after, np.arange(ROUNDS), alpha=ALPHA / DESIGNS),
        )
        called += bool((holm_of_intervals(both.p_beyond(0.1)) <= ALPHA).any() and (both.high < -0.1).any())
    assert called <= stats.binom.ppf(0.999, campaigns, ALPHA)


def _trace(block: int | None, pad: int, layout: int = 0) -> Trace:
    return Trace.from_columns(
        [Metric("a", "simulated", source="callgrind")],
        {"a": np.arange(40)},
        begin_ns=np.arange(40),
        end_ns=np.arange(1, 41),
        attributes={} if block is None else {"block": block, "environment_pad_bytes": pad, "layout": layout},
    )


def test_partners_are_the_reference_runs_of_the_same_rounds() -> None:
    reference = [_trace(block, 10 * block) for block in (3, 0, 1, 2, 4, 5)]
    checked = [_trace(block, 10 * block) for block in (0, 2, 3, 5, 4)]
    partners = find_partners(reference, checked)
    assert partners is not None
    assert partners.tolist() == [1, 3, 0, 5, 4]
    assert find_partners(reference, checked[:4]) is None, "too few rounds"
    assert find_partners(reference[1:], checked) is None, "a round without its reference run"
    assert find_partners(reference, [*checked[:4], _trace(4, 7)]) is None, "another size of the environment"
    assert find_partners(reference, [*checked[:4], checked[0]]) is None, "two runs of a round"
    assert find_partners([_trace(None, 0)] * 6, [_trace(None, 0)] * 5) is None, "traces of another tool"


def test_a_round_is_left_out_where_it_has_exactly_one_reference_run() -> None:
    reference = [_trace(block, 10 * block) for block in (3, 0, 1, 1)]
    checked = [_trace(0, 0), _trace(1, 10), _trace(7, 70)]
    same = same_rounds(reference, checked)
    assert same[:, 0].tolist() == [False, True, False, False]
    assert not same[:, 1].any(), "two reference runs of one round"
    assert not same[:, 2].any(), "a round without a reference run"
    assert not same_rounds([_trace(None, 0)] * 6, [_trace(None, 0)] * 5).any(), "traces of another tool"
    each = np.arange(12.0).reshape(4, 3, 1)
    assert mean_outer_z(each, same)[:, 0].tolist() == [(0 + 6 + 9) / 3, (1 + 4 + 7 + 10) / 4, (2 + 5 + 8 + 11) / 4]


def test_an_outer_comparison_without_a_change_is_calibrated() -> None:
    rng = np.random.default_rng(6)
    p = []
    for _ in range(300):
        run = 0.1 * rng.standard_normal((ROUNDS + 5, 1))
        rounds = rng.choice(ROUNDS, 5, replace=False)
        run[ROUNDS:] = 0.95 * run[rounds] + 0.03 * rng.standard_normal((5, 1))
        pair = 0.1 * rng.standard_normal((ROUNDS, ROUNDS, 1))
        matrix = 1 + run[:ROUNDS, None] + run[None, :ROUNDS] + (pair + pair.transpose(1, 0, 2)) / 2
        matrix[np.arange(ROUNDS), np.arange(ROUNDS)] = 0
        each = 1 + run[:ROUNDS, None] + run[None, ROUNDS:] + 0.1 / np.sqrt(2) * rng.standard_normal((ROUNDS, 5, 1))
        shared = pair_variance(matrix)
        observed = from_fisher(mean_outer_z(each, np.arange(ROUNDS)[:, None] == rounds))
        runs = reference_outer_rho(matrix), observed
        all_runs = compare_outer_runs(*runs, shared, intervals=None, alpha=ALPHA / DESIGNS)
        within = compare_outer_within_rounds(*runs, rounds, shared, alpha=ALPHA / DESIGNS)
        p.append(shorter(all_runs, within).p)
    assert (np.array(p) <= ALPHA).mean() < ALPHA + 0.02


@pytest.mark.parametrize("shared", [0.0, 0.5, 0.9])
def test_the_share_that_rounds_have_in_common_is_estimated(shared: float) -> None:
    rng = np.random.default_rng(11)
    found = [shared_variance(*in_rounds(rng, shared=shared, r=10, metrics=20)) for _ in range(100)]
    assert float(np.mean(found)) == pytest.approx(shared, abs=0.08)


def test_runs_that_are_equal_share_no_variance() -> None:
    equal = np.full((6, 2), 0.7)
    assert shared_variance(equal, equal, np.arange(6)) == 0


def test_a_drawn_layout_is_part_of_the_round() -> None:
    reference, checked = ([_trace(block, 0, layout=block + 1) for block in range(5)] for _ in range(2))
    assert are_in_rounds(reference)
    assert find_partners(reference, checked) is not None
    assert find_partners(reference, [*checked[:4], _trace(4, 0, layout=9)]) is None, "another layout"
    assert not are_in_rounds([_trace(block, 0) for block in range(5)])
