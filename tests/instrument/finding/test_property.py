"""Random C programs that count for themselves: the same output with and without counters, and equal counts.

And none in a sham build.

Every event is counted by hand where the generator writes it (`own[n]++`), so the program is its own naive oracle. Each
expression has at most one part with a side effect, or a sequence point between two: the order of evaluation is then the
same everywhere. Of gauges the program tells the value that the variable has at its end.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.instrument.conftest import own_counts, plain_output

EXAMPLES = int(os.environ.get("UNPERTURBED_EXAMPLES", "10"))

SOFTWARE = {
    "enter": {"enter": "f?"},
    "call": {"call": "f0"},
    "global": {"write": "g"},
    "field": {"write": "S.a"},
    "local": {"write": "f1::v"},
    "loop": {"loop": "f?"},
    "return": {"return": "f?"},
    "label": {"label": "f?::l*"},
    "weight": {"enter": "f1", "add": "p & 7"},
    "within": {"call": "f?", "in": "f3"},
    "exact": {"loop": "f?", "threads": "exact"},
    "exact weight": {"enter": "f2", "add": "p * 3 - 5", "threads": "exact"},
    "variable": {"gauge": "g"},
    "part": {"gauge": "prog.c::s.b[2]"},
    "kept": {"gauge": "f1::kept"},
    "byte": {"gauge": "f3::byte"},
}
INDEX = {name: n for n, name in enumerate(SOFTWARE)}
FUNCTIONS = 4
DEPTH = 3
COMPILERS = tuple(compiler for compiler in ("gcc", "clang") if shutil.which(compiler))
GAUGES = {"variable": "g", "part": "s.b[2]"}
"""Variables of the whole program; those of functions are told there."""

HEAD = """\
#include <stdio.h>
typedef unsigned u32;
typedef struct { u32 a, b[3]; } S;
static long own[20];
static u32 g, h, fuel = 400;
static S s, *ps = &s;
#define DO(x) do { x; } while (0)
"""


def count(*names: str) -> str:
    """Return an expression that counts events by hand."""
    return ", ".join(f"own[{INDEX[name]}]++" for name in names)


@dataclass
class Writer:
    """Writes one function; `draw` decides everything."""

    draw: st.DrawFn
    function: int
    labels: int = 0

    def below(self, limit: int) -> int:
        return self.draw(st.integers(0, limit - 1))

    def pure(self, depth: int) -> str:
        kind = self.below(5 if depth else 3)
        if kind == 0:
            return str(self.below(9))
        if kind == 1:
            return ("p", "v", "g", "h", "s.a", "ps->b[1]")[self.below(6)]
        if kind == 2:
            return ("(u32)sizeof(f0(1))", "(u32)sizeof(g = 2)", "(p)")[self.below(3)] if self.function else "p"
        sign = ("+", "*", "^", "<", "==", "&&", "|")[self.below(7)]
        return f"({self.pure(depth - 1)} {sign} {self.pure(depth - 1)})"

    def acting(self, depth: int) -> str:
        """Return an expression with one side effect, or several in sequence."""
        kind = self.below(8)
        if kind == 0 and self.function:
            called = self.below(self.function)
            names = (["call"] if called == 0 else []) + (["within"] if self.function == 3 else [])
            return f"({', '.join([*([count(*names)] if names else []), f'f{called}({self.inner(depth)})'])})"
        if kind == 1:
            return (
                f"({self.acting(depth - 1)} ? {self.inner(depth)} : {self.inner(depth)})"
                if depth
                else self.assignment(0)
            )
        if kind == 2 and depth:
            return f"({self.inner(depth)} {('&&', '||', ',')[self.below(3)]} {self.inner(depth)})"
        if kind == 3 and depth:
            return f"({self.pure(1)} + {self.acting(depth - 1)})"
        return self.assignment(depth)

    def inner(self, depth: int) -> str:
        return self.acting(depth - 1) if depth and self.below(2) else self.pure(1)

    def assignment(self, depth: int) -> str:
        targets = [
            ("g", ["global"]),
            ("(g)", ["global"]),
            ("ps->a", ["field"]),
            ("s.a", ["field"]),
            ("v", ["local"]),
            ("h", []),
            ("s.b[2]", []),
        ]
        text, names = targets[self.below(len(targets))]
        names = [name for name in names if name != "local" or self.function == 1]
        kind = self.below(4)
        if kind == 0:
            written = f"{text}++" if self.below(2) else f"--{text}"
        else:
            written = f"{text} {('=', '+=', '^=')[kind - 1]} {self.inner(depth) if kind == 1 else self.pure(1)}"
        return f"({', '.join([*([count(*names)] if names else []), written])})"

    def statement(self, depth: int) -> str:
        """Return a statement that may stand without braces."""
        kind = self.below(9)
        if depth == 0 or kind < 3:
            return f"DO({self.acting(1)});" if kind == 0 else f"{self.acting(2)};"
        if kind == 3:
            other = f" else {self.statement(depth - 1)}" if self.below(2) else ""
            then = self.block(depth - 1) if other else self.statement(depth - 1)
            return f"if ({self.acting(1)}) {then}{other}"
        if kind == 4:
            return self.block(depth)
        if kind == 5:
            return (
                f"switch ({self.pure(1)} & 3) "
                f"{{ case 0: {self.statement(depth - 1)} case 1: {self.statement(depth - 1)} break; default: ; }}"
            )
        if kind == 6:
            self.labels += 1
            return f"l{self.labels}: {count('label')}, {self.acting(1)};"
        if kind == 7:
            return f"if ({self.pure(1)}) return {count('return')}, {self.pure(1)};"
        return self.loop(depth)

    def loop(self, depth: int) -> str:
        seen = count("loop", "exact")
        kind = self.below(5)
        if kind == 0:
            return (
                f"for (u32 i = {self.pure(1)} & 3; i < 5 && fuel && fuel--; i++) if ({seen}, {self.pure(1)}) "
                f"{self.statement(depth - 1)}"
            )
        if kind == 1:
            return (
                f"while (fuel && fuel-- && {self.acting(1)}) "
                f"{{ {seen}; {self.statement(depth - 1)} if (g & 1) continue; }}"
            )
        if kind == 2:
            return f"do {seen}, {self.acting(1)}; while (fuel && fuel-- && {self.pure(1)});"
        if kind == 3:
            return (
                f"for (; fuel && fuel-- && {self.pure(1)};) "
                f"{{ {seen}; if ({self.pure(1)}) break; {self.statement(depth - 1)} }}"
            )
        return f"for (u32 i = 0, j = 2; i < j && fuel && fuel--; {seen}, i++) ;"

    def block(self, depth: int) -> str:
        return "{ " + "\n    ".join(self.statement(depth) for _ in range(1 + self.below(3))) + " }"

    def body(self) -> str:
        weight = {
            1: f" static u32 kept = 9; own[{INDEX['weight']}] += p & 7; kept ^= p * 77777; own[{INDEX['kept']}] = kept;",
            2: f" own[{INDEX['exact weight']}] += p * 3 - 5;",
            3: f" static signed char byte = 1, other; byte += 50 + other; other = (signed char)p; own[{INDEX['byte']}] = byte;",
        }.get(self.function, "")
        statements = "\n    ".join(self.statement(DEPTH) for _ in range(1 + self.below(4)))
        return (
            f"static u32 f{self.function}(u32 p) "
            f"{{ {count('enter')};{weight}\n    u32 v = p;\n    {statements}\n    {count('return')};\n"
            f"    return {self.pure(1)} + v;\n}}\n"
        )


@st.composite
def programs(draw: st.DrawFn) -> str:
    functions = "".join(Writer(draw, number).body() for number in range(FUNCTIONS))
    calls = ""
    for number in range(8):
        counted = f"{count('call')}, " if number % FUNCTIONS == 0 else ""
        calls += f"    h ^= ({counted}f{number % FUNCTIONS}({number}u)); fuel += 40;\n"
    return (
        f"{HEAD}{functions}int main(void) {{\n{calls}"
        '    printf("%u %u %u %u %u\\n", g, h, s.a, s.b[1], s.b[2]);\n'
        + "".join(f"    own[{INDEX[name]}] = {variable};\n" for name, variable in GAUGES.items())
        + f'    for (int i = 0; i < {len(SOFTWARE)}; i++) printf("own %ld\\n", own[i]);\n    return 0;\n}}\n'
    )


def test_random_programs_count_what_they_count_themselves(workshop):
    shops = {
        (compiler, form): workshop(SOFTWARE, compilers={"cc": compiler}, name=f"{compiler}-{form}", form=form)
        for compiler in COMPILERS
        for form in ("counting", "patchable")
    }

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],  # an example costs a second, and is small
        suppress_health_check=list(HealthCheck),
    )
    @given(programs(), st.sampled_from(["-O0", "-O2", "-O3"]), st.sampled_from(COMPILERS))
    def check(text: str, level: str, compiler: str) -> None:
        runs = []
        for form in ("counting", "patchable"):
            shop = shops[compiler, form]
            shop.write("prog.c", text)
            shop.call("-w", level, "prog.c", "-o", "prog")
            runs.append(shop.run())
            assert shop.report.skipped == {}
        output, counts = runs[0]
        assert output == plain_output(shop.folder, "gcc", "-w", "-O0", "prog.c")
        assert list(counts.values()) == own_counts(output)
        gauges = {name for name, event in SOFTWARE.items() if "gauge" in event}
        assert runs[1] == (output, {name: value if name in gauges else 0 for name, value in counts.items()})
        shop.patch("prog")
        assert shop.run() == runs[0]

    check()
