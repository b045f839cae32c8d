"""A campaign on the small program of `phases/`, for the tests: specs with one thing changed, and the real command
line."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.harness.command_server import READ_LATE, run_command
from tests.harness.results.schema_faults import file_faults
from tests.harness.spec.changed_spec import write_changed_spec

PHASES = Path(__file__).parent / "phases"

# Intervals of work, in the shortest runs of which a verdict can be given.
SPEC: dict[str, Any] = {
    "name": "phases",
    "program": {"source": "phases", "build": "make CC={cc}", "run": "{build}/phases 16", "timeout": "1 min"},
    "measure": {
        "interval": {"records": 30},
        "clock": "work",
        "source": "simulated",
        "hardware": ["PAPI_TOT_INS", "PAPI_L1_DCM", "PAPI_BR_MSP", "PAPI_SR_INS"],
        "os": ["minor_faults"],
        "software": {"rounds": {"enter": "begin_round"}, "steps": {"loop": "walk"}},
        "derived": {"IPC": "PAPI_TOT_INS / PAPI_TOT_CYC"},
    },
    "campaign": {"baseline_runs": 5, "runs": 3, "subsets": {"steps": ["steps"]}, "seed": 3, "retries": 1},
    "analysis": {"anchor": "rounds", "align_on": ["PAPI_TOT_INS"]},
}
SPEC["measure"]["hardware"].append("PAPI_TOT_CYC")


def write_spec(folder: Path, **changes: Any) -> Path:
    """Write the spec into a folder with the program beside it; `program__run="…"` changes a key, None removes it.

    An interval that is a time is of the clock that the tool chooses, unless the test says of which.
    """
    if isinstance(changes.get("measure__interval"), str):
        changes.setdefault("measure__clock", None)
    return write_changed_spec(folder, SPEC, PHASES, changes)


def unperturbed(
    folder: Path, *arguments: str | Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command line in a folder."""
    if READ_LATE.issuperset(environment or {}):
        return run_command(folder, list(map(str, arguments)), environment)
    command = [sys.executable, "-m", "unperturbed.harness.cli", *map(str, arguments)]
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )


def verdicts(campaign: Path) -> dict[str, Any]:
    """Return what the campaign's JSON says; all of it is as its published schema describes."""
    assert file_faults(campaign / "verdicts.json") == []
    found: dict[str, Any] = json.loads((campaign / "verdicts.json").read_text())
    return found


def done_runs(campaign: Path) -> list[str]:
    """Name the runs that a campaign's manifest calls done, while another process may be writing it."""
    manifest = campaign / "campaign.sqlite"
    if not manifest.exists():
        return []
    with sqlite3.connect(f"file:{manifest}?mode=ro", uri=True) as database:
        try:
            found = [row[0] for row in database.execute("SELECT id FROM runs WHERE state = 'done' ORDER BY id")]
        except sqlite3.OperationalError:  # the tables are being made at this moment
            found = []
    database.close()
    return found
