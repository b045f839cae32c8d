"""Engines that start the parts of a campaign on nodes: Slurm, this host, and engines of other distributions."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from getpass import getuser
from itertools import takewhile
from pathlib import Path
from typing import ClassVar

import psutil

from unperturbed.common import supervision
from unperturbed.common.extensions import offered
from unperturbed.errors import HostError
from unperturbed.harness.campaign.summary import is_locked
from unperturbed.harness.nodes.shares import NodePart, read_json, write_json
from unperturbed.harness.spec.sections.nodes import ENGINE_GROUP, Nodes

__all__ = ["Engine", "Job", "engine_of", "work_command"]

_JOB = "job.json"
_SECONDS_TO_END = 10.0

_OVER = frozenset(
    ("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT")
)
"""States of ended jobs; squeue may still list such jobs for some minutes."""
_TAKEN = frozenset(("BOOT_FAIL", "NODE_FAIL", "PREEMPTED"))
"""States of jobs that ended for a reason outside the job."""
_LOST = ("ReqNodeNotAvail", "DOWN", "NodeDown", "Node_Not_Avail", "BadConstraints")
"""Substrings of the reason that squeue shows if a job waits for a node that is down, drained or removed."""
_UNREACHABLE = ("Unable to contact", "Connection refused", "Communication connection failure", "Socket timed out")
_NO_REASON = ("None", "")
_TIMEOUT_S = 60

_ALONE = ("--nodes=1", "--ntasks=1", "--exclusive", "--mem=0", "--hint=nomultithread")
"""A whole node for one task: no other Slurm job runs on the node."""
_QUIET = ("--acctg-freq=0", "--no-requeue", "--open-mode=append")
"""Accounting does not poll the job. A requeued job could move to another node; parts are submitted again instead."""


@dataclass(frozen=True)
class Job:
    """Job or process that executes a part, or waits for a node."""

    id: str  # Number of the Slurm job or of the process
    state: str  # State in the engine's words, such as PENDING or RUNNING
    why: str = ""  # Why the job waits; empty if it does not
    lost: bool = False  # Whether the job waits for a node that is not in service


class Engine(ABC):
    """Interface of an engine, which starts the parts of one campaign and reports which parts are being executed.

    Only the part's manifest shows whether a run is done.

    Parameters
    ----------
    nodes : Nodes
        The spec's section `nodes`.
    folder : Path
        The campaign's folder.
    identity : str
        Unique identifier of the campaign.
    """

    name: ClassVar[str]
    """The engine's name in a spec."""
    at_once: ClassVar[int | None] = None
    """Largest number of jobs that are submitted and have not ended; None for no limit.

    The coordinator submits parts by number, and holds parts back while `jobs` returns `at_once` of them. An engine with
    another order sets None, takes all parts in `submit`, and starts them in `jobs`, which returns the waiting ones too.

    In a search for a partition, None lets a part keep its node for the time `patience` while it waits for work: other
    parts must not wait for that node. With a number, a part ends when no requested run is left, and is submitted
    again for the next ones."""
    pause: ClassVar[float] = 0.2
    """Seconds between two polls of the jobs."""
    options: ClassVar[frozenset[str] | None] = None
    """Keys under `nodes` that it reads besides `engine`, `count` and `stage`; None for any. Other keys are refused."""

    def __init__(self, nodes: Nodes, folder: Path, identity: str) -> None:
        self.nodes, self.folder, self.identity = nodes, folder, identity

    @abstractmethod
    def check(self) -> None:
        """Raise HostError if the engine is not available."""

    @abstractmethod
    def submit(self, part: NodePart, *, avoid: Sequence[str]) -> str:
        """Start a part, or put it into a queue.

        Execute `work_command(part)`, and append its output to `job.log` in the part's folder. After this method
        returns, `jobs` includes the part until its command has ended.

        An engine that starts the process itself must use `subprocess.Popen` in a new session, never
        `supervision.run`, which ends all processes that it started: parts outlive this command. If parts share a host,
        set `UNPERTURBED_NODE=part-NAME` in a part's environment: two parts on nodes with the same name are refused.

        Parameters
        ----------
        part : NodePart
            The part. If it has an owner, execute it only on that node.
        avoid : sequence of str
            Nodes that must not execute the part.

        Returns
        -------
        str
            Why the part cannot be submitted; empty if it was submitted.
        """

    @abstractmethod
    def jobs(self, parts: Sequence[NodePart]) -> Mapping[int, Job] | None:
        """Return waiting and running jobs by the part's number; None if they are unknown at the moment.

        On this host, a part with a locked folder (`is_locked(part.folder)`) is being executed, whoever started it.
        """

    @property
    def taken(self) -> frozenset[int]:
        """Numbers of the parts whose last job was lost: the node failed, or the job was preempted.

        The part did not cause this end, so it is submitted again, however often this happens.
        """
        return frozenset()

    @abstractmethod
    def cancel(self, parts: Sequence[NodePart]) -> int:
        """Cancel waiting and running jobs; return their number."""


def work_command(part: NodePart) -> tuple[str, ...]:
    """Return the command that a node executes for a part."""
    return (sys.executable, "-m", "unperturbed.harness.cli", "work", str(part.folder))


class Here(Engine):
    """Engine that executes one part after another on this host: two at a time would disturb each other."""

    name = "here"
    at_once: ClassVar[int | None] = 1
    pause = 0.05
    options = frozenset()

    def __init__(self, nodes: Nodes, folder: Path, identity: str) -> None:
        super().__init__(nodes, folder, identity)
        self._started: list[subprocess.Popen[bytes]] = []

    def check(self) -> None:
        """Do nothing: this host is always available."""

    def submit(self, part: NodePart, *, avoid: Sequence[str]) -> str:
        """Start the part's process in its own session, so that an interrupt of this command does not reach it."""
        del avoid
        with (part.folder / "job.log").open("ab") as log:
            process = subprocess.Popen(
                work_command(part),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "UNPERTURBED_NODE": f"part-{part.name}"},
            )
        self._started.append(process)
        write_json(part.folder / _JOB, {"pid": process.pid, "created": psutil.Process(process.pid).create_time()})
        return ""

    def jobs(self, parts: Sequence[NodePart]) -> Mapping[int, Job]:
        """Return the parts whose processes are alive, and the parts that another process works on."""
        self._started = [process for process in self._started if process.poll() is None]
        jobs = {}
        for part in parts:
            process = _process(part.folder)
            if process is not None or is_locked(part.folder):
                jobs[part.number] = Job(str(process.pid) if process else "unknown", "RUNNING")
        return jobs

    def cancel(self, parts: Sequence[NodePart]) -> int:
        """Interrupt the parts' processes, as Ctrl-C would; return their number."""
        alive = [process for part in parts if (process := _process(part.folder)) is not None]
        for process in alive:
            process.send_signal(signal.SIGTERM)
        _, left = psutil.wait_procs(alive, timeout=_SECONDS_TO_END)
        for process in left:
            process.kill()
        return len(alive)


def _process(folder: Path) -> psutil.Process | None:
    """Return the process that was started for a part; None if it has ended."""
    known = read_json(folder / _JOB)
    if known is None:
        return None
    try:
        process = psutil.Process(int(known["pid"]))
        same = abs(process.create_time() - float(known["created"])) < 1 and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, ValueError, KeyError, TypeError):
        return None
    return process if same else None


class Slurm(Engine):
    """Engine that submits one job per part with Slurm's commands; each job has a node to itself.

    A job's name contains the campaign's identity: a coordinator that starts after another was killed finds the running
    jobs by their names. Accounting is not queried.
    """

    name = "slurm"
    pause = 0.5
    options = frozenset(("constraint", "partition", "account", "time", "patience", "extra"))

    def __init__(self, nodes: Nodes, folder: Path, identity: str) -> None:
        super().__init__(nodes, folder, identity)
        self._last: dict[int, tuple[int, str]] = {}  # number and state of each part's latest job

    def check(self) -> None:
        """Raise HostError if Slurm's commands are not on the PATH."""
        missing = [name for name in ("sbatch", "squeue", "scancel") if shutil.which(name) is None]
        if missing:
            raise HostError(
                f"`engine: slurm` needs {', '.join(missing)}, which this host does not have: run `unperturbed` on a "
                "host that can submit jobs (a login node)"
            )

    def submit(self, part: NodePart, *, avoid: Sequence[str]) -> str:
        """Submit the part's job; return sbatch's message if it refuses the job."""
        if part.owner is not None:
            places = [f"--nodelist={part.owner}"]
        else:
            places = [f"--exclude={','.join(avoid)}"] if avoid else []
        options = {name: getattr(self.nodes, name) for name in ("constraint", "partition", "account", "time")}
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
            # `exec`, because a shell that waits for its child would hold back the signal that ends the job.
            script=f"#!/bin/sh\nexec {shlex.join(work_command(part))}\n",
        )
        if answer is None or answer.returncode == 0:
            return ""  # if the controller does not answer, the coordinator submits the job again
        message = answer.stderr.strip().removeprefix("sbatch: error: ")
        return "" if any(word in message for word in _UNREACHABLE) else f"sbatch refused the job: {message}"

    def jobs(self, parts: Sequence[NodePart]) -> Mapping[int, Job] | None:
        """Return waiting and running jobs by the part's number; None if Slurm's controller does not answer."""
        answer = _ask(["squeue", "--noheader", f"--user={getuser()}", "--states=all", "--format=%i|%j|%T|%r|%N"])
        if answer is None or answer.returncode != 0:
            return None
        names = {self._job_name(part): part.number for part in parts}
        jobs = {}
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
                jobs[names[name]] = Job(job, state, reason if waits else "", lost)
        return jobs

    @property
    def taken(self) -> frozenset[int]:
        """Numbers of the parts whose latest job was preempted or lost its node, as the last call of `jobs` found."""
        return frozenset(part for part, (_, state) in self._last.items() if state in _TAKEN)

    def cancel(self, parts: Sequence[NodePart]) -> int:
        """Cancel waiting and running jobs; return their number."""
        jobs = self.jobs(parts)
        if jobs is None:
            raise HostError("Slurm's controller does not answer, so no job was cancelled; repeat the command later")
        if jobs:
            answer = _ask(["scancel", *(job.id for job in jobs.values())])
            if answer is None or answer.returncode != 0:
                raise HostError(f"scancel failed: {answer.stderr.strip() if answer is not None else 'no answer'}")
        return len(jobs)

    def _job_name(self, part: NodePart) -> str:
        return f"unperturbed-{self.identity[:12]}-{part.name}"


def _ask(command: Sequence[str], *, script: str | None = None) -> subprocess.CompletedProcess[str] | None:
    """Run one of Slurm's commands; return None if it does not end in time."""
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


def engine_of(nodes: Nodes, folder: Path, identity: str) -> Engine:
    """Return the engine that a spec names."""
    known: dict[str, type[Engine]] = {}
    for engine in offered(ENGINE_GROUP, type):
        if issubclass(engine, Engine) and known.setdefault(engine.name, engine) is not engine:
            raise HostError(
                f"two extensions add an engine named {engine.name}: uninstall one of them, or rename its engine"
            )
    return known[nodes.engine](nodes, folder, identity)
