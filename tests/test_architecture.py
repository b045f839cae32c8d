"""The one-way rule of ARCHITECTURE.md, and that the command line stays quick to load."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

MAY_IMPORT = {
    "errors": (),
    "collectors": ("errors", "collectors"),
    "instrument": ("errors", "instrument"),
    "analysis": ("errors", "analysis", "collectors.trace", "collectors.table"),
    "harness": ("errors", "harness", "collectors", "instrument", "analysis"),
}


def _imported(path: Path) -> set[str]:
    """Return the project's modules that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.removeprefix("unperturbed.") for name in found if name.startswith("unperturbed.")}


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_one_way_only(part: str) -> None:
    files = sorted((ROOT / part).rglob("*.py"))
    assert files
    for file in files:
        for name in _imported(file):
            allowed = any(name == rule or name.startswith(f"{rule}.") for rule in MAY_IMPORT[part])
            assert allowed, f"{file.relative_to(ROOT)} imports unperturbed.{name}"


def test_help_loads_nothing_slow() -> None:
    text = "import sys; from unperturbed.harness.cli import _parser; _parser(None).format_help(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "polars", "pydantic", "scipy", "numba", "plotly", "rich", "yaml", "clang"} & set(loaded)


def test_a_measuring_session_does_not_load_what_only_the_report_needs() -> None:
    text = "import sys; import unperturbed.harness.campaign; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout.split()
    assert not {"plotly", "numba", "scipy.stats"} & set(loaded)
