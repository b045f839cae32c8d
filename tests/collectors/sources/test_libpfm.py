"""libpfm4's names, encoded for processors that it is told to find: that needs none of their hardware."""

from __future__ import annotations

import ctypes.util
import json
import os
import subprocess
import sys

import pytest

from unperturbed.collectors.sources import find_source
from unperturbed.collectors.sources.perf import events
from unperturbed.collectors.sources.perf import events as perf_event
from unperturbed.errors import HostError

needs_libpfm = pytest.mark.skipif(ctypes.util.find_library("pfm") is None, reason="needs libpfm4")

_ASK = """
import json, sys
from dataclasses import asdict
from unperturbed.collectors.sources.perf import events
from unperturbed.errors import UnperturbedError
found = []
for name in sys.argv[1:]:
    try:
        found.append(asdict(events.describe(name)))
    except UnperturbedError as error:
        found.append(str(error))
print(json.dumps(found))
"""


def ask(processor: str, *names: str) -> list[dict[str, object] | str]:
    """Describe metrics in a process of its own: libpfm4 looks for the processor once."""
    environment = {**os.environ, "LIBPFM_FORCE_PMU": processor}
    done = subprocess.run(
        [sys.executable, "-c", _ASK, *names], env=environment, capture_output=True, text=True, check=True
    )
    answers: list[dict[str, object] | str] = json.loads(done.stdout)
    return answers


def code(answer: dict[str, object] | str) -> tuple[int, int, bool, bool]:
    assert isinstance(answer, dict), answer
    numbers = answer["code"]
    assert isinstance(numbers, dict)
    return numbers["type"], numbers["config"], numbers["user"], numbers["kernel"]


@needs_libpfm
@pytest.mark.parametrize(
    ("processor", "name", "config"),
    [
        ("amd64_fam19h_zen4", "amd64_fam19h_zen4::RETIRED_INSTRUCTIONS", 0xC0),
        ("amd64_fam19h_zen4", "pfm::RETIRED_INSTRUCTIONS", 0xC0),
        ("skl", "skl::BR_INST_RETIRED:NEAR_TAKEN", 0x20C4),
        ("spr", "pfm::BR_INST_RETIRED:NEAR_TAKEN:c=2", 0x20020C4),
        ("spr", "spr::TOPDOWN:SLOTS", 0x400),
    ],
)
def test_a_vendors_name_is_encoded_and_described(processor: str, name: str, config: int) -> None:
    """By the numbers of the vendors' manuals, as the kernel's format files lay them out."""
    (answer,) = ask(processor, name)
    assert isinstance(answer, dict)
    meaning, event, bits = str(answer["meaning"]), name.partition("::")[2].partition(":")[0], 0xFFFFFFFF
    assert (code(answer)[0], code(answer)[1] & bits, *code(answer)[2:]) == (4, config, True, False)
    assert f"({processor}::{event}" in meaning
    assert not meaning.startswith("native event")


_LIST = """
from unperturbed.collectors.sources.perf.events import describe
from unperturbed.collectors.sources.perf.events import own_events
for name, event in own_events():
    assert describe(name) == event
    print(name)
"""


@needs_libpfm
def test_all_events_of_a_processor_are_listed_with_the_masks_that_they_need() -> None:
    environment = {**os.environ, "LIBPFM_FORCE_PMU": "spr"}
    done = subprocess.run([sys.executable, "-c", _LIST], env=environment, capture_output=True, text=True, check=True)
    names = done.stdout.split()
    assert len(names) == len(set(names)) > 300
    assert {"spr::INSTRUCTION_RETIRED", "spr::BR_INST_RETIRED:NEAR_TAKEN", "spr::TOPDOWN:SLOTS"} <= set(names)
    assert {name.partition("::")[0] for name in names} == {"spr"}


@needs_libpfm
def test_modifiers_choose_where_it_counts() -> None:
    kernel, both = ask("amd64_fam19h_zen4", "pfm::RETIRED_INSTRUCTIONS:k", "pfm::RETIRED_INSTRUCTIONS:u:k")
    assert code(kernel)[2:] == (False, True)
    assert code(both)[2:] == (True, True)


@needs_libpfm
def test_a_name_of_another_processor_is_refused_with_the_pmus_of_this() -> None:
    other, typed, component = ask("skl", "amd64_fam10h::RETIRED_INSTRUCTIONZ", "pfm::NO_SUCH", "appio:::READ_BYTES")
    assert "has no event amd64_fam10h::RETIRED_INSTRUCTIONZ for this processor" in str(other)
    assert "NO_SUCH for this processor (event not found); libpfm4 knows these PMUs of this host: skl" in str(typed)
    assert component == "the kernel has no generic event for this metric", "a component of PAPI's is not libpfm4's"


def test_without_libpfm_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_LIBRARY", "libnot-there.so.4")
    events._library.cache_clear()
    try:
        with pytest.raises(HostError, match="is not installed"):
            events.find_by_libpfm("skl::INST_RETIRED:ANY")
        assert "libpfm4" in str(perf_event.refusal("pfm::RETIRED_INSTRUCTIONS"))
        assert perf_event.event("pfm::RETIRED_INSTRUCTIONS") is None
    finally:
        events._library.cache_clear()


def test_papi_leaves_names_without_a_pmu_to_libpfm() -> None:
    papi = find_source("papi")
    assert papi.event("pfm::RETIRED_INSTRUCTIONS") is None
    assert papi.event("skl::INST_RETIRED:ANY") is not None
