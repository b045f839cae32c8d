"""How much sooner a search for a partition ends on several nodes: written to `docs/evidence/partition_nodes.md`.

    python docs/evidence/partition_nodes.py --trials 30 --seed 1

A trial is a search on a simulated program, as in `docs/evidence/partition.py`. Its runs are made by nodes with a clock
of their own (`tests/analysis/partition/queued.py`), on which each run takes the same time.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # the simulated programs are part of the tests, which are not installed

from experiments.common.provenance import made_by  # noqa: E402  after the path is set
from tests.analysis.partition.queued import Queued  # noqa: E402
from tests.analysis.partition.simulated import FastJudge, program  # noqa: E402
from unperturbed.analysis.partition import STRATEGIES, SearchSettings, search  # noqa: E402

NODES = (1, 2, 4, 8)
METRICS = 10

TEXT = """\
# Partition: how much sooner on several nodes

{made}

Searches on the simulated programs of [Partition](partition.md), with {metrics} software metrics, fresh baselines and no
limit. A node makes one run after the other, each in the same time, and a candidate has one node for all its runs. A
search waits for each candidate that it asks for. Meanwhile the nodes make the runs that it will ask for, or that it may
ask for next. The outcomes do not depend on the nodes, so that every search goes the same way on any number of them.

- *n nodes*: time on one node to time on n nodes, all searches together.
- *in vain*: runs of candidates that were not needed, to those that the search used.

| strategy | {heads} |
|---|{rules}
"""


def main() -> None:
    """Search each program on each number of nodes, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    arguments, made = parser.parse_args(), made_by()
    rows = []
    for strategy in STRATEGIES:
        times, vain = dict.fromkeys(NODES, 0), dict.fromkeys(NODES, 0.0)
        used = 0
        for trial in range(arguments.trials):
            of = program(np.random.default_rng([arguments.seed, trial]), metrics=METRICS)
            ways = set()
            for count in NODES:
                judge = Queued(FastJudge(of, trial, fresh=True), count)
                plan = search(
                    of.metrics, judge, SearchSettings(), strategy=strategy, ahead=judge.ahead if count > 1 else None
                )
                ways.add(tuple((one.stage, one.subset, one.repetitions) for one in plan.history))
                times[count] += judge.now
                vain[count] += judge.in_vain
            assert len(ways) == 1, "the search went another way"
            used += plan.runs_used
        cells = [f"{times[1] / times[count]:.2f} | {vain[count] / used:.0%}" for count in NODES[1:]]
        rows.append(f"| {strategy} | {' | '.join(cells)} |")
    heads = " | ".join(f"{count} nodes | in vain" for count in NODES[1:])
    text = TEXT.format(made=made, metrics=METRICS, heads=heads, rules="---|" * 2 * len(NODES[1:]))
    (ROOT / "docs" / "evidence" / "partition_nodes.md").write_text(text + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
