"""Read a Parquet file: exactly the one that was named, with its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


def read_parquet_file(path: Path) -> tuple[pl.DataFrame, Mapping[str, str]]:
    """Read a Parquet file and its key-value metadata.

    polars takes a path as a glob: of `x[1]/trace.parquet` it reads `x1/trace.parquet`. An open file is taken as it is.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    frame : polars.DataFrame
        Its columns.
    metadata : mapping of str to str
        What its writer noted beside them.

    Raises
    ------
    polars.exceptions.PolarsError
        The file is no Parquet file, or is damaged.
    """
    import polars as pl  # noqa: PLC0415

    with path.open("rb") as file:
        metadata = pl.read_parquet_metadata(file)
        file.seek(0)
        return pl.read_parquet(file), metadata
