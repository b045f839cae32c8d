"""Which runs something disturbed, by the host's own counters."""

from unperturbed.harness.campaign.manifest import RunState
from unperturbed.harness.campaign.plan import PlannedRun
from unperturbed.harness.results.recorded import describe_disturbances


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
