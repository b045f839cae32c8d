"""The plan is balanced, shuffled by its seed, and the same every time."""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unperturbed.harness.campaign.plan import (
    Configuration,
    baselines_alone,
    configurations_without_doses,
    configurations_without_sham,
    judged_configurations,
    plan_batch,
    plan_runs,
)
from unperturbed.harness.campaign.plan import configurations as configurations_of
from unperturbed.harness.spec.load import parse_spec

configurations = st.lists(st.integers(3, 30), min_size=1, max_size=6).map(
    lambda counts: [Configuration(f"c{number}", (), runs) for number, runs in enumerate(counts)]
)


@given(configurations, st.integers(1, 3), st.integers(0, 2**32), st.sampled_from(["blocks", "random", "sequential"]))
def test_every_run_is_planned_once(planned: list[Configuration], passes: int, seed: int, order: str) -> None:
    names = [f"pass{number}" for number in range(passes)]
    runs = plan_runs(planned, names, seed=seed, order=order)  # type: ignore[arg-type]
    assert runs == plan_runs(planned, names, seed=seed, order=order)  # type: ignore[arg-type]
    assert Counter((run.configuration, run.pass_name) for run in runs) == {
        (item.name, name): item.runs for item in planned for name in names
    }
    assert [run.id for run in runs] == sorted({run.id for run in runs})
    assert len({len(run.id) for run in runs}) == 1
    for item in planned:
        assert sorted(
            run.repetition for run in runs if (run.configuration, run.pass_name) == (item.name, names[0])
        ) == list(range(1, item.runs + 1))


@given(configurations, st.integers(0, 2**32))
def test_blocks_spread_every_configuration_evenly(planned: list[Configuration], seed: int) -> None:
    runs = plan_runs(planned, ["main"], seed=seed)
    blocks = max(item.runs for item in planned)
    assert [run.block for run in runs] == sorted(run.block for run in runs)
    for item in planned:
        per_block = Counter(run.block for run in runs if run.configuration == item.name)
        assert max(per_block.values()) == 1
        own = sorted(per_block)
        gaps = [later - earlier for earlier, later in pairwise(own)]
        assert all(gap <= -(-blocks // item.runs) for gap in gaps)


@given(configurations, st.integers(0, 2**32))
def test_the_environment_is_the_same_within_a_block(planned: list[Configuration], seed: int) -> None:
    runs = plan_runs(planned, ["main", "page-cache"], seed=seed)
    for _, members in groupby(runs, key=lambda run: run.block):
        assert len({run.pad_bytes for run in members}) == 1
    assert all(0 <= run.pad_bytes < 4096 for run in runs)


def test_another_seed_gives_another_order() -> None:
    planned = [Configuration("baseline", (), 10), Configuration("light", (), 5), Configuration("heavy", (), 5)]
    first, second = plan_runs(planned, ["main"], seed=1), plan_runs(planned, ["main"], seed=2)
    assert [run.configuration for run in first] != [run.configuration for run in second]
    assert {run.pad_bytes for run in first} != {run.pad_bytes for run in second}


@given(configurations, st.integers(0, 3), st.integers(0, 2**32))
def test_an_extension_adds_only_what_is_missing(planned: list[Configuration], extra: int, seed: int) -> None:
    first = plan_runs(planned, ["main", "page-cache"], seed=seed)
    asked = [Configuration(item.name, (), item.runs + extra) for item in planned]
    more = plan_runs(asked, ["main", "page-cache"], seed=seed, before=first)
    assert len(more) == 2 * extra * len(planned)
    together = [*first, *more]
    assert len({run.id for run in together}) == len(together)
    assert len({(run.configuration, run.pass_name, run.repetition) for run in together}) == len(together)
    if more:
        assert min(run.block for run in more) > max(run.block for run in first)
        assert min(run.id for run in more) > max(run.id for run in first)


@given(configurations, st.integers(0, 3), st.integers(0, 2**32))
def test_every_repetition_has_a_layout_of_its_own_where_layouts_vary(
    planned: list[Configuration], extra: int, seed: int
) -> None:
    passes = ["main", "page-cache"]
    fixed, varied = (plan_runs(planned, passes, seed=seed, layouts=layouts) for layouts in ("fixed", "varied"))
    assert {run.layout for run in fixed} == {0}
    asked = [Configuration(item.name, (), item.runs + extra) for item in planned]
    varied = (*varied, *plan_runs(asked, passes, seed=seed, before=varied, layouts="varied"))
    assert all(run.layout == run.repetition for run in varied)
    for item in planned:
        for name in passes:
            layouts = [run.layout for run in varied if (run.configuration, run.pass_name) == (item.name, name)]
            assert sorted(layouts) == list(range(1, item.runs + extra + 1))


@given(configurations, st.integers(0, 3), st.integers(0, 2**32))
def test_with_one_build_a_block_has_one_layout_and_equal_numbers_of_runs_the_same_blocks(
    planned: list[Configuration], extra: int, seed: int
) -> None:
    plan = partial(plan_runs, passes=["main", "page-cache"], seed=seed, layouts="varied", builds="one")
    asked = [Configuration(item.name, (), item.runs + extra) for item in planned]
    first = plan(planned)
    runs = (*first, *plan(asked, before=first))
    assert {(run.block, run.layout) for run in runs} == {(run.block, run.block + 1) for run in runs}
    blocks = {item.name: {run.block for run in first if run.configuration == item.name} for item in planned}
    assert all(len(blocks[item.name]) == item.runs for item in planned)
    for item in planned:
        assert all(blocks[item.name] == blocks[other.name] for other in planned if other.runs == item.runs)


@given(configurations, st.data(), st.integers(0, 2**32))
def test_a_batch_adds_runs_of_some_configurations_behind_all_others(
    planned: list[Configuration], data: st.DataObject, seed: int
) -> None:
    passes = ["main", "page-cache"]
    before = plan_runs(planned, passes, seed=seed, layouts="varied")
    more = {"tried": 3, planned[0].name: data.draw(st.integers(1, 4))}
    batch = plan_batch(more, passes, seed=seed, before=before, layouts="varied")
    assert batch == plan_batch(more, passes, seed=seed, before=before, layouts="varied")
    assert Counter((run.configuration, run.pass_name) for run in batch) == {
        (name, of): count for name, count in more.items() for of in passes
    }
    assert min(run.block for run in batch) > max(run.block for run in before)
    assert min(run.id for run in batch) > max(run.id for run in before)
    again = plan_batch({"tried": 2}, passes, seed=seed, before=[*before, *batch], layouts="varied")
    together = [*before, *batch, *again]
    assert len({run.id for run in together}) == len(
        {(run.configuration, run.pass_name, run.repetition) for run in together}
    )
    assert sorted(run.layout for run in together if (run.configuration, run.pass_name) == ("tried", "main")) == [
        1,
        2,
        3,
        4,
        5,
    ]
    assert len({run.pad_bytes for run in batch if run.configuration == "tried"}) > 1, (
        "the environment's size varies within a batch"
    )


def test_ids_go_on_behind_runs_that_were_taken_out_of_the_plan() -> None:
    before = plan_runs([Configuration("a", (), 3), Configuration("b", (), 3)], ["main"], seed=1)
    left = [run for run in before if run.configuration == "a"]
    more = plan_runs([Configuration("a", (), 5)], ["main"], seed=1, before=left)
    assert min(int(run.id) for run in more) > max(int(run.id) for run in left)


SPEC = """\
name: demo
program: {{source: ., build: "make CC={{cc}}", run: "{{build}}/x"}}
measure:
  interval: 10 ms
  hardware: [PAPI_TOT_INS]
  software: {{a: {{enter: f}}, b: {{enter: g}}, reads: {{preload: fread}}, depth: {{gauge: d}}}}
campaign: {{builds: separate, runs: 3, sham: {sham}, subsets: {{mixed: [b, reads], outside: [reads], values: [depth]}}}}
analysis: {{anchor: {anchor}}}
"""


@pytest.mark.parametrize("anchor", ["a", "reads"])
def test_shams_of_all_that_is_compiled_in(anchor: str) -> None:
    text = SPEC if anchor == "a" else SPEC.replace("subsets: {{", "subsets: {{own: [a], ")
    spec = parse_spec(text.format(sham="true", anchor=anchor), "spec.yaml", Path())
    found = {item.name: item for item in configurations_of(spec)}
    plain = parse_spec(text.format(sham="false", anchor=anchor), "spec.yaml", Path())
    without = configurations_of(plain)
    assert tuple(found.values())[: len(without)] == without, "shams come behind all others"
    shams = {item.sham_of: item for item in found.values() if item.sham_of is not None}
    assert all(sham.name == f"sham-{name}" and sham.software == () for name, sham in shams.items())
    assert all(sham.runs == found[name].runs for name, sham in shams.items())
    if anchor == "a":
        assert {name: sham.inert for name, sham in shams.items()} == {
            "anchor": ("a",),
            "mixed": ("a", "b"),
            "outside": ("a",),
            "values": ("a", "depth"),
        }
        assert found["sham-anchor"].runs == 5
        assert configurations_without_sham(spec) == ()
    else:
        assert {name: sham.inert for name, sham in shams.items()} == {
            "own": ("a",),
            "mixed": ("b",),
            "values": ("depth",),
        }
        assert configurations_without_sham(spec) == ("anchor", "outside")
    assert configurations_without_sham(plain) == ()
    assert spec.digest == plain.digest, "shams may be asked for later"


def test_subsets_with_counters_have_doses_and_are_judged_without_them(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    text = """
name: demo
program: {source: demo, build: "make CC={cc}", run: "{build}/demo"}
measure:
  interval: 10 ms
  hardware: [PAPI_TOT_INS]
  software: {a: {enter: f}, level: {gauge: level}, calls: {preload: malloc}, b: {loop: g}}
campaign:
  builds: one
  doses: [4, 0, 1, 2]
  runs: 4
  subsets: {one: [a, calls], none: [level, calls], two: [a, b]}
analysis: {anchor: b}
"""
    spec = parse_spec(text, "spec.yaml", tmp_path)
    by_name = {item.name: item for item in configurations_of(spec)}
    assert list(by_name) == [
        *("baseline", "ready", "anchor", "one", "one-x2", "one-x4", "none", "none-x2", "none-x4", "two", "two-x2"),
        "two-x4",
    ]
    for name in ("one", "two"):
        for dose in (2, 4):
            item = by_name[f"{name}-x{dose}"]
            assert (item.dose, item.dose_of, item.software, item.runs) == (dose, name, by_name[name].software, 4)
    assert [item.name for item in judged_configurations(spec)] == ["baseline", "ready", "anchor", "one", "none", "two"]
    assert configurations_without_doses(spec) == ()
    without_anchor = parse_spec(text.replace("analysis: {anchor: b}", ""), "spec.yaml", tmp_path)
    assert configurations_without_doses(without_anchor) == ("none",)
    no_ready = parse_spec(text.replace("[4, 0, 1, 2]", "[1, 2, 4]"), "spec.yaml", tmp_path)
    assert "ready" not in {item.name for item in configurations_of(no_ready)}
    assert baselines_alone(spec).campaign.doses == ()
