"""The baseline: what unperturbed runs look like, and the two checks against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from unperturbed.analysis.perturbation import runs as fit
from unperturbed.analysis.perturbation.between import compare_with_one_run
from unperturbed.analysis.perturbation.changes import Side, changes_of
from unperturbed.analysis.perturbation.compare import Comparison, compare_runs
from unperturbed.analysis.perturbation.correlation import FloatArray, correlate_ranks, fisher, from_fisher, standard_ranks
from unperturbed.analysis.perturbation.decide import decide
from unperturbed.analysis.perturbation.outer import Outer, outer_matrix, outer_of_checked, outer_of_reference, pair_variance
from unperturbed.analysis.perturbation.overhead import overhead
from unperturbed.analysis.perturbation.paper_rule import compare_as_paper, decide_as_paper
from unperturbed.analysis.perturbation.stability import Columns, Stability, advised_runs, find_apart, find_drift
from unperturbed.analysis.perturbation.verdict import CheckName, Verdict, combine
from unperturbed.collectors.trace import Trace
from unperturbed.errors import DataError

__all__ = ["MINIMUM_RUNS", "Baseline"]

MINIMUM_RUNS = 5
"""With fewer baseline runs the variation between runs is unknown: a family of 10 pairs would need changes of over 6 deviations."""


@dataclass(frozen=True)
class _Checked:
    """Runs of one configuration, found to fit the baseline; `stopped` holds the metrics that do not vary in them, and why."""

    traces: tuple[Trace, ...]
    runs: tuple[str, ...]
    configuration: str
    values: tuple[FloatArray, ...]
    stopped: Mapping[str, str]


class Baseline:
    """Runs with hardware metrics only, and how their correlations vary from run to run.

    Parameters
    ----------
    traces : at least 5 runs made alike; 10 are advised, 20 from 10 metrics up.
        Names come from `attributes["run"]`, their order from `["order"]`; `["interval_ns"]`, `["host"]` and `["program"]` must agree.
    metrics : compare these only; None compares all that are hardware, simulated, or derived from such.
    focus : compare only pairs that hold one of these, and these alone after alignment; None for all. For a pass whose other
        metrics are compared in another.
    software : compare software metrics too, for runs that count some against runs that count those and more.
    alpha : family-wise level of *perturbed*, and level at which each change is shown to lie within the tolerance.
    tolerance : |Δρ| that counts as no perturbation.
    name : of the configuration, for reports.

    Attributes
    ----------
    metrics : names of the metrics that are compared. focus : those of which every comparison holds one.
    pairs : pairs of them that do not share an event.
    runs : names of the runs.
    correlations : float64, shape (runs, pairs). Spearman's ρ within each run.
    excluded : metrics and pairs that are left out, with the reason.

    Raises
    ------
    DataError
        Too few runs or intervals, runs that were not made alike, identical runs, a value that is not finite, no metric that varies.
    ValueError
        α or the tolerance is out of range.

    Notes
    -----
    Mytkowicz et al., "Understanding Measurement Perturbation in Trace-based Data", sections 2.1 and 3.3: a change is significant
    only beside the variation between identical runs. What is compared, tested and corrected how is said in `compare`.
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
        if not 0 < tolerance < 2:
            raise ValueError(f"tolerance is {tolerance}: give a change of ρ between 0 and 2, such as 0.1")
        if len(traces) < MINIMUM_RUNS:
            raise DataError(f"{name}: {len(traces)} runs, and at least {MINIMUM_RUNS} are needed (10 are advised): run more")
        self.name, self.alpha, self.tolerance = name, alpha, tolerance
        self.traces = tuple(traces)
        self.runs = fit.run_names(self.traces, name)
        if len(set(self.runs)) < len(self.runs):
            twice = sorted({run for run in self.runs if self.runs.count(run) > 1})
            raise DataError(f"{name}: run {', '.join(twice)} is given twice; give each run once")
        names, excluded = fit.compared_metrics(self.traces[0], metrics, software=software)
        _require_same_metrics(self.traces, self.runs)
        fit.require_alike(self.traces[0], self.traces, self.runs, names)
        values = [fit.metric_values(trace, run, names) for trace, run in zip(self.traces, self.runs, strict=True)]
        flat: dict[str, str] = {}
        for run, rows in zip(self.runs, values, strict=True):
            flat = fit.constant_metrics(rows, run, names) | flat
        self.metrics = tuple(metric for metric in names if metric not in flat)
        if not self.metrics:
            raise DataError(f"{name}: no metric varies ({'; '.join(f'{metric} is {why}' for metric, why in flat.items())})")
        kept = [at for at, metric in enumerate(names) if metric not in flat]
        fit.require_variation([rows[:, kept] for rows in values])
        self.focus = self.metrics if focus is None else tuple(metric for metric in self.metrics if metric in focus)
        self.pairs, built_in = fit.compared_pairs([self.traces[0].metrics[metric] for metric in self.metrics], self.focus)
        self.excluded = (*excluded, *flat.items(), *built_in)
        self.correlations = self._pair_correlations([rows[:, kept] for rows in values])
        self._outer_matrices: dict[Outer, FloatArray] = {}

    def inner(self, traces: Trace | Sequence[Trace], *, method: Literal["runs", "paper"] = "runs") -> Verdict:
        """Check whether the correlations of pairs of metrics within a run changed.

        Parameters
        ----------
        traces : one run or more of one configuration, with the baseline's metrics and any others.
        method : `paper` judges by the paper's own rule, see `paper_rule`.

        Returns
        -------
        Verdict
            One change a pair, corrected family-wise over the pairs. A pair that cannot be compared, because a metric stopped
            varying, is in `excluded` and `lost`, and the verdict is then not *unperturbed*.

        Raises
        ------
        DataError
            The runs do not fit the baseline.

        Notes
        -----
        Section 2.2 of the paper; the comparison is over runs, because intervals of a trace depend on one another and within-run
        tests cry perturbed in every second check.
        """
        checked = self._checked(traces)
        possible = [at for at, pair in enumerate(self.pairs) if not checked.stopped.keys() & set(pair)]
        reference = self.correlations[:, possible]
        observed = self._pair_correlations(checked.values)[:, possible]
        compare = partial(compare_runs, intervals=self._shortest(checked), alpha=self.alpha)
        compared = (compare_as_paper if method == "paper" else compare)(reference, observed)
        return self._verdict("inner", [self.pairs[at] for at in possible], reference, observed, compared, checked, method)

    def outer(
        self,
        traces: Trace | Sequence[Trace],
        *,
        align_on: Sequence[str] = ("IPC",),
        anchor: str | None = None,
        literal: bool = False,
        across: bool = False,
        against: Trace | None = None,
        method: Literal["runs", "paper"] = "runs",
    ) -> Verdict:
        """Check whether runs still align with the baseline: each metric against itself, after alignment.

        A checked run's value is its mean correlation (on Fisher's scale) with the baseline runs, each as the reference of the
        alignment; a baseline run's value is the same over the other baseline runs.

        Parameters
        ----------
        traces : one run or more of one configuration.
        align_on, anchor : as for `unperturbed.analysis.alignment.align`. Changes of the metrics in `align_on` are marked: aligning
            on a metric flatters its correlation.
        literal : as for `outer_correlations`.
        across : each metric against each other one too ("the same or another metric", section 2.3).
        against : align to this run alone, of whatever configuration, instead of the baseline's ("not strictly necessary", section 2.3):
            do these runs lie beside it as runs of the baseline lie beside each other? What two runs that are to be merged must show.
        method : `paper` judges by the paper's own rule, see `paper_rule`.

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
        Section 2.3 of the paper. The values depend on one another: ρ of baseline runs i and j is in the values of both, and all
        checked runs meet the same baseline runs. `compare_runs` allows for it by a model of run and pair effects; the
        false-alarm rate that results is measured in `docs/evidence/calibration.md`. A metric that is mostly noise has a low outer
        correlation in the baseline too, and is not perturbed for that.
        """
        checked = self._checked(traces)
        pairs = tuple((metric, metric) for metric in self.focus) + (self.pairs if across else ())
        how = Outer(pairs, tuple(align_on), anchor, literal)
        matrix = self._outer_matrix(how)
        if against is None:
            z = outer_of_checked(self.traces, checked.traces, how).mean(axis=0)
        else:
            other = self._checked(against, anyone=True)
            checked = replace(checked, stopped={**other.stopped, **checked.stopped})
            z = outer_of_checked([against], checked.traces, how)[0]
            apart = [at for at, trace in enumerate(self.traces) if trace is not against]
            matrix = matrix[np.ix_(apart, apart)]
        reference, observed = outer_of_reference(matrix), from_fisher(z)
        undefined = np.asarray(np.isnan(np.vstack((reference, observed))).any(axis=0), np.bool_)
        flat = {
            first: "constant after alignment" for at, (first, second) in enumerate(pairs) if undefined[at] and first == second
        }
        checked = replace(checked, stopped={**flat, **checked.stopped})
        possible = np.flatnonzero(~undefined)
        reference, observed, matrix = reference[:, possible], observed[:, possible], matrix[:, :, possible]
        compared = (
            compare_as_paper(reference, observed)
            if method == "paper"
            else compare_with_one_run(matrix, fisher(observed), alpha=self.alpha)
            if against is not None
            else compare_runs(
                reference, observed, intervals=self._shortest(checked), alpha=self.alpha, pair_variance=pair_variance(matrix)
            )
        )
        made = self._verdict(
            "outer",
            [pairs[at] for at in possible],
            reference,
            observed,
            compared,
            checked,
            method,
            how.align_on,
            against is None,
        )
        across_ones = (replace(change, check="across") if change.first != change.second else change for change in made.changes)
        made = replace(made, changes=tuple(across_ones))
        if against is None:
            return made
        return replace(made, notes=(*made.notes, f"held against run {fit.run_names([against], 'reference')[0]} alone"))

    def stability(self, disturbed: Mapping[str, str] | None = None) -> Stability:
        """Tell whether the baseline is steady itself: drift over the campaign, runs that stand apart, runs on a disturbed host.

        Parameters
        ----------
        disturbed : run to what disturbed its host, where that was watched.

        Returns
        -------
        Stability
            Looked at are the pairs' correlations (on Fisher's scale) and each metric's total. It takes nothing out: a run that stands
            apart widens every interval, and who leaves it out should say so.
        """
        counted = [name for name in self.metrics if self.traces[0].metrics[name].kind != "derived"]
        totals = np.array([[trace[name].sum() for name in counted] for trace in self.traces], np.float64)
        means = totals.mean(axis=0)
        columns = Columns(
            (*(f"ρ of {first} and {second}" for first, second in self.pairs), *(f"the total of {name}" for name in counted)),
            np.hstack([fisher(self.correlations), totals / np.where(means == 0, 1, means)]),
            len(self.pairs),
            least_rho=self.tolerance / 10,
        )
        order = [float(trace.attributes.get("order", at)) for at, trace in enumerate(self.traces)]
        advised, widest = advised_runs(
            self.correlations,
            [f"{first} – {second}" for first, second in self.pairs],
            alpha=self.alpha,
            tolerance=self.tolerance,
        )
        found = disturbed or {}
        return Stability(
            runs=len(self.runs),
            drift=find_drift(columns, order, alpha=self.alpha),
            apart=find_apart(columns, self.runs, alpha=self.alpha),
            disturbed=tuple((run, found[run]) for run in self.runs if run in found),
            advised=advised,
            widest=widest,
        )

    def _outer_matrix(self, how: Outer) -> FloatArray:
        if how not in self._outer_matrices:
            self._outer_matrices[how] = outer_matrix(self.traces, how)
        return self._outer_matrices[how]

    def _shortest(self, checked: _Checked) -> int:
        return min(len(trace) for trace in (*self.traces, *checked.traces))

    def _pair_correlations(self, values: Sequence[FloatArray]) -> FloatArray:
        column = {metric: at for at, metric in enumerate(self.metrics)}
        first = [column[one] for one, _ in self.pairs]
        second = [column[other] for _, other in self.pairs]
        rows = []
        for one_run in values:
            ranks = standard_ranks(one_run)
            rows.append(correlate_ranks(ranks, ranks)[first, second])
        return np.array(rows).reshape(len(values), len(self.pairs))

    def _checked(self, traces: Trace | Sequence[Trace], *, anyone: bool = False) -> _Checked:
        checked = (traces,) if isinstance(traces, Trace) else tuple(traces)
        if not checked:
            raise DataError(f"no run to check against {self.name}: give at least one")
        runs = fit.run_names(checked, "checked")
        for trace, run in zip(checked, runs, strict=True):
            if not anyone and any(trace is member for member in self.traces):
                raise DataError(f"run {run} is one of the runs of {self.name}: it cannot be checked against itself")
        configurations = {str(trace.attributes.get("configuration", "checked")) for trace in checked}
        if len(configurations) > 1:
            raise DataError(
                f"runs of {len(configurations)} configurations ({', '.join(sorted(configurations))}): check each by itself"
            )
        fit.require_alike(self.traces[0], checked, runs, self.metrics)
        values = tuple(fit.metric_values(trace, run, self.metrics) for trace, run in zip(checked, runs, strict=True))
        stopped: dict[str, str] = {}
        for run, rows in zip(runs, values, strict=True):
            stopped = fit.constant_metrics(rows, run, self.metrics) | stopped
        return _Checked(checked, runs, configurations.pop(), values, stopped)

    def _verdict(
        self,
        check: CheckName,
        labels: Sequence[tuple[str, str]],
        reference: FloatArray,
        observed: FloatArray,
        compared: Comparison,
        checked: _Checked,
        method: Literal["runs", "paper"],
        align_on: Sequence[str] = (),
        more_runs_help: bool = True,
    ) -> Verdict:
        changes = changes_of(
            check,
            labels,
            Side(self.name, self.runs, reference),
            Side(checked.configuration, checked.runs, observed),
            compared,
            tolerance=self.tolerance,
            align_on=align_on,
            note=partial(self._shared_events, align_on=align_on),
            more_runs_help=more_runs_help,
        )
        changes = decide_as_paper(changes) if method == "paper" else decide(changes, alpha=self.alpha)
        lost = tuple(checked.stopped.items())
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
        )

    def _shared_events(self, metric: str, *, align_on: Sequence[str]) -> str:
        described = self.traces[0].metrics
        parts = set(described[metric].components)
        shared = [name for name in align_on if name != metric and parts & set(described[name].components)]
        return f"shares events with {', '.join(shared)}, on which the runs were aligned" if shared else ""


def _require_same_metrics(traces: Sequence[Trace], runs: Sequence[str]) -> None:
    for trace, run in zip(traces, runs, strict=True):
        differing = sorted(set(trace.metrics) ^ set(traces[0].metrics))
        if differing:
            raise DataError(
                f"run {run} and run {runs[0]} differ in metric {', '.join(differing)}: a baseline's runs collect the same metrics"
            )
