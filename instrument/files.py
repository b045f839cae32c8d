"""Atomic writing of files: readers see a whole file or none, even if several processes write the file at once."""

# pathlib would cost every command of a build 5 ms.
# ruff: noqa: PTH101, PTH103, PTH105, PTH108, PTH110, PTH120, PTH123

from __future__ import annotations

import os


def write_whole(path: str, content: bytes, *, executable: bool = False, changed_ns: int | None = None) -> None:
    """Write a file atomically: readers see the whole file or none, even if several processes write it at once."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    aside = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
    try:
        with open(aside, "wb") as file:
            file.write(content)
        if executable:
            os.chmod(aside, 0o755)
        if changed_ns is not None:
            os.utime(aside, ns=(changed_ns, changed_ns))
        os.replace(aside, path)
    except BaseException:
        if os.path.exists(aside):
            os.unlink(aside)
        raise
