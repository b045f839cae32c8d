"""One verdict from the verdicts of several nodes, each of which was compared with its own baseline.

Two claims are made, and they have different errors:

- *These nodes*: the mean change over the nodes that were measured. A node is a stratum: only differences within nodes
  enter, and their errors are the spreads between runs within nodes. Runs of all nodes pooled would put the differences
  between nodes into the spread (power is lost), or into the change where the shares are unequal (in a third of
  campaigns without an effect, see `docs/evidence/nodes.md`).
- *This type of node*: the mean change over the population of nodes that these sample. A configuration's effect may vary
  from node to node, so the errors are the spread of the changes between nodes, with n - 1 degrees of freedom. With
  fewer than 4 nodes that spread is almost unknown, and no claim is made.

A node's weight is k r / (k + r) of its k baseline runs and r checked runs, and so depends on no result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from unperturbed.analysis.multiple_testing import holm
from unperturbed.analysis.perturbation import Change, Verdict, VerdictName, combine
from unperturbed.analysis.perturbation.compare import MeanErrors, comparison, wider_below_one, widest_bounds
from unperturbed.analysis.perturbation.correlation import FloatArray, fisher, from_fisher
from unperturbed.analysis.perturbation.decide import decide
from unperturbed.analysis.perturbation.verdict import RunGroup, changes_from_comparison
from unperturbed.common.extras import LazyLibrary
from unperturbed.common.wording import p_value
from unperturbed.errors import DataError

special = LazyLibrary("scipy.special")

FEWEST_FOR_TYPE = 4
"""Nodes from which on a claim about their type is made."""
FEWEST_FOR_APART = 5
"""With fewer nodes, the spread of the others is known from less than four of them."""
APART_LEVEL = 0.01
"""Family-wise, over nodes and quantities: a node is named in 1 % of campaigns on nodes that are alike."""

_Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Heterogeneity:
    """Whether a change varies from node to node."""

    q: float  # Cochran's Q with the spread between runs pooled over the nodes: (n - 1) F
    p: float  # Of "the change is the same on every node", by the F distribution, as the spread is estimated
    i2: float  # I²: the share of the variation of the changes that is between nodes, 0 to 1


@dataclass(frozen=True)
class Combined:
    """The verdict on one configuration over nodes."""

    configuration: str  # Its name
    nodes: tuple[str, ...]  # The nodes
    by_node: Mapping[str, Verdict]  # The verdict of each node
    these: Verdict  # On these nodes
    type: Verdict | None  # On this type of node; None with fewer than 4 nodes
    heterogeneity: Mapping[_Key, Heterogeneity]  # By check and metrics of a change
    # A node, without which the verdict on these nodes would be another, to that verdict.
    hangs_on: Mapping[str, VerdictName]

    def scopes(self) -> dict[str, Verdict]:
        """Return the verdict of each node, of these nodes, and of their type."""
        of_type = {} if self.type is None else {"this type of node": self.type}
        return {**self.by_node, "these nodes": self.these, **of_type}

    def scopes_of(self, change: Change) -> list[tuple[str, Change]]:
        """Return what each scope shows of a change."""
        found = [(scope, each) for scope, verdict in self.scopes().items() for each in verdict.changes]
        return [(scope, each) for scope, each in found if change_key(each) == change_key(change)]


def change_key(change: Change) -> _Key:
    """Return what a change has in common on all nodes."""
    return change.check, change.first, change.second, change.against


@dataclass(frozen=True)
class _Strata:
    """One change on every node that shows it: arrays with an entry a node, on the scale of the check."""

    changes: tuple[Change, ...]
    before: FloatArray
    difference: FloatArray
    variance: FloatArray
    freedom: FloatArray
    weight: FloatArray
    of_reference: FloatArray

    @property
    def share(self) -> FloatArray:
        return np.asarray(self.weight / self.weight.sum(), np.float64)


def combine_nodes(verdicts: Mapping[str, Verdict]) -> Combined:
    """Combine the verdicts of several nodes on one configuration, by the variation between runs."""
    if not verdicts:
        raise DataError("no node to combine; give the verdict of at least one")
    first = next(iter(verdicts.values()))
    if any((one.alpha, one.tolerance) != (first.alpha, first.tolerance) for one in verdicts.values()):
        raise DataError("the nodes' verdicts use different alpha or tolerance; make them with the same")
    strata = _by_change(verdicts)
    these = _joint(first, verdicts, [_on_these(one, first.alpha) for one in strata.values()])
    of_type = None
    if len(verdicts) >= FEWEST_FOR_TYPE:
        everywhere = [one for one in strata.values() if len(one.changes) >= FEWEST_FOR_TYPE]
        of_type = _joint(first, verdicts, [_on_type(one, first.alpha) for one in everywhere])
    return Combined(
        first.configuration,
        tuple(verdicts),
        dict(verdicts),
        these,
        of_type,
        {key: _heterogeneity(one) for key, one in strata.items() if len(one.changes) > 1},
        _hangs_on(verdicts, these) if len(verdicts) > 1 else {},
    )


def _by_change(verdicts: Mapping[str, Verdict]) -> dict[_Key, _Strata]:
    """Return each change of any node with what every node shows of it."""
    found: dict[_Key, list[Change]] = {}
    for verdict in verdicts.values():
        for change in verdict.changes:
            if np.isfinite(change.standard_error):
                found.setdefault(change_key(change), []).append(change)
    return {key: _strata(changes) for key, changes in found.items()}


def _strata(changes: Sequence[Change]) -> _Strata:
    before = np.array([fisher(one.reference).mean() for one in changes])
    after = np.array([fisher(one.observed).mean() for one in changes])
    k = np.array([len(one.reference) for one in changes], np.float64)
    r = np.array([len(one.observed) for one in changes], np.float64)
    return _Strata(
        tuple(changes),
        before,
        after - before,
        np.array([one.standard_error**2 for one in changes]),
        np.array([one.freedom for one in changes]),
        k * r / (k + r),
        r / (k + r),  # 1/k beside 1/r
    )


def _pooled(strata: _Strata) -> tuple[float, float]:
    """Return the variance of one run, pooled over nodes, and its degrees of freedom."""
    each = strata.variance * strata.weight
    if np.isinf(strata.freedom).any():
        return float(each.mean()), float("inf")
    return float((strata.freedom * each).sum() / strata.freedom.sum()), float(strata.freedom.sum())


def _on_these(strata: _Strata, alpha: float) -> Change:
    """Combine the differences within nodes by fixed weights; their errors pooled, and node by node (Satterthwaite)."""
    share = strata.share
    parts = share**2 * strata.variance
    pooled_variance, pooled_freedom = _pooled(strata)
    pooled_parts = share**2 * pooled_variance / strata.weight
    freedom = (
        parts.sum() ** 2 / (parts**2 / strata.freedom).sum() if np.isfinite(strata.freedom).all() else float("inf")
    )
    wider = _wider(strata, share)
    ways = [
        _errors(pooled_parts, strata.of_reference, pooled_freedom, wider),
        _errors(parts, strata.of_reference, float(freedom)),
    ]
    return _change(strata, share, ways, float(np.sqrt(pooled_parts.sum())), pooled_freedom, alpha)


def _on_type(strata: _Strata, alpha: float) -> Change:
    """Take the changes of the nodes for a sample: t over differences by node, each with the same weight."""
    count = len(strata.changes)
    share = np.full(count, 1 / count)
    error = float(strata.difference.std(ddof=1) / np.sqrt(count))
    # Changes that agree better than the runs within nodes allow do so by chance.
    least = float(np.sqrt((share**2 * strata.variance).sum())) if error < 1e-12 else error
    # The spread may come from what the configuration does on each node, or from the few runs of both groups there. On
    # the scale of ρ an error of the reference weighs otherwise than one of the checked runs: the wider interval holds.
    known = MeanErrors(np.zeros(1), np.full(1, least), np.full(1, count - 1.0))
    parts = np.full(count, least**2 / count)
    ways = [known, _errors(parts, strata.of_reference, count - 1.0)]
    return _change(strata, share, ways, least, count - 1.0, alpha)


def _wider(strata: _Strata, share: FloatArray) -> float:
    """Return how much more checked runs vary than the reference's, as `compare_runs` has it within a run."""
    if strata.changes[0].check not in ("inner", "software"):
        return 1.0
    before = float((share * strata.before).sum())
    after = before + float((share * strata.difference).sum())
    return float(wider_below_one(from_fisher(np.full(1, before)), from_fisher(np.full(1, after)))[0])


def _errors(parts: FloatArray, of_reference: FloatArray, freedom: float, wider: float = 1.0) -> MeanErrors:
    reference, observed = (parts * of_reference).sum(), wider**2 * (parts * (1 - of_reference)).sum()
    return MeanErrors(np.full(1, np.sqrt(reference)), np.full(1, np.sqrt(observed)), np.full(1, freedom))


def _change(
    strata: _Strata, share: FloatArray, ways: Sequence[MeanErrors], error: float, freedom: float, alpha: float
) -> Change:
    """Return the joint change by weights of the nodes and by the ways to take its errors, the first of which tests."""
    model = strata.changes[0]

    def runs(configuration: str, side: str) -> RunGroup:
        names = tuple(run for change in strata.changes for run in getattr(change, f"{side}_runs"))
        rho = np.array([value for change in strata.changes for value in getattr(change, side)])
        return RunGroup(configuration, names, rho[:, None])

    before = np.full(1, float((share * strata.before).sum()))
    after = before + float((share * strata.difference).sum())
    bounds = widest_bounds(before, after, ways, alpha)
    compared = comparison((before, after), np.full(1, error), bounds, ways[:1], np.full(1, freedom), ("",))
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
    """Return the verdict of joint changes, corrected family-wise."""
    decided = decide(changes, alpha=first.alpha)
    lost = tuple(
        dict.fromkeys((name, f"{why} (node {node})") for node, one in verdicts.items() for name, why in one.lost)
    )
    if not decided:
        lost = (*lost, (first.configuration, "no change was compared on enough nodes"))
    return replace(
        first,
        verdict=combine((change.verdict for change in decided), lost=bool(lost)),
        changes=decided,
        excluded=(),
        lost=lost,
        notes=(),
    )


def _heterogeneity(strata: _Strata) -> Heterogeneity:
    """Test whether the changes of the nodes differ by more than the runs within nodes do."""
    variance, freedom = _pooled(strata)
    between = len(strata.changes) - 1
    mean = float((strata.share * strata.difference).sum())
    q = float((strata.weight * (strata.difference - mean) ** 2).sum() / variance) if variance else 0.0
    ratio = q / between
    p = special.chdtrc(between, q) if np.isinf(freedom) else special.fdtrc(between, freedom, ratio)
    return Heterogeneity(q, float(p), max(0.0, 1 - 1 / ratio) if ratio else 0.0)


def _hangs_on(verdicts: Mapping[str, Verdict], these: Verdict) -> dict[str, VerdictName]:
    """Return the nodes without which the verdict on these nodes would be another, and that verdict."""
    found: dict[str, VerdictName] = {}
    for node in verdicts:
        others = {name: verdict for name, verdict in verdicts.items() if name != node}
        first = next(iter(others.values()))
        left = _joint(first, others, [_on_these(one, first.alpha) for one in _by_change(others).values()])
        if left.verdict != these.verdict:
            found[node] = left.verdict
    return found


def apart(quantities: Mapping[str, Mapping[str, float]]) -> dict[str, str]:
    """Return the nodes whose baseline is unlike that of the others, and what differs; none with fewer than 5 nodes.

    `quantities`: Quantity (such as the mean logarithm of a metric's total in the baseline) to node to its value.

    The rule sees baselines alone, and so favours no verdict. Each node is compared with the mean of the others by its
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
