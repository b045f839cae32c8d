"""The slice of the attacks on whole commands that `make test` runs: a few of each, in one process that loads the tool once."""

from __future__ import annotations

import os
import sys

from tests.attacks.command_lines import attack_command_lines
from tests.attacks.killer import attack_campaigns
from tests.attacks.surroundings import attack_table

SEED, KILLS, LINES, CELLS = 5, 2, 12, 4


def main() -> int:
    """Run them; print the faults, and return how many there are."""
    kept = dict(os.environ)
    killed = attack_campaigns(KILLS, SEED)
    faults = list(killed.faults)
    if killed.kills.total() != KILLS:
        faults.append(f"{killed.kills.total()} kills instead of {KILLS}")
    os.environ.update(kept)
    codes, wrong = attack_command_lines(LINES, SEED)
    faults += wrong
    if codes.total() != LINES:
        faults.append(f"{codes.total()} command lines instead of {LINES}")
    os.environ.update(kept)
    if os.geteuid() == 0:  # users and mounts are changed by root only
        faults += attack_table(sample=CELLS, seed=SEED).faults
    print("\n".join(faults) or "no faults")
    return len(faults)


if __name__ == "__main__":
    sys.exit(main())
