"""How a target's name is compared with names and files in the source text.

Only plain functions on strings: the wrapper loads this for every file of a build.
"""

# pathlib would cost every command of a build 5 ms.
# ruff: noqa: PTH100

from __future__ import annotations

import os.path
import re
from fnmatch import fnmatchcase
from functools import lru_cache

__all__ = ["LineTarget", "file_matches", "is_glob", "name_matches", "needed_words", "split_line"]

_GLOB = re.compile(r"[*?\[]")
_LITERAL = re.compile(r"[\w$]+")
_UNNAMED = re.compile(r"lambda(\d+|\W.*)?$")
_LINE = re.compile(r"(?P<file>.+):(?P<line>\d+)$")

LineTarget = tuple[str, int]
"""A file (as the user wrote it) and a line."""


def is_glob(name: str) -> bool:
    """Tell whether a name holds glob signs."""
    return _GLOB.search(name) is not None


@lru_cache(maxsize=4096)
def name_matches(name: str, pattern: str) -> bool:
    """Compare one qualified name with a target's name or glob; spaces and a leading `::` do not matter."""
    return fnmatchcase(_bare(name), _bare(pattern))


@lru_cache(maxsize=1024)
def file_matches(path: str, pattern: str) -> bool:
    """Compare a file of a line marker with a glob: the whole path, or its end from any folder on."""
    clean = os.path.normpath(path)
    wanted = os.path.normpath(pattern)
    return fnmatchcase(clean, wanted) or fnmatchcase(clean, f"*/{wanted}") or fnmatchcase(os.path.abspath(clean), wanted)


def split_line(target: str) -> LineTarget | None:
    """Split `file.c:120`; None for a target that names a function."""
    found = _LINE.fullmatch(target)
    if found is None or found["file"].endswith(":"):
        return None
    return found["file"], int(found["line"])


def needed_words(name: str) -> list[str]:
    """Return literal pieces that must all occur in a text which holds what a qualified name or glob stands for.

    A glob gives its longest literal run a component; a lambda's number is ours and stands in no text.
    """
    if "operator" in name:
        return ["operator"]
    words = []
    for component in re.split(r"::|\.", name.split("(", maxsplit=1)[0]):
        runs = _LITERAL.findall(re.sub(r"\[[^]]*\]?", "*", component))
        if runs and not _UNNAMED.match(component):
            words.append(max(runs, key=len))
    return words


def _bare(name: str) -> str:
    return re.sub(r"\s+", "", name).removeprefix("::")
