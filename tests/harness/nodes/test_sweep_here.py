"""A sweep whose parts are processes of this host: points dealt out, killed and resumed, failed, joined to one table."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.nodes.test_here import done, start, states, wait_for
from tests.harness.phases_campaign import unperturbed
from tests.harness.points_sweep import write_sweep_spec
from unperturbed.collectors.data import read_sweep, read_sweep_facts
from unperturbed.errors import SpecError
from unperturbed.harness.nodes.shares import dealt_points
from unperturbed.harness.nodes.status import read_status
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import parse_spec
from unperturbed.harness.spec.sections.parameters import points

SWEEP: dict[str, Any] = {
    "name": "swept",
    "parameters": {"n": [1, 2, 3, 4], "way": ["a", "b"]},
    # Runs wait while the gate is closed: no test depends on how fast anything is.
    "program": {
        "run": "sh -c 'while [ ! -e {spec}/open ]; do sleep 0.02; done; echo $0$1' {parameters.n} {parameters.way}"
    },
    "measure": {"hardware": [], "os": [], "software": {}},
    "campaign": {"repetitions": 2, "retries": 0},
    "nodes": {"engine": "here", "count": 2},
}
"""Nothing is counted: each point has its native run."""


def sweep_spec(folder: Path, run: str = "", **nodes: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    spec = {**SWEEP, "nodes": {**SWEEP["nodes"], **nodes}}
    if run:
        spec["program"] = {"run": run}
    (folder / "spec.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
    return folder / "spec.yaml"


def _parsed(parameters: dict[str, Any], count: int, **design: Any) -> CampaignSpec:
    text = yaml.safe_dump(
        {
            **SWEEP,
            "parameters": parameters,
            "program": {"run": " ".join(["true", *(f"{{parameters.{name}}}" for name in parameters)])},
            "campaign": design,
            "nodes": {"engine": "here", "count": count},
        }
    )
    return parse_spec(text, "x.yaml", Path(__file__).parent)


@given(st.integers(1, 9), st.integers(0, 40), st.integers(0, 30), st.integers(0, 99))
def test_every_point_is_dealt_to_one_node_and_stays_there(count: int, points: int, more: int, seed: int) -> None:
    def dealt(total: int) -> list[tuple[int, ...]]:
        spec = _parsed({"n": {"uniform": [0, 1]}}, count, points=total, seed=seed)
        return [dealt_points(spec, number) for number in range(1, count + 1)]

    first, extended = dealt(count + points), dealt(count + points + more)
    assert sorted(point for own in first for point in own) == list(range(1, count + points + 1))
    assert max(map(len, first)) - min(map(len, first)) <= 1
    assert all(new[: len(old)] == old for old, new in zip(first, extended, strict=True))


def test_no_parameter_goes_with_the_node() -> None:
    """Whichever parameter varies fastest, nodes get its values about equally often."""
    for parameters in ({"a": [1, 2, 3], "b": list(range(32))}, {"a": list(range(32)), "b": [1, 2, 3]}):
        spec = _parsed(parameters, 3)
        every = points(spec)
        for name, values in parameters.items():
            for number in (1, 2, 3):
                share = Counter(every[point - 1][name] for point in dealt_points(spec, number))
                fair = len(every) / 3 / len(values)
                assert all(abs(share[value] - fair) <= max(2, 0.6 * fair) for value in values)
    orders = {tuple(dealt_points(_parsed({"n": list(range(30))}, 3, seed=seed), 1)) for seed in range(5)}
    assert len(orders) == 5


def test_too_many_nodes_and_a_parameter_that_is_called_node_are_refused_where_they_stand(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as refused:
        _parsed({"node": [1, 2]}, 4)
    lines = str(refused.value).splitlines()
    too_many = "`count` is 4, but the sweep has only 2 points, and each node needs at least one"
    assert any(line.startswith("x.yaml:") and too_many in line for line in lines), lines
    assert any("`node` is a column in the table of a sweep over nodes" in line for line in lines), lines


def test_a_coordinator_that_is_killed_leaves_the_parts_working_and_nothing_is_repeated(tmp_path: Path) -> None:
    spec = sweep_spec(tmp_path)
    campaign, gate = tmp_path / "campaigns" / "swept", tmp_path / "open"
    first = start(spec)
    wait_for((campaign / "nodes/01/owner.json").exists)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    gate.touch()
    wait_for(lambda: done(campaign) == 8)  # four points of two repetitions; nobody starts the other part
    wait_for(lambda: read_status(campaign).parts[0].phase == "done")
    assert (campaign / "nodes/01/table.parquet").is_file() and not (campaign / "table.parquet").exists()
    gate.unlink()
    second = start(spec)
    wait_for((campaign / "nodes/02/owner.json").exists)
    cancelled = unperturbed(tmp_path, "run", spec, "--cancel")
    assert (cancelled.returncode, cancelled.stdout.startswith("1 job cancelled")) == (0, True)
    assert second.wait(60) == 1
    said = " ".join(second.communicate()[1].split())
    assert "the jobs were cancelled" in said
    assert read_sweep(campaign)[0].height == 8  # however it ends, there is a table of what is complete
    gate.touch()
    last = unperturbed(tmp_path, "run", spec)
    assert last.returncode == 0, last.stderr
    found = states(campaign)
    assert len(found) == 16 and {state for _, state, _ in found} == {"done"}
    assert {attempt for run, _, attempt in found if run.startswith("01/")} == {1}
    frame, columns = read_sweep(campaign)
    assert columns["node"].kind == "parameter" and frame.columns == ["n", "way", "node", "time_s", "cpu_s"]
    assert frame.height == 16
    # All repetitions of a point are on one node, and the rows stand in the order of the points.
    by_point = frame.group_by("n", "way").agg(pl.col("node").n_unique(), pl.len())
    assert (by_point["node"] == 1).all() and (by_point["len"] == 2).all()
    assert frame.select("n", "way").rows() == [(n, way) for n in (1, 2, 3, 4) for way in "ab" for _ in (1, 2)]
    facts = read_sweep_facts(campaign)
    assert [one["node"] for one in facts["nodes"]] == ["part-01", "part-02"]
    assert facts["complete"] and {row["node"] for row in facts["rows"]} == {"part-01", "part-02"}
    shown = json.loads(unperturbed(tmp_path, "status", spec, "--json").stdout)
    assert (shown["purpose"], shown["planned"], shown["runs"]) == ("a sweep on nodes", 16, {"done": 16})
    for folder in (campaign, campaign / "nodes/01"):
        refused = unperturbed(tmp_path, "check", folder)
        assert refused.returncode == 2 and "which has no verdicts: use its table" in refused.stderr
    # Extended: each node makes the further repetitions of its own points.
    spec.write_text(spec.read_text().replace("repetitions: 2", "repetitions: 3"))
    assert unperturbed(tmp_path, "run", spec).returncode == 0
    again = read_sweep(campaign)[0]
    assert again.height == 24 and set(again["node"]) == set(frame["node"])
    assert again.group_by("n", "way").agg(pl.col("node").n_unique())["node"].max() == 1


def test_points_that_fail_and_a_node_that_is_refused_are_told(tmp_path: Path) -> None:
    spec = sweep_spec(tmp_path, run="sh -c '[ $0$1 != 2a ]' {parameters.n} {parameters.way}")
    campaign = tmp_path / "campaigns" / "swept"
    failed = unperturbed(tmp_path, "run", spec)
    assert failed.returncode == 1
    told = " ".join(failed.stderr.split())
    assert "given up" not in told and "n=2, way=a: run " in told and "(native, part-0" in told
    assert read_sweep(campaign)[0].height == 14
    assert [item["point"] for item in read_sweep_facts(campaign)["missing"]] == [3, 3]
    facts = json.loads((campaign / "nodes/facts.json").read_text())
    facts["facts"]["processor model"] = "another"
    (campaign / "nodes/facts.json").write_text(json.dumps(facts))
    spec.write_text(spec.read_text().replace("repetitions: 2", "repetitions: 3"))
    refused = unperturbed(tmp_path, "run", spec)
    assert refused.returncode == 1
    assert "giving up on part 01: node part-01 differs from the first node" in " ".join(refused.stderr.split())
    missing = read_sweep_facts(campaign)["missing"]
    assert len(missing) == 3 + 7 and any("part 01 ended earlier" in item["why"] for item in missing)
    assert read_sweep(campaign)[0].height == 14


def test_nodes_that_count_otherwise_do_not_fill_one_column(tmp_path: Path) -> None:
    spec = sweep_spec(tmp_path)
    (tmp_path / "open").touch()
    campaign = tmp_path / "campaigns" / "swept"
    (campaign / "nodes").mkdir(parents=True)
    first = {"node": "alpha", "steps": {"native": ["none"], "main": ["papi", "PAPI_TOT_INS"]}}
    (campaign / "nodes/counting.json").write_text(json.dumps(first))
    shown = unperturbed(tmp_path, "run", spec)
    assert shown.returncode == 1
    assert (
        "counts differently from the first node, alpha (passes: main), but all values of a column must have the same "
        "source" in " ".join(shown.stderr.split())
    )


def test_counted_runs_of_all_nodes_share_one_build(tmp_path: Path) -> None:
    spec = write_sweep_spec(
        tmp_path,
        parameters={"steps": [0, 1000], "way": ["walk", "saunter"]},
        measure__hardware=["PAPI_TOT_INS"],
        measure__os=[],
        nodes={"engine": "here", "count": 2},
    )
    shown = unperturbed(tmp_path, "run", spec)
    assert shown.returncode == 0, shown.stderr
    campaign = tmp_path / "campaigns" / "points"
    assert not (campaign / "nodes/01/builds").exists() and shown.stderr.count("building all") == 1
    frame, columns = read_sweep(campaign)
    assert (frame["walked"] == frame["steps"]).all() and columns["PAPI_TOT_INS"].kind == "simulated"
    assert frame.group_by("node").len()["len"].to_list() == [2, 2]
