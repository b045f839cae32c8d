"""A spec that is read and not yet validated: what rules can ask of it, and where they report its faults.

The rules that span several fields ask the draft and not the validated model, so that a fault in one field hides no
fault in another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unperturbed.common.wording import nearest
from unperturbed.harness.spec.yaml import Diagnostic, Document, Position, YamlPath

if TYPE_CHECKING:
    from unperturbed.harness.spec.campaign_spec import CampaignSpec

_MOST_FAULTS_WITH_ADVICE = 200
_ALIKE = 86
"""How alike two names must be that one may be meant by the other: `env` and `environment` are."""


class Draft:
    """A document, the folder it is in, and the faults found so far.

    Whatever is missing or of another type than the one asked for counts as not there; the model's own check has a
    message for that.

    Parameters
    ----------
    document : Document
        The YAML.
    folder : Path
        Where relative paths in the spec start.
    recorded : bool, default False
        Whether the spec was validated when its campaign was run: files need not be there any more.

    Attributes
    ----------
    faults : list of Diagnostic
        The faults found so far.
    spec : CampaignSpec or None
        The validated model; None where fields have faults.
    """

    def __init__(self, document: Document, folder: Path, *, recorded: bool = False) -> None:
        self.document = document
        self.folder = folder
        self.recorded = recorded
        self.faults: list[Diagnostic] = list(document.diagnostics)
        self.spec: CampaignSpec | None = None

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
        """Return whether there is a value at a path, right or wrong."""
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

    def distinct_texts(self, *path: str | int) -> Iterator[tuple[YamlPath, str]]:
        """Yield path and text of each item of a list, and report those that appear a second time."""
        seen: set[str] = set()
        for place, text in self.texts(*path):
            if text in seen:
                self.report(place, f"`{text}` appears twice here")
            else:
                yield place, text
            seen.add(text)

    def keys(self, *path: str | int) -> dict[str, YamlPath]:
        """Return the keys of a mapping, each with the path of its value."""
        found = self.value(*path)
        return {key: (*path, key) for key in found} if isinstance(found, dict) else {}

    def nearest(self, word: str, known: Iterable[str]) -> str | None:
        """Return the known word whose spelling is most like this one's, if one is near.

        After many faults none is looked for: nobody reads so far, and a large file of nothing but faults must not take
        minutes.
        """
        if len(self.faults) >= _MOST_FAULTS_WITH_ADVICE:
            return None
        return next(iter(nearest(word, known, limit=1, cutoff=_ALIKE)), None)

    def did_you_mean(self, word: str, known: Iterable[str], *, before: str = "", after: str = "") -> str:
        """Return ``did you mean `x`?``, or an empty text where no known word is near.

        Parameters
        ----------
        word : str
            What the spec has.
        known : iterable of str
            What it may have.
        before, after : str, default ""
            What surrounds the known word in the message.

        Returns
        -------
        str
            For the end of a message.
        """
        meant = self.nearest(word, known)
        return f"did you mean `{before}{meant}{after}`?" if meant is not None else ""

    def key_position(self, path: YamlPath) -> Position:
        """Return the position of a value's key; of the nearest one above, when it is not there."""
        while path not in self.document.places:
            path = path[:-1]
        return self.document.places[path].key

    def report_key(self, path: YamlPath, message: str) -> None:
        """Report a fault at the key of a value."""
        self.faults.append(Diagnostic(self.key_position(path), message))

    def report(self, path: YamlPath, message: str) -> None:
        """Report a fault at a value."""
        place = self.document.places.get(path)
        self.faults.append(Diagnostic(place.value if place else self.key_position(path), message))
