"""Completion as it is used: a key pressed in bash, zsh and fish on a terminal, by the scripts that are printed."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.phases_campaign import unperturbed
from unperturbed.harness.cli.commands import all_commands

_SECONDS = 30
_START = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source {script}"),
    "zsh": (["zsh", "-f", "-i"], "fpath=({folder} $fpath); autoload -U compinit; compinit -u -D"),
    "fish": (["fish", "--no-config", "-i"], "source {script}"),
}


@contextmanager
def _terminal(command: list[str], folder: Path) -> Iterator[tuple[Callable[[str], None], Callable[[str], str]]]:
    """Start a shell on a terminal; yield what types and what waits for a text on its screen."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "xterm", "PS1": "> ", "PROMPT": "> "}
        os.execvpe(command[0], command, environment)
    seen = ""

    def send(text: str) -> None:
        os.write(terminal, text.encode())

    def wait_for(pattern: str) -> str:
        nonlocal seen
        ends = time.monotonic() + _SECONDS
        while (found := re.search(pattern, seen)) is None:
            if not select.select([terminal], [], [], max(0, ends - time.monotonic()))[0]:
                raise AssertionError(f"{pattern} is not on the screen: {seen[-2000:]!r}")
            seen += os.read(terminal, 4096).decode(errors="replace")
        seen = seen[found.end() :]
        return found[1]

    try:
        yield send, wait_for
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(terminal)


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completion")
    for shell in _START:
        done = unperturbed(folder, "completion", shell)
        assert done.returncode == 0, done.stderr
        (folder / ("_unperturbed" if shell == "zsh" else f"script.{shell}")).write_text(done.stdout)
    (folder / "spec.yaml").write_text("")
    (folder / "program").write_text("#!/bin/sh\n")
    (folder / "program").chmod(0o755)
    return folder


@pytest.mark.parametrize("shell", _START)
@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("parti", "partition"),
        ("run --dry", "run --dry-run"),
        ("run --progress js", "run --progress json"),
        ("check --method pa", "check --method paper"),
        ("cache wa", "cache warm"),
        ("run spe", "run spec.yaml"),
        ("completion fi", "completion fish"),
        ("run -- ./prog", "run -- ./program"),
    ],
)
def test_a_key_completes_what_was_begun(scripts: Path, shell: str, typed: str, completed: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    command, set_up = _START[shell]
    with _terminal(command, scripts) as (send, wait_for):
        send(set_up.format(script=scripts / f"script.{shell}", folder=scripts) + "; echo re''ady\r")
        wait_for("(ready)")
        expected = ["unperturbed", *completed.split()]
        for seconds in (0.3, 1, 3, 10):  # a shell completes between two keys, and no text on the screen says when
            send(f"unperturbed {typed}\t")
            time.sleep(seconds)
            send("\x01echo com''pleted: \x05 :end\r")
            if (found := wait_for("completed: (.*?) *:end").split()) == expected:
                break
        assert found == expected


def test_every_command_is_offered(scripts: Path) -> None:
    with _terminal(_START["bash"][0], scripts) as (send, wait_for):
        send(f"bind 'set enable-bracketed-paste off'; source {scripts}/script.bash; echo re''ady\r")
        wait_for(r"(?s)(ready).*?> ")  # what is typed before the prompt is shown twice
        send("unperturbed \t\t")
        shown = wait_for(r"(?s)unperturbed (.*)> unperturbed ")
        assert set(shown.replace("\a", "").split()) == set(all_commands())
