"""The causal model of a table: edges, reasons for missing edges, equivalent variables, and variables' mechanisms."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from unperturbed.analysis.causal.discovery.adjacency import Pair, Separation, separates
from unperturbed.analysis.causal.discovery.agreement import Contradiction
from unperturbed.analysis.causal.discovery.refinement import Equivalence
from unperturbed.analysis.causal.independence.methods import IndependenceTest
from unperturbed.analysis.causal.independence.methods.regression import RegressionTest
from unperturbed.analysis.causal.model.markov import (
    MarkovCheck,
    ScreeningOff,
    check_markov,
    p_value_of_residuals,
    screens_off,
)
from unperturbed.analysis.causal.model.prediction import Forecast, forecast
from unperturbed.analysis.causal.model_text import edges_table, formulas_table, summary_sentence, variables_table
from unperturbed.analysis.causal.regression.mechanism import Mechanism
from unperturbed.analysis.causal.table.knowledge import Arrow, Knowledge
from unperturbed.analysis.causal.table.variables import Category, Data, Exclusion, Variable
from unperturbed.common.result import Result, plain
from unperturbed.common.wording import no_such_column
from unperturbed.errors import DataError

if TYPE_CHECKING:
    from unperturbed.common.table import Table


@dataclass(frozen=True)
class Edge:
    """Direct relation between two variables.

    Attributes
    ----------
    source, target : str
        Cause and effect. If the direction is open, the source is the variable that comes first in the table.
    directed : bool
        False if knowledge and data leave the direction open.
    strength : float
        Mutual information of the two variables in bits per row, with the other causes of the target held fixed.
    p_value : float
        Probability of a dependence at least this strong without the edge: the largest p-value of all tests that kept
        the edge, corrected for false discoveries over all pairs (Benjamini and Hochberg). NaN if the test has no
        p-values, and for required edges that were not tested.
    stability : float
        Share of subsamples in which the edge was found; NaN if there were no subsamples.
    required : bool
        Whether knowledge requires the edge.
    definitional : bool
        Whether the target is computed from the source.
    conflicting : bool
        Whether v-structures direct the edge both ways, which leaves its direction open.
    """

    source: str
    target: str
    directed: bool
    strength: float
    p_value: float
    stability: float
    required: bool = False
    definitional: bool = False
    conflicting: bool = False

    def __str__(self) -> str:
        return f"{self.source} {'→' if self.directed else '—'} {self.target}"


@dataclass(frozen=True)
class LearningSettings:
    """Settings that a model was learnt with; see `learn`."""

    test: str
    alpha: float
    depth: int
    subsamples: int
    seed: int


@dataclass(frozen=True, eq=False, repr=False)
class CausalModel(Result):
    """Causal model of a table of runs, as `learn` returns it.

    Attributes
    ----------
    data : Data
        The table that the model was learnt from.
    knowledge : Knowledge
        The prior knowledge of the model's variables.
    edges : tuple of Edge
        The edges, by source and then by target: causes first, then in table order.
    separations : tuple of Separation
        For each pair of variables without an edge, the set that separates them; none for pairs whose edge the
        knowledge forbids.
    equivalences : tuple of Equivalence
        Sets of variables that carry the same information about a third variable; `str` returns a sentence.
    mechanisms : mapping of str to Mechanism
        Mechanism of each variable given its causes; empty if the model was not quantified.
    assumed : tuple of (source, target)
        Directions that mechanisms assume for edges whose direction is open; a different choice gives the same
        predictions, but other effects of interventions.
    stabilities : mapping of Pair to float
        Share of subsamples in which each pair was adjacent, whether or not it has an edge.
    settings : LearningSettings
        Settings that the model was learnt with.
    contradictions : tuple of Contradiction
        Dependences in the table that the graph rules out and that no search could resolve; `str` returns a sentence.
    """

    data: Data
    knowledge: Knowledge
    edges: tuple[Edge, ...]
    separations: tuple[Separation, ...]
    equivalences: tuple[Equivalence, ...]
    mechanisms: Mapping[str, Mechanism]
    assumed: tuple[Arrow, ...]
    stabilities: Mapping[Pair, float]
    settings: LearningSettings
    contradictions: tuple[Contradiction, ...] = ()

    _page = "unperturbed.analysis.report:render_model"

    def headline(self) -> str:
        """Return one sentence with the numbers of rows, variables and edges."""
        return summary_sentence(self)

    def tables(self) -> Sequence[Table]:
        """Return the tables of edges, formulas and variables."""
        return edges_table(self), *([formulas_table(self)] if self.mechanisms else []), variables_table(self)

    def to_frame(self) -> pl.DataFrame:
        """Return one row per edge: source, target and the evidence."""
        fields = Edge.__dataclass_fields__
        return pl.DataFrame({name: [getattr(edge, name) for edge in self.edges] for name in fields})

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables, in the table's order."""
        return self.data.variables

    @property
    def exclusions(self) -> tuple[Exclusion, ...]:
        """Columns of the table that are not variables, and why."""
        return self.data.exclusions

    def edge(self, one: str, other: str) -> Edge | None:
        """Return the edge between two variables, in either direction; None if there is none."""
        self._check(one, other)
        return next((edge for edge in self.edges if {edge.source, edge.target} == {one, other}), None)

    def separation(self, one: str, other: str) -> Separation | None:
        """Return the reason for a missing edge; None if the edge exists or knowledge forbids it."""
        self._check(one, other)
        return next(
            (separation for separation in self.separations if {separation.one, separation.other} == {one, other}), None
        )

    def parents(self, name: str) -> tuple[str, ...]:
        """Return the causes of a variable, in the table's order: sources of directed edges to it."""
        self._check(name)
        causes = {edge.source for edge in self.edges if edge.directed and edge.target == name}
        return tuple(variable for variable in self.data.names if variable in causes)

    def predict(
        self,
        observed: Mapping[str, Category] | None = None,
        /,
        *,
        runs: int = 2000,
        seed: int = 0,
        level: float = 0.95,
        **named: Category,
    ) -> Forecast:
        """Return the forecast of runs in which some variables have the observed values.

        Parameters
        ----------
        observed : mapping of str to str, bool, int or float, optional
            Observed values by variable; names that are valid keywords can be keywords: `model.predict(n=200)`.
        runs : int, default 2000
            Number of random runs.
        seed : int, default 0
            Random seed.
        level : float, default 0.95
            Share of the runs in each interval.
        **named : str, bool, int or float
            Further observations.

        Returns
        -------
        Forecast
            Mean, deviation and interval of every variable, or its probabilities.

        Raises
        ------
        DataError
            A variable or value is unknown, or the model was not quantified.
        """
        given = {**(observed or {}), **named}
        return forecast(self._quantified(), given, intervention=False, runs=runs, seed=seed, level=level)

    def intervene(
        self,
        settings: Mapping[str, Category] | None = None,
        /,
        *,
        runs: int = 2000,
        seed: int = 0,
        level: float = 0.95,
        **named: Category,
    ) -> Forecast:
        """Return the forecast of runs in which some variables are set, regardless of their causes.

        Raises
        ------
        DataError
            As for `predict`; also if a variable has an edge with an open direction, which leaves the effect of
            setting the variable unknown.
        """
        asked = {**(settings or {}), **named}
        for edge in self.edges:
            loose = {edge.source, edge.target} & asked.keys()
            if loose and not edge.directed:
                raise DataError(
                    f"the direction of the edge {edge} is open, so the effect of setting {' and '.join(sorted(loose))} "
                    "is unknown: state the direction as prior knowledge, by tiers, required edges or forbidden edges"
                )
        return forecast(self._quantified(), asked, intervention=True, runs=runs, seed=seed, level=level)

    def separated(self, one: str, other: str, given: str | Sequence[str] = ()) -> bool:
        """Return whether the graph implies that two variables are independent, given others.

        Parameters
        ----------
        one, other : str
            Two variables.
        given : str or sequence of str, default ()
            Variables that are held fixed.

        Returns
        -------
        bool
            True if, by this model, `one` has no information about `other` beyond that of `given`; False if it may.

        Raises
        ------
        DataError
            A variable is unknown or named twice.

        Notes
        -----
        Uses d-separation (section 3.3) and tests nothing: `separation` has the results of tests, and `check_markov`
        tests implied independences on the data. Edges with open directions have the directions that the formulas
        assume; all possible directions imply the same independences.
        """
        known = (given,) if isinstance(given, str) else tuple(given)
        self._check(one, other, *known)
        if one == other or {one, other} & set(known):
            raise DataError(f"{one}, {other} and the given variables must be different variables")
        arrows = [(edge.source, edge.target) for edge in self.edges if edge.directed]
        return separates([*arrows, *self.assumed], one, other, known)

    def check_markov(
        self, test: IndependenceTest | None = None, *, alpha: float = 0.05, permutations: int = 20, seed: int = 0
    ) -> MarkovCheck:
        """Test whether each variable is independent of its non-descendants given its causes; see `markov.check_markov`.

        `test` is a test on a different table. The default is the regression test on the table that the model was learnt
        from; the residuals of the variable's formula must then confirm each refutation.
        """
        parents = {
            name: [*self.parents(name), *(source for source, end in self.assumed if end == name)]
            for name in self.data.names
        }
        inputs = [name for name in self.knowledge.inputs if name in parents]

        def confirm(target: str, other: str) -> float:
            return p_value_of_residuals(self._test, self.mechanisms[target], other)

        return check_markov(
            test or self._test,
            parents,
            inputs=inputs,
            confirm=confirm if test is None and self.mechanisms else None,
            alpha=alpha,
            permutations=permutations,
            seed=seed,
        )

    def screens_off(
        self, application: Sequence[str], performance: Sequence[str], by: Sequence[str], *, alpha: float = 0.05
    ) -> ScreeningOff:
        """Test the paper's eq. (1): application ⊥ performance | characteristics; see `markov.screens_off`."""
        self._check(*application, *performance, *by)
        return screens_off(self._test, application, performance, by, alpha=alpha)

    def to_networkx(self) -> Any:
        """Return the graph as a networkx.DiGraph, for DoWhy and other graph libraries.

        Returns
        -------
        networkx.DiGraph
            Nodes are the variables' names, with `kind` and, if a mechanism was fitted, `formula`. Edges have their
            finite numbers and flags. An edge with an open direction is added in both directions, with `directed=False`.

        Raises
        ------
        DataError
            networkx is not installed.
        """
        try:
            import networkx  # noqa: PLC0415  the caller's library, not one of ours
        except ModuleNotFoundError:
            raise DataError("networkx is not installed: run `pip install networkx`") from None
        graph = networkx.DiGraph()
        for name in self.data.names:
            mechanism = self.mechanisms.get(name)
            formula = {"formula": mechanism.formula} if mechanism and mechanism.formula else {}
            graph.add_node(name, kind=self.data.kinds[name], **formula)
        for edge in self.edges:
            marks = {name: value for name, value in vars(edge).items() if isinstance(value, bool | float)}
            known = {name: value for name, value in marks.items() if math.isfinite(value)}
            graph.add_edge(edge.source, edge.target, **known)
            if not edge.directed:
                graph.add_edge(edge.target, edge.source, **known)
        return graph

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return `to_dict` as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent, allow_nan=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the model without its table as plain data: mechanisms as formulas and parameters, NaN as None."""
        return {
            "settings": _fields(self.settings),
            "rows": self.data.rows,
            "variables": [_fields(variable) for variable in self.variables],
            "exclusions": [_fields(exclusion) for exclusion in self.exclusions],
            "knowledge": _fields(self.knowledge),
            "edges": [_fields(edge) for edge in self.edges],
            "assumed": self.assumed,
            "separations": [_fields(separation) for separation in self.separations],
            "equivalences": [{**_fields(equivalence), "words": str(equivalence)} for equivalence in self.equivalences],
            "contradictions": [
                {**_fields(contradiction), "words": str(contradiction)} for contradiction in self.contradictions
            ],
            "mechanisms": [self._mechanism_dict(name) for name in self.data.names if name in self.mechanisms],
        }

    @cached_property
    def _test(self) -> RegressionTest:
        return RegressionTest(self.data, alpha=self.settings.alpha)

    def _mechanism_dict(self, name: str) -> dict[str, Any]:
        mechanism = self.mechanisms[name]
        return {
            "target": name,
            "parents": mechanism.parents,
            "used": mechanism.used,
            "formula": mechanism.formula,
            "bits": plain(mechanism.bits),
            "parameters": [_fields(parameter) for parameter in mechanism.parameters],
        }

    def _quantified(self) -> Mapping[str, Mechanism]:
        if not self.mechanisms:
            raise DataError("the model was not quantified, so it cannot forecast: learn it with `quantify=True`")
        return self.mechanisms

    def _check(self, *names: str) -> None:
        for name in names:
            if not isinstance(name, str):
                raise DataError(f"{name!r} has type {type(name).__name__}: give the name of one column, as a string")
            if name not in self.data.names:
                raise DataError(no_such_column(name, self.data.names))


def _fields(record: object) -> dict[str, Any]:
    return {name: plain(value) for name, value in vars(record).items() if not name.startswith("_")}
