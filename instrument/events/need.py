"""What the wrapper of a compiler knows of each metric, and what a text must contain to hold a site of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from unperturbed.instrument.events.targets import is_glob, needed_words

if TYPE_CHECKING:
    from unperturbed.instrument.events.event import Event


class Need(NamedTuple):
    """What a text must contain to hold a site of one event."""

    words: tuple[str, ...]  # All must occur
    # The one of them that must occur in the function that holds the site: of the innermost name; '' when a glob hides
    # it.
    inner: str
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
    kind: str  # As in `Event`, like `target`, `within`, `file`, `add` and `threads`
    # target, within, file, add, threads: The event's parts; `within`, `file` and `add` may be None.
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
