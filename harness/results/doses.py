"""Responses of a subset's correlations and totals to the dose, in one pass of a campaign."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from unperturbed.analysis.doses.response import (
    DoseResponses,
    Response,
    decide_responses,
    responses_of_checks,
    responses_of_software,
    responses_of_totals,
)
from unperturbed.analysis.doses.signals import runs_at_zero
from unperturbed.analysis.perturbation import Baseline, Verdict, combine_checks
from unperturbed.analysis.totals.verdict import compare_runs, decide_totals
from unperturbed.collectors.data import Trace
from unperturbed.harness.campaign.plan import Configuration, configurations
from unperturbed.harness.spec.campaign_spec import CampaignSpec

FEWEST_RUNS = 3
"""Minimum number of runs at each dose."""


def runs_by_dose(
    spec: CampaignSpec, item: Configuration, traces: Mapping[str, Sequence[Trace]]
) -> dict[int, Sequence[Trace]]:
    """Return a pass's runs at each dose above 0, dose 1 first; empty if the subset has no other dose."""
    named = {1: item.name} | {other.dose: other.name for other in configurations(spec) if other.dose_of == item.name}
    return {dose: traces.get(name, ()) for dose, name in named.items()} if len(named) > 1 else {}


def responses_in_pass(
    spec: CampaignSpec,
    by_dose: Mapping[int, Sequence[Trace]],
    check: Callable[[Sequence[Trace]], Sequence[Verdict]],
    at_one: Sequence[Verdict],
    reference: Sequence[Trace],
    totals: Collection[str],
    *,
    idle: bool,
    software: Baseline | None = None,
) -> list[Response]:
    """Return the responses of correlations and totals in one pass, without outcomes; none if runs are missing.

    `check`: Compares runs with `reference`.
    `at_one`: The checks of the runs at dose 1.
    `totals`: The metrics whose totals are compared.
    `idle`: Whether `reference` has the runs of the same build without counting; otherwise those of the baseline.
    `software`: The runs at dose 1, for pairs with a software metric.
    """
    if any(len(runs) < FEWEST_RUNS for runs in by_dose.values()):
        return []
    checks = {dose: (runs, at_one if dose == 1 else check(runs)) for dose, runs in by_dose.items()}
    alpha, without = spec.analysis.alpha, reference if idle else ()
    made = list(filter(None, (runs_at_zero(by_dose, degree) for degree in (1, 2))))
    at_zero = [(runs, check(runs)) for runs in made]
    changed = compare_runs(reference, by_dose[1], list(totals), alpha=alpha, tolerances=spec.analysis.totals)
    found = [
        *responses_of_checks(checks, without, combine_checks(at_one[0].configuration, *at_one), at_zero, alpha=alpha),
        *responses_of_totals(by_dose, without, decide_totals(changed, alpha=alpha), alpha=alpha),
    ]
    if software is not None and made:
        higher = {dose: (runs, [software.inner(runs)]) for dose, runs in by_dose.items() if dose > 1}
        zero = [(runs, [software.inner(runs)]) for runs in made]
        found += responses_of_software(higher, by_dose[1], zero, alpha=alpha)
    return found


def decide_all_responses(
    found: Mapping[str, Sequence[Response]], *, alpha: float
) -> tuple[dict[str, DoseResponses], list[str]]:
    """Return the responses of each subset with their outcomes, and a note on each subset with too few runs."""
    decided = {name: decide_responses(name, each, alpha=alpha) for name, each in found.items() if each}
    lacking = f"at least {FEWEST_RUNS} rounds with a run at each dose are needed to extrapolate"
    return decided, [f"{name}: {lacking}." for name, each in found.items() if not each]
