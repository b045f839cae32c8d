"""Metrics of perf's tables in this tool's language: what they become, and their value against perf's own rules."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from tests.collectors.perf_metrics import listings
from tests.collectors.perf_metrics.test_formula import TREES, in_parentheses
from tests.collectors.sources.processors import ALDER_LAKE, DEVICES, SAPPHIRE_RAPIDS, ZEN_4, ZEN_5, Devices, processor
from unperturbed.collectors.sources.perf import events as perf_event
from unperturbed.collectors.sources.perf.formula import Binary, Call, Choice, Literal, Name, Negative, Node, Number
from unperturbed.collectors.sources.perf.tables import PerfMetric, PerfTables, parse_json, parse_text
from unperturbed.collectors.sources.perf.translation import Translated, translate
from unperturbed.common.expressions.metrics import parse_metric_expression
from unperturbed.errors import SpecError

NEAR_TAKEN = "perf::cpu/event=0xc4,umask=0x20,name=BR_INST_RETIRED.NEAR_TAKEN/"
INSTRUCTIONS = "perf::cpu/event=0xc0,name=INST_RETIRED.ANY/"


@pytest.fixture
def sapphire(tmp_path: Path) -> Path:
    return processor(tmp_path, SAPPHIRE_RAPIDS)


def of_sapphire(name: str, root: Path) -> Translated:
    return translate(name, parse_json(listings.SAPPHIRE_RAPIDS), root)


def test_level_1_of_topdown(sapphire: Path) -> None:
    found = of_sapphire("tma_retiring", sapphire)
    assert found.formula == (
        "'perf::topdown-retiring' / ('perf::topdown-fe-bound' + 'perf::topdown-bad-spec' + 'perf::topdown-retiring' + "
        "'perf::topdown-be-bound')"
    )
    counts = {"retiring": 30, "bad-spec": 10, "fe-bound": 20, "be-bound": 40}
    columns = {f"perf::topdown-{part}": np.array([float(count)]) for part, count in counts.items()}
    assert parse_metric_expression(found.formula).evaluate(columns) == [0.3]


def test_metrics_are_written_out_and_every_event_can_be_opened(sapphire: Path) -> None:
    found = of_sapphire("tma_bad_speculation", sapphire)
    dropped = "perf::cpu/event=0xad,umask=0x10,name=INT_MISC.UOP_DROPPING/"
    slots = "perf::cpu/event=0,umask=4,name=TOPDOWN.SLOTS/"
    topdown = {f"perf::topdown-{part}" for part in ("retiring", "bad-spec", "fe-bound", "be-bound")}
    assert set(found.events) == {dropped, slots, *topdown}
    for name in found.events:
        assert perf_event.event(name, sapphire) is not None
    slots_event = perf_event.event(slots, sapphire)
    assert slots_event is not None
    assert slots_event.config == 0x400, "perf's name of the leader is the leader"
    columns = {dropped: 1.0, slots: 100.0} | dict.fromkeys(topdown, 25.0)
    value = parse_metric_expression(found.formula).evaluate({name: np.array([n]) for name, n in columns.items()})
    assert value == pytest.approx([1 - (0.25 - 0.01 + 0.25 + 0.25)])


def test_an_event_of_the_tables_keeps_its_name_and_loses_its_sampling_period(sapphire: Path) -> None:
    found = of_sapphire("tma_info_inst_mix_bptkbranch", sapphire)
    assert found.formula == f"'{INSTRUCTIONS}' / '{NEAR_TAKEN}'"
    metric = perf_event.metric(NEAR_TAKEN, sapphire)
    assert metric.meaning.startswith("BR_INST_RETIRED.NEAR_TAKEN of the PMU cpu (event=0xc4")
    assert of_sapphire("dropped_often", sapphire).events == (
        "perf::cpu/event=0xad,umask=0x10,cmask=2,edge,name=INT_MISC.UOP_DROPPING/",
        "perf::cpu/event=0xc0,name=INST_RETIRED.ANY/k",
    )


@pytest.mark.parametrize(("smt", "divided"), [("1", True), ("0", False)])
def test_what_the_host_decides_is_written_out(sapphire: Path, smt: str, *, divided: bool) -> None:
    file = sapphire / "sys/devices/system/cpu/smt/active"
    file.parent.mkdir(parents=True)
    file.write_text(f"{smt}\n")
    assert (" / 2)" in of_sapphire("tma_info_core_ilp", sapphire).formula) == divided


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("gflops", "its formula needs duration_time, perf's clock, which is not available here"),
        ("bandwidth", "its formula needs UNC_M_CAS_COUNT.RD: this host has no PMU 'uncore_imc'"),
        ("strange", "unknown literal #EBS_Mode; the supported literals are #num_cpus"),
        ("per_unit", "its formula calls source_count(), which is not supported"),
        ("circle", "its formula refers to itself: circle → circle"),
        ("bits", "its formula uses operator | between events, which is not supported"),
        ("missing", "its formula needs NO.SUCH_EVENT, which is not in perf's event tables for this processor"),
        ("nameless", "its formula needs cpu//, which does not name an event"),
        ("constant", "`0` contains no metric, so its value is the same in every interval"),
    ],
)
def test_what_has_no_counterpart_is_refused_with_the_reason(sapphire: Path, name: str, why: str) -> None:
    with pytest.raises(SpecError) as caught:
        of_sapphire(name, sapphire)
    assert str(caught.value).startswith(f"perf's metric {name} cannot be measured here: {why}")


def test_a_long_chain_of_metrics_is_refused(sapphire: Path) -> None:
    chain = tuple(PerfMetric(f"m{number}", f"m{number + 1} + 1") for number in range(50))
    with pytest.raises(SpecError, match="its formula refers to a chain of more than 40 other metrics"):
        translate("m0", PerfTables("7", metrics=chain), sapphire)


def test_a_host_without_a_pmu_is_said(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"needs INST_RETIRED\.ANY, but this host has no core PMU"):
        translate("ipc", PerfTables("7", metrics=(PerfMetric("ipc", "INST_RETIRED.ANY / cycles"),)), tmp_path)


def test_an_unknown_name_gets_the_nearest(sapphire: Path) -> None:
    with pytest.raises(SpecError, match=r"no metric tma_retirin for this processor; did you mean tma_retiring\b"):
        of_sapphire("tma_retirin", sapphire)
    with pytest.raises(SpecError, match="cannot look up perf metric x: perf is not installed"):
        translate("x", PerfTables(problem="perf is not installed"), sapphire)


def test_a_hybrid_processor_has_the_metric_of_the_core_that_is_meant(tmp_path: Path) -> None:
    tables = parse_json(listings.ALDER_LAKE)
    free = processor(tmp_path / "free", ALDER_LAKE, cpus="0-23")
    on_core = translate("tma_frontend_bound", tables, free)
    assert on_core.events[0] == "perf::cpu_core/topdown-fe-bound/"
    atom = ("perf::cpu_atom/event=0x71,name=TOPDOWN_FE_BOUND.ALL/", "perf::cpu_atom/cycles/")
    assert translate("cpu_atom/tma_frontend_bound/", tables, free).events == atom
    confined = processor(tmp_path / "confined", ALDER_LAKE, cpus="16-19")
    assert translate("tma_frontend_bound", tables, confined).events == atom
    assert translate("switches", tables, free).events == (
        "perf::context-switches",
        "perf::cpu_core/event=0xc0,name=INST_RETIRED.ANY/",
        "perf::cs",
    )
    assert translate("per_tsc", tables, free).events == (
        "perf::cpu_core/event=0xc0,name=INST_RETIRED.ANY/",
        "perf::msr/tsc/",
    )


def test_ratios_of_amd_are_zero_where_nothing_was_counted(tmp_path: Path) -> None:
    root, tables = processor(tmp_path, ZEN_4), parse_json(listings.ZEN_4)
    found = translate("branch_misprediction_ratio", tables, root)
    missed, branches = "perf::cpu/event=0xc3,name=ex_ret_brn_misp/", "perf::cpu/event=0xc2,name=ex_ret_brn/"
    assert found.formula == f"'{missed}' / '{branches}' if '{branches}' != 0 else 0"
    value = parse_metric_expression(found.formula).evaluate({missed: np.array([1, 0]), branches: np.array([4, 0])})
    assert value.tolist() == [0.25, 0.0]
    empty = translate("frontend_bound", tables, root).events[0]
    event = perf_event.event(empty, root)
    assert event is not None
    assert event.config == 0x1_0000_01A0, "AMD's event numbers have twelve bits, in two places"
    with pytest.raises(SpecError, match="amd_l3, which counts for a whole processor or package, not for one program"):
        translate("l3_accesses", tables, root)


def perfs_value(node: Node, row: Mapping[str, float]) -> float:
    """Compute a formula as perf's grammar does; NaN where perf gives up."""
    match node:
        case Number(value):
            return value
        case Name(text):
            return row[text]
        case Negative(operand):
            return -perfs_value(operand, row)
        case Choice(value, condition, otherwise):
            decided = perfs_value(condition, row)
            return math.nan if math.isnan(decided) else perfs_value(value if decided else otherwise, row)
        case Call(function, (first, second)):
            left, right = perfs_value(first, row), perfs_value(second, row)
            if math.isnan(left) or math.isnan(right):
                return math.nan if function != "d_ratio" or right != 0 else 0.0
            if function == "d_ratio":
                return left / right if right else 0.0
            return min(left, right) if function == "min" else max(left, right)
        case Binary(sign, first, second):
            left, right = perfs_value(first, row), perfs_value(second, row)
            if math.isnan(left) or math.isnan(right) or (sign == "/" and right == 0):
                return math.nan
            return {
                "+": left + right,
                "-": left - right,
                "*": left * right,
                "/": left / (right or 1),
                "<": float(left < right),
                ">": float(left > right),
            }[sign]
        case Call() | Literal():
            raise AssertionError(node)


ROW = {"a": 3.0, "b": 0.0, "c": -2.0, "d": 0.5}


@given(TREES)
def test_the_value_is_that_of_perfs_rules(tmp_path_factory: pytest.TempPathFactory, tree: Node) -> None:
    """Names stand for the generic events; what is not taken says why."""
    generic = dict(zip(ROW, ("instructions", "cycles", "branches", "cache-misses"), strict=True))
    text = in_parentheses(tree)
    formula = "".join(generic.get(sign, sign).replace("-", r"\-") if sign in generic else sign for sign in named(text))
    root = tmp_path_factory.mktemp("root")
    try:
        found = translate("m", PerfTables("7", metrics=(PerfMetric("m", formula),)), root)
    except SpecError as error:
        assert str(error).startswith("perf's metric m cannot be measured here: ")
        return
    columns = {f"perf::{generic[name]}": np.array([value]) for name, value in ROW.items()}
    (value,) = parse_metric_expression(found.formula).evaluate(columns)
    expected = perfs_value(tree, ROW)
    assert value == pytest.approx(expected, nan_ok=True)


def named(text: str) -> list[str]:
    """Part a formula into its words, so that a letter within `max` is not a name."""
    words, word = [], ""
    for sign in f"{text} ":
        if sign.isalnum() or sign in "_.":
            word += sign
        else:
            words += [word, sign]
            word = ""
    return words


@pytest.mark.skipif(shutil.which("perf") is None or os.geteuid() != 0, reason="needs perf, and root to show it PMUs")
@pytest.mark.parametrize(
    ("devices", "cpuid", "sought", "least"),
    [
        (SAPPHIRE_RAPIDS, "GenuineIntel-6-8F-8", "perf::topdown-retiring", 100),
        (ALDER_LAKE, "GenuineIntel-6-97-2", "perf::cpu_core/topdown-retiring/", 100),
        (ZEN_4, "AuthenticAMD-25-11-1", ",name=ex_ret_brn_misp/", 5),
        (ZEN_5, "AuthenticAMD-26-2-1", ",name=ex_ret_brn_misp/", 5),
    ],
    ids=["Sapphire Rapids", "Alder Lake", "Zen 4", "Zen 5"],
)
def test_what_the_installed_perf_lists(devices: Devices, cpuid: str, sought: str, least: int, tmp_path: Path) -> None:
    """perf runs in a mount namespace of its own, in which sysfs has the PMUs of that processor."""
    root = processor(tmp_path, devices)
    shown = 'mount --bind "$0" /sys/bus/event_source/devices && exec perf list "$@"'
    environment = {**os.environ, "PERF_CPUID": cpuid, "LC_ALL": "C"}
    listed = {}
    for option in ("--json", "--details"):
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", shown, str(root / DEVICES), option],
            capture_output=True,
            text=True,
            errors="replace",  # as the tool reads it: some versions of perf print freed memory and abort
            check=False,
            env=environment,
        )
        listed[option] = done.stdout
    whole = listed["--json"].lstrip().startswith("[")
    tables = parse_json(listed["--json"]) if whole else parse_text(listed["--details"])
    if not tables.events or not tables.metrics:
        pytest.skip("this perf has no tables of that processor, or no mount namespace is allowed")
    events, translated = set[str](), 0
    for metric in tables.metrics:
        try:
            found = translate(metric.asked, tables, root)
        except SpecError as error:
            assert "cannot be measured here: " in str(error)
            continue
        translated += 1
        events |= set(found.events)
    assert all(perf_event.event(name, root) is not None for name in events)
    assert any(name.endswith(sought) for name in events)
    assert translated > least
