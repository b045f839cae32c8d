"""One HTML file that holds everything it needs, and may ask for nothing more: its head, its scripts, and how it gets to disk."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from unperturbed.analysis.report.markup import Content, Html, tag

__all__ = ["document", "navigation", "write_page"]

_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
"""What the browser lets the page do: run what stands in it. It cannot fetch anything, whatever a metric is called."""


def document(title: str, *body: Content, version: str) -> str:
    """Return an HTML document; its root's `data-state` becomes `drawn` when the last figure stands.

    Parameters
    ----------
    title : of the window.
    body : what stands in it; the footer and the figures' scripts are added.
    version : of this tool.
    """
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        Html(f"<style>{_asset('report.css')}</style>"),
    )
    footer = f"Made by Unperturbed {version}. This page is complete in itself and asks the network for nothing."
    whole = tag(
        "body",
        *body,
        tag("footer", tag("p", footer)),
        _inert_plotly(),
        Html(f"<script>{_asset('report.js')}</script>"),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, whole, lang='en', data_state='loading')}\n"


def navigation(places: Sequence[tuple[str, str]]) -> Html:
    """Return links to a page's sections, given as (id, name)."""
    links = [tag("li", tag("a", name, href=f"#{identity}")) for identity, name in places]
    return tag("nav", tag("ul", links), aria_label="Sections")


def write_page(path: str | os.PathLike[str], page: str) -> None:
    """Write a page. It appears whole or not at all: written aside, synced, renamed."""
    target = Path(path)
    aside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with aside.open("w", encoding="utf-8") as file:
            file.write(page)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _inert_plotly() -> Html:
    """Return plotly.js as inert text: the page's own script wakes it once the page has been painted."""
    from plotly.offline import get_plotlyjs  # noqa: PLC0415  slow to load, and only a report needs it

    # The HTML parser ends a script at its closing tag and changes its mind at a comment's start, whatever the script means by them.
    library = get_plotlyjs().replace("</script", "<\\/script").replace("<!--", "<\\!--")
    return Html(f'<script type="text/plain" id="plotly-source">{library}</script>')
