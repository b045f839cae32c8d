"""The common base of all results of analyses: a result can be read, tabulated, stored and opened as a page."""

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
    """A self-contained page: a notebook shows it, and it can be written."""

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


def finite_or_none(value: float) -> float | None:
    """Return a number that JSON has: None for NaN and infinities."""
    return value if math.isfinite(value) else None


def plain(value: Any) -> Any:
    """Return a value with JSON's own types alone: None for NaN and infinities, numpy's scalars as Python's."""
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
    """A result of an analysis.

    A subclass defines its `headline`, its `tables`, its `to_frame` and its `to_dict`; all else follows from these.
    `_page` names the function that renders it as a page, `module:function`, so that an analysis does not depend on the
    report; by default the page has headline and tables.
    """

    __slots__ = ()
    _page: ClassVar[str] = "unperturbed.analysis.report:render_result"

    @abstractmethod
    def headline(self) -> str:
        """Return the result in one line."""

    @abstractmethod
    def tables(self) -> Sequence[Table]:
        """Return the result as tables, the most important first; they may be none."""

    @abstractmethod
    def to_frame(self) -> pl.DataFrame:
        """Return the result as a tidy polars DataFrame."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data, ready for JSON."""

    def summary(self) -> str:
        """Return the result as text: the headline, then the tables."""
        return "\n\n".join([self.headline(), *(table.to_text() for table in self.tables())])

    def plot(self) -> Picture:
        """Return the result's page as a picture, which a notebook shows."""
        return Picture(self._rendered(), self.headline())

    def write_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the result as one self-contained HTML page.

        Parameters
        ----------
        path : path-like
            The file. It appears whole or not at all.

        Returns
        -------
        Path
            The file.
        """
        return self.plot().write_html(path)

    def _rendered(self) -> str:
        module, _, function = self._page.partition(":")
        return str(getattr(importlib.import_module(module), function)(self))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.headline()}>"

    def _repr_html_(self) -> str:
        return "".join(table.to_html() for table in self.tables()) or f"<p>{self.headline()}</p>"
