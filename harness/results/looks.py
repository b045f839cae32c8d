"""Verdicts of campaigns that run until decided: each look uses its share of α; a decided verdict does not change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from unperturbed.analysis.looks import Looks, look_levels, plan_looks
from unperturbed.analysis.perturbation import OPEN, Change, Verdict, VerdictName
from unperturbed.analysis.totals import TotalChange
from unperturbed.analysis.totals.verdict import TIMES, joint_verdict
from unperturbed.common.wording import counted, listing
from unperturbed.harness.campaign.plan import configurations
from unperturbed.harness.campaign.progress import Watch, unwatched
from unperturbed.harness.results.check import STANDARD, CheckOptions, check_runs
from unperturbed.harness.results.recorded import Traces
from unperturbed.harness.results.verdicts import CampaignVerdicts
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections.campaign import BASELINE


def check(
    spec: CampaignSpec, traces: Traces, how: CheckOptions = STANDARD, watch: Watch = unwatched
) -> CampaignVerdicts:
    """Compare every configuration with the baseline; look by look if the campaign runs until decided."""
    if not spec.campaign.until_decided or how.method == "paper":
        return check_runs(spec, traces, how, watch)
    return look_at(spec, traces, how, watch).verdicts


@dataclass
class Looked:
    """The verdicts after all looks that a campaign's runs allow."""

    verdicts: CampaignVerdicts
    decided: Mapping[str, int]  # Number of runs after which each configuration was decided
    looks: tuple[int, ...]  # Number of runs of each configuration at each look so far


def look_at(spec: CampaignSpec, traces: Traces, how: CheckOptions, watch: Watch = unwatched) -> Looked:
    """Judge the configurations at each look, in order; a decided configuration keeps its verdict.

    A look is made when all its runs have ended. Before the first look, the runs so far are judged at the level of the
    first look, and nothing is decided.
    """
    looks = plan_looks(spec.campaign.most_runs)
    findings = _Decisions()
    checked = _decide(findings, spec, traces, how, watch)
    return Looked(
        findings.joined(spec, replace(checked, traces=traces), looks), findings.decided, tuple(findings.looks)
    )


def look_at_stratum(
    spec: CampaignSpec, traces: Traces, how: CheckOptions, decided: Mapping[str, int]
) -> Mapping[str, Verdict]:
    """Return the verdicts on an MPI rank or a thread, at the looks at which the campaign judged each configuration.

    A stratum has no say in how many runs there are. It is judged at each look's share of α, and not after the look that
    decided the configuration (`decided`: after so many runs). So the probability that any of its looks is wrong is at
    most α, whatever ended the campaign.
    """
    findings = _Decisions(ended=decided)
    _decide(findings, spec, traces, how, unwatched)
    return findings.verdicts


def _decide(
    findings: _Decisions, spec: CampaignSpec, traces: Traces, how: CheckOptions, watch: Watch
) -> CampaignVerdicts:
    """Make all looks that the runs allow; return the result of the last one."""
    looks = plan_looks(spec.campaign.most_runs)
    levels = look_levels(spec.analysis.alpha, looks)
    for runs, level in zip(looks, levels, strict=True):
        open_ = findings.open_of(spec, runs)
        pending = [how.pending[name] for name in (BASELINE, *open_) if name in how.pending]
        last = max((_last_repetition(traces, name) for name in open_), default=0)
        complete = last >= runs and all(repetition > runs for repetition in pending)
        if not complete and findings.looks:
            break
        checked = _judged(spec, _first_runs(traces, runs), how, watch, level)
        findings.add(checked, spec, runs if complete else None)
        if not complete:
            break
    return checked


@dataclass
class _Decisions:
    """Verdict and totals of each configuration, from the look that decided it, or else from the last look."""

    verdicts: dict[str, Verdict] = field(default_factory=dict)
    totals: dict[str, tuple[TotalChange, ...]] = field(default_factory=dict)
    decided: dict[str, int] = field(default_factory=dict)
    looks: list[int] = field(default_factory=list)
    ended: Mapping[str, int] = field(default_factory=dict)  # Runs after which a configuration is not judged again

    def open_of(self, spec: CampaignSpec, runs: int = 0) -> list[str]:
        """Return the configurations that are compared with the baseline, not yet decided and not ended before."""
        known = {BASELINE, *self.decided, *(name for name, last in self.ended.items() if last < runs)}
        return [item.name for item in configurations(spec) if item.name not in known]

    def add(self, checked: CampaignVerdicts, spec: CampaignSpec, runs: int | None) -> None:
        """Store a look's verdicts on the configurations that were open before the look; None: the runs so far."""
        for name in self.open_of(spec, runs or 0):
            verdict, totals = checked.by_configuration.get(name), checked.totals.get(name, ())
            if verdict is not None:
                self.verdicts[name] = verdict
            if totals:
                self.totals[name] = totals
            if runs is not None and is_decided(verdict, totals):
                self.decided[name] = runs
        if runs is not None:
            self.looks.append(runs)

    def joined(self, spec: CampaignSpec, last: CampaignVerdicts, planned: Sequence[int]) -> CampaignVerdicts:
        """Return the verdicts of all looks as one result, with all else from the last look."""
        order = [item.name for item in configurations(spec)]
        decided = [f"{name} was decided after {counted(runs, 'run')}" for name, runs in self.decided.items()]
        open_ = self.open_of(spec)
        note = f"Verdicts were made after {listing(str(runs) for runs in self.looks)} runs of each configuration"
        parts = [
            f"{note}; each look used its share of α."
            if self.looks
            else f"These verdicts are preliminary: the first look is after {planned[0]} runs of each configuration."
        ]
        if decided:
            parts.append(f"{listing(decided)}.")
        if open_:
            undecided = f"{listing(open_)} {'is' if len(open_) == 1 else 'are'} not decided"
            parts.append(
                f"{undecided}. A campaign with another name and a larger `at_most` (--max-runs) than {planned[-1]} may "
                "decide more."
                if planned[-1] in self.looks
                else f"{undecided} yet; the campaign makes at most {planned[-1]} runs of each configuration."
            )
        of_decided = (total for name in self.decided for total in self.totals.get(name, ()))
        if any(total.metric in TIMES and total.verdict in OPEN for total in of_decided):
            parts.append("Undecided times do not count here: tens of runs rarely decide them.")
        return replace(
            last,
            looks=Looks(tuple(planned), tuple(self.looks), self.decided),
            verdicts=tuple(self.verdicts[name] for name in order if name in self.verdicts),
            totals={name: self.totals[name] for name in order if name in self.totals},
            notes=(" ".join(parts), *last.notes),
        )


def is_decided(verdict: Verdict | None, totals: Sequence[TotalChange]) -> bool:
    """Return whether a configuration is decided, so that it needs no more runs.

    Its verdict is *perturbed*, or more runs would decide none of its changes. Its totals, if any, have a joint verdict
    that is not open; times are left out, because tens of runs rarely decide them.
    """
    if verdict is None:
        return False
    open_ = any(change.is_open and change.more_runs_help for change in verdict.changes)
    correlations = verdict.verdict == "perturbed" or not open_
    counts: VerdictName = joint_verdict([change for change in totals if change.metric not in TIMES])
    return correlations and (not totals or counts not in OPEN)


def _last_repetition(traces: Traces, name: str) -> int:
    """Return the number of a configuration's last repetition that has a trace."""
    every = [trace for by_configuration in traces.values() for trace in by_configuration.get(name, ())]
    return max((int(trace.attributes["repetition"]) for trace in every), default=0)


def _first_runs(traces: Traces, runs: int) -> Traces:
    """Return the traces of the first `runs` repetitions of every configuration."""
    return {
        name: {
            configuration: tuple(trace for trace in recorded if int(trace.attributes["repetition"]) <= runs)
            for configuration, recorded in by_configuration.items()
        }
        for name, by_configuration in traces.items()
    }


def _judged(spec: CampaignSpec, traces: Traces, how: CheckOptions, watch: Watch, level: float) -> CampaignVerdicts:
    """Judge runs at a look's level; scale the p-values, so that they can be compared with α.

    Each p-value is multiplied by α / level. The levels of all looks add up to α, so the scaled p-values are valid over
    all looks.
    """
    alpha = spec.analysis.alpha
    settings = spec.analysis.model_copy(update={"alpha": level})
    checked = check_runs(spec.model_copy(update={"analysis": settings}), traces, how, watch)
    factor = alpha / level
    return replace(
        checked,
        verdicts=tuple(
            replace(verdict, alpha=alpha, changes=tuple(_scaled(change, factor) for change in verdict.changes))
            for verdict in checked.verdicts
        ),
        totals={
            name: tuple(_scaled_total(total, factor) for total in totals) for name, totals in checked.totals.items()
        },
    )


def _scaled(change: Change, factor: float) -> Change:
    names = ("p", "p_corrected", "p_beyond", "p_beyond_corrected", "p_discovery")
    return replace(change, **{name: min(1.0, factor * getattr(change, name)) for name in names})


def _scaled_total(change: TotalChange, factor: float) -> TotalChange:
    names = ("p", "p_corrected", "p_beyond", "p_beyond_corrected")
    return replace(change, **{name: min(1.0, factor * getattr(change, name)) for name in names})
