"""The rooms of ARCHITECTURE.md and their order, and that the command line stays quick to load."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import rooms

ROOT = Path(__file__).parents[1]


def test_a_room_uses_those_below_it_alone() -> None:
    assert rooms.unordered() == []
    assert rooms.faults_of_order() == []


def test_the_harness_knows_methods_by_their_entry_points_alone() -> None:
    methods = ("analysis.causal", "analysis.diagnosis", "analysis.structure", "harness.methods")
    found = [
        f"{name} imports {used}"
        for name, all_used in rooms.imports().items()
        if name.startswith("harness.") and not f"{name}.".startswith("harness.methods.")
        for used in all_used
        if f"{used}.".startswith(tuple(f"{method}." for method in methods))
    ]
    assert found == []


def test_a_room_that_used_one_above_it_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {"analysis.perturbation.outer": frozenset({"analysis.causal.table.variables", "harness.spec"})}
    monkeypatch.setattr(rooms, "imports", lambda: wrong)
    assert rooms.faults_of_order() == [
        "analysis/perturbation/outer.py imports unperturbed.analysis.causal.table.variables",
        "analysis/perturbation/outer.py imports unperturbed.harness.spec",
    ]


def test_a_room_has_few_modules_whose_names_do_not_repeat_it() -> None:
    assert rooms.faults_of_size() == []


def test_the_page_of_the_architecture_shows_the_rooms_as_they_are() -> None:
    text = rooms.ARCHITECTURE.read_text()
    assert rooms.renewed(text) == text, "write it again: python tests/rooms.py"


def test_the_ways_drawn_through_the_files_are_those_of_the_code() -> None:
    text = rooms.ARCHITECTURE.read_text()
    files = dict(re.findall(r'(\w\d+)\["([\w/]+)"\]', text))
    assert all((ROOT / f"{file}.py").exists() for file in files.values())
    names = {node: file.removesuffix("/__init__").replace("/", ".") for node, file in files.items()}
    arrows = re.findall(r"^ +(\w\d+)\S* --> (.*)$", text, re.MULTILINE)
    drawn = [
        (names[first], names[node]) for first, others in arrows for node in re.findall(r"\b(\w\d+)\b(?=\[| |$)", others)
    ]
    assert len(drawn) > 40
    used = rooms.imports()
    through_packages = {name: used[name] | {two for one in used[name] for two in used[one]} for name, _ in drawn}
    assert [pair for pair in drawn if pair[1] not in through_packages[pair[0]]] == []


def test_help_loads_nothing_slow() -> None:
    text = "import sys; from unperturbed.harness.cli import main; main([]); print('loaded', *sys.modules)"
    shown = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout
    loaded = shown.rpartition("loaded")[2].split()
    assert not {"numpy", "polars", "pydantic", "scipy", "numba", "plotly", "rich", "yaml", "clang"} & set(loaded)


def test_a_measuring_session_does_not_load_what_only_the_report_needs() -> None:
    text = "import sys; import unperturbed.harness.campaign.execution; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout.split()
    assert not {"plotly", "numba", "scipy.stats"} & set(loaded)


def test_polars_reads_open_files_or_no_patterns() -> None:
    """polars takes a path as a glob, unless told: asked for `x[1]/trace.parquet` it reads `x1/trace.parquet`."""
    for path in rooms.modules().values():
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if re.search(r"\bpl\s*\.\s*(read|scan)_", text) else ():
            if isinstance(node, ast.Call) and re.fullmatch(r"pl\.(read|scan)_\w+", ast.unparse(node.func)):
                place = f"{path.relative_to(ROOT)}:{node.lineno}"
                exact = any((item.arg, ast.unparse(item.value)) == ("glob", "False") for item in node.keywords)
                assert exact or ast.unparse(node.args[0]) == "file", f"{place} gives polars a path"
