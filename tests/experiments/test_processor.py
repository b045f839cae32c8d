"""Recording everything that needs a processor: refused where it cannot be done, resumed where it was stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.processor import (
    FAILED,
    GOOD,
    HOST_CANNOT,
    PARTS,
    Examination,
    Part,
    Record,
    main,
    run_parts,
)
from unperturbed.harness.host.doctor import Finding

ROOT = Path(__file__).parents[2]
FIT = Examination((Finding("PMU", "good", "there"),), (Finding("processes", "good", "none"),))
NO_PMU = Examination((Finding("PMU", "bad", "no PMU: none", mend="turn it on"),), ())
BUSY = Examination((Finding("PMU", "good", "there"),), (Finding("processes", "note", "other processes use 0.4 CPUs"),))


def part(name: str, text: str = "pass", minutes: int = 1) -> Part:
    return Part(name, f"does {name}", minutes, (f'-c "{text}"',))


def test_a_host_that_does_not_count_begins_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_parts([part("a")], tmp_path / "new", hours=1, look=lambda: NO_PMU) == HOST_CANNOT
    assert "no PMU: none\n    mend it: turn it on" in capsys.readouterr().out
    assert not (tmp_path / "new").exists()


def test_a_busy_host_begins_no_part_and_goes_on_when_it_is_quiet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = iter((FIT, FIT, BUSY))
    assert run_parts([part("a"), part("b")], tmp_path, hours=1, look=lambda: next(looks)) == HOST_CANNOT
    assert "This host is busy, so b was not begun." in capsys.readouterr().out
    assert set(Record(tmp_path).done) == {"a"}
    assert run_parts([part("a", "raise SystemExit(1)"), part("b")], tmp_path, hours=1, look=lambda: FIT) == GOOD
    assert set(Record(tmp_path).done) == {"a", "b"}


def test_a_part_that_fails_is_told_and_the_next_is_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = [part("a", "print('why'); raise SystemExit(2)"), part("b")]
    assert run_parts(parts, tmp_path, hours=1, look=lambda: FIT) == FAILED
    assert f"failed: see {tmp_path / 'a.log'}" in capsys.readouterr().out
    assert "why" in (tmp_path / "a.log").read_text()
    assert set(Record(tmp_path).done) == {"b"}


def test_a_part_that_would_end_too_late_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_parts([part("a"), part("long", minutes=90)], tmp_path, hours=1, look=lambda: FIT) == FAILED
    assert "Left: long." in capsys.readouterr().out


def test_the_parts_fit_two_and_a_half_hours_and_have_what_they_run() -> None:
    assert sum(one.minutes for one in PARTS) <= 150
    for one in PARTS:
        for command in one.commands:
            words = command.split()
            if words[0] == "-m" and words[1].startswith("experiments."):
                assert (ROOT / f"{words[1].replace('.', '/')}.py").is_file()
            elif words[0] != "-m":
                assert (ROOT / words[0]).is_file()


def test_the_list_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--folder", str(tmp_path / "none")]) == GOOD
    head, *rows = capsys.readouterr().out.splitlines()
    assert "recorded on this host" in head
    assert len(rows) == len(PARTS)
    assert all("not yet" in row for row in rows)
    assert not (tmp_path / "none").exists()


def test_the_page_names_every_part_and_its_pages() -> None:
    rows = [line.split("|") for line in (ROOT / "docs/evidence/processor.md").read_text().splitlines() if "|" in line]
    told = {row[1].strip(): row[3] for row in rows[2:]}
    assert list(told) == [one.name for one in PARTS]
    for one in PARTS:
        assert all(page.removesuffix(".md") in told[one.name] for page in one.pages)
