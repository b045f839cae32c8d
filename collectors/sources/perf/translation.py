"""Translation of perf's metrics: to expressions over names that a spec may list under `hardware`."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from unperturbed.collectors.sources.perf.events import PREFIX
from unperturbed.collectors.sources.perf.formula import (
    FUNCTIONS,
    Binary,
    Call,
    Choice,
    FormulaError,
    Literal,
    Name,
    Negative,
    Node,
    Number,
    literal_value,
    parse_formula,
)
from unperturbed.collectors.sources.perf.names import ALIASES, GENERIC
from unperturbed.collectors.sources.perf.names import parse as parse_event
from unperturbed.collectors.sources.perf.sysfs import own_core, pmus
from unperturbed.collectors.sources.perf.tables import PerfMetric, PerfTables, TableEvent
from unperturbed.common.expressions.metrics import parse_metric_expression
from unperturbed.common.wording import did_you_mean
from unperturbed.errors import SpecError, UnperturbedError

_DEEPEST = 40
_MODES = ("", "u", "k", "uk", "ku")
_NO_EVENT: Mapping[str, str] = {
    "duration_time": "perf's clock, which is not available here",
    "user_time": "CPU time that only perf reads: use user_time_us under `os`",
    "system_time": "CPU time that only perf reads: use system_time_us under `os`",
}
_SOFTWARE = "software"
_NO_TERM = ("name=", "cpu=")  # terms that only affect perf's output
_OPERATIONS: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "<": operator.lt,
    ">": operator.gt,
    "%": lambda left, right: math.fmod(int(left), int(right)),
    "|": lambda left, right: int(left) | int(right),
    "^": lambda left, right: int(left) ^ int(right),
    "&": lambda left, right: int(left) & int(right),
}
"""Binary operations on numbers; like perf, `%` and bitwise operators truncate their operands to integers."""
_PRECEDENCE = {"<": 1, ">": 1, "+": 2, "-": 2, "*": 3, "/": 3}


@dataclass(frozen=True)
class Translated:
    """Metric of perf's tables, translated for a spec."""

    metric: PerfMetric  # The metric in perf's tables
    formula: str  # An expression over hardware metrics, as under `derived`
    events: tuple[str, ...]  # The hardware metrics in the expression


class _Untranslated(Exception):  # noqa: N818  never leaves this module
    """Error for a formula that cannot be translated; its message completes a sentence."""


def translate(asked: str, tables: PerfTables, root: Path = Path("/")) -> Translated:
    """Translate a metric; replace what depends on the host (`#smt_on`, encodings of events) with its value here.

    `asked`: The metric's name; `PMU/NAME/` on a hybrid processor if several kinds of core have a metric of that name.
    """
    if tables.problem:
        raise SpecError(f"cannot look up perf metric {asked}: {tables.problem}")
    metric = _chosen(asked, tables, root)
    try:
        tree = _Translation(tables, metric.pmu, root).of(parse_formula(metric.formula), (metric.name,))
        text = _written(tree, 0)
        expression = parse_metric_expression(text)
    except (_Untranslated, FormulaError, UnperturbedError) as error:
        raise SpecError(f"perf's metric {asked} cannot be measured here: {error}") from None
    return Translated(metric, expression.text, expression.names)


def _chosen(asked: str, tables: PerfTables, root: Path) -> PerfMetric:
    pmu, _, name = asked.removesuffix("/").rpartition("/")
    candidates = [metric for metric in tables.named(name) if not pmu or metric.pmu == pmu]
    if not candidates:
        known = [metric.name for metric in tables.metrics]
        advice = did_you_mean(name, known) or "`unperturbed metrics --all` lists perf's metrics"
        raise SpecError(f"perf {tables.version} has no metric {asked} for this processor; {advice}")
    kinds = {metric.pmu: metric for metric in candidates}
    if len(kinds) == 1:
        return candidates[0]
    home = own_core(root)
    if home is not None and home.name in kinds:
        return kinds[home.name]
    # A program that may run on all kinds of core is counted on the performance cores, as generic events are.
    return kinds.get("cpu_core") or candidates[0]


class _Translation:
    """Translator that replaces names with numbers or with a spec's events, and evaluates constant parts."""

    def __init__(self, tables: PerfTables, pmu: str, root: Path) -> None:
        self._tables = tables
        self._pmu = pmu
        self._root = root
        self._units = pmus(root)
        self._found: dict[str, str] = {}  # a cache: formulas often repeat an event

    def of(self, node: Node, within: tuple[str, ...]) -> Node:  # noqa: PLR0911  one for each kind of node
        """Return a node translated to numbers, names of a spec, arithmetic, `min`, `max` and conditionals."""
        match node:
            case Number():
                return node
            case Literal(text):
                return Number(literal_value(text, self._root))
            case Name(text):
                return self._name(text, within)
            case Negative(operand):
                inner = self.of(operand, within)
                return Number(-inner.value) if isinstance(inner, Number) else Negative(inner)
            case Choice(value, condition, otherwise):
                decided = self.of(condition, within)
                if isinstance(decided, Number):  # the other branch needs no counters
                    return self.of(value if decided.value else otherwise, within)
                return Choice(self.of(value, within), decided, self.of(otherwise, within))
            case Call(function, arguments):
                return self._call(function, arguments, within)
            case Binary(sign, left, right):
                return _folded(sign, self.of(left, within), self.of(right, within))

    def _call(self, function: str, arguments: tuple[Node, ...], within: tuple[str, ...]) -> Node:
        if function == "has_event":
            try:
                return Number(float(isinstance(arguments[0], Name) and bool(self._event_of_spec(arguments[0].text))))
            except (_Untranslated, UnperturbedError):
                return Number(0)
        if function not in FUNCTIONS:
            raise _Untranslated(f"its formula calls {function}(), which is not supported")
        first, second = (self.of(argument, within) for argument in arguments)
        if function == "d_ratio":
            ratio = _folded("/", first, second) if second != Number(0) else Number(0)
            return ratio if isinstance(second, Number) else Choice(ratio, second, Number(0))
        if isinstance(first, Number) and isinstance(second, Number):
            return Number(min(first.value, second.value) if function == "min" else max(first.value, second.value))
        return Call(function, (first, second))

    def _name(self, text: str, within: tuple[str, ...]) -> Node:
        if text == "NaN":
            raise _Untranslated("its formula contains NaN, so perf has no value for this metric on this host")
        alike = (metric for metric in self._tables.named(text) if metric.name == text)
        metric = next((metric for metric in alike if metric.pmu in (self._pmu, "")), None)
        if metric is None:
            if text not in self._found:
                self._found[text] = self._event_of_spec(text)
            return Name(self._found[text])
        if metric.name in within:
            raise _Untranslated(f"its formula refers to itself: {' → '.join((*within, metric.name))}")
        if len(within) > _DEEPEST:
            raise _Untranslated(f"its formula refers to a chain of more than {_DEEPEST} other metrics")
        return self.of(parse_formula(metric.formula), (*within, metric.name))

    def _event_of_spec(self, text: str) -> str:
        """Return an event's name in a spec."""
        if text in _NO_EVENT:
            raise _Untranslated(f"its formula needs {text}, {_NO_EVENT[text]}")
        if "?" in text:
            raise _Untranslated(f"its formula needs {text}, whose parameter only perf can fill in")
        pmu, slash, rest = text.partition("/")
        terms, mode = rest.rsplit("/", 1) if slash and "/" in rest else (rest, "")
        if not slash:
            pmu, (terms, _, mode) = "", text.partition(":")
        mode = mode.removeprefix(":")
        if mode not in _MODES:
            raise _Untranslated(f"its formula needs {text}, but modifier {mode!r} is not supported")
        name = self._named(pmu, terms, mode)
        try:
            parse_event(name.removeprefix(PREFIX), self._root)
        except UnperturbedError as error:
            raise _Untranslated(f"its formula needs {text}: {error}") from None
        return name

    def _named(self, pmu: str, terms: str, mode: str) -> str:
        given = [term for term in terms.split(",") if term and not term.startswith(_NO_TERM)]
        if not given:
            raise _Untranslated(f"its formula needs {pmu}/{terms}/, which does not name an event")
        units = self._units
        if pmu and pmu not in units and self._in_tables(pmu, ""):  # EVENT/term=number/
            pmu, given = "", [pmu, *given]
        first, *others = given
        generic = GENERIC.get(ALIASES.get(first, first))
        by_kernel = generic is not None and generic.kind == "os"
        if by_kernel and pmu in ("", _SOFTWARE):
            return f"{PREFIX}{first}{f':{mode}' if mode else ''}"
        if pmu:
            self._check_own(pmu, first)
        home = pmu or self._pmu  # on a hybrid processor, the metric's kind of core
        if home in units and (first in units[home].events or generic is not None):
            return f"{PREFIX}{home}/{','.join(given)}/{mode}"
        of_cores = any(unit.core and first in unit.events for unit in units.values())
        if not pmu and not others and (generic is not None or of_cores):
            return f"{PREFIX}{first}{f':{mode}' if mode else ''}"
        event = self._in_tables(first, pmu)
        if event is not None:
            self._check_own(event.pmu, first)
            merged = dict(term.partition("=")[::2] for term in (*event.terms, *others))
            encoded = ",".join(f"{key}={value}" if value else key for key, value in merged.items())
            label = re.sub(r"[^\w.]", "_", first)
            return f"{PREFIX}{event.pmu}/{encoded},name={label}/{mode}"
        if pmu:
            return f"{PREFIX}{pmu}/{','.join(given)}/{mode}"
        if not any(unit.core for unit in units.values()):
            raise _Untranslated(f"its formula needs {first}, but this host has no core PMU")
        raise _Untranslated(f"its formula needs {first}, which is not in perf's event tables for this processor")

    def _in_tables(self, name: str, pmu: str) -> TableEvent | None:
        alike = self._tables.events.get(name.casefold(), ())
        wanted = pmu or self._pmu
        own = [event for event in alike if event.pmu == wanted]
        if own or pmu:
            return own[0] if own else None
        cores = {unit.name for unit in self._units.values() if unit.core}
        return next((event for event in alike if event.pmu in cores), alike[0] if alike else None)

    def _check_own(self, pmu: str, event: str) -> None:
        unit = self._units.get(pmu)
        if unit is not None and unit.whole_package:
            where = "which counts for a whole processor or package, not for one program"
            raise _Untranslated(f"its formula needs {event} of PMU {pmu}, {where}")


def _folded(sign: str, left: Node, right: Node) -> Node:
    """Return a binary operation, evaluated if both operands are numbers, and omitted if it has no effect."""
    if isinstance(left, Number) and isinstance(right, Number):
        if sign in "/%" and right.value == 0:
            raise _Untranslated("its formula divides by zero")
        return Number(float(_OPERATIONS[sign](left.value, right.value)))
    if sign not in _PRECEDENCE:
        raise _Untranslated(f"its formula uses operator {sign} between events, which is not supported")
    zero = Number(0)
    # perf adds `0 * slots` to include a group's leader; the planner of passes adds the leader anyway.
    if sign == "*" and zero in (left, right) and all(isinstance(side, Name | Number) for side in (left, right)):
        return zero
    if sign in "+-" and right == zero:
        return left
    if sign == "+" and left == zero:
        return right
    return Binary(sign, left, right)


def _written(node: Node, least: int) -> str:
    """Return a tree as text, in parentheses if its operator has a lower precedence than `least`."""
    match node:
        case Number(value):
            text = str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
            binds = 4 if value < 0 else 5
        case Name(name):
            text, binds = f"'{name}'", 5
        case Call(function, arguments):
            text, binds = f"{function}({', '.join(_written(argument, 0) for argument in arguments)})", 5
        case Negative(operand):
            text, binds = f"-{_written(operand, 5)}", 4
        case Choice(value, condition, otherwise):
            text, binds = f"{_written(value, 1)} if {_condition(condition)} else {_written(otherwise, 0)}", 0
        case Binary(sign, left, right) if sign in "<>":
            text, binds = f"1 if {_condition(node)} else 0", 0
        case Binary(sign, left, right):
            binds = _PRECEDENCE[sign]
            text = f"{_written(left, binds)} {sign} {_written(right, binds + 1)}"
        case _:
            raise AssertionError(f"untranslated node {node}")
    return f"({text})" if binds < least else text


def _condition(node: Node) -> str:
    """Return the text of a condition: a comparison, or a test that a value is not 0."""
    if isinstance(node, Binary) and node.sign in "<>":
        return f"{_written(node.left, 2)} {node.sign} {_written(node.right, 2)}"
    return f"{_written(node, 2)} != 0"
