"""The noise floor of a campaign: from its comparisons, or from two halves of its baseline if it compared nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from unperturbed.analysis.floor.causes import Cause, find_causes
from unperturbed.analysis.floor.noise_floor import NoiseFloor, measure_floor
from unperturbed.analysis.perturbation import MINIMUM_RUNS, Baseline, Verdict, combine_checks
from unperturbed.analysis.totals import TotalChange, check_totals
from unperturbed.analysis.totals.verdict import total_of
from unperturbed.common.wording import counted
from unperturbed.errors import DataError, SpecError, UnperturbedError
from unperturbed.harness.campaign.manifest import RunState
from unperturbed.harness.results.check import align_on, hardware_metrics
from unperturbed.harness.results.recorded import Traces, recorded_campaign
from unperturbed.harness.results.totals import totals_to_check
from unperturbed.harness.results.verdicts import CampaignVerdicts
from unperturbed.harness.results.warm_up import without_warm_up
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections.campaign import BASELINE
from unperturbed.harness.spec.sections.program import Program

_HALF = "half"


def floor_of(spec: CampaignSpec, checked: CampaignVerdicts, states: Sequence[RunState]) -> NoiseFloor | None:
    """Return the noise floor that a campaign's comparisons show; None without comparisons, or if runs are missing."""
    if any(state.state in ("planned", "running") for state in states):
        return None
    if not any(verdict.changes for verdict in checked.verdicts) and not checked.totals:
        return None
    return measure_floor(checked.verdicts, checked.totals, alpha=spec.analysis.alpha, seconds=seconds_of_run(states))


def floor_of_baseline(spec: CampaignSpec, traces: Traces, states: Sequence[RunState]) -> NoiseFloor:
    """Compare every second run of the baseline with the other runs, and return the noise floor."""
    verdicts: list[Verdict] = []
    totals: dict[str, tuple[TotalChange, ...]] = {}
    for name, by_configuration in traces.items():
        runs = without_warm_up(spec, by_configuration.get(BASELINE, ()))
        first, second = runs[::2], runs[1::2]
        if len(second) < MINIMUM_RUNS:
            more = "increase `baseline_runs` in the spec, and run the spec again"
            raise SpecError(
                f"the baseline has {counted(len(runs), 'run')}, but a noise floor needs {2 * MINIMUM_RUNS} or more: "
                f"{'import more runs' if spec.imported else more}"
            )
        settings = spec.analysis
        try:
            half = Baseline(
                first,
                metrics=hardware_metrics(spec, runs),
                alpha=settings.alpha,
                tolerance=settings.tolerance,
                name=BASELINE,
            )
            checks = half.inner(second), half.outer(second, align_on=align_on(spec, runs[0]))
        except DataError as error:
            raise SpecError(f"pass {name}: {error}") from None
        verdicts.append(combine_checks(_HALF, *checks))
        whole = by_configuration[BASELINE]
        totals[name] = check_totals(
            whole[::2], whole[1::2], totals_to_check(spec, runs), alpha=settings.alpha, tolerances=settings.totals
        )
    return measure_floor(verdicts, totals, alpha=spec.analysis.alpha, seconds=seconds_of_run(states))


def seconds_of_run(states: Sequence[RunState]) -> float | None:
    """Return the mean wall-clock time of a finished run; None if no time is known."""
    known = [state.seconds for state in states if state.state == "done" and state.seconds]
    return mean(known) if known else None


def causes_of(spec: CampaignSpec, traces: Traces, states: Sequence[RunState]) -> tuple[Cause, ...]:
    """Return the baseline's totals that are correlated with a property of its runs, such as their order or the load.

    Runs of set-ups that are identical to the program (A against A) count as runs of the baseline.
    """
    by_run = {state.run.id: state for state in states}
    same = {BASELINE, *same_programs(spec)}
    for by_configuration in traces.values():
        runs = [trace for name, group in by_configuration.items() if name in same for trace in group]
        runs = [trace for trace in runs if trace.attributes.get("run") in by_run]
        if not runs:
            continue
        run_states = [by_run[trace.attributes["run"]] for trace in runs]
        properties = {
            "the run number": [float(state.run.id) for state in run_states],
            "the load average at the start": [_before(state, "load_1min") for state in run_states],
            "time waiting for disks": [_grown(state, "iowait_s") for state in run_states],
            "CPU time of other guests": [_grown(state, "steal_s") for state in run_states],
            "the size of the environment": [float(state.run.pad_bytes or 0) for state in run_states],
        }
        totals = {
            metric: [float(value) for value in values if value is not None]
            for metric in totals_to_check(spec, runs)
            if None not in (values := [total_of(trace, metric) for trace in runs])
        }
        return find_causes(totals, properties)
    return ()


def same_programs(spec: CampaignSpec) -> tuple[str, ...]:
    """Return the names of a spec's other set-ups that are identical to the program (A against A)."""
    return tuple(name for name, other in spec.programs.items() if other.of(spec.program) == spec.program)


def _before(state: RunState, name: str) -> float:
    value = (state.host_before or {}).get(name)
    return float(value) if isinstance(value, int | float) else math.nan


def _grown(state: RunState, name: str) -> float:
    after = (state.host_after or {}).get(name)
    return (float(after) if isinstance(after, int | float) else math.nan) - _before(state, name)


class KnownFloor(NamedTuple):
    """Noise floor of the same command in another campaign, which is in the same parent folder."""

    campaign: Path
    enough_runs: int | None  # Runs in each group that suffice for all tolerances except times; None if no number does
    seconds: float | None  # Mean duration of a run


def known_floor(spec: CampaignSpec, folder: Path) -> KnownFloor | None:
    """Return the floor of the same program measured alike, from the campaigns beside a campaign's folder.

    Comparisons of the program with itself (A against A) come first, then the newest.
    """
    candidates = []
    for file in folder.parent.glob("*/verdicts.json"):
        try:
            floor = json.loads(file.read_text(encoding="utf-8"))["floor"]
            recorded = recorded_campaign(file.parent)
            if floor and _measures_alike(recorded, spec):
                known = KnownFloor(file.parent, floor["enough_runs"], floor["seconds_per_run"])
                with_itself = bool(recorded.programs) and len(same_programs(recorded)) == len(recorded.programs)
                candidates.append(((with_itself, file.stat().st_mtime), known))
        # Unreadable, from a version without floors, or no campaign.
        except (OSError, ValueError, KeyError, TypeError, UnperturbedError):
            continue
    return max(candidates, key=lambda candidate: candidate[0])[1] if candidates else None


def _measures_alike(spec: CampaignSpec, other: CampaignSpec) -> bool:
    """Return whether two specs run the same program in the same way, with the same hardware metrics and intervals."""
    # An unmeasured trial decides these; a plan without one lacks them.
    of_trial = {key: getattr(other.program, key) for key in ("timeout", "exit_code", "result")}
    keys = ("hardware", "interval", "clock", "source", "sampler", "threads")
    return _apart_from_shell(spec.program.model_copy(update=of_trial)) == _apart_from_shell(other.program) and all(
        getattr(spec.measure, key) == getattr(other.measure, key) for key in keys
    )


def _apart_from_shell(program: Program) -> Program:
    """Return a program without what an activated environment of Python changes; commands have absolute paths."""
    kept = {name: value for name, value in program.environment.items() if name not in ("PATH", "VIRTUAL_ENV")}
    return program.model_copy(update={"environment": kept})
