"""What a campaign asks of its host before anything is built or run: each rule in one place, for the campaign itself and for the doctor."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from unperturbed.collectors.passes import Pass, Passes, plan_passes
from unperturbed.errors import HostError, SpecError
from unperturbed.harness.plan import configurations
from unperturbed.harness.spec import Campaign
from unperturbed.harness.spec.where import at_metric

__all__ = [
    "check_budget",
    "check_clock",
    "check_probes",
    "check_processor",
    "check_sampled_program",
    "no_verdict",
    "plan_counting",
    "shows_perturbation",
]


def plan_counting(campaign: Campaign, names: Sequence[str] | None = None, source: str | None = None) -> Passes:
    """Plan which source counts which hardware metric here, in which passes.

    Parameters
    ----------
    names, source : instead of all of the spec's metrics, and of its own `source`.

    Raises
    ------
    HostError
        A metric that nothing here can count.
    """
    measure = campaign.measure
    return plan_passes(
        measure.hardware if names is None else names,
        source=source or measure.source,
        machine=measure.simulator,
        compiler=campaign.program.compilers["cc"],
        shared=_shared(campaign),
        sampler=measure.sampler,
        multiplex=measure.multiplex,
    )


def _shared(campaign: Campaign) -> tuple[str, ...]:
    """Return the hardware metrics that every pass holds, so that its runs can be aligned with others'.

    They are what `align_on` is made of, and instructions and cycles where they are asked for. Runs of a sweep are not aligned.
    """
    if campaign.parameters:
        return ()
    derived = campaign.measure.derived
    aligning = [part for name in campaign.analysis.align_on for part in (derived[name].names if name in derived else (name,))]
    wanted = dict.fromkeys([*aligning, "PAPI_TOT_INS", "PAPI_TOT_CYC"])
    return tuple(name for name in wanted if name in campaign.measure.hardware)


def check_sampled_program(campaign: Campaign) -> None:
    """Refuse a program that the sampler could not be put into.

    Raises
    ------
    SpecError
        It is neither built here nor named.
    """
    if campaign.program.build is None and campaign.program.shell and campaign.measure.sampler == "inside":
        raise SpecError(
            "a program that is not built here gets the sampler by its name: give the program itself in run:, without shell: true"
        )


def check_clock(campaign: Campaign, passes: Passes) -> None:
    """Refuse intervals of the simulator's work where something else counts.

    Raises
    ------
    SpecError
        A pass is not simulated.
    """
    counted = [item.source for item in passes.passes if item.source != "simulated"]
    if campaign.measure.clock == "work" and counted:
        raise SpecError(
            f"clock: work is the simulator's, and {counted[0]} counts here: set source: simulated, or take another clock"
        )


def check_probes(campaign: Campaign, passes: Passes) -> None:
    """Refuse probes of the kernel where the program is simulated: the simulator would run into their breakpoints.

    Raises
    ------
    SpecError
        A pass is simulated, and a software metric is counted by a probe.
    """
    probed = [name for name, event in campaign.measure.software.items() if event.means == "kernel"]
    simulated = [metric.name for item in passes.passes if item.source == "simulated" for metric in item.metrics]
    if probed and simulated:
        raise SpecError(
            f"{at_metric(campaign, probed[0])}: the kernel's probes do not work in a simulated program, and {simulated[0]} is simulated here: "
            "take counters that this host has (perf::page-faults, …), or compile the metric in"
        )


def check_processor(campaign: Campaign) -> None:
    """Refuse a processor for the observer that it may not run on.

    Raises
    ------
    HostError
        With those that it may.
    """
    asked, allowed = campaign.measure.observer_cpu, os.sched_getaffinity(0)
    if asked is not None and campaign.measure.pin and asked not in allowed:
        raise HostError(
            f"observer_cpu: {asked} is not among the processors that may be used here ({', '.join(map(str, sorted(allowed)))})"
        )


def no_verdict(campaign: Campaign, passes: Passes) -> str:
    """Say beforehand why a campaign will give traces and no verdict; empty when it will give one."""
    if not shows_perturbation(passes.passes):
        return (
            "none of the metrics is a hardware event, in which perturbation could show: this campaign gives traces, and no verdict. "
            "PAPI_TOT_INS and the like can be simulated (source: auto, sampler: inside)"
        )
    if len(configurations(campaign)) == 1:
        return "the baseline is the only configuration: this campaign gives traces, and no verdict"
    return ""


def shows_perturbation(passes: Iterable[Pass]) -> bool:
    """Tell whether a hardware event is counted, real or simulated, in which perturbation shows."""
    return any(metric.kind in ("hardware", "simulated") for item in passes for metric in item.metrics)


def check_budget(campaign: Campaign, passes: int) -> None:
    """Refuse a plan that is larger than `max_runs`.

    Parameters
    ----------
    passes : number of passes.

    Raises
    ------
    SpecError
        With the number of runs.
    """
    runs = passes * sum(item.runs for item in configurations(campaign))
    allowed = campaign.campaign.max_runs
    if allowed is not None and runs > allowed:
        raise SpecError(
            f"the plan has {runs} runs, max_runs allows {allowed}: ask for fewer runs, subsets or metrics, or raise it"
        )
