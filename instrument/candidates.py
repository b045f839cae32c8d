"""Names that could have been meant by a target of which one text holds nothing: overloads of the function that it names, and lambdas in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from unperturbed.instrument.body import read_body
from unperturbed.instrument.declarations import FUNCTION_KINDS, Function, function_of, members, top_level
from unperturbed.instrument.parse import ParsedText, span
from unperturbed.instrument.selection import matches
from unperturbed.instrument.settings import Selected

__all__ = ["candidates"]

_OF_FUNCTIONS = ("enter", "call", "loop", "return")


def candidates(parsed: ParsedText, metrics: Iterable[Selected]) -> dict[str, set[str]]:
    """Return the names that a text has in place of the metrics' targets.

    Parameters
    ----------
    metrics : of which the text holds no site.

    Returns
    -------
    `overload` : functions of the same name, with their parameters, as `f(int)` must be written. `lambda` : lambdas, and functions of local
    classes, in the function that `f::lambda3` is looked for in.
    """
    found: dict[str, set[str]] = {"overload": set(), "lambda": set()}
    targets = [metric.target.partition("#")[0] for metric in metrics if metric.kind in _OF_FUNCTIONS]
    overloaded = [target.partition("(")[0] for target in targets if "(" in target and "operator" not in target]
    scopes = [scope for target in targets if (scope := target.partition("(")[0].rpartition("::")[0])]
    for function in _functions(parsed) if overloaded or scopes else ():
        if any(matches(function.names, target) for target in overloaded):
            found["overload"].add(function.names[0] + _parameters(function))
        if any(matches(function.names, scope) for scope in scopes):
            nested = read_body(function, parsed.text.data).nested
            found["lambda"] |= {name for inner in nested for name in inner.names[:-1]}
    return found


def _functions(parsed: ParsedText) -> Iterator[Function]:
    for cursor in top_level(parsed):
        if parsed.text.is_system(span(cursor)[0]):
            continue
        for member in members(cursor):
            function = function_of(member, parsed.text.data) if member.kind in FUNCTION_KINDS else None
            if function is not None:
                yield function


def _parameters(function: Function) -> str:
    """Return a function's parameters as libclang writes them; a template's own stand before them."""
    return re.sub(r"^<[^(]*>", "", function.cursor.displayname[len(function.cursor.spelling) :])
