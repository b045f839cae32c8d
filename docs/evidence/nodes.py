"""How often verdicts over nodes err, and what they see: docs/evidence/nodes.md.

python docs/evidence/nodes.py --campaigns 1000 --seed 1
python docs/evidence/nodes.py --rounds 200 --seed 1
python docs/evidence/nodes.py --wider 300 --seed 2

The others write only the sections on runs within rounds and on checked runs that spread more widely.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[2]))

from experiments.calibration.nodes import rounds_on_nodes
from experiments.calibration.rounds import ROUND_KINDS
from experiments.common.provenance import made_by
from experiments.common.sections import write_section
from tests.analysis import simulate
from tests.analysis.floor.simulate import runs_of_totals
from tests.analysis.nodes.simulate import LEVEL, SPREAD, Case, runs_of, verdicts_of
from unperturbed.analysis.nodes.combine import combine_nodes
from unperturbed.analysis.perturbation import SHOWN, Baseline, Verdict, combine_checks
from unperturbed.analysis.totals import check_totals
from unperturbed.analysis.totals.verdict import combine_totals

FOUR = ((8, 5),) * 4
CASES = (
    Case("no effect, balanced, 4 nodes", FOUR),
    Case("no effect, unbalanced, 4 nodes", ((15, 2), (10, 3), (5, 8), (5, 10))),
    Case("no effect, the least runs, 4 nodes", ((5, 2),) * 4),
    Case("effect 0.8, balanced, 4 nodes", FOUR, effect=0.8),
    Case("no mean effect, node × configuration 0.7, 4 nodes", FOUR, interaction=0.7),
    Case("no mean effect, node × configuration 0.7, 12 nodes", ((8, 5),) * 12, interaction=0.7),
    Case("effect 0.8, node × configuration 0.7, 12 nodes", ((8, 5),) * 12, effect=0.8, interaction=0.7),
)
INTERVALS, METRICS = 100, 4
BY_FORMULA, MANY = 400_000, 100_000
_TARGET = Path(__file__).with_name("nodes.md")
_ROUNDS = "## Runs within rounds"
"""The first section of the page's end, whose sections are each made by a command of their own."""
WIDER_SHARES, TOTAL_TOLERANCE = ((10, 3), (8, 5), (5, 2)), 0.01

ROUNDS_TEXT = f"""\
{_ROUNDS}

{{made}} It took {{seconds:.0f}} s of one core.

Runs of equal work, or of a layout that is drawn in each round, share something within rounds, and are compared within
them ([Verdicts](../explanation/verdicts.md)). {{campaigns}} simulated campaigns a row, on four nodes, with five
metrics. *shared*: share of the variance between runs that the runs of a round have in common. *three classes*: each
round belongs to one of three kinds, and rounds of a kind are alike. In outer checks, two runs of one round are taken
to correlate perfectly.

- *false alarms*: share in which some change is shown (family-wise, at a tolerance of 0) where there is none: 0.05 at
  most.
- *accepted*: share of changes of exactly the tolerance (0.1, from ρ 0.8) that are called unperturbed: 0.05 at most.
- *called perturbed*: share in which some such change is called perturbed: 0.05 at most.

Each is given for these nodes, and then for this type of node. The false alarms of the type are those of Student's t of
four nodes: in a family of five inner correlations, whose differences within rounds are normal here, 1 − (1 − 0.05/5)⁵ =
0.049. The largest of twelve such rows is then expected about 1.6 standard errors above.

| check | rounds | shared | baseline runs | checked runs | false alarms | type | accepted | type | perturbed | type |
|---|---|---|---|---|---|---|---|---|---|---|
{{rows}}

"""

WIDER_TEXT = """\
## Checked runs that spread more widely

{made} It took {seconds:.0f} s of one core.

The r checked runs have 1, 2 and 3 times the spread of the k baseline runs, on four nodes alike; {campaigns} campaigns a
row, of one change. As on one host, the interval is the wider of Welch's and that by the spread pooled over both sides.
*By formula*: the same test by its formulas alone, over {many:,} campaigns; what the tool's columns have beyond these is
noise of the simulation, and alike in rows of the same runs. Until 28 November 2026, the pooled spread was used alone;
the last column has what its formula accepts at the tolerance.

- *false alarms*: share in which a change is shown (at a tolerance of 0) where there is none. The test pools both sides,
  and the interval must exclude 0 too: 0.10 at most, where the spreads differ.
- *accepted*, *called perturbed*: shares of changes of exactly the tolerance: 0.05 at most.

| change | k | r | spread | false alarms | accepted | perturbed | by formula | accepted | perturbed | pooled alone |
|---|---|---|---|---|---|---|---|---|---|---|
{rows}

"""

TEXT = """\
# Verdicts over nodes

{made} It took {seconds:.0f} s of one core.

**What changed on this page, and why.** Since November 2026 outer changes are compared on Fisher's scale, with the
spread that runs have at their level of agreement ([Calibration](calibration.md#outer-checks)).

Simulated campaigns of one change on several nodes. Runs of a node have standard deviation 1, the nodes' levels 2; α =
0.05. The unbalanced case has 15, 10, 5 and 5 baseline runs and 2, 3, 8 and 10 checked runs; the least has 5 and 2; all
others have 8 and 5.

Each number is the share of campaigns in which a change is shown (shifted or perturbed, with a tolerance of 0). Where
there is no effect it is the false-alarm rate, which should be at most 0.05; ± is one standard error of the
simulation. *pooled*: a t test of all runs, which ignores
nodes; it is not offered. *these nodes* and *this type of node* are the tool's own verdicts. *heterogeneity*: share with
p ≤ 0.05 of "the change is the same on every node".

| case | pooled | these nodes | this type of node | heterogeneity |
|---|---|---|---|---|
{rows}

*These nodes* is exact where runs are normal and spread alike: the same test by its formula alone, over {formula:,}
campaigns of each of the first three cases, gives {exact}. What the table has beyond 0.05 is noise of
the simulation. It is alike in all rows, because they use the same draws.

With an effect of configuration that varies between nodes (node × configuration), *these nodes* shows a change in more
than 5 % of campaigns, and rightly: on these nodes, there is one. A claim about the type of node is the other column.

## The whole verdict at a tolerance

The true change on every node is exactly the tolerance (0.1 of ρ), without variation between nodes. *accepted*: share
that is called unperturbed, 0.05 at most. *called perturbed*: 0.05 at most.

| case | accepted: these nodes | accepted: this type | called perturbed: these nodes | called perturbed: this type |
|---|---|---|---|---|
{bounds}

## Families of changes

{family_campaigns} campaigns a case with traces: each node runs a program of its own, with {metrics} metrics over
{intervals} intervals, which nothing changes. The tolerance is the usual 0.1 of ρ.

- *pairs*: inner changes of its {pairs} pairs. *outer*: changes of its {metrics} metrics after alignment on one of them.
  *both*: all of them in one family, as a campaign judges them.
- *significant*: share in which some change is significant family-wise: the test's own level, 0.05 at most.
- *called changed*: share that is called shifted or perturbed: 0.05 at most.

| case | changes | called changed: these nodes | significant: these nodes | called changed: this type |
|---|---|---|---|---|
{families}
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulate, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--campaigns", type=int, default=1000)
    parser.add_argument("--families", type=int, default=400, help="campaigns whose traces are simulated")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, help="write only the section on rounds, from so many campaigns a row")
    parser.add_argument("--wider", type=int, help="write only the section on wider checked runs, likewise")
    given = parser.parse_args(arguments)
    made, started = made_by(), time.process_time()
    if given.rounds:
        _write_rounds(made, given.rounds, given.seed)
        return
    if given.wider:
        _write_wider(made, given.wider, given.seed)
        return
    rows = [_row(case, given.campaigns, given.seed) for case in CASES]
    bounds = [_bounds(case, given.campaigns, given.seed) for case in CASES[:3]]
    families = [row for case in CASES[:3] for row in _families(case, given.families, given.seed)]
    page = TEXT.format(
        made=made,
        campaigns=given.campaigns,
        seconds=time.process_time() - started,
        rows="\n".join(rows),
        bounds="\n".join(bounds),
        families="\n".join(families),
        formula=BY_FORMULA,
        exact=", ".join(f"{_by_formula(case, given.seed):.4f}" for case in CASES[:3]),
        family_campaigns=given.families,
        intervals=INTERVALS,
        metrics=METRICS,
        pairs=METRICS * (METRICS - 1) // 2,
    )
    _, heading, rest = _TARGET.read_text().partition(_ROUNDS)
    page += f"\n{heading}{rest}"
    _TARGET.write_text(page)
    print(page)


def _write_rounds(made: str, campaigns: int, seed: int) -> None:
    """Replace the section on rounds."""
    started = time.process_time()
    kinds = [(check, kind) for check in ("inner", "outer") for kind in ROUND_KINDS]
    rows = [row for check, kind in kinds for row in rounds_on_nodes(campaigns, seed, check, kind)]
    seconds = time.process_time() - started
    write_section(_TARGET, ROUNDS_TEXT.format(made=made, seconds=seconds, campaigns=campaigns, rows="\n".join(rows)))


def _write_wider(made: str, campaigns: int, seed: int) -> None:
    """Replace the section on checked runs that spread more widely."""
    started = time.process_time()
    rows = [row for share in WIDER_SHARES for wider in (1, 2, 3) for row in wider_rows(campaigns, seed, share, wider)]
    seconds = time.process_time() - started
    write_section(
        _TARGET, WIDER_TEXT.format(many=MANY, made=made, seconds=seconds, campaigns=campaigns, rows="\n".join(rows))
    )


def wider_rows(campaigns: int, seed: int, share: tuple[int, int], wider: float) -> list[str]:
    """Return rows of an inner correlation and of a total, whose checked runs spread `wider` times as much."""
    runs = runs_of(Case("", (share,) * 4, node=0.0, wider=wider), campaigns, seed)
    level, tolerance = np.arctanh(0.5) - LEVEL, np.arctanh(0.6) - np.arctanh(0.5)
    outcomes: dict[str, list[list[str]]] = {"inner": [], "total": []}
    for change, bound in ((0.0, 0.0), (tolerance, 0.1)):
        moved = [(baseline + level, checked + level + change) for baseline, checked in runs]
        found = [combine_nodes(one).these.verdict for one in verdicts_of(moved, alpha=0.05, tolerance=bound)]
        outcomes["inner"].append([*found])
    for factor, bound in ((1.0, 0.0), (1 + TOTAL_TOLERANCE, TOTAL_TOLERANCE)):
        outcomes["total"].append([_verdict_on_total(runs, at, factor, bound) for at in range(campaigns)])
    by_formula = " | ".join(f"{each:.3f}" for each in _wider_by_formula(share, wider, seed))
    rows = []
    for name, (unchanged, at_bound) in outcomes.items():
        shares = " | ".join(_share(float(np.mean(each)), campaigns) for each in _errors_of(unchanged, at_bound))
        rows.append(f"| {name} | {share[0]} | {share[1]} | {wider:g} × | {shares} | {by_formula} |")
    return rows


def _errors_of(unchanged: Sequence[str], at_bound: Sequence[str]) -> list[list[bool]]:
    """Return for each campaign whether it is a false alarm, accepted at the tolerance, called perturbed there."""
    return [
        [name in SHOWN for name in unchanged],
        [name == "unperturbed" for name in at_bound],
        [name == "perturbed" for name in at_bound],
    ]


def _wider_by_formula(share: tuple[int, int], wider: float, seed: int) -> list[float]:
    """Return the shares of many campaigns by the formulas alone, and what the spread pooled over both sides accepts.

    False alarms, and changes of the tolerance that are accepted and called perturbed.
    """
    (k, r), nodes, chance = share, 4, np.random.default_rng([seed, *share, int(wider)])
    before = chance.normal(size=(nodes, k, MANY))
    after = wider * chance.normal(size=(nodes, r, MANY))
    change = (after.mean(axis=1) - before.mean(axis=1)).mean(axis=0)
    squares = before.var(axis=1, ddof=1), after.var(axis=1, ddof=1)
    freedom = k + r - 2
    pooled = ((k - 1) * squares[0] + (r - 1) * squares[1]) / freedom * (1 / k + 1 / r)

    def reach(*parts: tuple[np.ndarray, int]) -> np.ndarray:
        total = sum(part.sum(axis=0) for part, _ in parts)
        degrees = total**2 / sum((part**2 / of).sum(axis=0) for part, of in parts)
        return np.asarray(np.sqrt(total) / nodes * stats.t.isf(0.05, degrees))

    error = np.sqrt(pooled.mean(axis=0) / nodes)
    alone = np.maximum(reach((pooled, freedom)), error * stats.t.isf(0.05, nodes * freedom))
    half = np.maximum(alone, reach((squares[0] / k, k - 1), (squares[1] / r, r - 1)))
    shown = 2 * stats.t.sf(np.abs(change) / error, nodes * freedom) <= 0.05
    beyond = stats.t.sf(change / error, nodes * freedom) <= 0.05
    outcomes = shown & (np.abs(change) > half), change + half < 0, beyond & (change > half), change + alone < 0
    return [float(outcome.mean()) for outcome in outcomes]


def _verdict_on_total(
    runs: Sequence[tuple[np.ndarray, np.ndarray]], campaign: int, factor: float, tolerance: float
) -> str:
    """Return the verdict over nodes on a total, whose runs spread by a fifth of the tolerance."""
    by_node = {}
    for node, sides in enumerate(runs):
        noise = [TOTAL_TOLERANCE / 5 * (side[:, campaign] - LEVEL) / SPREAD for side in sides]
        totals = (1e9 * np.exp(noise[0]), 1e9 * factor * np.exp(noise[1]))
        before, after = (runs_of_totals(name, total.tolist()) for name, total in zip("ab", totals, strict=True))
        by_node[str(node)] = check_totals(before, after, ["cycles"], tolerances={"default": tolerance})
    (joint,) = combine_totals(by_node, alpha=0.05)
    return joint.verdict


def _row(case: Case, campaigns: int, seed: int) -> str:
    runs = runs_of(case, campaigns, seed)
    pooled = stats.ttest_ind(
        np.concatenate([checked for _, checked in runs]), np.concatenate([baseline for baseline, _ in runs])
    ).pvalue
    found = [combine_nodes(one) for one in verdicts_of(runs, alpha=0.05, tolerance=0.0)]
    these = [one.these.verdict in SHOWN for one in found]
    kind = [one.type is not None and one.type.verdict in SHOWN for one in found]
    varies = [next(iter(one.heterogeneity.values())).p <= 0.05 for one in found]
    shares = [float(np.mean(one)) for one in (pooled <= 0.05, these, kind, varies)]
    return f"| {case.name} | {' | '.join(_share(one, campaigns) for one in shares)} |"


def _bounds(case: Case, campaigns: int, seed: int) -> str:
    """Return what becomes of a change that is exactly the tolerance."""
    level, change = np.arctanh(0.5) - LEVEL, np.arctanh(0.6) - np.arctanh(0.5)
    runs = runs_of(replace(case, node=0.0), campaigns, seed)
    alike = [(baseline + level, checked + level + change) for baseline, checked in runs]
    found = [combine_nodes(one) for one in verdicts_of(alike, alpha=0.05, tolerance=0.1)]
    kinds = [one.type for one in found if one.type is not None]
    shares = [
        float(np.mean([one.these.verdict == "unperturbed" for one in found])),
        float(np.mean([one.verdict == "unperturbed" for one in kinds])),
        float(np.mean([one.these.verdict == "perturbed" for one in found])),
        float(np.mean([one.verdict == "perturbed" for one in kinds])),
    ]
    name = case.name.removeprefix("no effect, ")
    return f"| {name} | {' | '.join(_share(one, campaigns) for one in shares)} |"


def _by_formula(case: Case, seed: int) -> float:
    """Return the share of many campaigns with p ≤ 0.05 in the test of these nodes: differences within nodes, pooled."""
    runs = runs_of(case, BY_FORMULA, seed + 1)
    weight = np.array([k * r / (k + r) for k, r in case.shares])
    difference = np.array([checked.mean(axis=0) - baseline.mean(axis=0) for baseline, checked in runs])
    squares = sum(((cell - cell.mean(axis=0)) ** 2).sum(axis=0) for node in runs for cell in node)
    freedom = sum(k + r - 2 for k, r in case.shares)
    statistic = weight @ difference / np.sqrt(weight.sum() * squares / freedom)
    return float((np.abs(statistic) >= stats.t.isf(0.025, freedom)).mean())


def _families(case: Case, campaigns: int, seed: int) -> list[str]:
    """Return the shares of campaigns that call an unchanged configuration changed, by family of changes.

    Each node runs a program of its own, whose traces the checks of a real campaign judge: inner changes of all pairs,
    outer changes of all metrics after alignment, and both in one family.
    """
    chance = np.random.default_rng([seed, len(case.shares), *(runs for share in case.shares for runs in share)])
    shown: dict[str, list[tuple[bool, bool, bool]]] = {"pairs": [], "outer": [], "both": []}
    for _ in range(campaigns):
        by_node: dict[str, dict[str, Verdict]] = {name: {} for name in shown}
        for node, (k, r) in enumerate(case.shares):
            matrix = simulate.equicorrelated(METRICS, float(chance.uniform(0.1, 0.4)))
            program = simulate.program(chance, correlation=matrix, intervals=INTERVALS, phi=0.8, shared=0.8)
            baseline = Baseline(simulate.runs(program, chance, k), metrics=program.names)
            checked = simulate.runs(program, chance, r)
            inner = baseline.inner(checked)
            outer = baseline.outer(checked, align_on=program.names[-1:], anchor=simulate.MILESTONE)
            for name, verdict in (("pairs", inner), ("outer", outer), ("both", combine_checks("x", inner, outer))):
                by_node[name][f"node{node}"] = verdict
        for name, verdicts in by_node.items():
            found = combine_nodes(verdicts)
            least = min(change.p_corrected for change in found.these.changes)
            kind = found.type
            shown[name].append(
                (found.these.verdict in SHOWN, least <= 0.05, kind is not None and kind.verdict in SHOWN)
            )
    return [
        f"| {case.name} | {name} | {' | '.join(_share(float(one), campaigns) for one in np.mean(found, axis=0))} |"
        for name, found in shown.items()
    ]


def _share(share: float, campaigns: int) -> str:
    error = max(np.sqrt(share * (1 - share) / campaigns), 1 / campaigns)
    return f"{share:.3f} ± {error:.3f}"


if __name__ == "__main__":
    main()
