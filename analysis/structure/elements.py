"""What a structural sequence is made of: intervals of a trace, rows of numbers, or accesses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unperturbed.analysis.structure.classes import rows_of
from unperturbed.analysis.structure.rates import Rates, default_metrics, default_per, rates_of
from unperturbed.collectors.trace import Trace
from unperturbed.errors import DataError

__all__ = ["AUTO", "Elements", "Source", "elements_of"]

Source: TypeAlias = Trace | ArrayLike | Iterable[Any]

AUTO = "auto"


@dataclass(frozen=True, eq=False)
class Elements:
    """A run's elements.

    Attributes
    ----------
    items : sequence
        As they were given: numbers, tuples of numbers, or anything hashable.
    rates : Rates, optional
        The same as rows of numbers; None where they are none.
    metrics : tuple of str
    per : str, optional
        What rates were taken of.
    accesses : bool
        Whether they are whole numbers or no numbers at all, each exact, rather than what an interval counted.
    """

    items: Sequence[Any]
    rates: Rates | None
    metrics: tuple[str, ...]
    per: str | None
    accesses: bool

    def __len__(self) -> int:
        return len(self.items)


def elements_of(source: Source, *, metrics: Sequence[str] | None, per: str | None) -> Elements:
    """Read a run's elements.

    Parameters
    ----------
    source : Trace, array of shape (n,) or (n, metrics), or iterable
    metrics : names, optional
        Of a trace, which ones; of an array, what its columns are called.
    per : as for `rates_of`, or `auto`; of a trace only.

    Raises
    ------
    DataError
        It holds no numbers where they are needed, numbers that are not finite, or not what `metrics` names.
    """
    if isinstance(metrics, str):
        raise DataError(f"metrics is {metrics!r}: give a list of names, as in [{metrics!r}]")
    if isinstance(source, Trace):
        return _of_trace(source, metrics, per)
    array = _array_of(source)
    if not isinstance(array, np.ndarray):
        if metrics is not None:
            such = f", such as {array[0]!r}" if array else ""
            raise DataError(f"the elements are no numbers{such}: they cannot be classified by {', '.join(metrics)}")
        return Elements(array, None, (), None, accesses=True)
    names = tuple(metrics) if metrics is not None else _names(array)
    rows = rows_of(array, names)
    told = np.ones(len(rows), bool)
    items = array.tolist() if array.ndim == 1 else [tuple(row) for row in array.tolist()]
    whole = array.ndim == 1 and array.dtype.kind in "biu"
    return Elements(items, Rates(rows, told, np.zeros(len(names))), names, None, accesses=whole)


def _of_trace(trace: Trace, metrics: Sequence[str] | None, per: str | None) -> Elements:
    of = default_per(trace) if per == AUTO else per
    names = tuple(metrics) if metrics is not None else default_metrics(trace, of)
    if not names:
        raise DataError("no metric is named: name one at least, or leave `metrics` out")
    columns = [trace[name].tolist() for name in names]
    items = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
    return Elements(items, rates_of(trace, names, of), names, of, accesses=False)


def _names(array: NDArray[Any]) -> tuple[str, ...]:
    if array.ndim == 1:
        return ("value",)
    return tuple(f"metric {column}" for column in range(array.shape[-1] if array.ndim else 1))


def _array_of(source: ArrayLike | Iterable[Any]) -> NDArray[Any] | list[Any]:
    """Return an array of numbers, or a list of what are no numbers."""
    if isinstance(source, np.ndarray) or hasattr(source, "to_numpy"):
        array = np.asarray(source)
        if array.dtype.kind in "biuf":
            return array
        if array.ndim != 1 or array.dtype.kind not in "OUS":
            raise DataError(
                f"the elements are an array of {array.dtype} of shape {array.shape}: give numbers, or one axis of what is hashable"
            )
        return _array_of(array.tolist())
    if not isinstance(source, Iterable):
        raise DataError(f"the elements are {source!r}: give a trace, an array, or a sequence")
    items = list(source)
    if all(isinstance(item, (Real, np.bool_)) for item in items):
        return _numbers(items)
    if all(isinstance(item, (list, np.ndarray)) for item in items):
        widths = sorted({len(item) for item in items})
        if len(widths) > 1:
            raise DataError(f"rows have {widths[0]} to {widths[-1]} values: give as many in each")
        return np.array(items, dtype=np.float64)
    return items


def _numbers(items: list[Any]) -> NDArray[Any]:
    array = np.array(items)
    return array if array.dtype.kind in "biuf" else np.array(items, dtype=np.float64)
