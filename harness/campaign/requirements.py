"""Requirements of a campaign that are checked before anything is built or run, here and by the doctor."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from unperturbed.collectors.passes import Passes, misspelt, plan_passes
from unperturbed.collectors.sources import Pass, find_source
from unperturbed.errors import HostError, SpecError
from unperturbed.harness.campaign.plan import configurations
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import key_position, metric_position
from unperturbed.harness.spec.quantities import WorkInterval

_NO_EVENT = "none of the metrics is a hardware event, so perturbation cannot be detected"
_SIMULATE = "PAPI_TOT_INS and the like can be simulated (source: auto, sampler: inside)"


def plan_counting(spec: CampaignSpec, names: Sequence[str] | None = None, source: str | None = None) -> Passes:
    """Plan which source counts which hardware metric here, in which passes."""
    measure, interval, counted = spec.measure, spec.measure.interval, frozenset(spec.measure.hardware)
    # What each derived metric needs in one run; a sweep computes it from several.
    together = [counted.intersection(expression.names) for expression in measure.derived.values()]
    return plan_passes(
        measure.hardware if names is None else names,
        source=source or measure.source,
        machine=measure.simulator,
        compiler=spec.program.compilers["cc"],
        shared=_shared(spec),
        sampler=measure.sampler,
        multiplex=measure.multiplex,
        overflow=(measure.interval_event, interval.counts) if isinstance(interval, WorkInterval) else None,
        together=() if spec.parameters else together,
    )


def refuse_misspelt(spec: CampaignSpec) -> None:
    """Refuse events of perf that perf does not have, when the metrics of a spec cannot all be counted."""
    if faults := misspelt(spec.measure.hardware):
        raise SpecError("\n".join(f"{metric_position(spec, name)}: {fault}" for name, fault in faults.items()))


def _shared(spec: CampaignSpec) -> tuple[str, ...]:
    """Return the hardware metrics that every pass holds, so that its runs can be aligned with others'; none in a sweep.

    They are what ends intervals and what `align_on` is made of, and instructions and cycles where the spec has them.
    """
    if spec.parameters:
        return ()
    derived = spec.measure.derived
    aligning = [
        part for name in spec.analysis.align_on for part in (derived[name].names if name in derived else (name,))
    ]
    wanted = dict.fromkeys([spec.measure.interval_event, *aligning, "PAPI_TOT_INS", "PAPI_TOT_CYC"])
    return tuple(name for name in wanted if name in spec.measure.hardware)


def check_sampled_program(spec: CampaignSpec) -> None:
    """Refuse a program that the sampler could not be put into."""
    if spec.program.build is None and spec.program.shell and spec.measure.sampler == "inside":
        raise SpecError(
            "the sampler needs the name of a program that is not built here: give it in run:, without shell: true"
        )


def check_clock(spec: CampaignSpec, passes: Passes) -> None:
    """Refuse intervals by simulated work without the simulator, and intervals by counts with it."""
    _check_overflow(spec, passes)
    counted = [item.source for item in passes.passes if item.source != "simulated"]
    if spec.measure.clock == "work" and counted:
        raise SpecError(
            f"clock: work needs the simulator, but {counted[0]} counts here: set source: simulated, or another clock"
        )


def _check_overflow(spec: CampaignSpec, passes: Passes) -> None:
    event = spec.measure.interval_event
    if not event:
        return
    place = key_position(spec, "measure", "interval")
    for item in sorted(passes.passes, key=lambda one: not find_source(one.source).simulated):
        if event not in {metric.name for metric in item.metrics}:
            raise SpecError(
                f"{place}: {event} ends the intervals, but {item.source} counts {item.metrics[0].name} in runs where "
                f"{event} is not counted: use metrics of one source, or give intervals a length of time"
            )
        if find_source(item.source).simulated:
            why = passes.passed_over
            raise SpecError(
                f"{place}: {event} would be simulated here, but no counter of the simulator overflows: for intervals "
                "of equal work there, write `source: simulated`, `clock: work` and `interval: {records: "
                f"200}}`{f' ({why.rstrip(chr(46))})' if why else ''}"
            )


def check_probes(spec: CampaignSpec, passes: Passes) -> None:
    """Refuse probes of the kernel where the program is simulated: the simulator would run into their breakpoints."""
    probed = [name for name, event in spec.measure.software.items() if event.means == "kernel"]
    simulated = [metric.name for item in passes.passes if item.source == "simulated" for metric in item.metrics]
    if probed and simulated:
        raise SpecError(
            f"{metric_position(spec, probed[0])}: kernel probes do not work in a simulated program, and "
            f"{simulated[0]} is simulated here: use counters that this host has (perf::page-faults, …), or compile "
            "the metric in"
        )


def check_wrapped(spec: CampaignSpec, passes: Passes) -> None:
    """Refuse a program that another one starts where counts are simulated."""
    wrapped = [name or "program" for name in ("", *spec.programs) if spec.of_program(name).program.sampled]
    if wrapped and any(item.source == "simulated" for item in passes.passes):
        raise HostError(
            f"another program starts {wrapped[0]}, but valgrind, which simulates the counters here, follows only the "
            "program that it starts itself: use a host with hardware counters (`unperturbed doctor`)"
        )


def check_processor(spec: CampaignSpec) -> None:
    """Refuse a processor for the observer that it may not run on."""
    chosen, allowed = spec.measure.observer_cpu, os.sched_getaffinity(0)
    if chosen is not None and spec.measure.pin and chosen not in allowed:
        raise HostError(
            f"observer_cpu: {chosen} is not among the processors allowed here ({', '.join(map(str, sorted(allowed)))})"
        )


def no_verdict(spec: CampaignSpec, passes: Passes) -> str:
    """Return why a campaign will give traces and no verdict; empty when it will give one."""
    if not shows_perturbation(passes.passes):
        return f"{_NO_EVENT}: this campaign gives traces, and no verdict. {_SIMULATE}"
    if len(configurations(spec)) == 1:
        return "the baseline is the only configuration: this campaign gives traces, and no verdict"
    return ""


def never_computed(spec: CampaignSpec, passes: Passes) -> str:
    """Return which derived metrics no run can compute; empty for none, and for sweeps, which join several runs."""
    if spec.parameters:
        return ""
    held = [{metric.name for metric in item.metrics} for item in passes.passes]
    counted = frozenset().union(*held)
    lines = []
    for name, expression in spec.measure.derived.items():
        needed = counted.intersection(expression.names)
        if needed and not any(needed <= names for names in held):
            lines.append(
                f"{name} will have no values: no run holds all {len(needed)} hardware metrics that it is computed from"
            )
    advice = "; `multiplex: true` has metrics that do not fit the counters take turns"
    return "; ".join(lines) + (advice if lines and not spec.measure.multiplex else "")


def check_verdict_possible(spec: CampaignSpec, passes: Passes) -> None:
    """Refuse metrics in which perturbation cannot show."""
    if not shows_perturbation(passes.passes):
        raise SpecError(f"{spec.path}: {_NO_EVENT}. {_SIMULATE}")


def shows_perturbation(passes: Iterable[Pass]) -> bool:
    """Return whether a hardware event is counted, real or simulated, in which perturbation shows."""
    return any(metric.kind in ("hardware", "simulated") for item in passes for metric in item.metrics)


def check_budget(spec: CampaignSpec, passes: int) -> None:
    """Refuse a plan that is larger than `max_runs`."""
    runs = passes * sum(item.runs for item in configurations(spec))
    allowed = spec.campaign.max_runs
    if allowed is not None and runs > allowed:
        raise SpecError(
            f"the plan has {runs} runs, but max_runs allows {allowed}: use fewer runs, subsets or metrics, or raise it"
        )
