"""Programs that are compiled with the runtime in them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from unperturbed.collectors.runtime import BOUNDS, INCLUDE, runtime_files


@pytest.fixture(scope="session")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], list[str]]:
    """Return what is linked before and behind each program, compiled once."""
    folder = tmp_path_factory.mktemp("runtime")
    sources = [BOUNDS[0], *runtime_files(), BOUNDS[1]]
    command = ["gcc", "-std=gnu11", "-O1", "-Wall", "-Werror", "-DUNPERTURBED_EXECUTABLE", "-c"]
    subprocess.run([*command, *map(str, sources)], cwd=folder, check=True)
    objects = [str(folder / f"{source.stem}.o") for source in sources]
    return objects[:1], objects[1:]


@pytest.fixture
def build(tmp_path: Path, runtime: tuple[list[str], list[str]]) -> Callable[..., Path]:
    """Return a function that compiles a program with the runtime in it."""

    def make(text: str, *flags: str, compiler: str = "gcc") -> Path:
        source = tmp_path / ("program.c" if compiler == "gcc" else "program.cc")
        source.write_text(text)
        before, behind = runtime
        command = [
            compiler,
            "-O1",
            f"-I{INCLUDE}",
            *before,
            str(source),
            *behind,
            *flags,
            "-o",
            str(tmp_path / "program"),
        ]
        subprocess.run([*command, "-ldl", "-lrt", "-pthread"], check=True)
        return tmp_path / "program"

    return make
