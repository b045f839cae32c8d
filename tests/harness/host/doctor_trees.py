"""Trees of other hosts, as far as the doctor reads them, and its findings by subject."""

from __future__ import annotations

import re
from pathlib import Path

from unperturbed.harness.host.doctor import Examination, Finding, examine

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
    "proc/cpuinfo": "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 186\nmodel name\t: 13th Gen "
    "Intel\nflags\t\t: fpu vme\n",
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
    "proc/cpuinfo": "vendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD "
    "EPYC\nflags\t\t: fpu vme\n",
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
