"""Random sweeps of a program's inputs whose causes are known, with what setting the inputs would give.

Two to four inputs are set at random: sizes (uniform or log-uniform whole numbers), options of two or three values, and
levels. Three to six counters follow from them and from each other; each is a sum of one to three terms,

    a · x^p        a · x · y        a · n · log₂ n        a · log₂ x        a · x · (kind has this value)        a

and is positive. Every counter has a noise of its own, from none to 10 % of its value, and is a whole number. So several
counters are effects of the same inputs, as instructions, allocations and faults of one script are. Counts that are
Poisson's are small, and may besides have terms a · [x · y > threshold], as misses of a cache have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from unperturbed.analysis.causal import CausalModel, learn
from unperturbed.analysis.causal.model.prediction import causal_order
from unperturbed.errors import DataError

__all__ = ["Agreement", "Sweep", "agreement", "ancestors_in", "draw_sweep", "script_sweep"]

Columns = dict[str, Any]
_MATTERS = 0.02
"""Share of a counter's variance that changes if an input alone is drawn anew, from which on the input matters."""


@dataclass(frozen=True)
class Sweep:
    """A table of runs, and the program that they are of.

    Attributes
    ----------
    table : polars.DataFrame
        One row a run.
    inputs, counters : tuple of str
        Its columns; the order of the columns in the table is random.
    ancestors : mapping of str to frozenset of str
        Of each counter the variables that act on it, directly or not.
    parents : mapping of str to frozenset of str
        Those that act on it directly.
    """

    table: pl.DataFrame
    inputs: tuple[str, ...]
    counters: tuple[str, ...]
    ancestors: Mapping[str, frozenset[str]]
    parents: Mapping[str, frozenset[str]]
    _draw_inputs: Callable[[np.random.Generator, int], Columns] = field(repr=False)
    _run: Callable[[Columns, np.random.Generator, bool], Columns] = field(repr=False)

    def settings(self, seed: int, count: int) -> list[dict[str, Any]]:
        """Return settings of the inputs, drawn as those of the table were."""
        drawn = self._draw_inputs(np.random.default_rng([seed, 7]), count)
        return [{name: drawn[name][row].item() for name in self.inputs} for row in range(count)]

    def run(self, settings: Mapping[str, Any], seed: int, runs: int = 1) -> Columns:
        """Return counters of further runs with these inputs."""
        columns = {name: np.array([settings[name]] * runs) for name in self.inputs}
        return self._run(columns, np.random.default_rng([seed, 11]), True)

    def matters(self, one: str, counter: str) -> bool:
        """Tell whether an input changes a counter more than slightly (the total effect of a Sobol index)."""
        random = np.random.default_rng(13)
        first, other = self._draw_inputs(random, 2000), self._draw_inputs(random, 2000)
        noisy = self._run(first, random, True)[counter]
        one_way = self._run(first, random, False)[counter]
        other_way = self._run({**first, one: other[one]}, random, False)[counter]
        return bool(np.mean((one_way - other_way) ** 2) / 2 > _MATTERS * np.var(noisy))


def draw_sweep(seed: int, *, noise: float | None = None, poisson: bool = False) -> Sweep:
    """Return a random program and a sweep of it. `noise` is that of all counters; None: each from 0 to 10 %."""
    random = np.random.default_rng([seed, 1])
    inputs = _input_columns(random)
    terms: dict[str, list[_Term]] = {}
    spreads: dict[str, float] = {}
    names = [f"counter_{letter}" for letter in "abcdef"[: random.integers(3, 7)]]
    numeric = [name for name, one in inputs.items() if one.kind != "option"]
    options = [name for name, one in inputs.items() if one.kind == "option"]
    reference = {name: one.draw(random, 2000) for name, one in inputs.items()}
    for name in names:
        before = list(terms)
        made = _terms(random, numeric, options, before, reference, small=poisson)
        terms[name] = made
        spreads[name] = float(random.choice([0.0, random.uniform(0, 0.1)], p=[0.15, 0.85])) if noise is None else noise
        reference[name] = _value(made, reference)

    def draw_inputs(generator: np.random.Generator, rows: int) -> Columns:
        return {name: one.draw(generator, rows) for name, one in inputs.items()}

    def run(columns: Columns, generator: np.random.Generator, noisy: bool) -> Columns:
        found = dict(columns)
        for name in names:
            value = _value(terms[name], found)
            if poisson and noisy:
                found[name] = generator.poisson(value).astype(float)
                continue
            factor = 1 + spreads[name] * generator.standard_normal(len(value)) * noisy
            found[name] = np.maximum(np.rint(value * factor), 0.0)
        return found

    rows = int(random.integers(60, 401))
    columns = run(draw_inputs(random, rows), random, True)
    order = random.permutation(list(columns)).tolist()
    table = pl.DataFrame({name: columns[name] for name in order})
    parents = {name: frozenset(one for term in terms[name] for one in term.names) for name in names}
    ancestors: dict[str, frozenset[str]] = {}
    for name in names:
        ancestors[name] = parents[name].union(*(ancestors.get(one, frozenset()) for one in parents[name]))
    return Sweep(table, tuple(inputs), tuple(names), ancestors, parents, draw_inputs, run)


def script_sweep(seed: int, rows: int = 90) -> Sweep:
    """Return a sweep of a script that concatenates or sorts texts: an interpreter's allocations, faults, instructions
    and time.

    Concatenating takes instructions for each text and each of its letters, sorting n·log₂ n comparisons. Page faults
    follow from what is allocated, in steps: they carry nearly all that n and kind say of the instructions, and cause
    few of them.
    """

    def draw_inputs(generator: np.random.Generator, count: int) -> Columns:
        return {
            "n": generator.integers(1000, 20000, count),
            "kind": generator.choice(["concat", "sort"], count, p=[0.6, 0.4]),
            "size": generator.integers(1, 201, count),
        }

    def run(columns: Columns, generator: np.random.Generator, noisy: bool) -> Columns:
        n, concat = np.asarray(columns["n"], float), np.asarray(columns["kind"]) == "concat"
        size = np.asarray(columns["size"], float)

        def factor(spread: float) -> Any:
            return 1 + spread * generator.standard_normal(len(n)) * noisy

        mallocs = np.where(concat, 725 + 5.8 * n, 727.0) * factor(0.01)
        live = np.where(concat, n * (24 + size) * 0.5, n * 16) / 4096
        faults = 30 + live * np.where(noisy, generator.uniform(0.6, 1.4, len(n)), 1.0)
        instructions = np.where(concat, 6800 * n + 14 * n * size, 215 * n * np.log2(n)) * factor(0.015) + 350 * faults
        seconds = (0.25e-9 * instructions + 0.8e-6 * faults + 5e-4) * factor(0.08)
        counts = {"mallocs": mallocs, "minor_faults": faults, "instructions": instructions}
        return {**columns, **{name: np.rint(value) for name, value in counts.items()}, "cpu_s": seconds}

    random = np.random.default_rng([seed, 2])
    columns = run(draw_inputs(random, rows), random, True)
    counters = ("mallocs", "minor_faults", "instructions", "cpu_s")
    parents = {
        "mallocs": frozenset({"n", "kind"}),
        "minor_faults": frozenset({"n", "kind", "size"}),
        "instructions": frozenset({"n", "kind", "size", "minor_faults"}),
        "cpu_s": frozenset({"instructions", "minor_faults"}),
    }
    every = frozenset({"n", "kind", "size"})
    ancestors = {
        **parents,
        "cpu_s": every | {"instructions", "minor_faults"},
    }
    return Sweep(pl.DataFrame(columns), ("n", "kind", "size"), counters, ancestors, parents, draw_inputs, run)


@dataclass(frozen=True)
class _Input:
    kind: str
    draw: Callable[[np.random.Generator, int], Any]


@dataclass(frozen=True)
class _Term:
    """A coefficient times a product; the coefficient differs between an option's values where there is one."""

    names: tuple[str, ...]
    value: Callable[[Mapping[str, Any]], Any]
    scale: float = 1.0


def _input_columns(random: np.random.Generator) -> dict[str, _Input]:
    """Return two to four inputs, the first of which is a size."""
    found: dict[str, _Input] = {}
    for number in range(int(random.integers(2, 5))):
        kind = "size" if number == 0 else str(random.choice(["size", "option", "level"], p=[0.4, 0.4, 0.2]))
        name = f"{kind}_{number}"
        if kind == "size":
            low = int(random.integers(1, 200))
            high = int(low * random.uniform(5, 100))
            if random.random() < 0.5:
                found[name] = _Input(kind, lambda r, k, low=low, high=high: r.integers(low, high + 1, k))
            else:
                ends = np.log(low), np.log(high)
                found[name] = _Input(kind, lambda r, k, ends=ends: np.rint(np.exp(r.uniform(*ends, k))).astype(int))
        elif kind == "option":
            values = ["fast", "small", "safe"][: int(random.integers(2, 4))]
            found[name] = _Input(kind, lambda r, k, values=values: r.choice(values, k))
        else:
            most = int(random.integers(3, 9))
            found[name] = _Input(kind, lambda r, k, most=most: r.integers(1, most + 1, k))
    return found


def _terms(
    random: np.random.Generator,
    numeric: list[str],
    options: list[str],
    before: list[str],
    reference: Columns,
    *,
    small: bool,
) -> list[_Term]:
    """Return the terms of one counter, each of which makes up a fair share of it."""
    total = 10 ** (random.uniform(0, 3.5) if small else random.uniform(3, 8))
    forms = ["power", "product", "loglinear", "log", "option", "counter", *(["step"] if small else [])]
    found = []
    for _ in range(int(random.integers(1, 4))):
        one = str(random.choice(numeric))
        form = str(random.choice(forms))
        if form == "counter" and before:
            source = str(random.choice(before))
            term = _Term((source,), lambda c, s=source: np.asarray(c[s], float))
        elif form == "product" and len(numeric) > 1:
            other = str(random.choice([name for name in numeric if name != one]))
            term = _Term((one, other), lambda c, a=one, b=other: np.asarray(c[a], float) * np.asarray(c[b], float))
        elif form == "option" and options:
            option = str(random.choice(options))
            values = sorted(set(reference[option].tolist()))
            factors = dict(zip(values, random.permutation([0.0, 0.5, 1.0])[: len(values)].tolist(), strict=True))

            def by_option(c: Mapping[str, Any], x: str = one, o: str = option, f: dict[str, float] = factors) -> Any:
                return np.array([f[value] for value in np.asarray(c[o]).tolist()]) * np.asarray(c[x], float)

            term = _Term((one, option), by_option)
        elif form == "step":
            other = str(random.choice(numeric))
            place = np.quantile(np.asarray(reference[one], float) * reference[other], random.uniform(0.4, 0.9))

            def above(c: Mapping[str, Any], x: str = one, y: str = other, least: float = place) -> Any:
                return (np.asarray(c[x], float) * np.asarray(c[y], float) > least).astype(float)

            term = _Term((one, other), above)
        elif form == "loglinear":
            term = _Term((one,), lambda c, x=one: np.asarray(c[x], float) * np.log2(1 + np.asarray(c[x], float)))
        elif form == "log":
            term = _Term((one,), lambda c, x=one: np.log2(1 + np.asarray(c[x], float)))
        else:
            power = float(random.choice([0.5, 1.0, 1.5, 2.0]))
            term = _Term((one,), lambda c, x=one, p=power: np.asarray(c[x], float) ** p)
        size = float(np.mean(term.value(reference)))
        scale = total * random.uniform(0.3, 1) / max(size, 1e-9)
        found.append(_Term(term.names, term.value, scale))
    constant = total * random.uniform(0.02, 0.3)
    return [*found, _Term((), lambda c: constant)]


def _value(terms: list[_Term], columns: Mapping[str, Any]) -> Any:
    """Return the sum of the terms."""
    return sum(term.scale * term.value(columns) for term in terms)


@dataclass
class Agreement:
    """What models got right of the programs."""

    matters: int = 0  # Pairs of an input and a counter that it acts on
    lost: int = 0  # Those whose input is no ancestor of the counter in the model
    refused: int = 0  # Settings whose effect a model does not forecast, as it leaves a direction open
    forecasts: int = 0
    covered: int = 0
    negative: int = 0


def agreement(sweeps: Iterable[Sweep], *, settings: int, test: str = "regression", declared: bool = True) -> Agreement:
    """Compare models with the programs they were learnt from, at further settings of the inputs."""
    found = Agreement()
    for number, sweep in enumerate(sweeps):
        model = learn(sweep.table, inputs=sweep.inputs if declared else (), subsamples=0, test=test)
        ancestors = ancestors_in(model)
        counters = set(sweep.counters) & ancestors.keys()
        for counter in counters:
            needed = [one for one in sweep.inputs if sweep.matters(one, counter)]
            found.matters += len(needed)
            found.lost += len(set(needed) - ancestors[counter])
        for run, given in enumerate(sweep.settings(number, settings)):
            try:
                forecast = model.intervene(given)
            except DataError:
                if declared:
                    raise
                found.refused += 1
                continue
            true = sweep.run(given, 1000 * number + run)
            for counter in counters:
                one, value = forecast[counter], float(true[counter][0])
                found.forecasts += 1
                found.covered += one.low - 0.5 <= value <= one.high + 0.5
                found.negative += one.low < 0
    return found


def ancestors_in(model: CausalModel) -> dict[str, frozenset[str]]:
    """Return the variables that act on each variable by a model, directly or not, assumed directions included."""
    parents = {
        name: {*model.parents(name), *(one for one, end in model.assumed if end == name)} for name in model.data.names
    }
    found: dict[str, frozenset[str]] = {}
    for name in causal_order({name: sorted(of) for name, of in parents.items()}):
        found[name] = frozenset(parents[name]).union(*(found[one] for one in parents[name]))
    return found
