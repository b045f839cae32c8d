"""The C runtime in real programs: it samples, it stays out of the way, and it loses nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from tests.collectors.runtime.programs import BUSY, COUNTED, INCLUDE, compile_program, sample
from unperturbed.collectors.records.file import HEADER, SIGNAL, Setup, create_record_file, read_record_file
from unperturbed.collectors.runtime import build_preload
from unperturbed.collectors.sources import Event
from unperturbed.errors import HostError, RunError

USAGE = ("user_time_us",)


def test_python_and_c_agree_on_the_layout(tmp_path: Path) -> None:
    fields = HEADER.names or ()
    lines = "".join(f'printf("{name} %zu\\n", offsetof(struct unperturbed_header, {name}));' for name in fields)
    text = f"""#include <stddef.h>
#include <stdio.h>
#include "unperturbed.h"
int main(void) {{
    {lines}
    printf("all %zu event %zu ", sizeof(struct unperturbed_header), sizeof(struct unperturbed_event));
    printf("probe %zu ", sizeof(struct unperturbed_probe));
    printf("record %zu", sizeof(struct unperturbed_record));
    return 0;
}}
"""
    printed = subprocess.run(
        [str(compile_program(tmp_path, text))], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert printed[:-1] == [f"{name} {HEADER.fields[name][1]}" for name in HEADER.names or ()]  # type: ignore[index]
    assert (
        printed[-1]
        == f"all {HEADER.itemsize} event {HEADER['event'].base.itemsize} probe {HEADER['probe'].base.itemsize} "
        f"record {Setup('none', 1, 'monotonic').record.itemsize}"
    )


def test_records_are_cumulative_and_complete(tmp_path: Path) -> None:
    program = compile_program(
        tmp_path,
        COUNTED
        + BUSY
        + "int main(void) { for (int i = 0; i < 300; i++) { counts[0]++; counts[1] += 3; busy(3000000); } return 7; }",
    )
    records, done = sample(
        tmp_path, [str(program)], Setup("none", 2_000_000, "monotonic", os_metrics=USAGE, software=2)
    )
    assert done.returncode == 7
    assert records.state == "finished"
    rows = records.rows
    assert len(rows) > 20
    assert list(rows["whole"]) == list(range(1, len(rows) + 1))
    assert (np.diff(rows["monotonic_ns"]) > 0).all()
    assert (np.diff(rows["software"], axis=0) >= 0).all()
    assert list(rows["software"][0]) == [0, 0]
    assert list(rows["software"][-1]) == [300, 900]
    user = records.os_columns.index("user_time_us")
    assert rows["os"][-1][user] > rows["os"][0][user]


def test_a_program_without_a_record_file_is_left_alone(tmp_path: Path) -> None:
    program = compile_program(tmp_path, '#include <stdio.h>\nint main(void) { puts("hello"); return 3; }')
    for environment in ({}, {"UNPERTURBED_RECORD": "/nowhere/at/all"}, {"UNPERTURBED_RECORD": str(program)}):
        done = subprocess.run([str(program)], env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (3, "hello\n", "")


def test_the_handler_keeps_errno(tmp_path: Path) -> None:
    text = BUSY + "#include <errno.h>\nint main(void) { errno = 77; busy(200000000); return errno; }"
    records, done = sample(
        tmp_path, [str(compile_program(tmp_path, text))], Setup("none", 1_000_000, "monotonic", os_metrics=USAGE)
    )
    assert len(records.rows) > 20
    assert done.returncode == 77


def test_a_forked_child_does_not_write(tmp_path: Path) -> None:
    text = (
        COUNTED
        + BUSY
        + """
#include <sys/wait.h>
#include <unistd.h>
int main(void) { busy(30000000); if (fork() == 0) { counts[0] = 1000000; busy(60000000); return 0; } wait(0);
    counts[0]++; busy(30000000); return 0; }
"""
    )
    records, _ = sample(
        tmp_path, [str(compile_program(tmp_path, text))], Setup("none", 1_000_000, "monotonic", software=2)
    )
    assert records.state == "finished"
    assert int(records.rows["software"][-1][0]) == 1
    assert (np.diff(records.rows["monotonic_ns"]) > 0).all()


def test_the_first_program_claims_the_file_and_a_second_leaves_it_alone(tmp_path: Path) -> None:
    program = compile_program(tmp_path, COUNTED + BUSY + "int main(void) { counts[0] += 5; busy(20000000); return 0; }")
    records, _ = sample(
        tmp_path, ["/bin/sh", "-c", f"{program}; {program}"], Setup("none", 1_000_000, "monotonic", software=2)
    )
    assert records.state == "finished"
    assert int(records.rows["software"][-1][0]) == 5


def test_an_exec_ends_the_records_of_the_first_image(tmp_path: Path) -> None:
    text = (
        BUSY + '#include <unistd.h>\nint main(int n, char **v) { busy(30000000); if (n < 2) execl(v[0], v[0], "again", '
        "(char *)0); return 0; }"
    )
    records, done = sample(tmp_path, [str(compile_program(tmp_path, text))], Setup("none", 1_000_000, "monotonic"))
    assert done.returncode == 0
    assert records.state == "attached"
    assert list(records.rows["whole"]) == list(range(1, len(records.rows) + 1))


def test_a_program_that_has_the_signal_is_refused(tmp_path: Path) -> None:
    text = f"""
#include <signal.h>
static void mine(int s) {{ (void)s; }}
static void __attribute__((constructor(101))) take(void) {{ signal({int(SIGNAL)}, mine); }}
int main(void) {{ return 0; }}
"""
    records, done = sample(tmp_path, [str(compile_program(tmp_path, text))], Setup("none", 1_000_000, "monotonic"))
    assert done.returncode == 0
    assert records.state == "failed"
    assert "already handles the sampler's signal" in records.message


def test_a_full_file_counts_what_it_lost(tmp_path: Path) -> None:
    program = compile_program(tmp_path, BUSY + "int main(void) { busy(200000000); return 0; }")
    records, _ = sample(tmp_path, [str(program)], Setup("none", 1_000_000, "monotonic", capacity=5))
    assert len(records.rows) == 5
    assert records.lost > 5


def test_kernel_events_are_counted_as_a_group(tmp_path: Path) -> None:
    text = (
        BUSY
        + """
#include <sys/mman.h>
int main(void) {
    for (int i = 0; i < 500; i++) {
        char *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        p[0] = 1; munmap(p, 4096); busy(100000);
    }
    return 0; }
"""
    )
    events = (Event("perf::page-faults", 1, 2, kernel=True), Event("perf::task-clock", 1, 1, kernel=True))
    records, _ = sample(
        tmp_path, [str(compile_program(tmp_path, text))], Setup("perf_event", 2_000_000, "monotonic", events)
    )
    if records.state == "failed" and "ermi" in records.message:
        pytest.skip(f"this host allows no perf events: {records.message}")
    assert records.state == "finished"
    faults = int(records.rows["hardware"][-1][0] - records.rows["hardware"][0][0])
    assert 500 <= faults < 600


def test_the_preloaded_runtime_samples_a_program_that_was_not_built_here(tmp_path: Path) -> None:
    record_file = tmp_path / "record"
    setup = Setup("none", 1_000_000, "process-cpu", os_metrics=USAGE)
    create_record_file(record_file, setup)
    environment = {
        "PATH": os.environ["PATH"],
        "UNPERTURBED_RECORD": str(record_file),
        "LD_PRELOAD": str(build_preload("gcc")),
    }
    subprocess.run(
        ["sha256sum", "/dev/fd/0"], input=bytes(120_000_000), env=environment, check=True, capture_output=True
    )
    records = read_record_file(record_file, setup)
    assert records.state == "finished"
    assert len(records.rows) > 3
    assert (np.diff(records.rows["cpu_ns"]) > 0).all()


def test_no_committed_record_is_lost_when_the_program_is_killed(tmp_path: Path) -> None:
    program = compile_program(
        tmp_path, COUNTED + BUSY + "int main(void) { for (;;) { counts[0]++; counts[1] += 3; busy(1000); } }"
    )
    setup = Setup("none", 200_000, "monotonic", software=2)
    chance = random.Random(5)
    for _ in range(40):
        create_record_file(tmp_path / "record", setup)
        victim = subprocess.Popen([str(program)], env={"UNPERTURBED_RECORD": str(tmp_path / "record")})
        time.sleep(chance.uniform(0.002, 0.03))
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        rows = read_record_file(tmp_path / "record", setup).rows
        assert list(rows["whole"]) == list(range(1, len(rows) + 1))
        assert (rows["monotonic_ns"] > 0).all()
        assert (np.diff(rows["software"], axis=0) >= 0).all()


def test_too_many_events_and_foreign_files(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="are too many for one run: the maximum is 16"):
        create_record_file(tmp_path / "record", Setup("papi", 1, "monotonic", tuple(Event(f"E{i}") for i in range(17))))
    (tmp_path / "other").write_text("text")
    with pytest.raises(RunError, match="not a record file"):
        read_record_file(tmp_path / "other", Setup("none", 1, "monotonic"))


def test_a_full_disk_is_met_before_the_program_runs(tmp_path: Path) -> None:
    free = os.statvfs(tmp_path)
    too_many = 2 * free.f_bavail * free.f_frsize // Setup("none", 1, "monotonic").record.itemsize
    with pytest.raises(HostError, match="no space left"):
        create_record_file(tmp_path / "record", Setup("none", 1, "monotonic", capacity=too_many))
    assert not (tmp_path / "record").exists()


def test_the_runtime_compiles_without_a_warning(tmp_path: Path) -> None:
    for compiler in ("gcc", "clang"):
        if subprocess.run(["which", compiler], capture_output=True, check=False).returncode:
            continue
        for source in INCLUDE.glob("*.c"):
            command = [
                compiler,
                "-std=gnu11",
                "-Wall",
                "-Wextra",
                "-Wpedantic",
                "-Wshadow",
                "-Wno-pedantic",
                "-Werror",
                "-O2",
                "-fPIC",
                "-c",
                str(source),
            ]
            subprocess.run([*command, "-o", str(tmp_path / "object.o")], check=True)
