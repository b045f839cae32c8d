"""Compile the hook and the modules it counts in: run by the measured program's own interpreter, which imports and runs nothing of the program.

Reads a question from stdin, writes the answer to stdout, JSON both. Each answer is a folder of the cache, made once for the same interpreter, options,
metrics and sources. A run reads there what it would else compile at each start, and writes nothing.
"""

from __future__ import annotations

import find  # type: ignore[import-not-found]  # first: it looks at what is loaded

# isort: split
import __future__

import hashlib
import json
import marshal
import os
import sys
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import Any

import hook  # type: ignore[import-not-found]  # beside this file
import rewriting  # type: ignore[import-not-found]
from command_line import CommandLine  # type: ignore[import-not-found]

_OWN = Path(__file__).parent
_PYC_HEAD = MAGIC_NUMBER + bytes(12)
_SHORT_DIGEST = 16


def _sources(targets: list[str], main: Any) -> dict[str, find.Module]:
    """Return the modules that may hold a target, by the names under which the hook looks for them."""
    found = {}
    for target in targets:
        for module in find.modules_of(target.split(".")):
            found[module.names[0]] = module
    if main is not None:
        found[hook.MAIN if main.is_compiled_by_python else main.names[-1] if main.is_imported else main.names[0]] = main
    return {name: module for name, module in found.items() if not module.reason}
