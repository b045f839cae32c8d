from __future__ import annotations

import json
import subprocess

import pytest

from tests.instrument.conftest import RUNTIME
from unperturbed.errors import SpecError
from unperturbed.instrument.compiler.toolchain import write_toolchain
from unperturbed.instrument.events import parse_event
from unperturbed.instrument.finding.site_log import read_sites


def test_compilers_are_single_executable_paths(tmp_path):
    folder = tmp_path / "a folder with spaces"
    toolchain = write_toolchain(folder, {}, compilers={"cc": "gcc -pipe"})
    assert (toolchain.cc, toolchain.cxx, toolchain.folder) == (folder / "cc", folder / "cxx", folder)
    for compiler, name in ((toolchain.cc, "gcc"), (toolchain.cxx, "g++")):
        result = subprocess.run([str(compiler), "--version"], capture_output=True, text=True, check=True)
        assert result.stdout == subprocess.run([name, "--version"], capture_output=True, text=True, check=True).stdout


def test_settings_keep_the_order_of_metrics(tmp_path):
    software = {name: parse_event({"enter": name}) for name in ("b", "a", "c")}
    write_toolchain(tmp_path / "t", software, compilers={}, runtime=[RUNTIME])
    settings = json.loads((tmp_path / "t" / "settings.json").read_text())
    assert [metric["name"] for metric in settings["metrics"]] == ["b", "a", "c"]
    assert settings["runtime"] == [str(RUNTIME)]


def test_a_site_log_lasts_as_long_as_its_settings(tmp_path):
    source = tmp_path / "x.c"
    source.write_text("int f(void) { return 1; }\n")
    folder = tmp_path / "t"

    def build(name: str) -> int:
        toolchain = write_toolchain(folder, {name: parse_event({"enter": "f"})}, compilers={})
        before = len(read_sites(folder).sites)
        subprocess.run([str(toolchain.cc), "-c", "x.c"], cwd=tmp_path, check=True)
        return before

    assert [build("one"), build("one"), build("two")] == [0, 1, 0]
    assert set(read_sites(folder).sites) == {"two"}


def test_wrong_compilers_and_runtimes(tmp_path):
    with pytest.raises(SpecError, match="unknown name 'fc'; use `cc` or `cxx`"):
        write_toolchain(tmp_path, {}, compilers={"fc": "gfortran"})
    with pytest.raises(SpecError, match="`cc` is empty; name a compiler such as gcc"):
        write_toolchain(tmp_path, {}, compilers={"cc": " "})
    with pytest.raises(SpecError, match=r"gone\.c: this source file of Unperturbed's runtime is missing"):
        write_toolchain(tmp_path, {}, compilers={}, runtime=[tmp_path / "gone.c"])


def test_toolchains_share_the_runtimes_objects(tmp_path):
    """The second toolchain compiles no runtime; one for this very processor keeps its objects to itself."""
    (tmp_path / "x.c").write_text("int main(void) { return 0; }\n")
    objects = tmp_path / "objects"
    linked = []
    for number, flags in enumerate(([], [], ["-march=native"])):
        folder = tmp_path / str(number)
        toolchain = write_toolchain(folder, {}, compilers={"cc": "gcc"}, runtime=[RUNTIME], objects=objects)
        subprocess.run([str(toolchain.cc), *flags, "x.c", "-o", "x"], cwd=tmp_path, check=True)
        subprocess.run([str(tmp_path / "x")], check=True)
        linked += (folder / "cache").glob("runtime-*.o")
        if number == 0:
            (kept,) = objects.iterdir()
            kept.write_bytes(kept.read_bytes() + b"kept")
    first, second, third = (path.read_bytes() for path in linked)
    assert second == first + b"kept"
    assert third != second
    assert list(objects.iterdir()) == [kept]
