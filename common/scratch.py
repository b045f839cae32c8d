"""Temporary folders and files: a process removes its own, and those that killed processes left behind."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_NAME = re.compile(r"\.?unperturbed-(?P<kind>[a-z]+)-(?P<host>[\w.]*)-(?P<process>\d+)-\w+")


@contextmanager
def scratch_folder(kind: str, place: Path | None = None) -> Iterator[Path]:
    """Yield an empty private temporary folder and remove it afterwards; first remove folders of killed processes."""
    above = Path(tempfile.gettempdir()) if place is None else place
    _sweep(above)
    folder = Path(tempfile.mkdtemp(prefix=_prefix(kind), dir=above))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def scratch_file(target: Path) -> Iterator[IO[bytes]]:
    """Yield a hidden temporary file beside its target, removed afterwards; first remove those of killed processes."""
    _sweep(target.parent)
    aside = target.with_name(f".{_prefix('file')}{os.urandom(4).hex()}")
    try:
        with naming(target, aside), aside.open("xb") as file:
            yield file
    finally:
        with contextlib.suppress(OSError):
            aside.unlink()


@contextmanager
def naming(target: Path, aside: Path | None = None) -> Iterator[None]:
    """Put the target's name into write errors that name no file, or only the temporary file."""
    try:
        yield
    except OSError as error:
        if error.filename is None or (aside is not None and os.fspath(error.filename) == os.fspath(aside)):
            error.filename = os.fspath(target)
        raise


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Yield a file that replaces `path` atomically, once it is complete and on disk."""
    target = Path(path)
    with scratch_file(target) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
        Path(file.name).replace(target)


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Write text to a file as UTF-8, atomically."""
    with whole_file(path) as file:
        file.write(text.encode())


def _prefix(kind: str) -> str:
    return f"unperturbed-{kind}-{_host()}-{os.getpid()}-"


def _host() -> str:
    """Return where a process number means this process: the host's name and, of a container, its process namespace."""
    try:
        namespace = Path("/proc/self/ns/pid").readlink().name
    except OSError:
        namespace = ""
    return re.sub(r"[^\w.]", "_", f"{os.uname().nodename[:64]}.{namespace[5:-1]}", flags=re.ASCII)


def _sweep(above: Path) -> None:
    """Remove the files and folders that processes of this user left behind when they ended on this host."""
    with contextlib.suppress(OSError), os.scandir(above) as entries:  # creating a file there raises the same error
        if not Path("/proc", str(os.getpid())).samefile("/proc/self"):
            return  # /proc shows the processes of another namespace
        for entry in entries:
            named = _NAME.fullmatch(entry.name)
            if named is None or named["host"] != _host():
                continue
            with contextlib.suppress(OSError):  # another process sweeps too
                own = entry.stat(follow_symlinks=False).st_uid == os.geteuid()
                if not own or Path("/proc", named["process"]).exists():
                    continue
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                else:
                    Path(entry.path).unlink()
