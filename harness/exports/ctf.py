"""Common Trace Format 1.8, for babeltrace2 and Trace Compass: a folder with one stream per run, one event per interval.

CTF names contain only letters, digits and `_`: the environment in the metadata lists each metric's original name,
marked "simulated" or "scaled" if the metric is.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unperturbed.harness.exports import Format, run_writers, title_of, unique_word

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unperturbed.harness.exports.content.runs import ExportedRun, ExportedRuns

_MAGIC = 0xC1FC1FC1

_PREAMBLE = """/* CTF 1.8 */

typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
typealias integer { size = 64; align = 8; signed = true; } := int64_t;
typealias floating_point { exp_dig = 11; mant_dig = 53; align = 8; } := double;

trace {
    major = 1;
    minor = 8;
    byte_order = le;
    packet.header := struct { uint32_t magic; uint32_t stream_id; };
};

clock { name = run; description = "time of a run since its first record"; freq = 1000000000; };

typealias integer { size = 64; align = 8; signed = false; map = clock.run.value; } := time_t;
"""

_STREAM = """
stream {{
    id = {id};
    packet.context := struct {{
        uint64_t packet_size; uint64_t content_size; time_t timestamp_begin; time_t timestamp_end;
    }};
    event.header := struct {{ uint32_t id; time_t timestamp; }};
}};

event {{
    name = {name};
    id = 0;
    stream_id = {id};
    fields := struct {{ {fields} }};
}};
"""


def _write_runs(runs: ExportedRuns, path: Path) -> None:
    path.mkdir()
    taken = {"duration_ns", "overruns", "id", "timestamp"}
    words = {name: unique_word(name, taken) for name in runs.metrics}
    named = {f"metric_{words[name]}": title_of(metric) for name, metric in runs.metrics.items()}
    known = {"campaign": runs.name, "aligned_to_run": runs.aligned_to, **named}
    environment = "".join(f"    {key} = {_quoted(value)};\n" for key, value in known.items() if value)
    metadata = [_PREAMBLE, f"\nenv {{\n{environment}}};\n"]
    for run in runs:
        if len(run.trace):
            metadata.append(_write_intervals(run, words, 2 * len(metadata), path))
        if run.slices:
            metadata.append(_write_phases(run, 2 * len(metadata) + 1, path))
    (path / "metadata").write_text("".join(metadata), encoding="utf-8")


def _write_intervals(run: ExportedRun, words: Mapping[str, str], stream: int, path: Path) -> str:
    trace = run.trace
    held: dict[str, NDArray[Any]] = {"duration_ns": trace.end_ns - trace.begin_ns, "overruns": trace.overruns}
    held |= {words[name]: trace[name] for name in trace.metrics}
    types = {name: "int64_t" if column.dtype.kind == "i" else "double" for name, column in held.items()}
    fields = " ".join(f"{kind} _{name};" for name, kind in types.items())
    _write_stream(path / f"run_{stream}", stream, trace.begin_ns, held)
    return _STREAM.format(id=stream, name=_quoted(run.title), fields=fields)


def _write_phases(run: ExportedRun, stream: int, path: Path) -> str:
    numbers = {name: at for at, name in enumerate(dict.fromkeys(span.name for span in run.slices))}
    bounds = np.array([run.bounds(span) for span in run.slices], np.int64)
    held = {"duration_ns": bounds[:, 1] - bounds[:, 0], "phase": np.array([numbers[span.name] for span in run.slices])}
    labels = ", ".join(f"{_quoted(name)} = {number}" for name, number in numbers.items())
    fields = f"int64_t _duration_ns; enum : int64_t {{ {labels} }} _phase;"
    _write_stream(path / f"phases_{stream}", stream, bounds[:, 0], held)
    return _STREAM.format(id=stream, name=_quoted(f"{run.title} phases"), fields=fields)


def _write_stream(path: Path, stream: int, begin_ns: NDArray[np.int64], fields: Mapping[str, NDArray[Any]]) -> None:
    """Write one packet: its header, its context, and one event for each row."""
    event = np.dtype(
        [("id", "<u4"), ("timestamp", "<u8"), *((name, f"<{column.dtype.kind}8") for name, column in fields.items())]
    )
    rows = np.zeros(len(begin_ns), event)
    rows["timestamp"] = begin_ns
    for name, column in fields.items():
        rows[name] = column
    packet = np.dtype([("magic", "<u4"), ("stream", "<u4"), ("sizes", "<u8", 2), ("times", "<u8", 2)])
    bits = 8 * (packet.itemsize + rows.nbytes)
    head = np.array([(_MAGIC, stream, (bits, bits), (begin_ns[0], begin_ns[-1]))], packet)
    path.write_bytes(head.tobytes() + rows.tobytes())


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


FORMAT = Format("ctf", (".ctf",), run_writers(_write_runs), timeline=True)
