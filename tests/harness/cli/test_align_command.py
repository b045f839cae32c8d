"""`unperturbed align` on runs with a stretch that changes places."""

from __future__ import annotations

import json
from pathlib import Path

from tests.analysis.alignment.test_moved import two_runs
from tests.harness.command_server import run_command


def test_a_stretch_that_changes_places_is_shown_and_mapped(tmp_path: Path) -> None:
    names = ["a.parquet", "b.parquet"]
    for name, run in zip(names, two_runs(2), strict=True):
        run.write(tmp_path / name)
    shown = run_command(tmp_path, ["align", *names, "--on", "IPC", "--moved", "match", "--region", "42:47"])
    assert shown.returncode == 0, shown.stderr
    assert "moved  40:52 is 130:142 of the second run" in shown.stdout
    assert "intervals 42:47 of the first run correspond to intervals 132:137 of the second run" in shown.stdout
    told = json.loads(run_command(tmp_path, ["align", *names, "--on", "IPC", "--moved", "match", "--json"]).stdout)
    assert told["moved"] == [[40, 52, 130, 142]]
    same = run_command(tmp_path, ["align", names[0], names[0], "--on", "IPC", "--moved", "match"])
    assert "no stretch was found that changed places" in same.stdout
    refused = run_command(
        tmp_path, ["align", *names, "--anchor", "PAGES", "--method", "milestones", "--moved", "match"]
    )
    assert refused.returncode == 2
    assert "--moved match compares the metric, which --method milestones ignores" in refused.stderr
