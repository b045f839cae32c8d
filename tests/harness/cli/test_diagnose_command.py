"""`unperturbed diagnose` on real logs."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from unperturbed.analysis.diagnosis import anomaly_kinds
from unperturbed.harness.cli import main

PLAYING = Path(__file__).parents[2] / "analysis" / "diagnosis" / "data" / "playing"
REFERENCES = [str(PLAYING / f"reference-{number}.log.gz") for number in range(3)]


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["diagnose", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def log(name: str) -> str:
    return str(PLAYING / f"{name}.log.gz")


def test_a_clean_log(capsys: pytest.CaptureFixture[str]) -> None:
    code, output, _ = run(capsys, *REFERENCES, log("clean-2"))
    assert code == 0
    assert output.startswith("✓ clean")
    assert f"{', '.join(anomaly_kinds())}." in " ".join(output.split())


def test_an_anomaly_is_told_and_is_exit_code_4(capsys: pytest.CaptureFixture[str]) -> None:
    code, output, _ = run(capsys, *REFERENCES, log("offset-500"))
    assert code == 4
    assert "desynchronisation: speaker is late relative to screen" in output
    assert re.search(r"50[12] ms apart; threshold 30 ms; maximum between references \d+ ms", output)
    assert "element speaker" in output


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, output, _ = run(capsys, *REFERENCES, log("drop-picture-0.3"), "--all", "--json")
    told = json.loads(output)
    assert code == 4
    assert told["verdict"] == "anomalous"
    assert [one["kind"] for one in told["findings"]] == ["lost events"]
    assert [one["name"] for one in told["distances"]] == ["dropping", "occurrence", "temporal", "mannila"]


def test_one_named_distance_and_the_kinds_that_stand_on_it(capsys: pytest.CaptureFixture[str]) -> None:
    code, output, _ = run(capsys, *REFERENCES, log("error-after-coded-0.9"), "--distance", "dropping")
    assert code == 4
    assert "dropping distance from the first reference" in output
    assert "crash or truncation" in output
    code, output, _ = run(capsys, *REFERENCES, log("offset-500"), "--distance", "temporal")
    assert (code, "Searched for: slow streaming, slow phase" in output) == (0, True)


def test_the_papers_own_rule(capsys: pytest.CaptureFixture[str]) -> None:
    code, output, _ = run(capsys, REFERENCES[0], REFERENCES[1], "--find", "--method", "paper")
    assert code == 4, "two clean runs are never at temporal distance 0"
    assert "temporal distance" in output
    code, _, _ = run(capsys, REFERENCES[0], REFERENCES[0], "--find", "--method", "paper")
    assert code == 0


def test_find_stops_at_the_first(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, output, _ = run(capsys, *REFERENCES, log("error-after-coded-0.9"), "--find")
    assert code == 4
    assert "crash or truncation" in output


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ([REFERENCES[0]], "give at least one log of a good run"),
        ([REFERENCES[0], "nowhere.log"], "nowhere.log"),
        ([*REFERENCES, "--theta", "2"], "give a ratio from 0 to 1"),
        ([*REFERENCES, "--method", "paper"], "needs a choice of distances: add --distance"),
        ([*REFERENCES, "--identity", "colour"], "`identity` cannot contain colour"),
        (["-", "-"], "standard input can be only one of the logs"),
        ([*REFERENCES, REFERENCES[0], REFERENCES[0]], "is given twice as a reference"),
        ([*REFERENCES, REFERENCES[0], "--html", "/nowhere/page.html"], "the folder /nowhere does not exist"),
        ([*REFERENCES, "--columns", "when"], "write PART=COLUMN pairs, separated by commas, as in time=when,name=what"),
        (
            [*REFERENCES, "--pattern", "x", "--format", "csv"],
            "--pattern defines a format: use --pattern without --format",
        ),
        ([*REFERENCES, "--theta", "0.5"], "--theta needs the occurrence distance"),
    ],
)
def test_wrong_usage_is_exit_code_2(capsys: pytest.CaptureFixture[str], words: list[str], fault: str) -> None:
    code, _, error = run(capsys, *words)
    assert code == 2
    assert fault in error


def test_logs_that_do_not_go_together_are_exit_code_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    other = tmp_path / "simple.log"
    other.write_text("".join(f"{number * 1000} player:show\n" for number in range(100)))
    code, _, error = run(capsys, *REFERENCES, str(other))
    assert (code, "give traces in the same unit" in error) == (2, True)
    empty = tmp_path / "empty.log"
    empty.write_text("")
    code, _, error = run(capsys, *REFERENCES, str(empty))
    assert code == 2
    backwards = tmp_path / "backwards.log"
    lines = gzip.decompress(Path(REFERENCES[0]).read_bytes()).decode().splitlines(keepends=True)
    backwards.write_text("".join([*lines[:2000], *lines[1000:2000]]))
    code, _, error = run(capsys, *REFERENCES, str(backwards))
    assert code == 2
    assert "backwards" in error


def test_other_formats_are_read_from_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = [(at * 20_000 + (at > 90) * 400_000, "beat") for at in range(200)]
    for name, late in (("good-1", 0), ("good-2", 0), ("late", 1)):
        moments = [at if late else number * 20_000 for number, (at, _) in enumerate(rows)]
        (tmp_path / f"{name}.csv").write_text("when\twhat\twho\n" + "".join(f"{at}\tbeat\tdrum\n" for at in moments))
        (tmp_path / f"{name}.txt").write_text("".join(f"[{at}] drum/beat\n" for at in moments))
    tables = [str(tmp_path / f"{name}.csv") for name in ("good-1", "good-2", "late")]
    code, output, _ = run(capsys, *tables, "--unit", "us", "--columns", "time=when,name=what,plugin=who")
    assert (code, "slow streaming" in output, "plugin drum" in output) == (4, True, True)
    texts = [str(tmp_path / f"{name}.txt") for name in ("good-1", "good-2", "late")]
    pattern = r"^\[(?P<time>\d+)\] (?P<plugin>\w+)/(?P<name>\w+)"
    code, output, _ = run(capsys, *texts, "--unit", "us", "--pattern", pattern)
    assert (code, "slow streaming" in output) == (4, True)


def test_thresholds_are_fitted_and_used(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    labels = {
        "reference-0": "reference",
        "reference-1": "reference",
        "clean-2": "clean",
        "offset-500": "desynchronisation",
    }
    rows = [f"{name}.log.gz,avi,{label}" for name, label in labels.items()]
    (tmp_path / "labels.csv").write_text("\n".join(["log,group,label", *rows]))
    for name in labels:
        (tmp_path / f"{name}.log.gz").symlink_to(log(name))
    code, output, _ = run(capsys, "--calibrate", str(tmp_path))
    assert code == 0
    assert "desynchronisation" in output
    fitted = json.loads((tmp_path / "thresholds.json").read_text())
    assert set(fitted) == {name for name, kind in anomaly_kinds().items() if kind.is_fittable}
    assert set(fitted) >= {"lost events", "desynchronisation", "slow streaming", "slow phase"}
    (tmp_path / "blunt.json").write_text(json.dumps({"desynchronisation": 100}))
    assert run(capsys, *REFERENCES, log("offset-500"), "--thresholds", str(tmp_path / "thresholds.json"))[0] == 4
    assert run(capsys, *REFERENCES, log("offset-500"), "--thresholds", str(tmp_path / "blunt.json"))[0] == 0
    (tmp_path / "labels.csv").write_text("log,group\n")
    code, _, error = run(capsys, "--calibrate", str(tmp_path))
    assert (code, "no column label" in error) == (2, True)
    assert run(capsys, "--calibrate", str(tmp_path), log("clean-2"))[0] == 2
    assert run(capsys, *REFERENCES, "--thresholds", str(tmp_path / "labels.csv"))[0] == 2
