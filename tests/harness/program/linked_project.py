"""A program of four objects, built in a campaign's manner, whose links can be repeated."""

from __future__ import annotations

import subprocess
from pathlib import Path

import yaml

from unperturbed.harness.program.build import Build, build_configuration
from unperturbed.harness.program.layouts import make_layout
from unperturbed.harness.spec.load import parse_spec
from unperturbed.harness.spec.sections.program import Program
from unperturbed.instrument.events import parse_event

SOFTWARE = {"works": parse_event({"enter": "work_*"})}
SOURCES = {
    "a.c": "int work_b(int); int work_a(int n) { return n ? work_b(n - 1) + 1 : 0; }\n",
    "b.c": "int work_a(int); int work_b(int n) { return n ? work_a(n - 1) + 2 : 0; }\n",
    "c.c": "int work_c(int n) { return n * 3; }\n",
    "main.c": '#include <stdio.h>\nint work_a(int), work_c(int);\nint main(void) { printf("%d\\n", work_a(9) + '
    "work_c(2)); return 0; }\n",
}
OUTPUT = "19\n"
OBJECTS = "all: prog\nprog: main.o a.o b.o c.o\n\t$(CC) $(LDFLAGS) -o $@ $^\n%.o: %.c\n\t$(CC) -O2 -c $< -o $@\n"
FUNCTIONS = ("work_a", "work_b", "work_c", "main")


class Project:
    """A source folder, and its build in a campaign's manner."""

    def __init__(self, folder: Path, files: dict[str, str], command: str, **program: object) -> None:
        self.source = folder / "source"
        for name, text in files.items():
            (self.source / name).parent.mkdir(parents=True, exist_ok=True)
            (self.source / name).write_text(text)
        self.folder = folder
        spec = {
            "name": "demo",
            "program": {"source": "source", "build": command, "run": "{build}/prog", **program},
            "measure": {"interval": "10 ms", "os": ["minor_faults"]},
        }
        self.program: Program = parse_spec(yaml.safe_dump(spec), "spec.yaml", folder).program

    def build(self, number: str = "00", **ways: bool) -> Build:
        events = {} if "main.cc" in {path.name for path in self.source.rglob("*")} else SOFTWARE
        return build_configuration(
            self.program, self.source, self.folder / number, events, spec_folder=self.folder, layouts=True, **ways
        )

    def untouched(self, number: str = "00") -> Path:
        """Build without counters, with the links recorded; return the build's folder."""
        return build_configuration(
            self.program, self.source, self.folder / number, None, spec_folder=self.folder, links=True
        ).folder

    def make(self, tree: Path, number: int, text: str = "") -> None:
        make_layout(self.program, self.source, tree, number, text or f"1/demo/{number}", spec_folder=self.folder)


def symbols(program: Path, names: tuple[str, ...] = FUNCTIONS) -> dict[str, int]:
    printed = subprocess.run(["nm", str(program)], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in printed.splitlines()]
    return {row[2]: int(row[0], 16) for row in rows if len(row) == 3 and row[2] in names}


def output(tree: Path, program: str = "prog") -> str:
    return subprocess.run([str(tree / program)], capture_output=True, text=True, check=True, cwd=tree).stdout
