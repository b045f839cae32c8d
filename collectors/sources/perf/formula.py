r"""Formulas of perf's metrics (`MetricExpr`): parsing into a tree, and the values of literals on this host.

The language has numbers, names, `#literals`, `+ - * / %`, `| ^ &`, `< >`, `A if C else B`, `min`, `max`, `d_ratio` and
functions that query the host. `@` stands for `/`, and a backslash makes the next character part of a name:
``cpu_core@UOPS_RETIRED.SLOTS\,cmask\=1@`` is the event ``cpu_core/UOPS_RETIRED.SLOTS,cmask=1/``. The rules are those
of perf's grammar (tools/perf/util/expr.l and expr.y), where `if` has the lowest precedence and `*` the highest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from unperturbed.collectors.sources.perf.sysfs import cpu_list
from unperturbed.errors import SpecError

LONGEST = 20_000  # maximum number of characters in a formula
_DEEPEST = 100
_SHOWN = 60

_BINDING = {sign: level for level, signs in enumerate(("|", "^", "&", "<>", "+-", "*/%")) for sign in signs}
"""Precedence of each binary operator."""

FUNCTIONS: Mapping[str, int] = MappingProxyType({"min": 2, "max": 2, "d_ratio": 2, "has_event": 1})
"""Supported functions, and the number of arguments of each; newer versions of perf have more functions."""

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e-?[0-9]+)?)(?![\w.:@?\\])
      | (?P<literal>\#[\w.\-]+)
      | (?P<name>(?:\\.|[\w.:@?])+)
      | (?P<sign>[-+*/%|^&<>(),])
      | (?P<end>\Z)
    )""",
    re.VERBOSE,
)


class FormulaError(ValueError):
    """Error for a text that is not a perf formula; the message has the position, counted from 1."""


@dataclass(frozen=True)
class Number:
    """Number in a formula."""

    value: float


@dataclass(frozen=True)
class Name:
    """Name of an event or metric, with `/` for `@` and without backslashes."""

    text: str


@dataclass(frozen=True)
class Literal:
    """Literal in a formula: a property of the host, such as `#num_cpus_online`."""

    text: str


@dataclass(frozen=True)
class Call:
    """Function call with its arguments."""

    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True)
class Binary:
    """Binary operation: an operator and two operands."""

    sign: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Negative:
    """Negated operand."""

    operand: Node


@dataclass(frozen=True)
class Choice:
    """Conditional: `value if condition else otherwise`."""

    value: Node
    condition: Node
    otherwise: Node


Node = Number | Name | Literal | Call | Binary | Negative | Choice


def parse_formula(text: str) -> Node:
    """Parse a formula of a perf metric into a tree."""
    if len(text) > LONGEST:
        raise FormulaError(f"the formula has {len(text):,} characters; the limit is {LONGEST:,}")
    return _Parser(text).whole()


class _Parser:
    """Recursive-descent parser of formulas."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._advance()

    def whole(self) -> Node:
        node = self._choice()
        if self._kind != "end":
            raise self._error("expected an operator")
        return node

    def _advance(self) -> None:
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            self._start = len(self._text) - len(self._text[self._at :].lstrip())
            raise self._error("unexpected character")
        self._kind = str(match.lastgroup)
        self._word = match[self._kind]
        self._start = match.start(self._kind)
        self._at = match.end()

    def _error(self, why: str) -> FormulaError:
        rest = self._text[self._start : self._start + _SHOWN] or "the end"
        return FormulaError(f"{why} at character {self._start + 1} of the formula: {rest}")

    def _is(self, *words: str) -> bool:
        return self._kind in ("sign", "name") and self._word in words

    def _expect(self, word: str) -> None:
        if not self._is(word):
            raise self._error(f"expected {word!r}")
        self._advance()

    def _descend(self) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise FormulaError(f"the formula is nested too deeply: the limit is {_DEEPEST} levels")

    def _choice(self) -> Node:
        self._descend()
        value = self._level(0)
        if self._is("if"):
            self._advance()
            condition = self._level(0)
            self._expect("else")
            value = Choice(value, condition, self._choice())
        self._depth -= 1
        return value

    def _level(self, least: int) -> Node:
        """Parse operands and the operators between them, while the operators have at least this precedence."""
        left = self._operand()
        while self._kind == "sign" and _BINDING.get(self._word, -1) >= least:
            sign = self._word
            self._advance()
            left = Binary(sign, left, self._level(_BINDING[sign] + 1))
        return left

    def _operand(self) -> Node:
        kind, word = self._kind, self._word
        if kind == "sign" and word == "-":
            self._descend()
            self._advance()
            operand = self._operand()
            self._depth -= 1
            return Negative(operand)
        if kind == "sign" and word == "(":
            self._advance()
            inner = self._choice()
            self._expect(")")
            return inner
        if kind in ("number", "literal"):
            self._advance()
            return Number(float(word)) if kind == "number" else Literal(word)
        if kind == "name" and word not in ("if", "else"):
            self._advance()
            # Remove perf's escapes.
            plain = re.sub(r"\\(.)|@", lambda escaped: escaped[1] or "/", word)
            return self._call(word) if self._is("(") else Name(plain)
        raise self._error("expected a number, a name or an opening parenthesis")

    def _call(self, function: str) -> Call:
        self._advance()
        arguments = [self._choice()]
        while self._is(","):
            self._advance()
            arguments.append(self._choice())
        if len(arguments) != FUNCTIONS.get(function, len(arguments)):
            raise self._error(f"{function} takes {FUNCTIONS[function]} arguments, not {len(arguments)},")
        self._expect(")")
        return Call(function, tuple(arguments))


_CPUS = "sys/devices/system/cpu"


def literal_value(text: str, root: Path = Path("/")) -> float:
    """Return the value of a literal on this host; case does not matter, because older tables have `#SMT_on`."""
    reader = _LITERALS.get(text.casefold())
    if reader is None:
        raise SpecError(f"unknown literal {text}; the supported literals are {', '.join(_LITERALS)}")
    value = reader(root)
    if value is None:
        raise SpecError(f"its formula needs {text}, which the kernel does not report on this host")
    return value


def _number(file: Path) -> float | None:
    text = file.read_text().strip() if file.exists() else ""
    return float(text) if re.fullmatch(r"[0-9]+", text) else None


def _cpus(root: Path, name: str) -> float | None:
    file = root / _CPUS / name
    return float(len(cpu_list(file.read_text()))) if file.exists() else None


def _topology(root: Path, *names: str) -> float | None:
    """Count the distinct values in the processors' topology files (cores or packages); None without such files."""
    places = set()
    for cpu in (root / _CPUS).glob("cpu[0-9]*"):
        files = [cpu / "topology" / name for name in names]
        if all(file.exists() for file in files):
            places.add(tuple(file.read_text().strip() for file in files))
    return float(len(places)) or None


def _slots(root: Path) -> float | None:
    """Return the width of an Arm core's dispatch, from the description of its PMU."""
    files = sorted((root / "sys/bus/event_source/devices").glob("*/caps/slots"))
    text = files[0].read_text().strip() if files else ""
    return float(int(text, 0)) if re.fullmatch(r"0x[0-9a-fA-F]+|[0-9]+", text) else None


_PACKAGE, _DIE, _CORE = "physical_package_id", "die_id", "core_id"
_LITERALS: Mapping[str, Callable[[Path], float | None]] = MappingProxyType(
    {
        "#num_cpus": lambda root: _cpus(root, "possible"),
        "#num_cpus_online": lambda root: _cpus(root, "online"),
        "#num_cores": lambda root: _topology(root, _PACKAGE, _CORE),
        # If the kernel does not report dies, each package has one.
        "#num_dies": lambda root: _topology(root, _PACKAGE, _DIE) or _topology(root, _PACKAGE),
        "#num_packages": lambda root: _topology(root, _PACKAGE),
        # Kernels without simultaneous multithreading have no such file.
        "#smt_on": lambda root: _number(root / _CPUS / "smt/active") or 0.0,
        # Both literals are 1 if perf counts whole processors; this tool counts one program.
        "#core_wide": lambda _root: 0.0,
        "#target_cpu": lambda _root: 0.0,
        "#has_pmem": lambda root: float((root / "sys/firmware/acpi/tables/NFIT").exists()),
        "#slots": _slots,
    }
)
