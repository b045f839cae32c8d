"""Building and running small programs through the wrapper, with a runtime that writes the counters at exit."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from tests.instrument.wrapper_server import serve_wrapper
from unperturbed.common.user_cache import user_cache
from unperturbed.instrument.binaries.places import Place, patch, read_places
from unperturbed.instrument.compiler.toolchain import Toolchain, write_toolchain
from unperturbed.instrument.events import parse_event
from unperturbed.instrument.finding.site_log import SiteReport, read_sites

RUNTIME = Path(__file__).with_name("runtime.c")


@dataclass(frozen=True)
class Workshop:
    """A folder with a toolchain for some metrics, and what is built there."""

    folder: Path
    toolchain: Toolchain
    metrics: tuple[str, ...]

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def call(
        self, *arguments: str, cxx: bool = False, code: int = 0, **options: object
    ) -> subprocess.CompletedProcess[str]:
        """Run the wrapper; its exit code must be `code`."""
        compiler = self.toolchain.cxx if cxx else self.toolchain.cc
        result = subprocess.run(
            [str(compiler), *arguments], cwd=self.folder, capture_output=True, text=True, check=False, **options
        )
        assert result.returncode == code, result.stderr
        return result

    def run(self, program: str = "prog", *arguments: str, code: int = 0) -> tuple[str, dict[str, int]]:
        """Run a program; return its output and its counts."""
        counts = self.folder / "counts"
        counts.unlink(missing_ok=True)
        result = subprocess.run(
            [f"./{program}", *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "COUNTS_FILE": str(counts), "LD_LIBRARY_PATH": "."},
        )
        assert result.returncode == code, result.stderr
        values = [int(line) for line in counts.read_text().split()]
        return result.stdout, dict(zip(self.metrics, values, strict=False))

    def patch(self, file: str, metrics: Iterable[str] | None = None, *, dose: int = 1) -> tuple[Place, ...]:
        """Make a patchable program count some metrics, all by default; return its places."""
        places = read_places(self.folder / file)
        chosen = self.metrics if metrics is None else metrics
        patch(self.folder / file, places, [self.metrics.index(metric) for metric in chosen], dose=dose)
        return places

    @property
    def report(self) -> SiteReport:
        return read_sites(self.toolchain.folder)

    def lines(self, metric: str) -> list[int]:
        """Return the lines of a metric's sites."""
        return [site.line for site in self.report.sites.get(metric, ())]


def own_counts(output: str) -> list[int]:
    """Return what a program counted for itself and printed in lines `own <n>`."""
    return [int(line.split()[1]) for line in output.splitlines() if line.startswith("own ")]


def plain_output(folder: Path, compiler: str, *arguments: str) -> str:
    """Return what a program of one source, the last argument, prints that the compiler built without us."""
    return _plain_output((folder / arguments[-1]).read_text(), compiler, arguments)


@cache
def _plain_output(text: str, compiler: str, arguments: tuple[str, ...]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / arguments[-1]).write_text(text)
        subprocess.run([compiler, *arguments, "-o", "plain"], cwd=folder, check=True)
        return subprocess.run([f"{folder}/plain"], capture_output=True, text=True, check=True, timeout=20).stdout


MakeWorkshop = Callable[..., Workshop]


def keep_answers(cache: Path, known: Path) -> None:
    """Share what a toolchain knows of its compilers, apart from the folders, which decide what the launcher passes over."""
    for place, other in ((cache, known), (known, cache)):
        other.mkdir(exist_ok=True)
        for kind in ("facts", "export", "runtime"):
            for path in place.glob(f"{kind}-*"):
                if not (other / path.name).exists():
                    (other / path.name).hardlink_to(path)


@pytest.fixture(scope="session")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of compilers' answers, which toolchains share."""
    return tmp_path_factory.mktemp("known")


@pytest.fixture
def workshop(tmp_path: Path, known: Path, request: pytest.FixtureRequest) -> Iterator[MakeWorkshop]:
    """Return a function that makes a workshop for `software`: name → event mapping."""
    caches = []

    def make(
        software: Mapping[str, Mapping[str, object]],
        *,
        compilers: Mapping[str, str] | None = None,
        runtime: tuple[Path, ...] = (RUNTIME,),
        bounds: tuple[Path, ...] = (),
        name: str = "work",
        form: str = "counting",
        layouts: bool = False,
        doses: int = 1,
        each: bool = False,
        served: bool = request.path.parent.name != "compiler",
    ) -> Workshop:
        """Make a workshop; unless it is `served`, its wrapper runs as in a build, and knows nothing of the compilers."""
        events = {metric: parse_event(mapping) for metric, mapping in software.items()}
        if each:  # as a campaign with `threads: each` compiles its metrics
            events = {metric: replace(event, threads="each") for metric, event in events.items()}
        folder = tmp_path / name
        folder.mkdir()
        toolchain = write_toolchain(
            tmp_path / f"{name}.toolchain",
            events,
            compilers=compilers or {},
            runtime=runtime,
            bounds=bounds,
            form=form,
            layouts=layouts,
            objects=user_cache() / "objects",
            doses=doses,
        )
        if served:
            serve_wrapper(toolchain)
            caches.append(toolchain.folder / "cache")
            keep_answers(caches[-1], known)
        return Workshop(folder, toolchain, tuple(events))

    yield make
    for each in caches:
        keep_answers(each, known)
