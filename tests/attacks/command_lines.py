"""Bad command lines and files: a thousand and more, each with one message, a documented exit code, and no traceback.

::

    python -m tests.attacks.command_lines --count 1000 --seed 1

A line is a command with some of its own options, and with values and files that are wrong: absurd numbers, folders,
pipes and devices for files, names with signs of shells, globs and terminals, and damaged files of every format.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.attacks.mutation import mutate_bytes
from tests.attacks.seeds import csv_tables, imported_files, logs, manifest_file, parquet_file, spec_texts
from tests.attacks.surroundings import CODES, COMMANDS, run_in

__all__ = ["attack_command_lines"]

_VALUES = (
    "", "0", "-1", "1e400", "nan", "inf", "9" * 30, "x", "a=b", "=", "a=", "=b", "a=b=c", ",", ":", "::", "1:2", "-", "--",
    "/dev/null", "/dev/zero", "/dev/full", "/proc", "/proc/self/mem", "/etc/shadow", ".", "..", "/", "~", "nowhere/at/all",
    "a[1]", "*", "?", "{a,b}", "$HOME", "`id`", "$(id)", "'", '"', "a b", "a\nb", "\x1b[2J", "\u202e", "é", "\udcff\udcfe",
    "%s%n", "a" * 300, "a" * 5000, "\t", "\\", "@file", "#", "None", "true", "json", "csv", "parquet", "0007", "baseline",
)  # fmt: skip
_NAMES = ("[x].csv", "a*b.csv", "new\nline.csv", "quote'.csv", 'double".csv', "$HOME.csv", "`id`.csv", "tab\t.csv", "\udcff.csv",
          "\x1b[31m.csv", "-rf.csv", "é.csv", " .csv")  # fmt: skip


def attack_command_lines(
    count: int, seed: int, *, show: bool = False, minutes: float = 1e9
) -> tuple[Counter[int], list[str]]:
    """Run so many bad command lines; return the exit codes, and a sentence for each fault."""
    importlib.import_module("unperturbed.harness.cli")
    chance, codes, faults, began = random.Random(seed), Counter[int](), list[str](), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="attack-") as name:
        folder = Path(name) / "work"
        folder.mkdir()
        os.environ["XDG_CACHE_HOME"] = str(Path(name) / "cache")
        writer = os.fork()  # tables start threads, which this process must not have when it forks
        if not writer:
            _files(folder, chance)
            os._exit(0)
        os.waitpid(writer, 0)
        files = sorted(os.listdir(folder))  # noqa: PTH208  names alone
        options = _options()
        for _ in range(count):
            if time.monotonic() - began > 60 * minutes:
                break
            words = _line(chance, options, files)
            code, said = run_in(folder, words, _limits)
            codes[code] += 1
            if code not in CODES or "Traceback" in said or (code == 2 and not said.strip()):
                faults.append(f"{words!r}: exit code {code}: …{said[-900:]}")
                if show:
                    print(f"  {faults[-1]}", flush=True)
    return codes, faults


def _limits(_folder: Path) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))
    resource.setrlimit(resource.RLIMIT_FSIZE, (50 << 20, 50 << 20))
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))


def _files(folder: Path, chance: random.Random) -> None:
    """Write good and damaged files of every kind, and what is not a file."""
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to("nowhere")
    (folder / "loop").symlink_to("loop")
    (folder / "empty").write_bytes(b"")
    contents = {
        "spec.yaml": spec_texts(),
        "trace.parquet": [parquet_file()],
        "table.csv": csv_tables(),
        "log.txt": [one for some in logs().values() for one in some],
        **{f"{name}.dat": some for name, some in imported_files().items()},
    }
    for name, some in contents.items():
        for number in range(4):
            content = chance.choice(list(some))
            file = folder / f"{number}-{name}"
            file.write_bytes(content if number == 0 else mutate_bytes(content, chance))
    for name in _NAMES:
        (folder / name).write_bytes(csv_tables()[0])
    for number in range(4):
        place = folder / f"campaign-{number}"
        (place / "runs" / "0001").mkdir(parents=True)
        content = manifest_file()
        (place / "campaign.sqlite").write_bytes(content if number == 0 else mutate_bytes(content, chance))
        (place / "runs" / "0001" / "trace.parquet").write_bytes(parquet_file())


def _options() -> dict[str, list[str]]:
    """Return the options that each command has, by its own parser."""
    from unperturbed.harness.cli.commands import all_commands
    from unperturbed.harness.cli.parser import make_parser, prepare_command

    entries = all_commands()
    parser = make_parser(entries)
    found = {}
    for name, entry in entries.items():
        prepare_command(parser.commands[name], entry.load())
        found[name] = [option for action in parser.commands[name]._actions for option in action.option_strings]
    return found


def _line(chance: random.Random, options: dict[str, list[str]], files: Sequence[str]) -> list[str]:
    """Return one command line."""
    # `cc` becomes a compiler; `cache` may clear the user's, which is another one here.
    name = chance.choice([one for one in options if one != "cc"])
    words = [name]
    for _ in range(chance.choice((0, 1, 1, 2, 2, 3, 5))):
        way = chance.random()
        if way < 0.4:
            words.append(chance.choice(files))
        elif way < 0.75 and options[name]:
            option = chance.choice(options[name])
            if option in ("--open",):
                continue
            words.append(option)
            if chance.random() < 0.7:
                words.append(chance.choice((chance.choice(_VALUES), chance.choice(files))))
        elif way < 0.95:
            words.append(chance.choice(_VALUES))
        else:
            words = list(chance.choice(list(COMMANDS.values()))) + words[1:]
            if not words:
                words = [name]
    if chance.random() < 0.1:
        words += ["--", "/bin/true", chance.choice(_VALUES).replace("\0", "")]
    return words


def main() -> int:
    """Run them; return 1 when one ended otherwise than it should."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    codes, faults = attack_command_lines(asked.count, asked.seed, show=True, minutes=asked.minutes)
    print(f"exit codes: {', '.join(f'{code}: {number}' for code, number in sorted(codes.items()))}")
    print(f"{codes.total()} command lines, seed {asked.seed}: {len(faults) or 'no'} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
