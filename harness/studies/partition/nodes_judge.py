"""Judge for a partition search on several nodes: assigns each candidate to a node and judges the runs there.

As on one host, the search depends only on outcomes; likely next candidates are requested from several nodes at the same
time. The node of a candidate is recorded at the first request, so a resumed search repeats no run.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from unperturbed.analysis.partition import Reference, Stop, SubsetOutcome, TraceJudge
from unperturbed.common.wording import counted
from unperturbed.errors import RunError
from unperturbed.harness.campaign.manifest import RunState
from unperturbed.harness.campaign.session import build_configurations
from unperturbed.harness.nodes.coordinate import Coordination
from unperturbed.harness.nodes.shares import SEARCHES, NodePart, read_requests, reading
from unperturbed.harness.spec.sections.campaign import ANCHOR, BASELINE, PILOT
from unperturbed.harness.studies.partition.runs import RunFailed, SearchRuns, candidate, candidate_name, repetitions_of


class PartLostError(Exception):
    """A part was given up without the requested runs; always handled inside `harness.studies`."""


class NodeRuns(SearchRuns):
    """The runs of a search on one node; `session` identifies this process, which retries runs that failed earlier."""

    def __init__(self, coordination: Coordination, part: NodePart, session: str, counted: dict[str, bool]) -> None:
        share = SEARCHES.share(coordination.spec, part.number)
        super().__init__(share, part.folder, coordination.manifest, counted)
        self.part, self.place, self._coordination, self._session = part, f"{part.name}/", coordination, session
        self._requests = replace(read_requests(part), session=session)
        self._requests.write(part)

    @property
    def owner(self) -> str:
        """Return the node that makes the runs."""
        return self.part.owner or ""

    @property
    def passes(self) -> list[str]:
        """Return the names of the node's passes; empty until the node has recorded them."""
        return [name for name, _, _ in self.counting()]

    @property
    def pilots(self) -> list[float]:
        """Return the duration of each pass's pilot run in seconds; empty until all are known."""
        with reading(self.part) as manifest:
            pilots = [manifest.fact(f"{PILOT}:{item['name']}") for item in manifest.fact("passes") or []]
        return [pilot["seconds"] for pilot in pilots if pilot] if all(pilots) else []

    @property
    def in_vain(self) -> int:
        """Return the number of candidate runs that were requested but not used."""
        left = {name: total - self.given[name] for name, total in self._requests.totals.items()}
        return len(self.passes) * sum(runs for name, runs in left.items() if name not in (BASELINE, ANCHOR))

    def request(self, more: Mapping[str, int]) -> None:
        """Ensure that `more` runs per pass of each configuration are requested beyond the runs already used."""
        totals, known = self._requests.totals, self._requests
        short = {name: self.given[name] + runs - totals[name] for name, runs in more.items()}
        if batch := {name: runs for name, runs in short.items() if runs > 0}:
            builds = self.manifest.fact("candidate_builds") or {}
            candidates = {name: builds[name] for name in batch if name in builds}
            self._requests = replace(
                known, batches=(*known.batches, batch), configurations={**known.configurations, **candidates}
            )
            self._requests.write(self.part)

    def make(self, name: str, first: int, count: int) -> Sequence[RunState]:
        """Wait until the node has made the requested runs."""
        coordination, number = self._coordination, self.part.number
        while (states := self._settled(name, first, count)) is None:
            if number in coordination.given_up:
                raise PartLostError(coordination.given_up[number])
            coordination.watch(lambda: number in coordination.given_up or self._settled(name, first, count) is not None)
        return states

    def end(self) -> None:
        """Notify the node that no requests will follow, so that it ends after its last run."""
        self._requests = replace(self._requests, session="")
        self._requests.write(self.part)

    def counting(self) -> list[tuple[str, str, tuple[str, ...]]]:
        """Return the name, source and metrics of each pass on the node."""
        with reading(self.part) as manifest:
            return [(item["name"], item["source"], tuple(item["metrics"])) for item in manifest.fact("passes") or []]

    def _settled(self, name: str, first: int, count: int) -> list[RunState] | None:
        """Return the next `count` runs of a configuration; None while any of them is unfinished."""
        passes = self.passes
        with reading(self.part) as manifest:
            states = repetitions_of(manifest, name, first, count)
            over = {"done", "failed"} if manifest.fact("session") == self._session else {"done"}
        whole = bool(passes) and len(states) == count * len(passes)
        if any(state.state == "failed" for state in states) and "failed" in over:
            return states
        return states if whole and all(state.state in over for state in states) else None


class _NoNodeLeft(Stop):
    """All parts were given up."""


class NodesJudge:
    """A `Judge` of `analysis.partition` that judges each candidate by the runs of one node."""

    def __init__(self, coordination: Coordination, folder: Path) -> None:
        self._coordination, self._folder = coordination, folder
        self._manifest = coordination.manifest
        self.counted: dict[str, bool] = {}
        session = uuid.uuid4().hex
        self._runs = {part.number: NodeRuns(coordination, part, session, self.counted) for part in coordination.parts}
        self._judges: dict[int, TraceJudge] = {}
        self._at: dict[str, int] = {}
        self._given: dict[str, int] = {}
        self._judged_on: dict[tuple[str, ...], int] = {}
        self._none_is_left = False

    @property
    def failed(self) -> bool:
        """Return whether a run failed in all attempts, or no node is left."""
        return self._none_is_left or any(runs.failed for runs in self._runs.values())

    @property
    def live(self) -> tuple[int, ...]:
        """Return the numbers of the parts that are still in use."""
        return tuple(number for number in self._runs if number not in self._coordination.given_up)

    @property
    def runs_per_repetition(self) -> int:
        """Return the number of passes."""
        return next(iter(self._judges.values())).runs_per_repetition

    @property
    def baseline_runs(self) -> int:
        """Return the number of runs for fresh baselines on all nodes.

        Nodes that were lost in the meantime count too, because the time of a loss must not affect the search.
        """
        return sum(judge.baseline_runs for judge in self._judges.values())

    def reference_runs(self, number: int) -> int:
        """Return the number of runs per pass for the baselines of a part."""
        return sum(self._runs[number].reference_batch.values())

    def begin(self) -> tuple[float, int]:
        """Request the first baselines from every node; return the mean duration of a run, and the number of passes."""
        for number in self.live:
            self._runs[number].request(self._runs[number].reference_batch)
        self._coordination.watch(lambda: not self.live or any(self._runs[number].pilots for number in self.live))
        for number in self.live:
            if pilots := self._runs[number].pilots:
                return sum(pilots) / len(pilots), len(pilots)
        raise self._none_left()

    def make_references(self) -> None:
        """Wait for the first baselines from every node, and create a judge for each node."""
        try:
            for number in self.live:
                try:
                    references = self._references(number)
                except PartLostError:
                    continue
                self._judges[number] = TraceJudge(
                    self._runs[number].measure,
                    references,
                    alpha=self._coordination.spec.analysis.alpha,
                    fresh_baseline=partial(self._references, number),
                )
        except RunFailed as failure:
            raise RunError(str(failure)) from None
        if not self._judges:
            raise self._none_left()

    def build(self, subset: tuple[str, ...]) -> str:
        """Build a candidate unless already built, record the build for the parts, and return the candidate's name."""
        spec, name = self._coordination.spec, candidate_name(self._manifest, subset)
        known = self._manifest.fact("candidate_builds") or {}
        if name not in known:
            item = candidate(spec, name, self._manifest)
            build_configurations(spec, self._folder, [item], self._manifest, self._coordination.progress)
            build = (self._manifest.fact("builds") or {}).get(name)
            self._manifest.set_facts(
                candidate_builds={**known, name: {"software": list(item.software), "build": build}}
            )
        return name

    def request(self, requests: Sequence[tuple[tuple[str, ...], int]]) -> None:
        """Request runs of several candidates, each on its own node."""
        for subset, repetitions in requests:
            name = self.build(subset)
            number = self._home(name)
            if number in self.live:
                self._runs[number].request({name: repetitions})

    def explore(self, subset: tuple[str, ...], repetitions: int) -> SubsetOutcome:
        """Make additional runs of a subset on its node, and judge the subset by all its runs there."""
        if not repetitions:
            number = self._judged_on[subset]
            return self._outcome(number, self._judges[number].explore(subset, 0))
        return self._on_its_node(subset, repetitions, pooled=True, act=lambda judge, runs: judge.explore(subset, runs))

    def certify(self, subset: tuple[str, ...], repetitions: int, level: float) -> SubsetOutcome:
        """Make runs of a subset on its node, and judge the subset only by these, against the node's fresh baseline."""
        return self._on_its_node(
            subset, repetitions, pooled=False, act=lambda judge, runs: judge.certify(subset, runs, level)
        )

    def repetitions_to_certify(self, subset: tuple[str, ...], level: float, maximum: int) -> int | None:
        """Return the number of repetitions that will probably certify an explored subset."""
        return self._judges[self._judged_on[subset]].repetitions_to_certify(subset, level, maximum)

    def renew_baseline(self) -> None:
        """Make fresh baselines on all nodes at the same time."""
        numbers = [number for number in self._judges if number in self.live]
        for number in numbers:
            self._runs[number].request(self._runs[number].reference_batch)
        for number in numbers:
            try:
                self._judges[number].renew_baseline()
            except PartLostError:
                continue  # its candidates move to other nodes at the next request

    def end(self) -> None:
        """Notify all parts that no requests will follow."""
        for runs in self._runs.values():
            runs.end()

    def notes(self) -> tuple[str, ...]:
        """Return notes for readers of the plan, one sentence each."""
        lost = self._coordination.given_up
        vain = sum(self._runs[number].in_vain for number in self._runs)
        return (
            *(sentence for runs in self._runs.values() for sentence in runs.against),
            *(
                f"Part {self._runs[number].part.name} ended early: {why}. All runs of its candidates were repeated on "
                "another node."
                for number, why in lost.items()
            ),
            *((f"{counted(vain, 'candidate run')} made in advance proved unnecessary.",) if vain else ()),
        )

    def _on_its_node(
        self,
        subset: tuple[str, ...],
        repetitions: int,
        *,
        pooled: bool,
        act: Callable[[TraceJudge, int], SubsetOutcome],
    ) -> SubsetOutcome:
        """Measure a subset on its node; if that node is lost, repeat all pooled runs on another node."""
        name = self.build(subset)
        while True:
            number = self._home(name)
            moved = pooled and self._judged_on.get(subset, number) != number
            if number not in self._judges:  # lost before it had a baseline
                self._move(name)
                continue
            try:
                outcome = act(self._judges[number], repetitions + (self._given.get(name, 0) if moved else 0))
            except PartLostError:
                self._move(name)
                continue
            self._given[name] = self._given.get(name, 0) + repetitions
            if pooled:
                self._judged_on[subset] = number
            return self._outcome(number, outcome)

    def _outcome(self, number: int, outcome: SubsetOutcome) -> SubsetOutcome:
        return replace(outcome, node=self._runs[number].owner)

    def _references(self, number: int) -> dict[str, Reference]:
        """Return a node's baselines from new runs; give up a node that counts differently from the first node."""
        runs, first = self._runs[number], self._runs[next(iter(self._judges), number)]
        references = runs.references()
        if runs.counting() != first.counting():
            why = f"its node counts differently from {first.part.owner} (different sources or passes)"
            self._coordination.give_up(number, why)
            runs.against.clear()
            raise PartLostError(why)
        return references

    def _home(self, name: str) -> int:
        """Return the part that measures a candidate: assigned in rotation, and the same part in a resumed search."""
        homes: dict[str, list[list[int]]] = dict(self._manifest.fact("homes") or {})
        if name not in homes:
            usable = self._usable()
            homes[name] = [[usable[len(homes) % len(usable)], 0]]
            self._manifest.set_facts(homes=homes)
        entries, at = homes[name], self._at.get(name, 0)
        while at + 1 < len(entries) and self._given.get(name, 0) >= entries[at + 1][1]:
            at += 1
        self._at[name] = at
        return entries[at][0]

    def _move(self, name: str) -> None:
        """Move a candidate to another part for all later runs."""
        homes: dict[str, list[list[int]]] = dict(self._manifest.fact("homes") or {})
        usable = self._usable()
        number = usable[(len(homes) + len(homes[name])) % len(usable)]
        kept = homes[name][: self._at.get(name, 0) + 1]
        homes[name] = [*kept, [number, self._given.get(name, 0)]]
        self._manifest.set_facts(homes=homes)

    def _usable(self) -> list[int]:
        usable = [number for number in self._judges if number in self.live]
        if not usable:
            self._none_is_left = True
            raise _NoNodeLeft(str(self._none_left()))
        return usable

    def _none_left(self) -> RunError:
        reasons = " ".join(
            f"Part {self._runs[number].part.name}: {why}." for number, why in self._coordination.given_up.items()
        )
        return RunError(f"no node is left; all runs are kept, and the same command resumes the search. {reasons}")
