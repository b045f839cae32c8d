"""The fewest groups of metrics in which each wanted set of metrics is whole.

A group fits if one run can count it; with a group, each part of it fits. What fits is known by asking, and on hardware
each question is a trial, so that questions are few: a group that fits answers for its parts, and one that does not for
all that contain it.

The groups are a set cover. A greedy search always gives one; an integer program over the groups that are known to fit
may give a smaller one within its time. It is exact if all largest groups are known.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, comb, inf
from typing import Literal

from unperturbed.common.extras import is_installed, load_library
from unperturbed.common.wording import counted

Group = frozenset[str]
"""Names of metrics that one run counts, or is to count."""

SECONDS = 30.0
"""Time that the integer program may take."""

_MOST_GROUPS = 3000  # An integer program with more columns rarely ends in time, and one with more rows neither
_MOST_SETS = 400
_NODES = 20_000  # Its limit in steps usually comes before that in time, so that a plan does not depend on the load
_ROUNDS = 30  # Greedy searches with the metrics in a random order; fewer for many sets, each of which takes time
_SETS = 3_000
_PATIENCE = 4  # Metrics that fail in trials before a group is taken to be full


@dataclass(frozen=True)
class Covering:
    """Groups in which each wanted set that fits at all is whole."""

    groups: tuple[tuple[str, ...], ...]  # The largest first, each in the order of the names
    unmet: tuple[Group, ...]  # Wanted sets that do not fit
    at_least: int  # Number of groups below which no covering is possible
    method: Literal["greedy", "milp", "known"]  # `known`: the groups were given

    @property
    def sentence(self) -> str:
        """Return how the groups were found, and whether they are the fewest; empty if they were given."""
        if self.method == "known":
            return ""
        count = counted(len(self.groups), "pass", "passes")
        how = "by greedy search" if self.method == "greedy" else "by integer programming"
        if len(self.groups) == self.at_least:
            return f"{count}, the fewest possible ({how})"
        fewest = f"no fewer than {self.at_least} are possible" if self.at_least > 1 else "fewer may be possible"
        return f"{count} ({how}; {fewest})"


def cover(
    names: Sequence[str],
    wanted: Iterable[Group],
    fits: Callable[[Group], bool],
    *,
    largest: int | None = None,
    trials: int | None = None,
    known: Iterable[Group] = (),
    seconds: float = SECONDS,
) -> Covering:
    """Return the fewest groups found in which each name, and each wanted set that fits, is whole.

    `largest`: No group with more metrics fits; None if not known.
    `trials`: After how many calls of `fits` no further groups are looked for; None if calls cost nothing.
    `known`: Groups of an earlier plan; they are taken again if they suffice.
    """
    questions = _Questions(fits, trials)
    place = {name: at for at, name in enumerate(names)}
    asked = tuple(dict.fromkeys([*wanted, *(frozenset({name}) for name in names)]))
    before = tuple(dict.fromkeys(group for each in known if (group := each.intersection(names))))
    if all(map(questions.ask, before)):
        unmet = tuple(each for each in asked if not any(each <= group for group in before))
        if before and not any(map(questions.ask, unmet)):
            at_least = _bound(_whole(asked, unmet), largest)
            return Covering(tuple(_ordered(before, place)), unmet, at_least, "known")  # in the same order
    best, unmet = _greedy(asked, names, questions)
    sets = _whole(asked, unmet)
    at_least, method = _bound(sets, largest), "greedy"
    pool: dict[Group, None] = {}
    every = _largest_groups(names, max(map(len, best), default=0), questions) if len(best) > at_least else None
    if every is not None:
        pool = dict.fromkeys(every)
        at_least = max(at_least, _bound(sets, max(map(len, every))))
    elif len(best) > at_least:
        best, pool = _repeated(best, sets, names, questions, at_least)
    if len(best) > at_least and len(sets) <= _MOST_SETS and is_installed("analysis"):
        chosen, bound = _fewest(sets, tuple(pool), seconds, whole=every is not None)
        if every is not None:
            at_least = max(at_least, bound)
        if chosen and len(chosen) < len(best):
            best, method = chosen, "milp"
    return Covering(_tidy(best, sets, place), unmet, at_least, "milp" if method == "milp" else "greedy")


def _whole(asked: Sequence[Group], unmet: Collection[Group]) -> list[Group]:
    """Return the sets that are to be whole in a group, without those that others contain."""
    fitting = [each for each in asked if each not in unmet]
    return [each for each in fitting if not any(each < other for other in fitting)]


class _Questions:
    """What fits, and what does not, as far as asked: each question is asked once, and its answer holds for others."""

    def __init__(self, fits: Callable[[Group], bool], trials: int | None) -> None:
        self._fits, self.trials = fits, trials
        self._good: list[Group] = []
        self._bad: list[Group] = []

    @property
    def free(self) -> bool:
        """Return whether questions cost nothing."""
        return self.trials is None

    @property
    def left(self) -> float:
        """Return how many more questions are worth their time."""
        return inf if self.trials is None else self.trials

    def ask(self, group: Group) -> bool:
        """Return whether a group fits."""
        if self.trials is None:
            return self._fits(group)
        if any(group <= other for other in self._good):
            return True
        if any(group >= other for other in self._bad):
            return False
        self.trials -= 1
        good = self._fits(group)
        (self._good if good else self._bad).append(group)
        return good


def _bound(sets: Collection[Group], largest: int | None) -> int:
    """Return a number of groups that is necessary, after Schönheim.

    A metric that must meet d others is in at least d / (largest - 1) groups, and a group has `largest` of all these
    places.
    """
    if not sets:
        return 0
    if largest is None:
        return 1
    places = _places(sets, largest)
    return max(ceil(sum(places.values()) / largest), *places.values())


def _places(sets: Collection[Group], largest: int) -> Mapping[str, int]:
    """Return in how many groups each metric must be at least."""
    met: defaultdict[str, set[str]] = defaultdict(set)
    for each in sets:
        for name in each:
            met[name] |= each
    return {name: max(1, ceil((len(others) - 1) / max(1, largest - 1))) for name, others in met.items()}


def _greedy(
    sets: Sequence[Group], order: Sequence[str], questions: _Questions
) -> tuple[list[Group], tuple[Group, ...]]:
    """Fill group after group, each time with the metric that completes most sets which no group has yet.

    Result: The groups, and the sets that do not fit.
    """
    left, groups, unmet = dict.fromkeys(sets), list[Group](), list[Group]()
    place = {name: at for at, name in enumerate(order)}
    while left:
        holding: defaultdict[str, list[Group]] = defaultdict(list)
        for each in left:
            for name in each:
                holding[name].append(each)
        group = max(
            left,
            key=lambda each: (len(each), sum(len(holding[name]) for name in each), sorted(-place[n] for n in each)),
        )
        if not questions.ask(group):
            unmet.append(group)
            del left[group]
            continue
        group = _filled(group, [*holding], holding, place, questions)
        groups.append(group)
        left = {each: None for each in left if not each <= group}
    return groups, tuple(unmet)


def _filled(
    group: Group,
    candidates: Collection[str],
    holding: Mapping[str, Sequence[Group]],
    place: Mapping[str, int],
    questions: _Questions,
) -> Group:
    """Add metrics to a group as long as one fits, those that complete most sets first."""
    possible, failed = set(candidates) - group, 0
    while possible and (questions.free or failed < _PATIENCE):
        name = min(
            possible,
            key=lambda name: (
                -sum(each <= group | {name} for each in holding[name]),
                -len(holding[name]),
                place[name],
            ),
        )
        possible.discard(name)
        if questions.ask(group | {name}):
            group, failed = group | {name}, 0
        else:
            failed += 1
    return group


def _largest_groups(names: Sequence[str], size: int, questions: _Questions) -> list[Group] | None:
    """Return all groups that fit and to which no metric can be added; None if they are too many to ask for.

    `size`: Metrics in the largest group that is known.
    """
    count = comb(len(names), size)
    if count > _MOST_GROUPS or count + comb(len(names), size + 1) > questions.left:
        return None
    found: list[Group] = []

    def extend(group: Group, first: int) -> None:
        more = [at for at, name in enumerate(names) if name not in group and questions.ask(group | {names[at]})]
        if not more and group:
            found.append(group)
        for at in more:
            if at >= first and len(found) <= _MOST_GROUPS and questions.left > 0:
                extend(group | {names[at]}, at + 1)

    extend(frozenset(), 0)
    return found if len(found) <= _MOST_GROUPS and questions.left > 0 else None


def _repeated(
    best: list[Group], sets: Sequence[Group], names: Sequence[str], questions: _Questions, at_least: int
) -> tuple[list[Group], dict[Group, None]]:
    """Repeat the greedy search with the metrics in random orders; return the smallest result, and all groups found."""
    chance, order, pool = random.Random(len(names)), list(names), dict.fromkeys(best)
    for _ in range(min(_ROUNDS, max(2, _SETS // len(sets)))):
        if len(best) == at_least or questions.left <= 0:
            break
        chance.shuffle(order)
        found, _ = _greedy(sets, order, questions)
        pool |= dict.fromkeys(found)
        best = min(best, found, key=len)
    return best, pool


def _fewest(sets: Sequence[Group], pool: Sequence[Group], seconds: float, *, whole: bool) -> tuple[list[Group], int]:
    """Choose the fewest groups of a pool by an integer program; return them, and a number that is necessary.

    `whole`: The pool has all largest groups, so that bounds on them tighten the program.
    """
    import numpy as np  # noqa: PLC0415  a self-counting process shall not load it

    optimize, sparse = load_library("scipy.optimize"), load_library("scipy.sparse")
    rows = [[each <= group for group in pool] for each in sets]
    necessary = [1] * len(sets)
    if whole:
        places = _places(sets, max(map(len, pool)))
        rows += [[name in group for group in pool] for name in places]
        necessary += places.values()
        rows.append([True] * len(pool))
        necessary.append(_bound(sets, max(map(len, pool))))
    solved = optimize.milp(
        np.ones(len(pool)),
        constraints=optimize.LinearConstraint(sparse.csr_array(np.array(rows, float)), necessary, np.inf),
        integrality=np.ones(len(pool)),
        bounds=optimize.Bounds(0, 1),
        options={"time_limit": seconds, "node_limit": _NODES},
    )
    bound = getattr(solved, "mip_dual_bound", None)
    at_least = ceil(bound - 1e-6) if bound is not None and np.isfinite(bound) else 0
    if solved.x is None:
        return [], at_least
    return [group for group, share in zip(pool, solved.x, strict=True) if share > 0.5], at_least


def _tidy(groups: Iterable[Group], sets: Sequence[Group], place: Mapping[str, int]) -> tuple[tuple[str, ...], ...]:
    """Return the groups without metrics that no set needs there, in order."""
    kept = list(groups)
    whole = Counter(each for group in kept for each in sets if each <= group)
    for at, group in enumerate(kept):
        for name in sorted(group, key=lambda name: -place[name]):
            needing = [each for each in sets if name in each and each <= kept[at]]
            if all(whole[each] > 1 for each in needing):
                kept[at] -= {name}
                whole.subtract(needing)
    return tuple(sorted(_ordered(kept, place), key=lambda names: -len(names)))


def _ordered(groups: Iterable[Group], place: Mapping[str, int]) -> Iterator[tuple[str, ...]]:
    for group in groups:
        if group:
            yield tuple(sorted(group, key=lambda name: place[name]))
