"""Traces of a run's threads: one of each, and with `threads: each` their roles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from unperturbed.collectors.data import Metric, Trace
from unperturbed.collectors.records.file import Mark, Records
from unperturbed.collectors.records.roles import read_births, roles
from unperturbed.collectors.records.threads import described, thread_traces
from unperturbed.collectors.sources import Pass
from unperturbed.errors import RunError
from unperturbed.instrument.binaries.routines import routine_name


def write_thread_traces(
    trace: Trace,
    records: Records,
    collected: Pass,
    software: Sequence[Metric | None],
    folder: Path,
    *,
    each: bool,
    whole: bool = True,
) -> Trace:
    """Write a trace of each thread of the first process; return the run's trace, with their roles if they have any.

    `software`: The run's software metrics, by index. `folder`: That of the run.
    `each`: Threads one by one. A thread that lasted one interval then has no trace of its own, because thousands may.
    `whole`: The records are those of the whole run, not of a service's load.
    """
    if not each:
        return _written(trace, thread_traces(records, collected, trace.attributes), folder, shortest=1)
    if Mark.UNNAMED in records.marks:
        raise RunError(
            "`threads: each`: a thread could not note its role beside the record file: the disk is full, or the "
            "program changed its user or its root folder. Use `threads: all`"
        )
    births = read_births(folder / "record")
    named = roles(births, lambda place: routine_name(place.file, place.offset, place.symbol))
    own = thread_traces(
        records,
        collected,
        trace.attributes,
        software=software,
        dumps=folder / "dumps",
        roles=named,
        whole=whole,
    )
    trace = replace(trace, attributes={**trace.attributes, "threads": described(own, births, named)})
    return _written(trace, own, folder, shortest=2)


def _written(trace: Trace, own: dict[int, Trace], folder: Path, *, shortest: int) -> Trace:
    if len(own) > 1:
        (folder / "threads").mkdir()
        for thread, alone in own.items():
            if len(alone) >= shortest or thread == 0:
                alone.write(folder / "threads" / f"{thread:03d}.parquet")
    return trace
