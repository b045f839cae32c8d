"""Certification: only fresh runs of the final subsets certify them.

**The rule.** A plan has one level α. Every certification uses half of the remaining level. A certified subset returns
its level; a failed subset has spent it. So after f failures, the next subset is certified at α / 2^(f + 1).

**The guarantee.** The probability that a plan contains *any* invalid certificate (of a subset with a true change of the
tolerance or more) is at most α. Proof: take the invalid subsets in the order of their certifications. As long as none
of them was certified, each has failed, so at least j − 1 have failed when the j-th is tried, and its level is at most
α / 2^j. An invalid subset is certified with at most the probability of its level, because all of its changes must be
shown to lie within the tolerance and one of them does not (intersection–union). The sum of α / 2^j is at most α. The
proof does not require independent certificates, so they may share a baseline. The expected share of invalid
certificates is then at most α too.

**The assumptions.** The certifying runs are fresh, and neither their number nor the choice of subsets depends on them.
The baseline is different: from many subsets, the search selects those that look good compared with *its* baseline, and
certification would share the error of this baseline. With fresh baseline runs for each round, the guarantee holds
exactly. Without them, it holds for subsets that are fixed in advance; `docs/evidence/partition.md` has the measured
share of invalid certificates after a search.

The subset that certifies the most metrics with the fewest runs is tried first: it is also the surest, and a failure
lowers the level of all later subsets. A failed subset is judged again by all of its runs, which the search may use like
any others. If these show it unperturbed, it is certified once more, with other fresh runs; otherwise, its metrics are
partitioned anew.

A search that is ended by a limit and restarted with a higher limit counts as another search: if you raise the limit
because certificates failed, the probability is α for each search.
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
"""Maximum number of rounds of certification: at α / 2^6, an affordable number of runs rarely certifies a subset."""

ATTEMPTS = 2
"""Maximum number of certifications of one subset."""


@dataclass(frozen=True)
class Certificate:
    """Certified subset, with the outcome and the level of its certification."""

    subset: Subset
    outcome: SubsetOutcome
    level: float


@dataclass
class Certification:
    """Certification of subsets by the module's rule; `certificates` survive a limit or an interruption."""

    evaluator: CandidateEvaluator  # Makes the runs
    strategy: Strategy  # Partitions the metrics of failed subsets anew
    # All certificates, in order. They may overlap: a later subset may include an earlier one.
    certificates: dict[Subset, Certificate] = field(default_factory=dict)
    pending: list[Subset] = field(default_factory=list)  # Subsets that are still to be certified
    failed: dict[Subset, str] = field(default_factory=dict)  # Why a subset has no certificate
    stopped: str = ""  # The limit that was reached; empty if none was
    _attempts: Counter[Subset] = field(default_factory=Counter)

    def run(self, subsets: Sequence[Subset]) -> None:
        """Certify subsets; partition the metrics of failed subsets anew, and certify the new subsets.

        If a limit ends the search, the subsets that were already accepted are certified while runs are left.
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
        """Certify every pending subset that the limits allow, and return the subsets that failed."""
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
                self.failed[subset] = f"{most} repetitions are unlikely to certify the subset at level {level:.2g}"
            else:
                self.evaluator.level /= 2
                reason = f"{outcome.repetitions} fresh repetitions did not certify the subset at level {level:.2g}"
                self.failed[subset] = "; ".join([reason, *outcome.carried[:3]])
        if too_much is not None:
            raise too_much
        return failed

    def _again(self, failed: Sequence[Subset]) -> None:
        """Set `pending` to the subsets to certify instead of the failed ones."""
        self.evaluator.uncertified = self._without_certificate(self.certificates.values())
        try:
            self._search_again(failed)
        except Stop as stop:
            self.stopped = self.stopped or str(stop)
            self.pending = self.evaluator.cover(self.evaluator.uncertified)

    def _search_again(self, failed: Sequence[Subset]) -> None:
        """Find replacements for failed subsets; certified subsets may join them, and stay certified until then."""
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
            replacements = [*retried, *self.strategy.search(self.evaluator, self.evaluator.subset(split))]
            better = improve(self.evaluator, [*(each.subset for each in apart), *replacements])
            self.pending = [each for each in better if each not in self.certificates]

    def _without_certificate(self, certificates: Iterable[Certificate]) -> Subset:
        """Return the placeable metrics that none of the certificates covers."""
        held = {metric for each in best_choice(certificates) for metric in each.subset}
        return tuple(metric for metric in self.evaluator.placeable(self.evaluator.metrics) if metric not in held)

    def _needed(self, subset: Subset) -> float:
        needed = self.evaluator.repetitions_to_certify(subset, self.evaluator.level)
        return (self.evaluator.settings.max_repetitions + 1 if needed is None else needed) / len(subset)


def best_choice(certificates: Iterable[Certificate]) -> tuple[Certificate, ...]:
    """Return disjoint certificates that cover the most metrics in the fewest subsets; all choices are tried."""
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
