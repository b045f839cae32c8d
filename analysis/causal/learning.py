"""`learn`: the causal model of a table.

The stability of an edge is the share of subsamples in which the edge is found. A subsample is three quarters of the
rows without repetition, because a bootstrap's duplicates would make every variable look determined by any other.
Stability does not show edges that are too weak to be found at all.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import polars as pl

from unperturbed.analysis.causal.discovery.adjacency import Pair, Separation, find_adjacencies, pair_of, reached
from unperturbed.analysis.causal.discovery.agreement import Agreed, Descriptions, agree
from unperturbed.analysis.causal.discovery.refinement import (
    WORTH_A_PARENT,
    Bits,
    Equivalence,
    Refined,
    Relations,
    refine,
)
from unperturbed.analysis.causal.independence.methods import IndependenceTest, independence_tests
from unperturbed.analysis.causal.independence.methods.regression import RegressionTest
from unperturbed.analysis.causal.model.markov import p_value_of_residuals
from unperturbed.analysis.causal.model.result import CausalModel, Edge, LearningSettings
from unperturbed.analysis.causal.regression.curve_mechanism import CurveMechanism
from unperturbed.analysis.causal.regression.fit import fit_mechanism, is_counted
from unperturbed.analysis.causal.regression.mechanism import Mechanism
from unperturbed.analysis.causal.regression.problem import OPERATION_BITS
from unperturbed.analysis.causal.table.knowledge import Knowledge
from unperturbed.analysis.causal.table.variables import Data, Kind, prepare
from unperturbed.analysis.multiple_testing import benjamini_hochberg
from unperturbed.common.frames import to_polars
from unperturbed.common.reading.cells import read_columns
from unperturbed.errors import DataError

SHARE = 0.75
"""Share of the rows in each subsample."""


def stability_of(
    data: Data, adjacencies: Callable[[Data], Iterable[Pair]], *, subsamples: int, seed: int
) -> Mapping[Pair, float]:
    """Return, for each pair of variables, the share of subsamples in which they are adjacent."""
    random = np.random.default_rng(seed)
    counts: Counter[Pair] = Counter()
    size = max(3, round(SHARE * data.rows))
    for _ in range(subsamples):
        counts.update(adjacencies(data.take(np.sort(random.choice(data.rows, size, replace=False)))))
    return {pair: count / subsamples for pair, count in counts.items()}


_FEWEST_ROWS = 3


def learn(
    table: Any,
    knowledge: Knowledge | None = None,
    *,
    inputs: Sequence[str] = (),
    kinds: Mapping[str, Kind] | None = None,
    missing: Literal["error", "drop"] = "error",
    test: str = "auto",
    alpha: float = 0.01,
    depth: int = 3,
    subsamples: int = 10,
    seed: int = 0,
    quantify: bool = True,
) -> CausalModel:
    """Learn the causal graph of a table of runs, and the formula of each variable given its causes.

    Parameters
    ----------
    table : Data, polars.DataFrame, pandas.DataFrame, pyarrow.Table or mapping of str to sequence
        One row per run, one column per parameter, counter or time. Text is read as `unperturbed model` reads files:
        numbers with units ("12 MiB"), separators of thousands, dates, and marks of missing values ("?"). `prepare`
        takes text as it is.
    knowledge : Knowledge, optional
        Prior knowledge. Give at least the order of the variables, such as parameters, variables derived from them,
        events, cycles, time. Without an order, many directions stay open, and variables that determine each other
        (T = #op·C) are resolved less often.
    inputs : sequence of str, default ()
        Input parameters of the experiment, which nothing else in the table can cause; added to those of `knowledge`. An
        input that changes a variable while the other inputs are held fixed becomes one of its ancestors.
    kinds : mapping of str to Kind, optional
        As for `prepare`; not for a table of type `Data`.
    missing : {"error", "drop"}, default "error"
        As for `prepare`; not for a table of type `Data`.
    test : str, default "auto"
        Name of the independence test (see `independence.methods`). "regression" finds dependences of the mean, and is
        the fastest. "auto" confirms each independence by kernel mutual information before it removes an edge. "kernel"
        uses kernel mutual information alone. "paper" uses the paper's threshold on mutual information, for reproduction
        only: its constants do not suit other data. Other packages may add tests.
    alpha : float, default 0.01
        Significance level of a single test.
    depth : int, default 3
        Size of the largest conditioning set.
    subsamples : int, default 10
        Number of subsamples from which the edges are learnt again, by regression, to measure stability; 0: none.
    seed : int, default 0
        Seed of subsamples and permutations.
    quantify : bool, default True
        Whether to fit each variable's mechanism.

    Returns
    -------
    CausalModel
        Edges, separations, equivalences and mechanisms; `contradictions` has dependences that they rule out.

    Raises
    ------
    DataError
        `prepare` rejects the table, or the knowledge contradicts itself or names unknown variables.
    ValueError
        An unknown test; alpha that is not between 0 and 1; a negative depth or number of subsamples.

    Notes
    -----
    Sections 5 to 7 of Lemeire et al., "Causal analysis for performance modeling of computer programs", with the
    deviations that the modules' docstrings state. Causes that are not in the table are not searched for, so the table
    must have all input parameters of the experiment.
    """
    tests = independence_tests()
    if test not in tests:
        raise ValueError(f"`test` must be one of {', '.join(tests)}, not {test!r}")
    if not 0 < alpha < 1:
        raise ValueError(f"`alpha` must be above 0 and below 1, not {alpha}")
    if depth < 0 or subsamples < 0:
        raise ValueError(f"`depth` and `subsamples` must be 0 or more, not {depth} and {subsamples}")
    if isinstance(table, Data) and (kinds or missing != "error"):
        raise ValueError("`kinds` and `missing` do not apply to a table of type `Data`: pass them to `prepare` instead")
    data = table if isinstance(table, Data) else prepare(_read(table, kinds or {}), kinds=kinds, missing=missing)
    if data.rows < _FEWEST_ROWS:
        raise DataError(
            f"too few rows to learn from ({data.rows}): give at least {_FEWEST_ROWS}, and about ten per variable for "
            "useful results"
        )
    given = knowledge or Knowledge()
    given = replace(given, inputs=tuple(dict.fromkeys([*given.inputs, *inputs])))
    known = given.restricted_to(
        data.names,
        [exclusion.name for exclusion in data.exclusions],
        [exclusion.name for exclusion in data.exclusions if exclusion.is_constant],
    )
    learning = _Learning(data, known, LearningSettings(test, alpha, depth, subsamples, seed))
    return learning.model(quantify=quantify)


def _read(table: Any, kinds: Mapping[str, Kind]) -> pl.DataFrame:
    """Return a table whose text and dates are read; columns of the kind discrete stay text if they have words."""
    frame, _ = read_columns(to_polars(table), texts=[name for name, kind in kinds.items() if kind == "discrete"])
    return frame


class _Learning:
    def __init__(self, data: Data, knowledge: Knowledge, settings: LearningSettings) -> None:
        self._data = data
        self._knowledge = knowledge
        self._settings = settings
        self._selected = independence_tests()[settings.test].create(data, alpha=settings.alpha, seed=settings.seed)
        screening = self._selected.screening
        # The regression test also measures determinism and strength, whichever test is selected.
        self._regression = (
            screening if isinstance(screening, RegressionTest) else RegressionTest(data, alpha=settings.alpha)
        )
        self._near: Mapping[str, frozenset[str]] = {}
        self._again: Mapping[str, Sequence[str]] = {}
        self._fitted: dict[tuple[str, tuple[str, ...]], Mechanism] = {}
        self._formulas: dict[tuple[str, tuple[str, ...]], Mechanism] = {}

    def model(self, *, quantify: bool) -> CausalModel:
        """Learn edges, directions, mechanisms and stability."""
        agreed = agree(
            self._data.names,
            self._refined(self._selected, self._regression, self._bits, self._bits_between),
            self._selected.screening,
            Descriptions(
                self._bits,
                used=lambda target, parents: self._mechanism(target, parents).used,
                p_value=lambda target, parents, other: p_value_of_residuals(
                    self._regression, self._mechanism(target, parents), other
                ),
            ),
            self._knowledge,
            determined=lambda name, given: self._regression.determines(given, name),
            alpha=self._settings.alpha,
        )
        graph = agreed.graph
        causes = self._causes(agreed)
        self._near = graph.adjacent
        self._again = {name: causes[name] for name in self._data.names if name in agreed.searched_again}
        stabilities: Mapping[Pair, float] = {}
        if self._settings.subsamples:
            stabilities = stability_of(
                self._data, self._adjacencies, subsamples=self._settings.subsamples, seed=self._settings.seed
            )
        mechanisms = {name: self._general(name, causes[name]) for name in self._data.names} if quantify else {}
        return CausalModel(
            data=self._data,
            knowledge=self._knowledge,
            edges=self._edges(agreed, causes, stabilities),
            separations=tuple(sorted(graph.separations.values(), key=self._table_position)),
            equivalences=tuple(dict.fromkeys((*graph.equivalences, *self._instead_of_inputs(causes)))),
            mechanisms=mechanisms,
            assumed=agreed.assumed,
            stabilities=stabilities,
            settings=self._settings,
            contradictions=agreed.contradictions,
        )

    def _distance_from_whole(self, target: str, parents: Sequence[str]) -> float:
        return 2 * WORTH_A_PARENT * len(self._near[target].symmetric_difference(parents))

    def _bits(self, target: str, parents: Sequence[str]) -> float:
        return self._mechanism(target, parents).bits

    def _bits_between(self, names: Collection[str]) -> Bits:
        """Return the description length that compares equivalent variables."""
        return self._compared_bits if all(map(self._data.has_values, names)) else self._bits

    def _compared_bits(self, target: str, parents: Sequence[str]) -> float:
        """Return the shorter length: with k − 1 comparisons per lookup among k numbers, or without lookups."""
        mechanism = self._mechanism(target, parents)
        counted = self._looked_up(mechanism)
        if not counted:
            return mechanism.bits
        comparisons = sum(len(self._data.categories(name)) - 1 for name in counted)
        return min(self._formula(target, parents).bits, mechanism.bits + OPERATION_BITS * comparisons)

    def _looked_up(self, mechanism: Mechanism) -> list[str]:
        """Return the numeric variables whose values a curve looks up in a table."""
        names = mechanism.looked_up if isinstance(mechanism, CurveMechanism) else ()
        return [name for name in names if is_counted(self._data, name)]

    def _formula(self, target: str, parents: Sequence[str]) -> Mechanism:
        key = target, tuple(parents)
        if key not in self._formulas:
            self._formulas[key] = fit_mechanism(self._data, target, parents, lookup=False)
        return self._formulas[key]

    def _general(self, target: str, parents: Sequence[str]) -> Mechanism:
        """Return the shortest description, or a formula without lookups if it is longer by less than an operation."""
        mechanism = self._mechanism(target, parents)
        if self._looked_up(mechanism) and self._formula(target, parents).bits < mechanism.bits + OPERATION_BITS:
            return self._formula(target, parents)
        return mechanism

    def _is_unused(self, target: str, parents: tuple[str, ...], name: str) -> bool:
        """Return whether a dependence that the regression test finds is neither in the formula nor in its residuals."""
        rest, test = tuple(parent for parent in parents if parent != name), self._regression
        if not rest or test.test(name, target, rest).independent or name in self._mechanism(target, parents).used:
            return False
        return p_value_of_residuals(test, self._mechanism(target, rest), name) > self._settings.alpha

    def _refined(
        self,
        test: IndependenceTest,
        regression: RegressionTest,
        bits: Bits,
        between: Callable[[Collection[str]], Bits] | None = None,
    ) -> Refined:
        screening = test.screening
        skeleton = find_adjacencies(
            self._data.names, test, self._knowledge, depth=self._settings.depth, screening=screening
        )
        relations = Relations(
            bits=bits,
            separates=lambda name, target, given: screening.test(name, target, given).independent,
            unexplained=regression.unexplained,
            is_determined=lambda name, given: regression.determines(given, name),
            bits_between=between,
            is_unused=None if between is None else self._is_unused,
        )
        return refine(skeleton, screening, relations, self._knowledge)

    def _adjacencies(self, part: Data) -> Iterable[Pair]:
        """Learn adjacencies from a part of the table; choose between equivalent variables as for the whole table.

        Parents that were searched again for the whole table are tested on the part, each given the others.
        """
        regression = RegressionTest(part, alpha=self._settings.alpha)
        graph = self._refined(regression, regression, self._distance_from_whole)
        pairs = {pair_of(variable, other) for variable, near in graph.adjacent.items() for other in near}
        for target, parents in self._again.items():
            for name in self._data.names:
                pair = pair_of(name, target)
                is_parent = name in parents
                if name == target or not (is_parent or (pair in pairs and name not in self._near[target])):
                    continue
                given = [parent for parent in parents if parent != name]
                independent = regression.test(name, target, given).independent
                pairs = pairs - {pair} if independent else pairs | {pair}
        return pairs

    def _mechanism(self, target: str, parents: Sequence[str]) -> Mechanism:
        key = target, tuple(parents)
        if key not in self._fitted:
            mechanism = fit_mechanism(self._data, target, parents)
            # Parents that the curve does not use may still lead its search to a shorter description.
            less = target, mechanism.used
            if less != key and (less not in self._fitted or mechanism.bits < self._fitted[less].bits):
                self._fitted[less] = replace(mechanism, parents=mechanism.used)
            self._fitted[key] = mechanism
        return self._fitted[key]

    def _causes(self, agreed: Agreed) -> dict[str, tuple[str, ...]]:
        names, arrows = self._data.names, agreed.orientation.directed | set(agreed.assumed)
        return {name: tuple(cause for cause in names if (cause, name) in arrows) for name in names}

    def _instead_of_inputs(self, causes: Mapping[str, tuple[str, ...]]) -> Iterator[Equivalence]:
        """Yield, for each variable, others that could replace inputs among its causes and describe it equally well.

        If inputs determine these variables, lengths show which description is simpler, but not which causes act.
        """
        inputs = self._knowledge.inputs
        for target, parents in causes.items():
            acting = [
                parent for parent in parents if parent in inputs and not self._knowledge.always_adjacent(parent, target)
            ]
            replaced, others = self._replacement(target, parents, acting, causes)
            if not replaced:
                continue
            rest = self._in_order({*parents} - replaced)
            kept = self._mechanism(target, parents)
            other = self._mechanism(target, self._in_order({*rest, *others}))
            instead = self._in_order({*other.used}.difference(rest))
            determined = other.data_bits - kept.data_bits < WORTH_A_PARENT and all(
                self._regression.determines(acting, variable) for variable in instead
            )
            equivalence = Equivalence(
                target, self._in_order(replaced), instead, rest, kept.bits, other.bits, determined
            )
            if instead and equivalence.is_open:
                yield equivalence

    def _replacement(
        self, target: str, parents: Sequence[str], acting: Sequence[str], causes: Mapping[str, tuple[str, ...]]
    ) -> tuple[set[str], set[str]]:
        """Return superfluous inputs and the variables that replace them: all candidates, else one that suffices."""
        names = self._data.names
        effects = reached([target], lambda cause: [name for name in names if cause in causes[name]])
        others = {name for name in names if self._knowledge.allows(name, target)}
        others -= {*effects, *self._knowledge.inputs, *parents}
        if not acting or not others:
            return set(), set()
        for way in (others, *({candidate} for candidate in self._in_order(others))):
            replaced = {cause for cause in acting if self._adds_nothing(cause, target, {*parents, *way})}
            if replaced:
                return replaced, way
        return set(), set()

    def _in_order(self, names: Collection[str]) -> tuple[str, ...]:
        return tuple(name for name in self._data.names if name in names)

    def _adds_nothing(self, name: str, target: str, given: Collection[str]) -> bool:
        rest = [variable for variable in self._data.names if variable in given and variable != name]
        return self._regression.test(name, target, rest).independent

    def _edges(
        self, agreed: Agreed, causes: Mapping[str, Sequence[str]], stabilities: Mapping[Pair, float]
    ) -> tuple[Edge, ...]:
        oriented, assumed = agreed.orientation, agreed.assumed
        adjusted = _adjusted(agreed.graph.p_values)
        place = self._data.names.index
        nothing = 0.0 if self._settings.subsamples else math.nan
        edges = []
        for source, target in (*oriented.directed, *(tuple(sorted(pair, key=place)) for pair in oriented.undirected)):
            pair = pair_of(source, target)
            into = target if (source, target) in oriented.directed or (source, target) in assumed else source
            held = [name for name in causes[into] if name not in pair]
            strength = self._regression.test(source, target, held).bits
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
        return self._knowledge.causal_order_key(name), self._data.names.index(name)

    def _table_position(self, separation: Separation) -> list[int]:
        return sorted(map(self._data.names.index, (separation.one, separation.other)))


def _adjusted(p_values: Mapping[Pair, float]) -> dict[Pair, float]:
    """Return p-values adjusted for false discoveries over all tested pairs; empty if the test has no p-values."""
    tested = {pair: value for pair, value in p_values.items() if not math.isnan(value)}
    return dict(zip(tested, benjamini_hochberg(list(tested.values())).tolist(), strict=True))
