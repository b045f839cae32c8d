"""What an export costs: events a second of CPU time, by format.

::

    python tests/benchmarks/export_speed.py [--intervals 50000] [--metrics 20]

An event is one value of one metric: an interval of a trace has as many as the trace has metrics.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from unperturbed.collectors.data import Metric, Trace
from unperturbed.harness.exports import export, formats
from unperturbed.harness.exports.content.runs import single_run


def main() -> int:
    """Write one trace in every format that a run can be written in."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--intervals", type=int, default=50_000)
    parser.add_argument("--metrics", type=int, default=20)
    arguments = parser.parse_args()
    runs = single_run(make(arguments.intervals, arguments.metrics), "generated")
    events = arguments.intervals * arguments.metrics
    print(f"{events:,} events: {arguments.intervals:,} intervals of {arguments.metrics} metrics")
    with tempfile.TemporaryDirectory() as folder:
        for name, one in formats("campaign").items():
            for repetition in range(2):  # the first one loads libraries
                path = Path(folder) / f"{name}{repetition}{one.suffixes[0]}"
                before = time.process_time()
                export(runs, "campaign", path, name=name)
                seconds = time.process_time() - before
            size = sum(file.stat().st_size for file in (path.rglob("*") if path.is_dir() else [path]))
            print(f"{name:12} {events / seconds / 1e6:8.2f} M events/s  {size / events:6.1f} bytes an event")
    return 0


def make(intervals: int, metrics: int) -> Trace:
    """Return a trace of counters, a third of them simulated, whose values span what counters do in 10 ms."""
    chance = np.random.default_rng(1)
    described = [Metric(f"metric_{place:02d}", "hardware" if place % 3 else "simulated") for place in range(metrics)]
    columns = {
        metric.name: chance.integers(0, 10 ** (1 + place % 8), intervals) for place, metric in enumerate(described)
    }
    end = np.cumsum(chance.integers(9_900_000, 10_100_000, intervals))
    begin = np.insert(end[:-1], 0, 0)
    facts = {"configuration": "baseline", "run": "0001"}
    return Trace.from_columns(described, columns, begin_ns=begin, end_ns=end, attributes=facts)


if __name__ == "__main__":
    raise SystemExit(main())
