"""Comparison of run totals of each configuration with the baseline, over all passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unperturbed.analysis.totals.verdict import TIMES, TotalChange, compare_runs, decide_totals
from unperturbed.collectors.data import Trace
from unperturbed.harness.campaign.plan import judged_configurations
from unperturbed.harness.results.recorded import Traces
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections.campaign import BASELINE

_FIRST = ("PAPI_TOT_INS", "PAPI_TOT_CYC")
"""Totals that are listed first if the traces have them; simulated runs always have both."""


def check_totals_of(spec: CampaignSpec, traces: Traces) -> Mapping[str, tuple[TotalChange, ...]]:
    """Return every configuration's changes of totals, except the baseline's; all passes are one family of tests.

    Each metric is taken from the first pass that counts it, as for correlations.
    """
    decided: dict[str, tuple[TotalChange, ...]] = {}
    for item in judged_configurations(spec):
        if item.name == BASELINE:
            continue
        changes: dict[str, TotalChange] = {}
        for by_configuration in traces.values():
            reference, observed = (by_configuration.get(name, ()) for name in (BASELINE, item.name))
            metrics = [name for name in totals_to_check(spec, reference) if name not in changes]
            for change in compare_runs(
                reference, observed, metrics, alpha=spec.analysis.alpha, tolerances=spec.analysis.totals
            ):
                changes[change.metric] = change
        if changes:
            decided[item.name] = decide_totals(tuple(changes.values()), alpha=spec.analysis.alpha)
    return decided


def totals_to_check(spec: CampaignSpec, baseline: Sequence[Trace]) -> list[str]:
    """Return a pass's metrics that have meaningful totals (counters), and the times."""
    if not baseline:
        return []
    described = baseline[0].metrics
    wanted = spec.imported.metrics if spec.imported is not None else (*_FIRST, *spec.measure.hardware)
    known = [name for name in dict.fromkeys(wanted) if name in described and described[name].semantics == "counter"]
    return [*known, *TIMES]
