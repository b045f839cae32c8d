"""Comparison of targets with the names and files in a source; loaded for every file of a build."""

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
"""Parts of a name in which * and [] are mostly C++ syntax: an operator's name and parameter types."""

_PARAMETERS_END = re.compile(r"\)(?:const|volatile|noexcept|&)*\Z")

_LITERAL = re.compile(r"[\w$]+")
_UNNAMED = re.compile(r"lambda(\d+|\W.*)?$")
_LINE = re.compile(r"(?P<file>.+):(?P<line>\d+)$")
_GAUGE = re.compile(r"(?:::)?(?P<scopes>(?:.*::)?)(?P<variable>[\w$]+)(?P<parts>.*)")
_PART = re.compile(r"\.(?P<field>[\w$]+)|\[(?P<index>\d+)\]")

LineTarget = tuple[str, int]
"""File (as the user wrote it) and line."""


class GaugeTarget(NamedTuple):
    """Target of a gauge: a variable, or a part of a variable."""

    file: str  # Glob that the defining file must match; '' for any
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
    """Return whether a name contains glob characters; the `*` in `operator*` and `f(char*)` does not count."""
    return _GLOB.search(_VERBATIM.sub("", name)) is not None


def name_matches(name: str, pattern: str) -> bool:
    """Return whether a qualified name matches a target's name or glob, ignoring spaces and a leading `::`.

    A glob is compared with a function's parameter types only if it has a parenthesis: `ns::*::*` does not find
    `ns::f(std::string)`.
    """
    wanted, plain = _glob(pattern)
    if plain:
        return _normalised(name) == wanted
    return _glob_matches(_normalised(name) if "(" in wanted else without_parameters(_normalised(name)), wanted)


@lru_cache(maxsize=65536)
def without_parameters(name: str) -> str:
    """Return a function's name without its parameter types and what follows them; other names as they are."""
    if (last := _PARAMETERS_END.search(name)) is None:
        return name
    depth = 0
    for at in range(last.start(), -1, -1):
        depth += (name[at] == ")") - (name[at] == "(")
        if depth == 0:
            break
    kept = name[:at]
    return name if depth or not kept or kept.endswith(("operator", "::")) else kept


@lru_cache(maxsize=4096)
def _glob_matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern)


@lru_cache(maxsize=1024)
def file_matches(path: str, pattern: str) -> bool:
    """Return whether a line marker's file matches a glob, by its whole path or by the end of the path."""
    clean = os.path.normpath(path)
    wanted = os.path.normpath(pattern)
    return (
        fnmatchcase(clean, wanted) or fnmatchcase(clean, f"*/{wanted}") or fnmatchcase(os.path.abspath(clean), wanted)
    )


def split_line(target: str) -> LineTarget | None:
    """Split `file.c:120` into file and line; return None for other targets."""
    match = _LINE.fullmatch(target)
    if match is None or match["file"].endswith(":"):
        return None
    return match["file"], int(match["line"])


def split_gauge(target: str) -> GaugeTarget:
    """Split `file.c::ns::x.field[2]`; a first scope that contains a dot or a slash is a file."""
    match = _GAUGE.fullmatch(target)
    if match is None:
        raise ValueError(f"{target!r} does not name a variable")
    file, scopes = "", match["scopes"]
    if re.match(r"[^:]*[./]", scopes):
        file, _, scopes = scopes.partition("::")
    parts = tuple(part["field"] or int(part["index"]) for part in _PART.finditer(match["parts"]))
    return GaugeTarget(file, scopes + match["variable"], parts)


def last_part(target: str) -> str:
    """Return a target's own name, without scopes, parameter types, loop number and indices."""
    return re.split(r"::|\.", re.split(r"[(#[]", target, maxsplit=1)[0])[-1]


def needed_words(name: str) -> list[str]:
    """Return the literal words that a text must contain if a qualified name or glob matches something in it.

    Each component of a glob gives its longest literal run. The number of a lambda gives none: no text contains it.
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
    """Return a target as an `fnmatch` pattern, and whether it has no glob; `*` in a parameter's type is not a glob."""
    wanted = _VERBATIM.sub(lambda verbatim: re.sub(r"(?<![(,])\*|[?[]", r"[\g<0>]", verbatim[0]), _normalised(pattern))
    return wanted, not any(sign in wanted for sign in "*?[")


@lru_cache(maxsize=65536)
def _normalised(name: str) -> str:
    return re.sub(r"\s+", "", name).removeprefix("::")


class Need(NamedTuple):
    """What a text must contain to have a site of one event."""

    words: tuple[str, ...]  # All must occur
    inner: str  # Word of the innermost name, which the site's function must contain; '' for a glob
    used: str  # Name that must be more than declared; '' for a glob
    use: str  # How `used` must occur: `defined`, `called`, `written`, or for a gauge's variable `stored`
    files: tuple[str, ...]  # Globs; for each, a line marker must name a matching file

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Need:
        """Rebuild a `Need` from a mapping that `_asdict` and JSON produced."""
        return cls(**{**record, "words": tuple(record["words"]), "files": tuple(record["files"])})


class Selected(NamedTuple):
    """Software metric that is compiled into a program."""

    name: str  # The metric's name
    number: int  # Its number among all software metrics
    kind: str  # As in `Event`; so are the next five
    target: str
    within: str | None
    file: str | None
    add: str | None
    threads: str
    need: Need  # What a text must contain to have a site
    loader: str  # `module:class` of the kind, so that the wrapper loads no other kind
    folder: str = ""  # Import folder of another distribution's module; '' for ours
    ends_intervals: bool = False  # Whether its events end intervals, so that its sites count even in a sham


def need_of_name(event: Event, name: str, *, use: str = "defined", used: str | None = None) -> Need:
    """Return what a text must contain to have a site of an event whose target is a name."""
    words = (needed_words(event.within) if event.within else []) + needed_words(name)
    inner = needed_words(_innermost(name))
    final = _innermost(name if used is None else used)
    plain = final in words and not is_glob(final) and "operator" not in final
    files = (event.file,) if event.file else ()
    return Need(tuple(words), inner[-1] if inner else "", final if plain else "", use, files)


def _innermost(name: str) -> str:
    return re.split(r"::|\.", name.partition("(")[0])[-1]
