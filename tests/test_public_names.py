"""The public library surface: names and signatures that outside code relies on."""

from __future__ import annotations

import importlib
import inspect

import pytest

from tests import rooms
from tools.public import MOST_NAMES, PACKAGES, public_names

STABILITY = rooms.ROOT / "docs" / "reference" / "stability.md"

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

EXTENSIONS = {
    "unperturbed.harness.cli.commands": "Command",
    "unperturbed.collectors.sources": "Source",
    "unperturbed.instrument.events": "CompiledKind ProbeKind EventKind",
    "unperturbed.collectors.imports": "ImportFormat",
    "unperturbed.harness.exports": "Format",
    "unperturbed.analysis.diagnosis": "PlainFormat CompiledFormat Kind",
    "unperturbed.analysis.causal": "IndependenceTest",
    "unperturbed.analysis.report": "ReportFigure ReportView",
    "unperturbed.harness.spec": "SpecKey",
    "unperturbed.harness.host": "HostCheck",
    "unperturbed.harness.nodes.engines": "Engine",
}
"""What extensions are made of, by CONTRIBUTING.md: the promise about extensions covers these names."""

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


@pytest.mark.parametrize("module", EXTENSIONS)
def test_an_extension_is_made_of_public_names(module: str) -> None:
    found = importlib.import_module(module)
    assert module in PACKAGES
    assert set(EXTENSIONS[module].split()) <= set(public_names(found))
    assert all(hasattr(found, name) for name in EXTENSIONS[module].split())
    assert "their records and base classes are public names" in STABILITY.read_text()


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


def test_no_other_package_lists_names() -> None:
    listed = {f"unperturbed.{name}" for name, path in rooms.modules().items() if "\n__all__ = " in path.read_text()}
    assert listed <= set(PACKAGES)


def test_few_enough_names_are_public_to_promise_something_about_each() -> None:
    names = {package: public_names(importlib.import_module(package)) for package in ("unperturbed", *PACKAGES)}
    assert sum(map(len, names.values())) <= MOST_NAMES
    for package, found in names.items():
        module = importlib.import_module(package)
        assert all(hasattr(module, name) for name in found)


def test_the_pages_say_how_many_names_are_public_and_how_many_all_lists_have() -> None:
    modules = {package: importlib.import_module(package) for package in ("unperturbed", *PACKAGES)}
    listed = sum(len(module.__all__) for module in modules.values() if hasattr(module, "__all__"))
    others = sum(len(public_names(module)) for module in modules.values() if not hasattr(module, "__all__"))
    said = f"The {listed + others} in use are the {listed} of all `__all__` and the {others} of `common/result.py`"
    architecture = " ".join((rooms.ROOT / "ARCHITECTURE.md").read_text().split())
    assert f"`tools/public.py` allows {MOST_NAMES} public names. {said}" in architecture
    assert f"`tools/public.py` allows {MOST_NAMES} public names" in (rooms.ROOT / "CONTRIBUTING.md").read_text()


def test_a_name_that_was_public_can_be_used_with_a_warning() -> None:
    data = importlib.import_module("unperturbed.collectors.data")
    with pytest.warns(
        DeprecationWarning, match=r"collectors\.data\.misfit is deprecated: this name is no longer public"
    ):
        assert data.misfit.__module__ == "unperturbed.collectors.data.files"
    partition = importlib.import_module("unperturbed.analysis.partition")
    with pytest.warns(DeprecationWarning, match=r"Settings is deprecated: use .*analysis\.partition\.SearchSettings"):
        assert partition.Settings is partition.SearchSettings
    library = importlib.import_module("unperturbed.harness.library")
    with pytest.warns(DeprecationWarning, match=r"library\.structure is deprecated: use unperturbed\.structure"):
        assert library.structure is importlib.import_module("unperturbed").structure
    with pytest.raises(AttributeError, match="has no attribute 'misfits'; it has INTERVAL_COLUMNS, TABLE"):
        _ = data.misfits


def test_the_promise_names_the_list() -> None:
    text = STABILITY.read_text()
    assert "those on the pages of [the packages](api/index.md)" in text
