"""The public library surface: names and signatures that outside code relies on."""

from __future__ import annotations

import importlib
import inspect

import pytest

SURFACE = {
    "unperturbed": "load open_campaign Campaign Trace Baseline check align merge dtw pairwise partition diagnose "
    "structure learn Knowledge read_trace read_events read_sweep read_traces read_perf_stat __version__",
    "unperturbed.collectors": "Trace Metric",
    "unperturbed.analysis.alignment": "dtw anchored_dtw WarpPath distance_matrix milestone_scores align merge",
    "unperturbed.analysis.perturbation": "Baseline",
    "unperturbed.analysis.partition": "partition Plan",
    "unperturbed.analysis.diagnosis": "EventTrace read_events occurrence_distance dropping_distance temporal_distance "
    "normalize diagnose",
    "unperturbed.analysis.structure": "structural_sequence indel_distances kernel Kernel decompose Decomposition "
    "learn_dictionary",
    "unperturbed.analysis.causal": "learn Knowledge CausalModel",
    "unperturbed.errors": "UnperturbedError SpecError DataError HostError RunError",
}

PARAMETERS = {
    ("unperturbed.analysis.alignment", "dtw"): ["x", "y", "penalty", "band"],
    ("unperturbed.analysis.alignment", "anchored_dtw"): ["x", "y", "anchors"],
    ("unperturbed.analysis.alignment", "distance_matrix"): ["series"],
    ("unperturbed.analysis.alignment", "milestone_scores"): ["path", "milestones_x", "milestones_y"],
    ("unperturbed.analysis.partition", "partition"): ["metrics", "measure", "baseline"],
    ("unperturbed.analysis.structure", "kernel"): ["distances", "power"],
    ("unperturbed.analysis.structure", "decompose"): ["sequence", "words"],
    ("unperturbed.analysis.causal", "Knowledge"): ["tiers", "required", "forbidden"],
}

ATTRIBUTES = {
    ("unperturbed.collectors", "Trace"): "read write metrics to_polars",
    ("unperturbed.analysis.alignment", "WarpPath"): "x_index y_index cost",
    ("unperturbed.analysis.perturbation", "Baseline"): "inner outer",
    ("unperturbed.analysis.diagnosis", "EventTrace"): "from_pairs",
    ("unperturbed.analysis.structure", "Kernel"): "members value defining_sequence",
    ("unperturbed.analysis.structure", "Decomposition"): "cost cuts words",
    ("unperturbed.analysis.causal", "CausalModel"): "edges",
    ("unperturbed.analysis.causal", "Edge"): "source target",
}


@pytest.mark.parametrize("module", SURFACE)
def test_names(module: str) -> None:
    found = importlib.import_module(module)
    for name in SURFACE[module].split():
        assert hasattr(found, name), f"{module}.{name}"
        assert name in found.__all__
        assert name in dir(found)


@pytest.mark.parametrize(("module", "name"), PARAMETERS)
def test_parameters(module: str, name: str) -> None:
    there = list(inspect.signature(getattr(importlib.import_module(module), name)).parameters)
    wanted = PARAMETERS[module, name]
    assert set(wanted) <= set(there)
    assert [one for one in there if one in wanted] == wanted


@pytest.mark.parametrize(("module", "name"), ATTRIBUTES)
def test_attributes(module: str, name: str) -> None:
    kind = getattr(importlib.import_module(module), name)
    fields = {*dir(kind), *getattr(kind, "__dataclass_fields__", ())}
    assert set(ATTRIBUTES[module, name].split()) <= fields
