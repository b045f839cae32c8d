"""What to type where a campaign or a trace was expected and files of another tool are there."""

from __future__ import annotations

from pathlib import Path

from unperturbed.collectors.imports import find_files, recognise
from unperturbed.errors import DataError

_LOOKED_AT = 20


def what_to_type(path: Path) -> str:
    """Return which command takes a file or folder of another tool; '' for what is of none."""
    try:
        files = find_files(path)[:_LOOKED_AT]
    except (DataError, OSError):
        return ""
    for file in files:
        found = recognise(file)
        if found is not None:
            what = f"{path}: this is {found.title}" if path.is_file() else f"{path}: its files are {found.title}"
            place = path if path.is_dir() else path.parent
            return (
                f"{what}; to check such runs, type `unperturbed check --from {found.name} --baseline '{place}/…' "
                f"--checked '…'`, and for a campaign of them `unperturbed import {found.name} FILES --as baseline "
                "FILES --as NAME -o CAMPAIGN`"
            )
    return ""
