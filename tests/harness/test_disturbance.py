"""Which runs something disturbed, by the host's own counters."""

from unperturbed.harness.disturbance import disturbances
from unperturbed.harness.manifest import RunState
from unperturbed.harness.plan import PlannedRun


def state(run, *, seconds=10.0, steal=0.0, swap=0, switches=2000, told=True):
    before = {"steal_s": 5.0, "swap_used_mib": 100, "context_switches": 1000} if told else None
    after = {"steal_s": 5.0 + steal, "swap_used_mib": 100 + swap, "context_switches": 1000 + switches} if told else None
    return RunState(PlannedRun(run, "baseline", "main", 1, 0, 0), "done", 1, None, seconds, 100, "", before, after)


def test_quiet_runs_are_not_disturbed():
    assert disturbances([state(f"000{at}", steal=0.1, switches=1500 + 100 * at) for at in range(6)]) == {}


def test_what_disturbed_a_run_is_said():
    runs = [state(f"000{at}") for at in range(5)]
    found = disturbances([*runs, state("0005", steal=1.0), state("0006", swap=12), state("0007", switches=50_000)])
    assert found == {
        "0005": "10% of its time stolen by other guests of the machine",
        "0006": "12 MiB swapped out meanwhile",
        "0007": "5,000 context switches a second, where 200 are usual",
    }


def test_hosts_that_tell_nothing_are_not_judged():
    assert disturbances([state("0001", told=False), state("0002", told=False)]) == {}
    assert disturbances([]) == {}
