"""The pictures and gallery pages of the other tutorials: each tutorial is followed, then its pages are opened.

    python -m docs.tutorials.pages [FOLDER]

FOLDER (campaigns/tutorials by default) keeps what the tutorials made, so that a second call only draws. It needs
`campaigns/quickstart`, as `make docs-pictures` makes it. Chromium draws.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.analysis.report.browser import ReportPage, open_report
from tools.tutorials import AFTER, PAGES, ROOT, follow

PICTURES = ROOT / "docs/assets/pictures"
GALLERY = ROOT / "docs/gallery"
_WIDTH, _HEIGHT = 1100, 900
_MOST_BYTES = 150_000
_PLACE = "~/unperturbed"
_PACKED = re.compile(r'(<script[^>]*type="application/gzip"[^>]*>)([^<]*)(</script>)')
_UNPERTURBED = Path(sys.executable).with_name("unperturbed")


class Shot(NamedTuple):
    """A picture: the page that it shows, below the folder, and the first element of it (CSS), or the whole window."""

    name: str
    page: str
    selector: str = ""
    height: int = 0


SHOTS = (
    Shot("trust", "../quickstart/report.html", "#trust", 605),
    Shot("first_answer_trust", "first_answer/campaigns/words/report.html", "#trust", 560),
    Shot("campaign_signals", "campaign/campaigns/compress/report.html", "#signals", 760),
    Shot("alignment", "campaign/align.html", "", 820),
    Shot("subsets", "subsets/campaigns/groups-partition/partition.html", "", 722),
    Shot("diagnosis", "diagnosis/drop.html", "", 820),
    Shot("causal_graph", "causal_model/model.html", "", 820),
    Shot("phases", "phases.html", "", 820),
)

EXHIBITS = {
    "report": "../quickstart/report.html",
    "alignment": "campaign/align.html",
    "partition": "subsets/campaigns/groups-partition/partition.html",
    "diagnosis": "diagnosis/drop.html",
    "phases": "phases.html",
    "causal_model": "causal_model/model.html",
}
"""Pages of the gallery, below the folder."""


def main() -> None:
    """Follow the tutorials that were not followed yet, then draw the pictures and copy the gallery's pages."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "campaigns/tutorials")
    folder = parser.parse_args().folder.resolve()
    for name, page in PAGES.items():
        place = folder / AFTER.get(name, name)
        done = place / f".{name}"
        if not done.exists():
            if name not in AFTER:
                shutil.rmtree(place, ignore_errors=True)
                place.mkdir(parents=True)
            print(f"following {page.name}", flush=True)
            follow(page, place)
            done.touch()
    run = folder.parent / "quickstart/runs/0010"
    subprocess.run(
        [_UNPERTURBED, "structure", run, "--html", folder / "phases.html"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    PICTURES.mkdir(parents=True, exist_ok=True)
    for shot in SHOTS:
        _shoot(shot, folder)
    GALLERY.mkdir(parents=True, exist_ok=True)
    for name, page in EXHIBITS.items():
        (GALLERY / f"{name}.html").write_text(_without_place((folder / page).read_text(encoding="utf-8")))


def _without_place(page: str) -> str:
    """Return a page without the path of this checkout, in its text and in what it keeps compressed."""

    def repacked(block: re.Match[str]) -> str:
        text = gzip.decompress(base64.b64decode(block[2])).decode()
        if str(ROOT) not in text:
            return block[0]
        packed = gzip.compress(text.replace(str(ROOT), _PLACE).encode(), mtime=0)
        return f"{block[1]}{base64.b64encode(packed).decode('ascii')}{block[3]}"

    return _PACKED.sub(repacked, page).replace(str(ROOT), _PLACE)


def _shoot(shot: Shot, folder: Path) -> None:
    for dark in (False, True):
        path = PICTURES / f"{shot.name}{'-dark' if dark else ''}.png"
        with open_report(folder / shot.page, width=_WIDTH, height=_HEIGHT, dark=dark) as page:
            page.wait_drawn()
            path.write_bytes(_picture(page, shot))
        print(f"{path.name}: {path.stat().st_size:,} bytes")
        if path.stat().st_size > _MOST_BYTES:
            raise SystemExit(f"{path} is larger than {_MOST_BYTES:,} bytes")


def _picture(page: ReportPage, shot: Shot) -> bytes:
    """Return a part of the page as PNG: from the element on, as high as the shot says."""
    if shot.selector:
        page.js("document.querySelector(arguments[0]).scrollIntoView()", shot.selector)
        page.wait_drawn()
    top = page.js(
        "return arguments[0] ? document.querySelector(arguments[0]).getBoundingClientRect().top + scrollY : 0",
        shot.selector,
    )
    clip = {"x": 0, "y": top, "width": _WIDTH, "height": shot.height or _HEIGHT, "scale": 1}
    asked = {"captureBeyondViewport": True, "format": "png", "clip": clip}
    return base64.b64decode(page.driver.execute_cdp_cmd("Page.captureScreenshot", asked)["data"])


if __name__ == "__main__":
    main()
