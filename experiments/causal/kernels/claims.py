"""Claims of section 8.4, compared with the findings here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from experiments.causal.kernels.evaluation import SAME, WIDEST, Evaluated, apart, factor, median
from experiments.causal.kernels.programs import PROGRAMS
from experiments.common.claims import Claim

_CACHES = {"simulated": "the simulated cache", "processor": "the processor's own"}


def held(views: Mapping[str, Evaluated], curves: Evaluated, costing: Evaluated) -> Iterable[Claim]:
    """Hold the section's claims against what was found."""
    for name, view in views.items():
        yield _same_pattern(view, _CACHES[name])
    for name, view in views.items():
        yield _thresholds(view, _CACHES[name])
    yield _by_elementsize(curves)
    for what, factors in (("CPI", costing.cpi_factors()), ("C_L2M", costing.penalty_factors())):
        told = f"largest factor between two programs, by data type: {_listed(factors, '.1f')}"
        yield Claim(
            f"{what} depends on the application too",
            told if factors else "no data type tells it in two programs",
            median(factors.values()) > SAME if factors else None,
        )
    yield _carried(costing)


def _same_pattern(view: Evaluated, cache: str) -> Claim:
    rises = view.rises()
    jumping = [name for name, width in rises.items() if width <= WIDEST]
    return Claim(
        "matrix multiplication and merge sort show the same pattern of misses as LU decomposition, a jump "
        f"(figure 11, footnote 3; {cache})",
        "from a quarter of the most misses to three quarters within this factor of memory in use: "
        f"{_listed(rises, '.1f')}; a jump: up to {WIDEST}",
        len(jumping) == len(PROGRAMS) or (None if len(jumping) > 1 else False),
    )


def _thresholds(view: Evaluated, cache: str) -> Claim:
    ranges = view.thresholds()
    said = f"the threshold cannot be determined by the memory requirements and memory size only ({cache})"
    differing = apart(ranges.values())
    if math.isnan(differing):
        return Claim(said, "fewer than two programs jump", None)
    told = f"KiB in use at the threshold: {_between(ranges)}; a factor of {differing:.1f} at least"
    return Claim(said, told, differing > SAME)


def _by_elementsize(view: Evaluated) -> Claim:
    lines = {program.name: [one.lines for one in view.jumping(program.name)] for program in PROGRAMS}
    told = {name: values for name, values in lines.items() if values}
    return Claim(
        "the jump is linear in elementsize (section 8.3), so that lines missed an element are the application's own",
        "least and most of the data types: "
        + ", ".join(f"{name} {min(values):.2f} to {max(values):.2f}" for name, values in told.items()),
        all(factor(values) <= SAME for values in told.values()),
    )


def _carried(view: Evaluated) -> Claim:
    errors = {program.name: view.error(view.by_lu, program.name) for program in PROGRAMS[1:]}
    claim = view.screening.claims[0]
    probable = "p < 0.001" if claim.p_value < 0.001 else f"p = {claim.p_value:.2g}"
    return Claim(
        "independent characteristics of the system are not found: those of one application do not predict "
        "another's time",
        f"by LU decomposition's CPI and C_L2M, half of the runs are off by more than {_listed(errors, '.0%')}; "
        "beside data type, instr_op and L2M_op "
        f"the program tells {claim.bits:.2f} bits a run of C_op ({probable}); learnt from all programs, C_op has "
        f"the causes {', '.join(view.causes)}",
        # Two tests of one thing; where they differ, it is so in part.
        claim.refuted if claim.refuted == (max(errors.values()) > SAME - 1) else None,
    )


def characteristics(views: Mapping[str, Evaluated], costing: Evaluated) -> dict[str, tuple[str, bool]]:
    """Return what figure 12's characteristics differ by between programs, in words, and whether they agree.

    Lines missed and memory use are the application's own; they agree where all data types do.
    """
    curves = next(iter(views.values()))
    lines = [factor(one.lines for one in found) for program in PROGRAMS if (found := curves.jumping(program.name))]
    spreads = {
        "memory size": [
            differing for view in views.values() if not math.isnan(differing := apart(view.thresholds().values()))
        ],
        "CPI": list(costing.cpi_factors().values()),
        "C_L2M": list(costing.penalty_factors().values()),
    }
    told = {
        name: (f"programs: factor {max(values):.1f}", max(values) <= SAME) for name, values in spreads.items() if values
    }
    if lines:
        told["lines missed"] = (f"data types: factor {max(lines):.1f}", max(lines) <= SAME)
    return told


def _between(ranges: Mapping[str, tuple[float, float]]) -> str:
    return ", ".join(f"{name} {low:.0f} to {high:.0f}" for name, (low, high) in ranges.items())


def _listed(values: Mapping[str, float], form: str) -> str:
    return ", ".join(f"{name} {value:{form}}" for name, value in values.items())
