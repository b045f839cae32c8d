"""Read a Parquet file: exactly the one that was named, with its metadata."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from unperturbed.errors import DataError

if TYPE_CHECKING:
    import polars as pl


_MAGIC = b"PAR1"


def is_whole_parquet(path: Path) -> bool:
    """Return whether a file is there and begins and ends as a Parquet file; what lies between is not read."""
    try:
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                return False
            file.seek(-len(_MAGIC), os.SEEK_END)
            return file.read() == _MAGIC
    except OSError:
        return False


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
    DataError
        The file is no Parquet file, or is damaged.
    """
    import polars as pl  # noqa: PLC0415

    try:
        with path.open("rb") as file:
            metadata = pl.read_parquet_metadata(file)
            file.seek(0)
            return pl.read_parquet(file), metadata
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, UnicodeDecodeError) as error:
        # A panic of the reader is a BaseException, which nothing else would catch.
        reason = str(error).strip().partition("\n")[0]
        raise DataError(f"{path}: not a readable Parquet file ({reason})") from None
