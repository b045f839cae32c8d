"""Sweeps by the real command line: killed, resumed, extended; short programs, programs that fail, counts that are
whole."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from tests.harness.nodes.forked import Forked
from tests.harness.phases_campaign import done_runs, unperturbed
from tests.harness.points_sweep import write_sweep_spec
from unperturbed.collectors.data import read_sweep, read_sweep_facts

ROWS = 6
RUNS = 4 * ROWS
HARDWARE = ["PAPI_TOT_INS", "PAPI_TOT_CYC"]
NATIVE_ONLY = {"program__source": None, "program__build": None, "measure": {}}
"""No build and nothing counted: a run is a few milliseconds."""


@dataclass(frozen=True)
class Finished:
    """A sweep that was killed in its midst and finished by a second call."""

    folder: Path
    spec: Path
    done_before: dict[str, int]
    killed: str
    last: subprocess.CompletedProcess[str]

    @property
    def campaign(self) -> Path:
        return self.folder / "campaigns" / "points"


def _wait_for(campaign: Path, count: int, process: Forked) -> None:
    deadline = time.monotonic() + 200
    while len(done_runs(campaign)) < count and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)


def _written(campaign: Path) -> dict[str, int]:
    return {run: (campaign / "runs" / run / "stdout").stat().st_mtime_ns for run in done_runs(campaign)}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    folder = tmp_path_factory.mktemp("sweep")
    spec = write_sweep_spec(folder)
    campaign = folder / "campaigns" / "points"
    first = Forked(folder, "run", spec)
    _wait_for(campaign, 7, first)
    time.sleep(0.2)  # somewhere inside the next run
    first.send_signal(signal.SIGKILL)
    said = "".join(first.communicate())
    before = _written(campaign)
    yield Finished(folder, spec, before, said, unperturbed(folder, "run", spec))


def test_it_says_first_what_is_run_at_which_points(finished: Finished) -> None:
    assert f"{RUNS} runs (" in finished.killed
    assert all(f"{name} 6" in finished.killed for name in ("native", "main", "system", "software"))
    assert "simulated by callgrind" in finished.killed
    assert "(native, repetition 1)" in finished.killed


def test_a_killed_sweep_goes_on_and_repeats_nothing(finished: Finished) -> None:
    assert finished.last.returncode == 0, finished.last.stderr
    assert len(finished.done_before) >= 7
    after = _written(finished.campaign)
    assert len(after) == RUNS
    assert {run: after[run] for run in finished.done_before} == finished.done_before
    assert f"{len(finished.done_before)} runs are already done" in finished.last.stderr


def test_the_table_has_a_row_a_point_and_says_what_its_columns_are(finished: Finished) -> None:
    frame, columns = read_sweep(finished.campaign)
    assert {name: column.kind for name, column in columns.items()} == {
        "steps": "parameter",
        "way": "parameter",
        "time_s": "time",
        "cpu_s": "time",
        **dict.fromkeys(HARDWARE, "simulated"),
        "minor_faults": "os",
        "walked": "software",
        "instr_step": "derived",
    }
    assert columns["PAPI_TOT_CYC"].unit == "cycles"
    assert columns["PAPI_TOT_INS"].source == "callgrind"
    assert set(columns["PAPI_TOT_INS"].components) < set(columns["PAPI_TOT_CYC"].components)
    assert columns["instr_step"].meaning.startswith("simulated: ")
    assert sorted(frame.select("steps", "way").rows()) == [
        (n, way) for n in (0, 1000, 2000) for way in ("saunter", "walk")
    ]
    assert (frame["walked"] == frame["steps"]).all()
    assert frame.filter(pl.col("steps") == 0)["instr_step"].is_null().all(), "what is divided by zero is empty"
    assert (frame.filter(pl.col("steps") > 0)["instr_step"] > 1).all()
    assert (frame["time_s"] > 0).all()
    assert (frame["time_s"] < 5).all(), "native time, not the simulator's"
    assert (frame["cpu_s"] > 0).all()
    assert (frame["minor_faults"] < 1000).all(), "of the program, not of the simulator"


def _callgrind(program: Path, *arguments: str) -> int:
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(program), *arguments]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    return int(said.rpartition("Collected :")[2].split()[0])


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")
def test_simulated_totals_are_of_the_whole_program(finished: Finished) -> None:
    frame, _ = read_sweep(finished.campaign)
    total = {(row["steps"], row["way"]): row["PAPI_TOT_INS"] for row in frame.to_dicts()}
    (program,) = (finished.campaign / "builds" / "00").glob("src/points")
    seen = [_callgrind(program, steps, "walk") for steps in ("0", "2000")]
    # An environment of another size moves the stack, and with it a handful of instructions of the C library.
    assert abs(total[2000, "walk"] - total[0, "walk"] - (seen[1] - seen[0])) < 100
    assert abs(total[2000, "walk"] - 2 * total[1000, "walk"] + total[0, "walk"]) < 100
    assert total[2000, "walk"] - total[0, "walk"] > 10_000
    assert 200 < total[0, "walk"] < seen[0], "all of it but the loader's part"


def test_each_row_names_its_runs(finished: Finished) -> None:
    facts = read_sweep_facts(finished.campaign)
    frame, _ = read_sweep(finished.campaign)
    assert facts["complete"]
    assert facts["missing"] == []
    assert facts["starting"]["time_s"] > 0
    for row, traced in zip(frame.to_dicts(), facts["rows"], strict=True):
        meta = json.loads((finished.campaign / "runs" / traced["runs"]["main"] / "meta.json").read_text())
        assert (meta["point"], meta["repetition"]) == (traced["point"], traced["repetition"])
        assert meta["parameters"] == {"steps": row["steps"], "way": row["way"]}
        assert meta["command"][-2:] == [str(row["steps"]), row["way"]]
        assert set(traced["runs"]) == {"native", "main", "system", "software"}


def test_the_terminal_shows_what_the_table_holds(finished: Finished) -> None:
    said = finished.last.stdout
    assert "points: 6 rows" in said
    for name in ("steps", "way", "time_s", "PAPI_TOT_INS", "walked", "instr_step"):
        assert name in said
    assert "saunter, walk" in said
    assert "PAPI_TOT_CYC is computed from simulated events, not measured" in said
    assert "In 6 of 6 rows, the program takes less than 20 times as long as starting a process" in said
    assert "table.parquet" in said


def test_running_again_runs_nothing_and_says_it_as_json(finished: Finished) -> None:
    before = _written(finished.campaign)
    table = (finished.campaign / "table.csv").read_bytes()
    builds, aside = finished.campaign / "builds", finished.campaign / "aside"
    builds.rename(aside)
    again = unperturbed(finished.folder, "run", finished.spec, "--json")
    assert again.returncode == 0, again.stderr
    assert not builds.exists(), "no run needs a build"
    aside.rename(builds)
    assert _written(finished.campaign) == before
    assert (finished.campaign / "table.csv").read_bytes() == table
    found = json.loads(again.stdout)
    assert found["rows"][0]["runs"].keys() == {"native", "main", "system", "software"}
    assert [column["name"] for column in found["columns"]] == list(read_sweep(finished.campaign)[1])


def test_commands_for_campaigns_say_what_the_folder_is(finished: Finished) -> None:
    for command in ("check", "report", "merge"):
        done = unperturbed(finished.folder, command, finished.campaign)
        assert done.returncode == 2
        assert "contains a sweep, which has no verdicts: use its table" in done.stderr
    done = unperturbed(finished.folder, "partition", finished.spec)
    assert done.returncode == 2
    assert "the spec describes a sweep" in done.stderr
    ready = json.loads(unperturbed(finished.folder, "doctor", finished.spec, "--json").stdout)["spec"]
    assert ready["runs"] == RUNS
    assert ready["configurations"] == {"native": 6, "main": 6, "system": 6, "software": 6}
    sources = {metric["metric"]: (metric["source"], metric["passes"]) for metric in ready["metrics"]}
    assert sources["minor_faults"] == ("getrusage", ["system"])
    assert sources["instr_step"] == ("computed", ["main", "software"])
    assert "loop: walk" in unperturbed(finished.folder, "sites", finished.spec).stdout


def test_more_repetitions_go_on_behind_what_is_done(finished: Finished) -> None:
    text = finished.spec.read_text()
    before = _written(finished.campaign)
    try:
        spec = write_sweep_spec(finished.folder, campaign={"seed": 5, "repetitions": 2, "max_runs": 2 * RUNS})
        done = unperturbed(finished.folder, "run", spec)
        assert done.returncode == 0, done.stderr
        after = _written(finished.campaign)
        assert len(after) == 2 * RUNS
        assert {run: after[run] for run in before} == before
        frame, _ = read_sweep(finished.campaign)
        assert frame.height == 2 * ROWS
        assert (
            frame.group_by("steps", "way")
            .agg(pl.col("PAPI_TOT_INS").max() - pl.col("PAPI_TOT_INS").min())["PAPI_TOT_INS"]
            .max()
            < 100
        )
        other = write_sweep_spec(finished.folder, parameters__steps=[0, 1000, 3000])
        refused = unperturbed(finished.folder, "run", other)
        assert refused.returncode == 2
        assert "contains a campaign of another spec" in refused.stderr
    finally:
        finished.spec.write_text(text)


def test_the_least_time_of_several_native_runs_is_taken(tmp_path: Path) -> None:
    """The program sleeps in its first run at a point, and in no other: only a further run shows its time."""
    (tmp_path / "slow_once.sh").write_text('if mkdir "$2/slept-$1" 2>/dev/null; then sleep 0.4; fi; echo "$1"\n')
    changes = {
        **NATIVE_ONLY,
        "parameters": {"n": [1, 2, 3]},
        "program__run": f"sh {{spec}}/slow_once.sh {{parameters.n}} {tmp_path}",
    }
    spec = write_sweep_spec(tmp_path, **changes)
    campaign = tmp_path / "campaigns" / "points"
    assert unperturbed(tmp_path, "run", spec).returncode == 0
    slow, columns = read_sweep(campaign)
    assert (slow["time_s"] > 0.4).all()
    assert "least" not in columns["time_s"].meaning
    before = _written(campaign)

    more = write_sweep_spec(tmp_path, **changes, campaign__native_runs=3)
    done = unperturbed(tmp_path, "run", more)
    assert done.returncode == 0, done.stderr
    assert "9 runs (native 9)" in done.stderr
    after = _written(campaign)
    assert len(after) == 9
    assert {run: after[run] for run in before} == before
    quick, columns = read_sweep(campaign)
    assert (quick["time_s"] < 0.3).all()
    assert columns["time_s"].meaning.endswith("; the minimum of 3 runs")
    assert columns["cpu_s"].meaning.endswith("; the minimum of 3 runs")
    assert set(read_sweep_facts(campaign)["rows"][0]["runs"]) == {"native", "native-2", "native-3"}

    fewer = unperturbed(tmp_path, "run", write_sweep_spec(tmp_path, **changes))
    assert fewer.returncode == 0, fewer.stderr
    assert "3 runs (native 3)\n3 runs are already done" in fewer.stderr
    assert (read_sweep(campaign)[0]["time_s"] > 0.4).all(), "the table has the runs that the spec asks for"
    assert len(_written(campaign)) == 9


def test_a_row_waits_for_no_further_native_run_and_the_table_says_what_it_lacks(tmp_path: Path) -> None:
    changes = {**NATIVE_ONLY, "parameters": {"n": [1, 2, 3]}, "program__run": "/bin/echo {parameters.n}"}
    assert unperturbed(tmp_path, "run", write_sweep_spec(tmp_path, **changes)).returncode == 0
    campaign = tmp_path / "campaigns" / "points"
    assert read_sweep_facts(campaign)["complete"]
    late = write_sweep_spec(tmp_path, **changes, campaign__native_runs=4, campaign__max_hours=1e-9)
    done = unperturbed(tmp_path, "run", late)
    assert done.returncode == 1
    facts = read_sweep_facts(campaign)
    assert (
        "In 3 of 3 rows, the times are the minimum of fewer than 4 runs, because some runs were not made yet."
        in facts["notes"]
    )
    assert not facts["complete"]
    assert not facts["missing"]
    assert read_sweep(campaign)[0].height == 3
    assert unperturbed(tmp_path, "run", write_sweep_spec(tmp_path, **changes, campaign__native_runs=4)).returncode == 0
    facts = read_sweep_facts(campaign)
    assert facts["complete"]
    assert all(len(row["runs"]) == 4 for row in facts["rows"])


def test_a_further_native_run_that_failed_is_left_alone_once_it_is_not_asked_for(tmp_path: Path) -> None:
    """The program fails in its second run at a point."""
    (tmp_path / "fails_later.sh").write_text('mkdir "$2/begun-$1" 2>/dev/null || exit 3; echo "$1"\n')
    changes = {
        **NATIVE_ONLY,
        "parameters": {"n": [1, 2]},
        "program__run": f"sh {{spec}}/fails_later.sh {{parameters.n}} {tmp_path}",
        "campaign__retries": 0,
    }
    twice = unperturbed(tmp_path, "run", write_sweep_spec(tmp_path, **changes, campaign__native_runs=2))
    assert twice.returncode == 1, twice.stderr
    assert "(native-2): the program ended with exit code 3 in a run without measurement" in twice.stderr
    once = unperturbed(tmp_path, "run", write_sweep_spec(tmp_path, **changes))
    assert once.returncode == 0, once.stderr
    assert read_sweep(tmp_path / "campaigns" / "points")[0].height == 2


def test_what_fails_is_left_out_and_named_and_the_rest_is_kept(tmp_path: Path) -> None:
    spec = write_sweep_spec(
        tmp_path,
        parameters={"steps": [10], "way": ["walk", "crash", "measured", "own number", "abrupt"]},
        measure={"source": "simulated", "hardware": ["PAPI_TOT_INS"]},
        campaign={"repetitions": 2, "retries": 0},
    )
    done = unperturbed(tmp_path, "run", spec)
    campaign = tmp_path / "campaigns" / "points"
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    frame, _ = read_sweep(campaign)
    assert frame["way"].to_list() == ["walk", "walk"]
    facts = read_sweep_facts(campaign)
    assert not facts["complete"]
    said = {(item["point"], item["repetition"]): item["why"] for item in facts["missing"]}
    assert len(said) == 8
    for text in (
        "steps=10, way=crash",
        "ended with exit code 9",
        "result differs from its result without measurement",
        "result differs from that of its first run at this point of the sweep",
        "ended without running its exit handlers",
    ):
        assert text in done.stderr, text
    with sqlite3.connect(campaign / "campaign.sqlite") as database:
        made = database.execute(
            "SELECT COUNT(*) FROM runs WHERE point = 2 AND pass = 'main' AND attempt > 0"
        ).fetchone()
    database.close()
    assert made == (0,), "of a point without a result nothing else is run"
    again = unperturbed(tmp_path, "run", spec)
    assert again.returncode == 1
    assert read_sweep(campaign)[0]["way"].to_list() == ["walk", "walk"]


@pytest.mark.parametrize("sampler", ["inside", "outside"])
def test_counts_of_the_kernel_are_of_the_whole_program_too(sampler: str, tmp_path: Path) -> None:
    measure = {
        "sampler": sampler,
        "source": "perf_event",
        "hardware": ["perf::page-faults", "perf::task-clock"],
        "os": ["minor_faults"],
        "software": {"pages": {"loop": "touch"}},
    }
    parameters = {"pages": {"choice": [1, 501]}, "way": ["touch"]}
    spec = write_sweep_spec(
        tmp_path,
        parameters=parameters,
        program__run="{build}/points {parameters.pages} {parameters.way}",
        measure={**measure, "software": {"touched": {"loop": "touch"}}},
        campaign={"points": 8, "seed": 2},
    )
    done = unperturbed(tmp_path, "run", spec)
    assert done.returncode == 0, done.stderr
    frame, columns = read_sweep(tmp_path / "campaigns" / "points")
    assert columns["perf::page-faults"].kind == "os"
    assert (frame["touched"] == frame["pages"]).all()
    few, many = (frame.filter(pl.col("pages") == pages) for pages in (1, 501))
    assert len(few) + len(many) == 8
    assert len(few) * len(many)
    # A program has some 80 faults of its own, which differ by what the kernel maps at once of its files.
    for name in ("perf::page-faults", "minor_faults"):
        assert abs(many[name].median() - few[name].median() - 500) <= 50  # type: ignore[operator]
        assert few[name].max() < 400  # type: ignore[operator]
    assert (frame["perf::task-clock"] > 0).all()
    assert (frame["perf::task-clock"] < 1e9 * frame["time_s"].max()).all()  # type: ignore[operator]


def test_values_reach_the_program_by_arguments_environment_and_standard_input(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.txt").write_text(f"{name}\n")
    spec = write_sweep_spec(
        tmp_path,
        **NATIVE_ONLY,
        parameters={"word": ["a b", "{build}", "'"], "file": ["one", "two"], "x": [0.5]},
        program__run='/bin/sh -c \'cat; printf "%s %s\\n" "$1" "$X"\' sh {parameters.word}',
        program__inputs=["one.txt", "two.txt"],
        program__stdin="{inputs}/{parameters.file}.txt",
        program__environment={"X": "{parameters.x}"},
    )
    done = unperturbed(tmp_path, "run", spec)
    assert done.returncode == 0, done.stderr
    campaign = tmp_path / "campaigns" / "points"
    frame, columns = read_sweep(campaign)
    assert list(columns) == ["word", "file", "x", "time_s", "cpu_s"]
    rows = read_sweep_facts(campaign)["rows"]
    for row, traced in zip(frame.to_dicts(), rows, strict=True):
        said = (campaign / "runs" / traced["runs"]["native"] / "stdout").read_text()
        assert said == f"{row['file']}\n{row['word']} 0.5\n"


def test_an_interrupt_leaves_the_table_of_what_is_done(tmp_path: Path) -> None:
    changes = {**NATIVE_ONLY, "parameters": {"seconds": {"from": 0.05, "to": 3.0, "step": 0.05}}}
    spec = write_sweep_spec(tmp_path, **changes, program__run="/bin/sleep {parameters.seconds}")
    campaign = tmp_path / "campaigns" / "points"
    process = Forked(tmp_path, "run", spec)
    _wait_for(campaign, 3, process)
    other = unperturbed(tmp_path, "run", spec)
    assert other.returncode == 2
    assert f"another process (pid {process.pid}) is working on this campaign" in other.stderr
    process.send_signal(signal.SIGINT)
    said = "".join(process.communicate(timeout=60))
    assert process.returncode == 130, said
    frame, _ = read_sweep(campaign)
    assert 3 <= frame.height < 60
    assert not read_sweep_facts(campaign)["complete"]
    assert (frame["time_s"] >= frame["seconds"]).all()
    assert (frame["cpu_s"] < 0.05).all(), "it slept"
    limited = write_sweep_spec(
        tmp_path, **changes, program__run="/bin/sleep {parameters.seconds}", campaign__max_hours=0.0001
    )
    done = unperturbed(tmp_path, "run", limited)
    assert done.returncode == 1
    assert "the time limit (`max_hours: 0.0001`) is reached" in done.stderr
    assert frame.height < read_sweep(campaign)[0].height < 60


def test_a_program_that_fails_everywhere_ends_the_sweep_early(tmp_path: Path) -> None:
    spec = write_sweep_spec(
        tmp_path,
        **NATIVE_ONLY,
        parameters={"n": {"from": 1, "to": 50}},
        program__run="/bin/sh -c 'exit 3' {parameters.n}",
    )
    done = unperturbed(tmp_path, "run", spec)
    assert done.returncode == 1
    assert "the sweep stops because the program failed at each of the first 3 points" in done.stderr
    assert "ended with exit code 3" in done.stderr
    assert not (tmp_path / "campaigns" / "points" / "table.parquet").exists()


def test_limits_and_other_hosts_are_refused_before_anything_runs(tmp_path: Path) -> None:
    changes = {**NATIVE_ONLY, "parameters": {"n": [1, 2]}, "program__run": "/bin/echo {parameters.n}"}
    done = unperturbed(tmp_path, "run", write_sweep_spec(tmp_path, **changes, campaign__max_runs=1))
    assert done.returncode == 2
    assert "the plan has 2 runs (points × repetitions × passes: 2 × 1 × 1), but `max_runs` is 1" in done.stderr
    spec = write_sweep_spec(tmp_path, **changes)
    assert unperturbed(tmp_path, "run", spec).returncode == 0
    with sqlite3.connect(tmp_path / "campaigns" / "points" / "campaign.sqlite") as database:
        database.execute(
            "UPDATE facts SET value = ? WHERE name = 'steps'",
            ('{"native": ["none"], "main": ["papi", "PAPI_TOT_INS"]}',),
        )
    database.close()
    done = unperturbed(tmp_path, "run", spec)
    assert done.returncode == 3
    assert "this host no longer counts as it did at the start of the sweep (passes: main)" in done.stderr


def test_a_metric_that_matches_nothing_is_said_before_the_first_run(tmp_path: Path) -> None:
    spec = write_sweep_spec(tmp_path, measure__software={"walked": {"loop": "wlak"}})
    done = unperturbed(tmp_path, "run", spec)
    assert done.returncode == 2
    assert "spec.yaml:" in done.stderr
    assert "the program has no site for" in done.stderr
