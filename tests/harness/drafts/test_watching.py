"""Trial runs of a command: which program it becomes, which it starts, what it reads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.phases_campaign import unperturbed
from unperturbed.errors import RunError
from unperturbed.harness.drafts.command import Choices, describe_command
from unperturbed.harness.drafts.trial import choose_counted

_WORK = "int main(int argc, char **argv) { volatile long n = 0; while (n < 200000000) n++; return argc == 2 ? 0 : 7; }"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wrapped")
    (folder / "work.c").write_text(_WORK)
    subprocess.run(["gcc", "-O1", "-o", "work", "work.c"], cwd=folder, check=True)
    for name, text in (
        ("shim", 'export WHICH=this\ncd /\nexec "{here}/work" "$@"'),
        ("parent", '"{here}/work" "$@"\nexit 0'),
    ):
        script = folder / name
        script.write_text(f"#!/bin/sh\n{text.format(here=folder)}\n")
        script.chmod(0o755)
    return folder


def _tried(*words: str) -> object:
    return describe_command(words, Choices(stdin="null")).after_trial()


def test_a_script_that_becomes_a_program_is_followed(folder: Path) -> None:
    spec = describe_command([str(folder / "shim"), "one"], Choices(stdin="null")).after_trial()
    assert spec.words == (str(folder / "work"), "one")
    assert spec.environment["WHICH"] == "this"
    assert (spec.name, spec.folder) == ("shim", Path("/"))
    assert f"executes (exec) another program, which is measured: {folder}/work one" in " ".join(spec.remarks())


def test_a_script_that_waits_for_a_program_says_what_to_measure(folder: Path) -> None:
    with pytest.raises(RunError, match=rf"To measure such a program: unperturbed run -- {folder}/work one"):
        _tried(str(folder / "parent"), "one")


def test_a_program_that_waits_is_told_from_one_that_is_short() -> None:
    spec = describe_command(["sleep", "0.3"], Choices(stdin="null"))
    if not spec.hardware.simulated:
        pytest.skip("this processor counts: an interval is of time that passes")
    with pytest.raises(RunError, match=r"of CPU time.* It ran for .* but mostly waited"):
        spec.after_trial()


def test_a_program_that_is_short_needs_more_work_as_a_factor(folder: Path) -> None:
    (folder / "words.txt").write_text("few words\n")
    with pytest.raises(
        RunError, match=r"too short for enough intervals; it needs .*: give it [\d.]+ times as much"
    ) as said:
        _tried("cat", str(folder / "words.txt"))
    assert "(for example, an input " in str(said.value)
    assert "waited" not in str(said.value)


def test_input_that_is_not_there(tmp_path: Path) -> None:
    done = unperturbed(tmp_path, "run", "--input", "nothing", "--", "cat")
    assert done.returncode == 2
    assert "--input nothing: no such file" in done.stderr


def test_piped_input_is_kept_for_every_run(tmp_path: Path) -> None:
    command = f"printf hello | {sys.executable} -m unperturbed.harness.cli run --dry-run -- cat"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.iterdir()), "a dry run writes nothing"
    keep = (
        "from pathlib import Path; from unperturbed.harness.drafts.saving import spool_stdin; "
        f"spool_stdin(print).keep(Path({str(tmp_path / 'kept')!r}))"
    )
    subprocess.run([sys.executable, "-c", keep], input=b"hello" * 50_000, check=True)
    assert (tmp_path / "kept").read_bytes() == b"hello" * 50_000
    spec = describe_command(["cat"], Choices()).reading(tmp_path / "kept")
    assert f"stdin: {tmp_path / 'kept'}" in spec.text("")
    assert spec.reads == f" < {tmp_path / 'kept'}"


def test_what_never_happens_is_not_counted() -> None:
    chosen, left_out = choose_counted({"calls_malloc": 0, "calls_read": 900, "calls_write": 5})
    assert chosen == ("calls_read",)
    assert left_out == "metrics left out: calls_malloc (no events); calls_write: 5 (too few events)"
    assert choose_counted({"calls_malloc": 7, "calls_read": 0})[0] == ("calls_malloc",)
    assert choose_counted({"calls_malloc": 0})[0] == ()


def test_calls_that_a_program_makes_are_chosen_by_a_run_of_it(folder: Path) -> None:
    (folder / "calls.c").write_text(
        "#include <stdlib.h>\n#include <string.h>\nint main(int argc, char **argv) {\n"
        "    volatile long n = 0;\n    if (argc > 5) free(calloc(argc, 1));\n"
        "    for (int i = 0; i < 500; i++) { free(malloc(i + 9000)); for (int k = 0; k < 300000; k++) n++; }\n"
        "    return 0;\n}\n"
    )
    subprocess.run(["gcc", "-O1", "-fno-builtin", "-o", "calls", "calls.c"], cwd=folder, check=True)
    spec = describe_command([str(folder / "calls")], Choices(stdin="null")).after_trial()
    assert dict(spec.calls) == {"calls_malloc": "malloc"}
    assert "metrics left out: calls_calloc (no events)" in " ".join(spec.remarks())
    assert "subsets: {calls: [calls_malloc]}" in spec.text("")


def test_of_a_python_script_its_own_functions_are_counted(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(
        "class A:\n    def one(self):\n        return sum(range(3000))\n\ndef never():\n    pass\n\n"
        "print(sum(A().one() for _ in range(3000)))\n"
    )
    spec = describe_command([sys.executable, str(tmp_path / "work.py")], Choices(stdin="null")).after_trial()
    assert spec.name == "work"  # not the interpreter's, which every script shares
    assert dict(spec.calls) == {"calls_A_one": "__main__.A.one"}
    assert "calls_A_one: {python: {enter: __main__.A.one}}" in spec.text("")


def test_a_program_that_calls_nothing_is_told_what_to_do(folder: Path) -> None:
    spec = describe_command([str(folder / "work"), "one"], Choices(stdin="null")).after_trial()
    assert not spec.calls
    assert "compare and no verdict; count other calls with --count" in " ".join(spec.remarks())
