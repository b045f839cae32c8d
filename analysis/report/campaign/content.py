"""Content of the report as frozen data classes, and its verdicts grouped by configuration.

The harness fills in the content, `page.render` renders it, and `to_json` exports it.
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
    from unperturbed.analysis.doses.response import DoseResponses
    from unperturbed.analysis.floor.noise_floor import NoiseFloor
    from unperturbed.analysis.looks import Looks
    from unperturbed.analysis.multiplexing import MultiplexingVerdicts
    from unperturbed.analysis.nodes.ranks import RankVerdicts
    from unperturbed.analysis.nodes.strata import StrataVerdicts
    from unperturbed.analysis.perturbation import CheckName
    from unperturbed.analysis.report.alignment import AlignmentExample
    from unperturbed.analysis.rewriting import Rewriting
    from unperturbed.analysis.totals import TotalChange
    from unperturbed.collectors.data import Metric, Trace
    from unperturbed.common.table import Table


_SCHEMA_VERSION = 1
"""Version of verdicts.json; the JSON Schema is harness/results/json_schemas/verdicts.json."""


@dataclass(frozen=True)
class Headline:
    """The most important facts about a campaign. Empty facts are not shown.

    Attributes
    ----------
    program : str
        Name of the measured program for readers (`bzip2 1.0.8`).
    command : str
        The command line of the program.
    started : str
        Start time of the campaign, ISO 8601.
    seconds : float or None
        Time spent measuring.
    host : str
        The machine.
    version : str
        Version of this tool.
    """

    program: str = ""
    command: str = ""
    started: str = ""
    seconds: float | None = None
    host: str = ""
    version: str = ""


@dataclass(frozen=True)
class CounterSource:
    """Source of the hardware metrics.

    Attributes
    ----------
    name : str
        `simulated by callgrind`, `papi`, `perf_event`.
    sentence : str
        One sentence for readers: what was counted, by which source, and why this source was chosen.
    simulated : bool
        Whether a model of a processor computed the counts. The page then marks them as simulated.
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
        The largest |Δρ| that is considered harmless.
    interval : str
        Length of an interval, with its unit (`20 ms`).
    clock : str
        The clock that measures intervals.
    align_on : tuple of str
        Metrics that runs are aligned on.
    anchor : str or None
        The software metric that every configuration except the baseline collects.
    baseline_runs, runs : int or None
        Planned runs of the baseline and of each other configuration; the maximum if the campaign runs until decided.
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
    """One attempt at a run, as recorded in the manifest.

    Attributes
    ----------
    run : str
        The run's id.
    configuration : str
        The run's configuration.
    repetition : int
        Number of the run within its configuration, counted from 1.
    attempt : int
        Number of the attempt at this run, counted from 1.
    state : str
        `done`, `failed`, `planned`, `running`, ….
    seconds : float or None
        Duration of the run; None if unknown.
    intervals : int or None
        Number of intervals; None if unknown.
    environment_pad_bytes : int or None
        Bytes added to the environment to vary the memory layout.
    load_before, load_after : float or None
        The host's one-minute load average.
    host : str
        Other activity on the host during the run, as text.
    host_before, host_after : mapping of str to object
        The full state of the host before and after the run, for programs.
    error : str
        Reason for a failure; empty if the run succeeded.
    layout : int or None
        Number of the program's code layout; 0 is the layout of the original build, None is unknown.
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
    """Content of a report.

    Attributes
    ----------
    campaign : str
        Name of the campaign.
    verdicts : tuple of Verdict
        One or more verdicts for each checked configuration (the anchor, each subset); the report joins several.
    source : CounterSource
        Source of the hardware metrics.
    settings : ReportSettings
        Settings of the spec.
    headline : Headline
        The facts at the top.
    traces : mapping of str to tuple of Trace
        Traces by configuration, the pure baseline first. Attributes `run` and `clock` are read; without `run`, a trace
        is named by its position. The page draws only a few traces of each configuration, and states how many.
    warm_up : mapping of str to int
        Number of intervals with which runs begin that differ from the rest, by configuration; only those that have any.
    warm_up_left_out : bool
        Whether correlations leave these intervals out.
    software_by_configuration : mapping of str to tuple of str
        Software metrics that each configuration collected, including the anchor.
    alignment : AlignmentExample or None
        An example of two aligned runs; None if no runs were aligned.
    runs : tuple of RunRow
        All attempts at runs.
    failures : tuple of str
        One sentence for each run without a result.
    provenance : mapping of str to mapping of str to str
        Names and values by group (`host`, `kernel`, `compiler`, …), in display order.
    spec_text : str
        The spec as the user wrote it.
    notes : tuple of str
        Notes on the whole campaign, one sentence each.
    method : tuple of str
        Exact statements on the statistics, one sentence each.
    steadiness : tuple of str
        Statements on the steadiness of the baseline, one sentence each.
    doubts : tuple of str
        Reasons to distrust the baseline, with which all configurations are compared; one sentence each.
    setups : mapping of str to str
        Configurations that are different set-ups of the program → how each differs from the baseline.
    totals : mapping of str to tuple of TotalChange
        Changes of totals, by configuration.
    floor : NoiseFloor or None
        Smallest changes that runs can show; None if nothing was compared.
    looks : Looks or None
        The looks of a campaign that runs until decided; None for a fixed number of runs.
    counting : mapping of str to Verdict
        Verdict on each configuration against the same build without counting; empty for separate builds.
    rewriting : mapping of str to Rewriting
        The instructions that each build without counting adds, by function; empty for separate builds.
    doses : mapping of str to DoseResponses
        Responses of each subset's correlations and totals to the dose; empty without `doses`.
    ranks : RankVerdicts or None
        Verdicts by MPI rank, imbalance and waiting; None without ranks.
    multiplexing : MultiplexingVerdicts or None
        Which metrics may be multiplexed; None if the campaign did not try it.
    threads : StrataVerdicts or None
        Verdicts by thread; None without `threads: each`.
    passes : Table or None
        The hardware metrics of each pass; None with a single pass.
    correlations : tuple of Table
        Correlations of the baseline's metrics in each pass, if nothing was compared with it.
    """

    campaign: str
    verdicts: tuple[Verdict, ...]
    source: CounterSource
    settings: ReportSettings = ReportSettings()
    headline: Headline = Headline()
    traces: Mapping[str, tuple[Trace, ...]] = field(default_factory=dict)
    warm_up: Mapping[str, int] = field(default_factory=dict)
    warm_up_left_out: bool = False
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
    looks: Looks | None = None
    counting: Mapping[str, Verdict] = field(default_factory=dict)
    rewriting: Mapping[str, Rewriting] = field(default_factory=dict)
    doses: Mapping[str, DoseResponses] = field(default_factory=dict)
    ranks: RankVerdicts | None = None
    multiplexing: MultiplexingVerdicts | None = None
    threads: StrataVerdicts | None = None
    passes: Table | None = None
    correlations: tuple[Table, ...] = ()


def to_json(content: ReportContent) -> dict[str, Any]:
    """Return the report as JSON types: verdicts, runs, settings and provenance, without traces.

    Numbers stay exact; numbers that JSON does not support (NaN, ∞) become null.
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
        "totals": plain({name: [change.to_dict() for change in changes] for name, changes in content.totals.items()}),
        "floor": None if content.floor is None else plain(content.floor.to_dict()),
        "looks": None if content.looks is None else plain(asdict(content.looks)),
        "counting": plain({name: verdict.to_json() for name, verdict in content.counting.items()}),
        "rewriting": {name: rewriting.to_dict() for name, rewriting in content.rewriting.items()},
        "doses": plain({name: responses.to_dict() for name, responses in content.doses.items()}),
        "ranks": None if content.ranks is None else plain(content.ranks.to_dict()),
        "multiplexing": None if content.multiplexing is None else plain(content.multiplexing.to_dict()),
        "threads": None if content.threads is None else plain(content.threads.to_dict()),
        "warm_up": {"intervals": dict(content.warm_up), "left_out": content.warm_up_left_out},
        "provenance": plain(content.provenance),
        "spec": content.spec_text,
    }


def _levels(changes: Sequence[TotalChange]) -> list[dict[str, Any]]:
    """Return changes of totals in the format used before totals had verdicts, for programs that read `levels`."""
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
    """Return the descriptions of all metrics in the traces, in order of first appearance."""
    metrics: dict[str, Metric] = {}
    for traces in content.traces.values():
        for trace in traces:
            if trace.metrics.keys() <= metrics.keys():
                continue
            for name, metric in trace.metrics.items():
                metrics.setdefault(name, metric)
    return metrics


ChangeKey = tuple[str, str, str, str]
"""Key of a change: configuration, check, first metric and second metric."""


@dataclass(frozen=True)
class ConfigurationResult:
    """Verdict, changes and overhead of one configuration."""

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
    """Difference from the baseline, if this is a different set-up of the program that counts the same metrics."""
    level: float = 0.9
    """Level of the confidence intervals."""

    @property
    def bound_alpha(self) -> float:
        """Return the error probability of each bound of the confidence intervals."""
        return (1 - self.level) / 2

    @property
    def is_sham(self) -> bool:
        """Return whether the configuration is a sham: rewritten code that does not count."""
        return self.is_ready or self.configuration.startswith("sham-")

    @property
    def is_ready(self) -> bool:
        """Return whether the configuration is a build that other configurations run too, and counts nothing."""
        named = self.configuration == "ready" or self.configuration.startswith("ready-")
        return named and not self.software and not self.setup  # a set-up may have such a name with separate builds

    def of(self, check: CheckName) -> tuple[Change, ...]:
        """Return the changes of one check."""
        return tuple(change for change in self.changes if change.check == check)

    def having(self, verdict: VerdictName) -> tuple[Change, ...]:
        """Return the changes with this verdict."""
        return tuple(change for change in self.changes if change.verdict == verdict)

    def check_verdict(self, check: CheckName) -> VerdictName | None:
        """Return the verdict on one check; None if the check was not made."""
        changes = self.of(check)
        return combine([change.verdict for change in changes]) if changes else None

    def worst(self, check: CheckName | None = None) -> Change | None:
        """Return the most serious change, by `change_weight`."""
        ranked = ranked_changes(self.changes if check is None else self.of(check))
        return ranked[0] if ranked else None


def change_key(result: ConfigurationResult, change: Change) -> ChangeKey:
    """Return the key of a change."""
    return result.configuration, change.check, change.first, change.second


def listed_changes(
    results: Iterable[ConfigurationResult], most: int | None = None
) -> list[tuple[ConfigurationResult, Change]]:
    """Return the `most` most serious changes (None: all), the most serious first."""
    pairs = [(result, change) for result in results for change in result.changes]
    return sorted(pairs, key=lambda pair: change_weight(pair[1]), reverse=True)[:most]


def configuration_results(content: ReportContent) -> tuple[ConfigurationResult, ...]:
    """Join the verdicts on each configuration, in the order of the content."""
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
            level=group[0].level,
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
    """Data for the report's sections and figures."""

    content: ReportContent  # The content of the report: traces, runs, settings
    results: Sequence[ConfigurationResult]  # The verdicts, joined by configuration
    # Changes with details on the page, the most serious first.
    listed: Sequence[tuple[ConfigurationResult, Change]] = ()

    @property
    def baseline(self) -> str:
        """Return the name of the configuration that all others are compared with; empty if there is no verdict."""
        return self.results[0].references[0] if self.results and self.results[0].references else ""

    @cached_property
    def described(self) -> Mapping[str, Metric]:
        """Return the descriptions of all metrics in the traces, in order of first appearance."""
        return described_metrics(self.content)

    @cached_property
    def change_numbers(self) -> Mapping[ChangeKey, int]:
        """Return the number of each listed change, which a click uses to open the change's details."""
        return {change_key(result, change): number for number, (result, change) in enumerate(self.listed)}


def changed_pairs(results: Iterable[ConfigurationResult], check: CheckName) -> list[tuple[str, str]]:
    """Return all pairs of metrics with a change in this check, the pair with the most serious change first."""
    changes = [change for result in results for change in result.of(check)]
    return list(dict.fromkeys((change.first, change.second) for change in ranked_changes(changes)))
