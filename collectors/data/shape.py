"""Whether content that was read from a file as JSON has the shape that is worked with: damage has a message then."""

from __future__ import annotations

import math
from typing import Any

Shape = type | list[Any] | dict[Any, Any]
"""A JSON type (`float` takes any finite number), a list of one shape, a dictionary with at least these keys, or, as
`{str: shape}`, one with any keys."""

_NAMES = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}
_SHOWN = 40


def misfit(value: Any, shape: Shape, name: str) -> str:
    """Return what is wrong with a value; '' when it has the shape.

    `value`: What `json.loads` returned.
    """
    kind = shape if isinstance(shape, type) else type(shape)
    if not _is_of(value, kind):
        shown = repr(value)
        return f"{name} is {shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '…'}, not {_NAMES[kind]}"
    if isinstance(shape, list):
        found = (misfit(item, shape[0], f"{name}[{at}]") for at, item in enumerate(value))
        return next(filter(None, found), "")
    if isinstance(shape, dict) and str in shape:
        return next(filter(None, (misfit(inner, shape[str], f"{name}.{key}") for key, inner in value.items())), "")
    if isinstance(shape, dict):
        missing = next((key for key in shape if key not in value), None)
        if missing is not None:
            return f"{name} has no {missing!r}"
        return next(filter(None, (misfit(value[key], inner, f"{name}.{key}") for key, inner in shape.items())), "")
    return ""


def _is_of(value: Any, kind: type) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
