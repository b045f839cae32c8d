"""`unperturbed cc` by hand: metrics files, counts at a program's end, warnings about metrics without a place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.instrument.conftest import RUNTIME
from unperturbed.collectors.runtime import BOUNDS, runtime_files
from unperturbed.errors import HostError, SpecError
from unperturbed.instrument.compiler.cc import read_metrics, run_compiler
from unperturbed.instrument.events import Event
from unperturbed.instrument.finding.site_log import read_sites

PROGRAM = """\
#include <unistd.h>
#include <sys/wait.h>
static int level;
int work(int n) { level = n; return n; }
int main(void) {
    for (int i = 0; i < 7; i++) work(i);
    if (fork() == 0) return 0;
    wait(0);
    return 0; }
"""


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
        (None, "cannot read the metrics file (No such file"),
        ("software: [", "invalid YAML"),
        ("- 1", "`software:` is missing"),
        (
            "software:\n  f: {entr: f}\n",
            "metrics.yaml:2:3: software metric 'f': unknown key `entr` in an event: use one of",
        ),
        ("software:\n  f: !!python/object/apply:os.getcwd []\n", "invalid YAML"),
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
    with pytest.raises(SpecError, match="the compiler command is missing"):
        run_compiler(metrics, [])
    with pytest.raises(HostError, match="cannot run the compiler no-such-compiler"):
        run_compiler(metrics, ["no-such-compiler", "-c", "x.c"])


def test_a_whole_spec_serves_as_metrics_file(tmp_path: Path) -> None:
    (tmp_path / "x.c").write_text("int f(void) { return 1; }\n")
    spec = tmp_path / "spec.yaml"
    spec.write_text("name: x\nmeasure:\n  software:\n    calls: {enter: f}\n")
    assert run_compiler(spec, ["gcc", "-O2", "-c", str(tmp_path / "x.c"), "-o", str(tmp_path / "x.o")]) == 0
    assert [site.line for site in read_sites(tmp_path / "spec.yaml.toolchain").sites["calls"]] == [1]


def test_every_wrong_event_of_a_metrics_file_is_told_at_its_place(tmp_path):
    metrics = tmp_path / "metrics.yaml"
    metrics.write_text(
        "measure:\n  software:\n    a: {entr: f}\n    b: {enter: f}\n    c: {loop: f, in: g, add: ')'}\n    d:\n"
    )
    with pytest.raises(SpecError) as error:
        read_metrics(metrics)
    lines = str(error.value).splitlines()
    assert [line.partition(": ")[0] for line in lines] == [f"{metrics}:{place}" for place in ("3:5", "5:5", "6:5")]
    assert "did you mean `enter`?" in lines[0]
    assert "`in`: only `call` and `write` events support this filter" in lines[1]
    assert "`add`: ')' is not valid: expected one C expression" in lines[1]
    metrics.write_text("software:\n  b: {enter: f}\n")
    assert read_metrics(metrics) == {"b": Event("enter", "f")}


@pytest.mark.parametrize("sham", [False, True])
def test_a_program_tells_its_counts_once_when_it_is_asked(tmp_path, monkeypatch, capfd, sham):
    monkeypatch.chdir(tmp_path)
    Path("metrics.yaml").write_text(
        "software:\n  works: {enter: work}\n  allocs: {preload: malloc}\n  level: {gauge: level}\n"
    )
    Path("x.c").write_text(PROGRAM)
    metrics = Path("metrics.yaml")
    for command in (["gcc", "-O2", "-c", "x.c"], ["gcc", "x.o", "-o", "prog"]):
        assert run_compiler(metrics, command, runtime=runtime_files(), bounds=BOUNDS, sham=sham) == 0
    (uncounted,) = warnings(capfd)
    assert uncounted.endswith("warning: allocs (preload) is counted only in a campaign, not by `unperturbed cc`")
    for _ in range(2):
        subprocess.run(["./prog"], env={**os.environ, "UNPERTURBED_TOTALS": "totals"}, check=True)
    # Once a run, not by the child that was forked; what is preloaded is not counted by hand.
    assert Path("totals").read_text() == ("works 0\nlevel 6\n" if sham else "works 7\nlevel 6\n") * 2
    quiet = subprocess.run(["./prog"], capture_output=True, check=True)
    assert quiet.stderr == quiet.stdout == b""


def test_metrics_that_count_in_a_campaign_only_are_named_once(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    metrics = Path("metrics.yaml")
    metrics.write_text(
        "software:\n  a: {preload: malloc}\n  b: {python: {enter: m.f}}\n  c: {probe: {uprobe: 'x:f'}}\n  d: "
        "{enter: main}\n"
    )
    Path("x.c").write_text("int main(void) { return 0; }\n")
    for _ in range(2):
        assert run_compiler(metrics, ["gcc", "x.c", "-o", "prog"]) == 0
    (uncounted,) = warnings(capfd)
    assert uncounted.endswith(
        ": a (preload), b (python), c (probe) are counted only in a campaign, not by `unperturbed cc`"
    )
    metrics.write_text("software:\n  a: {preload: malloc}\n")
    assert run_compiler(metrics, ["gcc", "x.c", "-o", "prog"]) == 0
    assert len(warnings(capfd)) == 1, "other metrics are told anew"


@pytest.mark.parametrize(
    ("content", "place", "key", "line"),
    [
        ("software:\n  w: {enter: work}\n  w: {loop: work}\n", "3:3", "w", 2),
        ("software: {}\nname: x\nsoftware: {w: {enter: work}}\n", "3:1", "software", 1),
        ("measure:\n  software:\n    w: {enter: work, enter: f}\n", "3:22", "enter", 3),
    ],
)
def test_a_key_that_stands_twice_is_refused_at_its_place(tmp_path, content, place, key, line):
    metrics = tmp_path / "metrics.yaml"
    metrics.write_text(content)
    with pytest.raises(SpecError) as error:
        read_metrics(metrics)
    assert str(error.value) == f"{metrics}:{place}: duplicate key `{key}` (first on line {line}); remove one of the two"


def test_of_a_lone_source_a_name_that_it_holds_is_not_taken_for_misspelt(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    metrics = Path("metrics.yaml")
    metrics.write_text("software:\n  a: {enter: 'geo::Grid::erase'}\n  b: {enter: 'geo::Grid::putt'}\n")
    Path("x.cc").write_text(
        "namespace geo { struct Grid { void put(); void erase(); }; }\nvoid geo::Grid::put() { erase(); }\n"
    )
    assert run_compiler(metrics, ["g++", "-c", "x.cc"]) == 0
    (warning,) = warnings(capfd)
    assert "enter: geo::Grid::putt`; nearest names: geo::Grid::put; searched x.cc" in warning


def warnings(capfd: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capfd.readouterr().err.splitlines() if line.startswith("unperturbed cc: warning: ")]


def test_a_metric_without_a_place_is_told_once_at_the_link_step(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    metrics = Path("metrics.yaml")
    metrics.write_text("software:\n  a: {enter: wrok}\n  b: {enter: helper}\n  c: {enter: work}\n  d: {enter: qqqqq}\n")
    Path("x.c").write_text(
        "int helper(void);\nint work(void) { return helper(); }\nint main(void) { return work(); }\n"
    )
    Path("y.c").write_text("int helper(void) { return 0; }\n")
    assert run_compiler(metrics, ["gcc", "-c", "x.c"]) == 0
    # Of a lone source only what looks misspelt is told: others may hold the rest.
    (first,) = warnings(capfd)
    assert "software metric 'a': the program has no site for `enter: wrok`; nearest names: work" in first
    assert run_compiler(metrics, ["gcc", "-c", "y.c"]) == 0
    assert warnings(capfd) == []
    assert run_compiler(metrics, ["gcc", "x.o", "y.o", "-o", "prog"]) == 0
    of_a, of_d = warnings(capfd)
    assert "'a'" in of_a
    assert "'d'" in of_d
    assert of_d.endswith("searched x.c, y.c (another source may contain a site)")
    assert run_compiler(metrics, ["gcc", "x.o", "y.o", "-o", "prog"]) == 0
    assert warnings(capfd) == []


def test_what_is_compiled_to_ask_the_compiler_something_gives_no_warning(tmp_path, monkeypatch, capfd):
    metrics = tmp_path / "metrics.yaml"
    metrics.write_text("software:\n  a: {enter: work}\n")
    folder = tmp_path / "CMakeFiles" / "CMakeScratch" / "TryCompile-x"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    Path("CheckFunctionExists.c").write_text("int main(void) { return 0; }\n")
    assert run_compiler(metrics, ["gcc", "CheckFunctionExists.c", "-o", "check"]) == 0
    assert warnings(capfd) == []
    assert read_sites(tmp_path / "metrics.yaml.toolchain").sources == ()


LIBRARIES = sorted(Path("/usr/lib").glob("llvm-*/lib/libclang*.so.1"))


@pytest.mark.parametrize("library", [*LIBRARIES, Path("/nowhere/libclang.so.1")], ids=str)
def test_another_libclang_parses_the_source(tmp_path: Path, library: Path) -> None:
    assert LIBRARIES  # clang's package, which the tests need, has one
    (tmp_path / "metrics.yaml").write_text("software:\n  f: {enter: shape::area}\n  turns: {loop: main}\n")
    (tmp_path / "x.cc").write_text(
        "template <class T> struct shape { T a; auto area() const -> T { return a * a; } };\n"
        "int main() {\n    long sum = 0, sides[] = {1, 2, 3};\n    for (auto n : sides)\n        sum += shape<long>{n}.area();\n"
        "    return sum == 14 ? 0 : 1;\n}\n"
    )
    words = [sys.executable, "-m", "unperturbed.harness.cli", "cc", "--metrics", "metrics.yaml", "--"]
    done = subprocess.run(
        [*words, "g++", "-O2", "x.cc", "-o", "program"],
        cwd=tmp_path,
        env={**os.environ, "UNPERTURBED_LIBCLANG": str(library)},
        capture_output=True,
        text=True,
        check=False,
    )
    if not library.is_file():
        assert done.returncode != 0
        assert f"cannot load libclang: {library}: cannot open shared object file" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    totals = tmp_path / "totals"
    subprocess.run(["./program"], cwd=tmp_path, env={"UNPERTURBED_TOTALS": str(totals)}, check=True)
    assert {"f 3", "turns 3"} <= set(totals.read_text().splitlines())


def test_the_libclang_of_an_environment_is_preferred_to_the_system_s(tmp_path: Path) -> None:
    """As conda has it: the bindings come without a library, which is in the environment's lib."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libclang.so.13").symlink_to(LIBRARIES[0])
    chosen = (
        "import sys; from clang import cindex; cindex.Config.library_path = None; sys.prefix = sys.argv[1]\n"
        "from unperturbed.instrument.finding import preprocessed\n"
        "print(preprocessed._bindings().Config.library_file)"
    )
    plain = {name: value for name, value in os.environ.items() if name != "UNPERTURBED_LIBCLANG"}
    for prefix, expected in ((tmp_path, tmp_path / "lib"), (tmp_path / "lib", LIBRARIES[-1].parent)):
        done = subprocess.run(
            [sys.executable, "-c", chosen, str(prefix)], capture_output=True, text=True, check=False, env=plain
        )
        assert Path(done.stdout.strip()).parent == expected, done.stderr
