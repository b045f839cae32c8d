"""Broken specs and the exact diagnostics that each gives: `faults.txt` is the table.

Each case there is a title behind `#####`, the spec, a line `-----`, and the expected message. PREFIXES, SOURCES,
EVENTS and KEYS in a message are those that there are: prefixes of sources, sources, keys of events, keys of a spec.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from unperturbed.collectors.sources import find_sources
from unperturbed.common.wording import listing
from unperturbed.errors import SpecError
from unperturbed.harness.spec.campaign_spec import spec_keys
from unperturbed.harness.spec.load import parse_spec
from unperturbed.harness.spec.yaml import InvalidSpec, Position
from unperturbed.instrument.events import event_keys

_TABLE = Path(__file__).with_name("faults.txt")
_NAMES = {
    "PREFIXES": ", ".join(f"{source.prefix}…" for source in find_sources().values() if source.prefix),
    "SOURCES": listing([f"`{name}`" for name in ("auto", *find_sources())], "or"),
    "EVENTS": ", ".join(f"`{key}`" for key in event_keys()),
    "KEYS": ", ".join(spec_keys()),
}


def _cases() -> list[tuple[str, str, str]]:
    cases = []
    for block in _TABLE.read_text().removeprefix("##### ").split("\n##### "):
        title, _, rest = block.partition("\n")
        spec, _, expected = rest.partition("-----\n")
        assert expected, title
        for word, names in _NAMES.items():
            expected = expected.replace(word, names)
        cases.append((title, spec, expected.rstrip("\n")))
    return cases


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("spec")
    (made / "blocksort").mkdir()
    (made / "some").mkdir()
    (made / "some/file.txt").touch()
    (made / "words.txt").touch()
    return made


@pytest.mark.parametrize(("spec", "expected"), [case[1:] for case in _cases()], ids=[case[0] for case in _cases()])
def test_every_fault_is_named_at_its_place(spec: str, expected: str, folder: Path) -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec(spec, "spec.yaml", folder)
    assert str(caught.value) == expected


@pytest.mark.parametrize(("spec", "expected"), [case[1:] for case in _cases()], ids=[case[0] for case in _cases()])
def test_diagnostics_are_sorted_distinct_and_inside_the_text(spec: str, expected: str, folder: Path) -> None:
    with pytest.raises(InvalidSpec) as caught:
        parse_spec(spec, "spec.yaml", folder)
    diagnostics = caught.value.diagnostics
    assert list(diagnostics) == sorted(set(diagnostics))
    assert [diagnostic.render("spec.yaml") for diagnostic in diagnostics] == expected.splitlines()
    lines = spec.splitlines()
    for diagnostic in diagnostics:
        assert 1 <= diagnostic.position.line <= len(lines)
        assert 1 <= diagnostic.position.column <= len(lines[diagnostic.position.line - 1]) + 1


def test_a_file_full_of_faults_is_reported_in_part(folder: Path) -> None:
    text = "".join(f"key{number}: 1\n" for number in range(1500))
    with pytest.raises(InvalidSpec) as caught:
        parse_spec(text, "spec.yaml", folder)
    assert len(caught.value.diagnostics) == 1503
    lines = str(caught.value).splitlines()
    assert len(lines) == 101
    assert lines[-1] == "spec.yaml: and 1,403 more faults"


def test_positions_count_characters_not_bytes(folder: Path) -> None:
    with pytest.raises(InvalidSpec) as caught:
        parse_spec("name: x\nmeasure: {'ü€𝄞': 1, interval: 5}\n", "spec.yaml", folder)
    places = [diagnostic.position for diagnostic in caught.value.diagnostics]
    assert Position(2, 11) in places
    assert Position(2, 31) in places


def test_a_message_is_one_line_of_bearable_length_whatever_the_spec_holds(folder: Path) -> None:
    key = "x" * 500_000
    with pytest.raises(InvalidSpec) as caught:
        parse_spec(f'? "{key}"\n: 1\n? "a\\n{"b " * 5000}"\n: 2\n', "spec.yaml", folder)
    messages = [diagnostic.message for diagnostic in caught.value.diagnostics]
    assert len(messages) == 5
    assert all(len(message) <= 1001 and "\n" not in message for message in messages)
    assert any(f"unknown key `{'x' * 40}" in message for message in messages)
