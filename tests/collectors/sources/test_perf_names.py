"""perf's event names against perf itself, and against what other hosts' sysfs holds."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.collectors.sources.processors import ALDER_LAKE, ZEN_4, processor
from unperturbed.collectors.sources import Event
from unperturbed.collectors.sources.catalogue import PRESETS
from unperturbed.collectors.sources.perf import events as perf_event
from unperturbed.collectors.sources.perf.names import ALIASES, GENERIC, PerfCode, nearest, parse
from unperturbed.collectors.sources.perf.sysfs import Pmu, confinement, encode, pmus, tracepoints
from unperturbed.errors import HostError, SpecError

DEVICES = "sys/bus/event_source/devices"

CORTEX_A57 = {  # recorded on the emulated arm64 machine, Linux 6.1
    "armv8_pmuv3/type": "8",
    "armv8_pmuv3/cpus": "0",
    "armv8_pmuv3/events/cpu_cycles": "event=0x0011",
    "armv8_pmuv3/events/inst_retired": "event=0x0008",
    "armv8_pmuv3/format/event": "config:0-15",
    "armv8_pmuv3/format/long": "config1:0",
    "armv8_pmuv3/format/rdpmc": "config1:1",
    "kprobe/type": "6",
    "kprobe/format/retprobe": "config:0",
    "software/type": "1",
}
ZEN = {  # formats of arch/x86/events/amd/core.c: the event number is split
    "cpu/type": "4",
    "cpu/events/cache-misses": "event=0x64,umask=0x09",
    "cpu/events/stalled-cycles-frontend": "event=0xa9",
    "cpu/format/event": "config:0-7,32-35",
    "cpu/format/umask": "config:8-15",
    "cpu/format/edge": "config:18",
    "cpu/format/inv": "config:23",
    "cpu/format/cmask": "config:24-31",
    "power/type": "11",
    "power/cpumask": "0",
    "power/events/energy-pkg": "event=0x02",
    "power/events/energy-pkg.unit": "Joules",
    "power/events/energy-pkg.scale": "2.3283064365386962890625e-10",
    "power/format/event": "config:0-7",
}
SKYLAKE = {
    "cpu/type": "4",
    "cpu/events/mem-loads": "event=0xcd,umask=0x1,ldlat=3",
    "cpu/events/topdown-fetch": "event=0x9c,umask=0x1,core=?",
    "cpu/format/event": "config:0-7",
    "cpu/format/umask": "config:8-15",
    "cpu/format/cmask": "config:24-31",
    "cpu/format/core": "config2:0-7",
    "cpu/format/ldlat": "config1:0-15",
    "cpu/format/offcore_rsp": "config1:0-63",
}
HYBRID = {
    "cpu_core/type": "4",
    "cpu_core/cpus": "0-7",
    "cpu_core/events/slots": "event=0x00,umask=0x4",
    "cpu_core/events/bus-cycles": "event=0x3c,umask=0x01",
    "cpu_core/events/mem-stores": "event=0xd0,umask=0x6",
    "cpu_core/format/event": "config:0-7",
    "cpu_core/format/umask": "config:8-15",
    "cpu_atom/type": "10",
    "cpu_atom/cpus": "8-15",
    "cpu_atom/events/bus-cycles": "event=0x3c,umask=0x01",
    "cpu_atom/events/mem-stores": "event=0xd0,umask=0x6",
    "cpu_atom/format/event": "config:0-7",
    "cpu_atom/format/umask": "config:8-15",
}


def host(root: Path, devices: Mapping[str, str], tracing: Mapping[str, str] | None = None) -> Path:
    """Lay out a host's description below a folder."""
    for files, place in ((devices, DEVICES), (tracing or {}, "sys/kernel/debug/tracing")):
        for name, text in files.items():
            file = root / place / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{text}\n")
    return root


def encoded_by_perf(name: str) -> tuple[int, int] | None:
    """Return type and config that perf opens for a name, or None when it does not take the name."""
    result = subprocess.run(
        ["perf", "stat", "-vv", "-e", name, "true"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    head, found, rest = result.stderr.partition("perf_event_attr:\n")
    if "syntax error" in head or not found:
        return None
    attributes = dict(re.findall(r"^  (type|config)\s+(\w+)", rest.partition("\n---")[0], re.MULTILINE))
    return int(attributes.get("type", "0"), 0), int(attributes.get("config", "0"), 0)


needs_perf = pytest.mark.skipif(
    shutil.which("perf") is None or sum(pmu.core for pmu in pmus().values()) > 1,
    reason="needs perf, and a host whose cores are all alike",
)


@needs_perf
@pytest.mark.parametrize(
    "name",
    [
        *GENERIC,
        *ALIASES,
        "r1a8",
        "rFF",
        "LLC",
        "LLC-misses",
        "L2-loads",
        "l1d-read-miss",
        "L1-data-write-access",
        "L1-dcache-misses-loads",
        "L1-dcache-speculative-read-misses",
        "d-tlb-prefetch-ops",
        "bpu-loads",
        "btb-load-misses",
        "Instruction-TLB-load-refs",
        "cycles:u",
        "cs:k",
        "branches:uk",
    ],
)
def test_a_name_means_what_perf_opens(name: str) -> None:
    code = parse(name).code
    assert (code.type, code.config) == encoded_by_perf(name)


@needs_perf
@pytest.mark.parametrize(
    "name", ["cyclse", "rzz", "L1-dcache-loadz", "cycles:uu", "msr/nope/", "nopmu/event=1/", "nosystem:noevent"]
)
def test_a_name_that_perf_refuses_is_refused(name: str) -> None:
    assert encoded_by_perf(name) is None
    with pytest.raises((SpecError, HostError)):
        parse(name)


@needs_perf
@pytest.mark.skipif("msr" not in pmus(), reason="no PMU msr here")
@pytest.mark.parametrize(
    "name", ["msr/tsc/", "msr/event=0x4/", "msr/event=010/", "msr/config=0x1/", "msr/r3/", "msr/event/", "msr/tsc/u"]
)
def test_events_of_a_pmu_mean_what_perf_opens(name: str) -> None:
    code = parse(name).code
    assert (code.type, code.config) == encoded_by_perf(name)


def test_tracepoints_of_this_host_mean_what_perf_opens() -> None:
    try:
        points = tracepoints()
    except HostError as problem:
        pytest.skip(str(problem))
    assert len(points) > 100
    for name in (points[0], "sched:sched_switch", "sched:sched_switch:u"):
        code = parse(name).code
        assert code.type == 2
        if shutil.which("perf"):
            assert (code.type, code.config) == encoded_by_perf(name)


def test_what_is_no_count_is_not_taken() -> None:
    for name in ("dummy", "bpf-output", "duration_time", "mem:0x1000:rw", "", ":u", "cycles:", "cycles:pp"):
        with pytest.raises((SpecError, HostError)):
            parse(name)


def test_hardware_counts_in_user_space_and_the_kernels_events_in_both() -> None:
    assert parse("instructions").code == PerfCode(0, 1)
    assert parse("instructions:k").code == PerfCode(0, 1, user=False, kernel=True)
    assert parse("instructions:uk").code == PerfCode(0, 1, kernel=True)
    assert parse("page-faults").code == PerfCode(1, 2, kernel=True)
    assert parse("page-faults:u").code == PerfCode(1, 2)


def test_units_and_kinds() -> None:
    assert {name for name, event in GENERIC.items() if event.unit == "ns"} == {"cpu-clock", "task-clock"}
    assert {name for name, event in GENERIC.items() if event.unit == "cycles"} == {
        "cycles",
        "bus-cycles",
        "ref-cycles",
        "stalled-cycles-frontend",
        "stalled-cycles-backend",
    }
    assert {event.kind for event in GENERIC.values() if event.code.type == 1} == {"os"}
    assert {event.kind for event in GENERIC.values() if event.code.type != 1} == {"hardware"}


def test_an_arm_core(tmp_path: Path) -> None:
    root = host(tmp_path, CORTEX_A57)
    inst = parse("armv8_pmuv3/inst_retired/", root)
    assert inst.code == PerfCode(8, 0x8)
    assert parse("inst_retired", root).code == inst.code
    assert parse("cpu_cycles", root).unit == "cycles"
    assert parse("armv8_pmuv3/event=0x11,long=1,rdpmc/u", root).code == PerfCode(8, 0x11, config1=3)
    assert parse("armv8_pmuv3/cycles/", root).code == PerfCode(0, 0)
    assert parse("kprobe/retprobe/", root).code.kernel, "a PMU that is not the cores' counts in the kernel too"


def test_bits_of_a_number_are_spread_over_the_ranges_of_its_format(tmp_path: Path) -> None:
    root = host(tmp_path, ZEN)
    assert parse("cpu/event=0x1ab,umask=0x3/", root).code.config == 0x1_0000_03AB
    assert parse("cpu/cache-misses/", root).code == PerfCode(4, 0x0964)
    assert parse("cpu/cache-misses,cmask=1,inv,edge/", root).code.config == 0x0964 | 1 << 24 | 1 << 23 | 1 << 18
    assert parse("cpu/config=0x12,config1=5,config2=6/", root).code == PerfCode(4, 0x12, 5, 6)
    assert parse("cpu/r1c2/", root).code == PerfCode(4, 0x1C2)
    assert parse("cpu/L1-dcache-load-misses/", root).code == GENERIC["L1-dcache-load-misses"].code
    with pytest.raises(SpecError, match=r"umask=0x100 does not fit into this term's bits \(config:8-15\)"):
        parse("cpu/umask=0x100/", root)
    with pytest.raises(SpecError, match="no event or term 'nope'"):
        parse("cpu/nope/", root)
    with pytest.raises(SpecError, match=r"no term 'nope'; it has these terms: cmask, edge, event, inv, umask"):
        parse("cpu/nope=1/", root)


def test_terms_of_config1_and_events_that_need_a_number(tmp_path: Path) -> None:
    root = host(tmp_path, SKYLAKE)
    assert parse("cpu/mem-loads/", root).code == PerfCode(4, 0x1CD, config1=3)
    assert parse("cpu/event=0xb7,umask=1,offcore_rsp=0x3fbfc00001/", root).code == PerfCode(
        4, 0x1B7, config1=0x3FBFC00001
    )
    assert parse("cpu/topdown-fetch,core=2/", root).code == PerfCode(4, 0x19C, config2=2)
    with pytest.raises(SpecError, match=r"needs a number for `core`: write `perf::cpu/topdown-fetch,core=N/`"):
        parse("cpu/topdown-fetch/", root)


def test_on_a_hybrid_processor_the_kind_of_core_is_named(tmp_path: Path) -> None:
    root = host(tmp_path, HYBRID)
    assert parse("cpu_atom/cycles/", root).code == PerfCode(0, 10 << 32)
    assert parse("cpu_core/L1-dcache-loads/k", root).code == PerfCode(3, 4 << 32, user=False, kernel=True)
    assert parse("cpu_atom/bus-cycles/", root).code == PerfCode(10, 0x13C), (
        "the PMU's own event comes before the generic one"
    )
    assert parse("slots", root).code == PerfCode(4, 0x400)
    with pytest.raises(SpecError, match="perf::cpu_atom/mem-stores/, perf::cpu_core/mem-stores/"):
        parse("mem-stores", root)
    with pytest.raises(
        HostError, match="has no PMU 'cpu'; PMUs for names of the form `perf::PMU/EVENT/`: cpu_atom, cpu_core"
    ):
        parse("cpu/cycles/", root)


def test_a_pmu_says_the_unit_of_its_counts(tmp_path: Path) -> None:
    units = pmus(host(tmp_path, ZEN))
    assert parse("power/energy-pkg/", tmp_path).unit == "2.3283064365386962890625e-10 Joules"
    assert list(units["power"].events) == ["energy-pkg"]
    assert units["power"].whole_package
    assert not units["cpu"].whole_package
    assert list(units) == ["cpu", "power"], "the cores' own come first"


@st.composite
def places(draw: st.DrawFn) -> tuple[list[tuple[int, int]], int]:
    """Draw ranges of bits that do not overlap, in any order, and a number that fits them."""
    bounds = sorted(draw(st.lists(st.integers(0, 63), min_size=2, max_size=8, unique=True)))
    ranges = draw(st.permutations(list(zip(bounds[::2], bounds[1::2], strict=False))))
    width = sum(last - first + 1 for first, last in ranges)
    return ranges, draw(st.integers(0, 2**width - 1))


@given(places())
def test_spread_bits_are_found_again(
    tmp_path_factory: pytest.TempPathFactory, drawn: tuple[list[tuple[int, int]], int]
) -> None:
    ranges, number = drawn
    root = host(
        tmp_path_factory.mktemp("host"),
        {"cpu/type": "4", "cpu/format/term": "config2:" + ",".join(f"{first}-{last}" for first, last in ranges)},
    )
    config, config1, config2 = encode(pmus(root)["cpu"], f"term={number:#x}")
    bits = [config2 >> bit & 1 for first, last in ranges for bit in range(first, last + 1)]
    assert (config, config1) == (0, 0)
    assert sum(bit << place for place, bit in enumerate(bits)) == number
    assert config2.bit_count() == number.bit_count()


def test_a_format_that_is_not_understood_is_said(tmp_path: Path) -> None:
    host(tmp_path, {"cpu/type": "4", "cpu/format/new": "config9:0-3", "cpu/format/odd": "somewhere"})
    pmu = pmus(tmp_path)["cpu"]
    assert isinstance(pmu, Pmu)
    with pytest.raises(SpecError, match="the format of 'new' is 'config9:0-3', which is not supported"):
        encode(pmu, "new=1")
    with pytest.raises(SpecError, match="'somewhere', which is not supported"):
        encode(pmu, "odd=1")
    with pytest.raises(SpecError, match="'=3' is not a term"):
        encode(pmu, "=3")


def test_tracepoints_where_only_debugfs_has_them(tmp_path: Path) -> None:
    points = {"available_events": "sched:sched_switch\nsched:sched_wakeup", "events/sched/sched_switch/id": "372"}
    root = host(tmp_path, {}, points)
    assert tracepoints(root) == ("sched:sched_switch", "sched:sched_wakeup")
    event = parse("sched:sched_switch", root)
    assert (event.code, event.kind) == (PerfCode(2, 372, kernel=True), "os")
    assert parse("sched:sched_switch:k", root).code == PerfCode(2, 372, user=False, kernel=True)
    with pytest.raises(SpecError, match="no tracepoint sched:nope"):
        parse("sched:nope", root)


def test_tracepoints_where_tracefs_is_not_mounted(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="mount -t tracefs"):
        parse("sched:sched_switch", tmp_path)
    with pytest.raises(HostError, match="not mounted"):
        tracepoints(tmp_path)
    refused = perf_event.refusal("perf::sched:sched_switch", tmp_path)
    assert refused is not None
    assert "not mounted" in refused


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not read")
def test_tracepoints_that_root_alone_may_read() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = host(Path(folder), {}, {"available_events": "a:b", "events/a/b/id": "1"})
        root.chmod(0o755)
        (root / "sys/kernel/debug/tracing").chmod(0o700)
        assert perf_event.refusal("perf::a:b", root) is None
        os.seteuid(65534)
        try:
            said = perf_event.refusal("perf::a:b", root)
        finally:
            os.seteuid(0)
    assert said is not None
    assert "only root can read tracepoints" in said


def test_the_nearest_names_are_proposed(tmp_path: Path) -> None:
    root = host(tmp_path, CORTEX_A57, {"available_events": "sched:sched_switch"})
    assert nearest("cyclse", root)[0] == "cycles"
    assert nearest("armv8_pmuv3/inst_retire/", root)[0] == "armv8_pmuv3/inst_retired/"
    assert nearest("sched:sched_swich", root)[0] == "sched:sched_switch"
    assert nearest("qqqqqqqqqqqq", root) == ()
    assert perf_event.refusal("perf::page-falts", root) == (
        "perf has no event 'page-falts'; did you mean perf::page-faults or perf::faults?"
    )


def test_events_for_the_runtime(tmp_path: Path) -> None:
    root = host(tmp_path, SKYLAKE)
    assert perf_event.event("perf::page-faults") == Event("perf::page-faults", type=1, config=2, kernel=True)
    assert perf_event.event("perf::cpu/mem-loads/k", root) == Event(
        "perf::cpu/mem-loads/k", type=4, config=0x1CD, config1=3, user=False, kernel=True
    )
    assert perf_event.event("PAPI_TOT_INS") == Event("PAPI_TOT_INS", type=0, config=1)
    assert perf_event.event("PAPI_L1_DCM") == Event("PAPI_L1_DCM", type=3, config=0x10000)
    for name in ("perf::nope", "cycles", "PAPI_FP_OPS", "callgrind::Ir", "perf::nopmu/x/"):
        assert perf_event.event(name, root) is None
        assert perf_event.refusal(name, root)
    assert perf_event.refusal("perf::cycles", root) is None
    assert set(perf_event.NEAREST_GENERIC) <= set(PRESETS)
    assert set(perf_event.NEAREST_GENERIC.values()) <= set(GENERIC)


def test_metrics_of_one_event_share_it() -> None:
    faults = perf_event.metric("perf::page-faults")
    assert (faults.kind, faults.unit, faults.source, faults.meaning) == ("os", "events", "perf_event", "page faults")
    assert perf_event.metric("perf::faults").components == faults.components
    in_user_space = perf_event.metric("perf::page-faults:u")
    assert set(in_user_space.components) < set(faults.components)
    assert not set(in_user_space.components) & set(perf_event.metric("perf::page-faults:k").components)
    assert in_user_space.meaning == "page faults, in user space"
    cycles = perf_event.metric("PAPI_TOT_CYC")
    assert (cycles.kind, cycles.unit, cycles.meaning) == (
        "hardware",
        "cycles",
        "cycles (the kernel's closest generic event)",
    )
    assert cycles.components == perf_event.metric("perf::cpu-cycles").components
    assert perf_event.metric("perf::task-clock").unit == "ns"


def test_a_process_on_one_kind_of_core_has_names_counted_there(tmp_path: Path) -> None:
    on_core = processor(tmp_path / "core", ALDER_LAKE, cpus="0-3,8")
    on_atom = processor(tmp_path / "atom", ALDER_LAKE, cpus="16,17")
    free = processor(tmp_path / "free", ALDER_LAKE, cpus="0-23")
    assert parse("cycles", on_core).code == PerfCode(0, 4 << 32)
    assert parse("LLC-load-misses:k", on_atom).code == PerfCode(3, 10 << 32 | 0x10002, user=False, kernel=True)
    assert parse("cycles", free).code == PerfCode(0, 0), "the kernel chooses: performance cores"
    assert parse("page-faults", on_atom).code == parse("page-faults", free).code
    assert parse("cycles", on_atom).meaning == "cycles of the processor, on cpu_atom"
    assert parse("topdown-fe-bound", on_atom).code == PerfCode(10, 0x71), "an ordinary event of these cores"
    assert perf_event.event("PAPI_TOT_INS", on_atom) == Event("PAPI_TOT_INS", type=0, config=10 << 32 | 1)
    by_own_name = perf_event.metric("perf::cpu_atom/instructions/", on_atom)
    assert perf_event.metric("perf::instructions", on_atom).components == by_own_name.components
    assert confinement(on_core) == confinement(on_atom) == ""
    assert confinement(free) == (
        "this processor is hybrid, and an event counts on only one kind of core (cpu_atom, cpu_core); confine the "
        "campaign to one kind of core with taskset -c 0-15"
    )
    assert confinement(processor(tmp_path / "alike", ZEN_4, cpus="0-7")) == ""
    arm = {"armv8_cortex_a53/type": "8", "armv8_cortex_a53/cpus": "0-3", "armv8_cortex_a72/type": "9"}
    board = processor(tmp_path / "board", {**arm, "armv8_cortex_a72/cpus": "4-5"}, cpus="4")
    assert parse("cycles", board).code == PerfCode(0, 0), "not every kernel of Arm's takes a generic event for a PMU"


def test_a_term_names_an_event_and_does_not_change_it(tmp_path: Path) -> None:
    root = host(tmp_path, ZEN)
    named = parse("cpu/event=0x1ab,umask=3,name=ls_stlf/k", root)
    assert named.code == parse("cpu/event=0x1ab,umask=3/k", root).code
    assert named.meaning.startswith("ls_stlf of the PMU cpu (event=0x1ab,umask=3")
    with pytest.raises(SpecError, match="is not a term"):
        parse("cpu/event=1,name=/", root)
