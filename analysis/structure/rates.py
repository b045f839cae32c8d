"""What an interval of a trace did, whatever its length: its metrics as rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.structure.scaling import FloatArray
from unperturbed.collectors.trace import Kind, Trace
from unperturbed.errors import DataError

__all__ = ["TIME", "Rates", "default_metrics", "default_per", "rates_of"]

TIME = "time"

_WORK = ("PAPI_TOT_INS", "perf::instructions", "callgrind::Ir")
"""Counters of instructions."""

_SHORT = 0.05
"""An interval that did less than this share of what the median one did, as the last of a run, has too little in it to tell its class."""

_WAITING = 0.05
"""Share of intervals without work above which waiting is part of what a program does."""


@dataclass(frozen=True, eq=False)
class Rates:
    """Metrics of each interval, as rates.

    Attributes
    ----------
    values : float64, shape (n, metrics)
    told : bool, shape (n,)
        False where an interval is too short to tell anything.
    grain : float64, shape (metrics,)
        What one event adds to a rate in the median interval; 0 for what is no count.
    """

    values: FloatArray
    told: NDArray[np.bool_]
    grain: FloatArray


def default_per(trace: Trace) -> str:
    """Return what rates are taken of: the counter of instructions where nearly all intervals have some, else `time`.

    Rates of instructions hold still where the program loses its processor for a while; where it waits as part of its work, they would
    hide that.
    """
    for name in _WORK:
        if name in trace.metrics and len(trace):
            least = _SHORT * np.median(trace[name])
            if least > 0 and np.mean(trace[name] < least) <= _WAITING:
                return name
    return TIME


def default_metrics(trace: Trace, per: str | None) -> tuple[str, ...]:
    """Return the metrics that tell phases apart when none are asked for.

    Hardware metrics, simulated ones included; without any, those of the operating system; without these, all. Software metrics mark
    places in the program, which is what phases are held against. The one that rates are taken of is left out.

    Raises
    ------
    DataError
        The trace has no other metric.
    """
    preferred: tuple[tuple[Kind, ...], ...] = (("hardware", "simulated"), ("os",), ())
    for kinds in preferred:
        names = tuple(name for name in trace.names(*kinds) if name != per)
        if names:
            return names
    raise DataError(f"the trace has no metric{f' but {per}' if per else ''}: there is nothing to tell phases by")


def rates_of(trace: Trace, metrics: Sequence[str], per: str | None) -> Rates:
    """Return the named metrics of a trace as rates.

    Parameters
    ----------
    trace : Trace
    metrics : names
        Counters are divided by what `per` counted in the interval; gauges and derived metrics stay as they are.
    per : name of a counter, `time` for nanoseconds, or None
        None leaves everything as it is.

    Raises
    ------
    DataError
        A metric is missing or has no value in an interval; `per` is a gauge, or counted nothing.
    """
    values = trace.values(metrics) if len(metrics) else np.zeros((len(trace), 0))
    _refuse_missing(values, metrics)
    counters = np.array([_is_counter(trace, name) for name in metrics], bool)
    whole = np.array([np.issubdtype(trace[name].dtype, np.integer) for name in metrics], bool)
    if per is None or not len(trace):
        return Rates(values, np.ones(len(trace), bool), np.where(counters & whole, 1.0, 0.0))
    done = _amounts(trace, per)
    usual = float(np.median(done))
    if usual <= 0:
        raise DataError(f"rates are to be taken of {per!r}, which is 0 in most intervals: give another `per`, or None for none")
    # An interval without an instruction, in which the program waited, has no events either, and rates of 0.
    rates = np.where(counters, values / np.maximum(done, 1)[:, None], values)
    return Rates(rates, done >= _SHORT * usual, np.where(counters & whole, 1 / usual, 0.0))


def _is_counter(trace: Trace, name: str) -> bool:
    return trace.metrics[name].semantics == "counter" and trace.metrics[name].kind != "derived"


def _amounts(trace: Trace, per: str) -> FloatArray:
    """Return how much there was in each interval of what rates are taken of."""
    if per == TIME and TIME not in trace.metrics:
        return (trace.end_ns - trace.begin_ns).astype(np.float64)
    done = trace[per].astype(np.float64)
    _refuse_missing(done[:, None], (per,))
    if not _is_counter(trace, per):
        raise DataError(f"rates are to be taken of {per!r}, which is no counter: give one, `{TIME}`, or None for no rates")
    return done


def _refuse_missing(values: FloatArray, metrics: Sequence[str]) -> None:
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        row, column = (int(index) for index in wrong[0])
        more = f", and in {len(wrong) - 1} more places" if len(wrong) > 1 else ""
        raise DataError(
            f"metric {metrics[column]!r} is {values[row, column]} in interval {row}{more}: take metrics that have a value in every interval"
        )
