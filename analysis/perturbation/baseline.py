"""Baseline: correlations of unperturbed runs, with the inner and the outer check against them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
from unperturbed.analysis.perturbation.outer import OuterSettings, checked_outer_z, outer_matrix
from unperturbed.analysis.perturbation.rounds import (
    DESIGNS,
    are_in_rounds,
    compare_outer_within_rounds,
    compare_within_rounds,
    find_partners,
    mean_outer_z,
    same_rounds,
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
from unperturbed.analysis.perturbation.verdict_text import baseline_table
from unperturbed.collectors.data import Trace
from unperturbed.collectors.data.trace import SCALING, WORK_CLOCKS, require_traces
from unperturbed.common.wording import counted
from unperturbed.errors import DataError

MINIMUM_RUNS = 5
"""Minimum number of baseline runs: with fewer, the variation between runs is too uncertain, and a family of 10 pairs
would need changes of over 6 standard deviations."""

OUTER_RUNS = 40
"""Maximum number of baseline runs that a run is aligned to, evenly spaced in run order. The effort grows with the
product of both numbers of runs; with 40, the error of the reference's mean is a sixth of a run's spread."""


@dataclass(frozen=True)
class _CheckedRuns:
    """Runs of one configuration that can be compared with the baseline."""

    traces: tuple[Trace, ...]  # Traces of the runs
    runs: tuple[str, ...]  # Names of the runs
    configuration: str  # Configuration of all runs
    values: tuple[FloatArray, ...]  # Values of the baseline's metrics in each run, (intervals, metrics)
    constant: Mapping[str, str]  # Metrics that are constant in a run, with the reason to exclude them


class Baseline:
    """Runs with hardware metrics only, and the variation of their correlations between runs.

    Parameters
    ----------
    traces : sequence of Trace
        At least 5 runs made in the same way; 10 are recommended, 20 with 10 or more metrics. Names come from
        `attributes["run"]`, the order from `["order"]`; `["interval_ns"]`, `["host"]` and `["program"]` must agree.
    metrics : sequence of str, optional
        Compare only these metrics, of any kind. None compares all hardware and simulated metrics and metrics derived
        from them, or, if there are none of these, the metrics of the operating system.
    focus : sequence of str, optional
        Compare only pairs that include one of these metrics, and only these metrics after alignment; None for all. Use
        it for a pass if the other metrics are compared in another pass.
    met : collection of frozenset of str, optional
        Pairs that are compared in another pass: compare all others, whether or not `focus` has their metrics.
    software : bool, default False
        Compare software metrics too: for baseline runs that count some, and checked runs that count these and more.
    alpha : float, default 0.05
        Family-wise level of *perturbed* and of *shifted*, and level at which each change is shown to lie within the
        tolerance.
    tolerance : float, default 0.1
        Largest |Δρ| that counts as no perturbation; with 0, any change that is shown is *perturbed*.
    name : str, default "baseline"
        The configuration's name, for reports.

    Attributes
    ----------
    metrics : tuple of str
        Names of the metrics that are compared.
    focus : tuple of str
        Every comparison includes at least one of these metrics; with `met`, every comparison after alignment.
    pairs : tuple of tuple of str
        Pairs of metrics that do not share an event.
    runs : tuple of str
        Names of the runs.
    correlations : array of float64, shape (runs, pairs)
        Spearman's ρ within each run.
    excluded : tuple of tuple of str
        Excluded metrics and pairs, each with the reason.
    outer_runs : tuple of str
        Names of the runs that checked runs are aligned to: all, or 40 if there are more, evenly spaced in run order.

    Raises
    ------
    DataError
        There are too few runs or intervals, the runs were made differently or are identical, a value is not finite, or
        no metric varies.
    ValueError
        α or the tolerance is out of range.

    Notes
    -----
    Mytkowicz et al., "Understanding Measurement Perturbation in Trace-based Data", sections 2.1 and 3.3: a change is
    significant only relative to the variation between identical runs. The module `compare` describes the tests and the
    intervals.
    """

    def __init__(
        self,
        traces: Sequence[Trace],
        *,
        metrics: Sequence[str] | None = None,
        focus: Sequence[str] | None = None,
        met: Collection[frozenset[str]] | None = None,
        software: bool = False,
        alpha: float = 0.05,
        tolerance: float = 0.1,
        name: str = "baseline",
    ) -> None:
        if not 0 < alpha < 0.5:
            raise ValueError(f"`alpha` is {alpha}: use a level between 0 and 0.5, such as 0.05")
        if not 0 <= tolerance < 2:
            raise ValueError(f"`tolerance` is {tolerance}: use a change of ρ from 0 to below 2, such as 0.1")
        require_traces(traces)
        if len(traces) < MINIMUM_RUNS:
            raise DataError(
                f"{name} has {counted(len(traces), 'run')}, but at least {MINIMUM_RUNS} are needed (10 are "
                "recommended): make more runs"
            )
        self.name, self.alpha, self.tolerance = name, alpha, tolerance
        self.traces = tuple(traces)
        self.runs = comparable.run_names(self.traces, name)
        comparable.require_distinct(self.runs, name)
        names, excluded = comparable.compared_metrics(self.traces[0], metrics, software=software)
        _require_same_metrics(self.traces, self.runs)
        values, flat = comparable.comparable_values(self.traces[0], self.traces, self.runs, names)
        flat = self._few(values, names, flat) | flat
        self.metrics = tuple(metric for metric in names if metric not in flat)
        if not self.metrics:
            raise DataError(
                f"{name}: no metric varies ({'; '.join(f'{metric} is {why}' for metric, why in flat.items())}): "
                "measure other metrics"
            )
        kept = [at for at, metric in enumerate(names) if metric not in flat]
        if not self._equal_work:
            comparable.require_variation([rows[:, kept] for rows in values])
        self.focus = self.metrics if focus is None else tuple(metric for metric in self.metrics if metric in focus)
        self.pairs, built_in = comparable.compared_pairs(
            [self.traces[0].metrics[metric] for metric in self.metrics], self.focus, met
        )
        self.excluded = (*excluded, *flat.items(), *built_in)
        self.correlations = self._pair_correlations([rows[:, kept] for rows in values])
        spread = np.linspace(0, len(self.traces) - 1, min(len(self.traces), OUTER_RUNS)).round().astype(int)
        self.outer_runs = tuple(self.runs[at] for at in spread)
        self._outer_traces = tuple(self.traces[at] for at in spread)
        self._outer_matrices: dict[OuterSettings, FloatArray] = {}

    def _few(self, values: Sequence[FloatArray], names: Sequence[str], constant: Mapping[str, str]) -> dict[str, str]:
        """Return the metrics that vary in few intervals, with the reason to exclude them, if any other metric is left.

        Events of software metrics may be rare: their pairs are checked to find what a rare event changes.
        """
        metrics = self.traces[0].metrics
        few = {
            name: f"one value in all intervals of each run but at most {most}"
            for name, most in comparable.vary_in_few_intervals(values, names).items()
            if metrics[name].kind != "software"
        }
        return few if set(names) - few.keys() - constant.keys() else {}

    def __repr__(self) -> str:
        return f"<Baseline: {baseline_table(self).caption}>"

    def _repr_html_(self) -> str:
        return baseline_table(self).to_html()

    def inner(self, traces: Trace | Sequence[Trace], *, method: Literal["runs", "paper"] = "runs") -> Verdict:
        """Check whether the correlations of pairs of metrics within a run changed.

        Parameters
        ----------
        traces : Trace or sequence of Trace
            One or more runs of one configuration, with at least the baseline's metrics.
        method : {"runs", "paper"}, default "runs"
            `paper` applies the paper's own rule, see `compare_as_paper`.

        Returns
        -------
        Verdict
            One change for each pair, corrected family-wise over the pairs. A metric that is constant in a checked run
            cannot be compared: it is in `excluded` and `lost`, and the verdict is not *unperturbed*.

        Raises
        ------
        DataError
            The runs cannot be compared with the baseline.

        Notes
        -----
        Section 2.2 of the paper. Runs are compared, not intervals: the intervals of a trace are autocorrelated, and
        tests within runs report *perturbed* in every second check.
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
        """Check whether runs still align with the baseline: correlate each metric with itself after alignment.

        A checked run's value is its mean correlation (on Fisher's scale) with the baseline runs, each as the reference
        of the alignment; a baseline run's value is its mean correlation with the other baseline runs. Where runs share
        something within rounds (equal work, or a layout that was drawn), a checked run's value leaves out the baseline
        run of its round, as a baseline run's value leaves out the run itself.

        Parameters
        ----------
        traces : Trace or sequence of Trace
            One or more runs of one configuration.
        align_on : sequence of str, optional
            Metrics that the runs are aligned on. Their changes are marked, because aligning on a metric inflates its
            correlation. Default: IPC if the traces have it, else all metrics that are compared.
        anchor : str, optional
            Software metric whose events the alignment passes through; see `unperturbed.analysis.alignment.align`.
        literal : bool, default False
            See `outer_correlations`.
        across : bool, default False
            Also correlate each metric with each other metric ("the same or another metric", section 2.3).
        against : Trace, optional
            Align to this one run, of any configuration, instead of the baseline runs ("not strictly necessary", section
            2.3). The check is then whether the runs align with it as well as baseline runs align with each other. Two
            runs must pass it before they are merged.
        method : {"runs", "paper"}, default "runs"
            `paper` applies the paper's own rule, see `compare_as_paper`.

        Returns
        -------
        Verdict
            One change for each metric (with `across`, also for each pair of metrics), corrected family-wise; none if
            `focus` is empty.

        Raises
        ------
        DataError
            The runs cannot be compared with the baseline or aligned to it.

        Notes
        -----
        Section 2.3 of the paper. The values are interdependent: ρ of baseline runs i and j is part of the values of
        both, and all checked runs are compared with the same baseline runs. `compare_outer` allows for this by a model
        of run and pair effects; `docs/evidence/calibration.md` has the resulting false-alarm rate. A metric that is
        mostly noise has a low outer correlation in the baseline too; this alone is no perturbation.
        """
        checked = self._checked(traces)
        pairs = tuple((metric, metric) for metric in self.focus) + (self.pairs if across else ())
        if not pairs:  # another pass compares all metrics of this one
            nothing = np.empty((len(self.outer_runs), 0)), np.empty((len(checked.runs), 0))
            return self._verdict("outer", (), *nothing, compare_as_paper(*nothing), checked, method)
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
        left_out = np.zeros(each.shape[:2], np.bool_)
        if against is None and are_in_rounds(self.traces):
            left_out = same_rounds(references, checked.traces)
        reference, observed = reference_outer_rho(matrix), from_fisher(mean_outer_z(each, left_out))
        undefined = np.asarray(np.isnan(np.vstack((reference, observed))).any(axis=0), np.bool_)
        flat = {
            first: "constant after alignment"
            for at, (first, second) in enumerate(pairs)
            if undefined[at] and first == second
        }
        checked = replace(checked, constant={**flat, **checked.constant})
        possible = np.flatnonzero(~undefined)
        reference, observed, matrix = reference[:, possible], observed[:, possible], matrix[:, :, possible]
        if method == "paper":
            compared = compare_as_paper(reference, observed)
        elif against is None:
            compared = self._compare_outer(matrix, reference, observed, checked)
        else:
            z, intervals = each[0][:, possible], self._intervals(checked)
            compared = compare_with_one_run(matrix, z, intervals=intervals, alpha=self.alpha)
        labels = [pairs[at] for at in possible]
        made = self._verdict(
            "outer", labels, reference, observed, compared, checked, method, settings.align_on, against is None
        )
        if against is None:
            return made
        return replace(made, notes=(f"compared only with run {comparable.run_names([against], 'reference')[0]}",))

    def stability(self, disturbed: Mapping[str, str] | None = None, whole: Sequence[Trace] | None = None) -> Stability:
        """Assess the stability of the baseline itself: drift over the campaign, outliers, runs on a disturbed host.

        Parameters
        ----------
        disturbed : mapping of str to str, optional
            Maps each run on a disturbed host to the cause.
        whole : sequence of Trace, optional
            The same runs with the start that these leave out; totals are theirs.

        Returns
        -------
        Stability
            Findings from the pairs' correlations (on Fisher's scale) and each metric's total. No run is removed: an
            outlier widens every interval; if you leave a run out, report it.
        """
        counted = [name for name in self.metrics if self.traces[0].metrics[name].kind != "derived"]
        totals: dict[str, list[float]] = {}
        for name in counted:
            is_gauge = self.traces[0].metrics[name].semantics == "gauge"
            columns = [trace[name] for trace in whole or self.traces]
            label = f"the {'mean' if is_gauge else 'total'} of {name}"
            totals[label] = [float(column.mean() if is_gauge else column.sum()) for column in columns]
        found = assess_stability(
            self.runs,
            [float(trace.attributes.get("order", at)) for at, trace in enumerate(self.traces)],
            self.pairs,
            self.correlations,
            list(totals),
            np.array(list(totals.values()), np.float64).reshape(len(totals), len(self.traces)).T,
            disturbed or {},
            alpha=self.alpha,
            tolerance=self.tolerance,
        )
        simulated = all(self.traces[0].metrics[name].kind == "simulated" for name in counted)
        return replace(found, repeatable=simulated and self._equal_work)

    def _outer_matrix(self, settings: OuterSettings) -> FloatArray:
        if settings not in self._outer_matrices:
            self._outer_matrices[settings] = outer_matrix(self._outer_traces, settings)
        return self._outer_matrices[settings]

    def _compare_inner(self, reference: FloatArray, observed: FloatArray, checked: _CheckedRuns) -> Comparison:
        compare = partial(compare_runs, reference, observed, intervals=self._intervals(checked))
        if not are_in_rounds(self.traces) or (partners := find_partners(self.traces, checked.traces)) is None:
            return compare(alpha=self.alpha)
        level = self.alpha / DESIGNS
        return shorter(compare(alpha=level), compare_within_rounds(reference, observed, partners, alpha=level))

    def _compare_outer(
        self, matrix: FloatArray, reference: FloatArray, observed: FloatArray, checked: _CheckedRuns
    ) -> Comparison:
        """Compare outer correlations of checked runs with the baseline's, from the mean ρ of each run."""
        shared = pair_variance(matrix)
        compare = partial(compare_outer_runs, reference, observed, shared, intervals=self._intervals(checked))
        if not are_in_rounds(self.traces) or (partners := find_partners(self._outer_traces, checked.traces)) is None:
            return compare(alpha=self.alpha)
        level = self.alpha / DESIGNS
        within = compare_outer_within_rounds(reference, observed, partners, shared, alpha=level)
        return shorter(compare(alpha=level), within)

    def _intervals(self, checked: _CheckedRuns) -> int | None:
        """Return the shortest run's number of intervals; None if intervals end by work, without sampling error."""
        if self._equal_work:
            return None
        return min(len(trace) for trace in (*self.traces, *checked.traces))

    @property
    def _equal_work(self) -> bool:
        return all(trace.attributes.get("clock") in WORK_CLOCKS for trace in self.traces)

    def _pair_correlations(self, values: Sequence[FloatArray]) -> FloatArray:
        rows = correlate_runs(values, self.metrics, self.pairs)
        return np.array(rows).reshape(len(values), len(self.pairs))

    def _checked(self, traces: Trace | Sequence[Trace], *, allow_members: bool = False) -> _CheckedRuns:
        checked = (traces,) if isinstance(traces, Trace) else tuple(traces)
        if not checked:
            raise DataError(f"no run to check against {self.name}: give at least one run")
        runs = comparable.run_names(checked, "checked")
        for trace, run in zip(checked, runs, strict=True):
            if not allow_members and any(trace is member for member in self.traces):
                raise DataError(
                    f"run {run} belongs to {self.name}, and a run cannot be checked against itself: check other runs"
                )
        configurations = {str(trace.attributes.get("configuration", "checked")) for trace in checked}
        if len(configurations) > 1:
            raise DataError(
                f"the runs belong to {len(configurations)} configurations ({', '.join(sorted(configurations))}): check "
                "each configuration separately"
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
            level=1 - 2 * self.alpha,
            tolerance=self.tolerance,
            lost=lost,
            method=method,
            simulated=any(metric.kind == "simulated" for metric in checked.traces[0].metrics.values()),
        )

    def _shared_events(self, metric: str, *, align_on: Sequence[str]) -> str:
        described = self.traces[0].metrics
        parts = set(described[metric].components)
        shared = [name for name in align_on if name != metric and parts & set(described[name].components)]
        return f"the metric shares events with {', '.join(shared)}, on which the runs were aligned" if shared else ""


def _names(trace: Trace) -> set[str]:
    """Return the names of a run's metrics, except the times of scaled counts, which only some runs have."""
    return {name for name in trace.metrics if not name.endswith(SCALING)}


def _require_same_metrics(traces: Sequence[Trace], runs: Sequence[str]) -> None:
    for trace, run in zip(traces, runs, strict=True):
        differing = sorted(_names(trace) ^ _names(traces[0]))
        if differing:
            raise DataError(
                f"runs {run} and {runs[0]} have different metrics (in only one of the two: {', '.join(differing)}): "
                "collect the same metrics in all baseline runs"
            )
