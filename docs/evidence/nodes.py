"""How often verdicts over nodes err, and what they see: docs/evidence/nodes.md.

python docs/evidence/nodes.py --campaigns 1000 --seed 1
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

from tests.analysis.nodes.simulate import LEVEL, Case, runs_of, verdicts_of
from unperturbed.analysis.nodes import combine_nodes
from unperturbed.analysis.perturbation import SHOWN

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
_TARGET = Path(__file__).with_name("nodes.md")

TEXT = """\
# Verdicts over nodes

Command: `python docs/evidence/nodes.py --campaigns {campaigns} --seed {seed}`; {seconds:.0f} s of one core.

Simulated campaigns of one change on several nodes. Runs of a node have standard deviation 1, the nodes' levels 2; α =
0.05. The unbalanced case has 15, 10, 5 and 5 baseline runs and 2, 3, 8 and 10 checked runs; the least has 5 and 2; all
others have 8 and 5.

Each number is the share of campaigns in which a change is shown (shifted or perturbed, with a tolerance of 0). Where
there is no effect it is the false-alarm rate, and 0.05 at most is right. *pooled*: a t test of all runs, which ignores
nodes; it is not offered. *these nodes* and *this type of node* are the tool's own verdicts. *heterogeneity*: share with
p ≤ 0.05 of "the change is the same on every node".

| case | pooled | these nodes | this type of node | heterogeneity |
|---|---|---|---|---|
{rows}

With an effect of configuration that varies between nodes (node × configuration), *these nodes* shows a change in more
than 5 % of campaigns, and rightly: on these nodes, there is one. A claim about the type of node is the other column.

## The whole verdict at a tolerance

The true change on every node is exactly the tolerance (0.1 of ρ), without variation between nodes. *accepted*: share
that is called unperturbed, 0.05 at most. *called perturbed*: 0.05 at most.

| case | accepted: these nodes | accepted: this type | called perturbed: these nodes | called perturbed: this type |
|---|---|---|---|---|
{bounds}
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulate, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--campaigns", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    started = time.process_time()
    rows = [_row(case, given.campaigns, given.seed) for case in CASES]
    bounds = [_bounds(case, given.campaigns, given.seed) for case in CASES[:3]]
    page = TEXT.format(
        campaigns=given.campaigns,
        seed=given.seed,
        seconds=time.process_time() - started,
        rows="\n".join(rows),
        bounds="\n".join(bounds),
    )
    _TARGET.write_text(page)
    print(page)


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
    return f"| {case.name} | {' | '.join(_share(one, campaigns) for one in shares)} |"


def _share(share: float, campaigns: int) -> str:
    error = max(np.sqrt(share * (1 - share) / campaigns), 1 / campaigns)
    return f"{share:.3f} ± {error:.3f}"


if __name__ == "__main__":
    main()
