"""How fast, and in how much memory, a log of GStreamer is read and its events counted, beside other ways to do it.

    python tests/benchmarks/event_reading.py [--runs 5] [--lines 4000000] [--quick] [--json FILE]

The log is a real one of the tests, repeated with times that move on; it lies in a temporary folder and is deleted. Each
run is a process of its own on one processor; ways take turns. Ways whose library is not installed are left out and
named. Fails where a bound is missed.
"""

from __future__ import annotations

import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

from sampler_report import Section, Table, deliver, host_state, parse_arguments

__all__ = ["make_logs", "run_here"]

_LOG = Path(__file__).parents[1] / "analysis" / "diagnosis" / "data" / "pipeline.log"
_OWN = "read_events"
_LINE_BYTES = 146.5
"""586 MB in 4,000,000 lines."""
_MOST_SECONDS, _MOST_MEMORY = 1.5, 1.2
_WARM_LINES = 2_000


def _own(path: Path) -> int:
    from unperturbed.analysis.diagnosis import read_events

    return int(read_events(path).counts().sum())


def _polars_slices(path: Path) -> int:
    """Slice fixed columns, and find the function by splitting the rest."""
    import polars as pl

    log = pl.scan_csv(path, has_header=False, separator="\x01", quote_char=None, new_columns=["line"])
    place = pl.col("line").str.slice(68).str.splitn(" ", 3)
    counted = (
        log.select(
            _clock(pl.col("line"), pl).alias("time"),
            pl.col("line").str.slice(39, 5).alias("level"),
            place.struct.field("field_0").str.splitn(":", 4).struct.field("field_2").alias("function"),
            place.struct.field("field_1").alias("word"),
        )
        .group_by("level", "function", "word")
        .agg(pl.len(), pl.col("time").max())
        .collect()
    )
    return int(counted["len"].sum())


def _clock(line, pl):  # type: ignore[no-untyped-def]
    minutes, seconds, nano = (line.str.slice(at, length).cast(pl.Int64) for at, length in ((2, 2), (5, 2), (8, 9)))
    return (minutes * 60 + seconds) * 10**9 + nano


def _polars_expression(path: Path) -> int:
    import polars as pl

    log = pl.scan_csv(path, has_header=False, separator="\x01", quote_char=None, new_columns=["line"])
    parts = r"^(?<time>\S+) +\d+ +\S+ +(?<level>[A-Z]+) +\S+ +[^ :]*:\d+:(?<function>[^ ]*?):(?:<[^>]*>)? ?(?<word>\S*)"
    counted = (
        log.select(pl.col("line").str.extract_groups(parts).struct.unnest())
        .with_columns(_clock(pl.col("time"), pl))
        .group_by("level", "function", "word")
        .agg(pl.len(), pl.col("time").max())
        .collect()
    )
    return int(counted["len"].sum())


def _duckdb(path: Path) -> int:
    import duckdb

    connection = duckdb.connect(config={"threads": 1})
    query = f"""
        WITH log AS (
            SELECT line, substr(line, 69) AS place
            FROM read_csv('{path}', columns={{'line': 'VARCHAR'}}, header=false, delim='\x01', quote='', escape='',
                          auto_detect=false, parallel=false, strict_mode=false)),
        parts AS (
            SELECT (substr(line, 3, 2)::BIGINT * 60 + substr(line, 6, 2)::BIGINT) * 1000000000
                       + substr(line, 9, 9)::BIGINT AS time,
                   substr(line, 40, 5) AS level, split_part(split_part(place, ' ', 1), ':', 3) AS function,
                   split_part(place, ' ', 2) AS word
            FROM log)
        SELECT sum(events) FROM (SELECT count(*) AS events, max(time) FROM parts GROUP BY level, function, word)"""
    found = connection.execute(query).fetchone()
    return int(found[0]) if found else 0


def _python_split(path: Path) -> int:
    counts: Counter[tuple[bytes, bytes, bytes]] = Counter()
    latest = 0
    with path.open("rb") as log:
        for line in log:
            clock, _, _, level, _, place, rest = line.split(None, 6)
            hours, minutes, seconds = clock.split(b":")
            latest = (int(hours) * 60 + int(minutes)) * 60 * 10**9 + int(seconds.replace(b".", b""))
            counts[level, place.split(b":", 3)[2], rest.split(None, 1)[0]] += 1
    return counts.total() if latest else 0


_WAYS: Mapping[str, tuple[str, Callable[[Path], int]]] = {
    _OWN: ("unperturbed", _own),
    "polars, slices": ("polars", _polars_slices),
    "polars, expression": ("polars", _polars_expression),
    "duckdb, substr": ("duckdb", _duckdb),
    "Python, split": ("collections", _python_split),
}


def make_logs(folder: Path, lines: int) -> tuple[Path, Path]:
    """Write the log, and a short one to warm up with."""
    kept = _LOG.read_bytes().splitlines(keepends=True)
    ready = next(number for number, line in enumerate(kept) if b"initialized GStreamer successfully" in line)
    kept = [line for line in kept[ready + 1 :] if b"GST_PLUGIN_LOADING" not in line and b"GST_REGISTRY" not in line]
    for longest in sorted(set(map(len, kept)), reverse=True):
        if sum(map(len, kept)) <= _LINE_BYTES * len(kept):
            break
        kept = [line for line in kept if len(line) < longest]
    times = [int(line[2:4]) * 60 * 10**9 + int(line[5:17].replace(b".", b"")) for line in kept]
    rests = [line[17:] for line in kept]
    span = max(times) - min(times) + 1_000
    long, short = folder / "long.log", folder / "short.log"
    with long.open("wb") as out, short.open("wb") as warm:
        for first in range(0, lines, len(kept)):
            moved = first // len(kept) * span
            for time_, rest in list(zip(times, rests, strict=True))[: lines - first]:
                seconds, nano = divmod(time_ + moved, 10**9)
                line = b"%d:%02d:%02d.%09d%b" % (seconds // 3600, seconds // 60 % 60, seconds % 60, nano, rest)
                out.write(line)
                if first < _WARM_LINES:
                    warm.write(line)
    return long, short


def _measure_here(way: str, long: Path, short: Path) -> None:
    """Print what one run took: in a process of its own."""
    _, function = _WAYS[way]
    function(short)
    began, used = time.perf_counter(), time.process_time()
    events = function(long)
    took = {"seconds": time.process_time() - used, "elapsed": time.perf_counter() - began, "events": events}
    print(json.dumps({**took, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


def run_here(script: str, *arguments: str) -> dict[str, float]:
    """Run a measurement of a script in a process of its own, on one processor; return what it prints."""
    one = min(os.sched_getaffinity(0))
    environment = {**os.environ, **dict.fromkeys(("POLARS_MAX_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS"), "1")}
    done = subprocess.run(
        [sys.executable, script, "--measure", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: os.sched_setaffinity(0, {one}),
    )
    if done.returncode:
        raise SystemExit(f"{arguments[0]} failed: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _run(way: str, long: Path, short: Path) -> dict[str, float]:
    return run_here(__file__, way, str(long), str(short))


def main() -> int:
    """Measure, print, and return 1 where a bound is missed."""
    if sys.argv[1:2] == ["--measure"]:
        way, long, short = sys.argv[2:]
        _measure_here(way, Path(long), Path(short))
        return 0
    arguments = parse_arguments(
        "Reading of event logs",
        runs=(5, "runs of each way"),
        lines=(4_000_000, "lines of the log"),
        seed=(1, "of the order"),
    )
    lines, runs = (200_000, 1) if arguments.quick else (arguments.lines, arguments.runs)
    before = host_state()
    chance = random.Random(arguments.seed)
    ways = [way for way, (library, _) in _WAYS.items() if find_spec(library)]
    made: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        long, short = make_logs(Path(folder), lines)
        size = long.stat().st_size
        _run(_OWN, short, short)  # compiles, the first time
        for _ in range(runs):
            for way in chance.sample(ways, len(ways)):
                made[way].append(_run(way, long, short))
                if made[way][-1]["events"] != lines:
                    raise SystemExit(f"{way} counted {made[way][-1]['events']:,} events in {lines:,} lines")
    middle = {
        way: {field: statistics.median(run[field] for run in found) for field in found[0]}
        for way, found in made.items()
    }
    own = middle[_OWN]
    rows = [
        [
            way,
            f"{taken['seconds']:.2f} s",
            f"{taken['elapsed']:.2f} s",
            f"{taken['seconds'] / own['seconds']:.1f}",
            f"{taken['peak'] / 1e6:,.0f} MB",
            f"{taken['peak'] / size:.2f}",
        ]
        for way, taken in middle.items()
    ]
    seconds, memory = own["seconds"] * 4_000_000 / lines, own["peak"] / size
    verdicts = [
        f"CPU time of 4,000,000 lines ≤ {_MOST_SECONDS} s: {seconds:.2f} s, "
        f"{'holds' if seconds <= _MOST_SECONDS else 'MISSED'}",
        f"peak memory ≤ {_MOST_MEMORY} × the file: {memory:.2f}, "
        f"{'holds' if memory <= _MOST_MEMORY or arguments.quick else 'MISSED'}",
    ]
    if absent := sorted(set(_WAYS) - set(ways)):
        verdicts.append(f"not installed: {', '.join(absent)}")
    section = Section(
        "event_reading",
        "Reading event logs",
        f"{lines:,} lines, {size / 1e6:,.0f} MB, of one pipeline's log, repeated; from the page cache, on one "
        f"processor. Medians of {runs}; loading"
        " libraries and compiling is not in the time, but in the memory. Only read_events normalises words and sorts "
        "late events.",
        [
            Table(
                "Time, level, function and word of each line read, events of each kind counted",
                ["", "processor", "elapsed", "× read_events", "peak memory", "× file"],
                rows,
            )
        ],
        verdicts,
        {"size": size, "lines": lines, "runs": made},
    )
    deliver(section, arguments, before)
    return int(any("MISSED" in verdict for verdict in verdicts))


if __name__ == "__main__":
    raise SystemExit(main())
