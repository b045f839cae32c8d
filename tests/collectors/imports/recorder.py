"""Recordings of the real perf: software events work on every host, with or without a PMU."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EVENTS = "task-clock,page-faults,context-switches"

PROGRAM = """
import time
for phase in range({phases}):
    kept = [bytes(5000) for _ in range(3000)]
    end = time.process_time() + 0.006
    while time.process_time() < end:
        pass
    if phase % 3 == 0:
        time.sleep(0.002)
"""


def record(path: Path, *options: str, phases: int = 20, interval_ms: int = 10) -> Path:
    """Record a small program by `perf stat -I` with these options."""
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed")
    program = [sys.executable, "-c", PROGRAM.format(phases=phases)]
    words = ["perf", "stat", "-I", str(interval_ms), "-o", str(path), *options, "-e", EVENTS, "--", *program]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"perf stat cannot count here: {done.stderr.strip()}")
    return path
