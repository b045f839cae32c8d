"""One causal search by one library on one synthetic campaign, in a process of its own.

    python tests/benchmarks/causal_learning_peers.py LIBRARY VARIABLES SEED

prints a line of JSON: adjacent pairs, and how long the search took. VARIABLES is 7 or 9. Each library is told the same
order of the variables.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.analysis.causal.lu_campaign import ALL, SEVEN, draw, knowledge

__all__ = ["LIBRARIES", "Library", "is_installed"]

ALPHA, DEPTH = 0.01, 3
_FIRST_ROWS = 60
Pairs = list[list[str]]


@dataclass(frozen=True)
class Library:
    """A search by another library.

    Attributes
    ----------
    package, module : str
        As it is installed and imported.
    search : Callable[[polars.DataFrame, Sequence[Sequence[str]]], Pairs]
        Finds adjacent pairs in a table whose columns have an order.
    slow : bool
        Whether it takes more than some seconds, so that fewer campaigns are searched.
    """

    package: str
    module: str
    search: Callable[[pl.DataFrame, Sequence[Sequence[str]]], Pairs]
    slow: bool = False


def is_installed(library: Library) -> bool:
    """Tell whether a library can be imported here, without importing it."""
    return importlib.util.find_spec(library.module) is not None


def _numbers(table: pl.DataFrame) -> Any:
    """Return text as codes: none of the libraries takes it."""
    return np.column_stack(
        [
            (column.rank("dense") - 1 if column.dtype == pl.String else column).cast(pl.Float64).to_numpy()
            for column in table.iter_columns()
        ]
    )


def _causal_learn(test: str) -> Callable[[pl.DataFrame, Sequence[Sequence[str]]], Pairs]:
    def search(table: pl.DataFrame, tiers: Sequence[Sequence[str]]) -> Pairs:
        from causallearn.graph.GraphNode import GraphNode
        from causallearn.search.ConstraintBased.PC import pc
        from causallearn.utils.PCUtils.BackgroundKnowledge import BackgroundKnowledge

        known = BackgroundKnowledge()
        for number, tier in enumerate(tiers):
            for name in tier:
                known.add_node_to_tier(GraphNode(name), number)
        names = table.columns
        found = pc(
            _numbers(table), ALPHA, test, depth=DEPTH, background_knowledge=known, node_names=names, show_progress=False
        ).G.graph
        return [
            [a, b] for i, a in enumerate(names) for j, b in enumerate(names) if i < j and (found[i, j] or found[j, i])
        ]

    return search


def _tigramite(module: str, test: str, **options: Any) -> Callable[[pl.DataFrame, Sequence[Sequence[str]]], Pairs]:
    def search(table: pl.DataFrame, tiers: Sequence[Sequence[str]]) -> Pairs:
        from tigramite.data_processing import DataFrame
        from tigramite.pcmci import PCMCI

        names, values = table.columns, _numbers(table)
        discrete = [table[name].dtype == pl.String or table[name].n_unique() <= 6 for name in names]
        kinds = np.tile(np.array(discrete, dtype=int), (len(values), 1))
        place = {name: number for number, tier in enumerate(tiers) for name in tier}
        links: dict[int, dict[tuple[int, int], str]] = {at: {} for at in range(len(names))}
        for i, a in enumerate(names):
            for j, b in enumerate(names):
                if i != j:
                    later = place[b] - place[a]
                    links[j][i, 0] = "o?o" if not later else "-?>" if later > 0 else "<?-"
        made = getattr(importlib.import_module(f"tigramite.independence_tests.{module}"), test)(**options)
        method = PCMCI(dataframe=DataFrame(values, data_type=kinds, var_names=names), cond_ind_test=made, verbosity=0)
        # run_pcalg_non_timeseries_data takes no assumptions about links; this is what it calls.
        result = method.run_pcalg(pc_alpha=ALPHA, tau_min=0, tau_max=0, max_conds_dim=DEPTH, link_assumptions=links)
        found = np.asarray(result["graph"]).reshape(len(names), len(names), -1)[:, :, 0]
        return [[a, b] for i, a in enumerate(names) for j, b in enumerate(names) if i < j and found[i, j]]

    return search


LIBRARIES = {
    "causal-learn, PC, Fisher z": Library("causal-learn", "causallearn", _causal_learn("fisherz")),
    "causal-learn, PC, KCI": Library("causal-learn", "causallearn", _causal_learn("kci"), slow=True),
    "tigramite, PC, RegressionCI": Library(
        "tigramite", "tigramite", _tigramite("regressionCI", "RegressionCI", significance="analytic")
    ),
    "tigramite, PC, CMIknn": Library(
        "tigramite", "tigramite", _tigramite("cmiknn", "CMIknn", significance="shuffle_test"), slow=True
    ),
}


def main() -> None:
    """Search one campaign."""
    library, variables, seed = LIBRARIES[sys.argv[1]], SEVEN if sys.argv[2] == "7" else ALL, int(sys.argv[3])
    table = draw(seed).select(variables)
    tiers = knowledge(variables).tiers
    library.search(draw(0, _FIRST_ROWS).select(variables), tiers)  # loads, and compiles what it compiles
    begun = time.perf_counter()
    pairs = library.search(table, tiers)
    print(json.dumps({"pairs": pairs, "seconds": time.perf_counter() - begun}))


if __name__ == "__main__":
    main()
