"""HTML that its content cannot break: `tag` builds elements, and escapes every text that is not `Html` itself."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

from unperturbed.common.wording import FORBIDDEN

T = TypeVar("T")

_VOID = {"br", "hr", "input", "meta", "col"}
_FORBIDDEN = re.compile(f"[{FORBIDDEN}]")


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


Content = str | None | Iterable["Content"]


def text(content: Content) -> Html:
    """Return content as markup: `Html` as it is, other text escaped, sequences joined, None left out."""
    if content is None:
        return Html()
    if isinstance(content, Html):
        return content
    if isinstance(content, str):
        return Html(html.escape(_FORBIDDEN.sub("\ufffd", content), quote=True))
    return Html("".join(text(part) for part in content))


def tag(name: str, /, *content: Content, **attributes: str | int | float | bool | None) -> Html:
    """Return an element.

    `**attributes`: `class_` means class, other underscores are hyphens. True is an attribute without value; False and
    None leave it out.
    """
    written = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        named = key.rstrip("_").replace("_", "-")
        written.append(f" {named}" if value is True else f' {named}="{text(str(value))}"')
    start = f"<{name}{''.join(written)}>"
    return Html(start) if name in _VOID else Html(f"{start}{text(content)}</{name}>")


class Cell:
    """A table cell: what it shows, what it is sorted by, attributes of its element."""

    __slots__ = ("attributes", "content", "key")

    def __init__(self, content: Content, key: float | str | None = None, **attributes: str | bool | None) -> None:
        self.content, self.key, self.attributes = content, key, attributes

    def element(self, name: str) -> Html:
        """Return the cell's element; a NaN as key sorts as no value."""
        key = None if isinstance(self.key, float) and math.isnan(self.key) else self.key
        return tag(name, self.content, data_key=key, **self.attributes)


def table(
    caption: Content,
    heads: Sequence[str | tuple[str, str]],
    rows: Iterable[Sequence[Cell | Content]],
    *,
    identity: str | None = None,
    sortable: bool = False,
    row_attributes: Iterable[dict[str, str]] | None = None,
) -> Html:
    """Return a table in a frame that scrolls sideways where the window is narrow.

    `heads`: The columns' names, or pairs of a name and an explanation for a tooltip.
    """
    columns = [(head, None) if isinstance(head, str) else head for head in heads]
    top = [
        tag(
            "th",
            tag("button", name, type="button", class_="sort") if sortable and name else name,
            scope="col",
            title=said,
        )
        for name, said in columns
    ]
    body = []
    extra = iter(row_attributes) if row_attributes is not None else None
    for row in rows:
        cells = [cell if isinstance(cell, Cell) else Cell(cell) for cell in row]
        first = Cell(cells[0].content, cells[0].key, scope="row", **cells[0].attributes)
        elements = [first.element("th"), *(cell.element("td") for cell in cells[1:])]
        body.append(tag("tr", elements, **(next(extra) if extra is not None else {})))
    whole = tag("table", tag("caption", caption), tag("thead", tag("tr", top)), tag("tbody", body), id=identity)
    return tag("div", whole, class_="scroll", tabindex="0", role="region", aria_label=_label_of(caption))


TableColumns: TypeAlias = Sequence[tuple[str | tuple[str, str], Callable[[T], Cell | Content]]]
"""Columns of a table with a row an item: the head of each, as for `table`, and what makes its cell of an item."""


def table_of(
    caption: Content, columns: TableColumns[T], items: Iterable[T], *, identity: str = "", sortable: bool = False
) -> Html:
    """Return a table with a row an item."""
    rows = [[cell(item) for _, cell in columns] for item in items]
    return table(caption, [head for head, _ in columns], rows, identity=identity or None, sortable=sortable)


def _label_of(caption: Content) -> str:
    return re.sub(r"<[^>]*>", "", caption) if isinstance(caption, Html) else str(caption)


def json_text(value: Any) -> str:
    """Return JSON without the characters that no text on a page may hold; ValueError for a NaN or an infinity."""
    return _FORBIDDEN.sub("\ufffd", json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")))
