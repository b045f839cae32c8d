"""`import unperturbed as up`: quick to import, complete in `dir()`, and a recorded campaign as an object."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import unperturbed as up
from tests.harness.phases_campaign import unperturbed as run_tool
from tests.harness.phases_campaign import verdicts, write_spec
from unperturbed.errors import DataError, SpecError

NAMES = re.findall(
    r"\w+",
    """Baseline Campaign CausalModel EventTrace Knowledge Metric Trace __version__ align check diagnose dtw learn load
    merge open_campaign pairwise partition read_events read_perf_stat read_sweep read_trace read_traces structure""",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("library")
    found = run_tool(place, "run", write_spec(place))
    assert found.returncode in (0, 4), found.stderr
    return place / "campaigns" / "phases"


def test_importing_it_loads_nothing() -> None:
    text = "import sys; before = set(sys.modules); import unperturbed; print(*set(sys.modules) - before)"
    loaded = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout.split()
    own = {name for name in loaded if name.startswith("unperturbed")}
    assert own == {"unperturbed", "unperturbed.common", "unperturbed.common.faces"}
    assert not {"numpy", "polars", "pydantic", "scipy", "numba", "importlib.metadata"} & set(loaded)


def test_every_name_is_there_and_listed() -> None:
    assert dir(up) == NAMES
    for name in NAMES:
        assert getattr(up, name) is not None
    assert up.open_campaign is up.load
    with pytest.raises(AttributeError, match=r"no attribute 'chekc'; it has Baseline, Campaign, .* check, "):
        _ = up.chekc


def test_a_campaign_is_a_mapping_of_its_configurations(folder: Path) -> None:
    campaign = up.load(folder)
    assert (campaign.name, list(campaign), len(campaign)) == ("phases", ["baseline", "anchor", "steps"], 3)
    assert "steps" in campaign
    assert [len(campaign[name]) for name in campaign] == [5, 5, 3]
    assert isinstance(campaign["steps"][0], up.Trace)
    assert len(campaign["steps"][:2]) == 2
    with pytest.raises(DataError, match=r"no runs of configuration 'stesp'; did you mean steps\?"):
        campaign["stesp"]
    with pytest.raises(KeyError):
        campaign["stesp"]
    with pytest.raises(SpecError, match="contains no campaign"):
        up.load(folder / "runs")


def test_its_check_is_the_command_s(folder: Path) -> None:
    campaign = up.load(folder)
    recorded = {entry["configuration"]: entry for entry in verdicts(folder)["verdicts"]}
    checked = up.check(campaign)
    assert [verdict.configuration for verdict in checked.verdicts] == list(recorded) == ["anchor", "steps"]
    for verdict in checked.verdicts:
        own = campaign.check(verdict.configuration)
        assert own is verdict
        assert (own.verdict, len(own.changes)) == (
            recorded[own.configuration]["verdict"],
            len(recorded[own.configuration]["changes"]),
        )
    with pytest.raises(DataError, match="no verdict on 'baseline'; verdicts exist for anchor and steps"):
        campaign.check("baseline")
    assert checked.of("steps") is checked.by_configuration["steps"]
    with pytest.raises(DataError, match=r"^no verdict on 'stesp'; did you mean steps\?$"):
        checked.of("stesp")


def test_its_frame_is_tidy(folder: Path) -> None:
    campaign = up.load(folder)
    frame = campaign.to_frame()
    assert frame.columns[:10] == [
        *("run", "configuration", "pass", "repetition", "interval", "start", "duration"),
        *("begin_ns", "end_ns", "overruns"),
    ]
    assert frame.height == sum(len(trace) for name in campaign for trace in campaign[name])
    counted = frame.group_by("configuration").agg(pl.col("steps").is_null().all().alias("none")).sort("configuration")
    assert counted.rows() == [("anchor", True), ("baseline", True), ("steps", False)]
    run = campaign["steps"][1]
    own = frame.filter(pl.col("run") == run.attributes["run"]).sort("interval")
    assert own["PAPI_TOT_INS"].to_list() == run["PAPI_TOT_INS"].tolist()
    assert (
        campaign["steps"]
        .to_frame()
        .equals(frame.filter(pl.col("configuration") == "steps").select(campaign["steps"].to_frame().columns))
    )


def test_its_frame_is_lazy_and_any_librarys(folder: Path) -> None:
    campaign = up.load(folder)
    lazy = campaign.frame()
    assert isinstance(lazy, pl.LazyFrame)
    whole = lazy.collect()
    assert whole.equals(campaign.to_frame())
    assert whole.equals(campaign.frame("polars"))
    run = campaign["anchor"][0]
    own = lazy.filter(pl.col("run") == run.attributes["run"]).select("start", "duration", "interval").collect()
    assert own["start"].to_list() == pytest.approx((run.begin_ns / 1e9).tolist())
    assert own["duration"].to_list() == pytest.approx(((run.end_ns - run.begin_ns) / 1e9).tolist())
    assert own["interval"].to_list() == list(range(len(run)))
    pandas = campaign.frame("pandas")
    assert list(pandas.columns) == whole.columns
    assert pandas["PAPI_TOT_INS"].sum() == whole["PAPI_TOT_INS"].sum()
    assert pandas["steps"].isna().sum() == whole["steps"].null_count()
    assert campaign.frame("pyarrow").num_rows == len(pandas)
    with pytest.raises(DataError, match="unknown library 'pandsa': use polars, pandas or pyarrow"):
        campaign.frame("pandsa")  # type: ignore[call-overload]


def test_its_frame_is_of_its_own_folder(folder: Path, tmp_path: Path) -> None:
    """A folder's name is not a pattern: `x[1]` would be read as `x1`."""
    shutil.copytree(folder, tmp_path / "x[1]")
    (tmp_path / "x1").mkdir()
    assert up.load(tmp_path / "x[1]").to_frame().equals(up.load(folder).to_frame())


def test_its_frame_reads_no_damaged_or_foreign_file(folder: Path, tmp_path: Path) -> None:
    """One changed byte of a page can end the process that decodes it."""
    shutil.copytree(folder, tmp_path / "x")
    trace = tmp_path / "x" / "runs" / "0002" / "trace.parquet"
    whole = trace.read_bytes()
    other = (tmp_path / "x" / "runs" / "0003" / "trace.parquet").read_bytes()
    damaged = bytearray(whole)
    damaged[len(whole) // 3] ^= 0x55
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "foreign.parquet")
    foreign = (tmp_path / "foreign.parquet").read_bytes()
    for content, said in (
        (bytes(damaged), "the file is damaged"),
        (whole[:-9], "truncated"),
        (foreign, "not a trace of this tool"),
        (other, "is the trace of run 0003"),
    ):
        trace.write_bytes(content)
        with pytest.raises(DataError, match=said):
            up.load(tmp_path / "x").frame()
    trace.unlink()
    with pytest.raises(DataError, match="cannot be read"):
        up.load(tmp_path / "x").frame()


def test_what_a_notebook_does(folder: Path, tmp_path: Path) -> None:
    campaign = up.load(folder)
    verdict = campaign.check("steps")
    assert verdict.frame().filter(pl.col("check") == "inner").height > 0
    assert len(verdict.frame("pandas")) == len(verdict.changes)
    first, second = campaign["anchor"][0], campaign["steps"][0]
    assert up.align(first, second, on="PAPI_L1_DCM").on == ("PAPI_L1_DCM",)
    assert up.pairwise(campaign["baseline"], on="PAPI_L1_DCM").distances.shape == (5, 5)
    drawn = campaign["steps"].plot(["PAPI_L1_DCM", "steps"])
    assert repr(drawn) == "<Picture: PAPI_L1_DCM and steps of steps; write the page with .write_html(path)>"
    page = drawn.write_html(tmp_path / "steps.html").read_text()
    assert "<!DOCTYPE html>" in page
    assert page.count("<figure") == 1
    for shown in (drawn, campaign.plot(), up.align(first, second, on="PAPI_L1_DCM").plot(), verdict.plot()):
        assert shown._repr_html_().startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;')
    for trace in campaign["steps"]:
        assert trace.attributes["run"] in campaign["steps"]._repr_html_()
    with pytest.raises(DataError, match="no plotted run has metric 'stpes'"):
        campaign["steps"].plot("stpes")


def test_it_is_shown_in_words_as_a_table_and_as_a_page(folder: Path, tmp_path: Path) -> None:
    campaign = up.load(folder)
    assert repr(campaign).startswith("<Campaign: campaign phases: ")
    assert [
        line.split()[0] for line in campaign.summary().splitlines() if line.lstrip().startswith(("anchor", "steps"))
    ] == [
        "anchor",
        "steps",
    ]
    assert "<table" in campaign._repr_html_()
    assert json.dumps(campaign.to_dict())
    assert "phases" in campaign.write_html(tmp_path / "report.html").read_text()


def test_one_run_and_its_phases(folder: Path) -> None:
    trace = up.read_trace(folder / "runs" / "0001")
    found = up.structure(trace, metrics=["PAPI_L1_DCM"], seed=1)
    assert found.uses


@pytest.mark.parametrize("given", ["campaigns/quickstart", ["baseline"], [3]])
def test_what_is_no_trace_is_refused_with_the_way_to_one(given: object) -> None:
    for verb in (up.Baseline, up.merge, lambda values: up.align(values[0], values[0])):
        with pytest.raises(TypeError, match=r"expected a Trace, not .*`Trace\.read"):
            verb(given)


def test_a_model_of_a_campaign_leaves_simulated_cycles_out(folder: Path) -> None:
    found = run_tool(folder.parent, "model", folder)
    assert found.returncode == 0, found.stderr
    assert "PAPI_TOT_CYC: simulated cycles are not measured but computed from Ir, " in found.stdout
    assert "Simulated, not counted by a processor: " in found.stdout
