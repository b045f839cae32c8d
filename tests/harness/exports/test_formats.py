"""Export formats: what each writes is read back, and another distribution's is chosen by its suffix or its name."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.common.distribution import write_distribution
from tests.harness.phases_campaign import unperturbed
from unperturbed.collectors import Metric, Trace, read_sweep
from unperturbed.collectors.data import SweepColumn, read_sweep_facts, write_sweep
from unperturbed.errors import SpecError
from unperturbed.harness.exports import Format, choose_format, export, formats
from unperturbed.harness.studies.sweep_table import read_table

LINES = """
from unperturbed.harness.exports import Format

def write(trace, path):
    path.write_text("".join(f"{value}\\n" for value in trace["ties"]))
    path.with_suffix(".names").write_text("ties")

FORMAT = Format("lines", (".lines", ".lines.txt"), {"trace": write})
"""


@pytest.fixture
def trace() -> Trace:
    metrics = [Metric("ties", "software")]
    return Trace.from_columns(
        metrics, {"ties": [3, 0, 5]}, begin_ns=[0, 1, 2], end_ns=[1, 2, 3], attributes={"run": "0001"}
    )


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_distribution(tmp_path, "unperturbed.exports", LINES, lines="FORMAT")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_a_trace_as_csv_and_parquet(trace: Trace, tmp_path: Path) -> None:
    for name in ("csv", "parquet"):
        export(trace, "trace", tmp_path / f"trace.{name}")
    with (tmp_path / "trace.csv").open("rb") as file:
        assert pl.read_csv(file)["ties"].to_list() == [3, 0, 5]
    assert Trace.read(tmp_path / "trace.parquet").attributes == trace.attributes
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trace.csv", "trace.parquet"]


def test_a_sweeps_table_keeps_what_is_known_of_its_columns(tmp_path: Path) -> None:
    frame = pl.DataFrame({"n": [1, 2], "time_s": [0.5, 1.0]})
    columns = [SweepColumn("n", "parameter", source="spec"), SweepColumn("time_s", "time", "s", "clock")]
    facts = {"name": "toy", "notes": ["A note."], "missing": []}
    write_sweep(tmp_path, frame, columns, facts)
    table = read_table(tmp_path)
    assert repr(table) == "<SweepTable: toy: 2 rows>"
    assert "0.5 … 1" in table.summary()
    assert table.to_dict()["columns"][1]["unit"] == "s"
    assert "toy: 2 rows" in table.write_html(tmp_path / "table.html").read_text()
    (tmp_path / "out").mkdir()
    done = unperturbed(tmp_path, "export", ".", "-o", "out/copy.parquet")
    assert (done.returncode, done.stdout) == (0, f"{tmp_path / 'out' / 'copy.parquet'}\n")
    copied, known = read_sweep(tmp_path / "out" / "copy.parquet")
    assert copied.equals(frame)
    assert list(known.values()) == columns
    assert read_sweep_facts(tmp_path / "out" / "copy.parquet") == facts
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["copy.parquet"]


def test_a_format_of_another_distribution(trace: Trace, toys: Path) -> None:
    trace.write(toys / "trace.parquet")
    environment = {"PYTHONPATH": str(toys)}
    for words in (("-o", "a.lines.txt"), ("-o", "a.txt", "--format", "lines")):
        done = unperturbed(toys, "export", "trace.parquet", *words, environment=environment)
        assert done.returncode == 0, done.stderr
        assert (toys / words[1]).read_text() == "3\n0\n5\n"
        assert (toys / words[1]).with_suffix(".names").read_text() == "ties"
    found = list(formats("trace"))
    assert found[-1] == "lines"
    assert {"csv", "parquet", "perfetto"} < set(found)
    assert {"dot", "gml", "graphml", "json"} <= set(formats("model")) < {*formats("model"), *found}


def test_what_cannot_be_written_is_refused(trace: Trace, tmp_path: Path) -> None:
    with pytest.raises(
        SpecError, match=r"no format matches the file's name; use a name that ends in .*\.csv, .*, or set --format"
    ):
        choose_format("trace", tmp_path / "trace.txt")
    with pytest.raises(SpecError, match=r"cannot export a trace in format 'cvs'; did you mean csv"):
        choose_format("trace", tmp_path / "trace.txt", "cvs")
    with pytest.raises(SpecError, match="cannot export a trace in format 'dot'"):
        export(trace, "trace", tmp_path / "trace.dot", name="dot")
    with pytest.raises(SpecError, match="does not exist"):
        choose_format("trace", tmp_path / "nowhere" / "trace.csv")
    with pytest.raises(SpecError, match="is a folder: give the name of a file in it"):
        choose_format("trace", tmp_path, "csv")
    with pytest.raises(ValueError, match=r"must be kinds of content \(trace, campaign, .*model\), not tarce"):
        Format("wrong", (".w",), {"tarce": print})
