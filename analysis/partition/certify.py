"""Certification: final subsets are run afresh, and only that certifies.

**The rule.** A plan has one level α. Every certification is made at half of what is left of it; a subset that is
certified gives its level back, and one that is not has spent it. So after f failures the next subset is certified at α
/ 2^(f + 1).

**What it guarantees.** The chance that a plan holds *any* invalid certificate (of a subset with a true change of the
tolerance or more) is at most α. Proof: take the invalid subsets in the order in which they are put to certification. As
long as none of them was certified, each has failed, so at least j − 1 have failed when the j-th is tried, and its level
is at most α / 2^j. An invalid subset is certified with at most the chance of its level, since all its changes must be
shown to lie within the tolerance and one of them does not (intersection–union). The sum of α / 2^j is at most α.
Nothing in this asks the certificates to be independent of one another, so they may share a baseline. The expected share
of certificates that are invalid is then at most α too.

**What it needs.** The certifying runs are fresh, and neither their number nor what is certified depends on them. The
baseline is another matter: of many subsets the search picks those that look well beside *its* baseline, whose error
certification would share. With fresh baseline runs for each round the guarantee holds as it stands. Without them it
holds for subsets that are given beforehand; what share is invalid after a search was measured:
`docs/evidence/partition.md`.

What certifies most metrics for fewest runs is tried first: that is the surest, too, and a failure lowers the level of
all that follow. A subset that failed is judged again by all its runs, which the search may use like any others. While
these show it unperturbed it is certified once more, with other fresh runs; else its metrics are partitioned anew.

A search that is ended by a limit and then started again with a higher one is one search more: who raises the limit
because certificates failed has a chance of α for each search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from unperturbed.analysis.partition.evaluation import CandidateEvaluator, Stop
from unperturbed.analysis.partition.improve import improve
from unperturbed.analysis.partition.plan import Subset, SubsetOutcome
from unperturbed.analysis.partition.strategies import Strategy

ROUNDS = 5
"""Rounds of certification: at α / 2^6 hardly anything is certified by as many runs as are affordable."""

ATTEMPTS = 2
"""Times that one subset is put to certification."""


@dataclass(frozen=True)
class Certificate:
    """A subset that was certified, by which outcome, and at which level."""

    subset: Subset
    outcome: SubsetOutcome
    level: float


@dataclass
class Certification:
    """Certify subsets by the rule above; `certificates` keeps them after a limit or an interruption too."""

    evaluator: CandidateEvaluator  # Where runs are made
    strategy: Strategy  # Partitions anew what failed
    # All of them, in order. They may overlap: a later one may be of a union that holds an earlier one.
    certificates: dict[Subset, Certificate] = field(default_factory=dict)
    pending: list[Subset] = field(default_factory=list)  # Subsets that are still to be certified
    failed: dict[Subset, str] = field(default_factory=dict)  # Why a subset has no certificate
    stopped: str = ""  # The limit that was reached, empty while none was
    _attempts: Counter[Subset] = field(default_factory=Counter)

    def run(self, subsets: Sequence[Subset]) -> None:
        """Certify subsets, and whatever their metrics are partitioned into where they fail.

        Where a limit allows no further search, the subsets accepted before are certified while runs are left.
        """
        self.pending = list(subsets)
        try:
            for number in range(1, ROUNDS + 1):
                if not self.pending:
                    return
                self.evaluator.renew_baseline()
                failed = self._round()
                if failed and number < ROUNDS:
                    self._again(failed)
        except Stop as stop:
            self.stopped = self.stopped or str(stop)

    def _round(self) -> list[Subset]:
        """Certify every pending subset for which runs are left, and return those that are not certified."""
        failed = []
        too_much: Stop | None = None
        self.evaluator.expect_certified(sorted(self.pending, key=self._needed))
        for subset in sorted(self.pending, key=self._needed):
            level = self.evaluator.level
            try:
                outcome = self.evaluator.certify(subset, level)
            except Stop as stop:
                too_much = too_much or stop
                continue
            self.pending.remove(subset)
            self._attempts[subset] += 1
            if outcome is not None and outcome.unperturbed:
                self.certificates[subset] = Certificate(subset, outcome, level)
                continue
            failed.append(subset)
            if outcome is None:
                most = self.evaluator.settings.max_repetitions
                self.failed[subset] = f"{most} repetitions are unlikely to certify it at level {level:.2g}"
            else:
                self.evaluator.level /= 2
                reason = f"{outcome.repetitions} fresh repetitions did not certify it at level {level:.2g}"
                self.failed[subset] = "; ".join([reason, *outcome.carried[:3]])
        if too_much is not None:
            raise too_much
        return failed

    def _again(self, failed: Sequence[Subset]) -> None:
        """Set `pending` to the subsets to certify in place of those that failed."""
        self.evaluator.uncertified = self._without_certificate(self.certificates.values())
        try:
            self._search_again(failed)
        except Stop as stop:
            self.stopped = self.stopped or str(stop)
            self.pending = self.evaluator.cover(self.evaluator.uncertified)

    def _search_again(self, failed: Sequence[Subset]) -> None:
        """Find other subsets. Certified ones may be joined with them, and stay certified meanwhile."""
        retried = []
        for subset in failed:
            if self._attempts[subset] < ATTEMPTS and self.evaluator.accepts(subset):
                retried.append(subset)
            else:
                self.evaluator.refuse(subset)
        taken = {metric for each in retried for metric in each}
        apart = best_choice(each for each in self.certificates.values() if taken.isdisjoint(each.subset))
        split = [metric for metric in self._without_certificate(apart) if metric not in taken]
        self.pending = retried
        if split:
            found = [*retried, *self.strategy.search(self.evaluator, self.evaluator.subset(split))]
            better = improve(self.evaluator, [*(each.subset for each in apart), *found])
            self.pending = [each for each in better if each not in self.certificates]

    def _without_certificate(self, certificates: Iterable[Certificate]) -> Subset:
        """Return the metrics that no such certificate holds, of those that may be measured at all."""
        held = {metric for each in best_choice(certificates) for metric in each.subset}
        return tuple(metric for metric in self.evaluator.placeable(self.evaluator.metrics) if metric not in held)

    def _needed(self, subset: Subset) -> float:
        needed = self.evaluator.repetitions_to_certify(subset, self.evaluator.level)
        return (self.evaluator.settings.max_repetitions + 1 if needed is None else needed) / len(subset)


def best_choice(certificates: Iterable[Certificate]) -> tuple[Certificate, ...]:
    """Return disjoint certificates that hold most metrics, in fewest subsets; all choices are tried."""
    best: tuple[Certificate, ...] = ()
    choices: list[tuple[Certificate, ...]] = [()]
    for certificate in certificates:
        choices += [
            (*choice, certificate)
            for choice in choices
            if not any(set(certificate.subset) & set(other.subset) for other in choice)
        ]
    for choice in choices:
        if _merit(choice) > _merit(best):
            best = choice
    return best


def _merit(choice: Sequence[Certificate]) -> tuple[int, int]:
    return sum(len(each.subset) for each in choice), -len(choice)
