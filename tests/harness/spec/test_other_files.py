"""A file that is not YAML is named as what it is, and never read as a spec."""

from __future__ import annotations

import gzip
import shutil
import sqlite3
from pathlib import Path

import polars as pl
import pytest

from unperturbed.errors import SpecError
from unperturbed.harness.spec.load import load_spec


def _refused(path: Path) -> str:
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    return str(caught.value)


def test_a_program(tmp_path: Path) -> None:
    path = Path(shutil.copy("/bin/ls", tmp_path / "mat"))
    assert _refused(path) == (
        f"{path}: this is a program or a library (ELF), not a spec; to measure it without a spec, type "
        f"`unperturbed run -- {path}`"
    )


def test_data_files(tmp_path: Path) -> None:
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "trace")
    assert "a Parquet file" in _refused(tmp_path / "trace")
    (tmp_path / "packed.yaml").write_bytes(gzip.compress(b"name: x\n"))
    assert "this is a file compressed with gzip, not a spec; unpack it first" in _refused(tmp_path / "packed.yaml")
    with sqlite3.connect(tmp_path / "campaign.sqlite") as database:
        database.execute("CREATE TABLE t (a)")
    database.close()
    assert f"`unperturbed check {tmp_path}`" in _refused(tmp_path / "campaign.sqlite")
    assert "this is the folder of a campaign, not a spec" in _refused(tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("go", "#!/bin/sh\nmake\n", "a script"),
        ("x", "<!DOCTYPE html>\n", "an HTML or XML document"),
        ("x", "#include <stdio.h>\n", "source code in C"),
        ("x", "import sys\nprint(1)\n", "a Python program"),
        ("x", "a,b,c\n1,2,3\n", "a CSV table"),
        ("Makefile", "all:\n\techo\n", "a makefile"),
        ("README.md", "# Read me\n", "a document"),
    ],
)
def test_texts(tmp_path: Path, name: str, text: str, what: str) -> None:
    (tmp_path / name).write_text(text)
    assert f"this is {what}" in _refused(tmp_path / name)


@pytest.mark.parametrize(
    "beginning", ["#!/usr/bin/env -S unperturbed run\n", "# include what is measured\n", "# import, define: words\n"]
)
def test_a_spec_may_begin_with_any_comment(tmp_path: Path, beginning: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(
        f"{beginning}name: x\nprogram: {{run: ls}}\nmeasure: {{interval: 20 ms, hardware: ['perf::task-clock']}}\n"
    )
    assert load_spec(path).name == "x"
