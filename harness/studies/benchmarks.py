"""Verdicts on results of other harnesses: the totals of each benchmark, compared between two recordings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from unperturbed.analysis.perturbation.verdict import SEVERITY, VerdictName, combine
from unperturbed.analysis.totals.total_text import total_table, totals_sentence
from unperturbed.analysis.totals.verdict import (
    FEWEST,
    TIMES,
    TOLERANCES,
    TotalChange,
    compare_runs,
    decide_totals,
)
from unperturbed.collectors.data import Trace
from unperturbed.common.frames import Framed
from unperturbed.common.result import Result
from unperturbed.common.wording import counted, first_of, listing
from unperturbed.errors import DataError
from unperturbed.harness.campaign.importing import doubts_on_sides

if TYPE_CHECKING:
    import polars as pl

    from unperturbed.analysis.report import ReportContent
    from unperturbed.common.table import Table

_NAMED = 12
"""Names that a note lists."""
_SENTENCES = 12
"""Benchmarks up to which each has a sentence; with more, only those that may have changed."""


@dataclass(frozen=True, repr=False)
class BenchmarkVerdicts(Framed, Result):
    """Verdicts on the totals of benchmarks; all totals are one family of tests."""

    title: str  # What the files are: `JSON of hyperfine`
    alpha: float
    totals: Mapping[str, tuple[TotalChange, ...]]  # By benchmark
    notes: tuple[str, ...]  # What the comparison leaves open, one sentence each

    _page: ClassVar[str] = "unperturbed.harness.studies.benchmarks:_page_of"

    @property
    def verdicts(self) -> Mapping[str, VerdictName]:
        """Return the most serious verdict on the totals of each benchmark; undecided times count."""
        return {name: combine(change.verdict for change in changes) for name, changes in self.totals.items()}

    def at_least(self, mildest: VerdictName) -> tuple[str, ...]:
        """Return the benchmarks with this verdict or a more serious one."""
        serious = SEVERITY[: SEVERITY.index(mildest) + 1]
        return tuple(name for name, verdict in self.verdicts.items() if verdict in serious)

    def headline(self) -> str:
        """Return one sentence: the number of benchmarks for each verdict, with the names of those that changed."""
        names: dict[VerdictName, list[str]] = {verdict: [] for verdict in SEVERITY}
        for name, verdict in self.verdicts.items():
            names[verdict].append(name)
        parts = [
            f"{len(found)} {verdict}" + ("" if verdict == "unperturbed" else f" ({first_of(found)})")
            for verdict, found in names.items()
            if found
        ]
        return f"{counted(len(self.totals), 'benchmark')}: {listing(parts)}"

    def tables(self) -> tuple[Table, ...]:
        """Return a table with one row for each total of each benchmark."""
        caption = "Totals of a run, and how much the checked runs differ"
        return (total_table(self.totals, caption, benchmarks=True),)

    def sentences(self) -> tuple[str, ...]:
        """Return a sentence on each benchmark; with many benchmarks, only on those not shown to be unperturbed."""
        few = len(self.totals) <= _SENTENCES
        shown = [name for name, verdict in self.verdicts.items() if few or verdict != "unperturbed"]
        return tuple(totals_sentence(name, self.totals[name], "in the baseline") for name in shown)

    def to_frame(self) -> pl.DataFrame:
        """Return a frame with one row for each total of each benchmark."""
        import polars as pl  # noqa: PLC0415  slow to load

        left_out = ("reference", "observed", "reference_runs", "observed_runs")
        return pl.DataFrame(
            [
                {"benchmark": name}
                | {key: value for key, value in change.to_dict().items() if key not in left_out}
                | {"before": change.before, "after": change.after}
                for name, changes in self.totals.items()
                for change in changes
            ],
            infer_schema_length=None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return totals and notes as JSON types, in the format of a campaign's `verdicts.json`."""
        from unperturbed.analysis.report import to_json  # noqa: PLC0415  slow to load

        return to_json(self._content())

    def _content(self) -> ReportContent:
        from unperturbed.analysis.report import CounterSource, ReportContent, ReportSettings  # noqa: PLC0415

        sentence = "Totals of whole runs that another harness recorded; there are no intervals, and so no correlations."
        return ReportContent(
            "imported totals",
            (),
            CounterSource(self.title, sentence),
            settings=ReportSettings(alpha=self.alpha),
            notes=self.notes,
            totals=self.totals,
        )


def compare_benchmarks(
    title: str,
    baseline: Sequence[Trace],
    checked: Sequence[Sequence[Trace]],
    *,
    alpha: float = 0.05,
    tolerances: Mapping[str, float] = TOLERANCES,
) -> BenchmarkVerdicts:
    """Compare the runs of each benchmark with those of the same name in the baseline.

    Each trace is a whole run, with its totals. Each group of checked runs is a family of tests of its own, over all its
    benchmarks.
    """
    totals: dict[str, tuple[TotalChange, ...]] = {}
    notes: list[str] = [
        "These files have totals of whole runs and no intervals: there are no verdicts on correlations, and the exit "
        "code is of the totals."
    ]
    for number, group in enumerate(checked, 1):
        role = f"checked-{number}" if len(checked) > 1 else "checked"
        pairs = _Pairs(_by_benchmark(baseline), _by_benchmark(group), role)
        compared = _compared(pairs, alpha, tolerances, notes)
        decided = iter(decide_totals([change for _, changes in compared for change in changes], alpha=alpha))
        for name, changes in compared:
            key = name if len(checked) == 1 else f"{role}: {name}"
            totals[key] = tuple(next(decided) for _ in changes)
        notes += [*pairs.notes(), *doubts_on_sides(baseline, group, role)]
    notes += _notes_of_files([*baseline, *(trace for group in checked for trace in group)])
    return BenchmarkVerdicts(title, alpha, MappingProxyType(totals), tuple(dict.fromkeys(notes)))


def of_benchmark(traces: Sequence[Trace], name: str, role: str) -> list[Trace]:
    """Return the runs of one benchmark, under the name `role`, to compare two benchmarks of different names."""
    found = [trace for trace in traces if trace.attributes["benchmark"] == name]
    if not found:
        known = list(dict.fromkeys(str(trace.attributes["benchmark"]) for trace in traces))
        raise DataError(f"{role}={name}: the files have no such benchmark; they have {first_of(known, _NAMED)}")
    return found


def require_files_once(sides: Sequence[Sequence[Trace]], *, several_names: bool) -> None:
    """Refuse a file that is given twice, for both sides unless each has a benchmark of its own, or a copy of it."""
    seen: dict[str, tuple[int, str]] = {}
    for number, side in enumerate(sides):
        for trace in side:
            file, digest = str(trace.attributes["file"]), str(trace.attributes["sha256"])
            other, known = seen.setdefault(digest, (number, file))
            if file != known:
                raise DataError(f"{file} and {known} are identical, byte for byte: give each run only once")
            if other != number and not several_names:
                raise DataError(
                    f"{file} is given for both sides: to compare two benchmarks of one file, use "
                    "--option baseline=NAME --option checked=NAME"
                )


def _by_benchmark(traces: Iterable[Trace]) -> dict[str, list[Trace]]:
    found: dict[str, list[Trace]] = {}
    for trace in traces:
        found.setdefault(str(trace.attributes["benchmark"]), []).append(trace)
    return found


@dataclass(frozen=True)
class _Pairs:
    """Benchmarks of the baseline and of a group of checked runs, matched by name."""

    before: Mapping[str, list[Trace]]
    after: Mapping[str, list[Trace]]
    role: str

    @property
    def single(self) -> bool:
        """Return whether both sides have one benchmark, with different names: it is then meant to be the same."""
        return len(self.before) == len(self.after) == 1 and not set(self.before) & set(self.after)

    def matched(self) -> dict[str, tuple[list[Trace], list[Trace]]]:
        """Return the runs of both sides, by the name of the benchmark."""
        if self.single:
            (name,), (before,), (after,) = self.after, self.before.values(), self.after.values()
            return {name: (before, after)}
        common = {name: (runs, self.after[name]) for name, runs in self.before.items() if name in self.after}
        if not common:
            raise DataError(
                f"no benchmark has the same name on both sides: the baseline has {first_of(list(self.before))}; "
                f"{self.role} has {first_of(list(self.after))}. To compare two of different names, use "
                "--option baseline=NAME --option checked=NAME"
            )
        return common

    def notes(self) -> list[str]:
        """Return notes on benchmarks with different names, and on those of one side."""
        if self.single:
            return [f"{next(iter(self.after))} is compared with {next(iter(self.before))}, under the former's name."]
        sides = (("the baseline", self.before, self.after), (self.role, self.after, self.before))
        return [
            f"Only in {where}: {first_of([name for name in own if name not in other], _NAMED)}."
            for where, own, other in sides
            if set(own) - set(other)
        ]


def _compared(
    pairs: _Pairs, alpha: float, tolerances: Mapping[str, float], notes: list[str]
) -> list[tuple[str, tuple[TotalChange, ...]]]:
    """Return the changes of each benchmark with enough runs; add notes on all that is not compared."""
    compared, few, dependent, apart = [], [], [], []
    for name, sides in pairs.matched().items():
        before, after, of_one = _independent(*sides)
        if min(len(before), len(after)) < FEWEST:
            few.append(f"{name} has {len(before)} and {len(after)}")
            continue
        if of_one:
            dependent.append(name)
        metrics, others = _common_metrics([*before, *after])
        if others:
            notes.append(f"{listing(others)} of {name}: not compared, because some runs lack it, or have another unit.")
        if metrics:
            compared.append((name, compare_runs(before, after, metrics, alpha=alpha, tolerances=tolerances)))
        else:
            apart.append(f"{name}: the baseline has {_totals_of(before)}, and {pairs.role} has {_totals_of(after)}")
    if few:
        needed = f"each side needs at least {FEWEST} runs, and more to decide a small change"
        which = f"runs of the baseline and of {pairs.role}: {first_of(few)}"
        if not compared:
            raise DataError(f"too few runs to compare: {needed} ({which})")
        notes.append(f"{counted(len(few), 'benchmark')} not compared: {needed} ({which}).")
    if not compared:
        raise DataError(
            "nothing to compare: no total is in all runs of both sides in one unit ("
            f"{first_of(apart)}). Give files of both sides with the same totals in the same units"
        )
    if dependent:
        notes.append(
            f"Runs of one process are compared as if they were independent ({first_of(dependent)}): differences "
            f"between processes, such as of memory layout, are not part of the intervals. Record at least {FEWEST} "
            "processes of each side, a file each, and give all files: the runs of a process are then averaged."
        )
    return compared


def _common_metrics(traces: Sequence[Trace]) -> tuple[list[str], list[str]]:
    """Return the metrics that all runs have in one unit, and all others."""
    units: dict[str, set[str]] = {}
    for trace in traces:
        for name, metric in trace.metrics.items():
            units.setdefault(name, set()).add(metric.unit)
    common = [name for name, known in units.items() if len(known) == 1 and all(name in trace for trace in traces)]
    return common, [name for name in units if name not in common]


def _totals_of(traces: Sequence[Trace]) -> str:
    """Return the totals that some runs have, with their units: `time_s [s]`."""
    units = dict.fromkeys(f"{metric.name} [{metric.unit}]" for trace in traces for metric in trace.metrics.values())
    return first_of(list(units))


def _independent(before: list[Trace], after: list[Trace]) -> tuple[list[Trace], list[Trace], bool]:
    """Return independent runs: one for each process if both sides have enough, else all; and whether some depend."""
    grouped = [_by_process(side) for side in (before, after)]
    several = [len(groups) < len(side) for groups, side in zip(grouped, (before, after), strict=True)]
    if any(several) and min(map(len, grouped)) >= FEWEST:
        first, second = ([_mean_run(runs) for runs in groups] for groups in grouped)
        return first, second, False
    return before, after, any(several)


def _by_process(traces: Sequence[Trace]) -> list[list[Trace]]:
    groups: dict[str, list[Trace]] = {}
    for at, trace in enumerate(traces):
        groups.setdefault(str(trace.attributes.get("process") or f"#{at}"), []).append(trace)
    return list(groups.values())


def _mean_run(runs: Sequence[Trace]) -> Trace:
    """Return a run with the means of the totals that all runs of a process have."""
    first = runs[0]
    names = [name for name in first.metrics if all(name in run for run in runs)]
    means = {name: float(np.mean([run[name][0] for run in runs])) for name in names}
    return replace(
        first[names],
        columns=MappingProxyType({name: np.array([value]) for name, value in means.items()}),
        attributes={**first.attributes, **{name: means[name] for name in TIMES if name in means}},
    )


def _notes_of_files(traces: Sequence[Trace]) -> list[str]:
    """Return each note of the readers once, with the first file that has it."""
    files: dict[str, dict[str, None]] = {}
    for trace in traces:
        for note in trace.attributes.get("notes", ()):
            files.setdefault(str(note), {})[str(trace.attributes["file"])] = None
    return [
        f"{next(iter(places))}: {note}"
        + (f" (also in {counted(len(places) - 1, 'other file')})." if len(places) > 1 else ".")
        for note, places in files.items()
    ]


def _page_of(verdicts: BenchmarkVerdicts) -> str:
    """Return the verdicts as one HTML page: the sentences, the table, and the notes."""
    from unperturbed.analysis.pages.document import document, section  # noqa: PLC0415  slow to load
    from unperturbed.common.markup import tag  # noqa: PLC0415

    headline = verdicts.headline()
    return document(
        headline,
        tag(
            "main",
            tag("h1", headline),
            tag("p", f"{verdicts.title}; {len(verdicts.totals)} compared. All totals are one family of tests (Holm)."),
            section("totals", "Totals of a run", tag("ul", [tag("li", said) for said in verdicts.sentences()])),
            [table.to_html(sortable=True) for table in verdicts.tables()],
            section(
                "notes", "What the comparison leaves open", [tag("p", note, class_="note") for note in verdicts.notes]
            ),
        ),
    )
