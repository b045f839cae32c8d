"""The doctor on recorded trees of other hosts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.common.distribution import write_distribution
from tests.harness.host.doctor_trees import (
    BOARD,
    CONTAINER,
    EVENT_SOURCES,
    GUEST,
    LAPTOP,
    ROOT_STATUS,
    SERVER,
    USER_STATUS,
    Tree,
    look,
    named,
    plant,
    statuses,
)
from unperturbed.harness.host.doctor import cpu_list, examine, ranges


@pytest.fixture(autouse=True)
def _plain_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tools of recorded trees lie in /usr/bin, whatever the PATH of whoever runs the tests."""
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}{os.pathsep}/usr/bin")


def test_a_hybrid_laptop(tmp_path: Path) -> None:
    found = look(tmp_path, LAPTOP)
    assert statuses(found, "bad") == {"PMU", "libpapi's age", "load", "temperature", "power"}
    assert statuses(found, "note") == {
        *("permission", "watchdog", "tracepoints", "uprobes", "priority"),
        *("governor", "turbo", "SMT", "throttling", "swap", "isolation", "huge pages", "layout"),
    }
    assert "cpu_atom: CPUs 12-19, cpu_core: CPUs 0-11" in found["PMU"].what
    assert found["PMU"].mend == "taskset -c 0-11 unperturbed run SPEC"
    assert found["permission"].mend == "sysctl kernel.perf_event_paranoid=1"
    assert found["watchdog"].mend == "sysctl kernel.nmi_watchdog=0"
    assert found["tracepoints"].mend == "mount -t tracefs nodev /sys/kernel/tracing"
    assert "Raptor Lake" in found["libpapi's age"].what
    assert "7.2" in found["libpapi's age"].what
    assert found["governor"].mend == "echo performance | tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
    assert found["turbo"].mend == "echo 1 | tee /sys/devices/system/cpu/intel_pstate/no_turbo"
    assert found["SMT"].mend == "echo off | tee /sys/devices/system/cpu/smt/control"
    assert found["SMT"].what == "CPUs share cores: 0-1"
    # The disk is hotter; only the processor counts. Less speed is what cools it.
    assert found["temperature"].what == "Package id 0 is at 94 °C (limit: 100 °C)"
    assert found["temperature"].mend == found["turbo"].mend
    assert "340 times" in found["throttling"].what
    assert found["swap"].mend == "swapoff -a"
    assert found["swap"].what.startswith("512 MiB")
    assert found["isolation"].mend is not None
    assert "isolcpus=19" in found["isolation"].mend
    assert found["layout"].mend == "sysctl kernel.randomize_va_space=2"
    assert found["user reads"].status == "good"


def test_a_hybrid_laptop_on_whose_strong_cores_the_process_stays(tmp_path: Path) -> None:
    found = look(tmp_path, LAPTOP, proc__self__status=USER_STATUS.format(cpus="2-5"))
    assert found["PMU"].status == "good"
    assert "cpu_core (CPUs 2-5)" in found["PMU"].what
    assert found["PMU"].why == "Events without a PMU name count there (perf::cycles)."


def test_a_hybrid_laptop_on_whose_efficient_cores_the_process_stays(tmp_path: Path) -> None:
    found = look(tmp_path, LAPTOP, proc__self__status=USER_STATUS.format(cpus="12-15"))
    assert found["PMU"].status == "good"
    assert "cpu_atom (CPUs 12-15)" in found["PMU"].what


def test_a_processor_with_topdown_events(tmp_path: Path) -> None:
    slots = {f"{EVENT_SOURCES}/cpu/events/slots": "event=0x00,umask=0x4\n"}
    assert look(tmp_path / "new", {**SERVER, **slots})["PMU"].what.endswith(
        "(cpu), with topdown events (perf::slots, …)"
    )
    assert look(tmp_path / "old", SERVER)["PMU"].what == "the processor's counters are available (cpu)"


@pytest.mark.parametrize(("thousandths", "status"), [("79000", "good"), ("81000", "note"), ("90500", "bad")])
def test_how_near_the_limit_is(tmp_path: Path, thousandths: str, status: str) -> None:
    assert look(tmp_path, LAPTOP, sys__class__hwmon__hwmon5__temp1_input=thousandths)["temperature"].status == status


def test_a_quiet_server_whose_libpapi_is_older_than_its_processor(tmp_path: Path) -> None:
    found = look(tmp_path, SERVER)
    assert statuses(found, "bad") == {"libpapi's age"}
    assert statuses(found, "note") == {"user reads", "uprobes", "memory nodes", "clock"}
    assert found["PMU"].what == "the processor's counters are available (cpu)"
    assert "libpapi 7.0.0 is older than this processor (Zen 5)" in found["libpapi's age"].what
    assert found["user reads"].mend == f"echo 1 | tee /{EVENT_SOURCES}/cpu/rdpmc"
    assert found["memory nodes"].mend == "sysctl kernel.numa_balancing=0"
    assert found["clock"].mend == "echo tsc | tee /sys/devices/system/clocksource/clocksource0/current_clocksource"
    assert found["temperature"].what == "Tctl is at 61 °C"
    assert found["isolation"].what == "CPUs 32-63 are isolated"


@pytest.mark.parametrize(
    ("family", "model", "library", "known"),
    [
        ("26", "2", "7.2.0.0", True),
        ("25", "17", "7.0.1.0", False),
        ("25", "17", "7.1.0.0", True),
        ("25", "33", "6.0.0.1", True),  # Zen 3
        ("23", "49", "6.0.0.1", True),
    ],
)
def test_what_a_libpapi_knows(tmp_path: Path, family: str, model: str, library: str, known: bool) -> None:
    cpuinfo = f"vendor_id : AuthenticAMD\ncpu family : {family}\nmodel : {model}\nflags : fpu\n"
    gone = {"usr__lib__x86_64-linux-gnu__libpapi__so__7__0__0__0": None}
    plant(tmp_path, {f"usr/lib/x86_64-linux-gnu/libpapi.so.{library}": ""})
    found = look(tmp_path, SERVER, proc__cpuinfo=cpuinfo, **gone)
    assert ("libpapi's age" not in found) == known


def test_a_guest_without_a_pmu(tmp_path: Path) -> None:
    found = look(tmp_path, GUEST)
    assert statuses(found, "bad") == {"PMU", "valgrind", "steal", "quota"}
    assert found["PMU"].mend is not None
    assert found["PMU"].mend.startswith("virt-xml GUEST --edit --features pmu.state=on")
    assert "simulated source" in found["PMU"].why
    assert found["valgrind"].mend == "apt-get install valgrind"
    assert found["libpapi"].mend == "apt-get install libpapi-dev"
    assert found["permission"].status == "good"
    assert found["steal"].what.startswith("other guests of this machine took 4.00%")
    assert found["quota"].what == "the control group of this process may use 2.5 CPUs"
    assert found["quota"].mend == "echo -1 | tee /sys/fs/cgroup/cpu,cpuacct/batch/cpu.cfs_quota_us"
    governed = "the host of this virtual machine controls the processor's speed, which is unknown here"
    assert found["governor"].what == governed
    # Nothing is said of what a host without counters cannot have.
    assert not {"watchdog", "user reads", "turbo", "temperature", "throttling", "power"} & set(found)


def test_a_container_at_paranoid_3(tmp_path: Path) -> None:
    found = look(tmp_path, CONTAINER)
    assert statuses(found, "bad") == {"permission", "container", "quota"}
    assert found["permission"].what == "perf_event_paranoid is 3"
    assert found["permission"].mend == "sysctl kernel.perf_event_paranoid=1"
    assert "on the container's host" in found["permission"].why
    assert found["container"].mend == "docker run --cap-add PERFMON --security-opt seccomp=unconfined IMAGE"
    assert "Operation not permitted" in found["container"].why
    assert found["quota"].what == "the control group of this process may use 1.5 CPUs"
    assert found["second CPU"].status == "note"
    assert found["second CPU"].mend == "taskset -pc 0-7 $$"
    assert found["libpapi"].what == "libpapi is installed"


def test_a_container_that_was_given_the_capability(tmp_path: Path) -> None:
    status = "CapEff:\t00000040a80425fb\nSeccomp:\t2\nCpus_allowed_list:\t0-7\n"
    found = look(tmp_path, CONTAINER, proc__self__status=status)
    assert found["permission"].status == "good"
    assert found["container"].status == "note"


def test_rights_of_a_user_namespace_do_not_reach_the_counters(tmp_path: Path) -> None:
    plant(tmp_path, {"run/.containerenv": ""})
    found = look(
        tmp_path,
        CONTAINER,
        proc__self__status=ROOT_STATUS.format(cpus="0-7"),
        proc__self__uid_map="0 1000 1\n1 100000 65536\n",
    )
    assert found["permission"].status == "bad"
    assert found["container"].what.startswith("a podman container, in its own user namespace")


def test_an_arm64_board(tmp_path: Path) -> None:
    found = look(tmp_path, BOARD)
    assert statuses(found, "bad") == {"PMU", "permission"}
    # The stronger kind is known by its capacity.
    assert found["PMU"].mend == "taskset -c 4-5 unperturbed run SPEC"
    assert found["user reads"].mend == "sysctl kernel.perf_user_access=1"
    assert found["governor"].what == "frequency governor schedutil (CPUs 0-3), performance (CPUs 4-5)"
    assert found["temperature"].status == "note"
    assert found["temperature"].what == "cpu-thermal is at 68 °C (limit: 85 °C)"
    assert found["valgrind"].status == "note"
    assert found["clock"].status == "good"


def test_one_kind_of_arm64_core(tmp_path: Path) -> None:
    tree = {name: text for name, text in BOARD.items() if "armv8" not in name} | {
        f"{EVENT_SOURCES}/armv8_pmuv3/type": "8\n"
    }
    assert look(tmp_path, tree)["PMU"].what == "the processor's counters are available (armv8_pmuv3)"


def test_a_kernel_without_perf_event(tmp_path: Path) -> None:
    found = look(tmp_path, GUEST, proc__sys__kernel__perf_event_paranoid=None)
    assert found["permission"].status == "bad"
    assert "without perf_event" in found["permission"].what


def test_an_empty_tree_is_examined_too(tmp_path: Path) -> None:
    found = named(examine(tmp_path))
    assert {"PMU", "permission", "setpriv"} <= statuses(found, "bad")


@pytest.mark.parametrize(
    "tree", [LAPTOP, SERVER, GUEST, CONTAINER, BOARD], ids=["laptop", "server", "guest", "container", "board"]
)
def test_a_recorded_tree_stays_as_it_was(tmp_path: Path, tree: Tree) -> None:
    plant(tmp_path, tree)

    def state() -> dict[str, tuple[int, str]]:
        return {
            str(file): (file.stat().st_mtime_ns, file.read_text()) for file in tmp_path.rglob("*") if file.is_file()
        }

    before = state()
    found = examine(tmp_path)
    assert state() == before
    # Every fault says what it means, and a good finding needs no mending.
    for finding in (*found.counting, *found.noise):
        assert finding.status == "good" or finding.why or finding.mend, finding
        assert finding.status != "good" or finding.mend is None, finding


@given(st.frozensets(st.integers(0, 200)))
def test_cpu_lists_are_read_as_they_are_written(cpus: frozenset[int]) -> None:
    assert cpu_list(ranges(cpus)) == tuple(sorted(cpus))


TOY = '''
from unperturbed.harness.host import Finding, check

@check("fans", "noise", rank=15)
def fans(host):
    """Check whether the recorded host has fans."""
    return Finding("fans", "note", f"fans below {host.root.name}", "They are loud.")
'''


def test_a_check_of_another_distribution_is_shown_by_its_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offered = tmp_path / "site"
    offered.mkdir()
    write_distribution(offered, "unperturbed.host_checks", TOY, fans="fans")
    monkeypatch.syspath_prepend(str(offered))
    root = plant(tmp_path / "server", SERVER)
    found = examine(root)
    assert [finding.subject for finding in found.noise][:3] == ["governor", "fans", "turbo"]
    assert found.noise[1].what == "fans below server"
    assert [finding.subject for finding in found.counting] == [
        *("PMU", "permission", "container", "libpapi", "libpapi's age", "valgrind", "setpriv"),
        *("user reads", "watchdog", "tracepoints", "uprobes", "priority", "second CPU"),
    ]
