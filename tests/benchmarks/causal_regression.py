"""Which formulas the regressions find again, and how long they take.

    python tests/benchmarks/causal_regression.py [--seeds 20] [--rows 400]

For each form a table a seed, of known constants and errors; counted are the tables in which exactly the form's terms
were chosen. One core, the fastest of three. Exit code 1 when a stated bound is missed: 90 % of each form's tables, and
a median of 15 ms for one continuous and one discrete parent at 400 rows.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before numpy is loaded: one core

import numpy as np  # noqa: E402
import polars as pl  # noqa: E402

from unperturbed.analysis.causal import CurveMechanism, Data, fit_mechanism, prepare  # noqa: E402

SHARE, MILLISECONDS = 0.9, 15.0
Form = tuple[str, np.ndarray[Any, Any], tuple[str, ...], str]


def forms(random: np.random.Generator, rows: int) -> Iterator[tuple[Form, dict[str, Any]]]:
    """Yield name, target, parents and terms of each form, and the table's columns."""
    n, whole = random.uniform(5, 300, rows), random.integers(5, 301, rows).astype(float)
    z, cell, e = random.uniform(1, 20, rows), random.integers(0, 4, rows), random.standard_normal(rows)
    slopes, threshold, thresholds = random.uniform(1, 5, 4), random.uniform(80, 220), random.uniform(40, 260, 4)
    columns = {"n": n, "whole": whole, "z": z, "d": np.array(list("abcd"))[cell]}
    made: list[Form] = [
        (
            "operations of LU decomposition",
            whole * (whole - 1) * (2 * whole - 1) / 6,
            ("whole",),
            "whole + whole² + whole³",
        ),
        ("line a cell", 70 + slopes[cell] * n + 10 * e, ("n", "d"), "1 + n by d"),
        ("step", 4 * (n > threshold) + 0.5 * e, ("n",), "step"),
        ("step from a level", 20 + 4 * (n > threshold) + 0.5 * e, ("n",), "1 + step"),
        ("step a cell", slopes[cell] * (n > thresholds[cell]) + 0.2 * e, ("n", "d"), "step by d"),
        ("inverse", 3 + 500 / n + 0.5 * e, ("n",), "1 + n⁻¹"),
        ("square root", 20 * np.sqrt(n) + 3 * e, ("n",), "√n"),
        ("logarithm", 10 + 10 * np.log(n) + 0.3 * e, ("n",), "1 + ln n"),
        ("square", 9000 + 2 * n**2 + 2000 * e, ("n",), "1 + n²"),
        ("n ln n", 2 * n * np.log(n) + 10 * e, ("n",), "n·ln n"),
        ("power", 2 * n**1.4 + 20 * e, ("n",), "n^"),
        ("power, errors in proportion", 2 * n**1.4 * np.exp(0.05 * e), ("n",), "n^"),
        ("power law of two", 0.01 * n**2.3 * z**0.7 * np.exp(0.05 * e), ("n", "z"), "n^·z^"),
        ("product", 2 * n * z + 30 * e, ("n", "z"), "n·z"),
        ("product, errors in proportion", 2 * n * z * (1 + 0.03 * e), ("n", "z"), "n·z"),
        ("ratio", 100 * n / z + 30 * e, ("n", "z"), "n·z⁻¹"),
        ("plane", 70 + 2 * n + 10 * z + 8 * e, ("n", "z"), "1 + n + z"),
        ("nothing", 3 + e, ("n", "z", "d"), "1"),
    ]
    for form in made:
        yield form, columns


def described(mechanism: CurveMechanism) -> str:
    """Return the terms without their numbers."""
    if mechanism.errors == "factor":
        return "·".join(
            sorted(
                f"{term.function.text().removeprefix('ln ')}^"
                for term in mechanism.curve.terms
                if term.function.factors
            )
        )
    texts = []
    for term in mechanism.curve.terms:
        text = term.function.text()
        text = "step" if text.startswith("[") else text.partition("^")[0] + "^" if term.function.has_exponent else text
        texts.append(text + (f" by {', '.join(term.scope.names)}" if term.scope.names else ""))
    return " + ".join(sorted(texts))


def table(form: Form, columns: dict[str, Any]) -> Data:
    """Return a form's table."""
    _, target, parents, _ = form
    frame = pl.DataFrame({"y": target, **{name: columns[name] for name in parents}})
    return prepare(frame, kinds={name: "continuous" for name in frame.columns if name != "d"})


def main() -> int:
    """Count, time, print, and tell whether the bounds hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rows", type=int, default=400)
    arguments = parser.parse_args()
    found: dict[str, Counter[str]] = {}
    times: dict[str, list[float]] = {}
    expected: dict[str, tuple[str, tuple[str, ...]]] = {}
    for seed in range(-1, arguments.seeds):  # the first compiles
        for form, columns in forms(np.random.default_rng(max(seed, 0)), arguments.rows):
            data = table(form, columns)
            took = []
            for _ in range(3):
                begun = time.process_time()
                mechanism = fit_mechanism(data, "y", form[2])
                took.append(1e3 * (time.process_time() - begun))
            assert isinstance(mechanism, CurveMechanism)
            if seed >= 0:
                found.setdefault(form[0], Counter())[described(mechanism)] += 1
                times.setdefault(form[0], []).append(min(took))
                expected[form[0]] = form[3], form[2]
    good = True
    for name, (terms, parents) in expected.items():
        right, milliseconds = found[name][terms], float(np.median(times[name]))
        others = ", ".join(f"{text} {times_found}×" for text, times_found in found[name].most_common() if text != terms)
        met = right >= SHARE * arguments.seeds and (
            len(parents) > 2 or "d" not in parents or milliseconds <= MILLISECONDS
        )
        good &= met
        print(
            f"{name:32} {right:3} of {arguments.seeds}  {milliseconds:6.1f} ms  "
            f"{'' if met else 'MISSED '}{others and f'else: {others}'}"
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
