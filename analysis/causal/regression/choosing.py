"""The search for the curve of least description length.

Lemeire et al., "Causal analysis for performance modeling of computer programs", section 7.2, eq. (14). All curves that sums of
products can make are too many to try. The search adds the term that shortens the description most, tries polynomials of rising
degree, and takes each term out again to see whether another, or none, does better, until nothing does.
"""

from __future__ import annotations

import math

import numpy as np

from unperturbed.analysis.causal.regression.candidates import Candidates, Options, spans
from unperturbed.analysis.causal.regression.forms import CONSTANT, Function, Power, Term, steps_of
from unperturbed.analysis.causal.regression.least_squares import polished
from unperturbed.analysis.causal.regression.library import FollowUp, highest_degree
from unperturbed.analysis.causal.regression.problem import OPERATION_BITS, Problem, State
from unperturbed.analysis.causal.regression.sharing import with_shared_values
from unperturbed.analysis.causal.regression.steps import Steps

__all__ = ["Search"]

_MOST_TERMS = 8
_ROUNDS = 4
_WORTH_FITTING = 3.0
"""Bits by which a power may promise to be longer than the best candidate and its exponent still be fitted."""
_SAME_BITS = 1e-6
_MOST_REPLACED = 16
_MOST_STEPS = 3
"""A chain of steps can follow any curve, slowly and without telling anything of it."""


class Search:
    """Looks for the curve of least description length."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._candidates = Candidates(problem)
        usable = zip(self._candidates.scopes, self._candidates.curve_sizes.tolist(), strict=True)
        self._steps = Steps(problem, [scope for scope, size in usable if size])
        self._follow_up = FollowUp(problem.numbers, self._candidates.options.numbers)

    def constant(self) -> State:
        """Return the best curve without a parent that is a number."""
        sizes = zip(self._candidates.scopes, self._candidates.constant_sizes.tolist(), strict=True)
        states = [self._problem.state([Term(CONSTANT, scope)]) for scope, size in sizes if size]
        return min(states, key=lambda state: state.bits)

    def started(self) -> State:
        """Return the curve that terms make which are added one by one."""
        constant = self.constant()
        polynomial = self.with_polynomials(constant)
        return polynomial if polynomial.exact else self.with_terms(constant)

    def improved(self, state: State) -> State:
        """Return where the search ends that starts here: where no kind of change shortens the description."""
        changes = (self.with_polynomials, self.with_other_terms, with_shared_values, self.with_terms)
        unchanged = 0
        for number in range(len(changes) * _ROUNDS):
            changed = changes[number % len(changes)](state)
            unchanged = 0 if changed.bits < state.bits else unchanged + 1
            state = changed
            if unchanged == len(changes) - 1:
                break
        return state

    def with_terms(self, state: State) -> State:
        """Add the best term as long as it shortens the description."""
        while len(state.terms) < _MOST_TERMS and not state.exact:
            longer = self.with_one_more(state)
            if longer is None or not longer.bits < state.bits:
                break
            state = longer
        return state

    def with_polynomials(self, state: State) -> State:
        """Put a polynomial in the place of all terms of one parent alone.

        Section 7.2: "The degree of the polynomials is increased until the point where the description length starts
        increasing." As x² alone brings nothing before its second degree, all degrees are tried, each with the lower ones.
        """
        problem = self._problem
        if problem.errors == "factor":
            return state
        best = state
        for name, x in problem.numbers.items():
            rest = problem.state([term for term in state.terms if term.function.names != {name}])
            powers = [Function((Power(name, float(degree)),)) for degree in range(1, highest_degree(x) + 1)]
            own = np.cumsum([problem.function_bits(one) + OPERATION_BITS for one in powers])
            own -= 0 if rest.terms else OPERATION_BITS
            for scope, size in zip(self._candidates.scopes, self._candidates.curve_sizes.tolist(), strict=True):
                if not size or scope.names == (name,):
                    continue
                terms = [Term(one, scope) for one in powers]
                explained, rank = rest.would_explain(terms)
                bits = problem.hypothesis_bits(rest.terms, len(rest.basis)) + own + np.cumsum(rank) * problem.parameter_bits
                bits += problem.data_bits(np.maximum(rest.rss - np.cumsum(explained), 0))
                bits[(rank == 0) | (len(rest.basis) + np.cumsum(rank) > self._candidates.most)] = np.inf
                degree = int(bits.argmin()) + 1
                if bits[degree - 1] < best.bits:
                    best = min(best, rest.extended(terms[:degree]), key=lambda one: one.bits)
        return best

    def with_other_terms(self, state: State) -> State:
        """Take each term out, and put the best other one, or none, in its place, as long as that shortens the description.

        A constant may only be there for a term that does not fit well, so that it is taken out together with each other term
        too.
        """
        at, replaced = 0, 0
        while at < len(state.terms) and replaced < _MOST_REPLACED:
            term = state.terms[at]
            rest = self._problem.state([one for one in state.terms if one is not term])
            tried = [state, self.with_one_more(rest, instead_of=term), rest if rest.terms else None]
            others = [one for one in rest.terms if one.function.factors]
            if term.function.factors and len(others) < len(rest.terms):
                tried.append(self.with_one_more(self._problem.state(others), instead_of=term))
            found = min((one for one in tried if one is not None), key=lambda one: one.bits)
            if found.bits < state.bits - _SAME_BITS:
                state, at, replaced = found, 0, replaced + 1
            else:
                at += 1
        return state

    def with_one_more(self, state: State, instead_of: Term | None = None) -> State | None:
        """Return the shortest description with one more term, which may be longer than that without.

        Parameters
        ----------
        state : State
        instead_of : Term, optional
            The term that was just taken out; steps are tried where it is one.
        """
        further: list[Function] = []
        if self._problem.errors != "factor":
            further = self._follow_up.of(state.terms)
        if instead_of is not None and instead_of.function not in self._candidates.options.numbers:
            further.append(instead_of.function)
        if len(steps_of(state.terms)) < _MOST_STEPS and (instead_of is None or steps_of([instead_of])):
            further += self._steps.best(state)
        best, promised = self._candidates.best(state, self._candidates.options)
        if further:
            other, _ = self._candidates.best(state, Options.of(self._problem, list(dict.fromkeys(further))))
            best = min((one for one in (best, other) if one is not None), key=lambda one: one.bits, default=None)
        tried = [] if best is None else [polished(_with(state, best.term))]
        if promised is not None and (best is None or promised.bits < best.bits + _WORTH_FITTING):
            tried.append(polished(_with(state, promised.term)))
        usable = [one for one in tried if len(one.basis) <= self._candidates.most and math.isfinite(one.bits)]
        return min(usable, key=lambda one: one.bits, default=None)


def _with(state: State, term: Term) -> State:
    return state.extended([term], [one for one in state.terms if spans(term, one)])
