"""The judge of a search on several nodes: which node measures a candidate, and what its runs there show.

The search goes by outcomes alone, as on one host; what it will ask for next is requested of several nodes at the same
time. The node of a candidate is recorded when it is first asked for, so that a search that is started again repeats no
run.
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
from unperturbed.harness.studies.partition import RunFailed, SearchRuns, candidate, candidate_name, repetitions_of


class PartLostError(Exception):
    """The part was given up, and the runs are not there. It never leaves the studies."""


class NodeRuns(SearchRuns):
    """The runs of a search on one node; this search's process, `session`, tries again what failed in an earlier one."""

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
        """Return the names of the node's passes; none before it knows them."""
        return [name for name, _, _ in self.counting()]

    @property
    def pilots(self) -> list[float]:
        """Return the seconds of a run of each pass; empty until all are known."""
        with reading(self.part) as manifest:
            found = [manifest.fact(f"{PILOT}:{item['name']}") for item in manifest.fact("passes") or []]
        return [pilot["seconds"] for pilot in found if pilot] if all(found) else []

    @property
    def in_vain(self) -> int:
        """Return how many runs of candidates were requested and not handed out."""
        left = {name: total - self.given[name] for name, total in self._requests.totals.items()}
        return len(self.passes) * sum(runs for name, runs in left.items() if name not in (BASELINE, ANCHOR))

    def request(self, more: Mapping[str, int]) -> None:
        """Request runs a pass beyond those that were handed out, unless they are requested already."""
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
        """Let the node know that no more is requested: it ends with its last run."""
        self._requests = replace(self._requests, session="")
        self._requests.write(self.part)

    def counting(self) -> list[tuple[str, str, tuple[str, ...]]]:
        """Return name, source and metrics of each pass of the node."""
        with reading(self.part) as manifest:
            return [(item["name"], item["source"], tuple(item["metrics"])) for item in manifest.fact("passes") or []]

    def _settled(self, name: str, first: int, count: int) -> list[RunState] | None:
        """Return the next runs of a configuration; None while one of them is to be made."""
        passes = self.passes
        with reading(self.part) as manifest:
            states = repetitions_of(manifest, name, first, count)
            over = {"done", "failed"} if manifest.fact("session") == self._session else {"done"}
        whole = bool(passes) and len(states) == count * len(passes)
        if any(state.state == "failed" for state in states) and "failed" in over:
            return states
        return states if whole and all(state.state in over for state in states) else None


class _NoNodeLeft(Stop):
    """Every part was given up."""


class NodesJudge:
    """Judges each candidate by the runs of one node: a `Judge` of `analysis.partition`."""

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
        """Return whether a run failed for good, or no node was left."""
        return self._none_is_left or any(runs.failed for runs in self._runs.values())

    @property
    def live(self) -> tuple[int, ...]:
        """Return the numbers of the parts that were not given up."""
        return tuple(number for number in self._runs if number not in self._coordination.given_up)

    @property
    def runs_per_repetition(self) -> int:
        """Return the number of passes."""
        return next(iter(self._judges.values())).runs_per_repetition

    @property
    def baseline_runs(self) -> int:
        """Return how many runs the fresh baselines of all nodes take.

        Nodes that are lost meanwhile count too: when one is lost must not change how the search goes.
        """
        return sum(judge.baseline_runs for judge in self._judges.values())

    def reference_runs(self, number: int) -> int:
        """Return how many runs a pass the baselines of a part take."""
        return sum(self._runs[number].reference_batch.values())

    def begin(self) -> tuple[float, int]:
        """Request the first baselines of every node; return the mean time of a run, and the number of passes."""
        for number in self.live:
            self._runs[number].request(self._runs[number].reference_batch)
        self._coordination.watch(lambda: not self.live or any(self._runs[number].pilots for number in self.live))
        for number in self.live:
            if pilots := self._runs[number].pilots:
                return sum(pilots) / len(pilots), len(pilots)
        raise self._none_left()

    def make_references(self) -> None:
        """Wait for the first baselines of every node."""
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
        """Build a candidate unless it is built, and let the parts know of it; return its configuration's name."""
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
        """Begin runs of several candidates, each on its own node."""
        for subset, repetitions in requests:
            name = self.build(subset)
            number = self._home(name)
            if number in self.live:
                self._runs[number].request({name: repetitions})

    def explore(self, subset: tuple[str, ...], repetitions: int) -> SubsetOutcome:
        """Make further runs of a subset on its node, and judge it by all its runs there."""
        if not repetitions:
            number = self._judged_on[subset]
            return self._outcome(number, self._judges[number].explore(subset, 0))
        return self._on_its_node(subset, repetitions, pooled=True, act=lambda judge, runs: judge.explore(subset, runs))

    def certify(self, subset: tuple[str, ...], repetitions: int, level: float) -> SubsetOutcome:
        """Make runs of a subset on its node, and judge it by these alone, beside the node's fresh baseline."""
        return self._on_its_node(
            subset, repetitions, pooled=False, act=lambda judge, runs: judge.certify(subset, runs, level)
        )

    def repetitions_to_certify(self, subset: tuple[str, ...], level: float, maximum: int) -> int | None:
        """Return how many repetitions will probably certify an explored subset."""
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
                continue  # its candidates move to other nodes when they are asked for

    def end(self) -> None:
        """Let the parts know that nothing more is requested."""
        for runs in self._runs.values():
            runs.end()

    def notes(self) -> tuple[str, ...]:
        """Return what else a reader of the plan should know, a sentence each."""
        lost = self._coordination.given_up
        vain = sum(self._runs[number].in_vain for number in self._runs)
        return (
            *(sentence for runs in self._runs.values() for sentence in runs.against),
            *(
                f"Part {self._runs[number].part.name} ended early: {why}; its candidates were measured on another "
                "node, with all their runs."
                for number, why in lost.items()
            ),
            *((f"{counted(vain, 'further run')} of candidates were made ahead and not needed.",) if vain else ()),
        )

    def _on_its_node(
        self,
        subset: tuple[str, ...],
        repetitions: int,
        *,
        pooled: bool,
        act: Callable[[TraceJudge, int], SubsetOutcome],
    ) -> SubsetOutcome:
        """Measure on the node of a subset; where that is lost, on another, and there all that counts together."""
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
        """Return the baselines of a node, from new runs; give up one that counts otherwise than the first node."""
        runs, first = self._runs[number], self._runs[next(iter(self._judges), number)]
        found = runs.references()
        if runs.counting() != first.counting():
            why = f"its node counts differently than {first.part.owner} (other sources or passes)"
            self._coordination.give_up(number, why)
            runs.against.clear()
            raise PartLostError(why)
        return found

    def _home(self, name: str) -> int:
        """Return the part that measures a candidate: one after another, the same again in a resumed search."""
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
        """Have a candidate measured on another part from here on."""
        homes: dict[str, list[list[int]]] = dict(self._manifest.fact("homes") or {})
        usable = self._usable()
        number = usable[(len(homes) + len(homes[name])) % len(usable)]
        kept = homes[name][: self._at.get(name, 0) + 1]
        homes[name] = [*kept, [number, self._given.get(name, 0)]]
        self._manifest.set_facts(homes=homes)

    def _usable(self) -> list[int]:
        found = [number for number in self._judges if number in self.live]
        if not found:
            self._none_is_left = True
            raise _NoNodeLeft(str(self._none_left()))
        return found

    def _none_left(self) -> RunError:
        reasons = " ".join(
            f"Part {self._runs[number].part.name}: {why}." for number, why in self._coordination.given_up.items()
        )
        return RunError(f"no node is left; every run is kept, and the same command resumes. {reasons}")
