"""What gcov counted in a program that gcc built with `-O0 --coverage`: the other opinion on every count."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

_LINE = re.compile(r"\s*([-\d#=]+)\*?:\s*(\d+):")
_BLOCK = re.compile(r"\s*(\d+|[%$]+)\*?:\s*(\d+)-block +(\d+)")
_CALLED = re.compile(r"function (\S+) called \d+ returned (\d+)%")
_SOURCE = re.compile(r"\s*-:\s*0:Source:(.*)")
_HIDDEN = re.compile(r"\[abi:\w+\]|\(anonymous namespace\)::")
_LAMBDA = re.compile(r"\{lambda\([^{}]*\)#(\d+)\}::operator\(\)")
_OPERATOR = re.compile(r"\boperator *(?:\(\)|\[\]|<<=?|>>=?|<=>|[<>]=?|->\*?|[-+*/%&|^!=~]{1,2}=?|\"\" *\w+)")
_DELETING = re.compile(r"^_Z.*D0Ev$")
"""A deleting destructor calls the plain one: the body in the source is entered once."""

_WHOLE = 100
_EXACT = 200
"""Of fewer calls 100 % means all; gcov rounds."""


@dataclass(frozen=True)
class Function:
    """A function's body in the source: all instantiations of a template are one.

    Attributes
    ----------
    file : its last component, by which the programs here tell their files apart.
    name : qualified, without parameters, template arguments and unnamed namespaces; a lambda is `f::lambda1`.
    first, last : lines of its head and of its closing brace.
    """

    file: str
    name: str
    first: int
    last: int


@dataclass(frozen=True)
class Coverage:
    """Counts, summed over all objects and instantiations that hold a line or a function.

    Attributes
    ----------
    functions : entries of each function.
    returning : functions that returned whenever they were entered, by no exception, exit or long jump.
    lines : (file, line) → gcov's count: how often the line is entered, and once more for each turn of a loop in it.
    starts : (file, line) → entries of the first basic block on the line; only where gcov tells it.
    """

    functions: Mapping[Function, int]
    returning: frozenset[Function]
    lines: Mapping[tuple[str, int], int]
    starts: Mapping[tuple[str, int], int]

    def by_name(self, files: Iterable[str]) -> Counter[str]:
        """Return entries by qualified name, of functions in these files."""
        wanted = set(files)
        sums: Counter[str] = Counter()
        for function, count in self.functions.items():
            if function.file in wanted:
                sums[function.name] += count
        return sums

    def statement(self, file: str, line: int) -> frozenset[int]:
        """Return the numbers by which gcov may tell how often a line's first statement was reached.

        None for a line it does not count.

        Its line count also counts what comes back to a line, such as the end of a block of the line's `if`; its first
        block does not.
        """
        place = file, line
        return frozenset(
            counts[place] for counts in (self.lines, self.starts) if place in counts and place in self.lines
        )

    def with_entries(self, name: str, count: int) -> Coverage:
        """Return the coverage with another number of entries of one function."""
        entries = {function: count if function.name == name else before for function, before in self.functions.items()}
        return replace(self, functions=entries)

    @cached_property
    def _by_file(self) -> dict[str, list[Function]]:
        found: defaultdict[str, list[Function]] = defaultdict(list)
        for function in self.functions:
            found[function.file].append(function)
        return found

    def around(self, file: str, line: int) -> Function | None:
        """Return the innermost function that holds a line."""
        holders = [function for function in self._by_file.get(file, ()) if function.first <= line <= function.last]
        return min(holders, key=lambda function: function.last - function.first, default=None)


def read_coverage(folder: Path) -> Coverage:
    """Read what the objects below a folder have counted (one `.gcda` an object)."""
    functions: Counter[Function] = Counter()
    lines: Counter[tuple[str, int]] = Counter()
    starts: Counter[tuple[str, int]] = Counter()
    returned: dict[Function, set[int]] = defaultdict(set)
    for data in sorted(folder.rglob("*.gcda")):
        answer = json.loads(_gcov(data, data.parent, "--json-format"))
        text = _gcov(data, Path(answer["current_working_directory"]), "--all-blocks", "--branch-probabilities")
        percents = {name: int(percent) for name, percent in _CALLED.findall(text)}
        for place, count in _first_blocks(text).items():
            starts[place] += count
        for file in answer["files"]:
            name = Path(file["file"]).name
            for described in file["functions"]:
                if _DELETING.search(described["name"]):
                    continue
                function = Function(
                    name, plain_name(described["demangled_name"]), described["start_line"], described["end_line"]
                )
                functions[function] += described["execution_count"]
                if described["execution_count"]:
                    returned[function].add(percents.get(described["name"], 0))
            for line in file["lines"]:
                lines[name, line["line_number"]] += line["count"]
    jumps = any(0 < percent < _WHOLE for seen in returned.values() for percent in seen)
    returning = {
        function
        for function, seen in returned.items()
        if seen == {_WHOLE} and (functions[function] < _EXACT or not jumps)
    }
    return Coverage(functions, frozenset(returning), lines, starts)


def _gcov(data: Path, folder: Path, *options: str) -> str:
    command = ["gcov", "--stdout", *options, str(data)]
    return subprocess.run(command, cwd=folder, capture_output=True, check=True).stdout.decode(errors="replace")


def _first_blocks(text: str) -> dict[tuple[str, int], int]:
    """Return the count of block 0 of each line, summed over instantiations (which gcov prints apart, behind the lines of all)."""
    whole: dict[tuple[str, int], int] = {}
    apart: defaultdict[tuple[str, int], int] = defaultdict(int)
    file, in_part = "", False
    for line in text.splitlines():
        if found := _SOURCE.match(line):
            file, in_part = Path(found[1]).name, False
        elif line.startswith("-----"):
            in_part = False
        elif re.match(r"_Z\w+:$", line):
            in_part = True
        elif (found := _BLOCK.match(line)) and found[3] == "0":
            count = int(found[1]) if found[1].isdigit() else 0
            if in_part:
                apart[file, int(found[2])] += count
            else:
                whole[file, int(found[2])] = count
    return {**whole, **apart}


def plain_name(demangled: str) -> str:
    """Return a demangled name without return type, parameters, template arguments and unnamed namespaces."""
    text = _HIDDEN.sub("", demangled)
    text = _LAMBDA.sub(r"lambda\1", _without(text, "<", ">"))
    operator = _OPERATOR.search(text)
    head = text[: operator.start()] if operator else text
    name = _without(head, "(", ")").replace(" const", "")
    conversion = re.search(r"(?:[\w:~]+::)?operator .*", name)
    if conversion:
        return conversion[0].rstrip()
    return (name.split(" ")[-1] if operator else name.strip().split(" ")[-1]) + (operator[0] if operator else "")


def _without(text: str, opening: str, closing: str) -> str:
    """Return the text without what stands in brackets; signs of operators are not brackets."""
    signs = {offset for found in _OPERATOR.finditer(text) for offset in range(*found.span())}
    kept, depth = [], 0
    for offset, sign in enumerate(text):
        bracket = sign if offset not in signs and text[max(0, offset - 1) : offset + 1] != "->" else ""
        depth += bracket == opening
        if depth == 0:
            kept.append(sign)
        depth -= bracket == closing and depth > 0
    return "".join(kept)
