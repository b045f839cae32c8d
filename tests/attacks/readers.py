"""Every reader of the tool, as something that takes bytes: what it is given first, and how it is called.

A reader ends, or raises an `UnperturbedError`; anything else is a fault. Inputs lie in files of a folder in memory, as
the tool reads files.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import random
import shutil
import signal
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.attacks.mutation import mutate_bytes, mutate_tree
from tests.attacks.seeds import (
    EXPRESSION_WORDS,
    EXPRESSIONS,
    SPEC_WORDS,
    csv_tables,
    dump_files,
    elf_files,
    imported_files,
    json_tables,
    knowledge_texts,
    logs,
    manifest_file,
    manifest_tree,
    parquet_file,
    recipe_texts,
    record_files,
    record_pass,
    record_setup,
    settings_texts,
    spec_texts,
    spec_trees,
    sweep_trees,
    trace_frame,
    trace_tree,
)

__all__ = ["READERS", "Reader", "empty_folder", "find_reader"]

Mutate = Callable[[bytes, random.Random, Sequence[bytes]], bytes]


@dataclass(frozen=True)
class Reader:
    """A reader under attack.

    Attributes
    ----------
    name : name on the command line, and of its folder in the corpus.
    seeds : returns what it reads without a fault.
    read : reads bytes; the folder is its own, and empty at first.
    mutate : how inputs are changed.
    words : pieces of its format.
    compiled : returns whether its loops are compiled, so that no branches of them can be watched.
    quick : it does not start a process for an input.
    """

    name: str
    seeds: Callable[[], Sequence[bytes]]
    read: Callable[[bytes, Path], object]
    mutate: Mutate = mutate_bytes
    words: Sequence[bytes] = ()
    compiled: Callable[[], bool] = bool
    quick: bool = True


def _spec(content: bytes, folder: Path) -> object:
    from unperturbed.harness.spec.load import load_spec, parse_spec
    from unperturbed.harness.spec.yaml import decode

    file = folder / "spec.yaml"
    file.write_bytes(content)
    if len(content) % 2:  # whose files are there, and whose need not be
        return load_spec(file)
    return parse_spec(decode(content, str(file)), str(file), folder, recorded=True)


def _knowledge(content: bytes, folder: Path) -> object:
    from unperturbed.harness.methods.causal.knowledge import read_knowledge

    file = folder / "knowledge.yaml"
    file.write_bytes(content)
    return read_knowledge(file)


def _record(content: bytes, folder: Path) -> object:
    from unperturbed.collectors.records.assemble import assemble, milestone
    from unperturbed.collectors.records.file import read_record_file
    from unperturbed.collectors.records.threads import thread_traces

    file = folder / "record"
    file.write_bytes(content)
    found = None
    for threads in (False, True):
        records = read_record_file(file, record_setup(threads=threads))
        found = assemble(
            records,
            record_pass(),
            software=[milestone("rounds"), milestone("steps")],
            os_metrics=("minor_faults",),
            derived={},
            dumps=folder / "dumps",
            attributes={"clock": "monotonic"},
        )
        thread_traces(records, record_pass(), found.attributes)
    return found


def _trace(content: bytes, folder: Path) -> object:
    from unperturbed.collectors.data import Trace

    file = folder / "trace.parquet"
    file.write_bytes(content)
    return _look_at(Trace.read(file))


def _look_at(trace: Any) -> object:
    return repr(trace), trace.overview(), trace.to_polars(), trace[1:3]


def _trace_description(content: bytes, folder: Path) -> object:
    from unperturbed.collectors.data import Trace
    from unperturbed.collectors.data.files import encode_parquet

    file = folder / "trace.parquet"
    described = _json(content)
    if isinstance(described, dict):
        file.write_bytes(encode_parquet(trace_frame(), "unperturbed", described))
        return _look_at(Trace.read(file))
    return None


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _campaign(folder: Path) -> object:
    (folder / "runs" / "0001").mkdir(parents=True, exist_ok=True)
    (folder / "runs" / "0001" / "trace.parquet").write_bytes(parquet_file())
    from unperturbed.harness.campaign.manifest import Manifest
    from unperturbed.harness.campaign.summary import read_summary
    from unperturbed.harness.results.recorded import disturbed_runs, read_traces, recorded_campaign

    read_summary(folder)
    spec = recorded_campaign(folder)
    with Manifest(folder / "campaign.sqlite", read_only=True) as manifest:
        return spec, manifest.failures(), manifest.totals(), disturbed_runs(manifest), read_traces(folder, manifest)


def _manifest(content: bytes, folder: Path) -> object:
    (folder / "campaign.sqlite").write_bytes(content)
    return _campaign(folder)


def _manifest_facts(content: bytes, folder: Path) -> object:
    tree = _json(content)
    file = folder / "campaign.sqlite"
    file.write_bytes(manifest_file())
    database = sqlite3.connect(file, isolation_level=None)
    database.execute("PRAGMA journal_mode = MEMORY")
    database.execute("PRAGMA synchronous = OFF")
    try:
        database.execute("BEGIN")
        if isinstance(tree, dict) and isinstance(tree.get("facts"), dict):
            database.execute("DELETE FROM facts")
            pairs = ((str(name), _stored(value)) for name, value in tree["facts"].items())
            database.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", pairs)
        for name in ("host_before", "host_after", "seconds", "started", "state", "pass", "repetition", "id", "attempt"):
            if isinstance(tree, dict) and name in tree:
                database.execute(f"UPDATE OR REPLACE runs SET {name} = ?", (_stored(tree[name]),))
        database.execute("COMMIT")
    except (sqlite3.Error, UnicodeEncodeError, OverflowError):
        return None  # nothing that a manifest can hold
    finally:
        database.close()
    return _campaign(folder)


def _stored(value: Any) -> Any:
    """Return what a column holds: text of JSON, and at times what is none."""
    return value[4:] if isinstance(value, str) and value.startswith("raw:") else json.dumps(value)


def _table(suffix: str, content: bytes, folder: Path) -> object:
    from unperturbed.harness.methods.causal.knowledge import PriorKnowledge
    from unperturbed.harness.methods.causal.table import prepare_table

    file = folder / f"table{suffix}"
    file.write_bytes(content)
    return prepare_table(file, PriorKnowledge(), missing="drop")


def _sweep(content: bytes, folder: Path) -> object:
    import polars as pl

    from unperturbed.collectors.data import read_sweep, read_sweep_facts
    from unperturbed.collectors.data.files import encode_parquet
    from unperturbed.harness.methods.causal.reading import missing_points

    first, _, rest = content.partition(b"\n")
    (folder / "table.json").write_bytes(first)
    (folder / "table.csv").write_bytes(rest)
    frame = pl.DataFrame({"n": [1, 2], "x": [0.5, 1.5], "t": ["a", "b"]})
    if isinstance(described := _json(first), dict):
        (folder / "table.parquet").write_bytes(encode_parquet(frame, "unperturbed-table", described))
    return [
        (read_sweep(place), read_sweep_facts(place), missing_points(place)) for place in (folder / "table.csv", folder)
    ]


def _log(options: Mapping[str, Any], content: bytes, folder: Path) -> object:
    from unperturbed.analysis.diagnosis import read_events

    return read_events(io.BytesIO(content), name="log", block_bytes=1 << 14, **options)


def _column_expression(content: bytes, folder: Path) -> object:
    import polars as pl

    from unperturbed.common.expressions.columns import evaluate

    frame = pl.DataFrame({"a": [1, 2, 3], "b": [0.5, -1.0, 0.0], "c d": [7, 8, 9], "t": ["x", "y", ""]})
    return evaluate(content.decode(errors="replace"), frame)


def _metric_expression(content: bytes, folder: Path) -> object:
    import numpy as np

    from unperturbed.common.expressions.metrics import parse_metric_expression
    from unperturbed.common.expressions.syntax import check_syntax

    text = content.decode(errors="replace")
    expression = parse_metric_expression(text)
    check_syntax(text)
    return expression.evaluate({name: np.array([0, 1, 2**62]) for name in expression.names})


def _import(name: str, suffix: str, content: bytes, folder: Path) -> object:
    from unperturbed.collectors.imports import read_traces

    file = folder / f"run{suffix}"
    file.write_bytes(content)
    return [_look_at(trace) for trace in read_traces(file, name)]


def _recipe(content: bytes, folder: Path) -> object:
    """Read a recipe, and by it a file that another recipe reads: what a recipe can say must not break the reader."""
    from unperturbed.collectors.imports.reading import recipe_format
    from unperturbed.errors import DataError

    recipe, file = folder / "recipe.yaml", folder / "run.txt"
    recipe.write_bytes(content)
    format_of_recipe = recipe_format(recipe)
    found = []
    for name in ("sadf", "dstat", "nvidia-dmon"):
        table = imported_files()[name][0]
        format_of_recipe.recognise(table)
        with contextlib.suppress(DataError):  # it describes another table
            found += [_look_at(trace) for trace in format_of_recipe.read(table, file, {})]
    return found


def _dumps(content: bytes, folder: Path) -> object:
    from unperturbed.collectors.sources.callgrind import columns

    file = folder / "dumps.7"
    file.write_bytes(content)
    return [column.sum() for _, column in columns(record_pass("simulated"), file, 2)]


def _elf(content: bytes, folder: Path) -> object:
    from unperturbed.harness.program.process import cannot_preload
    from unperturbed.instrument.binaries.elf import read_binary

    file = folder / "program"
    file.write_bytes(content)
    cannot_preload(file)
    read_binary.__globals__["_read_version"].cache_clear()  # a file that was written twice in a tick is another one
    return read_binary(file)


def _compiler_metrics(content: bytes, folder: Path) -> object:
    from unperturbed.instrument.compiler.cc import read_metrics

    file = folder / "metrics.yaml"
    file.write_bytes(content)
    return read_metrics(file)


def _imports() -> list[Reader]:
    return [
        Reader(
            f"import-{name}",
            functools.partial(_one, imported_files, name),
            functools.partial(_import, name, suffix),
            quick=name != "parquet",
        )
        for name, suffix in (
            ("asv", ".json"),
            ("benchexec", ".xml"),
            ("caliper", ".cali"),
            ("collectl", ".txt"),
            ("csv", ".csv"),
            ("dstat", ".csv"),
            ("google-benchmark", ".json"),
            ("hyperfine", ".json"),
            ("likwid", ".csv"),
            ("nvidia-dmon", ".txt"),
            ("nvidia-smi", ".csv"),
            ("paraver", ".prv"),
            ("parquet", ".parquet"),
            ("pcm", ".csv"),
            ("perf-script", ".txt"),
            ("perf-stat", ".txt"),
            ("perfetto", ".pftrace"),
            ("sadf", ".csv"),
            ("vmstat", ".txt"),
            ("pyperf", ".json"),
            ("rebench", ".data"),
        )
    ]


def _logs() -> list[Reader]:
    wanted: Mapping[str, Mapping[str, Any]] = {
        **{name: {} for name in logs()},
        "pattern": {"pattern": r"(?P<time>[0-9.:]+) +(?P<name>\S+)"},
    }
    return [
        Reader(
            f"log-{name}",
            functools.partial(_one, logs, name),
            functools.partial(_log, {"format": name, **options}),
            compiled=functools.partial(_is_compiled, name),
        )
        for name, options in wanted.items()
    ] + [
        Reader(
            "log-any", functools.partial(_all, logs), functools.partial(_log, {"most_bad": 0.9}), compiled=lambda: True
        )
    ]


def _is_compiled(name: str) -> bool:
    """Tell whether a log format is read by compiled code."""
    from unperturbed.analysis.diagnosis.reading.compiled_format import CompiledFormat
    from unperturbed.analysis.diagnosis.reading.formats import log_formats

    return isinstance(log_formats()[name], CompiledFormat)


def _one(found: Callable[[], Mapping[str, Sequence[bytes]]], name: str) -> Sequence[bytes]:
    return found()[name]


def _all(found: Callable[[], Mapping[str, Sequence[bytes]]]) -> Sequence[bytes]:
    return [seed for seeds in found().values() for seed in seeds]


READERS: Mapping[str, Reader] = {
    reader.name: reader
    for reader in (
        Reader("spec-text", spec_texts, _spec, words=SPEC_WORDS),
        Reader("spec-structure", spec_trees, _spec, mutate_tree, SPEC_WORDS),
        Reader("knowledge", knowledge_texts, _knowledge, words=EXPRESSION_WORDS),
        Reader("recipe", recipe_texts, _recipe),
        Reader("record", record_files, _record),
        Reader("trace", lambda: [parquet_file()], _trace, quick=False),
        Reader("trace-description", lambda: [trace_tree()], _trace_description, mutate_tree),
        Reader("manifest", lambda: [manifest_file()], _manifest),
        Reader("manifest-facts", lambda: [manifest_tree()], _manifest_facts, mutate_tree),
        Reader("table-csv", csv_tables, functools.partial(_table, ".csv")),
        Reader("table-json", json_tables, functools.partial(_table, ".json")),
        Reader("table-parquet", lambda: [parquet_file()], functools.partial(_table, ".parquet"), quick=False),
        Reader("sweep", sweep_trees, _sweep),
        Reader("column-expression", lambda: EXPRESSIONS, _column_expression, words=EXPRESSION_WORDS),
        Reader("metric-expression", lambda: EXPRESSIONS, _metric_expression, words=EXPRESSION_WORDS),
        *_logs(),
        *_imports(),
        Reader("dumps", dump_files, _dumps),
        Reader("elf", elf_files, _elf),
        Reader("compiler-metrics", settings_texts, _compiler_metrics, words=SPEC_WORDS),
    )
}  # fmt: skip


def _self_test(content: bytes, folder: Path) -> object:
    """Divide by zero at times, and crash at times: what the fuzzer has to see."""
    if len(content) % 11 == 5:
        os.kill(os.getpid(), signal.SIGSEGV)
    return 1 // (len(content) % 7 - 3)


def find_reader(name: str) -> Reader:
    """Return the reader of a name; `self-test` is one with faults."""
    return Reader(name, lambda: [b"ab"], _self_test) if name == "self-test" else READERS[name]


def empty_folder(folder: Path) -> None:
    """Remove what a reader left in its folder."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
