"""Comparison of run totals of each configuration with the baseline, over all passes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from unperturbed.analysis.totals.verdict import TIMES, TotalChange, compare_runs, decide_totals, total_of
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
    """Return a pass's metrics that have meaningful totals, and the times; of an import, also gauges for their means.

    A gauge whose mean is 0 or less in some run of the baseline has no relative change, and is left out.
    """
    if not baseline:
        return []
    described = baseline[0].metrics
    if spec.imported is not None:
        gauges = [name for name, metric in described.items() if metric.semantics == "gauge"]
        means = {name: [total_of(trace, name) for trace in baseline] for name in gauges}
        unusable = {name for name, values in means.items() if not all(value and value > 0 for value in values)}
        return [*(name for name in spec.imported.metrics if name in described and name not in unusable), *TIMES]
    wanted = dict.fromkeys((*_FIRST, *spec.measure.hardware))
    return [*(name for name in wanted if name in described and described[name].semantics == "counter"), *TIMES]


def unequal_loads(spec: CampaignSpec, traces: Sequence[Trace]) -> Iterator[str]:
    """Yield a note if the load of a service is not the same work in all runs: totals then differ by that too."""
    if spec.imported is not None or not spec.program.is_service or not traces:
        return
    if spec.program.attach is not None:
        yield (
            "Each run is a window of a program that was running before: totals differ by its traffic as well as by the "
            "tool. Keep the traffic steady while the campaign runs."
        )
        return
    requests = [trace.attributes.get("requests") for trace in traces]
    known = [count for count in requests if count is not None]
    if known and max(known) > (1 + _SAME_LOAD) * min(known):
        yield (
            f"The load made {min(known):,} to {max(known):,} requests in a run, so totals are not of equal work: use a "
            "load with a fixed number of requests and no `duration`."
        )
    elif not known and spec.program.duration is not None:
        yield (
            "A run of the service is a time (`duration`), and its number of requests is not known, so totals are not "
            "of equal work: use a `load` with a fixed number of requests and no `duration`, or compare ratios."
        )


_SAME_LOAD = 0.001
"""Relative difference of numbers of requests that leaves totals comparable."""
