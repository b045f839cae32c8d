"""Results of hyperfine: `hyperfine --export-json FILE COMMAND…`.

`results` has an entry for each command with `times` [s], `exit_codes`, in newer versions `memory_usage_byte`, one value
a run, and `parameters`. User and system time are means over all runs, so the runs have no CPU time.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unperturbed.collectors.data.trace import Trace
from unperturbed.collectors.imports.format import ImportFormat
from unperturbed.collectors.imports.totals.runs import (
    WALL,
    Runs,
    entries,
    mapping,
    numbered,
    plain_number,
    read_json,
    total,
)

NAME = "hyperfine"
_CANNOT_RUN = 126


def _recognise(head: bytes) -> bool:
    return head.lstrip().startswith(b"{") and b'"results"' in head and b'"command"' in head and b'"mean"' in head


def _read(content: bytes, path: Path, options: Mapping[str, str]) -> list[Trace]:  # noqa: ARG001
    runs = Runs(path, NAME)
    results = entries(read_json(content, path).get("results"))
    for name, result in zip(_names(results), results, strict=True):
        times = [plain_number(value) for value in _listed(result, "times")]
        if not times:
            runs.leave_out("the file has no time of single runs", name)
        codes, memory = _listed(result, "exit_codes"), _listed(result, "memory_usage_byte")
        # A command may always exit with the same code; a run that differs is another kind of run.
        mixed = any(code != codes[0] for code in codes)
        for at, time in enumerate(times):
            if at < len(codes) and ((mixed and codes[at] != 0) or _cannot_run(codes[at])):
                runs.leave_out("failed", name)
                continue
            peak = plain_number(memory[at]) if at < len(memory) else None
            parameters = {str(key): str(value) for key, value in mapping(result.get("parameters")).items()}
            runs.add(name, {WALL: total(time, "s"), "memory": total(peak, "B")}, parameters=parameters)
        if codes and not mixed and codes[0] != 0 and not _cannot_run(codes[0]):
            runs.note(f"every run of {name} ended with exit code {codes[0]}")
    runs.note("hyperfine records the CPU time of all runs together, so only wall-clock time is compared")
    return runs.traces()


def _cannot_run(code: object) -> bool:
    """Return whether a command was killed by a signal (null, 128 and more), or could not be started (126, 127)."""
    return code is None or (isinstance(code, int) and code >= _CANNOT_RUN)


def _listed(result: Mapping[str, Any], name: str) -> list[Any]:
    value = result.get(name)
    return value if isinstance(value, list) else []


def _names(results: list[Mapping[str, Any]]) -> list[str]:
    """Return the name of each command: with its parameters where several have the same name."""
    commands = [str(result.get("command", "")) for result in results]
    names = []
    for command, result in zip(commands, results, strict=True):
        values = ", ".join(f"{key}={value}" for key, value in mapping(result.get("parameters")).items())
        names.append(f"{command} ({values})" if values and commands.count(command) > 1 else command)
    return numbered(names)


FORMAT = ImportFormat(NAME, "JSON of hyperfine", (".json",), _recognise, _read, whole_runs=True)
