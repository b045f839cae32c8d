"""The doctor: on recorded trees of other hosts, on this host through the command line, and that it changes nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phases_campaign import unperturbed, write_spec

from unperturbed.harness.doctor import Examination, Finding, Readiness, check_spec, examine
from unperturbed.harness.doctor.counting import core_pmus, tracepoints
from unperturbed.harness.doctor.load import BusyProcess, busy_processes, neighbours
from unperturbed.harness.doctor.preloading import cannot_preload
from unperturbed.harness.doctor.pyperf_advice import PyperfAnswer, ask_pyperf, pyperf_findings, read_answer
from unperturbed.harness.doctor.reading import REAL, cpu_list, find_tool, ranges
from unperturbed.harness.doctor.show import show, to_json
from unperturbed.harness.doctor.tools import PapiVerdict, ask, papi, papi_version
from unperturbed.harness.spec import load_spec

Tree = dict[str, str]

EVENT_SOURCES = "sys/bus/event_source/devices"
CPUS = "sys/devices/system/cpu"
USER_STATUS = "CapEff:\t0000000000000000\nSeccomp:\t0\nCpus_allowed_list:\t{cpus}\n"
ROOT_STATUS = "CapEff:\t000001ffffffffff\nSeccomp:\t0\nCpus_allowed_list:\t{cpus}\n"
WHOLE_USER_MAP = "         0          0 4294967295\n"
NO_PRIORITY = "Max realtime priority     0                    0                    \n"
TOOLS = {"usr/bin/setpriv": "#!", "usr/bin/valgrind": "#!"}

LAPTOP: Tree = {
    **TOOLS,
    f"{EVENT_SOURCES}/cpu_core/cpus": "0-11\n",
    f"{EVENT_SOURCES}/cpu_core/rdpmc": "1\n",
    f"{EVENT_SOURCES}/cpu_atom/cpus": "12-19\n",
    f"{EVENT_SOURCES}/cpu_atom/rdpmc": "1\n",
    f"{EVENT_SOURCES}/uprobe/type": "9\n",
    "proc/sys/kernel/perf_event_paranoid": "2\n",
    "proc/sys/kernel/nmi_watchdog": "1\n",
    "proc/sys/kernel/randomize_va_space": "0\n",
    "proc/self/status": USER_STATUS.format(cpus="0-19"),
    "proc/self/uid_map": WHOLE_USER_MAP,
    "proc/self/limits": NO_PRIORITY,
    "proc/self/cgroup": "0::/user.slice/session-2.scope\n",
    "proc/cpuinfo": "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 186\nmodel name\t: 13th Gen Intel\nflags\t\t: fpu vme\n",
    "proc/loadavg": "21.50 9.11 4.02 3/1204 99120\n",
    "proc/swaps": "Filename Type Size Used Priority\n/dev/dm-1 partition 16777212 524288 -2\n",
    "proc/sys/vm/swappiness": "60\n",
    "proc/stat": "cpu  100 0 100 800 0 0 0 0 0 0\n",
    f"{CPUS}/online": "0-19\n",
    f"{CPUS}/isolated": "\n",
    f"{CPUS}/smt/active": "1\n",
    f"{CPUS}/cpu0/topology/thread_siblings_list": "0-1\n",
    f"{CPUS}/cpu1/topology/thread_siblings_list": "0-1\n",
    f"{CPUS}/intel_pstate/no_turbo": "0\n",
    **{f"{CPUS}/cpu{cpu}/cpufreq/scaling_governor": "powersave\n" for cpu in range(20)},
    f"{CPUS}/cpu0/thermal_throttle/core_throttle_count": "12\n",
    f"{CPUS}/cpu0/thermal_throttle/package_throttle_count": "340\n",
    "sys/class/hwmon/hwmon3/name": "nvme\n",
    "sys/class/hwmon/hwmon3/temp1_input": "99000\n",
    "sys/class/hwmon/hwmon3/temp1_crit": "84850\n",
    "sys/class/hwmon/hwmon5/name": "coretemp\n",
    "sys/class/hwmon/hwmon5/temp1_label": "Package id 0\n",
    "sys/class/hwmon/hwmon5/temp1_input": "94000\n",
    "sys/class/hwmon/hwmon5/temp1_max": "100000\n",
    "sys/class/hwmon/hwmon5/temp1_crit": "100000\n",
    "sys/class/power_supply/AC/type": "Mains\n",
    "sys/class/power_supply/AC/online": "0\n",
    "sys/class/power_supply/BAT0/type": "Battery\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
    "sys/kernel/tracing/README": "",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "etc/default/grub": 'GRUB_CMDLINE_LINUX=""\n',
    "etc/ld.so.conf.d/papi.conf": "# PAPI\n/opt/papi/lib\n",
    "opt/papi/lib/libpapi.so.7.1.0.0": "",
    "opt/papi/lib/libpapi.so.7.1": "",
}

SERVER: Tree = {
    **TOOLS,
    f"{EVENT_SOURCES}/cpu/rdpmc": "0\n",
    f"{EVENT_SOURCES}/amd_l3/cpumask": "0\n",
    f"{EVENT_SOURCES}/uprobe/type": "9\n",
    "proc/sys/kernel/perf_event_paranoid": "1\n",
    "proc/sys/kernel/nmi_watchdog": "0\n",
    "proc/sys/kernel/randomize_va_space": "2\n",
    "proc/sys/kernel/numa_balancing": "1\n",
    "proc/self/status": USER_STATUS.format(cpus="0-31"),
    "proc/self/uid_map": WHOLE_USER_MAP,
    "proc/self/limits": "Max realtime priority     10                   10                   \n",
    "proc/self/cgroup": "0::/user.slice/job\n",
    "sys/fs/cgroup/user.slice/cpu.max": "max 100000\n",
    "proc/cpuinfo": "vendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC\nflags\t\t: fpu vme\n",
    "proc/loadavg": "0.10 0.20 0.30 1/900 12\n",
    "proc/swaps": "Filename Type Size Used Priority\n/dev/sda2 partition 8388604 0 -2\n",
    "proc/sys/vm/swappiness": "10\n",
    "proc/stat": "cpu  100 0 100 800 0 0 0 0 0 0\n",
    f"{CPUS}/online": "0-63\n",
    f"{CPUS}/isolated": "32-63\n",
    f"{CPUS}/smt/active": "0\n",
    f"{CPUS}/cpufreq/boost": "0\n",
    **{f"{CPUS}/cpu{cpu}/cpufreq/scaling_governor": "performance\n" for cpu in range(64)},
    "sys/devices/system/node/online": "0-1\n",
    "sys/class/hwmon/hwmon0/name": "k10temp\n",
    "sys/class/hwmon/hwmon0/temp1_label": "Tctl\n",
    "sys/class/hwmon/hwmon0/temp1_input": "61250\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "sys/kernel/tracing/events/sched/sched_switch/id": "316\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet\n",
    "sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc hpet acpi_pm\n",
    "usr/lib/x86_64-linux-gnu/libpapi.so.7.0.0.0": "",
}

GUEST: Tree = {
    "usr/bin/setpriv": "#!",
    f"{EVENT_SOURCES}/software/type": "1\n",
    f"{EVENT_SOURCES}/msr/type": "8\n",
    "proc/sys/kernel/perf_event_paranoid": "-1\n",
    "proc/sys/kernel/nmi_watchdog": "1\n",
    "proc/sys/kernel/randomize_va_space": "2\n",
    "proc/self/status": ROOT_STATUS.format(cpus="0-3"),
    "proc/self/uid_map": WHOLE_USER_MAP,
    "proc/self/limits": NO_PRIORITY,
    "proc/self/cgroup": "3:cpu,cpuacct:/batch/job\n",
    "sys/fs/cgroup/cpu,cpuacct/batch/cpu.cfs_quota_us": "250000\n",
    "sys/fs/cgroup/cpu,cpuacct/batch/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/cpu,cpuacct/batch/job/cpu.cfs_quota_us": "-1\n",
    "proc/cpuinfo": "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nflags\t\t: fpu hypervisor lahf_lm\n",
    "proc/loadavg": "1.20 0.20 0.30 1/900 12\n",
    "proc/swaps": "Filename Type Size Used Priority\n",
    "proc/stat": "cpu  5000 0 1000 3600 0 0 0 400 0 0\ncpu0 5000 0 1000 3600 0 0 0 400 0 0\n",
    f"{CPUS}/online": "0-3\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "kvm-clock\n",
}

CONTAINER: Tree = {
    **TOOLS,
    ".dockerenv": "",
    f"{EVENT_SOURCES}/cpu/rdpmc": "1\n",
    f"{EVENT_SOURCES}/uprobe/type": "9\n",
    "proc/sys/kernel/perf_event_paranoid": "3\n",
    "proc/sys/kernel/randomize_va_space": "2\n",
    "proc/self/status": "CapEff:\t00000000a80425fb\nSeccomp:\t2\nSeccomp_filters:\t1\nCpus_allowed_list:\t5\n",
    "proc/self/uid_map": WHOLE_USER_MAP,
    "proc/self/limits": NO_PRIORITY,
    "proc/self/cgroup": "0::/\n",
    "sys/fs/cgroup/cpu.max": "150000 100000\n",
    "proc/cpuinfo": "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\nflags\t\t: fpu vme\n",
    "proc/loadavg": "0.00 0.00 0.00 1/9 12\n",
    f"{CPUS}/online": "0-7\n",
    "usr/lib/libpapi.so": "",
}

BOARD: Tree = {
    "usr/bin/setpriv": "#!",
    f"{EVENT_SOURCES}/armv8_cortex_a53/cpus": "0-3\n",
    f"{EVENT_SOURCES}/armv8_cortex_a72/cpus": "4-5\n",
    f"{EVENT_SOURCES}/arm_cmn/type": "11\n",
    "proc/sys/kernel/perf_event_paranoid": "4\n",
    "proc/sys/kernel/perf_user_access": "0\n",
    "proc/sys/kernel/randomize_va_space": "2\n",
    "proc/self/status": USER_STATUS.format(cpus="0-5"),
    "proc/self/uid_map": WHOLE_USER_MAP,
    "proc/self/limits": NO_PRIORITY,
    "proc/cpuinfo": "processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd03\n",
    "proc/loadavg": "0.00 0.00 0.00 1/9 12\n",
    f"{CPUS}/online": "0-5\n",
    **{f"{CPUS}/cpu{cpu}/cpu_capacity": "446\n" for cpu in range(4)},
    **{f"{CPUS}/cpu{cpu}/cpu_capacity": "1024\n" for cpu in (4, 5)},
    **{f"{CPUS}/cpu{cpu}/cpufreq/scaling_governor": "schedutil\n" for cpu in range(4)},
    **{f"{CPUS}/cpu{cpu}/cpufreq/scaling_governor": "performance\n" for cpu in (4, 5)},
    "sys/class/thermal/thermal_zone0/type": "cpu-thermal\n",
    "sys/class/thermal/thermal_zone0/temp": "68000\n",
    "sys/class/thermal/thermal_zone0/trip_point_0_type": "active\n",
    "sys/class/thermal/thermal_zone0/trip_point_0_temp": "40000\n",
    "sys/class/thermal/thermal_zone0/trip_point_1_type": "passive\n",
    "sys/class/thermal/thermal_zone0/trip_point_1_temp": "85000\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "arch_sys_counter\n",
}


def plant(root: Path, tree: Tree) -> Path:
    for name, content in tree.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        if content.startswith("#!"):
            file.chmod(0o755)
    return root


@pytest.fixture(autouse=True)
def _plain_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tools of recorded trees lie in /usr/bin, whatever the PATH of whoever runs the tests."""
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}{os.pathsep}/usr/bin")


def look(root: Path, tree: Tree, **changes: str | None) -> dict[str, Finding]:
    """Examine a tree, some of its files changed (`/` and `.` of their paths written `__`), or gone."""
    by_key = {re.sub(r"[/.]", "__", name): name for name in tree}
    changed = {by_key.get(key, key): value for key, value in changes.items()}
    assert set(changed) <= set(tree), "a change names no file of the tree"
    kept = {name: changed.get(name, content) for name, content in tree.items()}
    found = examine(plant(root, {name: content for name, content in kept.items() if content is not None}))
    return named(found)


def named(found: Examination) -> dict[str, Finding]:
    both = [*found.counting, *found.noise]
    by_subject = {finding.subject: finding for finding in both}
    assert len(by_subject) == len(both), "a recorded tree gives one finding a subject"
    return by_subject


def statuses(found: dict[str, Finding], status: str) -> set[str]:
    return {subject for subject, finding in found.items() if finding.status == status}


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
    assert found["temperature"].what == "Package id 0 is at 94 °C, its limit is 100 °C"
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


@pytest.mark.parametrize(("thousandths", "status"), [("79000", "good"), ("81000", "note"), ("90500", "bad")])
def test_how_near_the_limit_is(tmp_path: Path, thousandths: str, status: str) -> None:
    assert look(tmp_path, LAPTOP, sys__class__hwmon__hwmon5__temp1_input=thousandths)["temperature"].status == status


def test_a_quiet_server_whose_libpapi_is_older_than_its_processor(tmp_path: Path) -> None:
    found = look(tmp_path, SERVER)
    assert statuses(found, "bad") == {"libpapi's age"}
    assert statuses(found, "note") == {"user reads", "uprobes", "memory nodes", "clock"}
    assert found["PMU"].what == "the processor's counters are there (cpu)"
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
    assert found["governor"].what == "the machine that hosts this guest decides its speed, unseen"
    # Nothing is said of what a host without counters cannot have.
    assert not {"watchdog", "user reads", "turbo", "temperature", "throttling", "power"} & set(found)


def test_a_container_at_paranoid_3(tmp_path: Path) -> None:
    found = look(tmp_path, CONTAINER)
    assert statuses(found, "bad") == {"permission", "container", "quota"}
    assert found["permission"].what == "perf_event_paranoid is 3"
    assert found["permission"].mend == "sysctl kernel.perf_event_paranoid=1"
    assert "On the container's host" in found["permission"].why
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
        tmp_path, CONTAINER, proc__self__status=ROOT_STATUS.format(cpus="0-7"), proc__self__uid_map="0 1000 1\n1 100000 65536\n"
    )
    assert found["permission"].status == "bad"
    assert found["container"].what.startswith("a podman container, a user namespace of its own")


def test_an_arm64_board(tmp_path: Path) -> None:
    found = look(tmp_path, BOARD)
    assert statuses(found, "bad") == {"PMU", "permission"}
    # The stronger kind is known by its capacity.
    assert found["PMU"].mend == "taskset -c 4-5 unperturbed run SPEC"
    assert found["user reads"].mend == "sysctl kernel.perf_user_access=1"
    assert found["governor"].what == "frequency governor schedutil (CPUs 0-3), performance (CPUs 4-5)"
    assert found["temperature"].status == "note"
    assert found["temperature"].what == "cpu-thermal is at 68 °C, its limit is 85 °C"
    assert found["valgrind"].status == "note"
    assert found["clock"].status == "good"


def test_one_kind_of_arm64_core(tmp_path: Path) -> None:
    tree = {name: text for name, text in BOARD.items() if "armv8" not in name} | {f"{EVENT_SOURCES}/armv8_pmuv3/type": "8\n"}
    assert look(tmp_path, tree)["PMU"].what == "the processor's counters are there (armv8_pmuv3)"


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
        return {str(file): (file.stat().st_mtime_ns, file.read_text()) for file in tmp_path.rglob("*") if file.is_file()}

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


# libpapi, valgrind, pyperf and other processes, as they are here


def test_libpapi_answers_for_itself() -> None:
    if papi_version(REAL) is None:
        pytest.skip("no libpapi is installed")
    verdict = ask()
    assert verdict.error == ""
    if core_pmus(REAL):
        return
    assert verdict.presets == 0
    assert verdict.disabled
    assert verdict.disabled in papi(REAL, verdict).what


@pytest.mark.parametrize(
    ("verdict", "status", "said"),
    [
        (PapiVerdict("PAPI_library_init: Version mismatch"), "bad", "cannot be used: PAPI_library_init: Version mismatch"),
        (PapiVerdict(disabled="Unknown libpfm4 related error"), "bad", "Unknown libpfm4 related error"),
        (PapiVerdict(presets=0, counters=6), "bad", "offers none of its presets"),
        (PapiVerdict(presets=31, counters=6), "good", "libpapi 7.0.0: 31 of its presets, 6 counters"),
    ],
)
def test_what_libpapi_may_say(tmp_path: Path, verdict: PapiVerdict, status: str, said: str) -> None:
    finding = papi(plant(tmp_path, SERVER), verdict)
    assert finding.status == status
    assert said in finding.what


def test_the_library_in_a_wheel_serves_where_the_system_has_none(tmp_path: Path) -> None:
    finding = papi(plant(tmp_path, BOARD), PapiVerdict(presets=21, counters=6), bundled=True)
    assert finding == Finding("libpapi", "good", "python-papi's libpapi (no system library): 21 of its presets, 6 counters")
    assert ask(str(tmp_path / "none.so")) == ask(), "a path that cannot be loaded leaves the system's"


PYPERF = """Show the system configuration

System state
============

CPU: use 4 logical CPUs: 0-3

Advices
=======

Perf event: Set max sample rate to 1
Linux scheduler: Use isolcpus=<cpu list> kernel parameter to isolate CPUs
CPU scaling governor: Use CPU scaling governor 'performance'
Turbo Boost (MSR): Disable Turbo Boost on CPU 0-3 to get more reliable CPU frequency

Errors
======

CPU Frequency: Unable to read CPU frequency

Run "python -m pyperf system tune" to tune the system configuration to run benchmarks
"""


def test_what_pyperf_says_is_read_and_not_said_twice() -> None:
    answer = read_answer(PYPERF)
    assert len(answer.advice) == 4
    assert answer.errors == ("CPU Frequency: Unable to read CPU frequency",)
    known = [Finding("governor", "note", "powersave"), Finding("isolation", "note", "none"), Finding("turbo", "good", "off")]
    found = pyperf_findings(answer, known)
    assert [(finding.what.partition(":")[0], finding.mend) for finding in found] == [
        ("Perf event", "sysctl kernel.perf_event_max_sample_rate=1"),
        ("Turbo Boost (MSR)", "python -m pyperf system tune"),
        ("CPU Frequency", None),
    ]
    assert pyperf_findings(PyperfAnswer(), [])[0].status == "good"
    assert "no answer" in pyperf_findings(PyperfAnswer(problem="no answer within 20 s"), [])[0].what


def test_pyperf_answers_here() -> None:
    answer = ask_pyperf()
    assert answer.problem == ""
    # Whatever it advises stands in a line of its own, with the name of the check before it.
    assert all(": " in line for line in answer.advice)


def test_a_busy_process_is_seen_and_this_one_is_not() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            seen: dict[int, BusyProcess] = {}
            for _ in range(50):  # on a crowded host it may wait for its turn
                seen |= {process.pid: process for process in busy_processes(0.2)}
                if busy.pid in seen:
                    break
        finally:
            busy.kill()
    assert busy.pid in seen
    assert not {os.getpid(), os.getppid()} & set(seen)
    found = neighbours([seen[busy.pid]])
    assert found.mend == f"kill -STOP {busy.pid}"


def test_busy_processes_are_weighed() -> None:
    assert neighbours([]).status == "good"
    some = [BusyProcess(10 + number, f"job{number}", 0.15) for number in range(6)]
    assert neighbours(some).status == "note"
    assert "and 1 more" in neighbours(some).what
    assert neighbours([*some, BusyProcess(9, "kworker", 0.9, kernel=True)]).status == "bad"
    # The kernel's threads cannot be held.
    assert neighbours([BusyProcess(9, "kworker", 0.9, kernel=True)]).mend is None


def test_which_programs_take_the_sampler(tmp_path: Path) -> None:
    source = tmp_path / "x.c"
    source.write_text("int main(void) { return 0; }\n")
    for name, flags in {"dynamic": [], "static": ["-static"]}.items():
        subprocess.run(["gcc", *flags, source, "-o", tmp_path / name], check=True)
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    assert cannot_preload(tmp_path / "dynamic") is None
    assert cannot_preload(script) is None
    assert "statically" in str(cannot_preload(tmp_path / "static"))
    # A 32-bit, big-endian program whose second header names a dynamic linker.
    head = bytearray(52)
    head[:7] = b"\x7fELF\x01\x02\x01"
    struct.pack_into(">I", head, 28, 64)
    struct.pack_into(">HH", head, 42, 32, 2)
    other = tmp_path / "other"
    other.write_bytes(bytes(head).ljust(64, b"\0") + struct.pack(">I28x", 1) + struct.pack(">I28x", 3))
    assert cannot_preload(other) is None
    other.write_bytes(bytes(head).ljust(64, b"\0") + struct.pack(">I28x", 1) * 2)
    assert "statically" in str(cannot_preload(other))


def test_a_program_of_another_user_does_not_take_it(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may give a file away")
    program = tmp_path / "program"
    shutil.copy("/bin/true", program)
    os.chown(program, 1, -1)
    program.chmod(0o4755)
    assert "set-uid" in str(cannot_preload(program))


# Specs on this host


@pytest.fixture(scope="module")
def host() -> Examination:
    return examine()


def ready(host: Examination, spec: Path) -> tuple[Readiness, dict[str, Any]]:
    checked = check_spec(load_spec(spec), host)
    found: dict[str, Any] = to_json(host, checked)["spec"]
    return checked, found


def test_of_a_spec_with_one_metric_too_many_the_rest_is_planned(
    tmp_path: Path, host: Examination, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = ["PAPI_TOT_INS", "PAPI_L2_TCM", "PAPI_L3_TCM", "PAPI_BR_MSP"]
    checked, found = ready(host, write_spec(tmp_path, measure__hardware=metrics, measure__derived=None))
    assert found["exit_code"] == 3
    assert len(found["problems"]) == 1
    assert found["problems"][0]["what"].startswith("PAPI_L3_TCM cannot be counted on this host")
    assert found["passes"][0]["metrics"] == ["PAPI_TOT_INS", "PAPI_L2_TCM", "PAPI_BR_MSP"]
    show(host, checked)
    assert "✗ cannot run here: 1 reason\n" in capsys.readouterr().out


def test_only_its_own_limit_keeps_a_spec_from_running(tmp_path: Path, host: Examination) -> None:
    checked, found = ready(host, write_spec(tmp_path, campaign__max_runs=12))
    assert checked.exit_code == 2
    assert [problem["subject"] for problem in found["problems"]] == ["runs"]
    assert "the plan has 13 runs, max_runs allows 12" in found["problems"][0]["what"]


NOT_BUILT = {
    "program__source": None,
    "program__build": None,
    "measure__software": None,
    "campaign__subsets": None,
    "analysis__anchor": None,
}


def test_a_static_program_that_nobody_builds(tmp_path: Path, host: Examination) -> None:
    source = tmp_path / "x.c"
    source.write_text("int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-static", source, "-o", tmp_path / "static"], check=True)
    checked, found = ready(host, write_spec(tmp_path, program__run="{spec}/static", **NOT_BUILT))
    assert checked.exit_code == 3
    assert "is linked statically" in found["problems"][0]["what"]


def test_the_sampler_outside_needs_no_dynamic_linker_and_a_cpu_that_is_there(tmp_path: Path, host: Examination) -> None:
    source = tmp_path / "x.c"
    source.write_text("int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-static", source, "-o", tmp_path / "static"], check=True)
    asked = {"measure__sampler": "outside", "measure__source": "auto", "measure__hardware": ["perf::page-faults"]}
    changes = {**NOT_BUILT, **asked, "measure__derived": None, "analysis__align_on": None, "program__run": "{spec}/static"}
    _, found = ready(host, write_spec(tmp_path, **changes))
    assert "program" not in {problem["subject"] for problem in found["problems"]}
    checked, found = ready(host, write_spec(tmp_path, **changes, measure__observer_cpu=4095))
    assert checked.exit_code == 3
    assert "4095 is not among the processors that may be used here" in found["problems"][0]["what"]


def test_a_clock_of_the_simulator_where_the_kernel_counts(tmp_path: Path, host: Examination) -> None:
    metrics = {"measure__hardware": ["perf::page-faults"], "measure__derived": None, "analysis__align_on": None}
    spec = write_spec(
        tmp_path,
        measure__clock="work",
        measure__interval={"records": 200},
        measure__source="auto",
        measure__os=["sched_run_ns"],
        **metrics,
    )
    checked, found = ready(host, spec)
    if any(problem["subject"] == "metric" for problem in found["problems"]):
        pytest.skip("perf_event is not allowed to count here")
    assert checked.exit_code == 2
    assert [problem["subject"] for problem in found["problems"]] == ["clock"]
    sources = {item["metric"]: item["source"] for item in found["metrics"]}
    assert sources == {
        "perf::page-faults": "perf_event",
        "sched_run_ns": "schedstat",
        "rounds": "compiled in",
        "steps": "compiled in",
    }


def test_a_shell_that_nobody_builds(tmp_path: Path, host: Examination) -> None:
    checked, found = ready(host, write_spec(tmp_path, program__run="true", program__shell=True, **NOT_BUILT))
    assert checked.exit_code == 2
    assert "without shell: true" in found["problems"][0]["what"]


# The command line on this host


def report(done: subprocess.CompletedProcess[str], code: int) -> dict[str, Any]:
    assert done.returncode == code, done.stderr
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_this_host_and_a_spec_as_text(tmp_path: Path) -> None:
    done = unperturbed(tmp_path, "doctor", write_spec(tmp_path))
    assert done.returncode == 0
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert {"What can be counted", "What is noisy"} <= set(lines)
    for subject in ("PMU", "permission", "container", "libpapi", "valgrind", "governor", "load", "swap", "clock", "pyperf"):
        assert any(re.match(rf"  [✓!✗] {subject} ", line) for line in lines), subject
    assert "Nothing was changed" in done.stdout
    assert "  PAPI_L1_DCM    simulated (callgrind)   main                 " in lines
    assert "✓ can run here: 13 runs" in lines


def test_this_host_as_json(tmp_path: Path) -> None:
    found = report(unperturbed(tmp_path, "doctor", "--json"), 0)
    assert set(found) == {"format", "counting", "noise", "spec"}
    assert found["format"] == 1
    assert found["spec"] is None
    for finding in (*found["counting"], *found["noise"]):
        assert set(finding) == {"subject", "status", "what", "why", "mend"}
        assert finding["status"] in ("good", "note", "bad")
    by_subject = {finding["subject"]: finding for finding in found["counting"]}
    if not core_pmus(REAL):
        assert by_subject["PMU"]["status"] == "bad"


def test_without_rights_the_level_decides(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("rights can be dropped by root only")
    command = [
        "setpriv",
        "--bounding-set=-all",
        "--inh-caps=-all",
        sys.executable,
        "-m",
        "unperturbed.harness.cli",
        "doctor",
        "--json",
    ]
    found = report(subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False), 0)
    permission = next(finding for finding in found["counting"] if finding["subject"] == "permission")
    level = int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    assert permission["status"] == ("good" if level < 2 else "note" if level == 2 else "bad")
    assert permission["mend"] == (None if level < 2 else "sysctl kernel.perf_event_paranoid=1")


def test_a_spec_that_can_run_here(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, measure__hardware=["PAPI_TOT_INS", "PAPI_TOT_CYC", "PAPI_L1_DCM", "PAPI_TLB_DM"])
    found = report(unperturbed(tmp_path, "doctor", spec, "--json"), 0)["spec"]
    assert (found["name"], found["can_run"], found["exit_code"], found["problems"]) == ("phases", True, 0, [])
    assert [item["source"] for item in found["passes"]] == ["simulated", "simulated"]
    assert found["runs"] == 2 * (5 + 5 + 3) == sum(found["configurations"].values())
    passes = [item["name"] for item in found["passes"]]
    sources = {item["metric"]: (item["source"], item["passes"]) for item in found["metrics"]}
    assert sources["PAPI_TOT_INS"] == ("simulated", passes)
    assert sources["PAPI_TLB_DM"] == ("simulated", ["page-cache"])
    assert sources["minor_faults"] == ("getrusage", passes)
    assert sources["steps"] == ("compiled in", passes)
    # The estimate of cycles is not that of this machine in the other pass, so an IPC is only in the first.
    assert sources["IPC"] == ("computed", ["main"])
    assert not list(tmp_path.glob("campaigns")), "nothing is begun"


def test_a_spec_that_wants_a_pmu_where_there_is_none(tmp_path: Path) -> None:
    if core_pmus(REAL):
        pytest.skip("this host has a PMU")
    spec = write_spec(tmp_path, measure__source="papi", campaign__max_runs=2)
    found = report(unperturbed(tmp_path, "doctor", spec, "--json"), 3)["spec"]
    assert not found["can_run"]
    assert found["passes"] == []
    # Each metric with its own reason, and the plan's size as well.
    asked = ["PAPI_TOT_INS", "PAPI_L1_DCM", "PAPI_BR_MSP", "PAPI_SR_INS", "PAPI_TOT_CYC"]
    assert [problem["what"].split()[0] for problem in found["problems"]] == [*asked, "the"]
    assert [problem["exit_code"] for problem in found["problems"]] == [*[3] * 5, 2]
    assert all("`source: auto`" in problem["why"] for problem in found["problems"][:5])


def test_all_that_is_missing_is_named(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("python3", "sh"):
        (tools / name).symlink_to(str(shutil.which(name)))
    spec = write_spec(tmp_path, program__build="make CC={cc} CXX={cxx}", program__prepare="make-corpus {inputs}/x")
    found = report(unperturbed(tmp_path, "doctor", spec, "--json", environment={"PATH": str(tools)}), 3)
    subjects = [problem["subject"] for problem in found["spec"]["problems"]]
    assert subjects[:5] == ["compiler", "compiler", "setpriv", "prepare", "build"]
    mends = {problem["subject"]: problem["mend"] for problem in found["spec"]["problems"]}
    assert mends["setpriv"] == "apt-get install util-linux"
    assert mends["build"] == "apt-get install make"
    valgrind = next(finding for finding in found["counting"] if finding["subject"] == "valgrind")
    assert valgrind["mend"] == "apt-get install valgrind"


def test_no_valgrind_for_a_simulated_spec(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in ("/usr/local/bin", "/usr/bin", "/bin"):
        for file in Path(folder).iterdir():
            if file.name != "valgrind" and not (tools / file.name).exists():
                (tools / file.name).symlink_to(file)
    found = report(unperturbed(tmp_path, "doctor", write_spec(tmp_path), "--json", environment={"PATH": str(tools)}), 3)["spec"]
    assert {problem["subject"] for problem in found["problems"]} == {"metric"}
    assert {problem["mend"] for problem in found["problems"]} == {"apt-get install valgrind"}


def test_a_wrong_spec(tmp_path: Path) -> None:
    for spec, said in (
        (tmp_path / "none.yaml", "there is no such file"),
        (write_spec(tmp_path, measure__interval="soon"), ":9:"),
    ):
        done = unperturbed(tmp_path, "doctor", spec)
        assert done.returncode == 2
        assert done.stdout == ""
        assert said in done.stderr or re.search(r":\d+:\d+: ", done.stderr)


WATCH = """
import os, sys
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {"os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.truncate",
           "os.utime", "os.kill", "os.setxattr", "shutil.rmtree"}
seen = []
def watch(event, arguments):
    if event == "open" and arguments[2] & WRITES and arguments[0] != os.devnull:
        seen.append((event, str(arguments[0])))
    elif event in CHANGES:
        seen.append((event, str(arguments)))
sys.addaudithook(watch)
from unperturbed.harness.cli import main
code = main(["doctor", *sys.argv[1:]])
print(code, seen, file=sys.stderr)
"""


def watched(folder: Path, *arguments: str | Path) -> tuple[int, list[tuple[str, str]]]:
    import ast

    done = subprocess.run(
        [sys.executable, "-B", "-c", WATCH, *map(str, arguments)], cwd=folder, capture_output=True, text=True, check=True
    )
    code, _, seen = done.stderr.strip().partition(" ")
    return int(code), ast.literal_eval(seen)


@pytest.fixture
def kernel_settings() -> Iterator[None]:
    """Hold every setting that a mending command could touch against what it was before."""
    places = ("/proc/sys/kernel", "/proc/sys/vm", "/sys/kernel/mm/transparent_hugepage")

    def settings() -> dict[str, str]:
        found = {}
        for place in places:
            for file in Path(place).glob("*"):
                if file.is_file() and os.access(file, os.R_OK) and file.stat().st_mode & 0o200 and "random" not in file.name:
                    found[str(file)] = file.read_text(errors="replace")
        # These count by themselves, or belong to whoever forks.
        return {name: value for name, value in found.items() if not name.endswith(("ns_last_pid", "compact_memory"))}

    before = settings()
    yield
    assert settings() == before


@pytest.mark.usefixtures("kernel_settings")
def test_it_opens_nothing_for_writing(tmp_path: Path) -> None:
    assert watched(tmp_path) == (0, [])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("kernel_settings")
def test_with_a_spec_it_writes_in_its_cache_and_in_temporary_folders_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"TMPDIR": tmp_path / "temporary", "XDG_CACHE_HOME": tmp_path / "cache"}
    for name, folder in own.items():
        folder.mkdir()
        monkeypatch.setenv(name, str(folder))
    spec = write_spec(tmp_path / "here", measure__source="auto")
    before = sorted(map(str, (tmp_path / "here").rglob("*")))
    code, seen = watched(tmp_path, spec)
    assert code == 0
    assert seen
    for event, where in seen:
        place = where.removeprefix("(").strip("'")
        # What is cleared in a temporary folder is named relative to it.
        relative = event in ("os.remove", "os.rmdir") and not place.startswith("/")
        assert relative or place.startswith(tuple(map(str, own.values()))), (event, where)
    assert sorted(map(str, (tmp_path / "here").rglob("*"))) == before
    assert list(own["TMPDIR"].iterdir()) == []


def test_the_page_names_every_key() -> None:
    page = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text()
    keys = (
        "format",
        "counting",
        "noise",
        "spec",
        "subject",
        "status",
        "what",
        "why",
        "mend",
        "name",
        "path",
        "can_run",
        "exit_code",
    )
    for key in (*keys, "problems", "runs", "configurations", "passes", "metrics", "metric", "source", "passed_over"):
        assert f"`{key}`" in page, key


def test_what_an_ordinary_user_may_not_look_into_is_a_finding_and_no_crash() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    root = Path(tempfile.mkdtemp())  # pytest's own folders are closed to others
    closed = root / "sys/kernel/tracing"
    (closed / "events").mkdir(parents=True)
    tool = root / "closed"
    (tool / "bin").mkdir(parents=True)
    root.chmod(0o755)
    closed.chmod(0o700)
    tool.chmod(0o700)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            os.environ["PATH"] = f"/closed/bin:{os.environ['PATH']}"
            told = tracepoints(root)
            code = 0 if told.what.endswith("root only") and find_tool(root, "valgrind") is None else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    shutil.rmtree(root)
    assert os.waitstatus_to_exitcode(status) == 0
