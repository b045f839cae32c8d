"""Pages as self-contained HTML documents: the document, its parts, and the default page of a result."""

from __future__ import annotations

import base64
import gzip
import os
from collections.abc import Iterable, Sequence
from datetime import datetime
from importlib import metadata, resources
from typing import TYPE_CHECKING, Any

from unperturbed.analysis.pages.chart import Figure
from unperturbed.common.markup import Content, Html, json_text, tag
from unperturbed.common.scratch import write_whole

if TYPE_CHECKING:
    from unperturbed.common.result import Result

_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; "
    "form-action 'none'"
)
"""Content security policy: the page runs only its own scripts and fetches nothing, even if a name contains HTML."""

_RADIO_MOST = 3


def document(title: str, *body: Content, version: str = "") -> str:
    """Return an HTML document; the root element's `data-state` becomes `drawn` when the last figure is drawn."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        Html(f"<style>{_asset('report.css')}</style>"),
    )
    footer = (
        f"Made by Unperturbed {version or metadata.version('unperturbed')}. This page is self-contained and loads "
        "nothing from the network. plotly.js (© Plotly, Inc., MIT licence) draws the figures."
    )
    # Compressed by tools/update_plotly.py; the page's script unpacks and runs it once the page is painted.
    plotly = resources.files(__package__).joinpath("plotly", "plotly-basic.min.js.gz").read_bytes()
    whole = tag(
        "body",
        *body,
        tag("footer", tag("p", footer)),
        _packed("plotly-source", plotly),
        Html(f"<script>{_asset('report.js')}</script>"),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, whole, lang='en', data_state='loading')}\n"


def navigation(places: Sequence[tuple[str, str]]) -> Html:
    """Return the navigation bar with links to sections, given as (id, name)."""
    links = [tag("li", tag("a", name, href=f"#{identity}")) for identity, name in places]
    return tag("nav", tag("ul", links), aria_label="Sections")


def page_header(
    question: str,
    title: str,
    *content: Content,
    without_scripts: str = "Figures need JavaScript. The tables contain the same numbers.",
) -> Html:
    """Return a page's header: the question, the title, the answer, and a note for readers without scripts."""
    note = tag("noscript", tag("p", without_scripts, class_="note"))
    return tag("header", tag("p", question, class_="kicker"), tag("h1", title), *content, note)


def section(identity: str, heading: Content, *content: Content) -> Html:
    """Return a section with its heading; a section with an empty id cannot be linked to."""
    return tag("section", tag("h2", heading), *content, id=identity or None)


def definitions(pairs: Iterable[tuple[Content, Content]], style: str) -> Html:
    """Return names and values as an HTML definition list with a class of the stylesheet."""
    return tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs], class_=style)


def folded(identity: str, heading: str, hint: str, *content: Content) -> Html:
    """Return a section that readers unfold, with a heading and a hint at its content."""
    summary = tag("summary", tag("h2", heading), " ", tag("span", hint, class_="hint"))
    return tag("section", tag("details", summary, *content), id=identity)


def moment(time: str) -> Html | str:
    """Convert an ISO 8601 time to this host's time zone; return any other text unchanged."""
    try:
        local = datetime.fromisoformat(time).astimezone()
    except ValueError:
        return time
    return tag("time", f"{local:%Y-%m-%d %H:%M %Z}", datetime=time, title=time)


def write_page(path: str | os.PathLike[str], page: str) -> None:
    """Write a page atomically."""
    write_whole(path, page)


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def packed_block(identity: str, value: Any) -> Html:
    """Return a script element with compressed JSON, which the page's script unpacks on demand."""
    return _packed(identity, gzip.compress(json_text(value).encode(), mtime=0))


def _packed(identity: str, content: bytes) -> Html:
    written = base64.b64encode(content).decode("ascii")
    return tag("script", Html(written), type="application/gzip", id=identity)


def frame(figure: Figure, caption: Content = None) -> Html:
    """Return a figure's element, data and caption; the script draws figures in view first, others when idle."""
    return tag(
        "figure",
        tag(
            "div",
            id=figure.name,
            class_="chart",
            role="img",
            aria_label=figure.description,
            style=f"height:{figure.layout['height']}px",
        ),
        packed_block(f"{figure.name}-data", figure.to_json()),
        tag("figcaption", caption) if caption else None,
    )


def choice(group: str, name: str, options: Sequence[tuple[str, str]], chosen: str) -> Html:
    """Return the control for all figures of a group: radio buttons for a few options, a drop-down list for more."""
    if len(options) > _RADIO_MOST or group != "scale":
        shown = [tag("option", said, value=value, selected=value == chosen) for value, said in options]
        return tag("p", tag("label", f"{name} ", tag("select", shown, data_group=group)), class_="choice")
    radios = [
        tag(
            "label",
            tag("input", type="radio", name=group, value=value, data_group=group, checked=value == chosen),
            f" {said}",
        )
        for value, said in options
    ]
    return tag("fieldset", tag("legend", name), radios, class_="choice")


def render_result(result: Result) -> str:
    """Return a result as one HTML document with its headline and tables.

    Parameters
    ----------
    result : Result
        The result.

    Returns
    -------
    str
        A document without references to other files.
    """
    heading = result.headline()
    body = tag("main", tag("h1", heading), [table.to_html(sortable=True) for table in result.tables()])
    return document(heading, body)
