"""Parser of expressions: quoting, literals, positions and error messages.

The syntax tree is Python's (`ast`), but the offsets of its nodes count characters of the text, not bytes.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Sequence
from typing import Literal

from unperturbed.errors import DataError

DEEPEST = 100
"""Maximum nesting depth of an expression."""

ResultType = Literal["number", "truth", "text"]
Value = float | bool | str

TYPE_NAMES = {"number": "a number", "truth": "a truth value", "text": "text"}

_LONGEST = 10_000
_SHOWN = 200
_QUOTED = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`(?P<name>[^`]*)`|(?P<comment>\#)|(?P<open>[`'"])""")


class ExpressionError(DataError):
    """An invalid expression, or an expression without a value in some rows; `position` counts characters from 1."""

    def __init__(self, text: str, position: int, why: str) -> None:
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        super().__init__(f"expression {shown!r}, character {position}: {why}")
        self.position = position
        self.why = why


def parse(text: str, *, comments: bool = False) -> ast.expr:
    """Parse an expression.

    `comments`: Ignore the text after a `#`. By default, `#` is an error: a name that contains # needs backquotes.
    Result: The syntax tree. Offsets of its nodes count characters of `text`; use `name_at` for names.
    """
    if len(text) > _LONGEST:
        raise ExpressionError(text, 1, f"the expression has {len(text):,} characters; the limit is {_LONGEST:,}")
    plain = re.sub(r"[\r\n\t\f]", " ", _without_backquotes(text, comments=comments))
    start = len(plain) - len(plain.lstrip())
    if start == len(plain):
        raise ExpressionError(text, 1, "the expression is empty")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # remarks on style (`1if`, `'\\d'`); errors are reported later
            tree = ast.parse(plain[start:], mode="eval").body
    except SyntaxError as error:
        why = f"{error.msg}; a name with characters other than letters, digits and _ needs backquotes"
        # An error at the end of the text has no offset.
        raise ExpressionError(text, start + error.offset if error.offset else len(text), why) from None
    except (RecursionError, MemoryError, ValueError) as error:
        raise ExpressionError(text, 1, f"cannot parse the expression: {str(error) or 'nested too deeply'}") from None
    _count_characters(tree, plain[start:], start)
    return tree


def check_syntax(text: str) -> None:
    """Raise an ExpressionError if a text is not a valid expression for any table."""
    parse(text)


def name_at(text: str, node: ast.expr) -> str:
    """Return a node's name as written, without backquotes; Python's tree contains the name in normalised Unicode."""
    written = text[node.col_offset : node.end_col_offset]
    return written[1:-1] if written.startswith("`") else written


def literal(text: str, node: ast.expr) -> tuple[Value, ResultType]:
    """Return the value and the type of a literal; raise ExpressionError if the node is not a literal."""
    match node:
        case ast.Constant(value=bool() as truth):
            return truth, "truth"
        case ast.Constant(value=int() | float() as number):
            return finite(text, node, number), "number"
        case ast.Constant(value=str() as string):
            return string, "text"
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -finite(text, node, number), "number"
    raise ExpressionError(text, node.col_offset + 1, "expected a number, text, True or False")


def finite(text: str, node: ast.expr, value: float) -> float:
    """Return a number literal as float64; raise ExpressionError if it is out of range."""
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if number == float("inf"):
        raise ExpressionError(text, node.col_offset + 1, "the number is too large for float64")
    return number


def common_type(
    text: str, at: ast.expr, literals: Sequence[tuple[Value, ResultType]]
) -> tuple[list[Value], ResultType]:
    """Return literals as values of one type: numbers if numbers and truth values are mixed."""
    kinds = {kind for _, kind in literals}
    values = [value for value, _ in literals]
    if len(kinds) == 1:
        return values, kinds.pop()
    if "text" in kinds:
        raise ExpressionError(text, at.col_offset + 1, "text and other values are mixed: use only one type")
    return [float(value) for value in values], "number"


def _count_characters(tree: ast.expr, parsed: str, start: int) -> None:
    """Convert the nodes' offsets from UTF-8 bytes of the parsed text to characters of the original text."""
    if parsed.isascii():
        characters: Sequence[int] = range(len(parsed) + 1)
    else:
        characters = [at for at, sign in enumerate(parsed) for _ in sign.encode()] + [len(parsed)]
    for node in ast.walk(tree):
        if isinstance(node, ast.expr):
            node.col_offset = characters[node.col_offset] + start
            node.end_col_offset = characters[node.end_col_offset or 0] + start


def _without_backquotes(text: str, *, comments: bool) -> str:
    """Replace each name in backquotes with underscores of the same length, to keep all offsets."""
    parts, done = [], 0
    for match in _QUOTED.finditer(text):
        if match["comment"]:
            if comments:
                break
            raise ExpressionError(text, match.start() + 1, "a name that contains # needs backquotes")
        if match["open"]:
            raise ExpressionError(text, match.start() + 1, f"the quotation mark {match['open']} is not closed")
        if match["name"] is not None:
            if not match["name"]:
                raise ExpressionError(text, match.start() + 1, "there is no name between the backquotes")
            parts += [text[done : match.start()], "_" * len(match[0])]
            done = match.end()
    return "".join([*parts, text[done:]])
