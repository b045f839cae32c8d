"""Run a campaign until every configuration is decided; only open configurations and their references get more runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from unperturbed.analysis.looks import plan_looks
from unperturbed.common.wording import listing
from unperturbed.harness.campaign.execution import execute_plan, prepare_campaign
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.plan import configurations, plan_batch, runs_before
from unperturbed.harness.campaign.progress import Progress
from unperturbed.harness.campaign.traces import reopen_lost
from unperturbed.harness.results.check import CheckOptions
from unperturbed.harness.results.looks import look_at
from unperturbed.harness.results.multiplexed import beside_passes
from unperturbed.harness.results.recorded import disturbed_runs, pending_repetitions, read_traces
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections.campaign import ANCHOR, BASELINE


def run_until_decided(spec: CampaignSpec, folder: Path, progress: Progress) -> None:
    """Run a campaign look by look, or resume an interrupted campaign at its current look."""
    looks = plan_looks(spec.campaign.most_runs)
    with prepare_campaign(spec, folder, progress) as (session, samplings, manifest):
        spec = session.spec
        manifest.reopen()
        reopen_lost(folder, manifest, progress)
        passes = list(session.passes)
        if manifest.runs("planned", hosts=False):  # left over from an interrupted look
            execute_plan(session, samplings, manifest, progress)
        if len(configurations(spec)) == 1:  # nothing is compared with the baseline
            _plan(spec, passes, manifest, [BASELINE], spec.campaign.baseline_runs)
            execute_plan(session, samplings, manifest, progress)
            return
        for runs in looks:
            open_ = _open(spec, folder, manifest)
            if not open_:
                break
            more = manifest.has_done()
            if not _plan(spec, passes, manifest, [*_compared_with(spec, open_), *open_], runs):
                continue
            if more:
                progress.step(
                    f"continuing to {runs} runs of each configuration that is not decided yet: {listing(open_)}"
                )
            execute_plan(session, samplings, manifest, progress)


def _open(spec: CampaignSpec, folder: Path, manifest: Manifest) -> Sequence[str]:
    """Return the undecided configurations without a failed run; none if a run of the baseline failed."""
    failed = {state.run.configuration for state in manifest.runs("failed", hosts=False)}
    if BASELINE in failed:
        return []
    every = [item.name for item in configurations(spec) if item.name not in {BASELINE, *failed}]
    if not manifest.has_done():
        return every
    options = CheckOptions(disturbed=disturbed_runs(manifest), pending=pending_repetitions(manifest))
    decided = look_at(spec, beside_passes(read_traces(folder, manifest)), options).decided
    return [name for name in every if name not in decided]


def _compared_with(spec: CampaignSpec, open_: Collection[str]) -> Sequence[str]:
    """Return the configurations that the open ones are compared with; these need as many runs."""
    names = [item.name for item in configurations(spec)]
    return [name for name in (BASELINE, ANCHOR) if name in names and name not in open_]


def _plan(spec: CampaignSpec, passes: Sequence[str], manifest: Manifest, names: Sequence[str], runs: int) -> bool:
    """Plan the runs that a look needs, unless already planned; return whether there are any."""
    before = [state.run for state in manifest.runs(hosts=False)]
    had = runs_before(before, passes)
    more = {name: runs - had[name] for name in names if had[name] < runs}
    if more:
        design = spec.campaign
        manifest.plan(
            plan_batch(
                more,
                passes,
                seed=design.seed,
                before=before,
                order=design.order,
                layouts=design.layouts,
                builds=spec.builds,
            )
        )
    return bool(more)
