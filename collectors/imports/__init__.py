"""Traces that other tools recorded: one module a format, each with one record `ImportFormat`, found by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unperturbed.common.faces import lazy_names

if TYPE_CHECKING:
    from unperturbed.collectors.imports.format import ImportFormat
    from unperturbed.collectors.imports.reading import (
        find_files,
        find_format,
        import_formats,
        read_perf_stat,
        read_traces,
        recognise,
    )

__all__ = [
    "ImportFormat",
    "find_files",
    "find_format",
    "import_formats",
    "read_perf_stat",
    "read_traces",
    "recognise",
]

# polars, which reads the files, stays out of processes that only ask for names.
__getattr__, __dir__ = lazy_names(__name__)
