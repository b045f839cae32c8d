"""Every attack, for so many minutes in all; `make attack MINUTES=60` and `make validate` run it.

::

    python -m tests.attacks --minutes 60 --seed 1 [--write docs/evidence/attacks.md]

Each attack is a module that can be run by itself. `--write` puts what they printed last into a page, between its marks.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from experiments.common.provenance import made_by

_BEGIN, _END = "<!-- figures: made by tests.attacks -->", "<!-- end of figures -->"
_SHARES = {"fuzz": 0.35, "c_readers": 0.1, "killer": 0.3, "surroundings": 0.15, "command_lines": 0.05}
"""Of the time; what is left is the soak's, which has a number of runs and no time."""

_RUNS_A_MINUTE = 10
_SEED, _KILLS, _LINES, _CELLS = 5, 2, 6, 3


def main() -> int:
    """Run the attacks one after another; return 1 when one found a fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, help="a page with marks for the figures")
    parser.add_argument("--slice", action="store_true", help="the few commands of make test, in one process")
    asked = parser.parse_args()
    if asked.slice:
        return run_slice()
    made = made_by()
    os.nice(10)
    wrong, shown = 0, []
    for name, share in _SHARES.items():
        words = [name, "--minutes", f"{share * asked.minutes:g}", "--seed", str(asked.seed)]
        if name in ("killer", "command_lines"):
            words += ["--kills" if name == "killer" else "--count", "1000000"]
        wrong |= _run(words, shown)
    wrong |= _run(["soak", "--runs", str(int(min(10_000, max(200, _RUNS_A_MINUTE * asked.minutes))))], shown)
    if asked.write is not None:
        text = asked.write.read_text()
        before, rest = text.split(_BEGIN)
        asked.write.write_text(f"{before}{_BEGIN}\n\n{made}\n\n{''.join(shown)}{_END}{rest.split(_END)[1]}")
    return wrong


def run_slice() -> int:
    """Run a few of the attacks on whole commands in one process, which loads the tool once; return how many failed."""
    from tests.attacks.command_lines import attack_command_lines
    from tests.attacks.killer import attack_campaigns
    from tests.attacks.surroundings import attack_table

    kept = dict(os.environ)
    killed = attack_campaigns(_KILLS, _SEED)
    faults = list(killed.faults)
    if killed.kills.total() != _KILLS:
        faults.append(f"{killed.kills.total()} kills instead of {_KILLS}")
    os.environ.update(kept)
    codes, wrong = attack_command_lines(_LINES, _SEED)
    faults += wrong
    if codes.total() != _LINES:
        faults.append(f"{codes.total()} command lines instead of {_LINES}")
    os.environ.update(kept)
    if os.geteuid() == 0:  # users and mounts are changed by root only
        faults += attack_table(sample=_CELLS, seed=_SEED).faults
    print("\n".join(faults) or "no faults")
    return len(faults)


def _run(words: list[str], shown: list[str]) -> int:
    """Run one attack, and show what it says as it says it."""
    module, *options = words
    command = f"python -m tests.attacks.{' '.join(words)}"
    print(f"\n== {command}", flush=True)
    started, lines = time.monotonic(), []
    process = subprocess.Popen(
        [sys.executable, "-m", f"tests.attacks.{module}", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        print(line, end="", flush=True)
        lines.append(line[:200].rstrip("\n"))
    process.wait()
    minutes = (time.monotonic() - started) / 60
    text = "\n".join(f"    {line}" for line in lines if not line.startswith("  "))[-8000:]
    shown.append(f"`{command}`, {minutes:.0f} minutes:\n\n{text}\n\n")
    return int(process.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
