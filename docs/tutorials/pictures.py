"""The pictures of the tutorial: what its blocks show, in a light and a dark window.

    python -m docs.tutorials.pictures [CAMPAIGNS]

CAMPAIGNS holds `quickstart` and `sizes`, as `make docs-pictures` makes them. Chromium draws.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from tests.analysis.report.browser import open_report
from tools.notebook import PAGE, write_recordings
from tools.tutorials import follow
from unperturbed.common.result import Picture

HERE = Path(__file__).parent
_WIDTH, _HEIGHT = 900, 620
_MOST_BYTES = 150_000
_STYLE = """
:root { color-scheme: light dark; font: 15px system-ui, sans-serif; background: Canvas; color: CanvasText; }
body { margin: 12px; } table { border-collapse: collapse; } caption { text-align: left; padding: 4px 8px; }
th, td { padding: 4px 10px; text-align: left; border-bottom: 1px solid color-mix(in srgb, CanvasText 20%, Canvas); }
small { opacity: .7; }
"""


def main() -> None:
    """Run the page and draw each block that a picture follows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("campaigns", type=Path, nargs="?", default=Path("campaigns"))
    campaigns = parser.parse_args().campaigns.resolve()
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "campaigns").symlink_to(campaigns)
        write_recordings(Path(place))
        cells, _ = follow(PAGE, Path(place))
        page = Path(place) / "shown.html"
        for cell in cells:
            if cell.picture:
                _write(cell.values[-1], page)
                for dark, name in ((False, cell.picture), (True, cell.picture.replace(".png", "-dark.png"))):
                    _shoot(page, HERE / name, dark=dark, drawn=isinstance(cell.values[-1], Picture))
                    print(name, f"{(HERE / name).stat().st_size:,} bytes")


def _write(value: Any, path: Path) -> None:
    """Write what a notebook shows of a value as a page."""
    if isinstance(value, Picture):
        value.write_html(path)
    else:
        path.write_text(f"<!DOCTYPE html><meta charset=utf-8><style>{_STYLE}</style>{value._repr_html_()}")


def _shoot(page: Path, path: Path, *, dark: bool, drawn: bool) -> None:
    """Write a picture of a page: as much of a figure as a notebook shows, all of a table."""
    with open_report(page, width=_WIDTH, height=_HEIGHT if drawn else 60, dark=dark) as opened:
        if drawn:
            opened.wait_drawn()
        opened.screenshot(path, whole=not drawn)
    size = path.stat().st_size
    if size > _MOST_BYTES:
        raise SystemExit(f"{path} has {size:,} bytes, more than {_MOST_BYTES:,}")


if __name__ == "__main__":
    main()
