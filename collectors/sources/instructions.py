"""Executed instructions by function and address, from callgrind's profile of a whole run."""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from unperturbed.errors import HostError

Profile: TypeAlias = Mapping[tuple[str, str], Mapping[int, int]]
"""Executions of each instruction, by its address in the file, by file and function."""

_RECURSION = re.compile(r"'\d+$")  # callgrind's suffix for the levels of a recursion


def profiler_command(folder: Path) -> list[str]:
    """Return the command to put before the program's command; each process writes `folder/profile.<pid>`."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise HostError("valgrind is not installed, so instructions cannot be counted by function")
    return [
        *(valgrind, "--quiet", "--tool=callgrind", "--vgdb=no", "--trace-children=yes"),
        *("--dump-instr=yes", "--dump-line=no", "--compress-pos=no", "--compress-strings=no"),
        *(f"--callgrind-out-file={folder / 'profile'}.%p", f"--log-file={folder / 'log'}.%p"),
    ]


def read_profile(folder: Path) -> Profile:
    """Add up the profiles of all processes of a run."""
    profile: dict[tuple[str, str], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for path in sorted(folder.glob("profile.*")):
        with path.open(encoding="utf-8", errors="replace") as lines:
            _add(profile, lines)
    return profile


def _add(profile: dict[tuple[str, str], dict[int, int]], lines: Iterable[str]) -> None:
    """Add one profile: `ob=` and `fn=` set file and function; the line after `calls=` repeats the callee's cost."""
    file = function = ""
    is_call = False
    for line in lines:
        if line.startswith("0x"):
            if not is_call:
                address, _, cost = line.partition(" ")
                profile[file, function][int(address, 16)] += int(cost)
            is_call = False
        elif line.startswith("ob="):
            file = line[3:].rstrip("\n")
        elif line.startswith("fn="):
            function = _RECURSION.sub("", line[3:].rstrip("\n"))
        elif line.startswith("calls="):
            is_call = True
