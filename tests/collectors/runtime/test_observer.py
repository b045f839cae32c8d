"""The outside sampler around real programs.

What it counts, that the program does nothing for it, and every pitfall that was met in making it.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from tests.collectors.runtime.programs import BUSY, COUNTED, compile_program, sample
from unperturbed.collectors.records.file import NO_PINNING, Mark, Records, Setup, create_record_file, read_record_file
from unperturbed.collectors.runtime import build_observer
from unperturbed.collectors.sources import Event
from unperturbed.collectors.sources.papi import wheel_library

FAULTS = Event("perf::page-faults", 1, 2, kernel=True)
SWITCHES = Event("perf::context-switches", 1, 3, kernel=True)
TASK_CLOCK = Event("perf::task-clock", 1, 1, kernel=True)


def outside(interval_ns: int = 1_000_000, *, source: str = "none", **kwargs: object) -> Setup:
    return Setup(source, interval_ns, "monotonic", sampler="outside", **kwargs)  # type: ignore[arg-type]


def test_it_sees_software_counters_grow_while_the_program_runs(tmp_path: Path) -> None:
    program = compile_program(
        tmp_path,
        COUNTED
        + BUSY
        + "int main(void) { for (int i = 0; i < 300; i++) { COUNT(0); counts[1] += 3; busy(1000000); } return 7; }",
    )
    records, done = sample(tmp_path, [str(program)], outside(software=2))
    assert done.returncode == 7
    assert records.state == "finished"
    rows = records.rows
    assert len(rows) > 20
    assert list(rows["software"][0]) == [0, 0]
    assert list(rows["software"][-1]) == [300, 900]
    assert (np.diff(rows["software"], axis=0) >= 0).all()
    assert len(np.unique(rows["software"][:, 0])) > 10
    assert records.tables == 1
    assert records.wall_ns > 0


def test_one_group_counts_threads_and_stays_monotone(tmp_path: Path) -> None:
    text = (
        BUSY
        + """
#include <pthread.h>
#include <sys/mman.h>
static void *touch(void *n) {
    for (long i = 0; i < (long)n; i++) {
        char *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        p[0] = 1; munmap(p, 4096);
        if (i % 50 == 0) busy(200000);
    }
    return 0;
}
int main(void) {
    pthread_t t[3];
    for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, touch, (void *)2000L);
    touch((void *)2000L);
    for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
    return 0; }
"""
    )
    records, _ = sample(
        tmp_path,
        [str(compile_program(tmp_path, text, "-pthread"))],
        outside(source="perf_event", events=(FAULTS, TASK_CLOCK, SWITCHES)),
    )
    counts = records.rows["hardware"].astype(np.int64)
    assert 8000 <= counts[-1][0] < 9000
    assert (np.diff(counts, axis=0) >= 0).all()
    assert (records.rows["enabled_ns"] == records.rows["running_ns"]).all()
    assert counts[-1][1] > 0.5e9 * records.user_us / 1e6


@pytest.mark.parametrize(("children", "expected"), [(False, range(1000, 1400)), (True, range(4000, 5000))])
def test_children_count_when_asked_for(tmp_path: Path, children: bool, expected: range) -> None:
    text = """
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static void touch(int n) {
    for (int i = 0; i < n; i++) {
        char *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        p[0] = 1; munmap(p, 4096);
    }
}
int main(void) {
    for (int i = 0; i < 3; i++) if (fork() == 0) { touch(1000); _exit(0); }
    touch(1000); while (wait(0) > 0) {} return 0; }
"""
    setup = outside(source="perf_event", events=(FAULTS,), children=children)
    records, _ = sample(tmp_path, [str(compile_program(tmp_path, text))], setup)
    assert int(records.rows["hardware"][-1][0]) in expected


def test_the_program_executes_no_instruction_for_a_record(tmp_path: Path) -> None:
    """Under callgrind, which counts every user instruction of the program: the same number whatever the interval."""
    program = compile_program(tmp_path, COUNTED + BUSY + "int main(void) { COUNT(0); busy(3000000); return 0; }")
    instructions, records = [], []
    for interval_ns in (200_000, 5_000_000):
        dump = tmp_path / f"dump.{interval_ns}"
        command = ["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={dump}", str(program)]
        found, _ = sample(tmp_path, command, outside(interval_ns, software=2))
        instructions.append(int(re.search(r"^summary: (\d+)", dump.read_text(), re.MULTILINE)[1]))  # type: ignore[index]
        records.append(len(found.rows))
        assert found.tables == 1
    assert records[0] > 5 * records[1]
    assert abs(instructions[0] - instructions[1]) <= 200, "the paths of the record files differ, not the records"


def test_exit_code_signal_output_and_arguments_are_the_programs(tmp_path: Path) -> None:
    program = compile_program(
        tmp_path,
        '#include <stdio.h>\n#include <stdlib.h>\n#include <signal.h>\nint main(int n, char **v) { printf("%s\\n", '
        "v[1]); fflush(stdout); "
        "if (n > 2) raise(atoi(v[2])); return 5; }",
    )
    _, done = sample(tmp_path, [str(program), "a b"], outside())
    assert (done.returncode, done.stdout, done.stderr) == (5, "a b\n", "")
    records, done = sample(tmp_path, [str(program), "x", str(int(signal.SIGSEGV))], outside())
    assert done.returncode == -signal.SIGSEGV
    assert len(records.rows) >= 2
    records, done = sample(tmp_path, [str(tmp_path / "missing")], outside())
    assert records.state == "failed"
    assert "No such file" in records.message
    assert done.returncode == 127


def test_counters_lie_on_pages_of_their_own(tmp_path: Path) -> None:
    """Pitfall 1: whatever data the linker puts beside the counters keeps working when their pages are replaced."""
    text = (
        COUNTED
        + BUSY
        + """
int before = 41, many[5000] = {7};
int main(void) { COUNT(0); busy(2000000); before++; many[4999]++; return before + many[0] + many[4999]; }
"""
    )
    program = compile_program(tmp_path, text)
    symbols = subprocess.run(["nm", str(program)], capture_output=True, text=True, check=True).stdout
    places = {name: int(address, 16) for address, name in re.findall(r"^([0-9a-f]+) \w (\w+)$", symbols, re.MULTILINE)}
    first, last = places["unperturbed_sites_first"], places["unperturbed_sites_last"]
    assert first % 4096 == last % 4096 == 0
    others = [
        place
        for name, place in places.items()
        if first <= place < last and name not in ("counts", "unperturbed_sites_first")
    ]
    assert others == []
    records, done = sample(tmp_path, [str(program)], outside(software=2))
    assert done.returncode == 42 + 7 + 1
    assert int(records.rows["software"][-1][0]) == 1


def test_counts_of_constructors_are_kept(tmp_path: Path) -> None:
    """Pitfall 2: the pages are replaced before any library is set up, so that nothing counted is lost."""
    text = (
        COUNTED
        + BUSY
        + "static void __attribute__((constructor(101))) early(void) { counts[0] += 1000; } int main(void) { "
        "COUNT(0); busy(1000000); return 0; }"
    )
    records, _ = sample(tmp_path, [str(compile_program(tmp_path, text))], outside(software=2))
    assert int(records.rows["software"][-1][0]) == 1001


LIBRARY = """
#include <stdint.h>
struct unperturbed_table { struct unperturbed_table *next; uint64_t *counts; const uint32_t *metric;
    uint32_t sites, version; };
void unperturbed_register(struct unperturbed_table *) __attribute__((weak, visibility("default")));
static uint64_t counts[1] __attribute__((section("unperturbed_sites"), used, aligned(64)));
static const uint32_t metric[1] = {1};
static struct unperturbed_table table = {0, counts, metric, 1, 1};
static void __attribute__((constructor)) enrol(void) { if (unperturbed_register) unperturbed_register(&table); }
void hit(void) { (*(volatile uint64_t *)counts)++; }
"""


@pytest.mark.parametrize("opened", [False, True])
def test_libraries_count_in_memory_of_their_own(tmp_path: Path, opened: bool) -> None:
    """Pitfall 3: executable and library have counters of their own, linked at start or opened later.

    Both are seen.
    """
    from unperturbed.collectors.runtime import BOUNDS, INCLUDE

    (tmp_path / "library.c").write_text(LIBRARY)
    library = tmp_path / "libhit.so"
    sources = [BOUNDS[0], tmp_path / "library.c", BOUNDS[1]]
    subprocess.run(
        ["gcc", "-O1", "-fPIC", "-shared", f"-I{INCLUDE}", *map(str, sources), "-o", str(library)], check=True
    )
    load = f'void *h = dlopen("{library}", RTLD_NOW); void (*hit)(void); *(void **)&hit = dlsym(h, "hit");'
    text = COUNTED + BUSY + "#include <dlfcn.h>\n" + ("" if opened else "void hit(void);\n")
    text += (
        f"int main(void) {{ {load if opened else ''} for (int i = 0; i < 50; i++) {{ COUNT(0); hit(); hit(); "
        f"busy(500000); }} return 0; }}"
    )
    flags = ["-Wl,--export-dynamic-symbol=unperturbed_register*"]
    if not opened:
        flags += [str(library), f"-Wl,-rpath,{tmp_path}"]
    records, _ = sample(tmp_path, [str(compile_program(tmp_path, text, *flags))], outside(software=2))
    assert records.tables == 2
    assert Mark.UNSHARED not in records.marks
    assert list(records.rows["software"][-1]) == [50, 100]
    assert len(np.unique(records.rows["software"][:, 1])) > 5


def test_a_forked_child_counts_for_itself_and_a_bare_one_is_told(tmp_path: Path) -> None:
    """Pitfall 5."""
    body = (
        "{ if (%s == 0) { counts[0] += 1000000; busy(3000000); return 0; } wait(0); COUNT(0); busy(3000000); "
        "return 0; }"
    )
    head = (
        "#define _GNU_SOURCE\n"
        + COUNTED
        + BUSY
        + "#include <sys/syscall.h>\n#include <sys/wait.h>\n#include <unistd.h>\nint main(void) "
    )
    records, _ = sample(tmp_path, [str(compile_program(tmp_path, head + body % "fork()"))], outside(software=2))
    assert int(records.rows["software"][-1][0]) == 1
    assert Mark.SHARED_FORK not in records.marks
    bare = "(int)syscall(SYS_clone, 17, 0, 0, 0, 0)"
    records, _ = sample(tmp_path, [str(compile_program(tmp_path, head + body % bare))], outside(software=2))
    assert Mark.SHARED_FORK in records.marks


@pytest.mark.parametrize("children", [False, True])
def test_a_second_program_does_not_reset_the_counters(tmp_path: Path, children: bool) -> None:
    """Pitfall 6: `sh -c 'a; b'`."""
    program = compile_program(tmp_path, COUNTED + BUSY + "int main(void) { counts[0] += 5; busy(5000000); return 0; }")
    records, _ = sample(tmp_path, ["/bin/sh", "-c", f"{program}; {program}"], outside(software=2, children=children))
    assert records.state == "finished"
    assert int(records.rows["software"][-1][0]) == (10 if children else 5)
    assert records.tables == (2 if children else 1)


def test_a_program_that_never_attaches_is_not_silently_zero(tmp_path: Path) -> None:
    """Pitfall 7: an emptied environment, and a wrapper that closes every descriptor, which does no harm here."""
    program = compile_program(tmp_path, COUNTED + BUSY + "int main(void) { COUNT(0); busy(3000000); return 0; }")
    records, done = sample(tmp_path, ["/usr/bin/env", "-i", str(program)], outside(software=2))
    assert (done.returncode, records.state) == (0, "waiting")
    closing = f'for fd in 3 4 5 6 7 8 9; do eval "exec $fd>&-"; done; ulimit -n 10; exec {program}'
    records, done = sample(tmp_path, ["/bin/sh", "-c", closing], outside(software=2))
    assert (done.returncode, records.state) == (0, "finished")
    assert int(records.rows["software"][-1][0]) == 1


def as_nobody(command: list[str]) -> list[str]:
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", *command]


@pytest.fixture
def open_folder(tmp_path: Path) -> Path:
    """Return a folder that a user without rights can reach and write."""
    if os.geteuid() != 0:
        pytest.skip("needs to be root, to become somebody else")
    folder = Path(subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True).stdout.strip())
    folder.chmod(0o777)
    return folder


def observed_as_nobody(folder: Path, program: Path, setup: Setup) -> tuple[object, subprocess.CompletedProcess[str]]:
    observer = folder / "observer"
    observer.write_bytes(build_observer("gcc").read_bytes())
    observer.chmod(0o755)
    create_record_file(folder / "record", setup)
    (folder / "record").chmod(0o666)
    done = subprocess.run(
        as_nobody([str(observer), str(folder / "record"), str(program)]),
        env={"PATH": os.environ["PATH"], "UNPERTURBED_RECORD": str(folder / "record")},
        capture_output=True,
        text=True,
        check=False,
    )
    return read_record_file(folder / "record", setup), done


def test_without_rights_the_kernels_events_are_refused_not_zero(open_folder: Path) -> None:
    """Pitfall 8: at paranoid 2 a user may count user space only, where context switches would read 0."""
    if Path("/proc/sys/kernel/perf_event_paranoid").read_text().strip() != "2":
        pytest.skip("perf_event_paranoid is not 2 here")
    program = compile_program(open_folder, BUSY + "int main(void) { busy(3000000); return 0; }")
    program.chmod(0o755)
    records, _ = observed_as_nobody(open_folder, program, outside(source="perf_event", events=(SWITCHES,)))
    assert records.state == "failed"  # type: ignore[attr-defined]
    assert "context-switches: Permission denied" in records.message  # type: ignore[attr-defined]


def test_a_set_uid_program_that_the_kernel_stops_counting_is_told(open_folder: Path) -> None:
    """Pitfall 9: perf stands still over a set-uid exec, while CPU time goes on."""
    program = compile_program(open_folder, BUSY + "int main(void) { busy(400000000); return 0; }")
    program.chmod(0o4755)
    user = Event("perf::task-clock", 1, 1)
    records, done = observed_as_nobody(open_folder, program, outside(source="perf_event", events=(user,)))
    assert done.returncode == 0
    assert Mark.FROZEN in records.marks  # type: ignore[attr-defined]
    assert records.owner == 0, "a set-uid program opens nothing that its caller's environment names"  # type: ignore[attr-defined]


def test_a_program_that_replaces_itself_is_told(tmp_path: Path) -> None:
    """Pitfall 10: after exec the counters stand still while perf goes on."""
    text = (
        COUNTED
        + BUSY
        + '#include <unistd.h>\nint main(void) { COUNT(0); busy(30000000); execl("/bin/sleep", "sleep", "0.1", (char '
        "*)0); return 1; }"
    )
    records, done = sample(tmp_path, [str(compile_program(tmp_path, text))], outside(software=2))
    assert done.returncode == 0
    assert Mark.EXEC in records.marks


def test_the_observer_keeps_a_processor_for_itself(tmp_path: Path) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is one processor")
    text = "#define _GNU_SOURCE\n#include <sched.h>\n#include <stdio.h>\n" + BUSY
    text += """
int main(void) {
    cpu_set_t s;
    sched_getaffinity(0, sizeof s, &s);
    for (int i = 0; i < 512; i++) if (CPU_ISSET(i, &s)) printf("%d ", i);
    busy(3000000);
    return 0;
}
"""
    program = str(compile_program(tmp_path, text))
    here = os.sched_getaffinity(0)
    records, done = sample(tmp_path, [program], outside())
    assert Mark.PINNED in records.marks
    assert set(map(int, done.stdout.split())) == here - {records.observer_cpu}
    assert records.observer_cpu == max(here)
    records, done = sample(tmp_path, [program], outside(observer_cpu=min(here)))
    assert set(map(int, done.stdout.split())) == here - {min(here)}
    records, done = sample(tmp_path, [program], outside(observer_cpu=NO_PINNING))
    assert set(map(int, done.stdout.split())) == here
    assert Mark.PINNED not in records.marks


def test_interrupts_that_reading_causes_are_counted(tmp_path: Path) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is one processor")
    program = str(compile_program(tmp_path, BUSY + "int main(void) { busy(300000000); return 0; }"))

    def share_of(records: Records) -> float:
        return records.interrupts / len(records.rows)

    def least_of(setup: Setup, bound: float) -> Records:
        """Repeat while the host may disturb: what else it does adds interrupts, and takes none away."""
        least = sample(tmp_path, [program], setup)[0]
        for _ in range(9):
            if share_of(least) < bound:
                break
            least = min(least, sample(tmp_path, [program], setup)[0], key=share_of)
        return least

    reading = least_of(outside(source="perf_event", events=(TASK_CLOCK, FAULTS)), 2)
    share = share_of(reading)
    running = (
        (reading.user_us + reading.system_us) * 1e3 / reading.wall_ns
    )  # a program that waits for its processor is not interrupted
    assert 0.5 * running < share < 2
    assert share_of(least_of(outside(), share / 2)) < share / 2


def lives(pid: int) -> bool:
    """Tell whether a process is there and not a zombie that waits for its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("victim", ["program", "observer"])
def test_no_record_is_lost_when_either_is_killed(tmp_path: Path, victim: str) -> None:
    program = compile_program(
        tmp_path, COUNTED + BUSY + "int main(void) { for (;;) { COUNT(0); counts[1] += 3; busy(1000); } }"
    )
    setup = outside(200_000, software=2)
    chance = random.Random(7)
    whole = 0
    for _ in range(30):
        create_record_file(tmp_path / "record", setup)
        observer = subprocess.Popen(
            [str(build_observer("gcc")), str(tmp_path / "record"), str(program)],
            env={"UNPERTURBED_RECORD": str(tmp_path / "record")},
        )
        time.sleep(chance.uniform(0.003, 0.03))
        owner = read_record_file(tmp_path / "record", setup).owner
        if victim == "program" and owner:
            os.kill(owner, signal.SIGKILL)
        else:
            observer.kill()
        observer.wait()
        if owner:
            deadline = time.monotonic() + 60
            while lives(owner) and time.monotonic() < deadline:
                time.sleep(0.001)
            assert not lives(owner), "the program outlived its observer"
        rows = read_record_file(tmp_path / "record", setup).rows
        assert list(rows["whole"]) == list(range(1, len(rows) + 1))
        assert (np.diff(rows["monotonic_ns"]) > 0).all()
        assert (np.diff(rows["software"], axis=0) >= 0).all()
        whole += len(rows)
    assert whole > 100


def test_operating_system_counters_of_another_process(tmp_path: Path) -> None:
    text = (
        BUSY
        + """
#include <fcntl.h>
#include <unistd.h>
int main(void) { char c[1000]; int fd = open("/dev/zero", O_RDONLY);
    for (int i = 0; i < 400; i++) { if (read(fd, c, sizeof c) != 1000) return 1; busy(500000); } return 0; }
"""
    )
    names = ("minor_faults", "user_time_us", "sched_run_ns", "chars_read", "read_calls")
    records, done = sample(tmp_path, [str(compile_program(tmp_path, text))], outside(os_metrics=names))
    assert done.returncode == 0
    last = dict(zip(records.os_columns, records.rows["os"][-1].tolist(), strict=True))
    first = dict(zip(records.os_columns, records.rows["os"][0].tolist(), strict=True))
    assert last["chars_read"] - first["chars_read"] >= 400_000
    assert last["read_calls"] - first["read_calls"] >= 400
    assert abs(last["user_time_us"] - records.user_us) <= 30_000, "told in ticks of the clock"
    assert last["minor_faults"] > first["minor_faults"] >= 0
    assert (np.diff(records.rows["os"], axis=0) >= 0).all()


def test_two_threads_on_one_counter_may_lose_but_never_go_back(tmp_path: Path) -> None:
    """Pitfall 4: a plain counter that two threads count on loses some.

    One instruction an event, it never jumps backwards.
    """
    text = (
        COUNTED
        + """
#include <pthread.h>
static void *hit(void *n) { for (long i = 0; i < (long)n; i++) __asm__ __volatile__("incq %0" : "+m"(counts[0]));
    return n; }
int main(void) { pthread_t t; pthread_create(&t, 0, hit, (void *)100000000L); hit((void *)100000000L);
    pthread_join(t, 0); return 0; }
"""
    )
    program = str(compile_program(tmp_path, text, "-pthread"))
    records, _ = sample(tmp_path, [program], outside(software=2, observer_cpu=NO_PINNING))
    seen = records.rows["software"][:, 0]
    assert len(np.unique(seen)) > 10
    assert (np.diff(seen) >= 0).all()
    assert 100_000_000 <= int(seen[-1]) <= 200_000_000


def test_papi_of_a_wheel_serves_where_the_system_has_none(tmp_path: Path) -> None:
    """python-papi's library is loaded by the observer.

    On a host without PMU it says so itself, and gives its version.
    """
    library = wheel_library()
    if not library:
        pytest.skip("python-papi has wheels for x86-64 and Python 3.11 to 3.13 only")
    program = str(compile_program(tmp_path, BUSY + "int main(void) { busy(3000000); return 0; }"))
    records, done = sample(tmp_path, [program], outside(source="papi", events=(Event("PAPI_TOT_INS"),), papi=library))
    assert records.papi_version == "6.0"
    if records.state == "failed":
        assert "PAPI" in records.message
    else:
        assert int(records.rows["hardware"][-1][0]) > 1_000_000
    assert done.stderr == ""
