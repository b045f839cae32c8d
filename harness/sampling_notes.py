"""What the sampling itself did in a campaign's runs, in sentences for the report: what was not counted, scaled, implausible, or paid for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median

from unperturbed.collectors.trace import Trace

__all__ = ["length_of_interval", "sampling_notes"]

_QUANTUM_BLOCKS = 100_000
_MISSED_SHARE = 0.05


def length_of_interval(interval_ns: int, clock: str) -> str:
    """Return an interval's length in words; on the simulator's work clock it is a number of quanta."""
    if clock == "work":
        return f"{interval_ns * _QUANTUM_BLOCKS:,} basic blocks"
    return f"{interval_ns / 1e6:g} ms"


def sampling_notes(traces: Sequence[Trace]) -> Iterable[str]:
    """Yield a sentence for each thing about the sampling that a reader must know."""
    if not traces:
        return
    yield from _implausible(traces)
    yield from _unsampled_threads(traces)
    yield from _scaled(traces)
    if any(trace.attributes.get("uneven_work") for trace in traces):
        yield "The program waits in system calls often, which take the ticks that end intervals of work: their lengths vary from run to run."
    yield from _missed(traces)
    yield from _observed(traces)


def _implausible(traces: Sequence[Trace]) -> Iterable[str]:
    found = Counter(sentence.split(" (")[0] for trace in traces for sentence in trace.attributes.get("implausible", ()))
    examples = {sentence.split(" (")[0]: sentence for trace in traces for sentence in trace.attributes.get("implausible", ())}
    for part, runs in found.items():
        yield f"A count cannot be right, in {runs} of {len(traces)} runs: {examples[part]}."


def _unsampled_threads(traces: Sequence[Trace]) -> Iterable[str]:
    alone = [trace for trace in traces if trace.attributes.get("made_threads") and trace.attributes["sampled_threads"] == 1]
    if any(metric.source in ("papi", "perf_event") for trace in alone for metric in trace.metrics.values()):
        yield "The program made threads, and of the counters only its main thread was read (threads: main)."


def _scaled(traces: Sequence[Trace]) -> Iterable[str]:
    names = dict.fromkeys(name for trace in traces for name, metric in trace.metrics.items() if metric.scaled)
    for name in names:
        shares = [
            trace[f"{name}.running_ns"].sum() / max(1, trace[f"{name}.enabled_ns"].sum())
            for trace in traces
            if f"{name}.running_ns" in trace.metrics
        ]
        yield f"{name} took turns on the counters and is scaled up from {median(shares):.0%} of the time."


def _missed(traces: Sequence[Trace]) -> Iterable[str]:
    """Say when many ticks were missed: intervals are then longer than asked for, and few records describe a busy stretch."""
    timed = [trace for trace in traces if trace.attributes.get("clock") == "monotonic" and len(trace)]
    shares = [
        trace.attributes.get("missed_ticks", 0) / (len(trace) + trace.attributes.get("missed_ticks", 0)) for trace in timed
    ]
    unread = sum(trace.attributes.get("unread_ticks", 0) for trace in traces)
    if unread:
        yield f"At {unread} ticks of all runs the counters could not be read: two intervals became one there, and no count was lost."
    if shares and median(shares) > _MISSED_SHARE:
        yield f"{median(shares):.0%} of the timer's ticks were missed: the host was busy, or the interval is too short for it."


def _observed(traces: Sequence[Trace]) -> Iterable[str]:
    seen = [trace for trace in traces if "interrupts_per_record" in trace.attributes]
    if not seen:
        return
    interrupts = median(trace.attributes["interrupts_per_record"] for trace in seen)
    where = {trace.attributes["observer_processor"] for trace in seen}
    place = f"on processor {', '.join(map(str, sorted(where)))}" if None not in where else "on the program's processors"
    real_time = "with" if all(trace.attributes["real_time"] for trace in seen) else "without"
    yield (
        f"The observer ran {place}, {real_time} real-time priority; the program's processors took {interrupts:.2g} function call interrupts "
        "a record, the kernel's own among them."
    )
