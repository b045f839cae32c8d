"""Catalogue of this host: every metric, the sources that can count the metric here, and why the others cannot.

A separate program tries the events, hundreds in a fraction of a second, because a counter library may crash or hang.
Nothing is changed on the host.
"""

from __future__ import annotations

import fnmatch
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from unperturbed.collectors.runtime import build_trials
from unperturbed.collectors.sources import (
    Answer,
    CatalogueEntry,
    Source,
    SourceCatalogue,
    SourceState,
    SourceSupport,
    Trials,
    find_sources,
)
from unperturbed.collectors.sources.catalogue import OS_GROUPS
from unperturbed.collectors.sources.perf.tables import PerfMetric, PerfTables, read_tables
from unperturbed.common import supervision

_SECONDS = 20.0
PERF_EVENT = "perf_event"  # metrics of perf's tables are computed from this source's events


def trials_on_this_host(compiler: str, root: Path = Path("/")) -> Trials:
    """Return the `Trials` with which sources try events on this host."""
    return Trials(root, compiler, partial(_ask, compiler))


def _ask(compiler: str, questions: Sequence[str], library: str) -> tuple[list[tuple[str, Answer]], str]:
    """Try events in a separate program, because a library may crash or hang; return its answers, and why it failed."""
    program = build_trials(compiler)
    environment = {**os.environ, "UNPERTURBED_PAPI": library}
    asked = "".join(f"{question}\n" for question in questions).encode()
    problem = ""
    try:
        done = supervision.run([program], input=asked, capture_output=True, timeout=_SECONDS, env=environment)
        output = done.stdout
        if done.returncode:
            problem = f"the program that tries events was ended by signal {-done.returncode}"
    except subprocess.TimeoutExpired as late:
        output = late.stdout or b""
        problem = f"the program that tries events did not finish within {_SECONDS:g} s"
    answers = []
    for line in output.decode(errors="replace").splitlines():
        what, *fields = line.split("\t")
        if len(fields) == 5:
            name, reason, code, description, unit = fields
            answers.append((what, Answer(name, reason, int(code), description.strip(), unit)))
    return answers, problem


@dataclass(frozen=True)
class Listing:
    """Catalogue of this host's sources, metrics and tracepoints."""

    sources: tuple[SourceState, ...]  # Each source's state, in the order of preference
    # Ordered by family. Tracepoints are included only if a pattern selects them.
    metrics: tuple[CatalogueEntry, ...]
    tracepoints: Mapping[str, int] = field(default_factory=dict)  # Number of tracepoints of each subsystem
    tracepoint_problem: str = ""  # Why tracepoints cannot be counted here; empty if they can
    # Metrics of perf's tables for this processor; a spec lists them under `derived`.
    perf_metrics: tuple[PerfMetric, ...] = ()
    perf_metric_problem: str = ""  # Why perf lists no metrics; empty if it lists any


def list_metrics(
    compiler: str = "gcc", *, pattern: str | None = None, source: str | None = None, root: Path = Path("/")
) -> Listing:
    """List every metric of this host, or only those selected by a pattern or a source.

    `pattern`: A glob for names, or a part of a name or meaning; case does not matter.
    `source`: Only metrics that this source might count, with this source's support only.
    """
    trials = trials_on_this_host(compiler, root)
    asked = find_sources()
    catalogues = {name: record.catalogue(trials) for name, record in asked.items()}
    processes = list(_process_counters(root))
    metrics = [*_merge(asked, catalogues), *(entry for _, entries in processes for entry in entries)]
    tables = read_tables() if source in (None, PERF_EVENT) else PerfTables()
    states = (*(catalogue.state for catalogue in catalogues.values()), *(state for state, _ in processes))
    shown = [catalogue for name, catalogue in catalogues.items() if source in (None, name)]
    return Listing(
        tuple(state for state in states if source in (None, state.name)),
        tuple(_select(metrics, pattern, source)),
        {system: number for catalogue in shown for system, number in catalogue.tracepoints.items()},
        next((catalogue.tracepoint_problem for catalogue in shown if catalogue.tracepoint_problem), ""),
        tuple(item for item in tables.metrics if _matches(pattern, item.name, item.meaning, item.groups)),
        tables.problem,
    )


def nearest(pattern: str, listing: Listing, *, limit: int = 5) -> tuple[str, ...]:
    """Return the names in a full listing that are most similar to a pattern that matched nothing.

    `limit`: Maximum number of names.
    Result: The most similar name first.
    """
    from rapidfuzz import fuzz, process  # noqa: PLC0415  only a mistake needs it

    names = [name for metric in listing.metrics for name in (metric.name, *metric.aliases)]
    names += [metric.name for metric in listing.perf_metrics]
    plain = re.sub(r"[*?\[\]]", "", pattern)
    hits = process.extract(plain, names, scorer=fuzz.WRatio, processor=str.casefold, limit=None, score_cutoff=55)
    # Among equally similar names, prefer the shortest; some sources also list names in capitals.
    hits.sort(key=lambda hit: (-round(hit[1]), len(hit[0]), hit[0] != hit[0].casefold()))
    return tuple({name.casefold(): name for name, _, _ in reversed(hits)}.values())[::-1][:limit]


def _merge(sources: Mapping[str, Source], catalogues: Mapping[str, SourceCatalogue]) -> Iterable[CatalogueEntry]:
    """Merge entries of the same name, in the place where its prefix's source, or else the first source, lists it."""
    owners = {source.prefix: name for name, source in sources.items() if source.prefix}
    names = {source: {entry.name for entry in catalogue.entries} for source, catalogue in catalogues.items()}
    places: dict[str, CatalogueEntry] = {}
    ways: dict[str, list[SourceSupport]] = {}
    for name, catalogue in catalogues.items():
        for entry in catalogue.entries:
            ways.setdefault(entry.name, []).extend(entry.ways)
            owner = next((owner for prefix, owner in owners.items() if entry.name.startswith(prefix)), name)
            if owner == name or entry.name not in names[owner]:
                places.setdefault(entry.name, entry)
    return (replace(entry, ways=tuple(ways[name])) for name, entry in places.items())


def _select(metrics: Iterable[CatalogueEntry], pattern: str | None, source: str | None) -> Iterator[CatalogueEntry]:
    for metric in metrics:
        ways = tuple(way for way in metric.ways if source in (None, way.source))
        if not ways or (pattern is None and metric.searched_only):
            continue
        meaning = "" if metric.searched_only else ways[0].meaning
        if _matches(pattern, metric.name, meaning, metric.aliases):
            yield replace(metric, ways=ways)


def _matches(pattern: str | None, name: str, meaning: str, aliases: tuple[str, ...]) -> bool:
    if pattern is None:
        return True
    wanted = pattern.casefold()
    names = [text.casefold() for text in (name, *aliases)]
    if re.search(r"[*?\[]", pattern):
        # A source's prefix may be left out: `L1-*` also matches `perf::L1-dcache-loads`.
        return any(fnmatch.fnmatchcase(form, wanted) for text in names for form in (text, text.partition("::")[2]))
    return any(wanted in text for text in (*names, meaning.casefold()))


def _process_counters(root: Path) -> Iterator[tuple[SourceState, list[CatalogueEntry]]]:
    """Yield state and metrics of each group of operating-system counters."""
    files = {"schedstat": "proc/self/schedstat", "procio": "proc/self/io"}  # getrusage(2) needs no file
    for group in OS_GROUPS:
        file = files.get(group.source)
        problem = f"this kernel has no /{file}" if file is not None and not (root / file).exists() else ""
        entries = []
        for name, meaning in group.metrics.items():
            way = SourceSupport(group.source, "os", _os_unit(name), meaning, problem)
            entries.append(CatalogueEntry(name, "process counter", (way,)))
        yield SourceState(group.source, problem=problem, note="every run records all of these metrics"), entries


def _os_unit(name: str) -> str:
    if name.endswith(("_us", "_ns")):
        return name[-2:]
    if name.startswith(("bytes_", "chars_")):
        return "bytes"
    return "blocks" if name.startswith("blocks_") else "events"
