"""Runs of programs with the runtime in the emulated machine: many in one boot, each with a record file of its own."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.pmu.machine import Machine
from unperturbed.collectors.records import Records, Setup, create_record_file, read_record_file
from unperturbed.collectors.runtime import BOUNDS, INCLUDE, runtime_files
from unperturbed.errors import HostError, RunError

__all__ = ["COMPILER", "Case", "Result", "build_program", "run_cases"]

COMPILER = "aarch64-linux-gnu-gcc"
_HERE = Path(__file__).parent
_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Werror", "-DUNPERTURBED_EXECUTABLE")


@dataclass(frozen=True)
class Case:
    """One command in the guest.

    Attributes
    ----------
    command : for the guest's shell; `$RECORD` is the record file's path, also in UNPERTURBED_RECORD when `setup` asks
    for records.
    setup : what the runtime shall do; None for a command without a record file.
    user : `root`, or `nobody`, who has no capability.
    paranoid : /proc/sys/kernel/perf_event_paranoid.
    before, after : for root's shell, around the command.
    """

    command: str
    setup: Setup | None = None
    user: str = "root"
    paranoid: int = 1
    before: str = ":"
    after: str = ":"


@dataclass(frozen=True)
class Result:
    """What a case left. `records` is None where the case had no record file."""

    status: int
    stdout: str
    stderr: str
    records: Records | None

    @property
    def sampled(self) -> Records:
        """Return the records of a case that had a record file."""
        if self.records is None:
            raise RunError("this case had no record file")
        return self.records


def build_program(folder: Path, source: str, *, runtime: bool) -> Path:
    """Cross-compile a program that stands beside this file, with the runtime linked in or not; return its path.

    Raises
    ------
    HostError
        There is no compiler for arm64, or it cannot compile the program.
    """
    if not shutil.which(COMPILER):
        raise HostError(
            f"there is no {COMPILER} on this host (on Debian: apt-get install --no-install-recommends "
            "gcc-aarch64-linux-gnu libc6-dev-arm64-cross)"
        )
    target = folder / Path(source).stem
    files = [_HERE / source]
    if runtime:
        first, last = BOUNDS
        files = [first, *files, *runtime_files(), last]
    command = [
        COMPILER,
        *_FLAGS,
        f"-I{INCLUDE}",
        *map(str, files),
        "-o",
        str(target),
        "-ldl",
        "-lrt",
        "-lpthread",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HostError(f"{COMPILER} cannot compile {source}:\n{done.stderr[-2000:]}")
    return target


def run_cases(
    machine: Machine,
    programs: Mapping[str, Path],
    cases: Mapping[str, Case],
    folder: Path,
    *,
    timeout_s: float,
    pmu: bool = True,
    cpu: str = "cortex-a57",
    processors: int = 1,
) -> dict[str, Result]:
    """Boot once, run all cases one after another, and return what each left.

    Parameters
    ----------
    programs : name in the guest's /bin, or absolute path in the guest → file on the host.
    cases : by name; the name is a file name.
    folder : for the record files; made if need be.
    timeout_s, pmu, cpu, processors : see `Machine.run`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = {name if name.startswith("/") else f"/bin/{name}": path for name, path in programs.items()}
    script = ""
    for name, case in cases.items():
        if case.setup:
            record = folder / f"{name}.record"
            create_record_file(record, case.setup)
            record.chmod(0o666)
            files[f"/out/{name}/record"] = record
        script += _script_of(name, case)
    outcome = machine.run(files, script, timeout_s=timeout_s, pmu=pmu, cpu=cpu, processors=processors)
    results: dict[str, Result] = {}
    for name, case in cases.items():
        left = {key: outcome.files.get(f"{name}/{key}") for key in ("status", "stdout", "stderr", "record")}
        if left["status"] is None:
            raise RunError(f"the emulated machine did not run {name}. Its console:\n{outcome.console[-2000:]}")
        records = None
        if case.setup:
            (folder / f"{name}.record").write_bytes(left["record"] or b"")
            records = read_record_file(folder / f"{name}.record", case.setup)
        stdout, stderr = ((left[key] or b"").decode(errors="replace") for key in ("stdout", "stderr"))
        results[name] = Result(int(left["status"]), stdout, stderr, records)
    return results


def _script_of(name: str, case: Case) -> str:
    out = f"/out/{name}"
    environment = f"RECORD={out}/record " + (f"UNPERTURBED_RECORD={out}/record " if case.setup else "")
    run = f"sh -c {shlex.quote(case.command)}"
    if case.user != "root":
        run = f"su -s /bin/sh -c {shlex.quote(case.command)} {case.user}"
    return f"""
mkdir -p {out}
echo {case.paranoid} > /proc/sys/kernel/perf_event_paranoid
{case.before}
{environment} {run} > {out}/stdout 2> {out}/stderr < /dev/null
echo $? > {out}/status
{case.after}
"""
