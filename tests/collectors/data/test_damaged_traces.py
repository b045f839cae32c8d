"""Traces that were damaged, cut off or written by something else: one message each, and never other numbers."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from unperturbed.collectors import Metric, Trace
from unperturbed.collectors.data.files import encode_parquet
from unperturbed.collectors.imports import read_traces
from unperturbed.common import supervision
from unperturbed.errors import DataError

KEY = "unperturbed"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    chance = random.Random(1)
    trace = Trace.from_columns(
        [Metric("PAPI_TOT_INS", "simulated"), Metric("IPC", "derived", semantics="gauge")],
        {
            "PAPI_TOT_INS": [chance.randrange(10**6) for _ in range(300)],
            "IPC": [chance.random() for _ in range(300)],
        },
        begin_ns=range(0, 300_000, 1000),
        end_ns=range(1000, 301_000, 1000),
        attributes={"run": "0001", "configuration": "x"},
    )
    trace.write(tmp_path / "trace.parquet")
    return tmp_path / "trace.parquet"


def _rewrite(file: Path, frame: Callable[[pl.DataFrame], pl.DataFrame], described: Callable[[Any], Any]) -> None:
    metadata = {name: text for name, text in pl.read_parquet_metadata(file).items() if name.startswith(KEY)}
    ((name, text),) = metadata.items()
    changed, table = described(json.loads(text)), frame(pl.read_parquet(file))
    if isinstance(changed, dict):
        file.write_bytes(encode_parquet(table, name, changed))  # what was damaged before it was written
    else:
        table.write_parquet(file, metadata={name: changed if isinstance(changed, str) else json.dumps(changed)})


def _same(value: Any) -> Any:
    return value


def _with_metric(described: Any, **changes: Any) -> Any:
    described["metrics"][0] |= changes
    return described


@pytest.mark.parametrize(
    ("frame", "described", "message"),
    [
        (lambda frame: frame.drop("IPC"), _same, "no column 'IPC'"),
        (lambda frame: frame.drop("end_ns"), _same, "no column 'end_ns'"),
        (lambda frame: frame.with_columns(pl.lit("x").alias("IPC")), _same, "'IPC' must contain numbers, not String"),
        (lambda frame: frame.with_columns(pl.lit(0.5).alias("begin_ns")), _same, "must contain integers, not Float64"),
        (
            lambda frame: frame.with_columns(pl.when(pl.col("end_ns") != 3000).then(pl.col("IPC"))),
            _same,
            r"'IPC' has no value in row 2 \(counted from 0\)",
        ),
        (lambda frame: frame.reverse(), _same, "its values have changed since it was written"),
        (lambda frame: frame.head(3), _same, "its values have changed since it was written"),
        (_same, lambda _: "{", "cannot read the description of the metrics"),
        (_same, lambda _: "[]", "cannot read the description of the metrics"),
        (_same, lambda described: {**described, "metrics": 3}, "cannot read the description of the metrics"),
        (_same, lambda described: {**described, "format": 99}, "written by a newer version of unperturbed"),
        (_same, lambda described: _with_metric(described, kind="magic"), "`kind` is 'magic', which is not one of"),
        (_same, lambda described: _with_metric(described, semantics="x"), "`semantics` is 'x', which is not one of"),
        (_same, lambda described: _with_metric(described, unit=3), "must be strings, and"),
        (_same, lambda described: _with_metric(described, more=3), "cannot read the description of the metrics"),
    ],
)
def test_each_damage_has_its_message(
    file: Path, frame: Callable[[pl.DataFrame], pl.DataFrame], described: Callable[[Any], Any], message: str
) -> None:
    _rewrite(file, frame, described)
    with pytest.raises(DataError, match=rf"{file.name}: .*{message}"):
        Trace.read(file)


def test_what_an_early_version_wrote_is_read(file: Path) -> None:
    before = Trace.read(file)
    _rewrite(file, _same, lambda described: {name: value for name, value in described.items() if name != "digest"})
    assert Trace.read(file) == before


@pytest.mark.parametrize("seed", range(60))
def test_changed_bytes_give_the_same_numbers_or_a_message(file: Path, seed: int) -> None:
    before, chance = Trace.read(file), random.Random(seed)
    content = bytearray(file.read_bytes())
    for _ in range(chance.choice([1, 1, 5, 50])):
        content[chance.randrange(len(content))] = chance.randrange(256)
    file.write_bytes(content[: len(content) if seed % 3 else chance.randrange(len(content))])
    try:
        after = Trace.read(file)
    except DataError as error:
        assert str(file) in str(error)
        return
    for name in before:
        assert (after[name] == before[name]).all()


def test_what_would_end_the_reader_is_refused(tmp_path: Path) -> None:
    """A changed byte in a page asks for exabytes of memory: the process that decodes it ends."""
    folder = Path(__file__).parents[2] / "attacks" / "corpus" / "trace"
    killing = [gzip.decompress(path.read_bytes()) for path in sorted(folder.glob("*.gz"))]
    file = tmp_path / "trace.parquet"
    for content in killing[:2]:
        file.write_bytes(content)
        with pytest.raises(DataError, match=r"the Parquet reader crashes on this file|the file is damaged"):
            Trace.read(file)


def test_files_of_other_tools_are_tried_in_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    run = supervision.run

    def counted(*words: Any, **options: Any) -> Any:
        started.append(words)
        return run(*words, **options)

    monkeypatch.setattr(supervision, "run", counted)
    files = [tmp_path / f"{number}.parquet" for number in range(6)]
    for number, file in enumerate(files):
        pl.DataFrame({"time": [0.1, 0.2, 0.3], "a": [number, 2 * number, 7]}).write_parquet(file)
    assert len(read_traces(tmp_path)) == 6
    assert len(started) == 1
    # What ends that process is found, and the others are read none the less.
    folder = Path(__file__).parents[2] / "attacks" / "corpus" / "trace"
    killing = gzip.decompress(next(folder.glob("*.gz")).read_bytes())
    (tmp_path / "3.parquet").write_bytes(killing)
    pl.DataFrame({"time": [0.1, 0.2, 0.3], "a": [9, 9, 9]}).write_parquet(tmp_path / "7.parquet")
    with pytest.raises(DataError, match=r"3\.parquet: not a readable Parquet file .the Parquet reader crashes"):
        read_traces(tmp_path)
