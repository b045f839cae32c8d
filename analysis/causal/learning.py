"""`learn`: from a table to its causal model.

prepare      columns become variables
adjacency    which are directly related, by tests of independence; rivals are kept
refinement   between rivals is chosen by description length; what the search lost is found again
orientation  required edges, the order that is known, v-structures, Meek's rules
regression   each variable's mechanism
stability    the same again on parts of the table
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import polars as pl

from unperturbed.analysis.causal.adjacency import Pair, Separation, find_adjacencies, pair_of
from unperturbed.analysis.causal.equivalence import TIE_BITS, Bits, Relations
from unperturbed.analysis.causal.independence import CombinedTest, IndependenceTest, KernelTest, PaperTest, RegressionTest
from unperturbed.analysis.causal.knowledge import Edge as Arrow
from unperturbed.analysis.causal.knowledge import Knowledge
from unperturbed.analysis.causal.model import CausalModel, Edge, Settings
from unperturbed.analysis.causal.orientation import Orientation, extend, orient
from unperturbed.analysis.causal.refinement import Refined, refine
from unperturbed.analysis.causal.regression import Mechanism, fit_mechanism
from unperturbed.analysis.causal.stability import stability_of
from unperturbed.analysis.causal.variables import Data, Kind, prepare
from unperturbed.errors import DataError

__all__ = ["Test", "learn"]

_FEWEST_ROWS = 3
Test = Literal["auto", "regression", "kernel", "paper"]
"""Which test of independence decides."""


def learn(
    table: pl.DataFrame | Data,
    knowledge: Knowledge | None = None,
    *,
    kinds: Mapping[str, Kind] | None = None,
    missing: Literal["error", "drop"] = "error",
    test: Test = "auto",
    alpha: float = 0.01,
    depth: int = 3,
    subsamples: int = 10,
    seed: int = 0,
    quantify: bool = True,
) -> CausalModel:
    """Learn what causes what in a table of runs, and by which formula.

    Parameters
    ----------
    table : polars.DataFrame or Data
        One row a run, one column a parameter, counter or time.
    knowledge : Knowledge, optional
        Say at least which order the variables have: parameters, derived from them, events, cycles, time. Without it many
        directions stay open, and variables that determine each other (T = #op·C) can be told apart less often.
    kinds, missing
        See `prepare`; only for a DataFrame.
    test : {"auto", "regression", "kernel", "paper"}
        "regression" sees dependences of the mean, and is the fastest. "auto" asks kernel mutual information too before it
        drops an edge. "kernel" asks nothing else. "paper" is the paper's threshold on mutual information, for reproduction:
        its constants do not transfer.
    alpha : float
        Chance that a single test finds a dependence where there is none.
    depth : int
        Largest set that is held fixed in a test.
    subsamples : int
        Parts of the table from which the edges are learnt again (by regression) for their stability; 0 leaves it out.
    seed : int
        Of subsamples and permutations.
    quantify : bool
        Whether to fit each variable's mechanism.

    Returns
    -------
    CausalModel

    Raises
    ------
    DataError
        A table that `prepare` refuses, knowledge that contradicts itself or speaks of other variables.
    ValueError
        An unknown test; alpha that is not between 0 and 1; a negative depth or number of subsamples.

    Notes
    -----
    Sections 5 to 7 of Lemeire et al., "Causal analysis for performance modeling of computer programs", with the deviations
    that the modules' docstrings say. Causes that are not in the table are not looked for: parameters that were varied
    belong into it.
    """
    if test not in get_args(Test):
        raise ValueError(f"test is one of {', '.join(get_args(Test))}, not {test!r}")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha lies between 0 and 1, not {alpha}")
    if depth < 0 or subsamples < 0:
        raise ValueError(f"depth and subsamples cannot be negative: {depth}, {subsamples}")
    if isinstance(table, Data) and (kinds or missing != "error"):
        raise ValueError("kinds and missing are for a DataFrame; a Data has them already")
    data = table if isinstance(table, Data) else prepare(table, kinds=kinds, missing=missing)
    if data.rows < _FEWEST_ROWS:
        raise DataError(
            f"{data.rows} rows are too few to learn from; {_FEWEST_ROWS} are the least, and some ten a variable tell something"
        )
    known = (knowledge or Knowledge()).among(
        data.names,
        [one.name for one in data.exclusions],
        [one.name for one in data.exclusions if one.is_constant],
    )
    learning = _Learning(data, known, Settings(test, alpha, depth, subsamples, seed))
    return learning.model(quantify=quantify)


@dataclass(frozen=True)
class _Tests:
    """The test that decides, and the one that is asked first and often."""

    slow: IndependenceTest
    quick: IndependenceTest
    regression: RegressionTest

    @classmethod
    def of(cls, data: Data, settings: Settings) -> _Tests:
        """Return the tests that were chosen, on one table."""
        alpha = settings.alpha
        regression = RegressionTest(data, alpha=alpha)
        if settings.test == "auto":
            kernel = KernelTest(data, alpha=alpha, seed=settings.seed)
            return cls(CombinedTest(regression, kernel, alpha=alpha), regression, regression)
        if settings.test == "kernel":
            only: IndependenceTest = KernelTest(data, alpha=alpha, seed=settings.seed)
        else:
            only = PaperTest(data, seed=settings.seed) if settings.test == "paper" else regression
        return cls(only, only, regression)


class _Learning:
    def __init__(self, data: Data, knowledge: Knowledge, settings: Settings) -> None:
        self._data = data
        self._knowledge = knowledge
        self._settings = settings
        self._near: Mapping[str, frozenset[str]] = {}
        self._fitted: dict[tuple[str, tuple[str, ...]], Mechanism] = {}

    def model(self, *, quantify: bool) -> CausalModel:
        """Learn edges, directions, mechanisms and stability."""
        tests = _Tests.of(self._data, self._settings)
        found = self._refined(self._data, tests, self._bits)
        self._near = found.adjacent
        oriented = orient(
            found.adjacent,
            found.separations,
            self._knowledge,
            determined=lambda name, given: tests.regression.determines(given, name),
        )
        stabilities: Mapping[Pair, float] = {}
        if self._settings.subsamples:
            stabilities = stability_of(
                self._data, self._adjacencies, subsamples=self._settings.subsamples, seed=self._settings.seed
            )
        assumed = extend(self._data.names, oriented.directed, oriented.undirected, self._knowledge)
        causes = self._causes(oriented.directed | set(assumed))
        mechanisms = {name: self._mechanism(name, causes[name]) for name in self._data.names} if quantify else {}
        return CausalModel(
            data=self._data,
            knowledge=self._knowledge,
            edges=self._edges(found, oriented, assumed, stabilities, tests),
            separations=tuple(sorted(found.separations.values(), key=self._place_of_separation)),
            equivalences=found.equivalences,
            mechanisms=mechanisms,
            assumed=assumed,
            stabilities=stabilities,
            settings=self._settings,
        )

    def _unlike_whole(self, target: str, parents: Sequence[str]) -> float:
        return 2 * TIE_BITS * len(self._near[target].symmetric_difference(parents))

    def _bits(self, target: str, parents: Sequence[str]) -> float:
        return self._mechanism(target, parents).bits

    def _refined(self, data: Data, tests: _Tests, bits: Bits) -> Refined:
        skeleton = find_adjacencies(data.names, tests.slow, self._knowledge, depth=self._settings.depth, quick=tests.quick)
        relations = Relations(
            bits=bits,
            separates=lambda name, target, given: tests.quick.test(name, target, given).independent,
            unexplained=tests.regression.unexplained,
            is_determined=lambda name, given: tests.regression.determines(given, name),
        )
        return refine(skeleton, tests.quick, relations, self._knowledge)

    def _adjacencies(self, part: Data) -> Iterable[Pair]:
        """Learn from a part of the table; where tests leave a choice, it is what the whole table chose."""
        regression = RegressionTest(part, alpha=self._settings.alpha)
        found = self._refined(part, _Tests(regression, regression, regression), self._unlike_whole)
        return {pair_of(one, other) for one, near in found.adjacent.items() for other in near}

    def _mechanism(self, target: str, parents: Sequence[str]) -> Mechanism:
        key = target, tuple(parents)
        if key not in self._fitted:
            self._fitted[key] = fit_mechanism(self._data, target, parents)
        return self._fitted[key]

    def _causes(self, arrows: Iterable[Arrow]) -> dict[str, tuple[str, ...]]:
        sources: dict[str, set[str]] = {name: set() for name in self._data.names}
        for source, target in arrows:
            sources[target].add(source)
        return {name: tuple(one for one in self._data.names if one in causes) for name, causes in sources.items()}

    def _edges(
        self,
        found: Refined,
        oriented: Orientation,
        assumed: Sequence[Arrow],
        stabilities: Mapping[Pair, float],
        tests: _Tests,
    ) -> tuple[Edge, ...]:
        adjusted = _adjusted(found.p_values)
        causes = self._causes(oriented.directed | set(assumed))
        place = self._data.names.index
        nothing = 0.0 if self._settings.subsamples else math.nan
        edges = []
        for source, target in (*oriented.directed, *(tuple(sorted(pair, key=place)) for pair in oriented.undirected)):
            pair = pair_of(source, target)
            into = target if (source, target) in oriented.directed or (source, target) in assumed else source
            held = [name for name in causes[into] if name not in pair]
            strength = tests.regression.test(source, target, held).bits
            edges.append(
                Edge(
                    source=source,
                    target=target,
                    directed=(source, target) in oriented.directed,
                    strength=strength,
                    p_value=adjusted.get(pair, math.nan),
                    stability=stabilities.get(pair, nothing),
                    required=self._knowledge.requires(source, target),
                    definitional=self._knowledge.is_definitional(source, target),
                    conflicting=pair in oriented.conflicts,
                )
            )
        return tuple(sorted(edges, key=lambda edge: (self._rank(edge.source), self._rank(edge.target))))

    def _rank(self, name: str) -> tuple[tuple[int, int], int]:
        return self._knowledge.comes_first(name), self._data.names.index(name)

    def _place_of_separation(self, found: Separation) -> list[int]:
        return sorted(map(self._data.names.index, (found.one, found.other)))


def _adjusted(p_values: Mapping[Pair, float]) -> dict[Pair, float]:
    """Return p-values after control of false discoveries over all pairs that were tested; without p-values, none."""
    from scipy.stats import false_discovery_control  # noqa: PLC0415  slow to load

    tested = [pair for pair, value in p_values.items() if not math.isnan(value)]
    if not tested:
        return {}
    values = false_discovery_control(np.array([p_values[pair] for pair in tested]))
    return dict(zip(tested, values.tolist(), strict=True))
