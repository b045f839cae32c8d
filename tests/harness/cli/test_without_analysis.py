"""A host that only measures: without the extra [analysis] a campaign runs, its runs are kept, and one message names
what to install. The verdicts come from another host."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli.test_run_options import PLAIN
from tests.harness.phases_campaign import unperturbed, write_spec
from unperturbed.common.extras import EXTRAS

INSTALL = "pip install 'unperturbed[analysis]'"
HIDE = f"import sys; sys.modules.update(dict.fromkeys({EXTRAS['analysis']!r}))"
"""What makes a process find none of the libraries, as where they were never installed."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("measuring")
    (folder / "hidden").mkdir()
    (folder / "hidden" / "sitecustomize.py").write_text(HIDE)
    write_spec(folder, **PLAIN)
    return folder


@pytest.fixture(scope="module")
def here(folder: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    return lambda *words: unperturbed(folder, *words, environment={"PYTHONPATH": str(folder / "hidden")})


def test_it_measures_and_says_what_a_verdict_needs(
    here: Callable[..., subprocess.CompletedProcess[str]], folder: Path
) -> None:
    measured = here("run", "--no-check", "spec.yaml")
    assert measured.returncode == 0, measured.stderr
    assert measured.stdout.startswith("5 runs done: ")
    assert "next:   unperturbed check" in measured.stdout
    campaign = folder / "campaigns" / "phases"
    assert len(list(campaign.glob("runs/*/trace.parquet"))) >= 5
    judged = here("run", "spec.yaml")
    assert judged.returncode == 3
    assert "measuring without a verdict" in judged.stderr
    last = judged.stderr.splitlines()[-1]
    assert last.startswith("unperturbed: no verdict: ") and f"Every run is kept in {campaign}: " in last
    assert INSTALL in last and f"`unperturbed check {campaign}`" in last

    for words in (("check", campaign), ("report", campaign), ("partition", "spec.yaml")):
        refused = here(*words)
        assert refused.returncode == 3, words
        assert refused.stderr.count("\n") == 1 and INSTALL in refused.stderr, refused.stderr
    for words in (("list",), ("metrics", "branch"), ("export", campaign, "--format", "csv", "--out", "runs.csv")):
        done = here(*words)
        assert done.returncode == 0, done.stderr
    assert (folder / "runs.csv").read_text().count("\n") > 5

    moved = campaign.rename(folder / "copied")
    elsewhere = unperturbed(folder, "check", moved)
    assert elsewhere.returncode == 0, elsewhere.stderr
    assert json.loads((moved / "verdicts.json").read_text())["campaign"] == "phases"


def test_the_library_names_the_extra(folder: Path) -> None:
    code = (
        f"{HIDE}\nimport unperturbed as up\n"
        "for call in (lambda: up.dtw([1.0, 2.0], [1.0, 2.0]), lambda: up.read_events('no.log')):\n"
        "    try: call()\n"
        "    except ImportError as error: print(type(error).__name__, error)\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder).stdout
    assert [line.partition(" ")[0] for line in shown.splitlines()] == ["MissingExtraError"] * 2
    assert shown.count(INSTALL) == 2
