"""Runs of programs with the runtime in an emulated machine: many in one boot, each with a record file of its own."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.pmu.architectures import ARM64, Architecture
from tests.pmu.machine import Machine
from unperturbed.collectors.records.file import Records, Setup, create_record_file, read_record_file
from unperturbed.collectors.runtime import BOUNDS, INCLUDE, runtime_files
from unperturbed.errors import HostError, RunError

__all__ = ["COMPILER", "Case", "Result", "build_program", "compile_text", "no_servers", "run_cases"]

COMPILER = ARM64.compiler
_NO_SERVERS = {
    "ELFUTILS_0.178": ("begin", "end", "find_debuginfo", "find_executable", "find_source", "set_progressfn"),
    "ELFUTILS_0.179": ("get_user_data", "set_user_data"),
}
"""What gdb asks of libdebuginfod, by version: there is no server to ask."""
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


def build_program(folder: Path, source: str, *, runtime: bool, architecture: Architecture = ARM64) -> Path:
    """Cross-compile a program that stands beside this file, with the runtime linked in or not; return its path.

    Raises
    ------
    HostError
        There is no compiler for the architecture, or it cannot compile the program.
    """
    target = folder / Path(source).stem
    files = [_HERE / source]
    if runtime:
        first, last = BOUNDS
        files = [first, *files, *runtime_files(), last]
    return _compile(architecture, [*_FLAGS, f"-I{INCLUDE}", *map(str, files), "-lrt", "-lpthread"], source, target)


def compile_text(folder: Path, text: str, name: str, *flags: str, architecture: Architecture = ARM64) -> Path:
    """Cross-compile a program (or, by a name in `.so`, a library) as anybody would; return its path.

    Raises
    ------
    HostError
        As `build_program`.
    """
    source = folder / f"{name}.c"
    source.write_text(text)
    shared = ["-shared", "-fPIC", f"-Wl,-soname,{name}"] if name.endswith(".so") else []
    return _compile(architecture, ["-O1", "-Wall", "-Werror", *shared, str(source), *flags], name, folder / name)


def _compile(architecture: Architecture, arguments: list[str], what: str, target: Path) -> Path:
    if not shutil.which(architecture.compiler):
        raise HostError(
            f"there is no {architecture.compiler} on this host (on Debian: apt-get install --no-install-recommends "
            f"{architecture.compiler_packages})"
        )
    command = [architecture.compiler, *arguments, "-o", str(target), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HostError(f"{architecture.compiler} cannot compile {what}:\n{done.stderr[-2000:]}")
    return target


def no_servers(folder: Path) -> Path:
    """Compile a libdebuginfod that knows of no server."""
    text = "".join(
        f"void *debuginfod_{name}(void) {{ return 0; }}\n" for names in _NO_SERVERS.values() for name in names
    )
    versions = "".join(
        f"{version} {{ global: {' '.join(f'debuginfod_{name};' for name in names)} }};\n"
        for version, names in _NO_SERVERS.items()
    )
    (folder / "none.c").write_text(text)
    (folder / "none.map").write_text(versions)
    library = folder / "libdebuginfod.so.1"
    options = ("-shared", "-fPIC", f"-Wl,--version-script={folder}/none.map", f"-Wl,-soname,{library.name}")
    subprocess.run([COMPILER, *options, "-o", str(library), str(folder / "none.c")], check=True)
    return library


def run_cases(
    machine: Machine,
    programs: Mapping[str, Path],
    cases: Mapping[str, Case],
    folder: Path,
    *,
    timeout_s: float,
    pmu: bool = True,
    cpu: str = "",
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
