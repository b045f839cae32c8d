"""Sentences on how runs were recorded: what was not counted, what was estimated, and what ended intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from unperturbed.collectors.data import Trace
from unperturbed.collectors.records.processes import images
from unperturbed.collectors.sources import find_sources
from unperturbed.common.wording import counted, listing, number

_MOST_IMAGES = 6
_MUCH_UNCOUNTED = 0.1
"""Starting processes takes CPU time before their samplers: a smaller share says nothing."""
_FEW_BEFORE = 0.001
"""Share of a run's events that may happen before the first interval without a note: libraries set themselves up."""
_MISSED_SHARE = 0.05


def recording_notes(traces: Sequence[Trace]) -> Iterator[str]:
    """Yield notes on the processes and threads of runs, and on what was not counted, one sentence each."""
    yield from _of_several_processes(traces)
    yield from _without_sampler(traces)
    yield from _threads_without_traces(traces)
    yield from _uncounted_threads(traces)
    yield from _threads_in_turn(traces)
    yield from _events_before(traces)


def sampling_notes(traces: Sequence[Trace]) -> Iterator[str]:
    """Yield notes on the sampling, one sentence each."""
    if not traces:
        return
    yield from _implausible(traces)
    yield from _scaled(traces)
    if any(trace.attributes.get("uneven_work") for trace in traces):
        yield (
            "The program often waits in system calls. Waiting delays the ticks that end intervals, so the lengths of "
            "intervals vary from run to run."
        )
    yield from _overflowed(traces)
    yield from _cut_by_program(traces)
    yield from _missed(traces)
    yield from _observed(traces)


def ends_at_events(metric: str, every: int) -> str:
    """Return a note on a campaign whose intervals end at events of a software metric."""
    return (
        f"An interval ends after {counted(every, 'event')} of {metric}. Every configuration counts {metric}, the "
        "baseline too, so the baseline is not the untouched program: no verdict shows what this counting changes."
    )


def _of_several_processes(traces: Sequence[Trace]) -> Iterator[str]:
    """Yield a sentence on the processes of a run, by executable, if runs have several."""
    runs = [trace.attributes["processes"] for trace in traces if len(trace.attributes.get("processes", ())) > 1]
    if not runs:
        return
    typical = sorted(runs, key=len)[len(runs) // 2]
    metric = next((name for name in ("PAPI_TOT_INS", "perf::instructions") if name in typical[0]["totals"]), "")
    if all("rank" in process for process in typical):
        yield f"Each run has {len(typical)} MPI ranks, whose counts are added."
        return
    shares = images(typical, metric)
    parts = [
        f"{image} {number(100 * entry['share'], 2)} %"
        + (f" ({entry['processes']} processes)" if entry["processes"] > 1 else "")
        for image, entry in list(shares.items())[:_MOST_IMAGES]
    ]
    if len(shares) > len(parts):
        parts.append(counted(len(shares) - len(parts), "other executable"))
    least, most = min(map(len, runs)), max(map(len, runs))
    processes = f"{most} processes" if least == most else f"{least} to {most} processes"
    yield (
        f"Each run has {processes}, whose counts are added. Shares of {'instructions' if metric else 'time'}: "
        f"{listing(parts)}."
    )


def _without_sampler(traces: Sequence[Trace]) -> Iterator[str]:
    """Yield a note if processes that no sampler could enter used much of the CPU time: their events are missing."""
    shares = [trace.attributes.get("uncounted_share", 0.0) for trace in traces]
    if shares and (share := median(shares)) > _MUCH_UNCOUNTED:
        yield (
            f"Processes without a sampler used {number(100 * share, 2)} % of the CPU time, and their events are "
            "missing: programs that are linked statically, set-uid, written in Go, built elsewhere (if the spec has a "
            "`build`), or started with an empty environment. To count them, use `sampler: outside`."
        )


def _uncounted_threads(traces: Sequence[Trace]) -> Iterator[str]:
    """Yield a note if threads ran whose hardware events nobody counted: totals are then too small."""
    alone = [
        trace for trace in traces if trace.attributes.get("made_threads") and trace.attributes["sampled_threads"] == 1
    ]
    read = {name for name, source in find_sources().items() if source.sampled}
    if any(metric.source in read for trace in alone for metric in trace.metrics.values()):
        yield (
            "The program started threads, but hardware events were counted only in its main thread: the other threads' "
            "events are missing. To count all threads, set `threads: all` under `measure` in the spec, or use "
            "`sampler: outside`."
        )


def _threads_in_turn(traces: Sequence[Trace]) -> Iterator[str]:
    """Yield a note if simulated threads share intervals of work, which may then hold other work in each run."""
    if any(each.attributes.get("made_threads") and each.attributes.get("clock") == "work" for each in traces):
        yield (
            "The program started threads, which the simulator runs in turn. If threads share work, they divide it "
            "differently in each run, and an interval holds other work: correlations then vary more, but totals do not."
        )


def _threads_without_traces(traces: Sequence[Trace]) -> Iterator[str]:
    """Yield a note on processes whose threads were not kept apart, although the spec asks for it."""
    most: dict[str, int] = {}
    for trace in traces:
        for image, count in trace.attributes.get("threads_without_traces", {}).items():
            most[image] = max(count, most.get(image, 0))
    if most:
        yield (
            "Threads of further processes have no traces and no verdicts of their own, because their processes have no "
            f"name that is the same in every run: {listing(f'{image} ({n} threads)' for image, n in most.items())}. "
            "Their counts are part of the sums."
        )


def _events_before(traces: Sequence[Trace]) -> Iterator[str]:
    """Yield a note for each software metric with events in constructors: intervals begin after these."""
    most: dict[str, int] = {}
    for trace in traces:
        for name, count in trace.attributes.get("counted_before", {}).items():
            if count > _FEW_BEFORE * trace[name].sum():
                most[name] = max(count, most.get(name, 0))
    for name, count in most.items():
        yield (
            f"{name}: {counted(count, 'event')} happened before the first interval, in constructors and static "
            "initialisers, and the counts do not include them; `sampler: outside` counts them (not with simulated "
            "counts)."
        )


def _implausible(traces: Sequence[Trace]) -> Iterator[str]:
    sentences = [sentence for trace in traces for sentence in trace.attributes.get("implausible", ())]
    examples = {sentence.split(" (")[0]: sentence for sentence in sentences}
    for part, runs in Counter(sentence.split(" (")[0] for sentence in sentences).items():
        example = f"; in one of them, {examples[part]}" if runs > 1 else f": {examples[part]}"
        yield f"Counts are implausible in {runs} of {len(traces)} runs{example}."


def _scaled(traces: Sequence[Trace]) -> Iterator[str]:
    names = dict.fromkeys(name for trace in traces for name, metric in trace.metrics.items() if metric.scaled)
    for name in names:
        shares = [
            trace[f"{name}.running_ns"].sum() / max(1, trace[f"{name}.enabled_ns"].sum())
            for trace in traces
            if f"{name}.running_ns" in trace.metrics
        ]
        yield f"{name} was multiplexed: its counts are extrapolated from {median(shares):.0%} of the time."


def _overflowed(traces: Sequence[Trace]) -> Iterator[str]:
    """Yield a note on the skid between overflow and record, if counts of an event end intervals."""
    ended = [trace for trace in traces if trace.attributes.get("interval_event") and len(trace)]
    if not ended:
        return
    event, period = (ended[0].attributes[name] for name in ("interval_event", "interval_ns"))
    skid, late = (median(trace.attributes[name] for trace in ended) for name in ("skid_median", "skid_p99"))
    yield (
        f"An interval ends every {period:,} counts of {event}. The median skid, from the overflow to the reading "
        f"of the counters, is {skid:,.0f} counts ({skid / period:.2g} of an interval); in 99 % of the records, the "
        f"skid is at most {late:,.0f}."
    )


def _cut_by_program(traces: Sequence[Trace]) -> Iterator[str]:
    """Yield a note on what counts in every configuration, if the program's own events end intervals."""
    for trace in traces:
        if metric := trace.attributes.get("interval_metric"):
            yield ends_at_events(metric, int(trace.attributes["interval_ns"]))
            return


def _missed(traces: Sequence[Trace]) -> Iterator[str]:
    """Yield notes on unread and missed ticks, which make intervals longer."""
    timed = [trace for trace in traces if trace.attributes.get("clock") == "monotonic" and len(trace)]
    missed = [trace.attributes.get("missed_ticks", 0) for trace in timed]
    shares = [count / (len(trace) + count) for trace, count in zip(timed, missed, strict=True)]
    unread = sum(trace.attributes.get("unread_ticks", 0) for trace in traces)
    if unread:
        yield (
            f"In all runs together, the counters could not be read at {counted(unread, 'tick')}: the "
            "intervals before and after such a tick were joined, but no count was lost."
        )
    ticks = "event's overflows" if any(trace.attributes.get("interval_event") for trace in timed) else "timer's ticks"
    if shares and median(shares) > _MISSED_SHARE:
        yield (f"{median(shares):.0%} of the {ticks} were missed: the host was busy, or the interval is too short.")


def _observed(traces: Sequence[Trace]) -> Iterator[str]:
    seen = [trace for trace in traces if "interrupts_per_record" in trace.attributes]
    if not seen:
        return
    interrupts = median(trace.attributes["interrupts_per_record"] for trace in seen)
    where = {trace.attributes["observer_processor"] for trace in seen}
    place = f"on processor {', '.join(map(str, sorted(where)))}" if None not in where else "on the program's processors"
    real_time = "with" if all(trace.attributes["real_time"] for trace in seen) else "without"
    yield (
        f"The observer ran {place}, {real_time} real-time priority. The program's processors received {interrupts:.2g} "
        "function-call interrupts per record, including those that the kernel sends for its own work."
    )
