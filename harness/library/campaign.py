"""A recorded campaign: its runs by configuration, its verdicts, and its data as one frame."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from unperturbed.analysis.choice.metric_choice import MetricChoice
from unperturbed.analysis.choice.moments import Scale
from unperturbed.analysis.floor.noise_floor import NoiseFloor
from unperturbed.analysis.perturbation import Verdict, verdict_table
from unperturbed.analysis.report import ReportContent, to_json
from unperturbed.collectors import Trace
from unperturbed.common.frames import Framed, Library, to_library
from unperturbed.common.result import Picture, Result
from unperturbed.common.table import Column, Table
from unperturbed.common.wording import counted, did_you_mean, listing, number
from unperturbed.errors import DataError, SpecError
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.plan import configurations
from unperturbed.harness.campaign.progress import Unwatched
from unperturbed.harness.campaign.traces import scan_intervals, tidy_traces
from unperturbed.harness.results.check import CheckOptions
from unperturbed.harness.results.floor import floor_of, floor_of_baseline
from unperturbed.harness.results.judge import judge_strata
from unperturbed.harness.results.looks import check
from unperturbed.harness.results.recorded import (
    Traces,
    disturbed_runs,
    pending_repetitions,
    read_traces,
    recorded_campaign,
)
from unperturbed.harness.results.reporting import content_of
from unperturbed.harness.results.verdicts import CampaignVerdicts
from unperturbed.harness.spec.load import load_spec
from unperturbed.harness.spec.sections.campaign import BASELINE
from unperturbed.harness.studies.choice import choose_of_campaign

if TYPE_CHECKING:
    import polars as pl

_PLOTTED = 4  # Number of metrics that a plot shows by default


class Runs(Framed, Sequence[Trace]):
    """Runs of one configuration, in the order of the plan.

    Attributes
    ----------
    configuration : str
        The configuration's name.
    """

    def __init__(self, configuration: str, traces: Sequence[Trace]) -> None:
        self.configuration = configuration
        self._traces = tuple(traces)

    @overload
    def __getitem__(self, index: int) -> Trace: ...
    @overload
    def __getitem__(self, index: slice) -> Runs: ...
    def __getitem__(self, index: int | slice) -> Trace | Runs:
        if isinstance(index, slice):
            return Runs(self.configuration, self._traces[index])
        return self._traces[index]

    def __len__(self) -> int:
        return len(self._traces)

    def __repr__(self) -> str:
        return f"<Runs of {self.configuration}: {counted(len(self), 'run')}>"

    def to_frame(self) -> pl.DataFrame:
        """Return the runs as one tidy frame with the columns of `Campaign.frame`."""
        return tidy_traces(self._traces)

    def plot(self, metrics: str | Sequence[str] | None = None) -> Picture:
        """Plot metrics over time, with all runs of a metric in one panel.

        Parameters
        ----------
        metrics : str or sequence of str, optional
            Metrics to plot, at most twelve, with one panel each. By default, the first four of the first run.

        Returns
        -------
        Picture
            The plot: a notebook shows it, and `write_html` writes it to a file.

        Raises
        ------
        DataError
            There are no runs, or no run has one of the metrics.
        """
        from unperturbed.analysis.report import render_traces, write_page  # noqa: PLC0415  slow to load

        if not self._traces:
            raise DataError(f"there are no runs of {self.configuration} to plot")
        chosen = self._traces[0].names()[:_PLOTTED] if metrics is None else metrics
        names = [chosen] if isinstance(chosen, str) else list(chosen)
        title = f"{listing(names)} of {self.configuration}"
        return Picture(render_traces(self._traces, names, title), title, writer=write_page)

    def _repr_html_(self) -> str:
        rows = []
        for place, trace in enumerate(self._traces):
            seconds = (trace.end_ns[-1] - trace.begin_ns[0]) / 1e9 if len(trace) else 0.0
            rows.append([str(trace.attributes.get("run", place)), str(len(trace)), number(seconds)])
        columns = (Column("run"), Column("intervals", "right"), Column("seconds", "right"))
        return Table(columns, rows, f"Runs of {self.configuration}").to_html()


class Campaign(Result):
    """Recorded campaign, read from its folder.

    Runs are read when they are first needed. `campaign["ties"]` returns the runs of the configuration `ties`;
    iterating yields the names of the configurations.

    Parameters
    ----------
    folder : path-like
        The campaign's folder.

    Attributes
    ----------
    folder : Path
        The campaign's folder.
    spec : Campaign
        The campaign's spec, as recorded in its manifest.

    Raises
    ------
    SpecError
        The folder contains no campaign, or one without verdicts: a sweep, or the search for a partition.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.spec = recorded_campaign(self.folder)

    @property
    def name(self) -> str:
        """The campaign's name in its spec."""
        return self.spec.name

    @cached_property
    def _traces(self) -> Traces:
        with Manifest(self.folder / "campaign.sqlite", read_only=True) as manifest:
            return read_traces(self.folder, manifest)

    @cached_property
    def _checked(self) -> CampaignVerdicts:
        return self._check("runs", across=False)

    @property
    def configurations(self) -> tuple[str, ...]:
        """The names of the configurations that have runs, the baseline first."""
        recorded = {name for runs in self._traces.values() for name in runs}
        return tuple(
            configuration.name for configuration in configurations(self.spec) if configuration.name in recorded
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.configurations)

    def __contains__(self, configuration: object) -> bool:
        return configuration in self.configurations

    def __len__(self) -> int:
        return len(self.configurations)

    def __getitem__(self, configuration: str) -> Runs:
        """Return a configuration's runs of every pass, those of the main pass first."""
        traces = [trace for runs in self._traces.values() for trace in runs.get(configuration, ())]
        if not traces:
            meant = did_you_mean(configuration, self.configurations) or f"use {listing(self.configurations, 'or')}"
            raise _UnknownConfigurationError(f"{self.folder}: no runs of configuration {configuration!r}; {meant}")
        return Runs(configuration, traces)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.configurations)

    @overload
    def check(
        self, configuration: None = None, *, method: Literal["runs", "paper"] = "runs", across: bool = False
    ) -> CampaignVerdicts: ...
    @overload
    def check(
        self, configuration: str, *, method: Literal["runs", "paper"] = "runs", across: bool = False
    ) -> Verdict: ...
    def check(
        self, configuration: str | None = None, *, method: Literal["runs", "paper"] = "runs", across: bool = False
    ) -> CampaignVerdicts | Verdict:
        """Compare the configurations with the baseline, as `unperturbed check` does.

        Parameters
        ----------
        configuration : str, optional
            Return only the verdict on this one. All are checked together in any case, as one family of tests.
        method : {"runs", "paper"}, default "runs"
            How to judge changes: by the variation between runs, or by the paper's rule.
        across : bool, default False
            Also correlate each metric with every other metric across aligned runs.

        Returns
        -------
        CampaignVerdicts or Verdict
            All verdicts with notes on the baseline, or the verdict on `configuration`.

        Raises
        ------
        DataError
            The baseline cannot be used, or there is no verdict on `configuration`.
        """
        plain = method == "runs" and not across
        checked = self._checked if plain else self._check(method, across=across)
        if configuration is None:
            return checked
        try:
            return checked.of(configuration)
        except DataError as error:
            raise DataError(f"{self.folder}: {error}") from None

    def floor(self) -> NoiseFloor:
        """Return the noise floor, as `unperturbed floor` does: the smallest change that n runs can show.

        Returns
        -------
        NoiseFloor
            Of every total and correlation that the campaign compared; of a campaign with a baseline alone, from two
            halves of it.

        Raises
        ------
        SpecError
            Nothing but the baseline was measured, and it has fewer than ten runs.
        """
        with Manifest(self.folder / "campaign.sqlite", read_only=True) as manifest:
            states = manifest.runs()
        return floor_of(self.spec, self._checked, states) or floor_of_baseline(self.spec, self._traces, states)

    def choose(
        self,
        r2: float = 0.95,
        *,
        hours: float | None = None,
        runs: int | None = None,
        configuration: str = BASELINE,
        scale: Scale = "count",
        decide: float | None = None,
        spec: str | os.PathLike[str] | None = None,
    ) -> MetricChoice:
        """Return which few metrics predict the rest, as `unperturbed choose` does.

        Parameters
        ----------
        r2 : float, default 0.95
            Share of a metric's variation over intervals that others must predict, in runs held back, for the metric to
            count as predicted.
        hours : float, optional
            Time to measure the choice: the result's `recommended` is then the choice that gives the most metrics in
            this time. By default, it is the smallest choice that predicts all other metrics.
        runs : int, optional
            With `hours`: runs of each pass; by default as many as the campaign has.
        configuration : str, default "baseline"
            Configuration whose runs are used.
        scale : {"count", "sqrt"}, default "count"
            Predict counts, or their square roots, which give intervals with large counts less weight.
        decide : float, optional
            Run the program again, for up to this many hours in all, in the passes that decide which choice is enough.
            The runs become part of the campaign.
        spec : path-like, optional
            With `decide`: the campaign's spec, whose commands are executed. It is not taken from the campaign's folder,
            which may come from someone else.

        Returns
        -------
        MetricChoice
            The choices of 1, 2, … metrics with their predictions, the clusters of redundant metrics, and a
            page with the dendrogram.

        Raises
        ------
        DataError
            The configuration has fewer than five runs, or fewer than two metrics that vary.
        RunError
            With `decide`: a run failed in all attempts.
        SpecError
            With `decide`: there is no `spec`, or it is not the finished campaign's.
        """
        how: dict[str, Any] = {
            "target": r2,
            "hours": hours,
            "runs": runs,
            "configuration": configuration,
            "scale": scale,
        }
        if decide is None:
            return choose_of_campaign(self.folder, self.spec, **how)
        if spec is None:
            raise SpecError(f"decide={decide:g} runs the program: give the campaign's spec too, with spec=PATH")
        from unperturbed.harness.studies.choice_runs import decide_choice  # noqa: PLC0415  slow to load

        choice = decide_choice(load_spec(Path(spec)), self.folder, decide, Unwatched(), **how)
        for read in ("_traces", "_checked"):  # they lack the further runs
            self.__dict__.pop(read, None)
        return choice

    def headline(self) -> str:
        """Return the campaign's name and the number of configurations with each verdict."""
        return f"campaign {self.name}: {self._checked.counts()}"

    def tables(self) -> Sequence[Table]:
        """Return the table of verdicts, with one row per configuration."""
        return (
            verdict_table(self._checked.verdicts, f"Verdicts of {self.name}", totals=self._checked.totals_verdicts),
        )

    @overload
    def frame(self, library: None = None) -> pl.LazyFrame: ...
    @overload
    def frame(self, library: Library) -> Any: ...
    def frame(self, library: Library | None = None) -> Any:
        """Return all runs as one tidy frame, with one row per interval.

        Parameters
        ----------
        library : {"polars", "pandas", "pyarrow"}, optional
            Library of the frame, which then contains all rows. By default, a lazy polars frame; `collect` reads it.

        Returns
        -------
        polars.LazyFrame, polars.DataFrame, pandas.DataFrame or pyarrow.Table
            `run`, `configuration`, `pass`, `repetition`, `interval` (from 0), `start` and `duration` (seconds),
            `begin_ns`, `end_ns`, `overruns`, then one column per metric, null in runs without the metric.
        """
        with Manifest(self.folder / "campaign.sqlite", read_only=True) as manifest:
            scanned = scan_intervals(self.folder, manifest.runs("done"), campaign=manifest.fact("id"))
        return scanned if library is None else to_library(scanned.collect(), library)

    def to_frame(self) -> pl.DataFrame:
        """Return all runs as one polars frame; see `frame`."""
        return self.frame().collect()

    def to_dict(self) -> dict[str, Any]:
        """Return what `unperturbed check --json` prints."""
        return to_json(self._content())

    def write_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the campaign's report.

        Parameters
        ----------
        path : path-like
            The file to write. It is written completely or not at all.

        Returns
        -------
        Path
            The file.
        """
        return self.plot().write_html(path)

    def plot(self) -> Picture:
        """Return the campaign's report as a picture, which a notebook shows."""
        from unperturbed.analysis.report import render, write_page  # noqa: PLC0415  slow to load

        return Picture(render(self._content()), self.headline(), writer=write_page)

    def _content(self) -> ReportContent:
        with Manifest(self.folder / "campaign.sqlite", read_only=True) as manifest:
            return content_of(self.spec, self._checked, manifest)

    def _check(self, method: Literal["runs", "paper"], *, across: bool) -> CampaignVerdicts:
        with Manifest(self.folder / "campaign.sqlite", read_only=True) as manifest:
            options = CheckOptions(method, across, disturbed_runs(manifest), pending_repetitions(manifest))
        checked = check(self.spec, self._traces, options)
        return judge_strata(self.folder, self.spec, checked, options)


class _UnknownConfigurationError(DataError, KeyError):
    """The campaign does not have the requested configuration; also a KeyError, as in any mapping."""

    __str__ = Exception.__str__
