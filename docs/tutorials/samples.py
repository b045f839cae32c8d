"""The sample output of `unperturbed floor` in docs/how-to/noise_floor.md, as a terminal of 80 columns shows it.

    python -m docs.tutorials.samples [FOLDER]

FOLDER (campaigns/samples by default) keeps the campaign, so that a second call only shows its floor again.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

from tools.tutorials import ROOT

PAGE = ROOT / "docs/how-to/noise_floor.md"
_BLOCK = re.compile(r"(?s)(?<=<!-- sample: python -m docs.tutorials.samples -->\n\n```\n).*?(?=```\n)")
_LINES = 40_000


def main() -> None:
    """Measure `sort` against itself and write what the command prints into the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "campaigns/samples")
    folder = parser.parse_args().folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "data").write_text("".join(f"{at * 7919 % _LINES:x}\n" for at in range(_LINES)))
    shown = ["campaigns/sort-floor"] if (folder / "campaigns/sort-floor").exists() else ["--", "sort", "data"]
    done = subprocess.run(
        [Path(sys.executable).with_name("unperturbed"), "floor", *shown],
        cwd=folder,
        env={**os.environ, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), done.stdout), encoding="utf-8")


def written(page: str, printed: str) -> str:
    """Return the page with the printed table in place of the one that it has."""
    table = takewhile(str.strip, printed[printed.index("  total of a run") :].splitlines())
    lines = "".join(f"{line.rstrip()}\n" for line in table)
    new, count = _BLOCK.subn(lambda _: lines, page)
    if count != 1:
        raise SystemExit(f"{PAGE} has no place for the sample")
    return new


if __name__ == "__main__":
    main()
