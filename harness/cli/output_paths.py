"""Check output paths before the work starts."""

from __future__ import annotations

from pathlib import Path

from unperturbed.errors import SpecError


def require_writable_path(path: Path) -> None:
    """Raise SpecError where no file can be written."""
    if path.is_dir():
        raise SpecError(f"{path} is a folder: give the name of a file in it")
    if not path.parent.is_dir():
        raise SpecError(f"{path}: there is no folder {path.parent}")
