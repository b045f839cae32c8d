"""Programs whose own events end intervals: compiled by the instrumenting compiler, run natively or under callgrind."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unperturbed.collectors.records.file import Records, Setup, create_record_file, read_record_file
from unperturbed.collectors.runtime import BOUNDS, runtime_files
from unperturbed.collectors.sources.callgrind import Machine, valgrind_command
from unperturbed.collectors.sources.dumps import read_dumps
from unperturbed.instrument.compiler.toolchain import Toolchain, write_toolchain
from unperturbed.instrument.events import parse_event

STEPS: Mapping[str, Mapping[str, object]] = {"steps": {"enter": "step"}, "others": {"enter": "other"}}


@dataclass(frozen=True)
class OwnEvents:
    """A folder with C files, and the compilers that let events of `steps` end intervals."""

    folder: Path
    chain: Toolchain
    metrics: int

    def compile(self, *words: str) -> None:
        """Run the C compiler in the folder; it must not fall back to uncounted code."""
        done = subprocess.run([self.chain.cc, *words], cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "no counters" not in done.stderr, done.stderr

    def run(
        self,
        *command: str,
        every: int = 1000,
        source: str = "none",
        clock: str = "program",
        prefix: Sequence[str] = (),
        **options: Any,
    ) -> tuple[Records, subprocess.CompletedProcess[str]]:
        """Run a program with a record file; return what it left."""
        setup = Setup(source, every, clock, software=self.metrics, **options)
        record = self.folder / "record"
        create_record_file(record, setup)
        environment = {"PATH": os.environ["PATH"], "UNPERTURBED_RECORD": str(record)}
        done = subprocess.run(
            [*prefix, *command], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )
        return read_record_file(record, setup), done

    def simulate(self, *command: str, every: int = 1000) -> tuple[Records, Mapping[str, NDArray[np.int64]]]:
        """Run a program under callgrind; return its records and the events of each interval."""
        dumps = self.folder / "dumps"
        records, done = self.run(*command, every=every, source="simulated", prefix=valgrind_command(Machine(), dumps))
        assert done.returncode == 0, done.stderr
        return records, read_dumps(dumps.with_name(f"dumps.{records.owner}"), len(records.rows) - 1)


def own_events(
    folder: Path, files: Mapping[str, str], *, compiler: str = "gcc", software: Mapping[str, Any] = STEPS, **how: Any
) -> OwnEvents:
    """Write files and the compilers of a program whose metric `steps` ends intervals."""
    for name, text in files.items():
        (folder / name).write_text(text)
    events = {name: parse_event(event) for name, event in software.items()}
    cxx = {"gcc": "g++", "clang": "clang++"}[compiler]
    chain = write_toolchain(
        folder / "toolchain",
        events,
        compilers={"cc": compiler, "cxx": cxx},
        runtime=runtime_files(regions=any(event.kind == "within" for event in events.values())),
        bounds=BOUNDS,
        ends_intervals="steps",
        **how,
    )
    return OwnEvents(folder, chain, len(events))


def lengths(records: Records, metric: int = 0) -> list[int]:
    """Return the number of a metric's events in each interval of the main thread."""
    rows = records.rows[records.rows["thread"] == 0]
    return [int(count) for count in np.diff(rows["software"][:, metric])]
