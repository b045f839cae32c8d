"""Names that a text has in place of a target without a site: overloads and lambdas, noted while it is compiled."""

# Without events.event, whose dataclasses would cost every command that is instrumented 8 ms.

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from unperturbed.instrument.events.kind import load_kind, matches
from unperturbed.instrument.events.need import Selected
from unperturbed.instrument.events.places import Function
from unperturbed.instrument.finding.body import read_body
from unperturbed.instrument.finding.declarations import FUNCTION_KINDS, function_of, members, top_level
from unperturbed.instrument.finding.parse import ParsedText, span


def candidates(parsed: ParsedText, metrics: Iterable[Selected]) -> dict[str, set[str]]:
    """Return the names that a text has in place of the metrics' targets.

    Result: `overload`: functions of the same name, with their parameters, as `f(int)` must be written. `lambda`:
    lambdas, and functions of local classes, in the function of a target such as `f::lambda3`.
    """
    found: dict[str, set[str]] = {"overload": set(), "lambda": set()}
    targets = [
        kind.owner(metric.target)
        for metric in metrics
        if "function" in (kind := load_kind(metric.loader, metric.folder)).named
    ]
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
    """Return a function's parameters as libclang writes them, without those of a template."""
    return re.sub(r"^<[^(]*>", "", function.cursor.displayname[len(function.cursor.spelling) :])
