"""Read-only summaries of campaigns, including running campaigns and other users' campaigns."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from unperturbed.errors import SpecError
from unperturbed.harness.campaign.manifest import Manifest, State

HOME = Path("campaigns")  # Default folder for campaigns, in the current folder
_DEEPEST = 4
_SKIPPED = frozenset({"builds", "runs", "inputs", "node_modules", "__pycache__"})

Phase = Literal["running", "done", "failed", "stopped", "not begun", "unreadable"]


@dataclass(frozen=True)
class CampaignSummary:
    """The state of one campaign."""

    folder: Path  # The campaign's folder
    name: str  # The campaign's name in its spec
    purpose: str  # Purpose of its runs: `a campaign`, `a sweep`, or another
    # `running` while a process works on the campaign; `stopped` if runs are left but no process works on it; `failed`
    # if no run is left and some failed.
    phase: Phase
    runs: Mapping[State, int]  # Number of runs in each state (`planned`, `running`, `done`, `failed`)
    verdicts: Mapping[str, int]  # Number of configurations with each verdict; empty if not judged
    begun: str  # When the campaign began, ISO 8601; empty if unknown
    problem: str = ""  # Why the manifest cannot be read; empty otherwise

    @property
    def planned(self) -> int:
        """Return the number of planned runs, in any state."""
        return sum(self.runs.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as JSON types."""
        return {
            **vars(self),
            "folder": str(self.folder),
            "runs": dict(self.runs),
            "verdicts": dict(self.verdicts),
            "planned": self.planned,
        }


def find_campaigns(folder: Path) -> Iterator[Path]:
    """Yield the campaign folders (with a `campaign.sqlite`) a few levels deep, sorted; none inside another campaign."""
    for place, below, files in os.walk(folder):
        here = Path(place)
        if "campaign.sqlite" in files:
            yield here
            below.clear()
        elif len(here.relative_to(folder).parts) >= _DEEPEST:
            below.clear()
        else:
            below[:] = sorted(name for name in below if not name.startswith(".") and name not in _SKIPPED)


def read_summary(folder: Path) -> CampaignSummary:
    """Return a campaign's state, from its manifest, lock and verdicts."""
    try:
        with Manifest(folder / "campaign.sqlite", read_only=True) as manifest:
            runs = Counter(manifest.counts())
            known = {name: str(manifest.fact(name) or "") for name in ("name", "purpose", "begun")}
        parts = sorted((folder / "nodes").glob("[0-9][0-9]/campaign.sqlite"))
        for part in parts:
            with Manifest(part, read_only=True) as manifest:
                runs.update(manifest.counts())
    except (SpecError, sqlite3.DatabaseError, ValueError) as error:
        return CampaignSummary(folder, folder.name, "", "unreadable", {}, {}, "", str(error))
    phase = phase_of(runs, locked=any(map(is_locked, (folder, *(part.parent for part in parts)))))
    return CampaignSummary(
        folder,
        known["name"] or folder.name,
        known["purpose"] or "a campaign",
        phase,
        with_interrupted_left(runs, phase),
        _verdicts(folder),
        known["begun"],
    )


def is_locked(folder: Path) -> bool:
    """Return whether a process is working on a campaign; write nothing."""
    try:
        with (folder / "campaign.lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def phase_of(runs: Mapping[State, int], *, locked: bool) -> Phase:
    """Return a campaign's phase, from its number of runs in each state and whether a process works on it."""
    if locked:
        return "running"
    if not runs:
        return "not begun"
    if runs.get("planned", 0) or runs.get("running", 0):
        return "stopped"
    return "failed" if runs.get("failed", 0) else "done"


def with_interrupted_left(runs: Mapping[State, int], phase: Phase) -> dict[State, int]:
    """Return the numbers of runs where interrupted runs are left, because no process executes them any more."""
    counts = dict(runs)
    if phase != "running" and (interrupted := counts.pop("running", 0)):
        counts["planned"] = counts.get("planned", 0) + interrupted
    return counts


def _verdicts(folder: Path) -> Mapping[str, int]:
    try:
        content = json.loads((folder / "verdicts.json").read_text(encoding="utf-8"))
        return Counter(str(verdict["verdict"]) for verdict in content["verdicts"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
