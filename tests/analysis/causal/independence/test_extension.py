"""An independence test of another distribution is selected by its name, and nothing else is touched."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import polars as pl
import pytest

from tests.analysis.causal.lu_campaign import SEVEN, draw
from unperturbed.analysis.causal import independence_tests, learn
from unperturbed.errors import HostError
from unperturbed.harness.cli import main

TOY = '''
import numpy as np
from unperturbed.analysis.causal import IndependenceTest, IndependenceOutcome

class CorrelationTest(IndependenceTest):
    """Pearson correlation, whatever is held fixed."""

    name = "toy_correlation"

    def __init__(self, data, *, alpha, seed):
        self.data, self.alpha = data, alpha

    def test(self, one, other, given=()):
        columns = [
            self.data.codes(name) if self.data.kinds[name] == "discrete" else self.data.values(name)
            for name in (one, other)
        ]
        r = abs(np.corrcoef(columns)[0, 1])
        return IndependenceOutcome(bool(r < 0.5), float(1 - r), float(r))
'''


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A distribution in a temporary folder that offers a test."""
    (tmp_path / "toy_independence.py").write_text(TOY)
    information = tmp_path / "toys-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(
        "[unperturbed.independence_tests]\ntoy_correlation = toy_independence:CorrelationTest\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("toy_independence", None)


def test_the_tests_of_the_room_are_found_by_name() -> None:
    assert {"auto", "kernel", "paper", "regression"} <= set(independence_tests())


def test_another_distributions_test_is_selected_by_name(
    installed: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    frame = draw(1, 120).select(SEVEN)
    with pytest.raises(ValueError, match="toy_correlation"):
        learn(frame, test="toy")
    model = learn(frame, test="toy_correlation", subsamples=0, quantify=False)
    assert model.settings.test == "toy_correlation"
    assert all(one.p_value > 0.5 for one in model.separations if not one.determined)

    table = tmp_path / "runs.csv"
    frame.write_csv(table)
    command = ["model", str(table), "--subsamples", "0"]
    assert main([*command, "--test", "toy_correlation", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["test"] == "toy_correlation"
    with pytest.raises(SystemExit, match="2"):
        main([*command, "--test", "toy_corelation"])
    assert "did you mean toy_correlation" in capsys.readouterr().err


def test_help_lists_the_registered_tests(installed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["model", "--help"])
    assert list(independence_tests())[-1] == "toy_correlation"
    assert ", ".join(independence_tests()) in " ".join(capsys.readouterr().out.split())


def test_a_test_that_cannot_be_loaded_names_its_distribution(installed: Path) -> None:
    (installed / "toy_independence.py").write_text("1 / 0")
    with pytest.raises(HostError, match=r"toy_independence:CorrelationTest of toys .* ZeroDivisionError"):
        learn(pl.DataFrame({"a": [1.0, 2.0, 3.0], "b": [1.0, 3.0, 2.0]}), test="toy_correlation")
