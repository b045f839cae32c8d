"""`unperturbed export` of a campaign: which runs, where to, and one column layout for every file."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow.ipc
import pytest

from tests.harness.phases_campaign import unperturbed
from unperturbed.collectors.data import Trace
from unperturbed.common.wording import listing
from unperturbed.harness.exports import formats
from unperturbed.harness.exports.content.runs import read_runs

COLUMNS = ["run", "configuration", "pass", "repetition", "interval", "start", "duration"]
COLUMNS += ["begin_ns", "end_ns", "overruns"]
WITH_TIME = listing((name for name, one in formats("campaign").items() if one.timeline), "or")


def traces(campaign: Path) -> dict[str, Trace]:
    return {path.parent.name: Trace.read(path) for path in sorted(campaign.glob("runs/*/trace.parquet"))}


def test_formats_with_a_time_axis_are_those_of_tools_with_one() -> None:
    assert {"ctf", "paraver", "perfetto"} <= set(WITH_TIME.replace(" or ", ", ").split(", "))


def test_files_of_every_configuration_are_one_table_to_other_tools(campaign: Path, tmp_path: Path) -> None:
    done = unperturbed(tmp_path, "export", campaign, "-o", "c.parquet", "--split", "configuration")
    assert done.returncode == 0, done.stderr
    names = [f"c.{name}.parquet" for name in ("baseline", "anchor", "subset-01", "subset-02")]
    assert done.stdout.split() == [str(tmp_path / name) for name in names]
    found = traces(campaign)
    of_metric = {
        name: sum(int(trace[name].sum()) for trace in found.values() if name in trace)
        for name in ("generated::metric_00", "milestones", "calls_01", "calls_02")
    }
    intervals = sum(len(trace) for trace in found.values())
    pattern = str(tmp_path / "c.*.parquet")
    scanned = pl.scan_parquet(pattern).collect()
    assert scanned.columns[: len(COLUMNS)] == COLUMNS
    assert scanned.height == intervals
    assert {name: scanned[name].sum() for name in of_metric} == of_metric
    assert scanned["calls_01"].dtype == pl.Int64
    read = pd.concat(pd.read_parquet(tmp_path / name) for name in names)
    assert list(read.columns) == scanned.columns
    assert {name: int(read[name].sum()) for name in of_metric} == of_metric
    sums = ", ".join(f'sum("{name}")' for name in of_metric)
    assert duckdb.sql(f"SELECT {sums} FROM '{pattern}'").fetchall() == [tuple(of_metric.values())]
    described = pl.read_parquet_metadata(tmp_path / names[0])["unperturbed.campaign"]
    assert [metric["kind"] for metric in json.loads(described)["metrics"]][-2:] == ["software", "software"]


def test_csv_and_arrow_hold_the_same_rows(campaign: Path, tmp_path: Path) -> None:
    for name in ("c.csv", "c.arrow", "c.parquet"):
        assert unperturbed(tmp_path, "export", campaign, "-o", name).returncode == 0
    rows = pl.read_parquet(tmp_path / "c.parquet")
    assert pl.read_ipc(tmp_path / "c.arrow").equals(rows)
    with pyarrow.ipc.open_file(tmp_path / "c.arrow") as file:
        assert file.read_all().num_rows == rows.height
    read = pl.read_csv(tmp_path / "c.csv", schema=rows.schema)
    assert read.equals(rows)


def test_chosen_runs_keep_the_layout_of_the_whole_campaign(campaign: Path, tmp_path: Path) -> None:
    words = ("export", campaign, "-o", "one.csv", "--configuration", "baseline", "--run", "0000", "--run", "0004")
    assert unperturbed(tmp_path, *words).returncode == 0
    lines = (tmp_path / "one.csv").read_text().splitlines()
    assert lines[0].split(",")[-3:] == ["milestones", "calls_01", "calls_02"]
    assert {line.split(",")[0] for line in lines[1:]} == {"0000", "0004"}
    assert all(line.endswith(",,,") for line in lines[1:])
    assert [run.id for run in read_runs(campaign, configurations=["anchor"])] == [
        "0001",
        "0005",
        "0009",
        "0013",
        "0017",
    ]


def test_where_it_is_written_without_a_file(campaign: Path) -> None:
    run = campaign / "runs" / "0001"
    before = set(campaign.rglob("*"))
    done = unperturbed(campaign, "export", campaign, "--format", "perfetto")
    assert (done.returncode, done.stdout) == (0, f"{campaign / 'campaign.perfetto-trace'}\n")
    done = unperturbed(campaign, "export", run / "trace.parquet", "--format", "csv")
    assert (done.returncode, done.stdout) == (0, f"{run / 'trace.csv'}\n")
    new = set(campaign.rglob("*")) - before
    assert new == {campaign / "campaign.perfetto-trace", run / "trace.csv"}
    for path in new:
        path.unlink()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "the format is missing: give --format NAME, or -o FILE with the suffix of a format"),
        (("--format", "perfeto"), "did you mean perfetto"),
        (("--format", "csv", "--configuration", "basline"), "did you mean baseline?"),
        (("--format", "csv", "--run", "9999"), "--run 9999"),
        (
            ("--format", "csv", "--run", "0000", "--configuration", "anchor"),
            "no run matches both --configuration anchor and --run 0000",
        ),
        (("--format", "csv", "--phases"), f"--phases: the format csv has no time axis; use {WITH_TIME}"),
        (("-o", "nowhere/c.csv"), "does not exist"),
    ],
)
def test_a_wrong_wish_is_one_message(campaign: Path, tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    done = unperturbed(tmp_path, "export", campaign, *words)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_trace_has_no_runs_to_choose_and_is_not_overwritten(campaign: Path, tmp_path: Path) -> None:
    run = campaign / "runs" / "0000"
    done = unperturbed(tmp_path, "export", run, "--format", "parquet")
    assert (done.returncode, "would overwrite the recorded data" in done.stderr) == (2, True)
    done = unperturbed(tmp_path, "export", run, "-o", "a.pftrace", "--aligned")
    assert done.returncode == 2
    assert "--aligned applies to the runs of a campaign" in done.stderr
