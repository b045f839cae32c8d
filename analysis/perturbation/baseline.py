"""The baseline: correlations of unperturbed runs, and the inner and the outer check against them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from unperturbed.analysis.perturbation import comparable
from unperturbed.analysis.perturbation.compare import Comparison, compare_runs
from unperturbed.analysis.perturbation.compare_outer import (
    compare_outer_runs,
    compare_with_one_run,
    pair_variance,
    reference_outer_rho,
)
from unperturbed.analysis.perturbation.correlation import FloatArray, correlate_runs, from_fisher
from unperturbed.analysis.perturbation.decide import compare_as_paper, decide, decide_as_paper
from unperturbed.analysis.perturbation.describe import baseline_table
from unperturbed.analysis.perturbation.outer import OuterSettings, checked_outer_z, outer_matrix
from unperturbed.analysis.perturbation.rounds import (
    DESIGNS,
    compare_outer_within_rounds,
    compare_within_rounds,
    find_partners,
    shorter,
)
from unperturbed.analysis.perturbation.stability import Stability, assess_stability
from unperturbed.analysis.perturbation.verdict import (
    CheckName,
    RunGroup,
    Verdict,
    changes_from_comparison,
    combine,
    overhead,
)
from unperturbed.collectors.data import Trace
from unperturbed.collectors.data.trace import require_traces
from unperturbed.errors import DataError

MINIMUM_RUNS = 5
"""With fewer baseline runs the variation between runs is unknown: a family of 10 pairs would need changes of over 6
deviations."""

OUTER_RUNS = 40
"""A run is aligned to at most this many of the baseline's, evenly over its order: the effort grows with the product of
both numbers, and 40 leave the mean of the reference a sixth of a run's spread."""


@dataclass(frozen=True)
class _CheckedRuns:
    """Runs of one configuration that fit the baseline."""

    traces: tuple[Trace, ...]  # The runs
    runs: tuple[str, ...]  # Their names
    configuration: str  # The configuration that all of them have
    values: tuple[FloatArray, ...]  # The baseline's metrics of each run, shape (intervals, metrics)
    constant: Mapping[str, str]  # Metrics that do not vary in some run, and the reason to leave them out


class Baseline:
    """Runs with hardware metrics only, and how their correlations vary from run to run.

    Parameters
    ----------
    traces : sequence of Trace
        At least 5 runs made alike; 10 are advised, 20 from 10 metrics up. Names come from `attributes["run"]`, their
        order from `["order"]`; `["interval_ns"]`, `["host"]` and `["program"]` must agree.
    metrics : sequence of str, optional
        Compare these only, of whatever kind. None compares all that are hardware, simulated, or derived from such, and
        where there is none of these, those of the operating system.
    focus : sequence of str, optional
        Compare only pairs that hold one of these, and these alone after alignment; None for all. For a pass whose other
        metrics are compared in another.
    software : bool, default False
        Compare software metrics too, for runs that count some against runs that count those and more.
    alpha : float, default 0.05
        Family-wise level of *perturbed* and of *shifted*, and level at which each change is shown to lie within the
        tolerance.
    tolerance : float, default 0.1
        |Δρ| that counts as no perturbation; 0 asks for any change: what is shown to differ is then *perturbed*.
    name : str, default "baseline"
        The configuration's name, for reports.

    Attributes
    ----------
    metrics : tuple of str
        Names of the metrics that are compared.
    focus : tuple of str
        Every comparison includes one of these.
    pairs : tuple of tuple of str
        Pairs of metrics that do not share an event.
    runs : tuple of str
        Names of the runs.
    correlations : array of float64, shape (runs, pairs)
        Spearman's ρ within each run.
    excluded : tuple of tuple of str
        Metrics and pairs that are left out, with the reason.
    outer_runs : tuple of str
        Names of the runs that others are aligned to: all, or 40 of more, evenly over their order.

    Raises
    ------
    DataError
        Too few runs or intervals, runs that were not made alike, identical runs, a value that is not finite, no metric
        that varies.
    ValueError
        α or the tolerance is out of range.

    Notes
    -----
    Mytkowicz et al., "Understanding Measurement Perturbation in Trace-based Data", sections 2.1 and 3.3: a change is
    significant only beside the variation between identical runs. The module `compare` describes the tests and the
    intervals.
    """

    def __init__(
        self,
        traces: Sequence[Trace],
        *,
        metrics: Sequence[str] | None = None,
        focus: Sequence[str] | None = None,
        software: bool = False,
        alpha: float = 0.05,
        tolerance: float = 0.1,
        name: str = "baseline",
    ) -> None:
        if not 0 < alpha < 0.5:
            raise ValueError(f"alpha is {alpha}: give a level between 0 and 0.5, such as 0.05")
        if not 0 <= tolerance < 2:
            raise ValueError(f"tolerance is {tolerance}: give a change of ρ from 0 to below 2, such as 0.1")
        require_traces(traces)
        if len(traces) < MINIMUM_RUNS:
            raise DataError(
                f"{name}: {len(traces)} runs, but at least {MINIMUM_RUNS} are needed (10 are advised): run more"
            )
        self.name, self.alpha, self.tolerance = name, alpha, tolerance
        self.traces = tuple(traces)
        self.runs = comparable.run_names(self.traces, name)
        comparable.require_distinct(self.runs, name)
        names, excluded = comparable.compared_metrics(self.traces[0], metrics, software=software)
        _require_same_metrics(self.traces, self.runs)
        values, flat = comparable.comparable_values(self.traces[0], self.traces, self.runs, names)
        self.metrics = tuple(metric for metric in names if metric not in flat)
        if not self.metrics:
            raise DataError(
                f"{name}: no metric varies ({'; '.join(f'{metric} is {why}' for metric, why in flat.items())})"
            )
        kept = [at for at, metric in enumerate(names) if metric not in flat]
        if not self._equal_work:
            comparable.require_variation([rows[:, kept] for rows in values])
        self.focus = self.metrics if focus is None else tuple(metric for metric in self.metrics if metric in focus)
        self.pairs, built_in = comparable.compared_pairs(
            [self.traces[0].metrics[metric] for metric in self.metrics], self.focus
        )
        self.excluded = (*excluded, *flat.items(), *built_in)
        self.correlations = self._pair_correlations([rows[:, kept] for rows in values])
        spread = np.linspace(0, len(self.traces) - 1, min(len(self.traces), OUTER_RUNS)).round().astype(int)
        self.outer_runs = tuple(self.runs[at] for at in spread)
        self._outer_traces = tuple(self.traces[at] for at in spread)
        self._outer_matrices: dict[OuterSettings, FloatArray] = {}

    def __repr__(self) -> str:
        return f"<Baseline: {baseline_table(self).caption}>"

    def _repr_html_(self) -> str:
        return baseline_table(self).to_html()

    def inner(self, traces: Trace | Sequence[Trace], *, method: Literal["runs", "paper"] = "runs") -> Verdict:
        """Check whether the correlations of pairs of metrics within a run changed.

        Parameters
        ----------
        traces : Trace or sequence of Trace
            One run or more of one configuration, with the baseline's metrics and any others.
        method : {"runs", "paper"}, default "runs"
            `paper` judges by the paper's own rule, see `compare_as_paper`.

        Returns
        -------
        Verdict
            One change a pair, corrected family-wise over the pairs. A pair that cannot be compared, because a metric
            stopped varying, is in `excluded` and `lost`, and the verdict is then not *unperturbed*.

        Raises
        ------
        DataError
            The runs do not fit the baseline.

        Notes
        -----
        Section 2.2 of the paper; the comparison is over runs, because intervals of a trace depend on one another and
        within-run tests report *perturbed* in every second check.
        """
        checked = self._checked(traces)
        possible = [at for at, pair in enumerate(self.pairs) if not checked.constant.keys() & set(pair)]
        reference = self.correlations[:, possible]
        observed = self._pair_correlations(checked.values)[:, possible]
        compared = (
            compare_as_paper(reference, observed)
            if method == "paper"
            else self._compare_inner(reference, observed, checked)
        )
        return self._verdict(
            "inner", [self.pairs[at] for at in possible], reference, observed, compared, checked, method
        )

    def outer(
        self,
        traces: Trace | Sequence[Trace],
        *,
        align_on: Sequence[str] | None = None,
        anchor: str | None = None,
        literal: bool = False,
        across: bool = False,
        against: Trace | None = None,
        method: Literal["runs", "paper"] = "runs",
    ) -> Verdict:
        """Check whether runs still align with the baseline: each metric against itself, after alignment.

        A checked run's value is its mean correlation (on Fisher's scale) with the baseline runs, each as the reference
        of the alignment; a baseline run's value is the same over the other baseline runs.

        Parameters
        ----------
        traces : Trace or sequence of Trace
            One run or more of one configuration.
        align_on : sequence of str, optional
            Metrics that the runs are aligned on. Their changes are marked: aligning on a metric flatters its
            correlation. By default IPC where the traces have it, else all metrics that are compared.
        anchor : str, optional
            Software metric whose events the alignment passes through, as for `unperturbed.analysis.alignment.align`.
        literal : bool, default False
            As for `outer_correlations`.
        across : bool, default False
            Each metric against each other one too ("the same or another metric", section 2.3).
        against : Trace, optional
            Align to this run alone, of whatever configuration, instead of the baseline's ("not strictly necessary",
            section 2.3): do these runs align with it as runs of the baseline align with each other? Two runs must
            show that before they are merged.
        method : {"runs", "paper"}, default "runs"
            `paper` judges by the paper's own rule, see `compare_as_paper`.

        Returns
        -------
        Verdict
            One change a metric (and, `across`, one for two metrics), corrected family-wise.

        Raises
        ------
        DataError
            The runs do not fit the baseline, or cannot be aligned to it.

        Notes
        -----
        Section 2.3 of the paper. The values depend on one another: ρ of baseline runs i and j is in the values of both,
        and all checked runs meet the same baseline runs. `compare_outer` allows for it by a model of run and pair
        effects; the false-alarm rate that results is measured in `docs/evidence/calibration.md`. A metric that is
        mostly noise has a low outer correlation in the baseline too, and is not perturbed for that.
        """
        checked = self._checked(traces)
        pairs = tuple((metric, metric) for metric in self.focus) + (self.pairs if across else ())
        if align_on is None:
            align_on = ("IPC",) if "IPC" in self.traces[0].metrics else self.metrics
        settings = OuterSettings(pairs, tuple(align_on), anchor, literal)
        matrix = self._outer_matrix(settings)
        references = self._outer_traces if against is None else (against,)
        if against is not None:
            other = self._checked(against, allow_members=True)
            checked = replace(checked, constant={**other.constant, **checked.constant})
            apart = [at for at, trace in enumerate(self._outer_traces) if trace is not against]
            matrix = matrix[np.ix_(apart, apart)]
        each = checked_outer_z(references, checked.traces, settings)
        reference, observed = reference_outer_rho(matrix), from_fisher(each.mean(axis=0))
        undefined = np.asarray(np.isnan(np.vstack((reference, observed))).any(axis=0), np.bool_)
        flat = {
            first: "constant after alignment"
            for at, (first, second) in enumerate(pairs)
            if undefined[at] and first == second
        }
        checked = replace(checked, constant={**flat, **checked.constant})
        possible = np.flatnonzero(~undefined)
        reference, observed, matrix = reference[:, possible], observed[:, possible], matrix[:, :, possible]
        compared = (
            compare_as_paper(reference, observed)
            if method == "paper"
            else self._compare_outer(matrix, each[:, :, possible], checked)
        )
        labels = [pairs[at] for at in possible]
        made = self._verdict(
            "outer", labels, reference, observed, compared, checked, method, settings.align_on, against is None
        )
        if against is None:
            return made
        return replace(made, notes=(f"compared with run {comparable.run_names([against], 'reference')[0]} alone",))

    def stability(self, disturbed: Mapping[str, str] | None = None) -> Stability:
        """Return how steady the baseline itself is: drift over the campaign, outliers, runs on a disturbed host.

        Parameters
        ----------
        disturbed : mapping of str to str, optional
            Run to what disturbed its host, where that was watched.

        Returns
        -------
        Stability
            From the pairs' correlations (on Fisher's scale) and each metric's total. No run is removed: an outlier
            widens every interval, and whoever leaves it out should report it.
        """
        counted = [name for name in self.metrics if self.traces[0].metrics[name].kind != "derived"]
        return assess_stability(
            self.runs,
            [float(trace.attributes.get("order", at)) for at, trace in enumerate(self.traces)],
            self.pairs,
            self.correlations,
            counted,
            np.array([[trace[name].sum() for name in counted] for trace in self.traces], np.float64),
            disturbed or {},
            alpha=self.alpha,
            tolerance=self.tolerance,
        )

    def _outer_matrix(self, settings: OuterSettings) -> FloatArray:
        if settings not in self._outer_matrices:
            self._outer_matrices[settings] = outer_matrix(self._outer_traces, settings)
        return self._outer_matrices[settings]

    def _compare_inner(self, reference: FloatArray, observed: FloatArray, checked: _CheckedRuns) -> Comparison:
        compare = partial(compare_runs, reference, observed, intervals=self._intervals(checked))
        if not self._equal_work or (partners := find_partners(self.traces, checked.traces)) is None:
            return compare(alpha=self.alpha)
        level = self.alpha / DESIGNS
        return shorter(compare(alpha=level), compare_within_rounds(reference, observed, partners, alpha=level))

    def _compare_outer(self, matrix: FloatArray, each: FloatArray, checked: _CheckedRuns) -> Comparison:
        """Compare the outer values of a baseline with those of checked runs, with each of its runs or with one run."""
        intervals = self._intervals(checked)
        if len(each) == 1:
            return compare_with_one_run(matrix, each[0], intervals=intervals, alpha=self.alpha)
        reference, observed, shared = reference_outer_rho(matrix), from_fisher(each.mean(axis=0)), pair_variance(matrix)
        compare = partial(compare_outer_runs, reference, observed, shared, intervals=intervals)
        if not self._equal_work or (partners := find_partners(self._outer_traces, checked.traces)) is None:
            return compare(alpha=self.alpha)
        level = self.alpha / DESIGNS
        within = compare_outer_within_rounds(matrix, each, partners, shared, alpha=level)
        return shorter(compare(alpha=level), within)

    def _intervals(self, checked: _CheckedRuns) -> int | None:
        """Return the intervals of the shortest run; None where intervals are of equal work, which has no error."""
        if self._equal_work:
            return None
        return min(len(trace) for trace in (*self.traces, *checked.traces))

    @property
    def _equal_work(self) -> bool:
        return all(trace.attributes.get("clock") == "work" for trace in self.traces)

    def _pair_correlations(self, values: Sequence[FloatArray]) -> FloatArray:
        rows = correlate_runs(values, self.metrics, self.pairs)
        return np.array(rows).reshape(len(values), len(self.pairs))

    def _checked(self, traces: Trace | Sequence[Trace], *, allow_members: bool = False) -> _CheckedRuns:
        checked = (traces,) if isinstance(traces, Trace) else tuple(traces)
        if not checked:
            raise DataError(f"no run to check against {self.name}: give at least one")
        runs = comparable.run_names(checked, "checked")
        for trace, run in zip(checked, runs, strict=True):
            if not allow_members and any(trace is member for member in self.traces):
                raise DataError(f"run {run} is one of the runs of {self.name}: it cannot be checked against itself")
        configurations = {str(trace.attributes.get("configuration", "checked")) for trace in checked}
        if len(configurations) > 1:
            raise DataError(
                f"runs of {len(configurations)} configurations ({', '.join(sorted(configurations))}): check each by "
                "itself"
            )
        comparable.require_distinct(runs, "checked")
        values, constant = comparable.comparable_values(self.traces[0], checked, runs, self.metrics)
        return _CheckedRuns(checked, runs, configurations.pop(), tuple(values), constant)

    def _verdict(
        self,
        check: CheckName,
        labels: Sequence[tuple[str, str]],
        reference: FloatArray,
        observed: FloatArray,
        compared: Comparison,
        checked: _CheckedRuns,
        method: Literal["runs", "paper"],
        align_on: Sequence[str] = (),
        more_runs_help: bool = True,
    ) -> Verdict:
        changes = changes_from_comparison(
            check,
            labels,
            RunGroup(self.name, self.outer_runs if check == "outer" else self.runs, reference),
            RunGroup(checked.configuration, checked.runs, observed),
            compared,
            tolerance=self.tolerance,
            align_on=align_on,
            note=partial(self._shared_events, align_on=align_on),
            more_runs_help=more_runs_help,
        )
        changes = decide_as_paper(changes) if method == "paper" else decide(changes, alpha=self.alpha)
        lost = tuple(checked.constant.items())
        return Verdict(
            configuration=checked.configuration,
            reference=self.name,
            verdict=combine((change.verdict for change in changes), lost=bool(lost)),
            changes=changes,
            excluded=(*self.excluded, *lost),
            overhead=overhead(self.traces, checked.traces),
            alpha=self.alpha,
            tolerance=self.tolerance,
            lost=lost,
            method=method,
            simulated=any(metric.kind == "simulated" for metric in checked.traces[0].metrics.values()),
        )

    def _shared_events(self, metric: str, *, align_on: Sequence[str]) -> str:
        described = self.traces[0].metrics
        parts = set(described[metric].components)
        shared = [name for name in align_on if name != metric and parts & set(described[name].components)]
        return f"shares events with {', '.join(shared)}, on which the runs were aligned" if shared else ""


def _names(trace: Trace) -> set[str]:
    """Return the names of a run's metrics without the times of scaled counts, which only some runs have."""
    return {name for name in trace.metrics if not name.endswith(comparable.SCALING)}


def _require_same_metrics(traces: Sequence[Trace], runs: Sequence[str]) -> None:
    for trace, run in zip(traces, runs, strict=True):
        differing = sorted(_names(trace) ^ _names(traces[0]))
        if differing:
            raise DataError(
                f"run {run} and run {runs[0]} differ in metric {', '.join(differing)}: a baseline's runs collect the "
                "same metrics"
            )
