"""A spec that is read but not yet known to be right: what can be asked of it, and where its faults are noted.

The rules that span several fields ask the draft and not the validated model, so that a fault in one field hides no fault in another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from unperturbed.harness.spec.errors import Diagnostic, Position, nearest
from unperturbed.harness.spec.yamlpos import Document, YamlPath

__all__ = ["Draft"]

_MOST_FAULTS_WITH_ADVICE = 200


class Draft:
    """A document, the folder it is in, and the faults found so far.

    Whatever is missing or of another type than the one asked for counts as not there; the model's own check has a message for that.
    """

    def __init__(self, document: Document, folder: Path) -> None:
        self.document = document
        self.folder = folder
        self.faults: list[Diagnostic] = list(document.diagnostics)

    def value(self, *path: str | int) -> Any:
        """Return the value at a path, or None."""
        found = self.document.data
        for part in path:
            if isinstance(found, dict):
                found = found.get(part)
            elif isinstance(found, list) and isinstance(part, int) and part < len(found):
                found = found[part]
            else:
                return None
        return found

    def has(self, *path: str | int) -> bool:
        """Tell whether there is a value at a path, right or wrong."""
        return path in self.document.places

    def text(self, *path: str | int) -> str | None:
        """Return the text at a path."""
        found = self.value(*path)
        return found if isinstance(found, str) and found.strip() else None

    def texts(self, *path: str | int) -> Iterator[tuple[YamlPath, str]]:
        """Yield path and text of each item of a list."""
        found = self.value(*path)
        for index in range(len(found) if isinstance(found, list) else 0):
            item = self.text(*path, index)
            if item is not None:
                yield (*path, index), item

    def keys(self, *path: str | int) -> dict[str, YamlPath]:
        """Return the keys of a mapping, each with the path of its value."""
        found = self.value(*path)
        return {key: (*path, key) for key in found} if isinstance(found, dict) else {}

    def nearest(self, word: str, known: Iterable[str]) -> str | None:
        """Return the known word that is spelt most like this one, if one is near.

        After many faults none is looked for: nobody reads so far, and a large file of nothing but faults must not take minutes.
        """
        return nearest(word, known) if len(self.faults) < _MOST_FAULTS_WITH_ADVICE else None

    def key_position(self, path: YamlPath) -> Position:
        """Return where the key of a value stands; of the nearest one above, when it is not there."""
        while path not in self.document.places:
            path = path[:-1]
        return self.document.places[path].key

    def blame_key(self, path: YamlPath, message: str) -> None:
        """Note a fault at the key of a value."""
        self.faults.append(Diagnostic(self.key_position(path), message))

    def blame(self, path: YamlPath, message: str) -> None:
        """Note a fault at a value."""
        place = self.document.places.get(path)
        self.faults.append(Diagnostic(place.value if place else self.key_position(path), message))
