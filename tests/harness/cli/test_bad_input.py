"""Bad input, each with one clear message, an exit code, no traceback, and nothing lost."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.phases_campaign import unperturbed, write_spec


def _refused(done: subprocess.CompletedProcess[str], code: int, *said: str) -> None:
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    for text in said:
        assert text in done.stderr


PLAIN: dict[str, Any] = {"measure__software": {}, "campaign__subsets": {}, "analysis__anchor": None}
"""Without software metrics: what these tests are of is found with the first build, or without it."""


def test_no_spec(tmp_path: Path) -> None:
    _refused(unperturbed(tmp_path, "run", "nothing.yaml"), 2, "nothing.yaml")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b"\x00\x01\xff\xfe" * 100, "spec.yaml"),
        (b"name: x\n" + b"# padding\n" * 1_100_000, "spec.yaml"),
        (b"name: x\nname: y\n", "spec.yaml:2:1"),
        (b"nmae: x\n", "spec.yaml:1:1"),
    ],
    ids=["empty", "binary", "10 MB", "duplicate key", "unknown key"],
)
def test_a_spec_that_is_none(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "spec.yaml").write_bytes(content)
    _refused(unperturbed(tmp_path, "run", "spec.yaml"), 2, said)
    assert not (tmp_path / "campaigns").exists()


def test_a_metric_that_nobody_knows_names_the_nearest(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, measure__hardware=["PAPI_TOT_INS", "PAPI_L1_DCMM", "PAPI_TOT_CYC"])
    _refused(unperturbed(tmp_path, "run", spec), 2, "PAPI_L1_DCMM", "PAPI_L1_DCM")
    spec = write_spec(tmp_path, measure__hardware=["PAPI_TOT_INS", "PAPI_L1_DCN", "PAPI_TOT_CYC"])
    _refused(unperturbed(tmp_path, "run", spec), 2, "PAPI_L1_DCN", "did you mean `PAPI_L1_DCM`?")


def test_a_metric_that_cannot_be_counted_here(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, measure__hardware=["PAPI_TOT_INS", "PAPI_TOT_CYC", "PAPI_FP_OPS"])
    _refused(unperturbed(tmp_path, "run", spec), 3, "PAPI_FP_OPS cannot be counted on this host")


def test_an_event_that_perf_does_not_have_is_a_fault_of_the_spec(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, measure__hardware=["PAPI_TOT_INS", "PAPI_TOT_CYC", "perf::page-fautls"])
    done = unperturbed(tmp_path, "run", spec)
    _refused(done, 2, "perf has no event 'page-fautls'; did you mean perf::page-faults")
    place = re.search(r"^unperturbed: (.+):(\d+):(\d+): perf has", done.stderr, re.MULTILINE)
    assert place is not None
    assert spec.read_text().splitlines()[int(place[2]) - 1][int(place[3]) - 1 :].startswith("perf::page-fautls")


def test_no_compiler(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, program__compilers={"cc": "no-such-compiler"})
    _refused(unperturbed(tmp_path, "run", spec), 3, "no compiler 'no-such-compiler'", "apt-get install")


def test_no_valgrind(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for file in Path(folder).iterdir() if Path(folder).is_dir() else ():
            if file.name != "valgrind" and not (tools / file.name).exists():
                (tools / file.name).symlink_to(file)
    spec = write_spec(tmp_path)
    _refused(
        unperturbed(tmp_path, "run", spec, environment={"PATH": str(tools)}),
        3,
        "valgrind is not installed",
        "apt-get install",
    )


def test_a_build_that_fails_shows_the_compilers_last_lines(tmp_path: Path) -> None:
    spec = write_spec(tmp_path)
    source = tmp_path / "phases" / "phases.c"
    source.write_text(source.read_text().replace("found += round;", "found += rond;"))
    _refused(unperturbed(tmp_path, "run", spec), 1, "the build failed with exit code", "rond", "build.log")


def test_a_software_metric_that_matches_nothing_names_the_nearest(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, measure__software={"rounds": {"enter": "begin_round"}, "steps": {"enter": "brnch"}})
    _refused(unperturbed(tmp_path, "run", spec), 2, "steps", "branch")
    # Mending the spec is enough: the folder of a campaign that never ran is begun anew.
    mended = write_spec(tmp_path, **PLAIN, program__run="{build}/phases 1000000", program__timeout="1 s")
    _refused(unperturbed(tmp_path, "run", mended), 1, "did not end within its timeout")


def test_a_program_that_is_missing(tmp_path: Path) -> None:
    _refused(
        unperturbed(tmp_path, "run", write_spec(tmp_path, **PLAIN, program__run="{build}/phase")),
        1,
        "spec.yaml:5:8: {build}/phase: no such program in the build; did you mean phases?",
    )
    # Without a near name, it shows what the build made; without a build, where to look.
    changed = {"program__run": "{build}/other"}
    _refused(
        unperturbed(tmp_path, "run", write_spec(tmp_path, **PLAIN, **changed)),
        1,
        "no such program in the build; executable files in the build: phases",
    )


def test_a_program_that_crashes(tmp_path: Path) -> None:
    spec = write_spec(
        tmp_path, **PLAIN, program__run="sh -c 'echo going down >&2; kill -SEGV $$'", program__shell=False
    )
    _refused(unperturbed(tmp_path, "run", spec), 1, "was killed by SIGSEGV (exit code 139)", "going down")


def test_a_program_that_ends_before_the_first_interval(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, **PLAIN, program__run="{build}/phases 1", measure__interval="2 s")
    _refused(unperturbed(tmp_path, "run", spec), 1, "the pilot run has 0 intervals of", "shorter interval")


def test_a_program_whose_result_changes_from_run_to_run(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, **PLAIN)
    source = tmp_path / "phases" / "phases.c"
    source.write_text(
        source.read_text()
        .replace("#include <stdio.h>", "#include <stdio.h>\n#include <unistd.h>")
        .replace('printf("%ld\\n", found)', 'printf("%ld %d\\n", found, getpid())')
    )
    _refused(unperturbed(tmp_path, "run", spec), 1, "the program's result differs from its result without measurement")


def test_a_result_that_is_not_the_specs(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, **PLAIN, program__output_digest="sha256:" + "0" * 64)
    _refused(unperturbed(tmp_path, "run", spec), 1, "`output_digest` is")


def test_an_input_that_cannot_be_prepared(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, **PLAIN, program__prepare="{python} -c \"raise SystemExit('no corpus here')\"")
    _refused(unperturbed(tmp_path, "run", spec), 1, "`prepare` failed with exit code 1", "no corpus here")


def test_too_many_runs_are_refused_before_anything_is_built(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, campaign__max_runs=5)
    _refused(unperturbed(tmp_path, "run", spec), 2, "the plan has 13 runs, but `max_runs` is 5")
    assert not (tmp_path / "campaigns" / "phases" / "builds").exists()


def test_a_folder_with_a_space_cannot_be_built_in(tmp_path: Path) -> None:
    spec = write_spec(tmp_path)
    _refused(
        unperturbed(tmp_path, "run", spec, "--campaign", tmp_path / "my campaign"),
        2,
        "a compiler with a space in its path",
    )


def test_a_folder_that_is_no_campaign(tmp_path: Path) -> None:
    _refused(unperturbed(tmp_path, "check", tmp_path), 2, "contains no campaign")
    _refused(unperturbed(tmp_path, "report", tmp_path / "nowhere"), 2, "no file or folder")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = (
        os.geteuid() == 0
        and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)], capture_output=True, check=False
        ).returncode
        == 0
    )
    if not mounted:
        pytest.skip("a small file system can be mounted by root only")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk(tmp_path: Path, small_disk: Path) -> None:
    spec = write_spec(tmp_path, **PLAIN)
    _refused(
        unperturbed(tmp_path, "run", spec, "--campaign", small_disk / "c"),
        3,
        "no space left",
        "free disk space and repeat the command",
    )
    shutil.rmtree(small_disk / "c")


def test_help_lists_the_commands_and_exit_codes(tmp_path: Path) -> None:
    done = unperturbed(tmp_path, "--help")
    assert done.returncode == 0
    for text in ("run", "check", "report", "schema", "exit codes"):
        assert text in done.stdout
    assert unperturbed(tmp_path).returncode == 2
    assert unperturbed(tmp_path, "runn").returncode == 2


def test_a_campaign_inside_its_own_source_is_not_copied_into_itself(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, **PLAIN, program__run="{build}/phases 1", measure__interval="2 s")
    inside = tmp_path / "phases" / "campaigns" / "here"
    _refused(unperturbed(tmp_path, "run", spec, "--campaign", inside), 1, "the pilot run has 0 intervals of")
    assert not list(inside.glob("builds/*/src/campaigns/here"))


def test_counters_in_a_library_that_is_not_the_one_loaded(tmp_path: Path) -> None:
    """The build makes an instrumented library, and the program loads an older one, without counters."""
    source = tmp_path / "phases"
    spec = write_spec(
        tmp_path, program__environment={"LD_LIBRARY_PATH": str(tmp_path / "older")}, analysis__anchor=None
    )
    text = (source / "phases.c").read_text()
    head, tail = text.split("static void begin_round")
    body, main = tail.split("int main")
    (source / "work.c").write_text(head.replace("static ", "") + "void begin_round" + body)
    (source / "phases.c").write_text(
        "#include <stdio.h>\n#include <stdlib.h>\nenum { ROUNDS = 60, STEPS = 30000 };\nextern long found;\n"
        "void begin_round(int); void walk(int); void branch(int); void sweep(int);\nint main" + main
    )
    (source / "Makefile").write_text(
        "phases: phases.c work.c\n\t$(CC) -O1 -fPIC -shared -o libwork.so work.c\n\t$(CC) -O1 -o $@ phases.c "
        "-L. -lwork\n"
    )
    (tmp_path / "older").mkdir()
    older = ["gcc", "-O1", "-fPIC", "-shared", "-o", str(tmp_path / "older" / "libwork.so"), str(source / "work.c")]
    subprocess.run(older, check=True)
    subset = {"steps": ["steps", "rounds"]}
    spec = write_spec(
        tmp_path,
        program__environment={"LD_LIBRARY_PATH": str(tmp_path / "older")},
        program__run="{build}/phases 20",
        measure__interval={"records": 60},
        analysis__anchor=None,
        campaign__subsets=subset,
        campaign__seed=3,
    )
    _refused(unperturbed(tmp_path, "run", spec), 2, "the program loaded no instrumented code", "LD_LIBRARY_PATH")


def test_every_software_metric_without_a_place_is_named(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, measure__software={"rounds": {"enter": "begin_rnd"}, "steps": {"enter": "brnch"}})
    _refused(unperturbed(tmp_path, "run", spec), 2, "'rounds'", "'steps'", "begin_round", "branch")


def test_a_campaign_folder_that_cannot_be_made(tmp_path: Path) -> None:
    spec = write_spec(tmp_path)
    (tmp_path / "file").write_text("")
    _refused(unperturbed(tmp_path, "run", spec, "--campaign", tmp_path / "file"), 2, "cannot create the folder")
    _refused(unperturbed(tmp_path, "run", spec, "--campaign", "/proc/x"), 2, "cannot create the folder")
    _refused(unperturbed(tmp_path, "check", spec), 2, "no campaign of this spec in campaigns/phases; run the spec")


def test_a_campaign_that_ended_before_its_first_run_cannot_be_judged(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, program__run="{build}/phase")
    unperturbed(tmp_path, "run", spec)
    for command in ("check", "report"):
        _refused(unperturbed(tmp_path, command, tmp_path / "campaigns" / "phases"), 2, "ended before its first run")


def _limited(folder: Path, limit: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "unperturbed.harness.cli", *words]
    shell = ["sh", "-c", f'trap "" XFSZ; ulimit {limit}; exec "$@"', "sh", *command]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "" if "PYTHONPYCACHEPREFIX" in os.environ else "1"}
    return subprocess.run(shell, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("limit", ["-d 160000", "-d 260000", "-v 200000", "-v 300000"])
def test_too_little_memory_is_one_message_whatever_the_libraries_do(tmp_path: Path, limit: str) -> None:
    (tmp_path / "table.csv").write_text("n,T\n" + "".join(f"{at},{at * at % 7}\n" for at in range(30)))
    _refused(_limited(tmp_path, limit, "model", "table.csv"), 3, "not enough memory: raise the limits")


def test_a_file_that_may_not_grow_is_named_with_what_to_do(tmp_path: Path) -> None:
    spec = write_spec(
        tmp_path,
        **PLAIN | {"analysis__align_on": ["perf::task-clock"]},
        measure__source="perf_event",
        measure__hardware=["perf::task-clock"],
        measure__derived=None,
        measure__interval="8 ms",
    )
    done = _limited(tmp_path, "-f 16", "run", str(spec))
    _refused(done, 3, "campaign.sqlite", "ulimit -f")
    done = _limited(tmp_path, "-f 64", "run", str(spec))
    _refused(done, 3, "record: File too large", "ulimit -f")


@pytest.mark.parametrize(
    "words", [("run", "spec.yaml", "--campaign="), ("run", "--name=", "--", "true"), ("check", "")]
)
def test_an_empty_argument_is_no_folder(tmp_path: Path, words: tuple[str, ...]) -> None:
    _refused(unperturbed(tmp_path, *words), 2, "is empty: give a value (perhaps a shell variable is unset)")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("diagnose", "--process", "9" * 30, "a.log", "b.log"), "does not fit into 64 bits"),
        (("diagnose", "--most-late", "9" * 30, "a.log", "b.log"), "does not fit into 64 bits"),
        (("partition", "--max-runs", "1e308", "spec.yaml"), "'1e308' is not a whole number"),
        (("model", "--subsamples", "9" * 12, "table.csv"), "from 0 to"),
    ],
)
def test_absurd_numbers_are_refused_at_once(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    (tmp_path / "table.csv").write_text("n,T\n" + "".join(f"{at},{at * at % 7}\n" for at in range(30)))
    _refused(unperturbed(tmp_path, *words), 2, said)


def test_a_limit_on_files_leaves_no_broken_modules_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path / "compiled"))
    python = [sys.executable, "-m", "unperturbed.harness.cli"]
    subprocess.run([*python, "--version"], capture_output=True, check=True)  # Python's own modules
    _limited(tmp_path, "-f 16", "list")
    done = subprocess.run([*python, "list"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
