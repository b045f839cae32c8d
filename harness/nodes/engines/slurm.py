"""Slurm, by its own commands: a job a part, which has a node to itself.

A job is known by its name, which holds the campaign's identity: whoever coordinates after another was killed finds the
jobs that run, and jobs of the user's other work are not seen. Nothing is asked of accounting.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from getpass import getuser
from itertools import takewhile
from pathlib import Path

from unperturbed.common import supervision
from unperturbed.errors import HostError
from unperturbed.harness.nodes.engines import Engine, Job, work_command
from unperturbed.harness.nodes.shares import NodePart
from unperturbed.harness.spec.sections.nodes import Nodes

_OVER = frozenset(
    ("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT")
)
"""States of jobs that have ended; squeue may still list these for some minutes."""
_TAKEN = frozenset(("BOOT_FAIL", "NODE_FAIL", "PREEMPTED"))
"""States of jobs that were ended for a reason outside of them."""
_LOST = ("ReqNodeNotAvail", "DOWN", "NodeDown", "Node_Not_Avail", "BadConstraints")
"""Parts of the reasons of jobs that wait for a node that is down, drained or gone."""
_NO_REASON = ("None", "")
_TIMEOUT_S = 60

_ALONE = ("--nodes=1", "--ntasks=1", "--exclusive", "--mem=0", "--hint=nomultithread")
"""A whole node for one task: nothing else of Slurm measures beside it."""
_QUIET = ("--acctg-freq=0", "--no-requeue", "--open-mode=append")
"""Accounting does not poll the job. A requeued job would land on another node; a part is submitted again instead."""


class Slurm(Engine):
    """Submits a job a part."""

    name = "slurm"
    pause = 0.5

    def __init__(self, nodes: Nodes, folder: Path, identity: str) -> None:
        super().__init__(nodes, folder, identity)
        self._last: dict[int, tuple[int, str]] = {}  # number and state of each part's latest job

    def check(self) -> None:
        """Raise HostError where Slurm's commands are not on the PATH."""
        missing = [name for name in ("sbatch", "squeue", "scancel") if shutil.which(name) is None]
        if missing:
            raise HostError(
                f"`engine: slurm` needs {', '.join(missing)}, which this host does not have: type the command on a "
                "host that submits jobs (a login node)"
            )

    def submit(self, part: NodePart, *, avoid: Sequence[str]) -> str:
        """Submit the part's job; return sbatch's message where it refuses."""
        if part.owner is not None:
            places = [f"--nodelist={part.owner}"]
        else:
            places = [f"--exclude={','.join(avoid)}"] if avoid else []
        options = {
            "constraint": self.nodes.constraint,
            "partition": self.nodes.partition,
            "account": self.nodes.account,
            "time": self.nodes.time,
        }
        answer = _ask(
            [
                "sbatch",
                "--parsable",
                f"--job-name={self._job_name(part)}",
                *_ALONE,
                *_QUIET,
                f"--output={part.folder / 'job.log'}",
                f"--chdir={self.folder}",
                *(f"--{name}={value}" for name, value in options.items() if value is not None),
                *places,
                *self.nodes.extra,
            ],
            # A shell that waits for its child would hold back the signal that ends the job.
            script=f"#!/bin/sh\nexec {shlex.join(work_command(part))}\n",
        )
        if answer is None:
            return ""  # the controller did not answer; who watches submits again
        if answer.returncode != 0:
            message = answer.stderr.strip().removeprefix("sbatch: error: ")
            return "" if _unreachable(message) else f"sbatch refused the job: {message}"
        return ""

    def jobs(self, parts: Sequence[NodePart]) -> Mapping[int, Job] | None:
        """Return the jobs that wait or run, by part; None while the controller does not answer."""
        answer = _ask(["squeue", "--noheader", f"--user={getuser()}", "--states=all", "--format=%i|%j|%T|%r|%N"])
        if answer is None or answer.returncode != 0:
            return None
        names = {self._job_name(part): part.number for part in parts}
        found = {}
        for line in answer.stdout.splitlines():
            job, name, state, reason, _ = (line.split("|", 4) + [""] * 5)[:5]
            if name not in names:
                continue
            number = int("".join(takewhile(str.isdigit, job)) or 0)
            if number >= self._last.get(names[name], (0, ""))[0]:
                self._last[names[name]] = (number, state)
            if state not in _OVER:
                waits = state == "PENDING" and reason not in _NO_REASON
                lost = waits and any(word in reason for word in _LOST)
                found[names[name]] = Job(job, state, reason if waits else "", lost)
        return found

    @property
    def taken(self) -> frozenset[int]:
        """Numbers of the parts whose latest job was preempted or ended with its node, as `jobs` last saw it."""
        return frozenset(part for part, (_, state) in self._last.items() if state in _TAKEN)

    def cancel(self, parts: Sequence[NodePart]) -> int:
        """Cancel the jobs that wait or run."""
        jobs = self.jobs(parts)
        if jobs is None:
            raise HostError("Slurm's controller does not answer, so no job is cancelled; repeat the command later")
        if jobs:
            answer = _ask(["scancel", *(job.id for job in jobs.values())])
            if answer is None or answer.returncode != 0:
                raise HostError(f"scancel failed: {answer.stderr.strip() if answer is not None else 'no answer'}")
        return len(jobs)

    def _job_name(self, part: NodePart) -> str:
        return f"unperturbed-{self.identity[:12]}-{part.name}"


def _ask(command: Sequence[str], *, script: str | None = None) -> subprocess.CompletedProcess[str] | None:
    """Run one of Slurm's commands; None where it does not end."""
    try:
        return supervision.run(
            command,
            input=script or "",
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            env={**os.environ, "LC_ALL": "C", "SLURM_TIME_FORMAT": "standard"},
        )
    except subprocess.TimeoutExpired:
        return None


def _unreachable(message: str) -> bool:
    words = ("Unable to contact", "Connection refused", "Communication connection failure", "Socket timed out")
    return any(word in message for word in words)
