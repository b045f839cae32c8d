"""Another distribution adds a kind of software event by one module.

It is validated, compiled, counted and explained.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

_KIND = '''\
"""Jumps."""

from unperturbed.instrument.events import CompiledKind
from unperturbed.instrument.events.kind import FUNCTION, FUNCTION_FORM, matches


class Goto(CompiledKind):
    name = "goto"
    keys = ("goto",)
    meaning = "executions of a function's goto statements: its name or a glob"
    example = "decode"
    pattern = FUNCTION
    form = FUNCTION_FORM

    def in_body(self, function, body):
        from clang.cindex import CursorKind

        for index, metric in self.metrics:
            if matches(function.names, metric.target):
                for cursor, point in body.statements:
                    if cursor.kind == CursorKind.GOTO_STMT:
                        self.search.add(index, function, point)
'''
_PROGRAM = """\
static int jump(int n)
{
    int i = 0;
again:
    if (++i < n)
        goto again;
    if (i > 100)
        goto end;
    i++;
end:
    return i;
}
int main(void) { return jump(7) != 8; }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a distribution that offers a kind of event, and a program."""
    package = tmp_path / "installed" / "toy_events"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "goto.py").write_text(_KIND)
    information = package.parent / "toy_events-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-events\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[unperturbed.event_kinds]\ngoto = toy_events.goto:Goto\n")
    (tmp_path / "x.c").write_text(_PROGRAM)
    return tmp_path


def run(folder: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run `unperturbed` where the distribution is installed."""
    environment = {**os.environ, "PYTHONPATH": str(folder / "installed")}
    result = subprocess.run(
        [sys.executable, "-m", "unperturbed.harness.cli", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == code, result.stderr
    return result


def test_it_is_compiled_and_counted(folder: Path) -> None:
    (folder / "metrics.yaml").write_text("software:\n  jumps: {goto: jump}\n  returns: {return: jump}\n")
    run(folder, "cc", "--metrics", "metrics.yaml", "--", "gcc", "-O2", "x.c", "-o", "x")
    subprocess.run(["./x"], cwd=folder, env={**os.environ, "UNPERTURBED_TOTALS": "totals"}, check=True)
    assert (folder / "totals").read_text().splitlines() == ["jumps 6", "returns 1"]


def test_a_metric_without_a_site_has_the_nearest_name(folder: Path) -> None:
    (folder / "metrics.yaml").write_text("software:\n  jumps: {goto: jumb}\n")
    result = run(folder, "cc", "--metrics", "metrics.yaml", "--", "gcc", "-O2", "x.c", "-o", "x")
    assert "the program has no site for `goto: jumb`; nearest names: jump" in result.stderr


def test_a_spec_may_have_it(folder: Path) -> None:
    spec = "name: jumps\nprogram: {{source: ., build: '{{cc}} x.c -o x', run: '{{build}}/x'}}\nmeasure: {{interval: 1 ms, os: [minor_faults], {}}}\n"
    (folder / "good.yaml").write_text(spec.format("software: {jumps: {goto: jump}}"))
    (folder / "bad.yaml").write_text(spec.format("software: {jumps: {goto: '2 jumps', in: main}}"))
    sites = json.loads(run(folder, "sites", "good.yaml", "--json").stdout)["metrics"]["jumps"]["sites"]
    assert [(site["file"], site["line"]) for site in sites] == [("x.c", 6), ("x.c", 8)]
    refused = run(folder, "sites", "bad.yaml", code=2).stderr
    assert "`goto`: '2 jumps' is not a valid target: expected a function's name" in refused
    assert "`in`: only `call` and `write` events support this filter, not `goto` events" in refused


def test_the_json_schema_has_it(folder: Path) -> None:
    schema = json.loads(run(folder, "schema").stdout)
    assert schema["$defs"]["EventFields"]["properties"]["goto"]["examples"] == ["decode"]
