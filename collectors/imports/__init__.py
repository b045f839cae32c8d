"""Import of traces recorded by other tools: each module here that defines an `ImportFormat` is found automatically."""

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

# Processes that only need names do not load polars, which reads the files.
__getattr__, __dir__ = lazy_names(__name__)
