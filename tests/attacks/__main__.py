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

_BEGIN, _END = "<!-- figures: made by tests.attacks -->", "<!-- end of figures -->"
_SHARES = {"fuzz": 0.35, "c_readers": 0.1, "killer": 0.3, "surroundings": 0.15, "command_lines": 0.05}
"""Of the time; what is left is the soak's, which has a number of runs and no time."""

_RUNS_A_MINUTE = 10
_SHOWN = 60


def main() -> int:
    """Run the attacks one after another; return 1 when one found a fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, help="a page with marks for the figures")
    asked = parser.parse_args()
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
        asked.write.write_text(f"{before}{_BEGIN}\n\n{''.join(shown)}{_END}{rest.split(_END)[1]}")
    return wrong


def _run(words: list[str], shown: list[str]) -> int:
    """Run one attack, and show what it says as it says it."""
    module, *options = words
    command = f"python -m tests.attacks.{' '.join(words)}"
    print(f"\n== {command}", flush=True)
    started, lines = time.monotonic(), []
    process = subprocess.Popen(
        [sys.executable, "-m", f"tests.attacks.{module}", *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
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
