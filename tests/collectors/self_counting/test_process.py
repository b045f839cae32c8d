"""A process that counts itself: the same layout as in C, right counts, whose they are, and no descriptor left open."""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from tests.collectors.sources.processors import SAPPHIRE_RAPIDS, processor
from unperturbed.collectors.runtime import INCLUDE
from unperturbed.collectors.self_counting import process as own_process
from unperturbed.collectors.self_counting import pyperf_hook
from unperturbed.collectors.self_counting.process import EVENTS, ProcessCounters, ThreadCounters
from unperturbed.collectors.self_counting.pyperf_hook import choose
from unperturbed.collectors.sources.catalogue import OS_GROUPS, OS_METRICS
from unperturbed.collectors.sources.perf.events import describe
from unperturbed.collectors.sources.perf.names import PerfCode
from unperturbed.collectors.sources.perf.sysfs import leader
from unperturbed.errors import HostError, SpecError

PAGES = 300
SOFTWARE = ("perf::task-clock", "perf::page-faults", "perf::context-switches", "perf::cpu-migrations")


def codes(*names: str) -> dict[str, PerfCode]:
    return {name: describe(name).code for name in names}


def touch(pages: int) -> None:
    with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory:
        for page in range(pages):
            memory[page * mmap.PAGESIZE] = 1


def test_python_and_c_agree_on_the_layout(tmp_path: Path) -> None:
    structures = {
        "event": (own_process.EventStructure, ["type", "flags", "config", "config1", "config2", "name"]),
        "header": (
            own_process.HeaderStructure,
            ["source", "events", "options", "program", "papi", "error", "message", "event"],
        ),
        "record": (own_process.RecordStructure, ["enabled_ns", "running_ns", "read_ns", "value"]),
        "counters": (
            own_process.CountersStructure,
            [
                *("source", "options", "events", "event_set", "fd", "page", "total", "user_reads"),
                *("processor", "overflow", "state"),
            ],
        ),
    }
    prints = "".join(
        f'printf("{name}.{field} %zu\\n", offsetof(struct unperturbed_{name}, {field}));'
        for name, (_, fields) in structures.items()
        for field in fields
    ) + "".join(f'printf("{name} %zu\\n", sizeof(struct unperturbed_{name}));' for name in structures)
    main = f'int main(void) {{ {prints} printf("%d\\n", UNPERTURBED_EVENTS); return 0; }}'
    text = f'#include <stddef.h>\n#include <stdio.h>\n#include "sources.h"\n{main}'
    (tmp_path / "layout.c").write_text(text)
    command = [
        "cc",
        "-std=gnu11",
        f"-I{INCLUDE}",
        str(tmp_path / "layout.c"),
        "-o",
        str(tmp_path / "layout"),
    ]
    subprocess.run(command, check=True)
    printed = subprocess.run([str(tmp_path / "layout")], capture_output=True, text=True, check=True).stdout.splitlines()
    expected = [
        f"{name}.{field} {getattr(kind, field).offset}"
        for name, (kind, fields) in structures.items()
        for field in fields
    ]
    sizes = {name: ctypes.sizeof(kind) for name, (kind, _) in structures.items()}
    # A record in C ends where its values begin.
    sizes["record"] = own_process.RecordStructure.value.offset
    assert printed == [*expected, *(f"{name} {size}" for name, size in sizes.items()), str(EVENTS)]


def test_page_faults_are_those_that_getrusage_sees() -> None:
    counters = ThreadCounters(codes(*SOFTWARE), "perf_event")
    counters.open()
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_THREAD)
        counters.begin()
        touch(PAGES)
        counters.end()
        after = resource.getrusage(resource.RUSAGE_THREAD)
        touch(PAGES)  # outside of the pair: not counted
        assert after.ru_minflt - before.ru_minflt >= PAGES
    counters.close()
    assert 3 * PAGES <= counters.totals["perf::page-faults"] <= 3 * PAGES + 100
    assert counters.totals["perf::task-clock"] > 0
    assert counters.enabled_ns == counters.running_ns > 0
    assert counters.unread == 0


@pytest.mark.parametrize("started", ["thread", "process"])
@pytest.mark.parametrize("children", [False, True])
def test_what_is_started_counts_when_that_is_asked_for(started: str, children: bool) -> None:
    counters = ThreadCounters(codes("perf::page-faults"), "perf_event", children=children)
    counters.open()
    counters.begin()
    if started == "thread":
        other = threading.Thread(target=touch, args=(PAGES,))
        other.start()
        other.join()
    else:
        touching = f"import mmap; m = mmap.mmap(-1, {PAGES} * mmap.PAGESIZE); m.write(bytes(len(m)))"
        subprocess.run([sys.executable, "-S", "-c", touching], check=True)
    counters.end()
    counters.close()
    assert (counters.totals["perf::page-faults"] >= PAGES) is children


def test_a_refusal_is_in_the_source_s_words_and_leaves_nothing_open() -> None:
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with pytest.raises(HostError, match=r"perf_event_open of perf::none: .*this host has no PMU"):
        ThreadCounters({**codes(*SOFTWARE), "perf::none": PerfCode(1, 9999)}, "perf_event").open()
    with pytest.raises(HostError, match=r"^(libpapi|PAPI_NOT_THERE): "):
        ThreadCounters({"PAPI_NOT_THERE": PerfCode(0, 0)}, "papi").open()
    counters = ThreadCounters(codes(*SOFTWARE), "perf_event")
    counters.open()
    counters.close()
    assert set(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_no_compiler_is_no_reason_to_count_nothing_in_silence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(HostError, match="no C compiler 'cc-that-is-not'"):
        choose(["perf::page-faults"], compiler="cc-that-is-not")
    chosen = choose(["minor_faults"], compiler="cc-that-is-not")
    assert [counters.source for counters in chosen.process] == ["getrusage"]
    assert chosen.thread == ()


def test_as_many_as_fit_are_counted_in_the_order_of_their_names() -> None:
    stems = [*SOFTWARE, "perf::minor-faults", "perf::major-faults"]
    names = [*stems, *(f"{stem}:u" for stem in stems), *(f"{stem}:k" for stem in stems)]
    chosen = choose([*names[:3], "perf::none/nothing/", *names[3:]])
    (counters,) = chosen.thread
    assert list(counters.totals) == names[:EVENTS]
    counters.close()
    assert list(chosen.refused) == ["perf::none/nothing/", *names[EVENTS:]]
    full = "perf_event: too few counters to count this event together with the events listed before it"
    assert chosen.refused[names[-1]] == full
    assert "this host has no PMU 'none'" in chosen.refused["perf::none/nothing/"]


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(SpecError, match="unknown metric 'minor_fault'; did you mean minor_faults"):
        choose(["minor_fault"])
    with pytest.raises(SpecError, match="perf::page-faults"):
        choose(["perf::page-fault"])
    with pytest.raises(SpecError, match="`unperturbed metrics` lists"):
        choose(["qqqqqqqqqqqq"])


def test_the_operating_system_s_counters_are_those_of_the_process(tmp_path: Path) -> None:
    chosen = choose(list(OS_METRICS))
    assert chosen.refused == {}
    assert [counters.source for counters in chosen.process] == [group.source for group in OS_GROUPS]
    file = tmp_path / "file"
    for counters in chosen.process:
        counters.begin()
    touch(PAGES)
    file.write_bytes(bytes(5000))
    until = time.process_time() + 0.02
    while time.process_time() < until:
        pass
    for counters in chosen.process:
        counters.end()
        counters.close()
    found = {name: total for counters in chosen.process for name, total in counters.totals.items()}
    assert PAGES <= found["minor_faults"] <= PAGES + 200
    assert found["user_time_us"] + found["system_time_us"] >= 20_000
    assert found["sched_run_ns"] >= 20_000_000
    assert 5000 <= found["chars_written"] < 6000
    assert 1 <= found["write_calls"] < 5


def test_children_that_were_waited_for_count_in_getrusage() -> None:
    for children in (False, True):
        counters = ProcessCounters(OS_GROUPS[0], ["minor_faults"], children=children)
        counters.begin()
        touching = f"import mmap; m = mmap.mmap(-1, {PAGES} * mmap.PAGESIZE); m.write(bytes(len(m)))"
        subprocess.run([sys.executable, "-S", "-c", touching], check=True)
        counters.end()
        assert (counters.totals["minor_faults"] >= PAGES) is children
    assert choose(["sched_run_ns"], children=True).refused == {
        "sched_run_ns": "schedstat: it counts only the main thread, not other processes"
    }


def test_a_topdown_event_is_left_to_campaigns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    root = processor(tmp_path, SAPPHIRE_RAPIDS)
    monkeypatch.setattr(pyperf_hook, "describe", partial(describe, root=root))
    monkeypatch.setattr(pyperf_hook, "leader", partial(leader, root=root))
    events, refused = pyperf_hook._perf_event(["perf::topdown-retiring", "perf::slots"], False)
    assert list(events) == ["perf::slots"]
    why = "a topdown event must be in a group led by perf::slots; use a campaign"
    assert refused == {"perf::topdown-retiring": why}
