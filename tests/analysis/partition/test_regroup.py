"""Regrouping: the guess, what it proposes, and that only measurements decide."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from tests.analysis.partition.scripted import Scripted
from unperturbed.analysis.partition import CandidateEvaluator, SearchSettings
from unperturbed.analysis.partition.evaluation import Limits
from unperturbed.analysis.partition.improve import propose, regroup, suspicions


def rows(names: list[str], metrics: str) -> np.ndarray:
    return np.array([[metric in name for metric in metrics] for name in names], bool).reshape(-1, len(metrics))


def naive_suspicions(
    names: list[str], failed: list[bool], metrics: str, prior: float, steps: int
) -> dict[frozenset[str], float]:
    """Expectation and maximisation, pair by pair: how many failures a pair is expected to have caused, by how often
    it was there."""
    pairs = [frozenset(pair) for pair in combinations(metrics, 2)]
    u = dict.fromkeys(pairs, prior)
    for _ in range(steps):
        caused = dict.fromkeys(pairs, prior)
        there = dict.fromkeys(pairs, 1.0)
        for name, fails in zip(names, failed, strict=True):
            inside = [frozenset(pair) for pair in combinations(name, 2)]
            total = sum(u[pair] for pair in inside)
            for pair in inside:
                there[pair] += 1
                caused[pair] += u[pair] / (1 - np.exp(-total)) if fails else 0
        u = {pair: caused[pair] / there[pair] for pair in pairs}
    return u


def test_suspicions_are_those_of_the_obvious_loop():
    rng = np.random.default_rng(1)
    metrics = "abcdef"
    names = ["".join(metric for metric in metrics if rng.random() < 0.6) for _ in range(15)]
    names = [name for name in names if len(name) > 1]
    failed = list(rng.random(len(names)) < 0.5)
    found = suspicions(rows(names, metrics), np.array(failed), steps=10)
    for pair, expected in naive_suspicions(names, failed, metrics, prior=0.03, steps=10).items():
        one, other = (metrics.index(each) for each in pair)
        assert np.isclose(found[one, other], expected)
        assert found[one, other] == found[other, one]


def test_a_pair_that_was_accepted_is_cleared_and_the_blame_goes_to_the_others():
    found = suspicions(rows(["abc", "ab", "bc"], "abc"), np.array([True, False, False]))
    assert found[0, 2] > 5 * max(found[0, 1], found[1, 2])


def test_a_proposal_has_the_least_suspicion_inside():
    """Against all groupings, on random suspicions."""
    rng = np.random.default_rng(2)
    exact = 0
    for _ in range(30):
        suspicion = rng.exponential(1, (6, 6))
        suspicion = (suspicion + suspicion.T) * (1 - np.eye(6))
        group = propose(suspicion, 3, np.zeros((0, 6), bool), rng)
        every = np.stack(np.meshgrid(*[range(3)] * 6), -1).reshape(-1, 6)
        inside = [(suspicion * (each[:, None] == each)).sum() for each in every]
        exact += np.isclose((suspicion * (group[:, None] == group)).sum(), min(inside))
    assert exact >= 27


def test_a_proposal_avoids_groups_that_are_known_to_fail():
    rng = np.random.default_rng(3)
    failing = rows(["abc", "def", "ab", "cdef"], "abcdef")
    for _ in range(20):
        group = propose(np.full((6, 6), 0.1) - 0.1 * np.eye(6), 2, failing, rng)
        if group is not None:
            assert not any(np.array_equal(group == number, row) for number in range(2) for row in failing)


def test_no_proposal_where_every_grouping_is_known_to_fail():
    assert propose(np.ones((2, 2)) - np.eye(2), 1, rows(["ab"], "ab"), np.random.default_rng(4)) is None


def test_metrics_are_regrouped_by_what_was_measured():
    """a–b, c–d, e–f do not go together: {ac}, {bd}, {ef…} can be had in two subsets."""
    apart = ("ab", "cd", "ef")
    judge = Scripted(lambda name: "perturbed" if any(set(pair) <= set(name) for pair in apart) else "unperturbed")
    settings = SearchSettings()
    evaluator = CandidateEvaluator("abcdef", judge, settings, Limits(settings, lambda: 0.0), lambda _: None)
    for pair in ("ab", "cd", "ef", "ac", "bd", "ae"):
        evaluator.accepts(pair)
    found = regroup(evaluator, [("a", "c"), ("b", "d"), ("e",), ("f",)])
    assert found is not None
    assert len(found) == 3
    assert sorted("".join(map("".join, found))) == list("abcdef")
    assert all(evaluator.known(subset).unperturbed for subset in found)
    assert regroup(evaluator, [("a", "c"), ("b", "d")]) is None
