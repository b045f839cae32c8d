"""Builds with counters, whose sites the experiments' tests look at."""

from __future__ import annotations

import pytest

from tests.instrument.wrapper_server import served_wrapper
from unperturbed.instrument.compiler import toolchain


@pytest.fixture
def loaded_wrapper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every toolchain ask a wrapper that is loaded: to load it takes longer than to find a source's sites."""
    monkeypatch.setattr(toolchain, "_python", served_wrapper)
