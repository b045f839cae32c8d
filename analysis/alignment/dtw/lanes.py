"""Innermost loop of dynamic time warping: vector operations move a strip of rows across the columns.

The rows of a strip are distributed over lanes: with `height` rows per lane, lane l has the strip's rows l·height … (l +
1)·height − 1. At step t, lane l is in column t − l, so lane l − 1, which has the row above lane l's first row, was in
that column one step earlier. All lanes process their rows from top to bottom together: one vector operation computes
one row of every lane, the costs above and at the corner stay in registers, loads and stores are aligned, and values
move to the neighbouring lane only once in each step.

LLVM does not derive such a loop from Python code (it would have to interchange loops), so the loop is written in LLVM
IR, as a numba intrinsic. No flag allows LLVM to reorder or to fuse operations: the result is IEEE 754 to the last bit.
The loop computes 4.8 · 10⁹ cells of float64 per second on one core (Zen 5, cost only). The same loop in Python,
`_plain`, computes the same results at 2.0 · 10⁹ cells per second: it is compiled if numba or LLVM reject the intrinsic
(`plain_loops`). A numba loop over whole anti-diagonals, which records no path, computes 2.5–2.8 · 10⁹, and a loop over
rows 0.7 · 10⁹.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from unperturbed.analysis.compiling import compilable
from unperturbed.common.extras import load_library

ir = load_library("llvmlite.ir")
types = load_library("numba.core.types")
cgutils = load_library("numba.core.cgutils")
intrinsic = load_library("numba.extending").intrinsic

_OPAQUE = load_library("llvmlite.binding").llvm_version_info[0] >= 17
"""Whether LLVM has only opaque pointers, so each access states the type; before LLVM 17, pointers had types."""

_plain_alone = ContextVar("_plain_alone", default=False)

_GROUPS = 4
"""Vectors that are computed together: each row depends on the row above it, and four vectors hide the latency."""

_VECTOR_BYTES = 64

LANES_BYTES = _GROUPS * _VECTOR_BYTES
"""Lanes × bytes of a cell: 32 lanes of float64, 64 of int32."""

_INDEX, _LANE = ir.IntType(64), ir.IntType(32)

_ARRAYS = ("state", "x_lanes", "y_reversed", "above", "bottom", "codes")
_NUMBERS = ("height", "steps", "origin", "depth", "extent", "penalty", "unreached")
"""Arguments of the loop, in order; `advance` describes them."""


@dataclass(frozen=True)
class _Cells:
    """Vectors of one type of cell, and the LLVM operations on two of them."""

    element: Any
    whole: Any  # integers of the element's size
    add: Callable[[Any, Any, Any], Any]
    less: Callable[[Any, Any, Any], Any]
    distance: Callable[[Any, Any, Any], Any]
    bytes: int

    @property
    def lanes(self) -> int:
        return _VECTOR_BYTES // self.bytes

    @property
    def vector(self) -> Any:
        return ir.VectorType(self.element, self.lanes)

    @property
    def wholes(self) -> Any:
        return ir.VectorType(self.whole, self.lanes)


def _distance_of_floats(builder: Any, x: Any, y: Any) -> Any:
    signature = ir.FunctionType(x.type, [x.type])
    absolute = cgutils.get_or_insert_function(builder.module, signature, f"llvm.fabs.v{x.type.count}f64")
    return builder.call(absolute, [builder.fsub(x, y)])


def _distance_of_integers(builder: Any, x: Any, y: Any) -> Any:
    signature = ir.FunctionType(x.type, [x.type, ir.IntType(1)])
    absolute = cgutils.get_or_insert_function(builder.module, signature, f"llvm.abs.v{x.type.count}i32")
    return builder.call(absolute, [builder.sub(x, y), ir.Constant(ir.IntType(1), 0)])


_CELLS = {
    types.float64: _Cells(
        ir.DoubleType(),
        ir.IntType(64),
        lambda builder, a, b: builder.fadd(a, b),
        lambda builder, a, b: builder.fcmp_ordered("<", a, b),
        _distance_of_floats,
        8,
    ),
    types.int32: _Cells(
        ir.IntType(32),
        ir.IntType(32),
        lambda builder, a, b: builder.add(a, b),
        lambda builder, a, b: builder.icmp_signed("<", a, b),
        _distance_of_integers,
        4,
    ),
}


def _index(number: int) -> Any:
    return ir.Constant(_INDEX, number)


class _Vectors:
    """Writer of LLVM operations on vectors of one type of cell."""

    def __init__(self, builder: Any, cells: _Cells) -> None:
        self.builder, self.cells = builder, cells
        self.groups = range(_GROUPS)
        self.lanes = _GROUPS * cells.lanes

    def variable(self, kind: Any) -> Any:
        """Return a stack slot for a value that a loop changes; LLVM turns the slot into a register."""
        return cgutils.alloca_once(self.builder, kind)

    def variable_of(self, value: Any) -> Any:
        """Return a variable that begins with a value."""
        place = self.variable(value.type)
        self.builder.store(value, place)
        return place

    def pointer(self, base: Any, at: Any) -> Any:
        """Return a pointer to an element of an array of cells."""
        return self.builder.gep(base, [at], **({"source_etype": self.cells.element} if _OPAQUE else {}))

    def load(self, base: Any, at: Any, kind: Any = None) -> Any:
        """Load the vector, or a value of another type, that begins at an element of an array."""
        kind, place = kind or self.cells.vector, self.pointer(base, at)
        if _OPAQUE:
            return self.builder.load(place, align=self.cells.bytes, typ=kind)
        return self.builder.load(self.builder.bitcast(place, kind.as_pointer()), align=self.cells.bytes)

    def store(self, value: Any, base: Any, at: Any) -> None:
        place = self.pointer(base, at)
        place = place if _OPAQUE else self.builder.bitcast(place, value.type.as_pointer())
        self.builder.store(value, place, align=self.cells.bytes)

    def smaller(self, a: Any, b: Any) -> Any:
        return self.builder.select(self.cells.less(self.builder, a, b), a, b)

    def ones(self) -> Any:
        return ir.Constant(self.cells.wholes, [1] * self.cells.lanes)

    def placed(self, value: Any, lane: int) -> Any:
        empty = ir.Constant(ir.VectorType(value.type, self.cells.lanes), ir.Undefined)
        return self.builder.insert_element(empty, value, ir.Constant(_LANE, lane))

    def splat(self, value: Any) -> Any:
        vector = self.placed(value, 0)
        return self.builder.shuffle_vector(
            vector, vector, ir.Constant(ir.VectorType(_LANE, self.cells.lanes), [0] * self.cells.lanes)
        )

    def splat_whole(self, number: Any) -> Any:
        """Return a vector with an index in every lane, as integers of the cell's size."""
        fits = self.cells.whole.width == _INDEX.width
        return self.splat(number if fits else self.builder.trunc(number, self.cells.whole))

    def shifted(self, before: Any, vector: Any) -> Any:
        """Return a vector shifted up by one lane; lane 0 gets the last lane of the vector before."""
        lanes = self.cells.lanes
        order = ir.Constant(ir.VectorType(_LANE, lanes), list(range(lanes - 1, 2 * lanes - 1)))
        return self.builder.shuffle_vector(before, vector, order)


class _Loop(_Vectors):
    """Writer of the loop over steps and of the loop over rows inside it."""

    def __init__(
        self, builder: Any, cells: _Cells, arguments: dict[str, Any], *, recording: bool, banded: bool
    ) -> None:
        super().__init__(builder, cells)
        self.arguments, self.recording, self.banded = arguments, recording, banded
        state = arguments["state"]
        self.places = [_index(group * cells.lanes) for group in self.groups]
        self.last_places = [_index(self.lanes + group * cells.lanes) for group in self.groups]
        self.rows = self.pointer(state, _index(2 * self.lanes))
        self.penalty, self.unreached = self.splat(arguments["penalty"]), self.splat(arguments["unreached"])
        self.extent = self.splat_whole(arguments["extent"])
        self.corner = [self.variable_of(self.load(state, place)) for place in self.places]
        self.last = [self.variable_of(self.load(state, place)) for place in self.last_places]
        self.diagonal = [self.variable(cells.vector) for _ in self.groups]
        self.above = [self.variable(cells.vector) for _ in self.groups]
        self.depth = [self.variable_of(self._depth_of_lanes(group)) for group in self.groups]
        self.inside = [self.variable(cells.wholes) for _ in self.groups]

    def write(self) -> None:
        builder, state = self.builder, self.arguments["state"]
        with cgutils.for_range(builder, self.arguments["steps"]) as steps:
            self._step(steps.index)
        for group in self.groups:
            self.store(builder.load(self.corner[group]), state, self.places[group])
            self.store(builder.load(self.last[group]), state, self.last_places[group])

    def _step(self, step: Any) -> None:
        builder, arguments = self.builder, self.arguments
        last = [builder.load(variable) for variable in self.last]
        entering = self.load(arguments["above"], step, self.cells.element)
        column = self.pointer(arguments["y_reversed"], builder.sub(arguments["origin"], step))
        y = [self.load(column, place) for place in self.places]
        for group in self.groups:
            before = last[group - 1] if group else self.placed(entering, self.cells.lanes - 1)
            top = self.shifted(before, last[group])
            builder.store(builder.load(self.corner[group]), self.diagonal[group])
            builder.store(top, self.above[group])
            builder.store(top, self.corner[group])
            depth = builder.load(self.depth[group])
            builder.store(depth, self.inside[group])
            builder.store(builder.add(depth, self.ones()), self.depth[group])
        with cgutils.for_range(builder, arguments["height"]) as rows:
            self._row(step, rows.index, column, y)
        for group in self.groups:
            builder.store(builder.load(self.above[group]), self.last[group])
        leaving = builder.extract_element(builder.load(self.last[-1]), ir.Constant(_LANE, self.cells.lanes - 1))
        self.store(leaving, arguments["bottom"], step)

    def _row(self, step: Any, row: Any, column: Any, y: Sequence[Any]) -> None:
        builder, cells = self.builder, self.cells
        first = builder.mul(row, _index(self.lanes))
        costs = self._costs(first, column, y)
        code_row = builder.add(builder.mul(step, self.arguments["height"]), row)
        for group in self.groups:
            place = builder.add(first, self.places[group])
            left, diagonal = self.load(self.rows, place), builder.load(self.diagonal[group])
            along_x = cells.add(builder, builder.load(self.above[group]), self.penalty)
            along_y = cells.add(builder, left, self.penalty)
            # The row above is available last: values that do not depend on it are compared first.
            reached = self.smaller(along_x, self.smaller(along_y, diagonal))
            if self.recording:
                self._record(cells.less(builder, reached, diagonal), code_row, group)
                self._record(cells.less(builder, along_y, along_x), code_row, _GROUPS + group)
            value = cells.add(builder, reached, costs[group])
            if self.banded:
                value = self._within_band(value, group)
            self.store(value, self.rows, place)
            builder.store(value, self.above[group])
            builder.store(left, self.diagonal[group])

    def _costs(self, first: Any, column: Any, y: Sequence[Any]) -> list[Any]:
        """Return |x − y| for one row of every lane, summed over the metrics in order."""
        builder, cells, x = self.builder, self.cells, self.arguments["x_lanes"]
        places = [builder.add(first, place) for place in self.places]
        costs = [
            self.variable_of(cells.distance(builder, self.load(x, at), y[group])) for group, at in enumerate(places)
        ]
        further = builder.sub(self.arguments["metrics"], _index(1))
        with cgutils.for_range(builder, further) as metrics:
            metric = builder.add(metrics.index, _index(1))
            x_metric = self.pointer(x, builder.mul(metric, self.arguments["x_stride"]))
            y_metric = self.pointer(column, builder.mul(metric, self.arguments["y_stride"]))
            for group, at in enumerate(places):
                cost = cells.distance(builder, self.load(x_metric, at), self.load(y_metric, self.places[group]))
                builder.store(cells.add(builder, builder.load(costs[group]), cost), costs[group])
        return [builder.load(cost) for cost in costs]

    def _record(self, mask: Any, code_row: Any, vector: int) -> None:
        """Store one bit for each lane: a row of codes has the first bits of all lanes, then their second bits."""
        builder, bits, codes = self.builder, ir.IntType(self.cells.lanes), self.arguments["codes"]
        at = builder.add(builder.mul(code_row, _index(2 * _GROUPS)), _index(vector))
        if _OPAQUE:
            place = builder.gep(codes, [at], source_etype=bits)
        else:
            place = builder.gep(builder.bitcast(codes, bits.as_pointer()), [at])
        builder.store(builder.bitcast(mask, bits), place, align=1)

    def _depth_of_lanes(self, group: int) -> Any:
        """Return how far each lane's first row is from the band's left edge before the first step, in columns."""
        builder = self.builder
        numbers = ir.Constant(self.cells.wholes, [group * self.cells.lanes + lane for lane in range(self.cells.lanes)])
        fall = self.splat_whole(builder.add(self.arguments["height"], _index(1)))
        return builder.sub(self.splat_whole(self.arguments["depth"]), builder.mul(numbers, fall))

    def _within_band(self, value: Any, group: int) -> Any:
        builder = self.builder
        inside = builder.load(self.inside[group])
        builder.store(builder.sub(inside, self.ones()), self.inside[group])
        # As unsigned numbers, columns left of the band are far right of it.
        return builder.select(builder.icmp_unsigned("<=", inside, self.extent), value, self.unreached)


def _opaque(builder: Any, pointer: Any) -> Any:
    """Return one of numba's typed pointers as an opaque pointer."""
    slot = cgutils.alloca_once(builder, ir.PointerType())
    builder.store(pointer, slot)
    return builder.load(slot, typ=ir.PointerType())


def _declare(*, recording: bool, banded: bool) -> Any:
    plain = _plain(recording=recording, banded=banded)

    def loop(_typing_context: Any, arrays: Any, numbers: Any) -> Any:
        cells = _CELLS[arrays[0].dtype]

        def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            if _plain_alone.get():
                return context.compile_internal(builder, plain, signature, values)
            given = [part for value in values for part in cgutils.unpack_tuple(builder, value)]
            arguments = dict(zip(_ARRAYS + _NUMBERS, given, strict=True))
            for name, kind in zip(_ARRAYS, signature.args[0], strict=True):
                array = context.make_array(kind)(context, builder, arguments[name])
                arguments[name] = _opaque(builder, array.data) if _OPAQUE else array.data
                if name == "x_lanes":
                    arguments["metrics"], arguments["x_stride"] = cgutils.unpack_tuple(builder, array.shape)
                if name == "y_reversed":
                    _, arguments["y_stride"] = cgutils.unpack_tuple(builder, array.shape)
            _Loop(builder, cells, arguments, recording=recording, banded=banded).write()
            return context.get_dummy_value()

        return types.void(arrays, numbers), write

    return intrinsic(loop)


@contextmanager
def plain_loops() -> Iterator[None]:
    """Compile the plain loop instead of the intrinsic within this context."""
    token = _plain_alone.set(True)
    try:
        yield
    finally:
        _plain_alone.reset(token)


@compilable
def _pack(bits: Any, codes: Any, begin: int) -> None:
    """Pack bits into bytes, the first of eight as the lowest bit."""
    for at in range(len(bits) // 8):
        byte = 0
        for bit in range(8):
            byte |= bits[8 * at + bit] << bit
        codes[begin + at] = byte


def _plain(*, recording: bool, banded: bool) -> Callable[[Any, Any], None]:
    """Return the intrinsic's loop as a Python function for numba to compile; the arguments are as for `advance`."""

    def loop(arrays: Any, numbers: Any) -> None:
        state, x_lanes, y_reversed, above_strip, bottom, codes = arrays
        height, steps, origin, depth, extent, penalty, unreached = numbers
        lanes, cell = LANES_BYTES // state.itemsize, state.dtype.type
        corner, last, rows = state[:lanes], state[lanes : 2 * lanes], state[2 * lanes :]
        above, diagonal, costs = (
            np.empty(lanes, state.dtype),
            np.empty(lanes, state.dtype),
            np.empty(lanes, state.dtype),
        )
        bits = np.empty(2 * lanes, np.uint8)
        for step in range(steps):
            above[0] = above_strip[step]
            for lane in range(1, lanes):
                above[lane] = last[lane - 1]
            for lane in range(lanes):
                diagonal[lane], corner[lane] = corner[lane], above[lane]
            for row in range(height):
                # `above` and `diagonal` have the costs of the row above, in this column and in the column before.
                first, begin = row * lanes, origin - step
                for metric in range(x_lanes.shape[0]):
                    x, y = x_lanes[metric, first : first + lanes], y_reversed[metric, begin : begin + lanes]
                    for lane in range(lanes):
                        distance = cell(abs(x[lane] - y[lane]))
                        costs[lane] = distance if metric == 0 else cell(costs[lane] + distance)
                own = rows[first : first + lanes]
                for lane in range(lanes):
                    left = own[lane]
                    along_x, along_y = cell(above[lane] + penalty), cell(left + penalty)
                    reached = min(along_x, along_y, diagonal[lane])
                    if recording:
                        bits[lane], bits[lanes + lane] = reached < diagonal[lane], along_y < along_x
                    value = cell(reached + costs[lane])
                    if banded and not 0 <= depth + step - lane * (height + 1) - row <= extent:
                        value = unreached
                    own[lane], above[lane], diagonal[lane] = value, value, left
                if recording:
                    _pack(bits, codes, (step * height + row) * (lanes // 4))
            for lane in range(lanes):
                last[lane] = above[lane]
            bottom[step] = last[lanes - 1]

    return loop


advance = _declare(recording=False, banded=False)
"""Advance a strip by some steps; called with two tuples:

arrays
    state : cells, shape ((2 + height) · lanes,), overwritten. Costs: first of the row above each lane one step before
        the last, then of each lane's last row at the last step, then of all rows at the last step.
    x_lanes : cells, shape (metrics, height · lanes or more), x of row r of lane l at r · lanes + l.
    y_reversed : cells, shape (metrics, any); y of lane l's column at step t is at `origin` − t + l.
    above : cells; at t, the cost of the row above the strip, in lane 0's column at step t.
    bottom : cells (written); at t, the cost of the strip's last row, in the last lane's column at step t.
    codes : uint8, 2 bits for each cell (written by `record`). For each step and row, one bit for each lane: whether the
        cheapest step to the cell is not diagonal; then one bit for each lane: whether a step along y is cheaper than a
        step along x.
numbers
    height, steps, origin : int64.
    depth, extent : int64, the band: how far right of its left edge lane 0's first row is at the first step, and the
        band's width − 1 [columns].
    penalty, unreached : as cells; the penalty of a step that is not diagonal, and a number above the cost of any path.
"""
advance_in_band = _declare(recording=False, banded=True)
record = _declare(recording=True, banded=False)
record_in_band = _declare(recording=True, banded=True)
