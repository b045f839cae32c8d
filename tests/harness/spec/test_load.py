"""Loading a spec: what comes out, defaults, identity, immutability, files that are not specs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.harness.spec.examples import SMALL_EXAMPLE, full_example
from unperturbed.collectors.sources.callgrind import Cache, Machine
from unperturbed.errors import SpecError
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import load_spec, parse_spec
from unperturbed.harness.spec.quantities import Duration, Interval, WorkInterval, parse_interval
from unperturbed.harness.spec.yaml import InvalidSpec
from unperturbed.instrument.events import Event

MINIMAL = """\
name: minimal
program:
  run: sh -c true
measure:
  interval: 10 ms
  os: [minor_faults]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("spec")
    (made / "blocksort").mkdir()
    (made / "words.txt").touch()
    return made


def test_everything_that_is_written_comes_out(folder: Path) -> None:
    spec = parse_spec(
        full_example().replace("  exit_code: 0\n", f"  exit_code: 3\n  output_digest: sha256:{'ab' * 32}\n"),
        "s",
        folder,
    )
    assert spec.name == "everything"
    program = spec.program
    assert (program.source, program.debian, program.build) == ("blocksort", None, "make CC={cc}")
    assert dict(program.compilers) == {"cc": "gcc", "cxx": "g++"}
    assert program.run == "{build}/blocksort -c {inputs}/corpus.txt"
    assert (program.shell, program.inputs, program.outputs) == (False, ("words.txt",), ("out.bin",))
    assert (program.stdin, program.working_folder) == ("{inputs}/words.txt", "{scratch}")
    assert dict(program.environment) == {"TZ": "UTC"}
    assert program.timeout == Duration(120_000_000_000)
    assert (program.exit_code, program.output_digest) == (3, "ab" * 32)
    measure = spec.measure
    assert measure.interval == Interval(nanoseconds=20_000_000)
    assert (measure.clock, measure.sampler, measure.source) == ("auto", "inside", "auto")
    asked = ("PAPI_TOT_INS", "PAPI_TOT_CYC", "PAPI_L1_DCM")
    assert (measure.hardware, measure.os) == ((*asked, "perf::topdown-retiring", "perf::slots"), ("minor_faults",))
    assert dict(measure.software) == {
        "blocks": Event("enter", "compress_block"),
        "compares": Event("call", "compare", within="sort_*", file="*.c"),
        "pushes": Event("write", "Stack.depth", threads="exact"),
        "depth": Event("gauge", "stack.c::depth"),
        "allocations": Event("preload", "malloc"),
        "reads": Event("uprobe", "libc.so.6:read", max_rate=20_000),
    }
    assert measure.derived["IPC"].names == ("PAPI_TOT_INS", "PAPI_TOT_CYC")
    assert measure.derived["retiring"].text == "'perf::topdown-retiring' / 'perf::slots'"
    assert measure.simulator == Machine()
    design = spec.campaign
    assert (design.baseline_runs, design.runs, design.seed, design.order, design.retries) == (10, 5, 1, "blocks", 1)
    assert (design.max_runs, design.max_hours) == (200, 4.0)
    assert (design.sham, design.layouts) == (False, "fixed")
    assert dict(design.subsets) == {
        "light": ("compares",),
        "heavy": ("compares", "pushes"),
        "others": ("depth", "allocations", "reads"),
    }
    analysis = spec.analysis
    assert (analysis.align_on, analysis.anchor, analysis.alpha, analysis.tolerance) == (("IPC",), "blocks", 0.05, 0.1)


def test_defaults(folder: Path) -> None:
    spec = parse_spec(MINIMAL, "s", folder)
    program, measure, design, analysis = spec.program, spec.measure, spec.campaign, spec.analysis
    assert (program.source, program.debian, program.build, program.prepare, program.stdin) == (None,) * 5
    assert (program.inputs, program.outputs, dict(program.environment)) == ((), (), {})
    assert (str(program.timeout), program.exit_code, program.output_digest) == ("10 min", 0, None)
    assert (measure.hardware, dict(measure.software), dict(measure.derived)) == ((), {}, {})
    assert (design.baseline_runs, design.runs, design.max_runs, design.max_hours) == (10, 5, None, None)
    assert dict(design.subsets) == {}
    assert (analysis.align_on, analysis.anchor) == (("minor_faults",), None)


@pytest.mark.parametrize(
    ("measure", "analysis", "align_on", "subsets"),
    [
        ({"hardware": ["PAPI_L1_DCM", "PAPI_TOT_INS"]}, {}, ("PAPI_TOT_INS",), {}),
        ({"hardware": ["PAPI_L1_DCM", "PAPI_BR_MSP"]}, {}, ("PAPI_L1_DCM",), {}),
        (
            {"hardware": ["PAPI_TOT_INS", "PAPI_BR_MSP"], "derived": {"IPC": "PAPI_TOT_INS / PAPI_BR_MSP"}},
            {},
            ("IPC",),
            {},
        ),
        (
            {"hardware": ["PAPI_BR_MSP"], "software": {"a": {"enter": "f"}}, "derived": {"IPC": "PAPI_BR_MSP / a"}},
            {},
            ("PAPI_BR_MSP",),
            {"all": ("a",)},
        ),
        (
            {"os": ["major_faults", "minor_faults"], "software": {"b": {"enter": "f"}, "a": {"enter": "g"}}},
            {},
            ("major_faults",),
            {"all": ("a", "b")},
        ),
        (
            {"os": ["minor_faults"], "software": {"b": {"enter": "f"}, "a": {"enter": "g"}}},
            {"anchor": "b"},
            ("minor_faults",),
            {"all": ("a",)},
        ),
        ({"os": ["minor_faults"], "software": {"b": {"enter": "f"}}}, {"anchor": "b"}, ("minor_faults",), {}),
    ],
)
def test_defaults_that_depend_on_the_metrics(
    measure: dict[str, Any], analysis: dict[str, Any], align_on: tuple[str, ...], subsets: dict[str, Any], folder: Path
) -> None:
    program = {"source": "blocksort", "build": "make CC={cc}", "run": "{build}/x"}
    document = {"name": "x", "program": program, "measure": {"interval": "10 ms", **measure}, "analysis": analysis}
    spec = parse_spec(yaml.safe_dump(document, sort_keys=False), "s", folder)
    assert spec.analysis.align_on == align_on
    assert dict(spec.campaign.subsets) == subsets


@pytest.mark.parametrize(
    "interval, expected",
    [
        ("20 ms", Interval(nanoseconds=20_000_000)),
        ("{records: 3000}", Interval(records=3000)),
        ("1ms", Interval(nanoseconds=10**6)),
        ("2 M instructions", WorkInterval(counts=2_000_000, unit="instructions")),
        ("1.5M PAPI_TOT_INS", WorkInterval(counts=1_500_000, unit="PAPI_TOT_INS")),
        ("100000 instructions", WorkInterval(counts=100_000, unit="instructions")),
    ],
)
def test_intervals(interval: str, expected: Interval, folder: Path) -> None:
    text = MINIMAL.replace("10 ms", interval) + "  hardware: [PAPI_TOT_INS]\n"
    assert parse_spec(text, "s", folder).measure.interval == expected


def test_an_interval_is_shown_as_it_is_written() -> None:
    assert str(Interval(nanoseconds=20_000_000)) == "20 ms"
    assert str(Interval(records=3000)) == "{records: 3000}"
    for text in ("2 M instructions", "1500 perf::page-faults", "3 G cycles", "20 k PAPI_L1_DCM"):
        assert str(parse_interval(text)) == text


@pytest.mark.parametrize(
    ("unit", "hardware", "event"),
    [
        ("instructions", ["PAPI_L1_DCM", "PAPI_TOT_INS"], "PAPI_TOT_INS"),
        ("instructions", ["perf::instructions:u"], "perf::instructions:u"),
        ("cycles", ["PAPI_TOT_INS", "perf::cpu-cycles"], "perf::cpu-cycles"),
        ("perf::page-faults", ["perf::faults", "perf::page-faults"], "perf::page-faults"),
    ],
)
def test_work_is_counted_by_a_metric_of_the_spec(unit: str, hardware: list[str], event: str, folder: Path) -> None:
    text = MINIMAL.replace("10 ms", f"1 M {unit}") + f"  hardware: {hardware}\n"
    assert parse_spec(text, "s", folder).measure.interval_event == event


def test_caches_in_both_forms(folder: Path) -> None:
    text = MINIMAL + "  simulator: {D1: 48 KiB 12-way 64 B, LL: {size: 2 MiB, ways: 16, line: 128 B}}\n"
    machine = parse_spec(text, "s", folder).measure.simulator
    assert machine == Machine(Cache(32768, 8, 64), Cache(49152, 12, 64), Cache(1 << 21, 16, 128))


def test_native_metrics_and_quoted_names_in_expressions(folder: Path) -> None:
    text = MINIMAL + "  hardware: ['perf::page-faults', 'amd64_fam19h::RETIRED_OPS:u']\n"
    text += "  derived: {rate: \"'perf::page-faults' / minor_faults\"}\n"
    spec = parse_spec(text, "s", folder)
    assert spec.measure.hardware == ("perf::page-faults", "amd64_fam19h::RETIRED_OPS:u")
    assert spec.measure.derived["rate"].names == ("perf::page-faults", "minor_faults")


def test_the_two_last_level_presets_may_stand_together(folder: Path) -> None:
    spec = parse_spec(MINIMAL + "  hardware: [PAPI_L2_TCM, PAPI_L3_TCM]\n", "s", folder)
    assert spec.measure.hardware == ("PAPI_L2_TCM", "PAPI_L3_TCM")


def test_a_debian_package_needs_no_folder(folder: Path) -> None:
    text = MINIMAL.replace("run: sh -c true", 'debian: bzip2\n  build: make CC={cc}\n  run: "{build}/bzip2"')
    assert parse_spec(text, "s", folder).program.debian == "bzip2"


def test_anchors_and_aliases_are_allowed(folder: Path) -> None:
    text = SMALL_EXAMPLE + "    more: &e {enter: f, file: a.c}\n    same: *e\n"
    software = parse_spec(text, "s", folder).measure.software
    assert software["more"] == software["same"] == Event("enter", "f", file="a.c")


def test_a_file_knows_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spec.yaml").write_text(MINIMAL)
    monkeypatch.chdir(tmp_path)
    spec = load_spec(Path("spec.yaml"))
    assert spec.path == tmp_path.resolve() / "spec.yaml"
    assert spec.folder == tmp_path.resolve()
    assert spec.text == MINIMAL


def test_faults_carry_the_name_that_the_user_gave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spec.yaml").write_text(MINIMAL.replace("name:", "nmae:"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidSpec) as caught:
        load_spec(Path("spec.yaml"))
    assert str(caught.value) == (
        "spec.yaml:1:1: `name` is missing (name of the campaign, and of its folder)\n"
        "spec.yaml:1:1: unknown key `nmae`; did you mean `name`?"
    )
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "spec.yaml:1:1: the spec is empty: `unperturbed schema` lists the keys of a spec"),
        (b" \n\n", "spec.yaml:1:1: the spec is empty: `unperturbed schema` lists the keys of a spec"),
        (
            b"\x7f\x02\x01\x01\x00",
            "spec.yaml:1:1: the character U+007F is not allowed in YAML: the file is binary or damaged",
        ),
        (
            b"\x89\r\n",
            "spec.yaml:1:1: byte 0x89 is not UTF-8: the file is binary or has a different encoding; save it as UTF-8 "
            "text",
        ),
        (
            b"name: x\n" * 1_300_000,
            "spec.yaml:1:1: the file is larger than 1 MiB, so it cannot be a spec: check the file's name",
        ),
        (
            b"[" * 1_000_000,
            "spec.yaml:1:21: lists and mappings are nested more than 20 levels deep: a spec needs at most 5 levels",
        ),
    ],
    ids=["empty", "blank", "control character", "not UTF-8", "10 MB", "deep"],
)
def test_files_that_are_no_specs_get_one_message(
    content: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spec.yaml").write_bytes(content)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError) as caught:
        load_spec(Path("spec.yaml"))
    assert str(caught.value) == message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"none\.yaml: no such file; give the YAML file of a spec$"):
        load_spec(tmp_path / "none.yaml")
    with pytest.raises(SpecError, match=r": not a file; give the YAML file of a spec$"):
        load_spec(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(MINIMAL)
    file.chmod(0)
    with pytest.raises(SpecError, match="cannot read the file: Permission denied"):
        load_spec(file)


def test_a_campaign_is_immutable(folder: Path) -> None:
    spec = parse_spec(full_example(), "s", folder)
    for part, field in (
        (spec, "name"),
        (spec.program, "run"),
        (spec.measure, "os"),
        (spec.analysis, "alpha"),
    ):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(part, field, "x")
    for attribute in ("path", "folder", "text", "digest"):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(spec, attribute, "x")
    mappings: list[Any] = [
        spec.program.environment,
        spec.program.compilers,
        spec.measure.software,
        spec.measure.derived,
        spec.campaign.subsets,
    ]
    for mapping in mappings:
        with pytest.raises(TypeError):
            mapping["x"] = "y"
    assert isinstance(spec.measure.hardware, tuple)
    assert all(isinstance(subset, tuple) for subset in spec.campaign.subsets.values())
    # Defaults are made anew or immutable too.
    with pytest.raises(TypeError):
        parse_spec(MINIMAL, "s", folder).program.environment["x"] = "y"  # type: ignore[index]


def _digest(text: str, folder: Path) -> str:
    return parse_spec(text, "s", folder).digest


def test_the_digest_is_of_content_alone(folder: Path, tmp_path: Path) -> None:
    digest = _digest(MINIMAL, folder)
    assert len(digest) == 64
    same = [
        "# a comment\n" + MINIMAL.replace("name: minimal", 'name:   "minimal"   # and another'),
        MINIMAL.replace("10 ms", "0.01 s"),
        MINIMAL + "campaign: {runs: 5, baseline_runs: 10}\nanalysis: {alpha: 5.0e-2}\n",
        MINIMAL + "  simulator: {D1: {size: 32 KiB, ways: 8, line: 64 B}}\nanalysis: {align_on: [minor_faults]}\n",
        MINIMAL.replace("run: sh -c true", "timeout: 600 s\n  run: sh -c true"),
        # Limits, and settings of the analysis: the runs are the same.
        MINIMAL.replace("run: sh -c true", "timeout: 5 s\n  run: sh -c true"),
        MINIMAL + "campaign: {retries: 3, max_runs: 500, max_hours: 2, runs: 9, baseline_runs: 20}\n",
        MINIMAL + "campaign: {sham: true, layouts: fixed}\n",
        MINIMAL + "analysis: {tolerance: 0.2, alpha: 0.01}\n",
    ]
    assert {_digest(text, folder) for text in same} == {digest}
    (tmp_path / "other name.yaml").write_text(MINIMAL)
    assert load_spec(tmp_path / "other name.yaml").digest == digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("name: minimal", "name: minimum"),
        ("sh -c true", "sh -c false"),
        ("10 ms", "11 ms"),
        ("10 ms", "{records: 3000}"),
        ("[minor_faults]", "[minor_faults, major_faults]"),
        ("  run:", "  shell: true\n  run:"),
        ("  run:", "  environment: {A: ''}\n  run:"),
        ("measure:", "campaign: {seed: 2}\nmeasure:"),
        ("  os:", "  simulator: {LL: 2 MiB 16-way 64 B}\n  os:"),
        ("  os:", "  derived: {x: minor_faults * 2}\n  os:"),
    ],
)
def test_the_digest_changes_with_the_content(old: str, new: str, folder: Path) -> None:
    assert _digest(MINIMAL.replace(old, new, 1), folder) != _digest(MINIMAL, folder)


def test_the_digest_changes_with_the_layouts(folder: Path) -> None:
    assert _digest(SMALL_EXAMPLE + "campaign: {layouts: varied}\n", folder) != _digest(SMALL_EXAMPLE, folder)


def test_the_digest_is_stable(folder: Path) -> None:
    """A campaign that was begun by an earlier version goes on only if its digest stays: change it knowingly."""
    assert _digest(MINIMAL, folder) == "27e36650dfd30fad8ddbaf99ced771f9b8528d05728ee9a9faeb30cf66270235"


def _shuffled(data: Any, order: Any) -> Any:
    if isinstance(data, dict):
        keys = order.draw(st.permutations(list(data)))
        return {key: _shuffled(data[key], order) for key in keys}
    return data


@given(st.data())
def test_the_digest_ignores_the_order_of_keys(order: st.DataObject) -> None:
    text = SMALL_EXAMPLE.replace("  source: blocksort\n", "  debian: bzip2\n") + "    words: {call: f, in: g}\n"
    shuffled = yaml.safe_dump(_shuffled(yaml.safe_load(text), order), sort_keys=False)
    assert _digest(shuffled, Path("/")) == _digest(text, Path("/"))


def test_equal_specs_are_equal(folder: Path) -> None:
    assert parse_spec(full_example(), "s", folder) == parse_spec(full_example(), "s", folder)
    assert isinstance(parse_spec(full_example(), "s", folder), CampaignSpec)


@pytest.mark.parametrize(
    "file", sorted((Path(__file__).parents[3] / "experiments").glob("*/*.yaml")), ids=lambda file: file.name
)
def test_the_experiments_of_this_repository_are_valid(file: Path) -> None:
    assert load_spec(file).name == file.stem


def test_an_interval_has_a_default_but_in_a_sweep(folder: Path) -> None:
    left_open = MINIMAL.replace("  interval: 10 ms\n", "")
    assert left_open != MINIMAL
    spec = parse_spec(left_open, "s", folder)
    assert spec.measure.interval == Interval(records=200)
    same = parse_spec(MINIMAL.replace("10 ms", "{records: 200}"), "s", folder)
    assert spec.digest == same.digest
    sweep = "name: x\nparameters: {n: [1, 2]}\nprogram: {run: 'sh -c {parameters.n}'}\nmeasure: {os: [minor_faults]}\n"
    assert parse_spec(sweep, "s", folder).measure.interval is None


@pytest.mark.parametrize(
    ("more", "expected"),
    [("", "one"), ("nodes: {engine: here, count: 2}\n", "separate"), ("parameters: {x: [1, 2]}\n", "separate")],
)
def test_configurations_share_a_build_by_auto_on_one_host(more: str, expected: str, folder: Path) -> None:
    text = f"{MINIMAL}campaign: {{builds: auto}}\n{more}"
    if "parameters" in more:
        text = text.replace("  interval: 10 ms\n", "").replace("sh -c true", "sh -c {parameters.x}")
    assert parse_spec(text, "spec.yaml", folder).builds == expected
