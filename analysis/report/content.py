"""What the report shows, as plain frozen data: the harness fills it, `page.render` draws it, `to_json` is its twin for programs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from unperturbed.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from unperturbed.analysis.perturbation.verdict import Verdict
    from unperturbed.collectors.trace import Trace

__all__ = ["AlignmentExample", "CounterSource", "Headline", "ReportContent", "RunRow", "Settings", "to_json"]

_FORMAT = 1


@dataclass(frozen=True)
class Headline:
    """The few facts that a reader wants before all others. Empty ones are not shown.

    Attributes
    ----------
    program : the measured program, as a reader would call it (`bzip2 1.0.8`). command : how it was run.
    started : when the campaign began, ISO 8601. seconds : time spent measuring.
    host : the machine. version : of this tool.
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
    name : `simulated by callgrind`, `papi`, `perf_event`.
    sentence : one sentence for people: what was counted, by what, and why this source was taken.
    simulated : the counts were computed by a model of a processor. The page then says so everywhere.
    """

    name: str
    sentence: str = ""
    simulated: bool = False


@dataclass(frozen=True)
class Settings:
    """What the spec chose and the verdicts depend on.

    Attributes
    ----------
    alpha : error probability of each decision. tolerance : |Δρ| that counts as no perturbation.
    interval : length of an interval, with its unit (`20 ms`). clock : the clock that the interval is taken from.
    align_on : metrics that runs are aligned by. anchor : the software metric that every configuration but the baseline holds.
    baseline_runs, runs : planned runs of the baseline and of each other configuration.
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
    run : its id. configuration, repetition, attempt : what it was a run of, counted from 1.
    state : `done`, `failed`, `planned`, `running`, …
    seconds, intervals : length of the run; None when it has none.
    environment_pad_bytes : bytes added to the environment to vary the memory layout.
    load_before, load_after : the host's one-minute load average.
    host : what else the host did during the run, in words. host_before, host_after : all that was read of its state, for programs.
    error : why it failed; empty when it did not.
    layout : number of the layout of the program's code; 0 is the program as its build made it, None where nothing is known of it.
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
class AlignmentExample:
    """The alignment of two runs, to look at.

    Attributes
    ----------
    first, second : the runs. metric : the metric that they were aligned by.
    x, y : float, shapes (n,) and (m,): that metric in both runs.
    x_index, y_index : int, equal length: the warp path.
    milestone_scores : int, ≥ 0: intervals by which the path misses a milestone, one for each step of the path that holds one; may be empty.
    description : one sentence: how the runs were aligned and why these two are shown.
    flat : (first interval, the one after the last) of each flat stretch of x, which is shaded.

    Raises
    ------
    DataError
        A series is empty or holds a NaN; the path's two sides differ in length or point outside the series.
    """

    first: str
    second: str
    metric: str
    x: ArrayLike
    y: ArrayLike
    x_index: ArrayLike
    y_index: ArrayLike
    milestone_scores: ArrayLike = ()
    description: str = ""
    flat: Sequence[tuple[int, int]] = ()

    def __post_init__(self) -> None:
        for name, dtype in (("x", float), ("y", float), ("x_index", int), ("y_index", int), ("milestone_scores", int)):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=dtype))
        path_x, path_y = np.asarray(self.x_index), np.asarray(self.y_index)
        if path_x.shape != path_y.shape:
            raise DataError(f"alignment of {self.first} and {self.second}: the path has {path_x.size} and {path_y.size} steps")
        for side, series in ((self.first, np.asarray(self.x)), (self.second, np.asarray(self.y))):
            if not (series.size and np.isfinite(series).all()):
                raise DataError(f"alignment of {self.first} and {self.second}: {side} has no interval, or one without a number")
        for side, series, path in (("first", np.asarray(self.x), path_x), ("second", np.asarray(self.y), path_y)):
            if path.size and (path.min() < 0 or path.max() >= series.size):
                raise DataError(
                    f"alignment of {self.first} and {self.second}: the path leaves the {side} run's {series.size} intervals"
                )


@dataclass(frozen=True)
class ReportContent:
    """All that the report shows.

    Attributes
    ----------
    campaign : its name.
    verdicts : one or more for each checked configuration (the anchor, each subset); several for one are joined.
    source, settings, headline : see their classes.
    traces : configuration to its traces, the pure baseline first. Attributes `run` and `clock` are read; without `run`, a
        trace is named by its place. Further traces cost nothing: the page shows a few of each configuration and says so.
    software_by_configuration : which software metrics each configuration collected, the anchor among them.
    alignment : an example; None when nothing was aligned.
    runs : every attempt. failures : one sentence for each run that stayed without a result.
    provenance : group (`host`, `kernel`, `compiler`, …) to name and value, in the order to show.
    spec_text : the spec as the user wrote it.
    notes : remarks on the whole campaign, one sentence each. method : exact statements on the statistics, one sentence each.
    steadiness : how steady the baseline is itself, one sentence each.
    """

    campaign: str
    verdicts: tuple[Verdict, ...]
    source: CounterSource
    settings: Settings = Settings()
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


def to_json(content: ReportContent) -> dict[str, Any]:
    """Return what the report says as JSON types: verdicts, runs, settings, provenance.

    Numbers stay exact; one that JSON cannot hold (NaN, ∞) becomes null. Traces are left to their own files.
    """
    return {
        "format": _FORMAT,
        "campaign": content.campaign,
        "headline": asdict(content.headline),
        "source": asdict(content.source),
        "settings": _plain(asdict(content.settings)),
        "verdicts": _plain([verdict.to_json() for verdict in content.verdicts]),
        "software_by_configuration": _plain(content.software_by_configuration),
        "runs": _plain([asdict(row) for row in content.runs]),
        "failures": list(content.failures),
        "notes": list(content.notes),
        "steadiness": list(content.steadiness),
        "provenance": _plain(content.provenance),
        "spec": content.spec_text,
    }


def _plain(value: Any) -> Any:
    """Return the value with JSON's own types only."""
    match value:
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case np.generic():
            return _plain(value.item())
        case float():
            return value if math.isfinite(value) else None
        case _:
            return value
