"""Base class of all analysis results, with a headline, tables, a frame, a dictionary and an HTML page."""

from __future__ import annotations

import html
import importlib
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from unperturbed.common.scratch import write_whole
from unperturbed.common.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl


_HEIGHT = 620


class Picture:
    """A self-contained HTML page that a notebook can display and that can be written to a file."""

    def __init__(
        self,
        page: str,
        headline: str,
        *,
        writer: Callable[[str | os.PathLike[str], str], None] = write_whole,
        height: int = _HEIGHT,
    ) -> None:
        self._page, self._headline, self._height, self._writer = page, headline, height, writer

    def write_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file."""
        self._writer(path, self._page)
        return Path(path)

    def __repr__(self) -> str:
        return f"<Picture: {self._headline}; write the page with .write_html(path)>"

    def _repr_html_(self) -> str:
        # An iframe keeps the page's styles and scripts apart from the notebook's.
        return (
            f'<iframe srcdoc="{html.escape(self._page)}" title="{html.escape(self._headline)}" '
            f'style="width:100%;height:{self._height}px;border:0" sandbox="allow-scripts allow-downloads"></iframe>'
        )


def finite_or_none(value: float) -> float | None:
    """Return a number for JSON: None for NaN and infinities."""
    return value if math.isfinite(value) else None


def plain(value: Any) -> Any:
    """Return a value as JSON types: None for NaN and infinities, numpy scalars as Python scalars."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | frozenset):
        kinds = set(map(type, value))
        if kinds <= {str} or (kinds == {float} and math.isfinite(sum(map(abs, value)))):  # names and values of runs
            return list(value)
        return [plain(item) for item in value]
    if hasattr(value, "item"):
        return plain(value.item())
    return finite_or_none(value) if isinstance(value, float) else value


class Result(ABC):
    """Base class for the result of an analysis.

    A subclass defines `headline`, `tables`, `to_frame` and `to_dict`; the other methods use these. `_page` names the
    function that renders the result as a page, as `module:function`, so an analysis does not depend on the report. The
    default page shows the headline and the tables.
    """

    __slots__ = ()
    _page: ClassVar[str] = "unperturbed.analysis.report:render_result"

    @abstractmethod
    def headline(self) -> str:
        """Return a one-line summary of the result."""

    @abstractmethod
    def tables(self) -> Sequence[Table]:
        """Return the result as tables, the most important first; possibly none."""

    @abstractmethod
    def to_frame(self) -> pl.DataFrame:
        """Return the result as a tidy polars DataFrame."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the result as a dictionary of JSON types."""

    def summary(self) -> str:
        """Return the result as text: the headline, then the tables."""
        return "\n\n".join([self.headline(), *(table.to_text() for table in self.tables())])

    def plot(self) -> Picture:
        """Return the result's page as a picture that a notebook displays."""
        return Picture(self._rendered(), self.headline())

    def write_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the result as one self-contained HTML page.

        Parameters
        ----------
        path : path-like
            The file, written atomically.

        Returns
        -------
        Path
            The file.
        """
        return self.plot().write_html(path)

    def _rendered(self) -> str:
        return self._page_by(self._page, self)

    def _page_by(self, function: str, *arguments: Any) -> str:
        """Return the page that `package.module:function` writes; the module is loaded now."""
        module, _, name = function.partition(":")
        return str(getattr(importlib.import_module(module), name)(*arguments))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.headline()}>"

    def _repr_html_(self) -> str:
        return "".join(table.to_html() for table in self.tables()) or f"<p>{self.headline()}</p>"
