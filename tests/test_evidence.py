"""What `tools/checks/evidence.py` accepts and refuses."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
MADE = "Made by `python {command}` at commit {commit} on 2026-01-02 with version 1.0.0 on Some CPU, Linux 6.1."


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "checks"))
    monkeypatch.chdir(ROOT)
    spec = importlib.util.spec_from_file_location("evidence", ROOT / "tools" / "checks" / "evidence.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "evidence", module)
    monkeypatch.setattr(module, "whole_history", lambda: True)
    monkeypatch.setattr(module, "is_ancestor", lambda commit: commit == "1234567")
    return module


def test_each_part_with_figures_says_how_it_was_made(check: ModuleType) -> None:
    made = MADE.format(command="-m experiments.structure.evaluate --pairs 3", commit="1234567")
    table = "| a | b |\n|---|---|\n| 1 | 2 |\n"
    assert not list(check.unmade(f"# Page\n\n{made}\n\n{table}"))
    assert not list(check.unmade("# Page\n\nNo figures.\n"))
    assert [line for line, _ in check.unmade(f"# Page\n\n{table}")] == [1]
    two = f"# Page\n\n<!-- one -->\n{table}\n{made}\n<!-- two -->\n{table}"
    assert [line for line, _ in check.unmade(two)] == [9]


@pytest.mark.parametrize(
    ("command", "commit", "fault"),
    [
        ("-m experiments.nowhere", "1234567", "there is no experiments/nowhere.py, which the command names"),
        ("tools/update_plotly.py", "1234567", "no goal of the Makefile makes it: tools/update_plotly.py"),
        ("docs/evidence/nodes.py", "7654321", "commit 7654321 is not in this history"),
        ("docs/evidence/nodes.py", "1234567-dirty", "no line “Made by"),
    ],
)
def test_commands_and_commits_exist(check: ModuleType, command: str, commit: str, fault: str) -> None:
    made = MADE.format(command=command, commit=commit)
    ((_, what),) = check.unmade(f"# Page\n\n{made}\n\n| a |\n|---|\n| 1 |\n")
    assert what.startswith(fault)


def test_quoted_figures_are_those_of_the_page(
    check: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evidence").mkdir()
    monkeypatch.setattr(check, "EVIDENCE", tmp_path / "evidence")
    (tmp_path / "evidence" / "a.md").write_text("| −0.058 | 8,873,517 | 12.46 | 7 |\n")
    page = tmp_path / "page.md"

    def missing(text: str) -> list[str]:
        page.write_text(text)
        return [what.partition(" ")[0] for _, what in check.parted(page)]

    assert missing("[A](evidence/a.md): −0.058, 5.8 %, 12.5, 12, 7 and 8.9 million. `99`\n") == []
    assert missing("[A](evidence/a.md): 0.059, 5.9 %, 12.6, 13 and 8.") == ["0.059", "5.9", "12.6", "13", "8"]
    assert missing("Figures of [A](evidence/a.md):\n\n| a |\n|---|\n| 8 |\n") == ["8"]
    assert missing("Elsewhere: 8.\n\n| a |\n|---|\n| 8 |\n") == []
    assert missing("Elsewhere: [A](evidence/a.md).\n\n## Next\n\n- 8.\n") == []
    assert missing("[A](evidence/a.md), on x86-64: 7.\n") == []


def test_quoted_figures_are_those_of_the_section_that_is_linked(
    check: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evidence").mkdir()
    monkeypatch.setattr(check, "EVIDENCE", tmp_path / "evidence")
    evidence = "# A\n\n11\n\n## θ, in `runs`\n\n12\n\n### Both\n\n13\n\n## Others\n\n14\n\n### Both\n\n15\n"
    (tmp_path / "evidence" / "a.md").write_text(evidence)
    page = tmp_path / "page.md"

    def missing(anchors: str, numbers: str) -> list[str]:
        links = " ".join(f"[A](evidence/a.md#{anchor})" for anchor in anchors.split())
        page.write_text(f"{links}: {numbers}.\n\n| {numbers} |\n")
        return [what for _, what in check.parted(page)]

    assert missing("in-runs", "12 13") == []
    assert missing("in-runs", "14") == ["14 is not on a.md#in-runs"] * 2, "a figure from another section"
    assert missing("others", "14 15") == []
    assert missing("both", "13") == []
    assert missing("both_1", "13") == ["13 is not on a.md#both_1"] * 2
    assert missing("in-runs others", "12 14") == []
    assert missing("a", "11 12 15") == []
    assert missing("elsewhere", "11") == ["a.md has no section elsewhere"] * 2
