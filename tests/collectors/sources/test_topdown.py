"""Topdown events: which leader they need, on which PMU, and what is said where there are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collectors.sources.processors import ALDER_LAKE, ICE_LAKE, SAPPHIRE_RAPIDS, ZEN_4, processor
from unperturbed.collectors.sources import Event
from unperturbed.collectors.sources.perf import events as perf_event
from unperturbed.collectors.sources.perf.names import PerfCode, parse
from unperturbed.collectors.sources.perf.sysfs import leader
from unperturbed.errors import HostError, SpecError


def led_by(name: str, root: Path) -> Event | None:
    event = perf_event.event(name, root)
    assert event is not None
    return leader(event, root)


def test_slots_leads_topdown_events_and_is_led_by_nothing(tmp_path: Path) -> None:
    root = processor(tmp_path, SAPPHIRE_RAPIDS)
    slots = Event("perf::slots", type=4, config=0x400)
    for name in ("perf::topdown-retiring", "perf::cpu/topdown-mem-bound/", "perf::cpu/event=0,umask=0x81/"):
        assert led_by(name, root) == slots
    assert led_by("perf::r8000", root) == slots, "a raw event is the cores' PMU's"
    for name in ("perf::slots", "perf::instructions", "perf::cpu/event=0xc4,umask=0x80/", "perf::page-faults"):
        assert led_by(name, root) is None


def test_the_leader_counts_where_its_followers_do(tmp_path: Path) -> None:
    root = processor(tmp_path, ICE_LAKE)
    both = Event("perf::slots:uk", type=4, config=0x400, kernel=True)
    assert led_by("perf::topdown-retiring:uk", root) == both
    assert led_by("perf::cpu/topdown-retiring/k", root) == Event(
        "perf::slots:k", type=4, config=0x400, user=False, kernel=True
    )
    assert perf_event.event(both.name, root) == both, "a spec may name it so"


def test_efficiency_cores_have_ordinary_events_of_these_names(tmp_path: Path) -> None:
    root = processor(tmp_path, ALDER_LAKE, cpus="0-23")
    assert parse("topdown-retiring", root).code == PerfCode(4, 0x8000), "the ones that slots leads are meant"
    assert led_by("perf::topdown-retiring", root) == Event("perf::slots", type=4, config=0x400)
    assert parse("cpu_atom/topdown-retiring/", root).code == PerfCode(10, 0xC2)
    assert led_by("perf::cpu_atom/topdown-retiring/", root) is None
    with pytest.raises(HostError, match="cpu_atom and cpu_core of this processor have no topdown event slots"):
        parse("cpu_atom/slots/", root)


def test_where_there_are_none_one_message_says_so(tmp_path: Path) -> None:
    amd = processor(tmp_path / "amd", ZEN_4)
    for name in ("perf::topdown-retiring", "perf::slots", "perf::cpu/slots/"):
        said = perf_event.refusal(name, amd)
        assert said is not None
        assert "the PMU cpu of this processor has no topdown events" in said
        assert "from Ice Lake on" in said
    none = processor(tmp_path / "none", {"software/type": "1"})
    assert "it has no core PMU" in str(perf_event.refusal("perf::slots", none))
    old = processor(tmp_path / "old", ICE_LAKE)
    assert "from Sapphire Rapids and Alder Lake on have the events of the second level" in str(
        perf_event.refusal("perf::topdown-heavy-ops", old)
    )
    with pytest.raises(SpecError, match="did you mean"):
        perf_event.describe("perf::topdown-retirin", processor(tmp_path / "new", SAPPHIRE_RAPIDS))
