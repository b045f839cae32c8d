"""Texts that others chose reach no terminal with their controls: names, paths, what a program printed."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.command_server import run_command
from unperturbed.collectors import Metric, Trace
from unperturbed.common.table import Column, Table
from unperturbed.common.wording import visible
from unperturbed.harness.cli.streams import _Output, drawing

CLEAR = "\x1b[2J\x1b]0;title\x07"
"""Clears the screen and names its window."""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("10%\r20%\r\n", "10%\\x0d20%\r\n"),
        ("\u009b31m \u202eright", "\\u009b31m \\u202eright"),
        (os.fsdecode(b"caf\xe9.csv"), "caf\\udce9.csv"),
        ("tab\tend\nü → ✓", "tab\tend\nü → ✓"),
    ],
)
def test_controls_are_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize("text", [CLEAR, os.fsdecode(b"\xff\xfe"), "\u009b\u202e\x7f\r"])
@pytest.mark.parametrize("ascii_alone", [True, False])
def test_json_stays_the_same_json(text: str, ascii_alone: bool) -> None:
    assert json.loads(visible(json.dumps([text], ensure_ascii=ascii_alone))) == [text]


def test_only_what_is_drawn_commands_the_terminal() -> None:
    inner = io.StringIO()
    stream = _Output(inner, BrokenPipeError)
    stream.write(CLEAR)
    drawing(stream).write("\x1b[1m")  # type: ignore[arg-type]
    assert inner.getvalue() == "\\x1b[2J\\x1b]0;title\\x07\x1b[1m"


def test_a_table_has_none() -> None:
    table = Table([Column(f"m{CLEAR}")], [[f"x{CLEAR}"]], CLEAR)
    assert not {"\x1b", "\x07"} & set(table.to_text())


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Return a folder with a table, logs, a trace and a spec whose names are commands of terminals."""
    rows = "\n".join(f"{number},{number * number + 90 * (number % 7)},{number % 5}" for number in range(40))
    (tmp_path / f"t{CLEAR}.csv").write_text(f"a{CLEAR},b{CLEAR},c\n{rows}\n")
    for name, usual in (("good", 3), ("bad", 1)):
        lines = (f"{number * 10} event{CLEAR if number % usual else ''}{number % 2}\n" for number in range(200))
        (tmp_path / f"{name}{CLEAR}.txt").write_text("".join(lines))
    for run in "01":
        trace = Trace.from_columns(
            [Metric(f"m{CLEAR}", "os"), Metric("n", "os")],
            {f"m{CLEAR}": [number % 7 for number in range(60)], "n": range(60)},
            begin_ns=range(60),
            end_ns=range(1, 61),
        )
        trace.write(tmp_path / f"{run}{CLEAR}.parquet")
    (tmp_path / f"s{CLEAR}.yaml").write_text("name: x\n")
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ("model", f"t{CLEAR}.csv", "--inputs", f"a{CLEAR}"),
        ("model", f"t{CLEAR}.csv", "--inputs", f"no{CLEAR}"),
        ("diagnose", "--unit", "us", f"good{CLEAR}.txt", f"bad{CLEAR}.txt"),
        ("align", f"0{CLEAR}.parquet", f"1{CLEAR}.parquet"),
        ("export", f"0{CLEAR}.parquet", "-o", f"o{CLEAR}.csv"),
        ("run", f"s{CLEAR}.yaml"),
        ("check", f"no{CLEAR}"),
        (f"no{CLEAR}",),
    ],
    ids=lambda words: words[0].partition("\x1b")[0],
)
def test_no_command_prints_them(hostile: Path, words: tuple[str, ...]) -> None:
    done = run_command(hostile, list(words))
    printed = done.stdout + done.stderr
    assert "Traceback" not in printed
    assert "\\x1b[2J" in printed
    assert not {"\x1b", "\x07"} & set(printed)


def test_a_terminal_is_coloured_all_the_same(hostile: Path) -> None:
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "unperturbed.harness.cli", "model", f"t{CLEAR}.csv", "--inputs", f"a{CLEAR}"]
    environment = {**os.environ, "TERM": "xterm-256color"}
    with subprocess.Popen(command, cwd=hostile, stdout=terminal, stderr=terminal, env=environment) as process:
        os.close(terminal)
        printed = b""
        while True:
            try:
                printed += os.read(controller, 65536)
            except OSError:  # the other end is closed
                break
    os.close(controller)
    assert process.returncode == 0, printed
    assert b"\x1b[1m" in printed
    assert b"\x1b[2J" not in printed
    assert b"\\x1b[2J" in printed
