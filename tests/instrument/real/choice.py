"""Which metrics are compared.

All that gcov and a naive reader of the source can tell the count of, thousands in one build.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tests.instrument.real.gcov import Coverage
from tests.instrument.real.source_text import SourceText


class Choice:
    """Metrics, and what each must count.

    Attributes
    ----------
    coverage : gcov's counts.
    texts : name of each file to choose from → its text; they differ in the last component.
    software : name → event, as a spec has it.
    expected : name → the right count (gcov may tell two, of which one is right: see `Coverage.statement`).
    """

    def __init__(self, coverage: Coverage, sources: Iterable[Path]) -> None:
        self.coverage = coverage
        self.texts = {path.name: SourceText(path.read_text(errors="replace")) for path in sources}
        self.software: dict[str, Mapping[str, object]] = {}
        self.expected: dict[str, frozenset[int]] = {}

    def add(self, name: str, event: Mapping[str, object], *counts: int) -> None:
        """Choose one metric."""
        assert name not in self.software, name
        self.software[name] = event
        self.expected[name] = frozenset(counts)

    def leave_out(self, *names: str) -> None:
        """Choose otherwise."""
        for name in names:
            del self.software[name], self.expected[name]

    def everything(self, *records: str) -> None:
        """Choose every kind there is; writes to fields of the `records`."""
        self.enters()
        self.returns()
        self.globs()
        self.calls()
        self.writes(*records)
        self.lines()
        self.loops()
        self.labels()

    def enters(self) -> None:
        """Choose `enter:` of every function that was entered, of the most often entered also three times that by `add:`."""
        counts = self.coverage.by_name(self.texts)
        for name in +counts:
            self.add(f"enter {name}", {"enter": name}, counts[name])
        for name, count in counts.most_common(40):
            self.add(f"add {name}", {"enter": name, "add": "1 + 2"}, 3 * count)

    def returns(self) -> None:
        """Choose `return:` of functions that gcov saw return whenever they were entered."""
        left = {function.name for function in self.coverage.functions if function not in self.coverage.returning}
        for name, count in (+self.coverage.by_name(self.texts)).items():
            if name not in left:
                self.add(f"return {name}", {"return": name}, count)

    def globs(self) -> None:
        """Choose all enters of each file by a filter, and by the first letters of the functions' names."""
        for file in self.texts:
            counts = [count for function, count in self.coverage.functions.items() if function.file == file]
            if counts:
                self.add(f"all of {file}", {"enter": "*", "file": file}, sum(counts))
        own = self.coverage.by_name(self.texts)
        others = {function.name[:3] for function in self.coverage.functions if function.file not in self.texts}
        for prefix in sorted({name[:3] for name in own} - others):
            count = sum(count for name, count in own.items() if name.startswith(prefix))
            self.add(f"glob {prefix}*", {"enter": f"{prefix}*"}, count)

    def lines(self, *files: str) -> None:
        """Choose `line:` of every line, in these files or in all, that begins with a plain statement and was executed."""
        for file in files or self.texts:
            text = self.texts[file]
            heads = {function.first for function in self.coverage.functions if function.file == file}
            for line in sorted(text.statements - heads):
                self.add_place("line", file, line, line)

    def loops(self) -> None:
        """Choose `loop: file:line`, and of C functions whose loops are all plain also `loop: f#n` and `loop: f`."""
        for file, text in self.texts.items():
            lines = Counter(loop.line for loop in text.loops)
            for loop in text.loops:
                if loop.body is not None and lines[loop.line] == 1:
                    self.add_place("loop", file, loop.line, loop.body)
        several = {
            name for name, times in Counter(function.name for function in self.coverage.functions).items() if times > 1
        }
        for function, count in self.coverage.functions.items():
            if function.file in self.texts and count and function.name not in several and function.name.isidentifier():
                loops = self.texts[function.file].loops_between(function.first, function.last)
                found = [
                    self.coverage.statement(function.file, loop.body) if loop.body else frozenset() for loop in loops
                ]
                if len(loops) > 1 and all(len(counts) == 1 for counts in found):
                    numbers = [min(counts) for counts in found]
                    self.add(f"loops of {function.name}", {"loop": function.name}, sum(numbers))
                    for place, number in enumerate(numbers, 1):
                        self.add(f"loop {function.name}#{place}", {"loop": f"{function.name}#{place}"}, number)

    def labels(self, rename: Callable[[str], str] = str) -> None:
        """Choose `label:` of labels with a plain statement behind them."""
        for file, text in self.texts.items():
            for label, line in text.labels():
                function = self.coverage.around(file, line)
                counts = self.coverage.statement(file, line)
                if function is not None and counts:
                    target = f"{function.name}::{rename(label)}"
                    self.add(f"label {target}", {"label": target}, *counts)

    def calls(self, most: int | None = None) -> None:
        """Choose `call:` of C functions that are named to be called and for nothing else.

        And `call:` with `in:` of their callers.

        All calls are as many as the entries; calls in one function are as many as the statements that begin with one.
        `most` takes the functions that are entered most often.
        """
        times = Counter(function.name for function in self.coverage.functions)
        alone = {function for function in self.coverage.functions if times[function.name] == 1}
        for name, count in (+self.coverage.by_name(self.texts)).most_common(most):
            heads = {(f.file, f.first) for f in self.coverage.functions if f.name == name}
            uses = [(file, *use) for file, text in self.texts.items() for use in text.uses.get(name, ())]
            inside = [(file, line, called) for file, line, called in uses if self.coverage.around(file, line)]
            bodies = [use for use in inside if use[:2] not in heads]
            if (
                len(heads) != 1
                or not bodies
                or not all(called for _, _, called in uses)
                or not self._only_declared(name, uses)
            ):
                continue
            self.add(f"call {name}", {"call": name}, count)
            for caller in {self.coverage.around(file, line) for file, line, _ in bodies}:
                places = [(file, line) for file, line, _ in bodies if self.coverage.around(file, line) == caller]
                found = [self.coverage.statement(*place) for place in places]
                plain = all(self.texts[file].starts_with_call(line, name) for file, line in places)
                if (
                    caller in alone
                    and plain
                    and len(set(places)) == len(places)
                    and all(len(counts) == 1 for counts in found)
                ):
                    sums = sum(min(counts) for counts in found)
                    self.add(f"call {name} in {caller.name}", {"call": name, "in": caller.name}, sums)

    def writes(self, *records: str) -> None:
        """Choose `write: record.field` of all fields whose writes all stand at the beginning of plain statements."""
        known = [record for text in self.texts.values() for record in text.records]
        several = Counter(field for _, fields in known for field in fields)
        macros = {macro for text in self.texts.values() for macro in text.macros}
        passed = {name for text in self.texts.values() for name in text.arguments(macros)}
        for names, fields in known:
            for record in names & set(records):
                for field in fields:
                    writes = [(file, *write) for file, text in self.texts.items() for write in text.writes(field)]
                    counts = [self.coverage.statement(file, line) for file, line, _ in writes]
                    plain = all(plain for _, _, plain in writes) and all(len(count) < 2 for count in counts)
                    hidden = several[field] > 1 or field in passed
                    if writes and plain and not hidden:
                        total = sum(min(count, default=0) for count in counts)
                        self.add(f"write {record}.{field}", {"write": f"{record}.{field}"}, total)

    def differences(self, counted: Mapping[str, int]) -> list[str]:
        """Return one sentence for each metric that counted wrong."""
        return [
            f"{name}: {counted.get(name)} instead of {' or '.join(map(str, sorted(right)))}"
            for name, right in self.expected.items()
            if not self.is_right(name, counted.get(name, -1))
        ]

    def is_right(self, name: str, count: int) -> bool:
        """Tell whether a count is one that gcov tells."""
        return count in self.expected[name]

    def kinds(self) -> Counter[str]:
        """Return how many metrics of each kind are compared, and to any purpose (none that counts nothing)."""
        return Counter(name.partition(" ")[0] for name, right in self.expected.items() if any(right))

    def add_place(self, kind: str, file: str, line: int, counted: int) -> None:
        """Choose a metric of a line, which counts what a line executed does; not when it was never executed."""
        counts = self.coverage.statement(file, counted)
        if any(counts):
            self.add(f"{kind} {file}:{line}", {kind: f"{file}:{line}"}, *counts)

    def _only_declared(self, name: str, uses: list[tuple[str, int, bool]]) -> bool:
        """Tell whether what is outside functions are declarations: no macro calls the function."""
        outside = [(file, line) for file, line, _ in uses if not self.coverage.around(file, line)]
        return all(self.texts[file].is_declared(line, name) for file, line in outside)
