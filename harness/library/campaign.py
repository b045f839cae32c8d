"""A recorded campaign: its runs by configuration, its verdicts, its data as one frame."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from unperturbed.analysis.perturbation import Verdict, verdict_table
from unperturbed.analysis.report import ReportContent, to_json
from unperturbed.collectors import Trace
from unperturbed.common.result import Result
from unperturbed.common.table import Table
from unperturbed.common.wording import counted, did_you_mean, listing
from unperturbed.errors import DataError
from unperturbed.harness.campaign import Manifest, configurations
from unperturbed.harness.results.check import CampaignVerdicts, CheckOptions, check
from unperturbed.harness.results.recorded import Traces, disturbed_runs, read_traces, recorded_campaign
from unperturbed.harness.results.reporting import content_of

if TYPE_CHECKING:
    import polars as pl


class Runs(Sequence[Trace]):
    """The runs of one configuration, in the order of the plan.

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
        """Return the runs as one tidy frame; columns as for `Campaign.to_frame`."""
        return _tidy(self._traces)


class Campaign(Result):
    """A campaign that was run, read from its folder.

    Runs are read when they are first needed. `campaign["ties"]` are the runs of the configuration `ties`; iterating
    yields the names of the configurations.

    Parameters
    ----------
    folder : path-like
        The campaign's folder.

    Attributes
    ----------
    folder : Path
        The campaign's folder.
    spec : Campaign
        The experiment spec that it was run from, as its manifest recorded it.

    Raises
    ------
    SpecError
        The folder holds no campaign, or one that gives no verdicts: a sweep, or the search for a partition.
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
        with Manifest(self.folder / "campaign.sqlite") as manifest:
            return read_traces(self.folder, manifest)

    @cached_property
    def _checked(self) -> CampaignVerdicts:
        return self._check("runs", across=False)

    @property
    def configurations(self) -> tuple[str, ...]:
        """The names of the configurations that have runs, the baseline first."""
        recorded = {name for runs in self._traces.values() for name in runs}
        return tuple(found.name for found in configurations(self.spec) if found.name in recorded)

    def __iter__(self) -> Iterator[str]:
        return iter(self.configurations)

    def __contains__(self, configuration: object) -> bool:
        return configuration in self.configurations

    def __len__(self) -> int:
        return len(self.configurations)

    def __getitem__(self, configuration: str) -> Runs:
        """Return a configuration's runs: of every pass, the main pass first."""
        traces = [trace for runs in self._traces.values() for trace in runs.get(configuration, ())]
        if not traces:
            raise _UnknownConfigurationError(self._unknown(configuration))
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
        self,
        configuration: str | None = None,
        *,
        method: Literal["runs", "paper"] = "runs",
        across: bool = False,
    ) -> CampaignVerdicts | Verdict:
        """Compare the configurations with the baseline, as `unperturbed check` does.

        Parameters
        ----------
        configuration : str, optional
            Return the verdict on this one alone. All are checked together either way, as they are one family of tests.
        method : {"runs", "paper"}, default "runs"
            How changes are judged: by the variation between runs, or by the paper's own rule.
        across : bool, default False
            Also correlate each metric with each other one across aligned runs.

        Returns
        -------
        CampaignVerdicts or Verdict
            All verdicts with notes on the baseline, or the one on `configuration`.

        Raises
        ------
        DataError
            The baseline cannot be used, or there is no verdict on `configuration`.
        """
        plain = method == "runs" and not across
        checked = self._checked if plain else self._check(method, across=across)
        if configuration is None:
            return checked
        verdict = checked.of(configuration)
        if verdict is None:
            known = listing(verdict.configuration for verdict in checked.verdicts)
            raise DataError(
                f"{self.folder}: there is no verdict on {configuration!r}; there are verdicts on {known or 'none'}"
            )
        return verdict

    def headline(self) -> str:
        """Return the campaign's name and the number of configurations with each verdict."""
        found = [verdict.verdict for verdict in self._checked.verdicts]
        counts = [f"{found.count(name)} {name}" for name in dict.fromkeys(found)]
        return f"campaign {self.name}: {listing(counts) or 'no verdict'}"

    def tables(self) -> Sequence[Table]:
        """Return the table of verdicts, a row a configuration."""
        return (verdict_table(self._checked.verdicts, f"Verdicts of {self.name}"),)

    def to_frame(self) -> pl.DataFrame:
        """Return all runs as one tidy frame, a row an interval.

        Returns
        -------
        polars.DataFrame
            `configuration`, `pass`, `run`, `repetition`, `interval` (from 0), `begin_ns`, `end_ns`, `overruns`, then
            one column a metric, null where a run has it not.
        """
        return _tidy([trace for runs in self._traces.values() for traces in runs.values() for trace in traces])

    def to_dict(self) -> dict[str, Any]:
        """Return what `unperturbed check --json` prints."""
        return to_json(self._content())

    def write_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the campaign's report.

        Parameters
        ----------
        path : path-like
            The file. It appears whole or not at all.

        Returns
        -------
        Path
            The file.
        """
        from unperturbed.analysis.report import render, write_page  # noqa: PLC0415  slow to load

        written = Path(path)
        write_page(written, render(self._content()))
        return written

    def _content(self) -> ReportContent:
        with Manifest(self.folder / "campaign.sqlite") as manifest:
            return content_of(self.spec, self._checked, manifest)

    def _check(self, method: Literal["runs", "paper"], *, across: bool) -> CampaignVerdicts:
        with Manifest(self.folder / "campaign.sqlite") as manifest:
            options = CheckOptions(method, across, disturbed_runs(manifest))
        return check(self.spec, self._traces, options)

    def _unknown(self, name: str) -> str:
        near = did_you_mean(name, self.configurations)
        return (
            f"{self.folder}: no runs of configuration {name!r}; {near or f'there are {listing(self.configurations)}'}"
        )


class _UnknownConfigurationError(DataError, KeyError):
    """A configuration that the campaign does not have: a KeyError too, as of any mapping."""

    __str__ = Exception.__str__


def _tidy(traces: Sequence[Trace]) -> pl.DataFrame:
    import polars as pl  # noqa: PLC0415  slow to load, and not every use of a campaign needs it

    frames = []
    for trace in traces:
        facts = trace.attributes
        named = {
            "configuration": facts.get("configuration"),
            "pass": facts.get("pass"),
            "run": facts.get("run"),
            "repetition": facts.get("repetition"),
        }
        frame = trace.to_polars().with_row_index("interval")
        frames.append(frame.select(*(pl.lit(value).alias(key) for key, value in named.items()), pl.all()))
    return pl.concat(frames, how="diagonal") if frames else pl.DataFrame()
