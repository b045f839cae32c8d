"""The script of "Share an analysis among processes or nodes" is executed as a reader would."""

import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import unperturbed as up
from tests.benchmarks.large_campaign import make

PAGE = Path(__file__).parents[2] / "docs/how-to/many_traces.md"


@pytest.mark.long
def test_the_script_gives_what_this_process_gives(tmp_path):
    script = next(
        text for text in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "def main" in text
    )
    (tmp_path / "analyse.py").write_text(script)
    make(tmp_path / "mine", 24, 5, 3, intervals=80)
    done = subprocess.run(
        [sys.executable, "analyse.py", "mine"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=240
    )
    verdicts = up.check(tmp_path / "mine")
    alignment = up.pairwise([trace for traces in verdicts.traces["main"].values() for trace in traces])
    assert done.stdout.splitlines() == [verdicts.headline(), alignment.headline()]
    assert pl.read_csv(tmp_path / "distances.csv")["distance"].equals(alignment.to_frame()["distance"])
    assert "<html" in (tmp_path / "verdicts.html").read_text()
