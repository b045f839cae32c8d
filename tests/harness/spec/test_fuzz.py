"""Whatever is given for a spec, a `CampaignSpec` or a `SpecError` comes out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.harness.spec.examples import SWEEP_EXAMPLE, full_example
from unperturbed.errors import SpecError
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import parse_spec
from unperturbed.harness.spec.yaml import InvalidSpec, decode

_FOLDER = Path(__file__).parent
_FULL: dict[str, Any] = yaml.safe_load(full_example())
_SWEEP: dict[str, Any] = yaml.safe_load(SWEEP_EXAMPLE)
_WORDS = sorted(set((full_example() + SWEEP_EXAMPLE).replace(",", " ").split()))


def _check(text: str) -> None:
    try:
        spec = parse_spec(text, "spec.yaml", _FOLDER)
    except InvalidSpec as error:
        assert error.diagnostics
        assert list(error.diagnostics) == sorted(set(error.diagnostics))
        for line in str(error).splitlines():
            assert line.startswith("spec.yaml:")
        for diagnostic in error.diagnostics:
            assert diagnostic.position.line >= 1
            assert diagnostic.position.column >= 1
            assert "\n" not in diagnostic.message
    else:
        assert isinstance(spec, CampaignSpec)
        assert len(spec.digest) == 64
        assert spec.analysis.align_on or spec.parameters


@given(st.binary(max_size=200))
def test_any_bytes(content: bytes) -> None:
    try:
        text = decode(content, "spec.yaml")
    except SpecError as error:
        assert str(error).startswith("spec.yaml:")
        return
    _check(text)


@given(st.text(max_size=120) | st.text("ab{}[]:,-?&*!|>'\"%@`#\n \t0.", max_size=80))
@example("\ud800")
@example("a: &a\n  b: *a")
@example('name: "\\x00"')
@example("?\n: b\n")
def test_any_text(text: str) -> None:
    _check(text)


_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(_WORDS)
    | st.text(max_size=8)
    | st.sampled_from(
        [
            "{build}/x",
            "{foo}",
            "10 ms",
            "a / b",
            "'",
            "PAPI_TOT_INS",
            "PAPI_TOT_INS / 0",
            "x" * 300,
            "/",
            "..",
            "~",
            "a\nb",
        ]
    )
)
_KEYS = st.sampled_from(
    sorted(
        {key for spec in (_FULL, _SWEEP) for section in spec.values() if isinstance(section, dict) for key in section}
        | set(_FULL | _SWEEP)
        | {"from", "to", "step", "uniform", "log_uniform", "choice"}
    )
) | st.text(max_size=5)
_DATA = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4), max_leaves=10
)


@given(_DATA)
@example({"[key]": None})  # pydantic's own word for a key at fault
def test_any_data(data: object) -> None:
    _check(json.dumps(data))


def _paths(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *(found for key, value in inner for found in _paths(value, (*path, key)))]


def _replace(data: Any, path: tuple[Any, ...], value: object) -> None:
    """Set the value at a path, unless an earlier change took the path away."""
    key, *rest = path
    if not (isinstance(data, dict) or (isinstance(data, list) and isinstance(key, int) and key < len(data))):
        return
    if not rest:
        data[key] = value
    elif isinstance(data, list) or key in data:
        _replace(data[key], tuple(rest), value)


@given(st.lists(st.tuples(st.sampled_from(_paths(_FULL)[1:]), _DATA), min_size=1, max_size=4))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_a_good_spec_with_parts_replaced(changes: list[tuple[tuple[Any, ...], object]]) -> None:
    data = json.loads(json.dumps(_FULL))
    for path, value in changes:
        _replace(data, path, value)
    _check(json.dumps(data))


@given(st.lists(st.tuples(st.sampled_from(_paths(_SWEEP)[1:]), _DATA), min_size=1, max_size=4))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_a_good_sweep_with_parts_replaced(changes: list[tuple[tuple[Any, ...], object]]) -> None:
    data = json.loads(json.dumps(_SWEEP))
    for path, value in changes:
        _replace(data, path, value)
    _check(json.dumps(data))


@given(st.integers(0, len(SWEEP_EXAMPLE)), st.integers(0, 30), st.text("{}[]:,-'\"#\n \tab0", max_size=5))
def test_a_good_sweep_with_a_slip_of_the_pen(start: int, length: int, put_in: str) -> None:
    _check(SWEEP_EXAMPLE[:start] + put_in + SWEEP_EXAMPLE[start + length :])


@given(st.integers(0, len(full_example())), st.integers(0, 30), st.text("{}[]:,-'\"#\n \tab0", max_size=5))
def test_a_good_spec_with_a_slip_of_the_pen(start: int, length: int, put_in: str) -> None:
    _check(full_example()[:start] + put_in + full_example()[start + length :])
