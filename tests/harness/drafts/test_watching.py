"""Trial runs of a command: which program it becomes, which it starts, what it reads."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness.phases_campaign import unperturbed
from unperturbed.common.scratch import scratch_folder
from unperturbed.errors import RunError
from unperturbed.harness.drafts import trial
from unperturbed.harness.drafts.command import Choices, describe_command
from unperturbed.harness.drafts.trial import choose_counted

_WORK = "int main(int argc, char **argv) { volatile long n = 0; while (n < 200000000) n++; return argc == 2 ? 0 : 7; }"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wrapped")
    for name, text in (("work", _WORK), ("sleeps", "#include <unistd.h>\nint main(void) { return usleep(300000); }")):
        (folder / f"{name}.c").write_text(text)
        subprocess.run(["gcc", "-O1", "-o", name, f"{name}.c"], cwd=folder, check=True)
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


def test_the_work_of_all_processes_is_that_of_the_program(folder: Path) -> None:
    spec = describe_command([str(folder / "parent"), "one"], Choices(stdin="null")).after_trial()
    assert spec.words == ("/bin/sh", str(folder / "parent"), "one")
    assert not any("exec" in remark for remark in spec.remarks())


def test_a_program_that_waits_is_told_from_one_that_is_short(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr("unperturbed.harness.drafts.command.finest_quantum", lambda: 100_000)
    # On a busy host, starting it takes up to 6 ms of CPU time.
    monkeypatch.setattr("unperturbed.harness.drafts.command._LEAST_SIMULATED_S", 0.05)
    spec = describe_command([str(folder / "sleeps")], Choices(stdin="null"))
    if not spec.hardware.simulated:
        pytest.skip("this processor counts: an interval is of time that passes")
    with pytest.raises(RunError, match=r"of CPU time, which is too short .* It ran for .* but mostly waited"):
        spec.after_trial()


_MORE = "2.9 times as much work (for example, an input 2.9 times as large)."
_WAITED = " It ran for 0.0061 s but mostly waited, perhaps for a processor: simulated counters see only its own work."


def test_starting_a_process_is_no_work_of_the_program(folder: Path) -> None:
    spec = describe_command([str(folder / "sleeps")], Choices(stdin="null"))
    with scratch_folder("trial") as place:
        run = trial._run_once(spec, place, print)
    (own,) = trial._without_starting([run])
    assert own.processor_s < run.processor_s
    assert own.seconds == run.seconds


@pytest.mark.parametrize(
    ("simulated", "quantum", "processor_s", "seconds", "said"),
    [
        (True, 100_000, 0.0019, 0.002, f"0.0019 s of CPU time, BUT (0.0050 s of CPU time or more): give {_MORE}"),
        (
            True,
            100_000,
            0.0019,
            0.0061,
            f"0.0019 s of CPU time, BUT (0.0050 s of CPU time or more): give {_MORE}{_WAITED}",
        ),
        (
            True,
            100_000,
            0.0047,
            0.0051,
            "(0.0050 s of CPU time or more): give 1.2 times as much work (for example, an input 1.2 times as large).",
        ),
        (True, 100_000, 0.0051, 0.02, ""),
        (True, 20_000, 0.0019, 0.002, ""),
        (True, 20_000, 0.0009, 0.0009, "0.00090 s of CPU time, BUT (0.0010 s of CPU time or more): give 1.3"),
        (False, 20_000, 0.0001, 0.0038, f"0.0038 s, BUT (0.010 s or more): give {_MORE}"),
        (False, 20_000, 0.0001, 0.011, ""),
    ],
)
def test_a_short_program_is_told_how_many_times_as_much_work_it_needs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    simulated: bool,
    quantum: int,
    processor_s: float,
    seconds: float,
    said: str,
) -> None:
    monkeypatch.setattr("unperturbed.harness.drafts.command.finest_quantum", lambda: quantum)
    (tmp_path / "words.txt").touch()
    spec = describe_command(["cat", str(tmp_path / "words.txt")], Choices(stdin="null"))
    spec = replace(spec, hardware=replace(spec.hardware, simulated=simulated))
    longer = trial._Once(seconds, processor_s, 0, "", "", trial.Watched(None), {})
    runs = [longer, replace(longer, seconds=0.9 * seconds, processor_s=0.9 * processor_s)]
    if not said:
        trial._require_length(spec, runs)
        return
    with pytest.raises(RunError) as refused:
        trial._require_length(spec, runs)
    said = said.replace("BUT", "which is too short for enough intervals").replace("give", "give the program at least")
    assert said in str(refused.value)
    assert ("mostly waited" in str(refused.value)) == ("mostly waited" in said)


def test_a_program_that_reads_no_input_is_asked_for_more_work_only(folder: Path) -> None:
    spec = describe_command([str(folder / "work"), "10000"], Choices(stdin="null"))
    run = trial._Once(0.001, 0.001, 3, "", "It wrote nothing.", trial.Watched(None), {})
    with pytest.raises(RunError, match=r"times as much work\.$") as refused:
        trial._require_length(spec, [run, run])
    assert "work 10000: it ended with exit code 3. It wrote nothing. It takes 0.0010 s" in str(refused.value)


def test_no_factor_rests_on_the_start_of_a_process(folder: Path) -> None:
    spec = describe_command([str(folder / "work"), "10000"], Choices(stdin="null"))
    run = trial._Once(0.0004, 0.0004, 0, "", "", trial.Watched(None), {})
    with pytest.raises(RunError, match="much more work, because most of this time is the start of the process"):
        trial._require_length(spec, [run, run])


def test_a_file_that_grows_from_run_to_run_is_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for mode, said in (("a", ["log.txt"]), ("w", [])):
        lines = 'for (int i = 0; i < 100; i++) fputs("line\\n", file);'
        work = "volatile long n = 0; while (n < 200000000) n++;"
        (tmp_path / "keeps.c").write_text(
            f'#include <stdio.h>\nint main(void) {{ FILE *file = fopen("log.txt", "{mode}"); {lines} fclose(file); '
            f"{work} return 0; }}\n"
        )
        subprocess.run(["gcc", "-O1", "-o", "keeps", "keeps.c"], cwd=tmp_path, check=True)
        spec = describe_command([str(tmp_path / "keeps")], Choices(stdin="null")).after_trial()
        notes = [remark for remark in spec.remarks() if "bytes after one run" in remark]
        assert [remark.partition(" in ")[0] for remark in notes] == said
        if notes:
            assert f"log.txt in {tmp_path} has 500 bytes after one run and 1,000 bytes after another" in notes[0]
            assert 'set `working_folder: "{scratch}"` in the spec' in notes[0]


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
