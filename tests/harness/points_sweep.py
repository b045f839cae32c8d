"""A sweep over the small program of `points/`, for the tests: specs with one thing changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.harness.spec.changed_spec import write_changed_spec

POINTS = Path(__file__).parent / "points"

SPEC: dict[str, Any] = {
    "name": "points",
    "parameters": {"steps": [0, 1000, 2000], "way": ["walk", "saunter"]},
    "program": {
        "source": "points",
        "build": "make CC={cc}",
        "run": "{build}/points {parameters.steps} {parameters.way}",
        "timeout": "1 min",
    },
    "measure": {
        "source": "simulated",
        "hardware": ["PAPI_TOT_INS", "PAPI_TOT_CYC"],
        "os": ["minor_faults"],
        "software": {"walked": {"loop": "walk"}},
        "derived": {"instr_step": "PAPI_TOT_INS / walked"},
    },
    "campaign": {"seed": 5},
}


def write_sweep_spec(folder: Path, **changes: Any) -> Path:
    """Write the spec into a folder with the program beside it; `program__run="…"` changes a key, None removes it."""
    return write_changed_spec(folder, SPEC, POINTS, changes)
