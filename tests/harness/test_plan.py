"""The plan is balanced, shuffled by its seed, and the same every time."""

from __future__ import annotations

from collections import Counter
from itertools import groupby, pairwise

from hypothesis import given
from hypothesis import strategies as st

from unperturbed.harness.plan import Configuration, plan_runs

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
        assert sorted(run.repetition for run in runs if (run.configuration, run.pass_name) == (item.name, names[0])) == list(
            range(1, item.runs + 1)
        )


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
