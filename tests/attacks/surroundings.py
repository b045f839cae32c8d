"""A table of hostile surroundings, each command in each: no traceback, and an exit code that is documented.

::

    python -m tests.attacks.surroundings                     the whole table, as root (some need it)
    python -m tests.attacks.surroundings --sample 40 --seed 3

Each command runs in a process that is forked from one that has loaded the tool; the surroundings are made in it before.
File systems are mounted in a mount namespace of its own: the host's disks are never filled.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import ctypes.util
import importlib
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.attacks.killer import LOADED
from tests.harness.phases_campaign import write_spec

__all__ = ["COMMANDS", "SURROUNDINGS", "Table", "attack_table", "run_in"]

CODES = (0, 1, 2, 3, 4, 130)
"""The exit codes that the help names."""

_NOBODY = 65534
_CLONE_NEWNS, _MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_PRIVATE_ALL = 0x20000, 1, 32, 4096, 1 << 18 | 1 << 14
_LONGEST_S = 240.0
_FEW = 20
_DATA = Path(__file__).parents[1] / "analysis" / "diagnosis" / "data"

COMMANDS: Mapping[str, Sequence[str]] = {
    "help": ["--help"],
    "version": ["--version"],
    "nothing": [],
    "doctor": ["doctor"],
    "metrics": ["metrics"],
    "list": ["list", "."],
    "schema": ["schema"],
    "manual": ["manual"],
    "completion": ["completion", "bash"],
    "cache": ["cache"],
    "check": ["check", "campaigns/phases"],
    "check --json": ["check", "campaigns/phases", "--json", "--no-write"],
    "report": ["report", "campaigns/phases"],
    "export": ["export", "campaigns/phases", "out.csv"],
    "merge": ["merge", "campaigns/phases"],
    "choose": ["choose", "campaigns/phases"],
    "align": ["align", "campaigns/phases/runs/0001", "campaigns/phases/runs/0002"],
    "structure": ["structure", "campaigns/phases/runs/0001"],
    "model": ["model", "table.csv", "--report", "model.html"],
    "diagnose": ["diagnose", "bad.log", "--good", "good.log"],
    "import": ["import", "csv", "plain.csv", "--as", "baseline", "--campaign", "imported"],
    "init": ["init", "new.yaml", "--", "/bin/true"],
    "sites": ["sites", "spec.yaml"],
    "run": ["run", "spec.yaml"],
    "run anew": ["run", "spec.yaml", "--campaign", "anew"],
}


@dataclass
class Table:
    """What the table found: cells that were tried, exit codes, and faults."""

    cells: int = 0
    codes: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)


def _called(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _own_mounts() -> None:
    libc = _libc()
    _called(libc.unshare(_CLONE_NEWNS))
    _called(libc.mount(b"none", b"/", None, _MS_PRIVATE_ALL, None))


def _mount_tmpfs(folder: Path, size: str) -> None:
    _called(_libc().mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, f"size={size},mode=0777".encode()))


def _limit(what: int, value: int) -> Callable[[Path], None]:
    return lambda _folder: resource.setrlimit(what, (value, value))


def _as_nobody(folder: Path) -> None:
    os.environ["HOME"] = str(folder)
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache-of-nobody")
    os.setgroups([])
    os.setresgid(_NOBODY, _NOBODY, _NOBODY)
    os.setresuid(_NOBODY, _NOBODY, _NOBODY)


def _owned_by_nobody(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, _NOBODY, _NOBODY, follow_symlinks=False)
    _as_nobody(folder)


def _fork_failures(folder: Path) -> None:
    resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
    _owned_by_nobody(folder)


def _on_disk(folder: Path, size: str, *, fill: bool = False, read_only: bool = False) -> None:
    """Put the folder's content onto a file system of its own."""
    _own_mounts()
    kept = Path(f"{folder}.kept")
    shutil.copytree(folder, kept, symlinks=True)
    _mount_tmpfs(folder, size)
    shutil.copytree(kept, folder, symlinks=True, dirs_exist_ok=True)
    shutil.rmtree(kept)
    os.chdir(folder)
    if fill:
        with (folder / "ballast").open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
    if read_only:
        _called(_libc().mount(b"none", os.fsencode(folder), None, _MS_REMOUNT | _MS_RDONLY | _MS_BIND, None))


def _little_more(folder: Path) -> str:
    """Return the size of a disk that holds a folder's content and little more."""
    pages = sum(-(-path.lstat().st_size // 4096) + 1 for path in folder.rglob("*"))
    return f"{4 * pages + 500}k"


def _hidden(path: str) -> Callable[[Path], None]:
    def hide(_folder: Path) -> None:
        _own_mounts()
        _mount_tmpfs(Path(path), "1m")

    return hide


def _full_cache(folder: Path) -> None:
    _own_mounts()
    place = folder / "full"
    place.mkdir()
    _mount_tmpfs(place, "64k")
    os.environ["XDG_CACHE_HOME"] = os.environ["TMPDIR"] = str(place)
    tempfile.tempdir = None
    with (place / "ballast").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def _slow_disk(_folder: Path) -> None:
    original = os.fsync

    def fsync(file: int) -> None:
        time.sleep(0.2)
        original(file)

    os.fsync = fsync


def _variables(**values: str | None) -> Callable[[Path], None]:
    def change(_folder: Path) -> None:
        tempfile.tempdir = None
        for name, value in values.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value

    return change


def _set_back(seconds: float) -> Callable[[Path], None]:
    """Set this process's own clock back between its calls: each is an hour before the last."""

    def change(_folder: Path) -> None:
        now, asked = time.time(), 0

        def earlier() -> float:
            nonlocal asked
            asked += 1
            return now + seconds - 3600 * asked

        time.time = earlier
        time.time_ns = lambda: int(earlier() * 1e9)

    return change


def _closed(*numbers: int) -> Callable[[Path], None]:
    return lambda _folder: [os.close(number) for number in numbers] and None  # type: ignore[return-value]


def _onto(path: str, *numbers: int) -> Callable[[Path], None]:
    def change(_folder: Path) -> None:
        opened = os.open(path, os.O_WRONLY)
        for number in numbers:
            os.dup2(opened, number)

    return change


def _broken_pipe(_folder: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    os.dup2(writing, 1)


def _gone_folder(_folder: Path) -> None:
    place = tempfile.mkdtemp()
    os.chdir(place)
    Path(place).rmdir()


def _unreadable_parts(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.suffix in (".parquet", ".sqlite", ".log", ".csv"):
            path.chmod(0)
    _as_nobody(folder)


def _umask(mask: int) -> Callable[[Path], None]:
    return lambda _folder: os.umask(mask) and None  # type: ignore[return-value]


def _signals(*numbers: int) -> Callable[[Path], None]:
    return lambda _folder: [signal.signal(number, signal.SIG_IGN) for number in numbers] and None  # type: ignore[return-value]


def _blocked(_folder: Path) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP})


SURROUNDINGS: Mapping[str, Callable[[Path], None]] = {
    "as usual": lambda _folder: None,
    "another user, in root's folder": _as_nobody,
    "another user, in a folder of its own": _owned_by_nobody,
    "files that may not be read": _unreadable_parts,
    "umask 0777": _umask(0o777),
    "umask 0": _umask(0),
    "a full disk": lambda folder: _on_disk(folder, "48m", fill=True),
    "a small disk": lambda folder: _on_disk(folder, _little_more(folder)),
    "a read-only disk": lambda folder: _on_disk(folder, "48m", read_only=True),
    "a slow disk": _slow_disk,
    "cache and temporary folder full": _full_cache,
    "no /proc": _hidden("/proc"),
    "no /sys": _hidden("/sys"),
    "no /dev/shm": _hidden("/dev/shm"),
    "files of 16 KiB at most": _limit(resource.RLIMIT_FSIZE, 16 << 10),
    "20 open files": _limit(resource.RLIMIT_NOFILE, 20),
    "8 open files": _limit(resource.RLIMIT_NOFILE, 8),
    "600 MB of memory": _limit(resource.RLIMIT_DATA, 600 << 20),
    "200 MB of memory": _limit(resource.RLIMIT_DATA, 200 << 20),
    "a stack of 1 MB": _limit(resource.RLIMIT_STACK, 1 << 20),
    "no locked memory": _limit(resource.RLIMIT_MEMLOCK, 0),
    "no process can be started": _fork_failures,
    "locale C": _variables(LC_ALL="C", PYTHONUTF8="0"),
    "a locale that is not there": _variables(LC_ALL="xx_YY.KOI8-Q", LANGUAGE="tr"),
    "streams of ASCII": _variables(PYTHONIOENCODING="ascii"),
    "a terminal of one column": _variables(COLUMNS="1", LINES="1", TERM="dumb"),
    "columns that are not numbers": _variables(COLUMNS="x", TERM="\x1b[2J"),
    "no variables but PATH": lambda _folder: (
        [os.environ.pop(name) for name in list(os.environ) if name != "PATH"] and None
    ),  # type: ignore[dict-item,return-value]
    "an empty PATH": _variables(PATH=""),
    "no HOME": _variables(HOME=None, XDG_CACHE_HOME=None),
    "a HOME that is not there": _variables(HOME="/proc/nowhere/at/all", XDG_CACHE_HOME=None),
    "a temporary folder that is not there": _variables(TMPDIR="/proc/nowhere/at/all"),
    "a clock that goes backwards": _set_back(0),
    "a clock in 1971": _set_back(-55 * 365.25 * 86400),
    "standard input closed": _closed(0),
    "standard output closed": _closed(1),
    "standard error closed": _closed(2),
    "all streams closed": _closed(0, 1, 2),
    "standard output full": _onto("/dev/full", 1),
    "standard error full": _onto("/dev/full", 2),
    "nobody reads standard output": _broken_pipe,
    "a current folder that is gone": _gone_folder,
    "SIGCHLD ignored": _signals(signal.SIGCHLD),
    "SIGPIPE and SIGINT ignored": _signals(signal.SIGPIPE, signal.SIGINT),
    "all signals blocked": _blocked,
    "the lowest priority": lambda _folder: os.nice(19) and None,  # type: ignore[return-value]
}


def run_in(folder: Path, words: Sequence[str], make: Callable[[Path], None]) -> tuple[int, str]:
    """Run a command in surroundings; return its exit code (negative for a signal) and what it printed."""
    said = folder.parent / "said"
    process = os.fork()
    if not process:
        code = 99
        try:
            os.setsid()
            os.chdir(folder)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            opened = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o666)
            os.dup2(opened, 1)
            os.dup2(opened, 2)
            try:
                make(folder)
            except OSError as error:
                os.write(opened, f"surroundings cannot be made: {error}".encode())
                os._exit(98)
            os.set_inheritable(opened, False)
            sys.stdin, sys.stdout, sys.stderr = _streams()
            code = _main(list(words), opened)
        finally:
            os._exit(code)
    deadline = time.monotonic() + _LONGEST_S
    while os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > deadline:
            os.killpg(process, signal.SIGKILL)
            os.waitpid(process, 0)
            return 97, f"no end in {_LONGEST_S:.0f} s"
        time.sleep(0.005)
    _, status = os.waitpid(process, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    return os.waitstatus_to_exitcode(status), said.read_text(errors="replace")


def _streams() -> Iterator[object]:
    """Yield the standard streams as Python makes them when it starts: none for what is closed."""
    for number, mode in ((0, "r"), (1, "w"), (2, "w")):
        try:
            os.fstat(number)
        except OSError:
            yield None
            continue
        encoding = os.environ.get("PYTHONIOENCODING", "utf-8")
        yield open(number, mode, encoding=encoding, errors="backslashreplace" if number == 2 else None, closefd=False)  # noqa: SIM115


def _main(words: list[str], heard: int) -> int:
    """Run the command as `python -m` does; a traceback is written where it is heard in any case."""
    try:
        return int(importlib.import_module("unperturbed.harness.cli").main(words))
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    except BaseException:  # noqa: BLE001  that is what is looked for
        os.write(heard, traceback.format_exc().encode(errors="replace"))
        return 70
    finally:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                with contextlib.suppress(ValueError, OSError):
                    stream.flush()


def _load_as(words: Sequence[str], place: Path) -> None:
    """Load into this process what a command loads: in some surroundings nothing can be."""
    names = place / "names"

    def note(_folder: Path) -> None:
        atexit_write = os._exit

        def leave(code: int) -> None:
            names.write_text("\n".join(sys.modules))
            atexit_write(code)

        os._exit = leave  # type: ignore[assignment]

    folder = place / "work"
    shutil.copytree(place / "model", folder, symlinks=True)
    run_in(folder, words, note)
    shutil.rmtree(folder)
    for name in names.read_text().split("\n") if names.exists() else ():
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def make_place(folder: Path, *, campaign: bool = True) -> None:
    """Make what the commands work on: a campaign, a table, logs."""
    write_spec(
        folder,
        measure__source="perf_event",
        measure__hardware=["perf::task-clock", "perf::page-faults"],
        measure__derived=None,
        measure__os=None,
        measure__interval="2 ms",
        analysis__align_on=["perf::task-clock"],
        program__run="{build}/phases 60",
    )
    if campaign:
        code, said = run_in(folder, ["run", "spec.yaml"], lambda _folder: None)
        assert code in (0, 4), said
    rows = "".join(f"{at},{at % 3},{at * at / 7 + at % 5}\n" for at in range(30))
    (folder / "table.csv").write_text(f"n,k,T\n{rows}")
    (folder / "plain.csv").write_text(
        "time,a,b\n" + "".join(f"{at * 0.01:.2f},{at},{at * at}\n" for at in range(1, 60))
    )
    shutil.copy(_DATA / "pipeline.log", folder / "good.log")
    shutil.copy(_DATA / "two_threads_multiline.log", folder / "bad.log")
    for path in (folder, *folder.parents):  # another user has to come here
        if str(path).startswith(tempfile.gettempdir() + "/"):
            path.chmod(0o755)


def attack_table(*, sample: int | None = None, seed: int = 1, minutes: float = 1e9, show: bool = False) -> Table:
    """Try every cell of the table, or so many of it at random."""
    for name in LOADED:
        importlib.import_module(name)
    found, began = Table(), time.monotonic()
    few = sample is not None and sample < _FEW  # then no campaign is made, and none is run
    commands = [command for command in COMMANDS if not few or not command.startswith("run")]
    cells = [(surroundings, command) for surroundings in SURROUNDINGS for command in commands]
    if sample is not None:
        cells = random.Random(seed).sample(cells, min(sample, len(cells)))
    with tempfile.TemporaryDirectory(prefix="attack-") as name:
        place = Path(name)
        make_place(place / "model", campaign=len(cells) >= _FEW)
        if len(cells) >= _FEW:
            os.environ["XDG_CACHE_HOME"] = str(place / "cache")
        for words in dict.fromkeys(tuple(COMMANDS[command]) for _, command in cells):
            _load_as(words, place)
        for surroundings, command in cells:
            if time.monotonic() - began > 60 * minutes:
                break
            folder = place / "work"
            shutil.copytree(place / "model", folder, symlinks=True)
            code, said = run_in(folder, COMMANDS[command], SURROUNDINGS[surroundings])
            shutil.rmtree(folder)
            shutil.rmtree(f"{folder}.kept", ignore_errors=True)
            if code == 98:
                print(f"  {surroundings}: {said}")
                continue
            found.cells += 1
            found.codes[code] += 1
            if code not in CODES or "Traceback" in said or "Exception ignored" in said:
                fault = f"{command} with {surroundings}: exit code {code}: …{said[-700:]}"
                found.faults.append(fault)
                if show:
                    print(f"  {fault}", flush=True)
    return found


def main() -> int:
    """Try the table; return 1 when a command ended in a traceback or an undocumented way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, help="cells at random, instead of all")
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    found = attack_table(sample=asked.sample, seed=asked.seed, minutes=asked.minutes, show=True)
    whole = len(SURROUNDINGS) * len(COMMANDS)
    print(f"{found.cells} of {whole} cells ({len(SURROUNDINGS)} surroundings, {len(COMMANDS)} commands)")
    print(f"exit codes: {', '.join(f'{code}: {count}' for code, count in sorted(found.codes.items()))}")
    print(f"{len(found.faults) or 'no'} faults")
    return 1 if found.faults else 0


if __name__ == "__main__":
    sys.exit(main())
