"""Runs made ahead: the search goes the same way, learns nothing earlier, and waits less."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from tests.analysis.partition.queued import Queued
from tests.analysis.partition.scripted import Scripted
from unperturbed.analysis.partition import STRATEGIES, Ahead, Plan, SearchSettings, search
from unperturbed.analysis.partition.plan import Subset


def _program(seed: int, share: float = 0.5) -> Callable[[str], str]:
    """Return a program in which so large a share of all subsets is perturbed, and no metric alone."""
    return lambda name: (
        "perturbed" if len(name) > 1 and random.Random(f"{seed}/{name}").random() < share else "unperturbed"
    )


def _history(plan: Plan) -> list[tuple[str, Subset, int]]:
    return [(one.stage, one.subset, one.repetitions) for one in plan.history]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_search_goes_the_same_way_and_waits_less(strategy: str) -> None:
    alone = together = 0
    for seed in range(20):
        verdicts = _program(seed)
        plain, one, four = Scripted(verdicts), Queued(Scripted(verdicts), 1), Queued(Scripted(verdicts), 4)
        plans = [search("abcdefgh", plain, SearchSettings(), strategy=strategy)]
        plans += [
            search("abcdefgh", judge, SearchSettings(), strategy=strategy, ahead=judge.ahead) for judge in (one, four)
        ]
        assert len({str(_history(plan)) for plan in plans}) == 1
        assert plans[0].to_dict()["subsets"] == plans[2].to_dict()["subsets"]
        assert plain.made == sum(four.handed.values())
        assert one.in_vain == 0 and four.now <= one.now
        alone, together = alone + one.now, together + four.now
    assert alone / together > 1.3


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("most", [20, 60, 120])
def test_a_limit_on_runs_allows_none_in_vain(strategy: str, most: int) -> None:
    for seed in range(5):
        judge = Queued(Scripted(_program(seed)), 3)
        plan = search("abcdef", judge, SearchSettings(max_runs=most), strategy=strategy, ahead=judge.ahead)
        assert plan.runs_used <= most and judge.in_vain == 0
        assert _history(plan) == _history(
            search("abcdef", Scripted(_program(seed)), SearchSettings(max_runs=most), strategy=strategy)
        )


def test_what_is_begun_at_the_same_time() -> None:
    begun: list[list[tuple[str, int]]] = []

    def request(requests: Sequence[tuple[Subset, int]]) -> None:
        begun.append([("".join(subset), repetitions) for subset, repetitions in requests])

    judge = Scripted(lambda name: "unperturbed" if len(name) <= 2 else "perturbed")
    search("abcd", judge, SearchSettings(), ahead=Ahead(3, request))
    # Each metric alone; then the ways that first fit may go on from a; then both certificates.
    assert begun[0] == [("a", 3), ("b", 3), ("c", 3), ("d", 3)]
    assert begun[1] == [("ab", 3), ("abc", 3), ("ac", 3)]
    assert sorted(begun[-1]) == [("ab", 4), ("cd", 4)]
