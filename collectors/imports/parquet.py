"""Apache Parquet: tables as for CSV, and what this tool wrote, with everything that it knows of its metrics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from unperturbed.collectors.data.parquet import decode_parquet
from unperturbed.collectors.data.trace import Metric, Trace
from unperturbed.collectors.imports._columns import OPTIONS, read_table
from unperturbed.collectors.imports.format import ImportFormat, refuse

_OWN = ("unperturbed", "unperturbed.campaign")
"""Keys of the file's metadata under which this tool describes its metrics: a trace's and an exported campaign's."""


def _recognise(head: bytes) -> bool:
    return head.startswith(b"PAR1")


def _read(content: bytes, path: Path, options: Mapping[str, str]) -> list[Trace]:
    frame, metadata = decode_parquet(content, path)
    described: dict[str, Metric] = {}
    for key in _OWN:
        if key in metadata:
            try:
                entries = json.loads(metadata[key])["metrics"]
                described |= {
                    entry["name"]: Metric(**{**entry, "components": tuple(entry["components"])}) for entry in entries
                }
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                refuse(path, f"its description of the metrics is damaged ({error!r})")
    return read_table(frame, path, options, lambda _row: 0, described)


FORMAT = ImportFormat("parquet", "a table (Parquet)", (".parquet",), _recognise, _read, OPTIONS)
