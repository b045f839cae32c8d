"""Every compiled function takes read-only arrays, as joblib gives them to the processes of its workers."""

import importlib
import inspect

import numpy as np
import pytest

from unperturbed.analysis import compiling
from unperturbed.analysis.causal.independence.loops import compiled_loop
from unperturbed.harness.cli.warming import warmers

WRITTEN = {
    "swap": {"codes"},
    "gaussian": {"into"},
    "centre": {"columns"},
    "orthonormalise": {"basis"},
    "project_out": {"columns"},
    "cut_lengths": {"lengths"},
    "extend": {"basis", "residual", "kept", "explained"},
    "gains": {"gain", "rank"},
    "scan": {"best"},
    "dense": {"h"},
    "recurring_pairs": {"tokens"},
    "steps": {"matched"},
    "mark_symbols": {"masks"},
}
"""What compiled functions write; they read everything else. Readers of logs have arrays of their own."""


@pytest.fixture
def _fresh():
    compiled_loop.cache_clear()
    yield
    compiled_loop.cache_clear()


@pytest.mark.parametrize("part", warmers())
@pytest.mark.usefixtures("_fresh")
def test_kernels_take_read_only_arrays(part, monkeypatch):
    seen, declare = set(), compiling._declare

    def spy(module, function, *rest):
        kernel = declare(module, function, *rest)
        if ".diagnosis.reading." in module:
            return kernel
        names = list(inspect.signature(getattr(importlib.import_module(module), function)).parameters)

        def call(*arguments):
            seen.add(function)
            return kernel(
                *(
                    value if name in WRITTEN.get(function, ()) else _read_only(value)
                    for name, value in zip(names, arguments, strict=True)
                )
            )

        return call

    monkeypatch.setattr(compiling, "_declare", spy)
    warmers()[part]()
    assert len(seen) >= {"alignment": 3, "structure": 6, "diagnosis": 4, "model": 8}[part]


def _read_only(value):
    if not isinstance(value, np.ndarray):
        return value
    view = value.view()
    view.flags.writeable = False
    return view
