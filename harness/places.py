"""Where a command may write a page that was asked for: said before the work, not after it."""

from __future__ import annotations

from pathlib import Path

from unperturbed.errors import SpecError

__all__ = ["require_place"]


def require_place(path: Path) -> None:
    """Raise SpecError where no file can be written."""
    if path.is_dir():
        raise SpecError(f"{path} is a folder: give the name of a file in it")
    if not path.parent.is_dir():
        raise SpecError(f"{path}: there is no folder {path.parent}")
