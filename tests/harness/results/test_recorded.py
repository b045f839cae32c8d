"""Which runs something disturbed, by the host's own counters; which threads of several runs are paired."""

import numpy as np

from unperturbed.collectors.data import Trace
from unperturbed.collectors.data.trace import Metric
from unperturbed.harness.campaign.manifest import RunState
from unperturbed.harness.campaign.plan import PlannedRun
from unperturbed.harness.results.recorded import describe_disturbances, read_thread_traces


def state(run, *, seconds=10.0, steal=0.0, busy=9.0, swap=0, switches=2000, recorded=True):
    before = {"steal_s": 5.0, "busy_s": 80.0, "swap_used_mib": 100, "context_switches": 1000}
    grown = {"steal_s": steal, "busy_s": busy, "swap_used_mib": swap, "context_switches": switches}
    after = {name: value + grown[name] for name, value in before.items()}
    hosts = (before, after) if recorded else (None, None)
    return RunState(PlannedRun(run, "baseline", "main", 1, 0, 0), "done", 1, None, seconds, 100, "", *hosts)


def test_quiet_runs_are_not_disturbed():
    assert describe_disturbances([state(f"000{at}", steal=0.1, switches=1500 + 100 * at) for at in range(6)]) == {}


def test_what_disturbed_a_run_is_said():
    runs = [state(f"000{at}") for at in range(5)]
    found = describe_disturbances(
        [*runs, state("0005", steal=1.0), state("0006", swap=12), state("0007", switches=50_000)]
    )
    assert found == {
        "0005": "10% of the demanded CPU time stolen by other guests of the machine",
        "0006": "12 MiB swapped out during the run",
        "0007": "5,000 context switches per second (median of all runs: 200)",
    }


def test_hosts_that_tell_nothing_are_not_judged():
    assert describe_disturbances([state("0001", recorded=False), state("0002", recorded=False)]) == {}
    assert describe_disturbances([]) == {}


def test_stolen_time_is_a_share_of_what_all_processors_had_work_for():
    # 64 busy processors, of each of which 1 % is stolen: 6.4 s in a run of 10 s.
    assert describe_disturbances([state("0001", steal=6.4, busy=633.6)]) == {}
    # One of 64 processors is busy, and half of its time is stolen.
    found = describe_disturbances([state("0002", steal=5.0, busy=5.0)])
    assert found["0002"].startswith("50% of the demanded CPU time stolen")


def run_with(folder, run, **intervals):
    """Return a run whose threads have these roles and numbers of intervals; their traces are in its folder."""
    (folder / "runs" / run / "threads").mkdir(parents=True)
    described = []
    for number, (name, count) in enumerate(intervals.items()):
        role = name.replace("__", "/").replace("_", "#")
        described.append({"role": role, "number": number, "intervals": count})
        bounds = np.arange(count + 1)
        trace = Trace.from_columns(
            [Metric("INS", "hardware")],
            {"INS": np.ones(count, int)},
            begin_ns=bounds[:-1],
            end_ns=bounds[1:],
            attributes={"run": run, "role": role},
        )
        if count > 1:
            trace.write(folder / "runs" / run / "threads" / f"{number:03d}.parquet")
    return Trace.from_columns(
        [Metric("INS", "hardware")],
        {"INS": np.ones(1, int)},
        begin_ns=np.array([0]),
        end_ns=np.array([1]),
        attributes={"run": run, "threads": described},
    )


def test_threads_are_paired_by_role(tmp_path):
    runs = (
        run_with(tmp_path, "0001", main=50, worker_1=40, worker_2=31, reader_1=60, log_1=1, log_2=35),
        run_with(tmp_path, "0002", main=50, worker_2=40, worker_1=31, reader_1=60, reader_2=60, log_1=40, log_2=35),
    )
    found, notes = read_thread_traces(tmp_path, {"main": {"baseline": runs}})
    assert list(found) == ["main", "worker#1", "worker#2", "log#2"]
    for role, traces in found.items():
        assert [trace.attributes["role"] for trace in traces["main"]["baseline"]] == [role, role]
    assert [len(trace) for trace in found["worker#2"]["main"]["baseline"]] == [31, 40]
    assert notes == (
        "There is no verdict on threads of reader: the runs have 1 to 2 of them.",
        "There is no verdict on log#1: a thread needs at least 30 intervals in each run. Shorten the interval, or make "
        "the runs longer.",
    )


def test_threads_of_other_creators_are_not_paired(tmp_path):
    runs = (
        run_with(tmp_path, "0001", main=50, a_1=40, a_2=40, a_1__b_1=40, a_1__b_2=40),
        run_with(tmp_path, "0002", main=50, a_1=40, a_2=40, a_1__b_1=40, a_2__b_1=40),
    )
    found, notes = read_thread_traces(tmp_path, {"main": {"baseline": runs}})
    assert list(found) == ["main", "a#1", "a#2"]
    assert notes == ("There is no verdict on threads of a/b: their creators vary from run to run.",)


def test_one_thread_is_the_whole_run(tmp_path):
    runs = (run_with(tmp_path, "0001", main=50), run_with(tmp_path, "0002", main=50))
    assert read_thread_traces(tmp_path, {"main": {"baseline": runs}}) == ({}, ())
