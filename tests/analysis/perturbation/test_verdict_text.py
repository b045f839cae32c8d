"""A verdict as text, table, frame and page."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.analysis import simulate
from unperturbed.analysis.perturbation import Baseline, Verdict, verdict_table
from unperturbed.analysis.perturbation.rounds import compare_within_rounds
from unperturbed.analysis.perturbation.verdict_text import decisive_change, mean_rho, shown_levels


@pytest.fixture(scope="module")
def verdict() -> Verdict:
    program = simulate.program(
        np.random.default_rng(0), correlation=simulate.equicorrelated(3, 0.5), intervals=80, phi=0.5
    )
    runs = simulate.runs(program, np.random.default_rng(1), 9)
    return Baseline(runs[:6], tolerance=0.4).inner(runs[6:])


def test_a_verdict_is_a_result(verdict: Verdict, tmp_path: Path) -> None:
    assert repr(verdict) == f"<Verdict: {verdict.headline()}>"
    assert verdict.headline().startswith(f"{verdict.configuration} is {verdict.verdict} (6 changes: ")
    frame = verdict.to_frame()
    assert (frame.height, frame["first"].to_list()) == (6, [change.first for change in verdict.changes])
    assert verdict.to_dict() == verdict.to_json()
    assert json.loads(json.dumps(verdict.to_dict()))["verdict"] == verdict.verdict
    assert "smallest visible" in verdict._repr_html_()
    assert verdict.headline() in verdict.summary()
    simulated = replace(verdict, simulated=True)
    assert simulated.headline() == f"{verdict.headline()}; hardware metrics are simulated"
    assert simulated.to_dict() == verdict.to_dict() | {"simulated": True}
    page = verdict.write_html(tmp_path / "verdict.html").read_text()
    assert verdict.configuration in page
    assert page.startswith("<!DOCTYPE html>")


def test_the_table_of_verdicts_counts_the_changes(verdict: Verdict) -> None:
    (row,) = verdict_table([verdict]).rows
    counts = [str(sum(change.verdict == name for change in verdict.changes) or "·") for name in ORDER]
    assert [getattr(cell, "text", cell) for cell in row][3:] == counts
    assert verdict_table([]).rows == []


ORDER = ("unperturbed", "perturbed", "shifted", "undecided")


def test_the_decisive_change_names_what_was_not_compared(verdict: Verdict) -> None:
    assert decisive_change(Verdict("one", "baseline", "undecided", (), (("a", "constant"),))) == "constant"
    assert "tolerance ±0.4" in decisive_change(verdict)


def test_the_decisive_change_of_a_campaign_until_decided_names_no_number_of_runs(verdict: Verdict) -> None:
    opened = replace(
        verdict, changes=tuple(replace(each, verdict="undecided", runs_to_decide=48) for each in verdict.changes)
    )
    assert "About 48 runs per configuration would probably decide" in decisive_change(opened)
    assert "would probably decide" not in decisive_change(opened, advice=False)
    assert "tolerance" in decisive_change(opened, advice=False)


def test_a_milder_verdict_than_the_interval_by_itself_is_explained(verdict: Verdict) -> None:
    """The interval is not corrected for the number of comparisons; the verdict is."""
    change = replace(verdict.changes[0], low=0.5, high=0.7, p_corrected=0.02, p_beyond_corrected=0.11, tolerance=0.4)
    others = tuple(replace(each, verdict="unperturbed") for each in verdict.changes[1:])
    shifted = replace(verdict, changes=(replace(change, verdict="shifted"), *others))
    assert "after correction for 6 comparisons, this change may lie within the tolerance (corrected p 0.11)" in (
        decisive_change(shifted)
    )
    assert "after correction" not in decisive_change(replace(verdict, changes=(replace(change, verdict="perturbed"),)))
    within = replace(change, low=0.1, verdict="shifted")
    assert "after correction" not in decisive_change(replace(verdict, changes=(within,)))
    before, after = mean_rho(change.reference), mean_rho(change.observed)
    assert f", from {before:.3f} to {after:.3f}; " in decisive_change(shifted)


def test_the_difference_of_the_levels_is_the_change(verdict: Verdict) -> None:
    """Rounds without a checked run move the reference's mean, and are no part of a difference within rounds."""
    reference, observed, partners = (0.1, 0.1, 0.7, 0.9), (0.3, 0.32), (0, 1)
    columns = (np.array([side]).T for side in (reference, observed))
    within = compare_within_rounds(*columns, np.array(partners), alpha=0.05)
    effect = float(within.effect[0])
    change = replace(verdict.changes[0], reference=reference, observed=observed, partners=partners, effect=effect)
    before, after = shown_levels(change)
    assert before == pytest.approx(mean_rho(reference))
    assert after - before == pytest.approx(effect, abs=5e-4)
    assert after - before != pytest.approx(mean_rho(observed) - before, abs=0.1)
    independent = replace(change, effect=mean_rho(observed) - mean_rho(reference))
    assert shown_levels(independent) == pytest.approx((mean_rho(reference), mean_rho(observed)))
    assert shown_levels(replace(independent, partners=())) == shown_levels(independent)
