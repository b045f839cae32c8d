"""How a target's name is compared with names and files in the source text; loaded for every file of a build."""

from __future__ import annotations

import os.path
import re
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from unperturbed.instrument.events.event import Event


# pathlib would cost every command of a build 5 ms.
# ruff: noqa: PTH100


_GLOB = re.compile(r"[*?\[]")
_VERBATIM = re.compile(r"(?:\boperator\W|\().*")
"""Where the signs * and [] are mostly C++'s own: an operator's name, and the types of parameters."""

_LITERAL = re.compile(r"[\w$]+")
_UNNAMED = re.compile(r"lambda(\d+|\W.*)?$")
_LINE = re.compile(r"(?P<file>.+):(?P<line>\d+)$")
_GAUGE = re.compile(r"(?:::)?(?P<scopes>(?:.*::)?)(?P<variable>[\w$]+)(?P<parts>.*)")
_PART = re.compile(r"\.(?P<field>[\w$]+)|\[(?P<index>\d+)\]")

LineTarget = tuple[str, int]
"""A file (as the user wrote it) and a line."""


class GaugeTarget(NamedTuple):
    """A variable and a part of it."""

    file: str  # Glob over the file of its definition, '' for any
    name: str  # X, ns::x, Class::x or function::x; the scopes may be globs
    parts: tuple[str | int, ...]  # Fields and indices, outermost first

    @property
    def whole(self) -> str:
        """Return the variable as the user wrote it, without parts."""
        return f"{self.file}::{self.name}" if self.file else self.name

    @property
    def variable(self) -> str:
        """Return the variable's own name."""
        return self.name.rpartition("::")[2]


def is_glob(name: str) -> bool:
    """Return whether a name holds glob signs; those of `operator*` and `f(char*)` are none."""
    return _GLOB.search(_VERBATIM.sub("", name)) is not None


def name_matches(name: str, pattern: str) -> bool:
    """Compare one qualified name with a target's name or glob; spaces and a leading `::` do not matter."""
    wanted, plain = _glob(pattern)
    return _normalised(name) == wanted if plain else _glob_matches(_normalised(name), wanted)


@lru_cache(maxsize=4096)
def _glob_matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern)


@lru_cache(maxsize=1024)
def file_matches(path: str, pattern: str) -> bool:
    """Compare a file of a line marker with a glob: the whole path, or its end from any folder on."""
    clean = os.path.normpath(path)
    wanted = os.path.normpath(pattern)
    return (
        fnmatchcase(clean, wanted) or fnmatchcase(clean, f"*/{wanted}") or fnmatchcase(os.path.abspath(clean), wanted)
    )


def split_line(target: str) -> LineTarget | None:
    """Split `file.c:120`; None for a target that names a function."""
    found = _LINE.fullmatch(target)
    if found is None or found["file"].endswith(":"):
        return None
    return found["file"], int(found["line"])


def split_gauge(target: str) -> GaugeTarget:
    """Split `file.c::ns::x.field[2]`; a first scope with a dot or a slash in it is a file."""
    found = _GAUGE.fullmatch(target)
    if found is None:
        raise ValueError(f"{target!r} names no variable")
    file, scopes = "", found["scopes"]
    if re.match(r"[^:]*[./]", scopes):
        file, _, scopes = scopes.partition("::")
    parts = tuple(part["field"] or int(part["index"]) for part in _PART.finditer(found["parts"]))
    return GaugeTarget(file, scopes + found["variable"], parts)


def last_part(target: str) -> str:
    """Return a target's own name, without scopes, types of parameters, a loop's number and indices."""
    return re.split(r"::|\.", re.split(r"[(#[]", target, maxsplit=1)[0])[-1]


def needed_words(name: str) -> list[str]:
    """Return literal pieces that must all occur in a text which holds what a qualified name or glob stands for.

    A glob gives its longest literal run per component; a lambda's number is ours and is in no text.
    """
    if "operator" in name:
        return ["operator"]
    words = []
    for component in re.split(r"::|\.", name.split("(", maxsplit=1)[0]):
        runs = _LITERAL.findall(re.sub(r"\[[^]]*\]?", "*", component))
        if runs and not _UNNAMED.match(component):
            words.append(max(runs, key=len))
    return words


@lru_cache(maxsize=4096)
def _glob(pattern: str) -> tuple[str, bool]:
    """Return a target as `fnmatch` takes it, and whether it has no glob: `*` is one for a parameter, not in a type."""
    wanted = _VERBATIM.sub(lambda found: re.sub(r"(?<![(,])\*|[?[]", r"[\g<0>]", found[0]), _normalised(pattern))
    return wanted, not any(sign in wanted for sign in "*?[")


@lru_cache(maxsize=65536)
def _normalised(name: str) -> str:
    return re.sub(r"\s+", "", name).removeprefix("::")


class Need(NamedTuple):
    """Words that a text must contain to hold a site of one event."""

    words: tuple[str, ...]  # All must occur
    inner: str  # The one of the innermost name, which the function of the site must hold; '' when a glob hides it
    used: str  # A name that must not only be declared; '' when a glob hides it
    use: str  # What must happen to it: `defined`, `called`, `written`, or for a variable `stored`
    files: tuple[str, ...]  # Globs; for each a line marker must name such a file

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Need:
        """Return what `_asdict` and JSON made a mapping of."""
        return cls(**{**record, "words": tuple(record["words"]), "files": tuple(record["files"])})


class Selected(NamedTuple):
    """A metric that is compiled in."""

    name: str  # The metric's name
    number: int  # Its number among all software metrics
    kind: str  # As in `Event`, like the next five
    target: str
    within: str | None
    file: str | None
    add: str | None
    threads: str
    need: Need  # What a text must contain to hold a site
    loader: str  # `module:class` of the kind, so that the wrapper loads no other kind
    folder: str = ""  # What the module is imported from, when it is another distribution's; '' for ours


def need_of_name(event: Event, name: str, *, use: str = "defined", used: str | None = None) -> Need:
    """Return the need of an event whose target is a name."""
    words = (needed_words(event.within) if event.within else []) + needed_words(name)
    inner = needed_words(_innermost(name))
    final = _innermost(name if used is None else used)
    plain = final in words and not is_glob(final) and "operator" not in final
    files = (event.file,) if event.file else ()
    return Need(tuple(words), inner[-1] if inner else "", final if plain else "", use, files)


def _innermost(name: str) -> str:
    return re.split(r"::|\.", name.partition("(")[0])[-1]
