"""Specs with one thing changed, written beside the program that they measure."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

__all__ = ["write_changed_spec"]


def write_changed_spec(folder: Path, spec: Mapping[str, Any], program: Path, changes: Mapping[str, Any]) -> Path:
    """Write a spec into a folder, with a copy of the program's folder beside it.

    Parameters
    ----------
    folder : path
        Made where it is missing.
    spec : mapping
        Left as it is.
    program : path
        Folder of the program's sources. Copied unless the folder holds one of its name.
    changes : mapping
        New values by path of keys, as `program__run`; None takes the key out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / program.name).exists():
        shutil.copytree(program, folder / program.name)
    changed = copy.deepcopy(dict(spec))
    for path, value in changes.items():
        *parents, last = path.split("__")
        part = changed
        for name in parents:
            part = part[name]
        if value is None:
            part.pop(last, None)
        else:
            part[last] = value
    file = folder / "spec.yaml"
    file.write_text(yaml.safe_dump(changed, sort_keys=False))
    return file
