"""Combination of the verdicts of several nodes; each node is compared with its own baseline.

There are two claims, with different errors:

- *These nodes*: the mean change over the nodes that were measured. A node is a stratum: only differences within nodes
  count, and their errors come from the spread between runs within nodes. Pooling the runs of all nodes would add the
  differences between nodes to the spread (losing power), or to the change if the shares are unequal (in a third of
  campaigns without an effect, see `docs/evidence/nodes.md`).
- *This type of node*: the mean change over all nodes of the type; these nodes are a sample of them. A configuration's
  effect may vary from node to node, so the error comes from the spread of the changes between nodes, with n - 1 degrees
  of freedom. With fewer than 4 nodes, this spread is almost unknown, and no claim is made.

The errors of an outer change are computed as on one host (`compare_outer.outer_errors`), both from the spreads pooled
over nodes and from those of each node: with only one pooled spread for all levels, falls by exactly the tolerance were
called *perturbed* far too often.

The interval of an inner change is, as on one host, the widest of those by the spread pooled over both sides and by each
side's own (Welch): by the former alone, checked runs that spread three times as wide were accepted at the tolerance in
.17 of campaigns (`docs/evidence/nodes.md`).

The weight of a node with k baseline runs and r checked runs is k r / (k + r), and so does not depend on results.

If every node compares its runs within rounds (`perturbation/rounds.py`), so do the verdicts over nodes: differences
within the rounds of a node are combined like differences of means. On these nodes, both designs are computed over all
nodes, each at half of the level, and the one with the shorter interval counts, as on one host. For their type, there is
no choice of designs, because half of the level costs too much with few nodes: the nodes' differences within rounds are
the sample.

Means over nodes are means on Fisher's scale, shown as ρ. If the levels of nodes differ, the joint change of ρ is that
at the mean level.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.multiple_testing import holm
from unperturbed.analysis.perturbation import Change, Verdict, VerdictName, combine
from unperturbed.analysis.perturbation.compare import (
    NO_SPREAD,
    Comparison,
    MeanErrors,
    Spreads,
    comparison,
    pooled,
    welch_errors,
    wider_below_one,
    widest_bounds,
)
from unperturbed.analysis.perturbation.compare_outer import (
    OuterErrors,
    outer_bounds,
    outer_errors,
    outer_spreads,
)
from unperturbed.analysis.perturbation.correlation import FloatArray, fisher, fisher_slope, from_fisher
from unperturbed.analysis.perturbation.decide import decide
from unperturbed.analysis.perturbation.rounds import (
    DESIGNS,
    compare_outer_within_rounds,
    compare_within_rounds,
    least_spread,
    shorter,
)
from unperturbed.analysis.perturbation.verdict import RunGroup, changes_from_comparison
from unperturbed.common.extras import LazyLibrary
from unperturbed.common.wording import p_value
from unperturbed.errors import DataError

special = LazyLibrary("scipy.special")

FEWEST_FOR_TYPE = 4
"""Minimum number of nodes for a claim about their type."""
FEWEST_FOR_APART = 5
"""Minimum number of nodes to name one that differs: with fewer, the spread comes from fewer than four other nodes."""
APART_LEVEL = 0.01
"""Family-wise level over nodes and quantities: if nodes are alike, 1 % of campaigns name a node that differs."""

_Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Heterogeneity:
    """Test of whether a change varies from node to node."""

    q: float  # Cochran's Q with the spread between runs pooled over the nodes: (n - 1) F
    p: float  # p-value of "the change is the same on every node", F distribution: the spread is estimated
    i2: float  # I²: the share of the variation of the changes that is between nodes, 0 to 1


@dataclass(frozen=True)
class Combined:
    """Verdict on one configuration over nodes."""

    configuration: str  # Name of the configuration
    nodes: tuple[str, ...]  # Names of the nodes
    by_node: Mapping[str, Verdict]  # The verdict of each node
    these: Verdict  # On these nodes
    type: Verdict | None  # On this type of node; None with fewer than 4 nodes
    heterogeneity: Mapping[_Key, Heterogeneity]  # By check and metrics of a change
    # Each node that the verdict on these nodes depends on, and the verdict without it.
    hangs_on: Mapping[str, VerdictName]

    def scopes(self) -> dict[str, Verdict]:
        """Return the verdict on each node, on these nodes, and on their type."""
        of_type = {} if self.type is None else {"this type of node": self.type}
        return {**self.by_node, "these nodes": self.these, **of_type}

    def scopes_of(self, change: Change) -> list[tuple[str, Change]]:
        """Return this change as found in each scope."""
        scoped_changes = [(scope, each) for scope, verdict in self.scopes().items() for each in verdict.changes]
        return [(scope, each) for scope, each in scoped_changes if change_key(each) == change_key(change)]


def change_key(change: Change) -> _Key:
    """Return the key that identifies a change on all nodes."""
    return change.check, change.first, change.second, change.against


@dataclass(frozen=True)
class _OuterRuns:
    """Runs and spreads of an outer change on each node: arrays with one entry for each node, see `compare_outer`."""

    runs: tuple[FloatArray, FloatArray]
    spread: Spreads
    shared: FloatArray

    @classmethod
    def of(cls, changes: Sequence[Change], k: FloatArray, r: FloatArray) -> _OuterRuns:
        spreads_of, shared = [], []
        for change, count, checked in zip(changes, k, r, strict=True):
            per_run = 1 / count + 1 / checked
            # If the reference has no spread, the change's error is that within a run: 1/√(n − 3) for one run.
            variance = _independent_error(change) ** 2
            intervals = 3 + per_run / max(variance, np.finfo(np.float64).tiny)
            before, after = (fisher(np.array(rho))[:, None] for rho in (change.reference, change.observed))
            spread = outer_spreads(before, after, intervals)
            unchanged = pooled(spread.reference, spread.observed, count, checked)
            spreads_of.append(spread)
            shared.append(0.0 if spread.none[0] else max(0.0, float(variance - unchanged[0] * per_run)))
        sides = [[getattr(estimate, side)[0] for estimate in spreads_of] for side in ("reference", "observed", "none")]
        return cls((k, r), Spreads(np.array(sides[0]), np.array(sides[1]), np.array(sides[2], bool)), np.array(shared))

    def at(self, kept: NDArray[np.bool_]) -> _OuterRuns:
        """Return the entries of the selected nodes."""
        (k, r), spread = self.runs, self.spread
        some = Spreads(spread.reference[kept], spread.observed[kept], spread.none[kept])
        return _OuterRuns((k[kept], r[kept]), some, self.shared[kept])


@dataclass(frozen=True)
class _Rounds:
    """Differences within rounds on each node: arrays with one entry for each node, on Fisher's scale."""

    partners: tuple[tuple[int, ...], ...]  # Of each node, the reference run of each checked run's round
    difference: FloatArray
    variance: FloatArray  # Of the mean difference, see `rounds`
    freedom: FloatArray

    @classmethod
    def of(cls, changes: Sequence[Change], outer: _OuterRuns | None, least: Sequence[float]) -> _Rounds | None:
        """Compare within the rounds of each node; None if a node has no comparison within rounds.

        `least`: minimum variance of an inner correlation between the rounds of each node.
        """
        if not all(change.partners for change in changes):
            return None
        compared = []
        for at, change in enumerate(changes):
            runs = np.array(change.reference)[:, None], np.array(change.observed)[:, None]
            k, partners = len(change.reference), np.array(change.partners, np.int64)
            if outer is None:
                compared.append(compare_within_rounds(*runs, partners, alpha=0.5, least=least[at]))
            else:
                of_pairs = outer.shared[at : at + 1] * k * (k - 1)
                compared.append(compare_outer_within_rounds(*runs, partners, of_pairs, alpha=0.5))
        return cls(
            tuple(change.partners for change in changes),
            np.array([float((each.observed_mean - each.reference_mean)[0]) for each in compared]),
            np.array([float(each.standard_error[0]) ** 2 for each in compared]),
            np.array([float(each.freedom[0]) for each in compared]),
        )

    @property
    def count(self) -> FloatArray:
        """Return the number of rounds of each node."""
        return np.array([len(of_node) for of_node in self.partners], np.float64)

    def at(self, kept: NDArray[np.bool_]) -> _Rounds:
        """Return the entries of the selected nodes."""
        partners = tuple(of_node for of_node, keep in zip(self.partners, kept, strict=True) if keep)
        return _Rounds(partners, self.difference[kept], self.variance[kept], self.freedom[kept])


@dataclass(frozen=True)
class _Strata:
    """One change on every node that has it: arrays with one entry for each node, on Fisher's scale."""

    nodes: tuple[str, ...]
    changes: tuple[Change, ...]
    before: FloatArray
    difference: FloatArray
    variance: FloatArray
    freedom: FloatArray
    weight: FloatArray
    of_reference: FloatArray
    outer: _OuterRuns | None
    rounds: _Rounds | None

    @property
    def share(self) -> FloatArray:
        return np.asarray(self.weight / self.weight.sum(), np.float64)

    def without(self, node: str) -> _Strata:
        """Return the strata of all nodes except one."""
        if node not in self.nodes:
            return self
        kept = np.array([name != node for name in self.nodes])
        return _Strata(
            tuple(name for name in self.nodes if name != node),
            tuple(change for change, keep in zip(self.changes, kept, strict=True) if keep),
            self.before[kept],
            self.difference[kept],
            self.variance[kept],
            self.freedom[kept],
            self.weight[kept],
            self.of_reference[kept],
            self.outer and self.outer.at(kept),
            self.rounds and self.rounds.at(kept),
        )


def combine_nodes(verdicts: Mapping[str, Verdict]) -> Combined:
    """Combine the verdicts of several nodes on one configuration, by the variation between runs."""
    if not verdicts:
        raise DataError("no node to combine: give the verdict of at least one node")
    first = next(iter(verdicts.values()))
    if any((verdict.alpha, verdict.tolerance) != (first.alpha, first.tolerance) for verdict in verdicts.values()):
        raise DataError("`alpha` or `tolerance` differs between the nodes' verdicts: use the same values for all nodes")
    strata = _by_change(verdicts)
    these = _joint(first, verdicts, [_on_these(group, first.alpha) for group in strata.values()])
    of_type = None
    if len(verdicts) >= FEWEST_FOR_TYPE:
        everywhere = [group for group in strata.values() if len(group.changes) >= FEWEST_FOR_TYPE]
        of_type = _joint(first, verdicts, [_on_type(group, first.alpha) for group in everywhere])
    return Combined(
        first.configuration,
        tuple(verdicts),
        dict(verdicts),
        these,
        of_type,
        {key: _heterogeneity(group) for key, group in strata.items() if len(group.changes) > 1},
        _hangs_on(verdicts, strata.values(), these) if len(verdicts) > 1 else {},
    )


def _by_change(verdicts: Mapping[str, Verdict]) -> dict[_Key, _Strata]:
    """Group the changes of all nodes by their key."""
    changes_by_key: dict[_Key, dict[str, Change]] = {}
    for node, verdict in verdicts.items():
        for change in verdict.changes:
            if np.isfinite(change.standard_error):
                changes_by_key.setdefault(change_key(change), {})[node] = change
    least = {node: _least_between_rounds(verdict) for node, verdict in verdicts.items()}
    return {key: _strata(by_node, least) for key, by_node in changes_by_key.items()}


def _compared_with(change: Change) -> tuple[str, ...]:
    """Return the check of a change and its reference runs: changes with the same ones were compared together."""
    return change.check, *change.reference_runs


def _least_between_rounds(verdict: Verdict) -> dict[tuple[str, ...], float]:
    """Return the minimum variance between rounds for changes that were compared together; none without rounds."""
    variances: dict[tuple[str, ...], list[float]] = {}
    for change in verdict.changes:
        if change.partners:
            variances.setdefault(_compared_with(change), []).append(float(fisher(change.reference).var(ddof=1)))
    return {together: least_spread(np.array(of_all)) for together, of_all in variances.items()}


def _strata(by_node: Mapping[str, Change], least: Mapping[str, Mapping[tuple[str, ...], float]]) -> _Strata:
    nodes, changes = tuple(by_node), tuple(by_node.values())
    before = np.array([fisher(change.reference).mean() for change in changes])
    after = np.array([fisher(change.observed).mean() for change in changes])
    k = np.array([len(change.reference) for change in changes], np.float64)
    r = np.array([len(change.observed) for change in changes], np.float64)
    outer = _OuterRuns.of(changes, k, r) if changes[0].check in ("outer", "across") else None
    return _Strata(
        nodes,
        changes,
        before,
        after - before,
        np.array([_independent_error(change) ** 2 for change in changes]),
        np.array(
            [runs - 2 if change.partners else change.freedom for change, runs in zip(changes, k + r, strict=True)]
        ),
        k * r / (k + r),
        r / (k + r),  # share of 1/k in 1/k + 1/r
        outer,
        _Rounds.of(changes, outer, [least[node].get(_compared_with(change), 0.0) for node, change in by_node.items()]),
    )


def _independent_error(change: Change) -> float:
    """Return the standard error of a change by the comparison of independent runs."""
    return change.independent_error if change.partners else change.standard_error


def _pooled(variance: FloatArray, weight: FloatArray, freedom: FloatArray) -> tuple[float, float]:
    """Return the variance of weight 1 (one run, or one round), pooled over nodes, and its degrees of freedom."""
    each = variance * weight
    if np.isinf(freedom).any():
        return float(each.mean()), float("inf")
    return float((freedom * each).sum() / freedom.sum()), float(freedom.sum())


def _satterthwaite(parts: FloatArray, freedom: FloatArray) -> float:
    return float(parts.sum() ** 2 / (parts**2 / freedom).sum()) if np.isfinite(freedom).all() else float("inf")


def _on_these(strata: _Strata, alpha: float) -> Change:
    """Combine differences within nodes by fixed weights: of independent runs, and within rounds if nodes have them."""
    if strata.rounds is None:
        return _change(strata, _of_independent(strata, alpha))
    of_all, within = _of_independent(strata, alpha / DESIGNS), _within_rounds(strata, strata.rounds, alpha / DESIGNS)
    return _change(strata, shorter(of_all, within))


def _of_independent(strata: _Strata, alpha: float) -> Comparison:
    """Compare independent runs, with errors pooled over nodes, node by node, and of each side of each node."""
    share = strata.share
    parts = share**2 * strata.variance
    pooled_variance, pooled_freedom = _pooled(strata.variance, strata.weight, strata.freedom)
    pooled_parts = share**2 * pooled_variance / strata.weight
    error = float(np.sqrt(pooled_parts.sum()))
    means = _joint_means(strata, share)
    if strata.outer:
        return _compared(means, _outer_errors(strata, strata.outer, share), error, pooled_freedom, alpha)
    wider = _wider(strata, share)
    ways = [
        _errors(pooled_parts, strata.of_reference, pooled_freedom, wider),
        _errors(parts, strata.of_reference, _satterthwaite(parts, strata.freedom)),
    ]
    if by_side := _welch(strata):
        ways.append(_over_nodes(means, by_side, share))
    return _compared(means, ways, error, pooled_freedom, alpha)


def _welch(strata: _Strata) -> MeanErrors | None:
    """Return each node's errors without the assumption that both sides spread alike; None for single runs."""
    k, r = (np.array([len(getattr(change, side)) for change in strata.changes]) for side in ("reference", "observed"))
    if (r < 2).any() or np.isinf(strata.freedom).any():
        return None
    first, second = (
        np.array([fisher(np.array(getattr(change, side))).var(ddof=1) for change in strata.changes])
        for side in ("reference", "observed")
    )
    # Without a spread of the reference, the error is that within a run, on both sides.
    none = first < NO_SPREAD**2
    within_run = strata.variance / (1 / k + 1 / r)
    squares = np.where(none, within_run, first) / k, np.where(none, np.maximum(second, within_run), second) / r
    return welch_errors((strata.before, strata.before + strata.difference), squares, (k - 1, r - 1))


def _within_rounds(strata: _Strata, rounds: _Rounds, alpha: float) -> Comparison:
    """Compare runs within rounds, with errors both pooled over nodes and node by node."""
    share = strata.share
    pooled_variance, pooled_freedom = _pooled(rounds.variance, rounds.count, rounds.freedom)
    parts, pooled_parts = share**2 * rounds.variance, share**2 * pooled_variance / rounds.count
    before, _ = _joint_means(strata, share)
    means = before, before + float((share * rounds.difference).sum())
    of_reference = np.zeros_like(share)
    ways = [
        _errors(pooled_parts, of_reference, pooled_freedom),
        _errors(parts, of_reference, _satterthwaite(parts, rounds.freedom)),
    ]
    made = _compared(means, ways, float(np.sqrt(pooled_parts.sum())), pooled_freedom, alpha)
    starts = np.cumsum([0, *(len(change.reference) for change in strata.changes)])
    partners = [int(start) + at for start, of_node in zip(starts, rounds.partners, strict=False) for at in of_node]
    return replace(made, partners=tuple(partners))


def _on_type(strata: _Strata, alpha: float) -> Change:
    """Treat the nodes as a sample: Student's t over their differences, all with the same weight."""
    count = len(strata.changes)
    share = np.full(count, 1 / count)
    within = strata if strata.rounds is None else strata.rounds
    error = float(within.difference.std(ddof=1) / np.sqrt(count))
    # Changes that agree better than the runs within nodes allow do so by chance.
    least = float(np.sqrt((share**2 * within.variance).sum())) if error < 1e-12 else error
    # The spread may come from the configuration's effect on each node, or from the few runs of both groups there. On
    # the scale of ρ, an error of the reference has a different weight from one of the checked runs: use the wider
    # interval.
    before, _ = _joint_means(strata, share)
    means = before, before + float(within.difference.mean())
    of_change = np.full(1, least)
    if strata.rounds is not None:
        # Differences within rounds hide the level's error, and at another level the same difference of z is another
        # difference of ρ.
        first, second = (fisher_slope(from_fisher(mean)) for mean in means)
        of_change = np.hypot(of_change, (1 - second / first) * strata.before.std(ddof=1) / np.sqrt(count))
    known = MeanErrors(np.zeros(1), of_change, np.full(1, count - 1.0))
    parts = np.full(count, least**2 / count)
    ways = [known, _errors(parts, strata.of_reference, count - 1.0)]
    return _change(strata, _compared(means, ways, least, count - 1.0, alpha))


def _outer_errors(strata: _Strata, outer: _OuterRuns, share: FloatArray) -> OuterErrors:
    """Return the errors of an outer change as on one host: from the spreads pooled over nodes, and node by node."""
    means, (k, r), spread = _joint_means(strata, share), outer.runs, outer.spread
    of_reference, of_checked = (k - 1).sum(), (r - 1).sum()
    reference = ((k - 1) * spread.reference).sum() / of_reference
    checked = ((r - 1) * spread.observed).sum() / of_checked if of_checked else reference
    every = Spreads(np.full(1, reference), np.full(1, checked), np.full(1, bool(spread.none.all())))
    shared = np.full(1, (share**2 * outer.shared).sum())
    runs = tuple(float(1 / (share**2 / count).sum()) for count in outer.runs)
    together = outer_errors(means, every, shared, (runs[0], runs[1]), (float(of_reference), float(of_checked)))
    each = outer_errors(
        (strata.before, strata.before + strata.difference), spread, outer.shared, (k, r), (k - 1, r - 1)
    )
    return OuterErrors(
        (*together.near, *(_over_nodes(means, errors, share) for errors in each.near)),
        (*together.far, *(_over_nodes(means, errors, share) for errors in each.far)),
    )


def _over_nodes(means: tuple[FloatArray, FloatArray], errors: MeanErrors, share: FloatArray) -> MeanErrors:
    """Combine errors of each node's means into errors of means over nodes (Satterthwaite), weighted by effect on ρ."""
    reference, observed = (share * errors.reference) ** 2, (share * errors.observed) ** 2
    slopes = [fisher_slope(from_fisher(mean)) ** 2 for mean in means]
    parts = reference / slopes[0] + observed / slopes[1]
    freedom = parts.sum() ** 2 / (parts**2 / errors.freedom).sum()
    return MeanErrors(np.full(1, np.sqrt(reference.sum())), np.full(1, np.sqrt(observed.sum())), np.full(1, freedom))


def _joint_means(strata: _Strata, share: FloatArray) -> tuple[FloatArray, FloatArray]:
    before = np.full(1, float((share * strata.before).sum()))
    return before, before + float((share * strata.difference).sum())


def _wider(strata: _Strata, share: FloatArray) -> float:
    """Return the ratio of the checked runs' spread to the reference runs', see `compare_runs`; 1 for outer changes."""
    if strata.changes[0].check not in ("inner", "software"):
        return 1.0
    return float(wider_below_one(*map(from_fisher, _joint_means(strata, share)))[0])


def _errors(parts: FloatArray, of_reference: FloatArray, freedom: float, wider: float = 1.0) -> MeanErrors:
    reference, observed = (parts * of_reference).sum(), wider**2 * (parts * (1 - of_reference)).sum()
    return MeanErrors(np.full(1, np.sqrt(reference)), np.full(1, np.sqrt(observed)), np.full(1, freedom))


def _compared(
    means: tuple[FloatArray, FloatArray],
    ways: Sequence[MeanErrors] | OuterErrors,
    error: float,
    freedom: float,
    alpha: float,
) -> Comparison:
    """Compare the joint means.

    `ways`: Errors by several methods; the first serves for the test, or, for an outer change, all near errors.
    """
    if isinstance(ways, OuterErrors):
        bounds, tested = outer_bounds(means, ways, alpha), ways.near
    else:
        bounds, tested = widest_bounds(*means, ways, alpha), tuple(ways[:1])
    return comparison(means, np.full(1, error), bounds, tested, np.full(1, freedom), ("",))


def _change(strata: _Strata, compared: Comparison) -> Change:
    """Return the joint change of a comparison over nodes."""
    model = strata.changes[0]

    def runs(configuration: str, side: str) -> RunGroup:
        names = tuple(run for change in strata.changes for run in getattr(change, f"{side}_runs"))
        rho = np.array([value for change in strata.changes for value in getattr(change, side)])
        return RunGroup(configuration, names, rho[:, None])

    (joint,) = changes_from_comparison(
        model.check,
        [(model.first, model.second)],
        runs(model.against, "reference"),
        runs("", "observed"),
        compared,
        tolerance=model.tolerance,
        more_runs_help=False,
    )
    return replace(joint, aligned_on=model.aligned_on)


def _joint(first: Verdict, verdicts: Mapping[str, Verdict], changes: Sequence[Change]) -> Verdict:
    """Return the verdict on joint changes, corrected family-wise."""
    decided = decide(changes, alpha=first.alpha)
    lost = tuple(
        dict.fromkeys(
            (name, f"{why} (node {node})") for node, verdict in verdicts.items() for name, why in verdict.lost
        )
    )
    if not decided:
        lost = (*lost, (first.configuration, "no change was compared on enough nodes"))
    return replace(
        first,
        verdict=combine((change.verdict for change in decided), lost=bool(lost)),
        changes=decided,
        level=1 - 2 * first.alpha,
        excluded=(),
        lost=lost,
        notes=(),
    )


def _heterogeneity(strata: _Strata) -> Heterogeneity:
    """Test whether the changes differ between nodes by more than the spread within nodes explains."""
    within, weight = (strata, strata.weight) if strata.rounds is None else (strata.rounds, strata.rounds.count)
    variance, freedom = _pooled(within.variance, weight, within.freedom)
    between = len(strata.changes) - 1
    mean = float((weight * within.difference).sum() / weight.sum())
    q = float((weight * (within.difference - mean) ** 2).sum() / variance) if variance else 0.0
    ratio = q / between
    p = special.chdtrc(between, q) if np.isinf(freedom) else special.fdtrc(between, freedom, ratio)
    return Heterogeneity(q, float(p), max(0.0, 1 - 1 / ratio) if ratio else 0.0)


def _hangs_on(verdicts: Mapping[str, Verdict], strata: Collection[_Strata], these: Verdict) -> dict[str, VerdictName]:
    """Return each node without which the verdict would be different, with the verdict that results without it."""
    verdict_without: dict[str, VerdictName] = {}
    for node in verdicts:
        others = {name: verdict for name, verdict in verdicts.items() if name != node}
        first = next(iter(others.values()))
        kept = [group for group in (each.without(node) for each in strata) if group.nodes]
        left = _joint(first, others, [_on_these(group, first.alpha) for group in kept])
        if left.verdict != these.verdict:
            verdict_without[node] = left.verdict
    return verdict_without


def apart(quantities: Mapping[str, Mapping[str, float]]) -> dict[str, str]:
    """Return nodes with a baseline unlike the others', and the differing quantities; empty with fewer than 5 nodes.

    `quantities`: Maps each quantity (such as the mean logarithm of a metric's total in the baseline) to its value on
    each node.

    The rule uses only baselines, and so favours no verdict. Each node is compared with the mean of the others by a
    prediction interval (a studentised deleted residual, n - 2 degrees of freedom), corrected by Holm over nodes and
    quantities, at 1 %.
    """
    tested: list[tuple[str, str]] = []
    ps: list[float] = []
    for name, by_node in quantities.items():
        values = np.array(list(by_node.values()), np.float64)
        if len(values) < FEWEST_FOR_APART or not np.isfinite(values).all():
            continue
        for at, node in enumerate(by_node):
            others = np.delete(values, at)
            error = others.std(ddof=1) * np.sqrt(1 + 1 / len(others))
            distance = abs(values[at] - others.mean())
            if distance <= 1e-12 * max(1.0, abs(float(others.mean()))):
                p = 1.0
            else:
                p = float(2 * special.stdtr(len(others) - 1, -distance / error)) if error else 0.0
            tested.append((node, name))
            ps.append(p)
    differing: dict[str, list[str]] = {}
    for (node, name), p in zip(tested, holm(ps).tolist() if ps else [], strict=True):
        if p <= APART_LEVEL:
            differing.setdefault(node, []).append(f"{name} (p {p_value(p)})")
    return {node: ", ".join(what) for node, what in differing.items()}
