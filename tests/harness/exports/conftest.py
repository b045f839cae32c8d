"""A campaign of generated runs, for exports: four configurations, five runs of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.large_campaign import make


@pytest.fixture(scope="session")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exports") / "generated"
    make(folder, 20, 3, 4, intervals=60)
    return folder
