"""Conversion of tables between polars and other libraries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

from unperturbed.errors import DataError

if TYPE_CHECKING:
    import polars as pl

Library = Literal["polars", "pandas", "pyarrow"]
"""Libraries for which `frame` can return a table."""


class HasFrame(Protocol):
    """An object that polars can read as a frame."""

    def to_frame(self) -> pl.DataFrame:
        """Return the object as a tidy polars frame."""


class Framed:
    """A mixin for classes with `to_frame`: adds `frame`, which returns the frame in the caller's library."""

    __slots__ = ()

    def frame(self: HasFrame, library: Library = "polars") -> Any:
        """Return the frame of `to_frame` as one of another library, which must be installed: "pandas" or "pyarrow"."""
        return to_library(self.to_frame(), library)


def to_polars(table: Any) -> pl.DataFrame:
    """Return a table as a polars frame; accept any table that narwhals or Arrow (`__arrow_c_stream__`) can read."""
    import polars as pl  # noqa: PLC0415  slow to load

    if isinstance(table, pl.DataFrame):
        return table
    import narwhals as nw  # noqa: PLC0415

    try:
        if isinstance(table, Mapping):
            return pl.DataFrame({str(name): values for name, values in table.items()})
        if hasattr(table, "__arrow_c_stream__") and not hasattr(table, "columns"):
            return pl.DataFrame(table)
        native = nw.from_native(table)
        frame = native.collect() if isinstance(native, nw.LazyFrame) else native
        return frame.to_polars()
    except (TypeError, pl.exceptions.PolarsError) as error:
        raise DataError(
            f"cannot use {type(table).__name__} as a table: pass a polars, pandas or pyarrow frame, or a mapping "
            f"of names to columns ({error})"
        ) from None


def to_library(frame: pl.DataFrame, library: Library) -> Any:
    """Return a polars frame as a frame of another library, with the same columns."""
    if library == "polars":
        return frame
    try:
        if library == "pandas":
            import pandas as pd  # noqa: PLC0415  the caller's library, not a dependency

            return pd.DataFrame({name: frame[name].to_numpy() for name in frame.columns})
        if library == "pyarrow":
            import pyarrow as pa  # noqa: PLC0415

            return pa.table(frame)
    except ModuleNotFoundError as error:
        raise DataError(
            f"cannot return a {library} frame: {error.name} is not installed (pip install {error.name})"
        ) from None
    raise DataError(f"unknown library {library!r}: use polars, pandas or pyarrow")
