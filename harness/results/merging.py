"""A campaign's runs joined into one trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from unperturbed.analysis.alignment import MergedTrace, merge
from unperturbed.analysis.perturbation import OPEN
from unperturbed.collectors.data import Trace
from unperturbed.common.wording import listing
from unperturbed.errors import DataError, SpecError
from unperturbed.harness.campaign import Manifest, configurations
from unperturbed.harness.results.check import align_on, check
from unperturbed.harness.results.recorded import read_traces, recorded_campaign
from unperturbed.harness.results.verdicts import CampaignVerdicts
from unperturbed.harness.spec import ANCHOR, BASELINE, CampaignSpec


@dataclass(frozen=True)
class MergedCampaign:
    """A campaign's runs joined into one trace.

    Attributes
    ----------
    merged : MergedTrace
        The trace, and where each metric came from.
    rejected : tuple of str
        Configurations whose outer check showed them perturbed, and that were merged all the same.
    notes : tuple of str
        One sentence each.
    """

    merged: MergedTrace
    rejected: tuple[str, ...]
    notes: tuple[str, ...]


def merge_campaign(
    folder: Path, *, budget: int | None = None, force: bool = False, without: Sequence[str] = ()
) -> MergedCampaign:
    """Join the runs of a campaign into one trace with every metric.

    The reference is a run of the anchor's configuration where there is one, as all subsets share its milestones, else
    of the baseline.

    Parameters
    ----------
    folder : Path
        Of the campaign.
    budget : int, optional
        Milestones of the anchor that may be used; None for all.
    force : bool, default False
        Merge configurations too whose outer check showed them perturbed.
    without : sequence of str, default ()
        Configurations to leave out.

    Raises
    ------
    SpecError
        The folder holds no campaign, or a configuration was rejected and force is not given.
    DataError
        Two runs cannot be aligned.
    """
    campaign = recorded_campaign(folder)
    with Manifest(folder / "campaign.sqlite") as manifest:
        checked = check(campaign, read_traces(folder, manifest))
    names = [item.name for item in configurations(campaign)]
    unknown = [name for name in without if name not in names]
    if unknown:
        raise SpecError(f"--without {unknown[0]}: the campaign has no such configuration; it has {', '.join(names)}")
    # Runs of another program have no place in the trace of this one.
    rejected = tuple(name for name in _rejected(checked) if name not in (*without, *campaign.programs))
    if rejected and not force:
        leaving = " ".join(f"--without {name}" for name in rejected)
        raise SpecError(
            f"the outer check shows {', '.join(rejected)} perturbed: its runs are not those of the untouched program. "
            f"{leaving} merges all "
            "others; --force merges it too, and marks it"
        )
    traces = [trace for trace in _in_order(campaign, checked) if trace.attributes["configuration"] not in without]
    if not traces:
        raise DataError(f"{folder}: no run of this campaign gave a trace, so there is nothing to merge")
    anchor = campaign.analysis.anchor if ANCHOR in {trace.attributes["configuration"] for trace in traces} else None
    merged = merge(traces, on=align_on(campaign, traces[0]), anchor=anchor, budget=budget)
    merged.trace.attributes["merged"]["rejected"] = list(rejected)
    open_ones = sorted({verdict.configuration for verdict in checked.verdicts if verdict.verdict in OPEN})
    merged_ones = {trace.attributes["configuration"] for trace in traces}
    perturbed = [one.configuration for one in checked.verdicts if one.verdict == "perturbed"]
    notes = [
        f"{name} is perturbed within its runs: {_perturbed_within(checked, name)}. Leave it out by --without {name}, "
        "or do not use those pairs."
        for name in perturbed
        if name in merged_ones and name not in rejected
    ]
    notes += [f"The verdict is open (shifted or undecided): {', '.join(open_ones)}."] if open_ones else []
    return MergedCampaign(merged, rejected, (*notes, *checked.notes))


def _perturbed_within(checked: CampaignVerdicts, configuration: str) -> str:
    """Return the pairs of metrics of a configuration that are perturbed."""
    changes = [change for one in checked.verdicts if one.configuration == configuration for change in one.changes]
    return listing(change.label for change in changes if change.verdict == "perturbed")


def _rejected(checked: CampaignVerdicts) -> tuple[str, ...]:
    """Return the configurations with a metric whose outer correlation was shown to change beyond the tolerance."""
    return tuple(
        dict.fromkeys(
            verdict.configuration
            for verdict in checked.verdicts
            if any(change.check == "outer" and change.verdict == "perturbed" for change in verdict.changes)
        )
    )


def _in_order(campaign: CampaignSpec, checked: CampaignVerdicts) -> Sequence[Trace]:
    """Return all traces: the reference's configuration first, pass by pass, then the baseline, then the subsets."""
    names = [item.name for item in configurations(campaign) if item.sham_of is None and not item.program]
    names.sort(key=lambda name: {ANCHOR: 0, BASELINE: 1}.get(name, 2))
    return [
        trace
        for name in names
        for by_configuration in checked.traces.values()
        for trace in by_configuration.get(name, ())
    ]
