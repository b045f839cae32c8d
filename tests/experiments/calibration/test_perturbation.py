"""The verdicts' error rates on simulated campaigns, small and seeded; `docs/evidence/calibration.py` is the long
study."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from tests.analysis import simulate
from unperturbed.analysis.perturbation import Baseline, combine_checks
from unperturbed.harness.campaign.plan import configurations
from unperturbed.harness.spec.load import parse_spec

ALPHA = 0.05
NAMES = tuple(f"H{at}" for at in range(4))


def most(campaigns, share=ALPHA):
    """A count that is exceeded once in a thousand times when the true share is α."""
    return stats.binom.ppf(0.999, campaigns, share)


def test_inner_false_alarms_and_acceptance():
    rng = np.random.default_rng(20)
    campaigns = 250
    program = simulate.program(rng, correlation=simulate.equicorrelated(4, 0.5), intervals=120, phi=0.8, run_effect=0.1)
    significant = alarms = 0
    for _ in range(campaigns):
        verdict = Baseline(simulate.runs(program, rng, 8), metrics=NAMES).inner(simulate.runs(program, rng, 3))
        significant += min(change.p_corrected for change in verdict.changes) <= ALPHA
        alarms += verdict.verdict == "perturbed"
    assert ALPHA / 5 * campaigns <= significant <= most(campaigns)
    assert alarms <= significant


def test_false_alarms_of_outer_checks_and_of_both_in_one_family():
    rng = np.random.default_rng(21)
    campaigns = 120
    program = simulate.program(rng, correlation=simulate.equicorrelated(4, 0.2), intervals=80, phi=0.8, shared=0.8)
    significant = {"outer": 0, "both": 0}
    alarms = 0
    for _ in range(campaigns):
        baseline = Baseline(simulate.runs(program, rng, 6), metrics=NAMES)
        checked = simulate.runs(program, rng, 3)
        outer = baseline.outer(checked, align_on=("H3",), anchor=simulate.MILESTONE)
        both = combine_checks("both", baseline.inner(checked), outer)
        for name, verdict in (("outer", outer), ("both", both)):
            significant[name] += min(change.p_corrected for change in verdict.changes) <= ALPHA
        alarms += both.verdict == "perturbed"
    for count in significant.values():
        assert ALPHA / 5 * campaigns <= count <= most(campaigns)
    assert alarms <= significant["both"]


def test_power_against_a_planted_change():
    rng = np.random.default_rng(22)
    program = simulate.program(rng, correlation=simulate.equicorrelated(4, 0.7), intervals=400, phi=0.7)
    changed = {rho: simulate.with_pair(program.correlation, (0, 1), rho) for rho in (0.4, 0.25)}
    shown = beyond = other = 0
    for _ in range(40):
        baseline = Baseline(simulate.runs(program, rng, 10), metrics=NAMES)
        medium, large = (
            baseline.inner(simulate.runs(program, rng, 3, correlation=each)).changes for each in changed.values()
        )
        shown += medium[0].verdict in ("perturbed", "shifted")
        beyond += large[0].verdict == "perturbed"
        other += any(change.verdict in ("perturbed", "shifted") for change in (*medium[1:], *large[1:]))
    assert shown >= 36
    assert beyond >= 36
    assert other <= 2 * most(40)


def test_a_planted_change_beyond_the_tolerance_is_rarely_accepted():
    # The planted change is a little over the tolerance (about 0.11); the checked runs also vary more than the
    # baseline's.
    rng = np.random.default_rng(23)
    campaigns = 200
    program = simulate.program(rng, correlation=simulate.equicorrelated(2, 0.6), intervals=300, phi=0.5)
    perturbed = simulate.with_pair(program.correlation, (0, 1), 0.46)
    accepted, changes = 0, []
    for _ in range(campaigns):
        baseline = Baseline(simulate.runs(program, rng, 6), metrics=NAMES[:2])
        change = baseline.inner(simulate.runs(program, rng, 3, correlation=perturbed, run_effect=0.1)).changes[0]
        accepted += change.verdict == "unperturbed"
        changes.append(change.effect)
    assert -0.16 < np.mean(changes) < -0.1
    assert accepted <= most(campaigns)


def test_simulated_runs_have_the_correlation_that_was_asked_for():
    rng = np.random.default_rng(24)
    program = simulate.program(
        rng, correlation=simulate.equicorrelated(2, 0.5), intervals=3000, phi=0.3, run_effect=0, jitter=0
    )
    baseline = Baseline(simulate.runs(program, rng, 20), metrics=NAMES[:2])
    assert baseline.correlations.mean() == pytest.approx(0.5, abs=0.02)


def load_study(name, monkeypatch):
    path = Path(__file__).parents[3] / "docs" / "evidence" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    study = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, study)
    spec.loader.exec_module(study)
    return study


def test_the_long_study_compares_the_pooled_test_with_welchs(monkeypatch):
    rows = list(load_study("calibration", monkeypatch).spread_table(2000, seed=1))
    assert len(rows) == 2 + 3 * 2 * 3
    pooled, welch = (float(cell) for cell in rows[2 + 6 + 0].split("|")[4:6])  # k = 10, r = 3, equal spread
    assert pooled <= 0.3
    assert welch >= 0


def test_the_stated_case_of_power_is_found(monkeypatch):
    # 3,000 intervals, φ = .95, 10 and 3 runs, one of 66 pairs from .8 to .5: due in 95 % of campaigns; fewer than 13 of
    # 15 then come once in 28 times.
    *_, alone, joint = load_study("calibration", monkeypatch).goal_table(15, seed=1)
    for row, campaigns, least in ((alone, 15, 13), (joint, 3, 2)):
        _, _, counted, found, *_ = (cell.strip(" *") for cell in row.split("|"))
        assert int(counted) == campaigns
        assert round(float(found.split(" ")[0]) * campaigns) >= least


def test_draws_from_a_pool_whose_halves_differ_are_less_sure(monkeypatch):
    study = load_study("held_back", monkeypatch)
    alike = [[True] + [False] * 9] * 4
    apart = [[True] * 2 + [False] * 8, [False] * 10] * 2
    share, error = (float(part) for part in study.share(alike).split(" ± "))
    assert share == 0.1
    assert error == pytest.approx(np.sqrt(0.1 * 0.9 / 40), abs=1e-3)
    assert float(study.share(apart).split(" ± ")[1]) > error
    assert study.share([[False] * 10] * 4) == "0.000 ± 0.025"


@pytest.mark.parametrize("layouts", ["fixed", "varied"])
def test_the_campaign_of_held_back_runs_is_valid_and_holds_what_is_drawn_from_it(layouts, monkeypatch):
    study = load_study("held_back", monkeypatch)
    folder = Path(__file__).parents[3] / "experiments" / "quickstart"
    spec = parse_spec(study.SPEC.format(layouts=layouts, seed=1), "held_back.yaml", folder)
    planned = {item.name: item.runs for item in configurations(spec)}
    for null in study.NULLS:
        halves = {name: planned[name] // 2 for name in (null.checked, null.inner, null.outer)}
        needed = dict.fromkeys((null.inner, null.outer), study.BASELINE_RUNS)
        needed[null.checked] = needed.get(null.checked, 0) + max(study.CHECKED_RUNS)
        assert all(halves[name] >= count for name, count in needed.items())


def test_the_page_in_short_has_the_rates_of_its_tables(monkeypatch):
    study = load_study("calibration", monkeypatch)
    page = (Path(study.__file__).with_suffix(".md")).read_text(encoding="utf-8")
    headers = {
        "whole": study.whole_header,
        "inner": study.inner_header,
        "outer": study.outer_header,
        "wider": study.wider_header,
        "unlike": study.unlike_header,
        "nodes": study.nodes_header,
        "rounds": study.rounds_header,
    }
    tables = {name: table_of(page, "\n".join(header())) for name, header in headers.items()}
    assert list(study.summary(tables)) == table_of(page, page.split("## In short\n\n")[1].split("\n")[0])


def table_of(page, header):
    """Return the lines of the table with this header."""
    return (header + page.split(f"\n\n{header}")[1].split("\n\n")[0]).split("\n")
