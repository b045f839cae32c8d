from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from unperturbed.errors import HostError, SpecError
from unperturbed.instrument.events import parse_event
from unperturbed.instrument.toolchain import read_sites, run_compiler, write_toolchain

from .conftest import RUNTIME


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
    with pytest.raises(SpecError, match="unknown name 'fc'; there are cc and cxx"):
        write_toolchain(tmp_path, {}, compilers={"fc": "gfortran"})
    with pytest.raises(SpecError, match="cc is empty; name a compiler such as gcc"):
        write_toolchain(tmp_path, {}, compilers={"cc": " "})
    with pytest.raises(SpecError, match=r"gone\.c: the runtime's source is missing"):
        write_toolchain(tmp_path, {}, compilers={}, runtime=[tmp_path / "gone.c"])


def test_one_command_with_a_metrics_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    metrics = tmp_path / "metrics.yaml"
    metrics.write_text("software:\n  f: {enter: f, add: n}\n")
    (tmp_path / "x.c").write_text("int f(int n) { return n; }\nint main(void) { return f(2) + f(3); }\n")
    assert run_compiler(metrics, ["gcc", "-O2", "x.c", "-o", "prog"], runtime=[RUNTIME]) == 0
    monkeypatch.setenv("COUNTS_FILE", str(tmp_path / "counts"))
    assert subprocess.run([str(tmp_path / "prog")], check=False).returncode == 5
    assert (tmp_path / "counts").read_text().split()[0] == "5"
    assert [site.line for site in read_sites(tmp_path / "metrics.yaml.toolchain").sites["f"]] == [1]
    assert run_compiler(metrics, ["gcc", "-c", "none.c"]) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "the metrics file cannot be read (No such file"),
        ("software: [", "this is no YAML"),
        ("- 1", "there is no mapping `software:` in it"),
        ("software:\n  f: {entr: f}\n", "software: f: unknown key 'entr' in an event; did you mean 'enter'?"),
        ("software:\n  f: !!python/object/apply:os.getcwd []\n", "this is no YAML"),
    ],
)
def test_wrong_metrics_files(tmp_path, content, message):
    metrics = tmp_path / "metrics.yaml"
    if content is not None:
        metrics.write_text(content)
    with pytest.raises(SpecError) as error:
        run_compiler(metrics, ["gcc", "-c", "x.c"])
    assert message in str(error.value)


def test_wrong_commands(tmp_path):
    metrics = tmp_path / "metrics.yaml"
    metrics.write_text("software: {}\n")
    with pytest.raises(SpecError, match="no compiler command is given"):
        run_compiler(metrics, [])
    with pytest.raises(HostError, match="the compiler no-such-compiler cannot be run"):
        run_compiler(metrics, ["no-such-compiler", "-c", "x.c"])


def test_a_whole_spec_serves_as_metrics_file(tmp_path: Path) -> None:
    (tmp_path / "x.c").write_text("int f(void) { return 1; }\n")
    spec = tmp_path / "spec.yaml"
    spec.write_text("name: x\nmeasure:\n  software:\n    calls: {enter: f}\n")
    assert run_compiler(spec, ["gcc", "-O2", "-c", str(tmp_path / "x.c"), "-o", str(tmp_path / "x.o")]) == 0
    assert [site.line for site in read_sites(tmp_path / "spec.yaml.toolchain").sites["calls"]] == [1]
