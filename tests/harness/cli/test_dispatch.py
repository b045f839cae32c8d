"""Commands are found by themselves: a module in a room, or an entry point of another distribution."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.common.distribution import write_distribution
from tests.harness.phases_campaign import unperturbed
from unperturbed.harness.cli.commands import ROOMS, commands_in
from unperturbed.harness.cli.parser import make_parser

GREET = """
import os, signal, time
class Greet:
    resumable = True
    def prepare_parser(self, parser):
        parser.add_argument("name")
    def run(self, arguments):
        print("hello", arguments.name)
        if arguments.name == "nobody":
            raise KeyboardInterrupt
        if arguments.name == "a library":
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                raise ValueError("in place of the interrupt") from None
        if arguments.name == "a finalizer":
            class Closed:
                def __del__(self):
                    os.kill(os.getpid(), signal.SIGTERM)
            class Half:
                def __del__(self):
                    self.never_made
            half = Half()
            Closed()
            time.sleep(60)
        return 4
"""


def test_a_command_of_another_distribution(tmp_path: Path) -> None:
    write_distribution(tmp_path, "unperturbed.commands", GREET, greet="Greet")
    environment = {"PYTHONPATH": str(tmp_path)}
    shown = unperturbed(tmp_path, "--help", environment=environment).stdout
    assert re.search(r"^commands of other distributions:\n  greet +from toys 1\.0$", shown, re.MULTILINE)
    done = unperturbed(tmp_path, "greet", "world", environment=environment)
    assert (done.returncode, done.stdout) == (4, "hello world\n")
    stopped = unperturbed(tmp_path, "greet", "nobody", environment=environment)
    assert stopped.returncode == 130
    assert "finished runs are kept" in stopped.stderr
    replaced = unperturbed(tmp_path, "greet", "a library", environment=environment)
    assert (replaced.returncode, "Traceback" in replaced.stderr) == (130, False)
    ignored = unperturbed(tmp_path, "greet", "a finalizer", environment=environment)
    assert (ignored.returncode, ignored.stderr.splitlines()) == (130, ["", stopped.stderr.splitlines()[-1]])
    assert unperturbed(tmp_path, "greet", environment=environment).returncode == 2
    assert unperturbed(tmp_path, "schema", environment=environment).returncode == 0


def test_a_command_cannot_take_the_name_of_another(tmp_path: Path) -> None:
    write_distribution(tmp_path, "unperturbed.commands", GREET, run="Greet")
    done = unperturbed(tmp_path, "--help", environment={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 3
    assert "toys 1.0 adds a command run, but unperturbed has a command of this name" in done.stderr


def test_a_module_in_a_room_is_a_command_and_its_first_line_is_the_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = tmp_path / "room"
    room.mkdir()
    (room / "__init__.py").write_text("")
    (room / "_shared.py").write_text("raise AssertionError\n")
    (room / "import_.py").write_text(f'"""Import something."""\n{GREET.replace("Greet", "Command")}')
    monkeypatch.syspath_prepend(str(tmp_path))
    entries = dict(commands_in("room", "toys"))
    assert "room.import_" not in sys.modules
    assert "toys:\n  import  Import something\n" in make_parser(entries).format_help()
    assert type(entries["import"].load()).__module__ == "room.import_"


@pytest.mark.parametrize("room", ROOMS)
def test_every_command_has_its_line_of_help_and_a_class(room: str) -> None:
    entries = dict(commands_in(f"unperturbed.harness.cli.{room}", room))
    assert entries
    for name, entry in entries.items():
        assert 10 < len(entry.help) <= 100, name
        assert entry.help[0].isupper() and not entry.help.endswith((".", '"')), name
        assert entry.load().run.__doc__, name
