"""Temporary folders that are removed however the process ended: by itself, or by the next one of this tool."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NAME = re.compile(r"unperturbed-(?P<kind>[a-z]+)-(?P<process>\d+)-\w+")


@contextmanager
def scratch_folder(kind: str, place: Path | None = None) -> Iterator[Path]:
    """Make a temporary folder, and remove it in the end.

    What earlier processes of this user left there, as they were killed, is removed too.

    Parameters
    ----------
    kind : str
        A word for its name, of small letters.
    place : Path, optional
        The folder to make it in; by default that for temporary files.

    Yields
    ------
    Path
        The folder, empty and open to this user alone.
    """
    above = Path(tempfile.gettempdir()) if place is None else place
    _sweep(above)
    folder = Path(tempfile.mkdtemp(prefix=f"unperturbed-{kind}-{os.getpid()}-", dir=above))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(above: Path) -> None:
    """Remove the folders of this user's processes that are gone."""
    for entry in os.scandir(above):
        named = _NAME.fullmatch(entry.name)
        if named is None:
            continue
        with contextlib.suppress(OSError):  # another process sweeps too
            own = entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_uid == os.geteuid()
            if own and not Path("/proc", named["process"]).exists():
                shutil.rmtree(entry.path, ignore_errors=True)
