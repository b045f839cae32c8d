"""The output and the picture of docs/how-to/choose_metrics.md, as a terminal of 90 columns and Chromium show them.

    python -m docs.tutorials.choosing [FOLDER]

FOLDER (campaigns/choosing by default) keeps the campaigns, so that a second call only analyses them again.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from experiments.common.provenance import made_by
from tests.analysis.report.browser import open_report
from tools.tutorials import ROOT

PAGE = ROOT / "docs/how-to/choose_metrics.md"
PICTURES = ROOT / "docs/assets/pictures"
_BLOCK = re.compile(r"(?s)<!-- sample: (?P<command>unperturbed [^\n]*) -->\n\n```\n.*?```\n")
_MADE = re.compile(r"^Made by `python .*$", re.MULTILINE)
_HTML = "choice.html"
_WIDTH, _HEIGHT, _MOST_BYTES = 900, 930, 150_000
_FIGURE = "document.getElementById('choice-tree').scrollIntoView(); window.scrollBy(0, -60)"


def main() -> None:
    """Run the page's commands, and write what they print, and the dendrogram, into the documentation."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "campaigns/choosing")
    folder = parser.parse_args().folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    made = made_by()
    if not (folder / "experiments").exists():
        (folder / "experiments").symlink_to(ROOT / "experiments")
    for name in ("choose", "chosen"):
        _printed(folder, f"unperturbed run experiments/quickstart/{name}.yaml --quiet")
    page = PAGE.read_text(encoding="utf-8")
    filled = _BLOCK.sub(lambda block: _filled(folder, block["command"]), page)
    PAGE.write_text(_MADE.sub(lambda _: made, filled), encoding="utf-8")
    for dark, name in ((False, "choice.png"), (True, "choice-dark.png")):
        with open_report(folder / _HTML, width=_WIDTH, height=_HEIGHT, dark=dark) as opened:
            opened.wait_drawn()
            opened.js(_FIGURE)
            opened.screenshot(PICTURES / name)
        if (PICTURES / name).stat().st_size > _MOST_BYTES:
            raise SystemExit(f"{PICTURES / name} is larger than {_MOST_BYTES:,} bytes")


def _filled(folder: Path, command: str) -> str:
    lines = "".join(f"{line.rstrip()}\n" for line in _printed(folder, command).splitlines()).strip("\n")
    return f"<!-- sample: {command} -->\n\n```\n{lines}\n```\n"


def _printed(folder: Path, command: str) -> str:
    """Return what a command prints; it may find that its choice does not predict all metrics."""
    program, *words = shlex.split(command)
    done = subprocess.run(
        [Path(sys.executable).with_name(program), *words],
        cwd=folder,
        env={**os.environ, "COLUMNS": "90"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 4):
        raise SystemExit(done.stderr)
    return done.stdout.replace(f"{folder}/", "")


if __name__ == "__main__":
    main()
