"""Traces of a run's threads: one of each, and with `threads: each` their roles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from unperturbed.collectors.data import Metric, Trace
from unperturbed.collectors.records.counts import threads
from unperturbed.collectors.records.file import Mark, Records
from unperturbed.collectors.records.roles import read_births, roles
from unperturbed.collectors.records.threads import described, thread_traces
from unperturbed.collectors.sources import Pass
from unperturbed.errors import RunError
from unperturbed.instrument.binaries.routines import routine_name


def write_thread_traces(
    trace: Trace,
    processes: Mapping[Path, Records],
    collected: Pass,
    software: Sequence[Metric | None],
    folder: Path,
    *,
    each: bool,
    whole: bool = True,
) -> Trace:
    """Write a trace of each thread; return the run's trace, with their roles if they have any.

    The threads are those of the first process, and with `each` of each MPI rank: which rank begins first varies from
    run to run. Other processes have no name that is the same in every run, which their threads' roles would need.

    `processes`: The records of each process, by record file, the first process first.
    `software`: The run's software metrics, by index. `folder`: That of the run.
    `each`: Threads one by one. A thread that lasted one interval then has no trace of its own, because thousands may.
    `whole`: The records are those of the whole run, not of a service's load.
    """
    chosen = _with_threads_of_their_own(processes) if each else {next(iter(processes)): ""}
    if not each:
        (records,) = (processes[file] for file in chosen)
        return _written(trace, thread_traces(records, collected, trace.attributes), folder, shortest=1)
    every: dict[int, Trace] = {}
    told: list[dict[str, Any]] = []
    for file, prefix in chosen.items():
        records = processes[file]
        if Mark.UNNAMED in records.marks:
            raise RunError(
                "`threads: each`: a thread could not note its role beside the record file: the disk is full, or the "
                "program changed its user or its root folder. Use `threads: all`"
            )
        births = read_births(file)
        named = roles(births, lambda place: routine_name(place.file, place.offset, place.symbol))
        own = thread_traces(
            records,
            collected,
            trace.attributes,
            software=software,
            dumps=folder / "dumps",
            roles={number: prefix + role for number, role in named.items()},
            whole=whole,
        )
        for thread, alone in zip(described(own, births), own.values(), strict=True):
            number = thread["number"] if not prefix else len(every)
            told.append({**thread, "number": number})
            every[number] = replace(alone, attributes={**alone.attributes, "thread": number})
    without: Counter[str] = Counter()
    for file, records in processes.items():
        if file not in chosen and len(threads(records)) > 1:
            without[records.image] += len(threads(records))
    facts = {"threads": told, **({"threads_without_traces": dict(without)} if without else {})}
    return _written(replace(trace, attributes={**trace.attributes, **facts}), every, folder, shortest=2)


def _with_threads_of_their_own(processes: Mapping[Path, Records]) -> dict[Path, str]:
    """Return the record files of the processes whose threads have traces, and what their roles begin with.

    A rank may have several processes, such as a shell and the program: the last of those with the most threads counts.
    """
    of_ranks: dict[int, Path] = {}
    for file, records in processes.items():
        if records.rank is None:
            continue
        known = of_ranks.get(records.rank)
        if known is None or len(threads(records)) >= len(threads(processes[known])):
            of_ranks[records.rank] = file
    if not of_ranks:
        return {next(iter(processes)): ""}
    return {of_ranks[rank]: f"rank {rank}/" for rank in sorted(of_ranks)}


def _written(trace: Trace, own: Mapping[int, Trace], folder: Path, *, shortest: int) -> Trace:
    if len(own) > 1:
        (folder / "threads").mkdir()
        for thread, alone in own.items():
            if len(alone) >= shortest or thread == 0:
                alone.write(folder / "threads" / f"{thread:03d}.parquet")
    return trace
