"""Content of the report, as plain frozen data, and its verdicts joined by configuration, counted and ranked.

The harness fills it, `page.render` draws it, `to_json` exports it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from unperturbed.analysis.perturbation import Change, Overhead, Verdict, VerdictName, combine, ranked_changes
from unperturbed.analysis.perturbation.verdict import change_weight
from unperturbed.analysis.totals.verdict import TIMES
from unperturbed.common.result import plain

if TYPE_CHECKING:
    from unperturbed.analysis.floor.noise_floor import NoiseFloor
    from unperturbed.analysis.perturbation import CheckName
    from unperturbed.analysis.report.alignment import AlignmentExample
    from unperturbed.analysis.totals import TotalChange
    from unperturbed.collectors.data import Metric, Trace


_SCHEMA_VERSION = 1
"""Of verdicts.json; its JSON Schema is harness/results/json_schemas/verdicts.json."""


@dataclass(frozen=True)
class Headline:
    """The few facts that a reader wants before all others. Empty ones are not shown.

    Attributes
    ----------
    program : str
        The measured program, as a reader would call it (`bzip2 1.0.8`).
    command : str
        How it was run.
    started : str
        When the campaign began, ISO 8601.
    seconds : float or None
        Time spent measuring.
    host : str
        The machine.
    version : str
        Of this tool.
    """

    program: str = ""
    command: str = ""
    started: str = ""
    seconds: float | None = None
    host: str = ""
    version: str = ""


@dataclass(frozen=True)
class CounterSource:
    """Where the hardware metrics come from.

    Attributes
    ----------
    name : str
        `simulated by callgrind`, `papi`, `perf_event`.
    sentence : str
        One sentence for people: what was counted, by what, and why this source was taken.
    simulated : bool
        The counts were computed by a model of a processor. The page then says so everywhere.
    """

    name: str
    sentence: str = ""
    simulated: bool = False


@dataclass(frozen=True)
class ReportSettings:
    """Settings of the spec that the verdicts depend on.

    Attributes
    ----------
    alpha : float
        Error probability of each decision.
    tolerance : float
        |Δρ| that counts as no perturbation.
    interval : str
        Length of an interval, with its unit (`20 ms`).
    clock : str
        The clock that the interval is taken from.
    align_on : tuple of str
        Metrics that runs are aligned by.
    anchor : str or None
        The software metric that every configuration but the baseline holds.
    baseline_runs, runs : int or None
        Planned runs of the baseline and of each other configuration.
    """

    alpha: float = 0.05
    tolerance: float = 0.1
    interval: str = ""
    clock: str = ""
    align_on: tuple[str, ...] = ()
    anchor: str | None = None
    baseline_runs: int | None = None
    runs: int | None = None


@dataclass(frozen=True)
class RunRow:
    """One attempt at one run, as the manifest has it.

    Attributes
    ----------
    run : str
        Its id.
    configuration : str
        The configuration that it was a run of.
    repetition : int
        Which run of the configuration, counted from 1.
    attempt : int
        Which attempt at this run, counted from 1.
    state : str
        `done`, `failed`, `planned`, `running`, ….
    seconds : float or None
        Duration of the run; None when it has none.
    intervals : int or None
        Number of its intervals; None when it has none.
    environment_pad_bytes : int or None
        Bytes added to the environment to vary the memory layout.
    load_before, load_after : float or None
        The host's one-minute load average.
    host : str
        What else the host did during the run, in words.
    host_before, host_after : mapping of str to object
        All that was read of its state, for programs.
    error : str
        Why it failed; empty when it did not.
    layout : int or None
        Number of the layout of the program's code; 0 is the program as its build made it, None where nothing is known
        of it.
    """

    run: str
    configuration: str
    repetition: int
    attempt: int = 1
    state: str = "done"
    seconds: float | None = None
    intervals: int | None = None
    environment_pad_bytes: int | None = None
    load_before: float | None = None
    load_after: float | None = None
    host: str = ""
    host_before: Mapping[str, Any] = field(default_factory=dict)
    host_after: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    layout: int | None = None


@dataclass(frozen=True)
class ReportContent:
    """All that the report shows.

    Attributes
    ----------
    campaign : str
        Its name.
    verdicts : tuple of Verdict
        One or more for each checked configuration (the anchor, each subset); several for one are joined.
    source : CounterSource
        Where the hardware metrics come from.
    settings : ReportSettings
        What the spec chose.
    headline : Headline
        The facts at the top.
    traces : mapping of str to tuple of Trace
        Configuration to its traces, the pure baseline first. Attributes `run` and `clock` are read; without `run`, a
        trace is named by its place. Further traces cost nothing: the page shows a few of each configuration and says
        so.
    software_by_configuration : mapping of str to tuple of str
        Which software metrics each configuration collected, the anchor among them.
    alignment : AlignmentExample or None
        An example; None when nothing was aligned.
    runs : tuple of RunRow
        Every attempt.
    failures : tuple of str
        One sentence for each run that stayed without a result.
    provenance : mapping of str to mapping of str to str
        Group (`host`, `kernel`, `compiler`, …) to name and value, in the order to show.
    spec_text : str
        The spec as the user wrote it.
    notes : tuple of str
        Remarks on the whole campaign, one sentence each.
    method : tuple of str
        Exact statements on the statistics, one sentence each.
    steadiness : tuple of str
        How steady the baseline is itself, one sentence each.
    doubts : tuple of str
        Those of them that speak against the baseline: everything else is held against it.
    setups : mapping of str to str
        Configurations that are other set-ups of the program, and what is otherwise in each.
    totals : mapping of str to tuple of TotalChange
        How totals of metrics changed in each configuration.
    floor : NoiseFloor or None
        What runs can show; None where nothing was compared.
    """

    campaign: str
    verdicts: tuple[Verdict, ...]
    source: CounterSource
    settings: ReportSettings = ReportSettings()
    headline: Headline = Headline()
    traces: Mapping[str, tuple[Trace, ...]] = field(default_factory=dict)
    software_by_configuration: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    alignment: AlignmentExample | None = None
    runs: tuple[RunRow, ...] = ()
    failures: tuple[str, ...] = ()
    provenance: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    spec_text: str = ""
    notes: tuple[str, ...] = ()
    method: tuple[str, ...] = ()
    steadiness: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    setups: Mapping[str, str] = field(default_factory=dict)
    totals: Mapping[str, tuple[TotalChange, ...]] = field(default_factory=dict)
    floor: NoiseFloor | None = None


def to_json(content: ReportContent) -> dict[str, Any]:
    """Return the report as JSON types: verdicts, runs, settings, provenance.

    Numbers stay exact; one that JSON cannot hold (NaN, ∞) becomes null. Traces are left to their own files.
    """
    return {
        "schema_version": _SCHEMA_VERSION,
        "campaign": content.campaign,
        "headline": asdict(content.headline),
        "source": asdict(content.source),
        "settings": plain(asdict(content.settings)),
        "verdicts": plain([verdict.to_json() for verdict in content.verdicts]),
        "software_by_configuration": plain(content.software_by_configuration),
        "runs": plain([asdict(row) for row in content.runs]),
        "failures": list(content.failures),
        "notes": list(content.notes),
        "steadiness": list(content.steadiness),
        "doubts": list(content.doubts),
        "setups": dict(content.setups),
        "levels": plain({name: _levels(content.totals.get(name, ())) for name in content.setups}),
        "totals": plain({name: [one.to_dict() for one in found] for name, found in content.totals.items()}),
        "floor": None if content.floor is None else plain(content.floor.to_dict()),
        "provenance": plain(content.provenance),
        "spec": content.spec_text,
    }


def _levels(changes: Sequence[TotalChange]) -> list[dict[str, Any]]:
    """Return changes of totals as they were written before they had verdicts, for readers of that key."""
    return [
        {
            "metric": change.metric,
            "before": change.before,
            "after": change.after,
            "ratio": change.after / change.before - 1 if change.before else None,
            "low": change.low,
            "high": change.high,
        }
        for change in changes
        if change.metric not in TIMES
    ]


def described_metrics(content: ReportContent) -> Mapping[str, Metric]:
    """Return the description of every metric in any trace, in the order of first appearance."""
    found: dict[str, Metric] = {}
    for traces in content.traces.values():
        for trace in traces:
            if trace.metrics.keys() <= found.keys():
                continue
            for name, metric in trace.metrics.items():
                found.setdefault(name, metric)
    return found


ChangeKey = tuple[str, str, str, str]
"""Configuration, check, first and second metric: what a change is found by."""


@dataclass(frozen=True)
class ConfigurationResult:
    """All that was found about one configuration."""

    configuration: str
    references: tuple[str, ...]
    verdict: VerdictName
    changes: tuple[Change, ...]
    excluded: tuple[tuple[str, str], ...]
    overhead: Overhead
    software: tuple[str, ...]
    alpha: float
    tolerance: float
    setup: str = ""
    """The difference from the baseline, for another set-up of the program that counts the same metrics."""

    @property
    def is_sham(self) -> bool:
        """Tell whether nothing was measured in it: it shows what the rewritten code does without the counting."""
        return self.configuration.startswith("sham-")

    def of(self, check: CheckName) -> tuple[Change, ...]:
        """Return the changes of one check."""
        return tuple(change for change in self.changes if change.check == check)

    def having(self, verdict: VerdictName) -> tuple[Change, ...]:
        """Return the changes with this verdict."""
        return tuple(change for change in self.changes if change.verdict == verdict)

    def check_verdict(self, check: CheckName) -> VerdictName | None:
        """Return the verdict on one check alone; None when it was not made."""
        found = self.of(check)
        return combine([change.verdict for change in found]) if found else None

    def worst(self, check: CheckName | None = None) -> Change | None:
        """Return the change that weighs most; see `change_weight`."""
        ranked = ranked_changes(self.changes if check is None else self.of(check))
        return ranked[0] if ranked else None


def change_key(result: ConfigurationResult, change: Change) -> ChangeKey:
    """Return what a change is found by."""
    return result.configuration, change.check, change.first, change.second


def listed_changes(
    found: Iterable[ConfigurationResult], most: int | None = None
) -> list[tuple[ConfigurationResult, Change]]:
    """Return the `most` changes that weigh most, in that order."""
    pairs = [(result, change) for result in found for change in result.changes]
    return sorted(pairs, key=lambda pair: change_weight(pair[1]), reverse=True)[:most]


def configuration_results(content: ReportContent) -> tuple[ConfigurationResult, ...]:
    """Join the verdicts by configuration, in the order of the content."""
    by_configuration: dict[str, list[Verdict]] = {}
    for verdict in content.verdicts:
        by_configuration.setdefault(verdict.configuration, []).append(verdict)
    return tuple(
        ConfigurationResult(
            configuration=configuration,
            references=tuple(dict.fromkeys(verdict.reference for verdict in group)),
            verdict=combine([verdict.verdict for verdict in group]),
            changes=tuple(change for verdict in group for change in verdict.changes),
            excluded=tuple(dict.fromkeys(pair for verdict in group for pair in verdict.excluded)),
            overhead=_joined_overhead(group),
            software=tuple(content.software_by_configuration.get(configuration, ())),
            alpha=group[0].alpha,
            tolerance=group[0].tolerance,
            setup=content.setups.get(configuration, ""),
        )
        for configuration, group in by_configuration.items()
    )


def _joined_overhead(group: list[Verdict]) -> Overhead:
    def first(name: str) -> float | None:
        values = [getattr(verdict.overhead, name) for verdict in group]
        return next((value for value in values if value is not None), None)

    return Overhead(first("instructions"), first("cycles"), first("time"))


@dataclass(frozen=True)
class ReportView:
    """Everything that a section or a figure of the report may show."""

    content: ReportContent  # The content of the report: traces, runs, settings
    results: Sequence[ConfigurationResult]  # The verdicts, joined by configuration
    # The changes that the page has details of, the one that weighs most first.
    listed: Sequence[tuple[ConfigurationResult, Change]] = ()

    @property
    def baseline(self) -> str:
        """Return the name of the configuration that all others are compared with; empty where there is no verdict."""
        return self.results[0].references[0] if self.results and self.results[0].references else ""

    @cached_property
    def described(self) -> Mapping[str, Metric]:
        """Return the description of every metric in any trace, in the order of first appearance."""
        return described_metrics(self.content)

    @cached_property
    def change_numbers(self) -> Mapping[ChangeKey, int]:
        """Return the number of each listed change, by which a click on it opens its details."""
        return {change_key(result, change): number for number, (result, change) in enumerate(self.listed)}


def changed_pairs(found: Iterable[ConfigurationResult], check: CheckName) -> list[tuple[str, str]]:
    """Return every pair of metrics that any configuration was checked for, the one that weighs most anywhere first."""
    changes = [change for result in found for change in result.of(check)]
    return list(dict.fromkeys((change.first, change.second) for change in ranked_changes(changes)))
