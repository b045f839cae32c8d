"""The fewest groups in which wanted metrics meet, beside a search through all choices of groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unperturbed.collectors.sources import covering
from unperturbed.collectors.sources.covering import Covering, Group, cover

NAMES = tuple("abcdef")


def fewest(names: Sequence[str], wanted: Iterable[Group], fits: Callable[[Group], bool]) -> int:
    """Return the fewest groups that suffice, by trying all choices of one group, of two groups, …"""
    groups = [group for size in range(len(names) + 1) for group in map(frozenset, combinations(names, size))]
    possible = [group for group in groups if fits(group)]
    sets = [each for each in (*wanted, *(frozenset({name}) for name in names)) if fits(each)]
    largest = [group for group in possible if not any(group < other for other in possible)]
    for count in range(len(names) ** 2):
        for chosen in combinations(largest, count):
            if all(any(each <= group for group in chosen) for each in sets):
                return count
    raise AssertionError("no choice suffices")


def processor(room: int, sizes: Sequence[int], apart: Iterable[Group] = ()) -> Callable[[Group], bool]:
    """Return what fits a processor with so many counters, on which some metrics exclude each other."""
    needs = dict(zip(NAMES, sizes, strict=True))

    def fits(group: Group) -> bool:
        return sum(needs[name] for name in group) <= room and not any(each <= group for each in apart)

    return fits


def check(found: Covering, names: Sequence[str], wanted: Iterable[Group], fits: Callable[[Group], bool]) -> None:
    """Check that a covering is one, and that no metric in it is without need."""
    sets = [each for each in (*wanted, *(frozenset({name}) for name in names)) if fits(each)]
    groups = [frozenset(group) for group in found.groups]
    assert all(map(fits, groups))
    assert all(any(each <= group for group in groups) for each in sets)
    for at, group in enumerate(groups):
        for name in group:
            fewer = [*groups[:at], group - {name}, *groups[at + 1 :]]
            assert not all(any(each <= other for other in fewer) for each in sets), "a metric is there without need"


SETS = st.lists(st.frozensets(st.sampled_from(NAMES), min_size=2, max_size=3), max_size=8)
PROCESSORS = st.builds(
    processor,
    st.integers(1, 5),
    st.lists(st.integers(1, 3), min_size=6, max_size=6),
    st.lists(st.frozensets(st.sampled_from(NAMES), min_size=2, max_size=3), max_size=3),
)


@given(wanted=SETS, fits=PROCESSORS)
def test_groups_are_as_few_as_a_search_through_all_finds(wanted: list[Group], fits: Callable[[Group], bool]) -> None:
    found = cover(NAMES, wanted, fits)
    least = fewest(NAMES, wanted, fits)
    check(found, NAMES, wanted, fits)
    assert len(found.groups) == found.at_least == least
    assert set(found.unmet) == {each for each in (*wanted, *map(frozenset, NAMES)) if not fits(each)}
    assert cover(NAMES, wanted, fits) == found


@given(wanted=SETS, fits=PROCESSORS, trials=st.integers(0, 60))
def test_with_few_trials_groups_suffice_and_no_question_is_asked_whose_answer_is_known(
    wanted: list[Group], fits: Callable[[Group], bool], trials: int
) -> None:
    answers: dict[Group, bool] = {}

    def once(group: Group) -> bool:
        assert not any(answer and group <= other for other, answer in answers.items())
        assert not any(not answer and group >= other for other, answer in answers.items())
        answers[group] = fits(group)
        return answers[group]

    found = cover(NAMES, wanted, once, trials=trials)
    check(found, NAMES, wanted, fits)
    assert found.at_least <= fewest(NAMES, wanted, fits) <= len(found.groups)


@pytest.mark.parametrize(
    ("metrics", "counters", "count"), [(5, 4, 3), (7, 4, 5), (8, 4, 6), (9, 4, 8), (10, 4, 9), (9, 3, 12), (13, 4, 13)]
)
def test_all_pairs_meet_in_as_few_groups_as_coverings_are_known_to_need(
    metrics: int, counters: int, count: int
) -> None:
    names = [f"m{at:02}" for at in range(metrics)]
    pairs = list(map(frozenset, combinations(names, 2)))
    found = cover(names, pairs, lambda group: len(group) <= counters, largest=counters)
    assert len(found.groups) == found.at_least == count  # C(v, k, 2) of the La Jolla Covering Repository


def test_an_earlier_plan_is_taken_again_if_it_suffices() -> None:
    pairs = list(map(frozenset, combinations(NAMES, 2)))
    fits = processor(3, [1] * 6)
    singly = cover(NAMES, pairs, fits, known=map(frozenset, pairs))
    assert (singly.method, len(singly.groups), singly.sentence) == ("known", 15, "")
    first = cover(NAMES, pairs, fits)
    assert first.sentence == "6 passes, the fewest possible (by integer programming)"
    again = cover(NAMES, pairs, fits, known=map(frozenset, first.groups))
    assert again.groups == first.groups
    assert cover(NAMES, pairs, fits, known=[frozenset(NAMES[:3])]) == first


def test_the_greedy_search_is_the_answer_without_the_library_or_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"m{at:02}" for at in range(10)]
    pairs = list(map(frozenset, combinations(names, 2)))

    def plan() -> Covering:
        return cover(names, pairs, lambda group: len(group) <= 4, largest=4)

    exact = plan()
    assert exact.sentence == "9 passes, the fewest possible (by integer programming)"
    monkeypatch.setattr(covering, "is_installed", lambda _extra: False)
    greedy = plan()
    assert greedy.method == "greedy"
    assert len(greedy.groups) > 9
    assert greedy.sentence == f"{len(greedy.groups)} passes (by greedy search; no fewer than 8 are possible)"
    monkeypatch.undo()
    monkeypatch.setattr(covering, "_NODES", 0)
    late = plan()
    assert (late.method, len(late.groups)) == ("greedy", len(greedy.groups)) or len(late.groups) == 9
