"""Requirements of a campaign, checked before any build or run, also by `unperturbed doctor`."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from unperturbed.collectors.passes import Passes, misspelt, plan_passes
from unperturbed.collectors.records.ranks import launcher_in
from unperturbed.collectors.sources import Pass, find_source
from unperturbed.collectors.sources.callgrind import fits_page_cache, needs_page_cache
from unperturbed.common.wording import listing
from unperturbed.errors import HostError, SpecError
from unperturbed.harness.campaign.plan import configurations, passes_of
from unperturbed.harness.program.attach import find_target
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import key_position, metric_position
from unperturbed.harness.spec.quantities import WorkInterval
from unperturbed.harness.spec.sections.analysis import wanted_pairs
from unperturbed.harness.spec.sections.campaign import MULTIPLEXED

_NO_EVENT = "none of the metrics is a hardware event, so perturbation cannot be detected"
_ON_OTHER_HOSTS = (
    "Add an event such as PAPI_TOT_INS on a host that can count it: a Java virtual machine is not simulated"
)
_COUNT = "Add an event such as PAPI_TOT_INS, if this host has hardware counters"
_SIMULATE = (
    "Add an event such as PAPI_TOT_INS: with `source: auto` and `sampler: inside`, it is simulated if this host cannot "
    "count it"
)


def plan_counting(
    spec: CampaignSpec,
    names: Sequence[str] | None = None,
    source: str | None = None,
    known: Collection[Mapping[str, Any]] = (),
) -> Passes:
    """Plan which source counts each hardware metric on this host, and in which pass.

    `known`: The passes that the campaign has recorded; runs are made of them.
    """
    known = [item for item in known if not item["name"].startswith(MULTIPLEXED)]
    if spec.campaign.multiplexed and names is None:
        return _with_turns(spec, known)
    if spec.measure.passes and names is None:
        return _as_listed(spec, source)
    return _plan(spec, names, source, known, turns=bool(spec.measure.multiplex))


def plan_together(spec: CampaignSpec, names: Collection[str], source: str | None = None) -> Pass | str:
    """Return the pass that counts these hardware metrics and those that every pass shares, or why there is none."""
    wanted = [name for name in spec.measure.hardware if name in names or name in shared_metrics(spec)]
    try:
        found = _plan(spec, wanted, source, (), turns=False).passes
    except HostError as error:
        refuse_misspelt(spec)
        return str(error)
    if len(found) == 1 and {metric.name for metric in found[0].metrics}.issuperset(wanted):
        return found[0]
    sources = list(dict.fromkeys(item.source for item in found))
    why = f"{listing(sources)} count them" if len(sources) > 1 else "they need more counters than there are"
    shared = [name for name in wanted if name not in names]
    return f"no run can count {listing(wanted)} together{_of_each(shared)}: {why}"


def _of_each(shared: Sequence[str]) -> str:
    return f" (each pass counts {listing(shared)})" if shared else ""


def _as_listed(spec: CampaignSpec, source: str | None) -> Passes:
    """Plan the passes that the spec lists."""
    place, shared = key_position(spec, "measure", "passes"), shared_metrics(spec)
    counted = {*shared, *(name for names in spec.measure.passes for name in names)}
    if missing := [name for name in spec.measure.hardware if name not in counted]:
        raise SpecError(
            f"{place}: no pass counts {listing(missing)}: add {'it' if len(missing) == 1 else 'them'} to a list of "
            "`passes`, or remove `passes`"
        )
    passes = []
    for number, names in enumerate(spec.measure.passes, 1):
        found = plan_together(spec, names, source)
        if isinstance(found, str):
            _plan(spec, None, source, (), turns=False)  # refuses metrics that this host cannot count in any pass
            raise SpecError(f"{place}: pass {number}: {found}. Divide its list, or remove `passes`")
        passes.append(replace(found, name="main" if number == 1 else f"pass-{number}"))
    return Passes(tuple(passes), {})


def _plan(
    spec: CampaignSpec,
    names: Sequence[str] | None,
    source: str | None,
    known: Collection[Mapping[str, Any]],
    *,
    turns: bool,
) -> Passes:
    measure, interval, counted = spec.measure, spec.measure.interval, frozenset(spec.measure.hardware)
    # The metrics that a derived metric needs in one run; a sweep computes derived metrics from several runs.
    together = [counted.intersection(expression.names) for expression in measure.derived.values()]
    passes = plan_passes(
        measure.hardware if names is None else names,
        source=source or measure.source,
        machine=measure.simulator,
        compiler=spec.program.compilers["cc"],
        shared=shared_metrics(spec),
        sampler=measure.sampler,
        multiplex=turns,
        overflow=(measure.interval_event, interval.counts) if isinstance(interval, WorkInterval) else None,
        together=() if spec.parameters else together,
        meet=dict.fromkeys(needed for _, needed in wanted_pairs(spec)),
        known=[frozenset(item["metrics"]) for item in known],
    )
    found = {item["name"]: item.get("division", "") for item in known}
    return replace(
        passes,
        passes=tuple(
            replace(item, estimate=measure.estimate, division=item.division or found.get(item.name, ""))
            for item in passes.passes
        ),
    )


def _with_turns(spec: CampaignSpec, known: Collection[Mapping[str, Any]]) -> Passes:
    """Plan passes in which each metric is counted all the time, and further ones in which metrics take turns."""
    place = key_position(spec, "campaign", "multiplexed")
    # PAPI does not tell how long it counted a metric, and metrics are compared with those of the same source.
    source = "perf_event" if spec.measure.source == "auto" else spec.measure.source
    try:
        apart, turning = (_plan(spec, None, source, known, turns=turns) for turns in (False, True))
    except HostError as error:
        if spec.measure.source != "auto":
            raise
        if spec.measure.simulator.limits is None:
            raise HostError(
                f"{place}: metrics take turns on a processor's counters, and this host cannot count them: to try it on "
                "the simulator, add `counters: 4` under `measure: simulator:`; or remove `multiplexed`"
            ) from error
        apart, turning = (_plan(spec, None, "simulated", known, turns=turns) for turns in (False, True))
    shared = [item for item in turning.passes if item.multiplexed]
    if not shared:
        raise SpecError(
            f"{place}: all metrics can be counted at once here, and none takes turns: remove `multiplexed`, or add "
            "metrics"
        )
    named = [replace(item, name=MULTIPLEXED + f"-{item.name}".removesuffix("-main")) for item in shared]
    return replace(apart, passes=(*apart.passes, *named))


def refuse_misspelt(spec: CampaignSpec) -> None:
    """Reject perf events that perf does not know; called if some metrics of a spec cannot be counted."""
    if faults := misspelt(spec.measure.hardware):
        raise SpecError("\n".join(f"{metric_position(spec, name)}: {fault}" for name, fault in faults.items()))


def shared_metrics(spec: CampaignSpec) -> tuple[str, ...]:
    """Return the hardware metrics that every pass must count, so that all runs can be aligned; none in a sweep.

    These are the metric that ends intervals, the metrics of `align_on`, those that are counted within functions, and
    instructions and cycles if the spec has them.
    """
    if spec.parameters:
        return ()
    derived = spec.measure.derived
    aligning = [
        part for name in spec.analysis.align_on for part in (derived[name].names if name in derived else (name,))
    ]
    within = [event.of for event in spec.measure.software.values()]
    wanted = dict.fromkeys([spec.measure.interval_event, *aligning, *within, "PAPI_TOT_INS", "PAPI_TOT_CYC"])
    return tuple(name for name in wanted if name in spec.measure.hardware)


def check_sampled_program(spec: CampaignSpec) -> None:
    """Reject a program that the sampler cannot be loaded into, or that should run already and does not."""
    if spec.program.attach is not None:
        find_target(spec.program.attach)
        return
    if spec.program.build is None and spec.program.shell and spec.measure.sampler == "inside":
        raise SpecError(
            "with `shell: true` and no `build`, the sampler cannot know which of the shell's child processes to "
            "measure: write only the program to measure and its arguments in `run`, and remove `shell: true`"
        )


def check_clock(spec: CampaignSpec, passes: Passes) -> None:
    """Reject intervals of simulated work without the simulator, and intervals by event counts with the simulator."""
    _check_overflow(spec, passes)
    turns = any(item.limits is not None for item in passes.passes)
    if turns and (spec.measure.clock not in ("auto", "work") or spec.measure.interval_metric):
        raise SpecError(
            f"{key_position(spec, 'measure', 'multiplex')}: metrics would be simulated here, and simulated metrics "
            "take turns after quanta of work: leave out `clock`, and give `interval` as a time or a number of intervals"
        )
    counted = [item.source for item in passes.passes if item.source != "simulated"]
    if spec.measure.clock == "work" and counted:
        raise SpecError(
            f"`clock: work` needs the simulator, but the source {counted[0]} counts metrics here: set `source: "
            "simulated`, or choose another clock"
        )


def _check_overflow(spec: CampaignSpec, passes: Passes) -> None:
    event = spec.measure.interval_event
    if not event:
        return
    place = key_position(spec, "measure", "interval")
    for item in sorted(passes.passes, key=lambda candidate: not find_source(candidate.source).simulated):
        if event not in {metric.name for metric in item.metrics}:
            raise SpecError(
                f"{place}: `interval` is a number of {event} and not a time, but the runs that count "
                f"{item.metrics[0].name} (with {item.source}) cannot count {event}: use metrics of one source, or give "
                "`interval` as a time"
            )
        if find_source(item.source).simulated:
            why = passes.passed_over
            raise SpecError(
                f"{place}: `interval` is a number of {event}, but {event} would be simulated here, and the simulator "
                "cannot end an interval after a given number of events: for intervals of equal simulated work, set "
                "`source: simulated`, `clock: work` and `interval: {records: "
                f"200}}`{f'. Sources {why.rstrip(chr(46))}' if why else ''}"
            )


def check_probes(spec: CampaignSpec, passes: Passes) -> None:
    """Reject kernel probes in a simulated program: the simulator would execute their breakpoints."""
    probed = [name for name, event in spec.measure.software.items() if event.means == "kernel"]
    simulated = [metric.name for item in passes.passes if item.source == "simulated" for metric in item.metrics]
    if probed and simulated:
        raise SpecError(
            f"{metric_position(spec, probed[0])}: kernel probes do not work in a simulated program, and "
            f"{simulated[0]} is simulated here: use only metrics that this host can count without simulation "
            f"(such as perf::page-faults), or compile the counter of {probed[0]} into the program"
        )


def check_wrapped(spec: CampaignSpec, passes: Passes) -> None:
    """Reject simulated counters, and a sampler outside, if another program starts the measured program."""
    wrapped = [name or "the measured program" for name in ("", *spec.programs) if spec.of_program(name).program.sampled]
    if wrapped and spec.measure.sampler == "outside":
        raise SpecError(
            f"{key_position(spec, 'measure', 'sampler')}: `run` starts {wrapped[0]} through another program, and "
            "`sampler: outside` counts all processes that `run` starts, the other program too: use `sampler: inside`, "
            "or remove `sampled` to count them all"
        )
    if wrapped and any(item.source == "simulated" for item in passes.passes):
        raise HostError(
            f"`run` starts {wrapped[0]} through another program, but valgrind, which simulates the counters here, "
            "measures only the program that it starts itself: start the program directly and remove `sampled`, or use "
            "a host with hardware counters (see `unperturbed doctor`)"
        )


def check_threads(spec: CampaignSpec, passes: Passes) -> None:
    """Reject threads one by one in a simulated service: its dumps are of its whole life, not of the load."""
    served = any(spec.of_program(name).program.is_service for name in ("", *spec.programs))
    if served and spec.measure.threads == "each" and any(item.source == "simulated" for item in passes.passes):
        raise SpecError(
            f"{spec.path}: `threads: each` cannot cut a service's load out of simulated counts: use `threads: all`, or "
            "counters that are not simulated"
        )


def check_ranks(spec: CampaignSpec, passes: Passes) -> None:
    """Reject srun, whose tasks are no children of it, where ranks are counted by what starts the run's command."""
    for name in ("", *spec.programs):
        one = spec.of_program(name)
        if launcher_in(one.program.run) != "srun":
            continue
        place = key_position(spec, *(("programs", name) if name else ("program",)), "run")
        if one.measure.sampler == "outside":
            raise SpecError(
                f"{place}: srun lets Slurm's daemons start the ranks, where an observer does not see them: use "
                "`sampler: inside`, or start the ranks by mpirun"
            )
        if any(item.source == "simulated" for item in passes.passes):
            raise SpecError(
                f"{place}: srun lets Slurm's daemons start the ranks, and valgrind, which simulates the counters here, "
                "sees only what it starts: start the ranks by mpirun, or use a host with hardware counters"
            )


def check_processor(spec: CampaignSpec) -> None:
    """Reject an observer processor on which this process may not run."""
    chosen, allowed = spec.measure.observer_cpu, os.sched_getaffinity(0)
    if chosen is not None and spec.measure.pin and chosen not in allowed:
        raise HostError(
            f"`observer_cpu`: this process may not run on processor {chosen} (its CPU affinity excludes it); use one "
            f"of {', '.join(map(str, sorted(allowed)))}"
        )


def no_verdict(spec: CampaignSpec, passes: Passes) -> str:
    """Return why a campaign will give traces but no verdict; empty if it will give a verdict."""
    if not shows_perturbation(passes.passes):
        return f"{_NO_EVENT}: this campaign gives traces but no verdict. {_advice(spec)}"
    if len(configurations(spec)) == 1:
        return "the baseline is the only configuration: this campaign gives traces but no verdict"
    return ""


def _advice(spec: CampaignSpec) -> str:
    if any(event.means == "jvm" for event in spec.measure.software.values()):
        return _ON_OTHER_HOSTS
    return _SIMULATE if spec.program.attach is None else _COUNT


def never_computed(spec: CampaignSpec, passes: Passes) -> str:
    """Return a note on derived metrics that no single run can compute; empty if there are none, and for sweeps."""
    if spec.parameters:
        return ""
    held = [{metric.name for metric in item.metrics} for item in passes.passes]
    counted = frozenset().union(*held)
    apart = {name: counted.intersection(expression.names) for name, expression in spec.measure.derived.items()}
    apart = {name: needed for name, needed in apart.items() if needed and not any(needed <= names for names in held)}
    if not apart:
        return ""
    pass_of = {metric.name: item for item in reversed(passes.passes) for metric in item.metrics}
    conflicts = {name: _conflict({metric: pass_of[metric] for metric in needed}) for name, needed in apart.items()}
    said = "; ".join(
        f"{name} will have no values: no run counts all {len(needed)} hardware metrics in its expression"
        + (f", because {conflicts[name]}" if conflicts[name] else "")
        for name, needed in apart.items()
    )
    free = {name: needed for name, needed in apart.items() if not conflicts[name]}
    if spec.measure.multiplex or not free:
        return said
    if max(map(len, free.values())) > max(map(len, held)):
        return f"{said}; with `multiplex: true`, metrics can take turns on the counters"
    lists = ", ".join(f"[{', '.join(sorted(needed))}]" for needed in free.values())
    return f"{said}; with `together: [{lists}]` under `analysis`, one pass counts the metrics of each list"


def never_together(spec: CampaignSpec, passes: Passes) -> str:
    """Return a note on pairs of metrics that must be seen together and cannot be; empty if all can."""
    held = [{metric.name for metric in item.metrics} for item in passes.passes]
    pass_of = {name: item for item in reversed(passes.passes) for name in (metric.name for metric in item.metrics)}
    lines: defaultdict[str, list[str]] = defaultdict(list)
    for pair, needed in wanted_pairs(spec):
        if needed <= pass_of.keys() and not any(needed <= names for names in held):
            lines[_apart(spec, {name: pass_of[name] for name in needed})].append(" with ".join(pair))
    return "; ".join(
        f"never seen together: {', '.join(pairs[:_PAIRS_NAMED])}"
        f"{f' and {len(pairs) - _PAIRS_NAMED} more' if len(pairs) > _PAIRS_NAMED else ''}, because {why}"
        for why, pairs in lines.items()
    )


_PAIRS_NAMED = 6


def _conflict(pass_of: Mapping[str, Pass]) -> str:
    """Return why no run could count these metrics together, whatever the number of counters; empty if one could."""
    sources = sorted({item.source for item in pass_of.values()})
    if len(sources) > 1:
        return f"{' and '.join(sources)} count them: choose metrics of one source"
    if sources == ["simulated"] and any(map(needs_page_cache, pass_of)) and not all(map(fits_page_cache, pass_of)):
        return "they need two simulated data caches, one with lines of a page: count them on a processor"
    return ""


def _apart(spec: CampaignSpec, pass_of: Mapping[str, Pass]) -> str:
    """Return why no run counts these metrics together, and what to do."""
    if conflict := _conflict(pass_of):
        return conflict
    simulated = any(item.source == "simulated" for item in pass_of.values())
    limits = spec.measure.simulator.limits
    free = limits.fixed if simulated and limits is not None else ()
    shared = ", ".join(name for name in shared_metrics(spec) if name not in (*pass_of, *free))
    beside = f" beside {shared}, which every pass counts" if shared else ""
    more = (
        "raise `counters` under `simulator`"
        if simulated
        else f"leave {shared} out of `hardware`"
        if shared
        else "leave one of them out"
    )
    turns = "let them take turns with `multiplex: true`, without `together`"
    return f"they need more counters than there are{beside}: {more}, or {turns}"


def check_verdict_possible(spec: CampaignSpec, passes: Passes) -> None:
    """Reject a spec without a metric that can show perturbation."""
    if not shows_perturbation(passes.passes):
        raise SpecError(f"{spec.path}: {_NO_EVENT}. {_advice(spec)}")


def shows_perturbation(passes: Iterable[Pass]) -> bool:
    """Return whether any metric can show perturbation: a hardware event, real or simulated."""
    return any(metric.kind in ("hardware", "simulated") for item in passes for metric in item.metrics)


def check_budget(spec: CampaignSpec, passes: Sequence[str]) -> None:
    """Reject a plan with more than `max_runs` runs."""
    runs = sum(item.runs * len(passes_of(item.name, passes)) for item in configurations(spec))
    allowed = spec.campaign.max_runs
    if allowed is not None and runs > allowed:
        raise SpecError(
            f"the plan has {runs} runs, but `max_runs` is {allowed}: raise `max_runs`, or use fewer runs, subsets or "
            "metrics"
        )
