"""Tables in JSON."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from unperturbed.common.reading.records import read_records
from unperturbed.errors import DataError

RECORDS = [{"n": 1, "t": 0.5, "kind": "a"}, {"n": 2, "kind": "b", "t": None}, {"n": 3, "t": 2, "kind": "a"}]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(RECORDS),
        "\n".join(map(json.dumps, RECORDS)) + "\n",
        json.dumps({name: [record.get(name) for record in RECORDS] for name in RECORDS[0]}),
        json.dumps({"context": {"host": "a"}, "benchmarks": RECORDS}),
    ],
)
def test_forms(text: str) -> None:
    assert read_records(text.encode(), Path("t.json")).rows() == [(1, 0.5, "a"), (2, None, "b"), (3, 2.0, "a")]


def test_words_among_numbers_become_text_and_lists_no_values() -> None:
    frame = read_records(b'[{"n": 1, "times": [1, "a"]}, {"n": "-", "times": [[]]}]', Path("t.json"))
    assert frame["n"].to_list() == ["1", "-"]
    assert frame["times"].dtype == pl.List


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('[{"n": 1},', "t.json:1:11: not JSON"),
        ("[1, 2]", "t.json: no table: expected a list of records"),
        ("[" * 100_000, "t.json: nested too deeply"),
        ('[{"n": 123456789012345678901234567890123456789012345}]', "t.json: a whole number has more than 64 bits"),
    ],
)
def test_faults(text: str, fault: str) -> None:
    with pytest.raises(DataError) as raised:
        read_records(text.encode(), Path("t.json"))
    assert fault in str(raised.value)
