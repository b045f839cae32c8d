"""Figure of a variable: data and fitted curve over each cause, observed over predicted values, and residuals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unperturbed.analysis.causal import CurveMechanism, TableMechanism
from unperturbed.analysis.pages.chart import SERIES, Figure, axis, layout, plot_text, short
from unperturbed.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unperturbed.analysis.causal import Category, CausalModel

    Floats = NDArray[np.float64]
    Columns = Mapping[str, list[Any]]

_HEIGHT = 420
_POINTS = 800
"""Maximum number of rows that are drawn, evenly spaced in the table."""
_CURVE_POINTS = 160
_LEGENDS = len(SERIES)
_MOST_CURVES = 24
_BINS = 10
_JITTER = 0.18
_DECADES = 3.0
"""A cause that spans this many powers of ten, with its median in the lower half, is drawn on a logarithmic axis."""


@dataclass(frozen=True)
class VariableFigure:
    """Figure of a variable, with its views."""

    figure: Figure
    views: tuple[tuple[str, str], ...]  # Keys and names of the views; the first view is shown initially
    notes: tuple[str, ...]  # Limits of the drawing, one sentence each


def variable_figure(model: CausalModel, name: str, number: int) -> VariableFigure:
    """Return the figure of one variable; the view over a cause has a name with the cause's number: "cause-3"."""
    return _Drawing(model, name).drawn(f"model-{number}")


class _Drawing:
    def __init__(self, model: CausalModel, name: str) -> None:
        self._data = model.data
        self._name = name
        self._mechanism = mechanism = model.mechanisms[name]
        rows = model.data.rows
        self._rows = np.unique(np.linspace(0, rows - 1, min(rows, _POINTS)).round().astype(np.int64))
        self._columns: Columns = {
            variable: model.data.frame[variable].gather(self._rows).to_list() for variable in (*mechanism.parents, name)
        }
        self._traces: list[dict[str, Any]] = []
        self._choices: dict[str, dict[str, Any]] = {}
        self._views: list[tuple[str, str]] = []
        self._notes: list[str] = []
        if len(self._rows) < rows:
            self._notes.append(f"{len(self._rows)} of {rows:,} rows are drawn; formulas were fitted to all rows.")

    def drawn(self, identity: str) -> VariableFigure:
        """Return the figure with all its views."""
        mechanism = self._mechanism
        if not mechanism.parents:
            self._distribution()
        elif isinstance(mechanism, CurveMechanism):
            # The view that is shown initially has a curve.
            for cause in sorted(mechanism.parents, key=lambda parent: parent not in mechanism.used):
                self._over(cause, mechanism)
            self._against(mechanism)
        elif isinstance(mechanism, TableMechanism):
            for cause in mechanism.parents:
                self._shares(cause, mechanism)
        figure = Figure(
            identity,
            self._traces,
            layout(
                _HEIGHT,
                xaxis=axis(),
                yaxis=axis(),
                barmode="stack",
                bargap=0.15,
                legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"},
            ),
            f"{plot_text(self._name)}: data and fitted formula; causes: "
            f"{', '.join(map(plot_text, mechanism.parents)) or 'none'}",
            group=identity,
            chosen=self._views[0][0],
            choices=self._choices,
        )
        return VariableFigure(figure, tuple(self._views), tuple(dict.fromkeys(self._notes)))

    def _view(self, choice: str, name_shown: str, x: str, y: str, **patch: Any) -> None:
        self._views.append((choice, name_shown))
        self._choices[choice] = {"xaxis.title.text": plot_text(x), "yaxis.title.text": plot_text(y), **patch}

    def _add(self, choice: str, **trace: Any) -> None:
        self._traces.append({"meta": choice, **trace})

    def _number_of(self, cause: str) -> str:
        return f"cause-{self._data.names.index(cause)}"

    def _is_discrete(self, name: str) -> bool:
        return self._data.kinds[name] == "discrete"

    def _ticks(self, name: str) -> dict[str, Any]:
        """Return the axis ticks of a discrete variable."""
        texts = [plot_text(str(category), 24) for category in self._data.categories(name)]
        return {"xaxis.tickvals": list(range(len(texts))), "xaxis.ticktext": texts}

    # Variables without causes

    def _distribution(self) -> None:
        name = self._name
        bars: dict[str, Any]
        if self._is_discrete(name):
            counts = np.bincount(self._data.codes(name), minlength=len(self._data.categories(name)))
            bars = {"x": list(range(len(counts))), "y": counts.tolist()}
        else:
            counts, edges = np.histogram(self._data.values(name), min(30, max(5, math.isqrt(self._data.rows))))
            middles, width = (edges[1:] + edges[:-1]) / 2, float(edges[1] - edges[0])
            bars = {"x": short(middles), "y": counts.tolist(), "width": [width] * len(counts)}
        self._view("data", "data", name, "rows", **(self._ticks(name) if self._is_discrete(name) else {}))
        self._add("data", type="bar", **bars, marker={"color": SERIES[0]}, showlegend=False)

    # Continuous variables

    def _over(self, cause: str, mechanism: CurveMechanism) -> None:
        choice = self._number_of(cause)
        y, moved = self._moved(cause, mechanism)
        groups = self._groups(cause, mechanism)
        if cause not in mechanism.used:
            self._notes.append(f"{self._name} has an edge from {cause}, but its formula does not use {cause}.")
        if self._is_discrete(cause):
            ticks = self._ticks(cause)
            aside = np.random.default_rng(0).uniform(-_JITTER, _JITTER, len(self._rows))
            x = self._data.codes(cause)[self._rows] + aside
        else:
            ticks = {"xaxis.type": "log"} if self._is_wide(cause) else {}
            x = self._data.values(cause)[self._rows]
        self._view(choice, f"over {cause}", cause, self._name, **ticks)
        for place, (label, here) in enumerate(groups):
            style = {"name": label or "data", "legendgroup": label, "showlegend": len(groups) > 1 and place < _LEGENDS}
            marker = {"color": _colour(place), "size": 6, "opacity": 0.6}
            points = {"x": short(x[here]), "y": short(y[here]), "marker": marker}
            self._add(choice, type="scatter", mode="markers", hoverinfo="x+y+name", **points, **style)
        if moved is None or cause not in mechanism.used:
            return
        for place, (label, here) in enumerate(groups[:_MOST_CURVES]):
            draw = self._levels if self._is_discrete(cause) else self._curve
            line = draw(cause, mechanism, here)
            if line is not None:
                style = {"name": label or "formula", "legendgroup": label, "showlegend": False, "hoverinfo": "x+y+name"}
                drawn = {"color": _colour(place), "width": 2.5}
                self._add(choice, type="scatter", mode="lines", line=drawn, **line, **style)

    def _is_wide(self, cause: str) -> bool:
        values = self._data.values(cause)
        low, high = float(values.min()), float(values.max())
        return low > 0 and high >= 10**_DECADES * low and float(np.median(values)) < (low + high) / 2

    def _groups(self, cause: str, mechanism: CurveMechanism) -> list[tuple[str, NDArray[np.int64]]]:
        """Return the rows grouped by values of the other discrete causes, in order; if many, largest groups first."""
        discrete = [variable for variable in mechanism.used if variable != cause and self._is_discrete(variable)]
        groups: dict[tuple[Category, ...], list[int]] = {}
        for row in range(len(self._rows)):
            groups.setdefault(tuple(self._columns[variable][row] for variable in discrete), []).append(row)
        if len(groups) <= _LEGENDS:
            places = [{value: at for at, value in enumerate(self._data.categories(variable))} for variable in discrete]
            ordered = sorted(
                groups.items(), key=lambda item: [at[value] for at, value in zip(places, item[0], strict=True)]
            )
        else:
            ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), str(item[0])))
        return [
            (
                plot_text(
                    ", ".join(f"{variable}={value}" for variable, value in zip(discrete, values, strict=True)), 48
                ),
                np.array(rows),
            )
            for values, rows in ordered
        ]

    def _held(self, cause: str, mechanism: CurveMechanism) -> dict[str, float]:
        """Return the medians of the other continuous causes."""
        others = [variable for variable in mechanism.used if variable != cause and not self._is_discrete(variable)]
        return {variable: float(np.median(self._data.values(variable))) for variable in others}

    def _moved(self, cause: str, mechanism: CurveMechanism) -> tuple[Floats, Floats | None]:
        """Return the data, moved along the formula to the medians of other continuous causes, and the formula there."""
        observed = self._data.values(self._name)[self._rows]
        held = self._held(cause, mechanism)
        used: dict[str, Any] = {variable: self._columns[variable] for variable in mechanism.used}
        try:
            there, _ = (
                mechanism.predict({**used, **{variable: [value] for variable, value in held.items()}})
                if used
                else (observed, observed)
            )
            if not held or cause not in mechanism.used:
                return observed, there
            here, _ = mechanism.predict(used)
        except DataError as error:
            self._notes.append(f"No curve is drawn over {cause}: {error}.")
            return observed, None
        style = ", ".join(f"{variable} = {value:.4g}" for variable, value in held.items())
        self._notes.append(f"Over {cause}, points and curve are moved along the formula to the medians {style}.")
        return (observed - here + there if mechanism.errors == "even" else observed * there / here), there

    def _curve(self, cause: str, mechanism: CurveMechanism, here: NDArray[np.int64]) -> dict[str, Any] | None:
        x = self._data.values(cause)[self._rows][here]
        spaced = np.geomspace if self._is_wide(cause) else np.linspace
        # Rounding in logarithms can move the ends out of range.
        grid = np.clip(spaced(float(x.min()), float(x.max()), _CURVE_POINTS), x.min(), x.max())
        return self._line(grid, {cause: grid.tolist()}, cause, mechanism, here)

    def _levels(self, cause: str, mechanism: CurveMechanism, here: NDArray[np.int64]) -> dict[str, Any] | None:
        """Return a short horizontal line at each value of a discrete cause."""
        codes = np.unique(self._data.codes(cause)[self._rows][here])
        values = [self._data.categories(cause)[code] for code in codes]
        made = self._line(codes.astype(np.float64), {cause: values}, cause, mechanism, here)
        if made is None:
            return None
        x = [place for code in codes.tolist() for place in (code - 1.6 * _JITTER, code + 1.6 * _JITTER, None)]
        return {"x": x, "y": [level for y in made["y"] for level in (y, y, None)]}

    def _line(
        self,
        x: Floats,
        over: Mapping[str, Sequence[Any]],
        cause: str,
        mechanism: CurveMechanism,
        here: NDArray[np.int64],
    ) -> dict[str, Any] | None:
        first = int(here[0])
        discrete = {
            variable: [self._columns[variable][first]]
            for variable in mechanism.used
            if variable != cause and self._is_discrete(variable)
        }
        held = {variable: [value] for variable, value in self._held(cause, mechanism).items()}
        try:
            y, _ = mechanism.predict({**discrete, **held, **over})
        except DataError as error:
            self._notes.append(f"Part of the curve over {cause} is not drawn: {error}.")
            return None
        return {"x": short(x), "y": short(y, 5)}

    def _against(self, mechanism: CurveMechanism) -> None:
        """Add two views: observed values over predicted values, and residuals."""
        if not mechanism.used:
            return
        predicted, _ = mechanism.predict({variable: self._columns[variable] for variable in mechanism.used})
        observed = self._data.values(self._name)[self._rows]
        points = {"mode": "markers", "marker": {"color": SERIES[0], "size": 6, "opacity": 0.6}, "showlegend": False}
        self._view("predicted", "observed over predicted", f"{self._name} by the formula", self._name)
        ends = short([float(min(predicted.min(), observed.min())), float(max(predicted.max(), observed.max()))])
        self._add("predicted", type="scatter", x=short(predicted), y=short(observed), **points)
        diagonal = {"mode": "lines", "x": ends, "y": ends, "line": {"color": "@axis", "width": 1}}
        self._add("predicted", type="scatter", **diagonal, showlegend=False)
        left = {
            "even": "residual",
            "proportional": "residual as a share of the predicted value",
            "factor": "residual of the logarithm",
        }
        self._view("residuals", "residuals", f"{self._name} by the formula", left[mechanism.errors])
        self._add("residuals", type="scatter", x=short(predicted), y=short(mechanism.residuals[self._rows]), **points)

    # Discrete variables

    def _shares(self, cause: str, mechanism: TableMechanism) -> None:
        """Add bars of shares at each value of a discrete cause or tenth of a continuous one, and mark predictions."""
        choice = self._number_of(cause)
        if self._is_discrete(cause):
            bins = self._data.codes(cause)[self._rows]
            texts = [str(value) for value in self._data.categories(cause)]
        else:
            values = self._data.values(cause)
            cuts = np.unique(np.quantile(values, np.linspace(0, 1, _BINS + 1)))
            bins = np.clip(np.searchsorted(cuts, values[self._rows], side="right") - 1, 0, max(len(cuts) - 2, 0))
            texts = [f"{low:.3g} … {high:.3g}" for low, high in itertools.pairwise(cuts)]
        codes = self._data.codes(self._name)[self._rows]
        categories = self._data.categories(self._name)
        used = {variable: self._columns[variable] for variable in mechanism.used}
        predicted = mechanism.predict(used) if used else np.tile(mechanism.predict({})[:1], (len(codes), 1))
        here = np.unique(bins)
        ticks = {
            "xaxis.tickvals": here.tolist(),
            "xaxis.ticktext": [plot_text(texts[place], 24) for place in here],
            "yaxis.range": [0, 1.001],
        }
        self._view(choice, f"over {cause}", cause, f"share of {self._name}", **ticks)
        borders = np.zeros(len(here))
        for number, category in enumerate(categories):
            shares = [float(np.mean(codes[bins == place] == number)) for place in here]
            style = {"name": plot_text(str(category), 24), "marker": {"color": _colour(number), "opacity": 0.75}}
            self._add(choice, type="bar", x=here.tolist(), y=short(shares), **style)
            borders += [float(np.mean(predicted[bins == place, number])) for place in here]
            if number < len(categories) - 1:
                marks = {"symbol": "line-ew", "size": 26, "line": {"width": 2.5, "color": "@ink"}}
                what = {"name": "predicted by the table", "showlegend": not number, "legendgroup": "table"}
                self._add(
                    choice, type="scatter", mode="markers", x=here.tolist(), y=short(borders), marker=marks, **what
                )


def _colour(place: int) -> str:
    return SERIES[place] if place < _LEGENDS else "@muted-bar"
