"""Safe HTML: `tag` builds elements, and escapes all text that is not `Html`."""

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
    """Text that is already markup."""

    __slots__ = ()


Content = str | None | Iterable["Content"]


def text(content: Content) -> Html:
    """Return content as markup: keep `Html`, escape other text, join sequences, skip None."""
    if content is None:
        return Html()
    if isinstance(content, Html):
        return content
    if isinstance(content, str):
        return Html(html.escape(_FORBIDDEN.sub("\ufffd", content), quote=True))
    return Html("".join(text(part) for part in content))


def tag(name: str, /, *content: Content, **attributes: str | int | float | bool | None) -> Html:
    """Return an HTML element.

    `**attributes`: `class_` means class; other underscores become hyphens. True gives an attribute without a value;
    False and None leave the attribute out.
    """
    written = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        named = key.rstrip("_").replace("_", "-")
        written.append(f" {named}" if value is True else f' {named}="{text(str(value))}"')
    start = f"<{name}{''.join(written)}>"
    return Html(start) if name in _VOID else Html(f"{start}{text(content)}</{name}>")


class HtmlCell:
    """A table cell: its content, its sort key, and the attributes of its element."""

    __slots__ = ("attributes", "content", "key")

    def __init__(self, content: Content, key: float | str | None = None, **attributes: str | bool | None) -> None:
        self.content, self.key, self.attributes = content, key, attributes

    def element(self, name: str) -> Html:
        """Return the cell as an HTML element; a NaN key sorts as a missing value."""
        key = None if isinstance(self.key, float) and math.isnan(self.key) else self.key
        return tag(name, self.content, data_key=key, **self.attributes)


def table(
    caption: Content,
    heads: Sequence[str | tuple[str, str]],
    rows: Iterable[Sequence[HtmlCell | Content]],
    *,
    identity: str | None = None,
    sortable: bool = False,
    row_attributes: Iterable[dict[str, str]] | None = None,
) -> Html:
    """Return an HTML table in a frame that scrolls horizontally in a narrow window.

    `heads`: Name of each column, or a pair of name and explanation; the explanation becomes a tooltip.
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
        cells = [cell if isinstance(cell, HtmlCell) else HtmlCell(cell) for cell in row]
        first = HtmlCell(cells[0].content, cells[0].key, scope="row", **cells[0].attributes)
        elements = [first.element("th"), *(cell.element("td") for cell in cells[1:])]
        body.append(tag("tr", elements, **(next(extra) if extra is not None else {})))
    whole = tag("table", tag("caption", caption), tag("thead", tag("tr", top)), tag("tbody", body), id=identity)
    return tag("div", whole, class_="scroll", tabindex="0", role="region", aria_label=_label_of(caption))


TableColumns: TypeAlias = Sequence[tuple[str | tuple[str, str], Callable[[T], HtmlCell | Content]]]
"""Columns of a table with one row per item: each column's head, as for `table`, and a function from item to cell."""


def table_of(
    caption: Content, columns: TableColumns[T], items: Iterable[T], *, identity: str = "", sortable: bool = False
) -> Html:
    """Return an HTML table with one row per item."""
    rows = [[cell(item) for _, cell in columns] for item in items]
    return table(caption, [head for head, _ in columns], rows, identity=identity or None, sortable=sortable)


def _label_of(caption: Content) -> str:
    return re.sub(r"<[^>]*>", "", caption) if isinstance(caption, Html) else str(caption)


def json_text(value: Any) -> str:
    """Return JSON, with characters that a page must not contain replaced; raise ValueError for NaN and infinity."""
    return _FORBIDDEN.sub("\ufffd", json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")))
