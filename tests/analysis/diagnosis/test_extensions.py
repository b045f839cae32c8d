"""Another distribution adds a log format and a kind of anomaly, each by one module and an entry point."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from unperturbed.analysis.diagnosis import anomaly_kinds, diagnose, log_formats, read_events
from unperturbed.errors import DataError
from unperturbed.harness.cli import main
from unperturbed.harness.methods.diagnosis.command import warm

FORMAT = """
import re

from unperturbed.analysis.diagnosis import EventType, PlainFormat


def parse(line):
    if line.startswith("-"):
        return None
    name, at, time = line.rpartition(" @ ")
    if not at:
        raise ValueError("no ` @ ` before the time")
    return int(time), EventType.from_name(name)


class Toy(PlainFormat):
    def compile(self):
        compiled.append(self.name)


compiled = []
FORMAT = Toy(name="toy", meaning="name @ ms", line=re.compile(r".+ @ [0-9]+$"), unit="ms", parse=parse)
"""

KIND = """
from unperturbed.analysis.diagnosis import LogComparison, Finding, Kind


class Silence(Kind):
    name = "silence"
    needs_regular_events = False

    def find(self, comparison):
        longest = max(b - a for a, b in zip(*[comparison.observed.trace.timestamps.tolist()[i:] for i in (0, 1)]))
        if longest < 500:
            return None
        return Finding(
            kind=self.name, summary="nothing was logged", strength={"time": longest}, since=None, plugin="", element="",
            carriers=(), measured=longest, threshold=500, unit="ticks long", floor=None, confidence="full",
        )
"""


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A distribution with a format and a kind, and nothing else changed."""
    (tmp_path / "toy_format.py").write_text(FORMAT)
    (tmp_path / "toy_kind.py").write_text(KIND)
    information = tmp_path / "toys-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(
        "[unperturbed.log_formats]\ntoy = toy_format:FORMAT\n[unperturbed.anomaly_kinds]\nsilence = toy_kind:Silence\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in ("toy_format", "toy_kind"):
        sys.modules.pop(name, None)


def log(folder: Path, name: str, times: list[int]) -> Path:
    path = folder / name
    path.write_text("- a remark\n" + "".join(f"player:frame @ {time}\n" for time in times))
    return path


def test_a_format_of_another_distribution(toys: Path) -> None:
    path = log(toys, "good.log", [5, 25, 45])
    for trace in (read_events(path, format="toy"), read_events(path)):
        assert (trace.unit, trace.timestamps.tolist()) == ("ms", [5, 25, 45])
        assert [(kind.name, kind.plugin) for kind in trace.types] == [("player:frame", "player")]
        assert trace.reading is not None
        assert (trace.reading.format, trace.reading.further_lines) == ("toy", 1)
    path.write_text("a @ 1\nb @ 9\na @ 2\nnoise\n")
    with pytest.raises(DataError, match=r"good\.log:4: no ` @ ` before the time \('noise'\)"):
        read_events(path)
    with pytest.raises(DataError, match="time goes backwards by 7 ms"):
        read_events(path, most_bad=0.5)
    path.write_text(f"a @ 1\nb @ {2**63}\n")
    with pytest.raises(DataError, match="1 of 2 lines contains no event"):
        read_events(path)
    with pytest.raises(DataError, match=r"unknown log format 'toi': did you mean toy\? use .*toy"):
        read_events(path, format="toi")
    assert list(log_formats())[-1] == "toy"


def test_a_format_of_another_distribution_is_compiled_ahead(toys: Path) -> None:
    warm()
    assert sys.modules["toy_format"].compiled == ["toy"]


def test_a_kind_of_another_distribution(toys: Path) -> None:
    assert "silence" in anomaly_kinds()
    good, other = (read_events(log(toys, f"{name}.log", list(range(0, 2000, 20)))) for name in ("good", "other"))
    bad = read_events(log(toys, "bad.log", [*range(0, 1000, 20), *range(2000, 3000, 20)]))
    assert "silence" in [one.kind for one in diagnose([good, other], bad).findings]
    assert "silence" not in [one.kind for one in diagnose([good, other], other).findings]


def test_both_in_the_command(toys: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = str(log(toys, "good.log", list(range(0, 2000, 20))))
    bad = str(log(toys, "bad.log", [*range(0, 1000, 20), *range(2000, 3000, 20)]))
    assert main(["diagnose", good, bad, "--format", "toy"]) == 4
    assert "silence: nothing was logged" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="0"):
        main(["diagnose", "--help"])
    listed = ", ".join(name for name in log_formats() if name != "pattern")
    assert listed.endswith(", toy")
    assert listed in " ".join(capsys.readouterr().out.split())
