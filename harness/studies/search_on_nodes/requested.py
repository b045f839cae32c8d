"""The runs that a search requests of one node, each handed out once, in the order in which they are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from unperturbed.collectors.data import Trace
from unperturbed.harness.campaign.manifest import Manifest, RunState
from unperturbed.harness.nodes.coordinate import Coordination
from unperturbed.harness.nodes.kinds import SEARCHES
from unperturbed.harness.nodes.requests import read_requests
from unperturbed.harness.nodes.shares import NodePart, reading
from unperturbed.harness.spec.sections.campaign import ANCHOR, BASELINE, PILOT
from unperturbed.harness.studies.partition import RunFailed


class PartLostError(Exception):
    """The part was given up, and the runs are not there. It never leaves the studies."""


class NodeRuns:
    """The runs of one part.

    `session`: Identity of this search's process: what failed in an earlier one is tried again.

    Attributes
    ----------
    part : NodePart
        The part.
    """

    def __init__(self, coordination: Coordination, part: NodePart, session: str) -> None:
        self.part, self._coordination, self._session = part, coordination, session
        self._requests = replace(read_requests(part), session=session)
        self._requests.write(part)
        self._given: dict[str, int] = {}

    @property
    def reference_batch(self) -> dict[str, int]:
        """Return the runs of the node's baselines, requested together so that both meet the same drift of the node."""
        campaign = self._coordination.spec
        count = SEARCHES.share(campaign, self.part.number).campaign.baseline_runs
        return dict.fromkeys([BASELINE] if campaign.analysis.anchor is None else [BASELINE, ANCHOR], count)

    @property
    def pilots(self) -> list[float]:
        """Return the seconds of a run of each pass; empty until all are known."""
        with reading(self.part) as manifest:
            found = [manifest.fact(f"{PILOT}:{name}") for name in _passes(manifest)]
        return [pilot["seconds"] for pilot in found if pilot] if all(found) else []

    @property
    def in_vain(self) -> int:
        """Return how many runs of candidates were requested and not handed out."""
        with reading(self.part) as manifest:
            passes = len(_passes(manifest))
        left = {name: total - self._given.get(name, 0) for name, total in self._requests.totals.items()}
        return passes * sum(runs for name, runs in left.items() if name not in (BASELINE, ANCHOR))

    def request(self, more: Mapping[str, int], configurations: Mapping[str, Any] | None = None) -> None:
        """Request so many runs a pass beyond those that were handed out, unless they are requested already."""
        totals = self._requests.totals
        short = {name: self._given.get(name, 0) + runs - totals[name] for name, runs in more.items()}
        if batch := {name: runs for name, runs in short.items() if runs > 0}:
            self._requests = replace(
                self._requests,
                batches=(*self._requests.batches, batch),
                configurations={**self._requests.configurations, **(configurations or {})},
            )
            self._requests.write(self.part)

    def further(self, name: str, count: int, configurations: Mapping[str, Any] | None = None) -> dict[str, list[Trace]]:
        """Return traces of the next runs of a configuration, by pass, once they are made."""
        self.request({name: count}, configurations)
        first = self._given.get(name, 0)
        states = self._settled(name, first, count)
        while states is None:
            if self.part.number in self._coordination.given_up:
                raise PartLostError(self._coordination.given_up[self.part.number])
            self._coordination.watch(
                lambda: self.part.number in self._coordination.given_up or self._settled(name, first, count) is not None
            )
            states = self._settled(name, first, count)
        if failed := [state for state in states if state.state == "failed"]:
            run = f"{self.part.name}/{failed[0].run.id} ({self.part.owner})"
            raise RunFailed(f"run {run} failed, and the search cannot go on without it: {failed[0].error}")
        self._given[name] = first + count
        found: dict[str, list[Trace]] = {}
        for state in states:
            trace = Trace.read(self.part.folder / "runs" / state.run.id / "trace.parquet")
            own = {"pass": state.run.pass_name, "run": f"{self.part.name}/{state.run.id}"}
            found.setdefault(state.run.pass_name, []).append(replace(trace, attributes={**trace.attributes, **own}))
        return found

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
        with reading(self.part) as manifest:
            passes = _passes(manifest)
            states = [
                state
                for state in manifest.runs(hosts=False)
                if state.run.configuration == name and first < state.run.repetition <= first + count
            ]
            over = {"done", "failed"} if manifest.fact("session") == self._session else {"done"}
        whole = bool(passes) and len(states) == count * len(passes)
        if any(state.state == "failed" for state in states) and "failed" in over:
            return states
        return states if whole and all(state.state in over for state in states) else None


def _passes(manifest: Manifest) -> list[str]:
    return [item["name"] for item in manifest.fact("passes") or []]
