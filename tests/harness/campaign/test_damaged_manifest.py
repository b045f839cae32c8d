"""Manifests with damaged pages, facts and rows: one message each, and runs beyond 9,999 in their order."""

from __future__ import annotations

import json
import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from unperturbed.errors import UnperturbedError
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.plan import PlannedRun

HOST = {"load_1min": 0.5, "steal_s": 0.0}
_NATIVE = {"exit_code": 0, "seconds": 1.0, "user_s": 0.9, "system_s": 0.1, "max_rss_kib": 900}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    with Manifest(tmp_path / "campaign.sqlite") as manifest:
        manifest.set_facts(
            id="x",
            spec_text="name: x",
            spec_path="x.yaml",
            purpose="a campaign",
            passes=[{"name": "main", "source": "perf_event", "metrics": ["perf::page-faults"]}],
            native=_NATIVE,
        )
        runs = [PlannedRun(f"{number:04d}", "baseline", "main", number, 0, 0) for number in range(5)]
        manifest.plan(runs)
        for run in runs:
            manifest.start(run, attempt=1, started="2031-05-04T10:12:00+00:00", host=HOST)
            manifest.finish(run, seconds=1.0, intervals=3, host=HOST)
    return tmp_path / "campaign.sqlite"


def _read(file: Path) -> None:
    with Manifest(file, read_only=True) as manifest:
        for name in ("id", "spec_text", "spec_path", "purpose", "passes", "native"):
            manifest.fact(name)
        manifest.runs()
        manifest.failures()
        manifest.totals()
        manifest.counts()


def _change(file: Path, statement: str, *values: Any) -> None:
    with sqlite3.connect(file) as database:
        database.execute(statement, values)
    database.close()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("spec_text", "{", "'spec_text' is not JSON"),
        ("spec_text", b"\xff\xfe", "'spec_text' is not JSON"),
        ("spec_text", "5", "'spec_text' is 5, not text"),
        ("passes", "5", "'passes' is 5, not a list"),
        ("passes", "[5]", r"'passes'\[0\] is 5, not a mapping"),
        ("passes", '[{"name": "main"}]', r"'passes'\[0\] has no key 'source'"),
        ("passes", '[{"name": "main", "source": "x", "metrics": [5]}]', r"metrics\[0\] is 5, not text"),
        ("native", json.dumps({**_NATIVE, "seconds": "x"}), "seconds is 'x', not a number"),
        ("native", json.dumps({**_NATIVE, "seconds": True}), "seconds is True, not a number"),
        ("native", "[" * 100_000, "'native' is not JSON"),
    ],
)
def test_a_damaged_fact_is_named(file: Path, name: str, value: object, message: str) -> None:
    _change(file, "UPDATE facts SET value = ? WHERE name = ?", value, name)
    with pytest.raises(
        UnperturbedError, match=f"is damaged: in the table `facts`, the entry .*{message}.*unperturbed import parquet"
    ):
        _read(file)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("id", "../../home", "a run has the invalid name '../../home'"),
        ("id", b"\xff/", "a run has the invalid name"),
        ("configuration", b"\x05", ""),
        ("repetition", "x", "`repetition` of a run is 'x', not an integer"),
        ("seconds", "x", "`seconds` of a run is 'x', not a number"),
        ("host_before", "{", "the host of run 0003 is not JSON"),
        ("host_after", "5", "the host of run 0003 is 5, not a mapping"),
    ],
)
def test_a_damaged_run_is_named(file: Path, column: str, value: object, message: str) -> None:
    _change(file, f"UPDATE runs SET {column} = ? WHERE id = '0003'", value)
    if message:
        with pytest.raises(UnperturbedError, match=f"manifest is damaged: {message}"):
            _read(file)
    else:
        _read(file)


@pytest.mark.parametrize("seed", range(80))
def test_overwritten_bytes_give_a_message(file: Path, seed: int) -> None:
    chance, content = random.Random(seed), bytearray(file.read_bytes())
    for _ in range(chance.choice([1, 5, 50, 500])):
        content[chance.randrange(len(content))] = chance.randrange(256)
    if seed % 4 == 0:
        content = content[: chance.randrange(len(content))]
    elif seed % 4 == 1:
        at = chance.randrange(len(content) // 4096) * 4096
        content[at : at + 4096] = chance.randbytes(4096)
    file.write_bytes(content)
    try:
        _read(file)
    except (UnperturbedError, sqlite3.Error) as error:  # the command line has a message for both
        assert str(error)


def test_runs_beyond_9999_keep_their_order(tmp_path: Path) -> None:
    names = [f"{number:04d}" for number in (9_998, 9_999, 10_000, 10_001, 100_000)]
    with Manifest(tmp_path / "campaign.sqlite") as manifest:
        manifest.plan(PlannedRun(name, "baseline", "main", at, 0, 0) for at, name in enumerate(names))
        assert [state.run.id for state in manifest.runs()] == names
        for state in manifest.runs():
            manifest.start(state.run, attempt=1, started="2031-05-04T10:12:00+00:00", host={})
            manifest.fail(state.run, seconds=1.0, error=json.dumps(None), host={}, final=True)
        assert [failure.run for failure in manifest.failures()] == names
