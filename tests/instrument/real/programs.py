"""Building real programs from Debian's sources three ways, and running them.

As gcc has it, with gcov's counters, with ours.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.instrument.real.gcov import Coverage, read_coverage
from tests.instrument.wrapper_server import serve_wrapper
from unperturbed.common.user_cache import user_cache
from unperturbed.harness.program.sources import debian_source
from unperturbed.instrument.compiler.toolchain import write_toolchain
from unperturbed.instrument.events import parse_event
from unperturbed.instrument.finding.site_log import SiteReport, read_sites
from unperturbed.instrument.missing import missing_metrics

_SOURCES = (".c", ".cc", ".cpp", ".h")
RUNTIME = Path(__file__).parents[1] / "runtime.c"
CLANG = pytest.param(
    True, id="clang", marks=pytest.mark.skipif(not shutil.which("clang++"), reason="clang is not installed")
)


@dataclass(frozen=True)
class Run:
    """One run of the program.

    Its arguments (the first is the program, in the build's folder), its input, its exit code.
    """

    arguments: Sequence[str]
    given: bytes = b""
    code: int = 0


@dataclass(frozen=True)
class Program:
    """A source package, how it is built, and what is run.

    Attributes
    ----------
    package : of Debian.
    build : builds in a folder that holds a copy of the source: (folder, cc, cxx, flags).
    runs : what is run, in order.
    files : a program's own files, such as inputs: name → content.
    made : files that the runs write, which must be equal too.
    unsteady : pattern of what differs from run to run in the output, such as times.
    """

    package: str
    build: Callable[[Path, str, str, str], None]
    runs: Sequence[Run]
    files: Mapping[str, bytes] = field(default_factory=dict)
    made: Sequence[str] = ()
    unsteady: bytes = rb"(?!)"

    def source(self) -> Path:
        """Return the unpacked source."""
        return debian_source(self.package, user_cache())

    def prepare(self, folder: Path) -> Path:
        """Copy the source and the files to a folder."""
        shutil.copytree(
            self.source(), folder, symlinks=True, ignore=shutil.ignore_patterns("*.o", "*.a", "*.gcda", ".pc")
        )
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
        return folder

    def covered(self, folder: Path) -> Covered:
        """Build by gcc with gcov's counters, without optimisation (gcov counts no function that was inlined early).

        And run.
        """
        self.build(self.prepare(folder), "gcc", "g++", "-O0 -g --coverage")
        outputs = [self._run(folder, run, None)[0] for run in self.runs]
        return Covered(self, folder, outputs + self._made(folder), read_coverage(folder))

    def counted(
        self, folder: Path, software: Mapping[str, Mapping[str, object]], *, clang: bool = False, flags: str = "-O1"
    ) -> Counted:
        """Build with our counters, and run."""
        events = {name: parse_event(event) for name, event in software.items()}
        compilers = {"cc": "clang", "cxx": "clang++"} if clang else {"cc": "gcc", "cxx": "g++"}
        toolchain = write_toolchain(
            folder.with_name(f"{folder.name}.tools"), events, compilers=compilers, runtime=[RUNTIME]
        )
        serve_wrapper(toolchain)
        self.build(self.prepare(folder), str(toolchain.cc), str(toolchain.cxx), flags)
        counts: Counter[str] = Counter()
        outputs = []
        for run in self.runs:
            output, numbers = self._run(folder, run, folder / "counts")
            outputs.append(output)
            counts.update(dict(zip(software, numbers, strict=False)))
        report = read_sites(toolchain.folder)
        return Counted(outputs + self._made(folder), counts, report, missing_metrics(report, events), folder)

    def plain(self, folder: Path, flags: str = "-O0") -> list[bytes]:
        """Build by gcc alone, run, and return what the program wrote."""
        self.build(self.prepare(folder), "gcc", "g++", flags)
        return [self._run(folder, run, None)[0] for run in self.runs] + self._made(folder)

    def _run(self, folder: Path, run: Run, counts: Path | None) -> tuple[bytes, list[int]]:
        # A file, as reading from a pipe takes more or fewer calls, depending on who writes it and when.
        with tempfile.TemporaryFile() as given:
            given.write(run.given)
            given.seek(0)
            result = subprocess.run(
                [f"./{run.arguments[0]}", *run.arguments[1:]],
                stdin=given,
                capture_output=True,
                check=False,
                cwd=folder,
                env={
                    **os.environ,
                    "LC_ALL": "C",
                    "LD_LIBRARY_PATH": str(folder),
                    **({"COUNTS_FILE": str(counts)} if counts else {}),
                },
            )
        assert result.returncode == run.code, result.stderr.decode(errors="replace")
        numbers = [int(line) for line in counts.read_text().split()] if counts else []
        output = re.sub(self.unsteady, b"", result.stdout + b"\0" + result.stderr)
        return output, numbers

    def _made(self, folder: Path) -> list[bytes]:
        return [(folder / name).read_bytes() for name in self.made]


@dataclass(frozen=True)
class Covered:
    """A program that gcov counted.

    Its folder, what it wrote (standard output and error of each run, then files), the counts.
    """

    program: Program
    folder: Path
    outputs: list[bytes]
    coverage: Coverage

    def sources(self, *patterns: str) -> list[Path]:
        """Return source files of the build by glob."""
        return sorted(path for pattern in patterns for path in self.folder.glob(pattern))


@dataclass(frozen=True)
class Counted:
    """A program that our counters counted; `missing` says which metrics have no site."""

    outputs: list[bytes]
    counts: Counter[str]
    report: SiteReport
    missing: Mapping[str, str]
    folder: Path


def shell(folder: Path, *commands: str) -> None:
    """Run build commands; what they print is shown when one fails."""
    for command in commands:
        result = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, check=False)
        assert result.returncode == 0, f"{command}\n{result.stdout[-2000:]}\n{result.stderr[-4000:]}"


def check_debug_lines(folder: Path, words: Sequence[str], source: str) -> None:
    """Check that with counters in all functions and at all calls each line has code that had some.

    And no other but where a counter is.

    That may be the brace of an empty function, or a call that needs no code; also, one line in a hundred, where a
    statement of several lines goes on.

    Parameters
    ----------
    folder : where the source is compiled, twice.
    words : the compiler and its flags.
    """
    events = {"enters": parse_event({"enter": "*"}), "calls": parse_event({"call": "*"})}
    toolchain = write_toolchain(
        folder.with_name(f"{folder.name}.debug"), events, compilers={"cc": words[0], "cxx": words[0]}
    )
    serve_wrapper(toolchain)
    found = []
    for compiler, name in ((words[0], "plain.o"), (str(toolchain.cc), "counted.o")):
        subprocess.run([compiler, *words[1:], "-O0", "-g", "-c", source, "-o", name], cwd=folder, check=True)
        found.append(_debug_lines(folder / name))
    plain, counted = found
    report = read_sites(toolchain.folder)
    sites = {(Path(site.file).name, site.line) for found in report.sites.values() for site in found}
    texts = {
        path.name: path.read_text(errors="replace").splitlines()
        for path in folder.rglob("*")
        if path.suffix in _SOURCES
    }
    strange = {place for place in counted - plain - sites if "{" not in texts[place[0]][place[1] - 1]}
    assert len(plain) > 100 < len(sites), report.skipped
    assert plain <= counted, plain - counted
    assert len(strange) < len(counted) / 100, strange


def _debug_lines(binary: Path) -> set[tuple[str, int]]:
    """Return the (file, line) pairs of a binary's line table, those of our own prologue left out."""
    command = ["objdump", "--dwarf=decodedline", str(binary)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^(\S+)\s+(\d+)\s+(?:0x)?[0-9a-f]+\s", text, re.MULTILINE)
    return {(Path(file).name, int(line)) for file, line in found if file != "<unperturbed>"}
