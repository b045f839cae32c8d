"""A page as a picture: shown in a notebook, written to a file, or opened in a browser."""

from __future__ import annotations

import html
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_HEIGHT = 620


class Picture:
    """A self-contained page: a notebook shows it, and it can be written."""

    def __init__(
        self, page: str, headline: str, *, writer: Callable[[str | os.PathLike[str], str], None], height: int = _HEIGHT
    ) -> None:
        self._page, self._headline, self._height, self._writer = page, headline, height, writer

    def write_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the page."""
        self._writer(path, self._page)
        return Path(path)

    def __repr__(self) -> str:
        return f"<Picture: {self._headline}; .write_html(path) writes it>"

    def _repr_html_(self) -> str:
        # A frame of its own keeps the page's styles and scripts apart from the notebook's.
        return (
            f'<iframe srcdoc="{html.escape(self._page)}" title="{html.escape(self._headline)}" '
            f'style="width:100%;height:{self._height}px;border:0" sandbox="allow-scripts allow-downloads"></iframe>'
        )
