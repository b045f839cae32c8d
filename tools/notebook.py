"""Execute the notebook tutorial, on a short campaign of the quickstart's own program and metrics.

The site's build calls `execute`, and fails if a cell fails or shows another text than the page. The tests use the same
folder. The campaign takes about ten seconds of CPU time; it is kept in `.cache/notebook` until the code, the
quickstart or this module changes.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from tools.tutorials import ROOT, Followed, follow
from unperturbed.collectors.data.sweep_table import SweepColumn, write_sweep

PAGE = ROOT / "docs" / "tutorials" / "notebook.md"
QUICKSTART = ROOT / "experiments" / "quickstart"
_CACHE = ROOT / ".cache" / "notebook"
_CODE = ("common", "errors", "collectors", "instrument", "analysis", "harness", "experiments/quickstart")
_SHORTER = {
    "--size 690000": "--size 51000",
    "-b 136": "-b 20",
    "interval: {records: 260}": "interval: {records: 40}",
    "baseline_runs: 10": "baseline_runs: 5",
    "  runs: 5 ": "  runs: 3 ",
    "source: blocksort": f"source: {QUICKSTART / 'blocksort'}",
}
_LEFT_OUT = ("output", "front", "blocks", "buckets", "moves", "places")
"""Subsets and software metrics without which the campaign is short; those of `ties` stay."""

_EVENTS = ("task-clock", "page-faults", "context-switches")
_SHOWN_BY_PERF = """# started on Mon Nov  3 10:00:{run:02d} 2031

"""


def execute() -> Followed:
    """Execute the page's cells; an AssertionError says which failed, or which text differs from the page's."""
    return follow(PAGE, inputs())


def inputs() -> Path:
    """Return a folder with what the page needs: a campaign, a sweep's table, recordings of perf."""
    folder = _CACHE / _key()
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / "lock").open("w") as lock:  # two tests may need it at the same time
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            for old in _CACHE.iterdir():
                if old.is_dir():
                    shutil.rmtree(old)
            place = Path(tempfile.mkdtemp(dir=_CACHE))
            _make(place)
            place.rename(folder)
    return folder


def _key() -> str:
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for folder in _CODE:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(ROOT)}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _make(place: Path) -> None:
    text = (QUICKSTART / "quickstart.yaml").read_text(encoding="utf-8")
    for whole, short in _SHORTER.items():
        if whole not in text:
            raise AssertionError(f"experiments/quickstart/quickstart.yaml no longer has {whole!r}; see {__file__}")
        text = text.replace(whole, short)
    for name in _LEFT_OUT:
        text = re.sub(rf"^    {name}: [\[{{].*\n", "", text, flags=re.MULTILINE)
    (place / "quickstart.yaml").write_text(text, encoding="utf-8")
    command = [Path(sys.executable).with_name("unperturbed"), "run", "quickstart.yaml"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 4):
        raise AssertionError(done.stdout + done.stderr)
    write_recordings(place)
    _write_sweep(place / "campaigns" / "sizes")


def write_recordings(place: Path) -> None:
    """Write what the page has perf record before and after a change; no picture shows it."""
    _write_recordings(place / "base", seed=1, disturbed=False)
    _write_recordings(place / "new", seed=3, disturbed=True)


def _write_recordings(folder: Path, *, seed: int, disturbed: bool) -> None:
    """Write five runs as `perf stat -I 20 -x,` does: three counts that move together, or the last by itself."""
    folder.mkdir()
    chance = np.random.default_rng(seed)
    for run in range(5):
        (folder / f"{run + 1}.csv").write_text(
            _SHOWN_BY_PERF.format(run=run) + "\n".join(_lines(chance, disturbed=disturbed)) + "\n"
        )


def _lines(chance: np.random.Generator, *, disturbed: bool) -> Iterator[str]:
    at = 0.0
    for interval in range(60):
        at += 0.02 + 1e-4 * chance.random()
        phase = np.sin(interval / 4) + 0.3 * chance.normal()
        for place, event in enumerate(_EVENTS):
            own = disturbed and place == len(_EVENTS) - 1
            count = chance.normal() if own else phase * (-1) ** place + 0.3 * chance.normal()
            yield f"{at:.9f},{int(1e6 + 2e5 * count)},,{event},20000000,100.00,,"


def _write_sweep(folder: Path) -> None:
    """Write the table of a sweep: as `unperturbed run` leaves it, with generated counts."""
    chance = np.random.default_rng(1)
    size = np.arange(8, 97, 4)
    compares = 3000 * size + chance.integers(0, 200, len(size))
    lookups = 900 * size + chance.integers(0, 200, len(size))
    instructions = 7 * compares + 12 * lookups + chance.integers(0, 5000, len(size))
    columns = {"size": size, "compares": compares, "lookups": lookups, "PAPI_TOT_INS": instructions}
    described = [SweepColumn(name, "parameter" if name == "size" else "simulated") for name in columns]
    folder.mkdir()
    write_sweep(folder, pl.DataFrame(columns), described, {})
