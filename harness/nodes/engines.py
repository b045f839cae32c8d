"""Engines start the parts of a campaign on nodes: Slurm, this host, and those that other distributions add."""

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
"""States of jobs that have ended; squeue may still list these for some minutes."""
_TAKEN = frozenset(("BOOT_FAIL", "NODE_FAIL", "PREEMPTED"))
"""States of jobs that were ended for a reason outside of them."""
_LOST = ("ReqNodeNotAvail", "DOWN", "NodeDown", "Node_Not_Avail", "BadConstraints")
"""Parts of the reasons of jobs that wait for a node that is down, drained or gone."""
_UNREACHABLE = ("Unable to contact", "Connection refused", "Communication connection failure", "Socket timed out")
_NO_REASON = ("None", "")
_TIMEOUT_S = 60

_ALONE = ("--nodes=1", "--ntasks=1", "--exclusive", "--mem=0", "--hint=nomultithread")
"""A whole node for one task: nothing else of Slurm measures beside it."""
_QUIET = ("--acctg-freq=0", "--no-requeue", "--open-mode=append")
"""Accounting does not poll the job. A requeued job would land on another node; a part is submitted again instead."""


@dataclass(frozen=True)
class Job:
    """A job or process that executes a part, or waits for a node."""

    id: str  # Its number: of Slurm's job, or of a process
    state: str  # In the engine's words, such as PENDING or RUNNING
    why: str = ""  # Why it waits; empty where it does not
    lost: bool = False  # Whether it waits for a node that is not in service


class Engine(ABC):
    """Starts the parts of one campaign and knows which of them are being executed.

    Whether a run is done comes from the part's manifest alone.

    Parameters
    ----------
    nodes : Nodes
        The key of the spec.
    folder : Path
        The campaign's folder.
    identity : str
        What tells the campaign from all others.
    """

    name: ClassVar[str]
    """The spec's word for it."""
    at_once: ClassVar[int | None] = None
    """How many parts it executes beside each other; None for all.

    In a search for a partition, a part keeps its node while it waits for more work: others must not wait for it."""
    pause: ClassVar[float] = 0.2
    """Seconds between two looks at it."""
    options: ClassVar[frozenset[str] | None] = None
    """Keys under `nodes` that it reads beside `engine`, `count` and `stage`; others are refused. None for any."""

    def __init__(self, nodes: Nodes, folder: Path, identity: str) -> None:
        self.nodes, self.folder, self.identity = nodes, folder, identity

    @abstractmethod
    def check(self) -> None:
        """Raise HostError where it is not there."""

    @abstractmethod
    def submit(self, part: NodePart, *, avoid: Sequence[str]) -> str:
        """Start a part, or put it into a queue.

        Execute `work_command(part)`, with its output appended to `job.log` in the part's folder. From the return on,
        `jobs` has the part, until its command has ended.

        An engine that starts the process itself does so by `subprocess.Popen` with a true `start_new_session`, never
        by `supervision.run`, which ends all that it leaves running: parts outlive this command. Where parts share a
        host, set `UNPERTURBED_NODE=part-NAME` in a part's environment: two parts on a node of one name
        are refused.

        Parameters
        ----------
        part : NodePart
            A part with an owner is executed on that node alone.
        avoid : sequence of str
            Nodes on which it must not be executed.

        Returns
        -------
        str
            Why it cannot be; empty where it was submitted.
        """

    @abstractmethod
    def jobs(self, parts: Sequence[NodePart]) -> Mapping[int, Job] | None:
        """Return the jobs that wait or run, by the part's number; None where that is unknown now.

        On this host, a part whose folder is locked (`is_locked(part.folder)`) is executed, whoever started it.
        """

    @property
    def taken(self) -> frozenset[int]:
        """Numbers of the parts whose last job was taken from them: its node failed, or was needed for another's job.

        Such an end is no fault of the part, which is submitted again however often that happens.
        """
        return frozenset()

    @abstractmethod
    def cancel(self, parts: Sequence[NodePart]) -> int:
        """End the jobs that wait or run; return their number."""


def work_command(part: NodePart) -> tuple[str, ...]:
    """Return the command that a node executes."""
    return (sys.executable, "-m", "unperturbed.harness.cli", "work", str(part.folder))


class Here(Engine):
    """Executes one part after another on this host: two at a time would disturb each other."""

    name = "here"
    at_once = 1
    pause = 0.05
    options = frozenset()

    def __init__(self, nodes: Nodes, folder: Path, identity: str) -> None:
        super().__init__(nodes, folder, identity)
        self._started: list[subprocess.Popen[bytes]] = []

    def check(self) -> None:
        """Do nothing: this host is there."""

    def submit(self, part: NodePart, *, avoid: Sequence[str]) -> str:
        """Start the part's process in a session of its own, so that an interrupt of this one does not reach it."""
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
        """Return the parts whose processes live, and those that another process works on."""
        self._started = [process for process in self._started if process.poll() is None]
        found = {}
        for part in parts:
            process = _process(part.folder)
            if process is not None or is_locked(part.folder):
                found[part.number] = Job(str(process.pid) if process else "unknown", "RUNNING")
        return found

    def cancel(self, parts: Sequence[NodePart]) -> int:
        """Interrupt the processes, as Ctrl-C would."""
        alive = [process for part in parts if (process := _process(part.folder)) is not None]
        for process in alive:
            process.send_signal(signal.SIGTERM)
        _, left = psutil.wait_procs(alive, timeout=_SECONDS_TO_END)
        for process in left:
            process.kill()
        return len(alive)


def _process(folder: Path) -> psutil.Process | None:
    """Return the process that was started for a part, while it lives."""
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
    """Submits a job a part by Slurm's own commands; each has a node to itself.

    A job is known by its name, which holds the campaign's identity: a coordinator that is started after another was
    killed finds the jobs that run. Accounting is not queried.
    """

    name = "slurm"
    pause = 0.5
    options = frozenset(("constraint", "partition", "account", "time", "patience", "extra"))

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
            # A shell that waits for its child would hold back the signal that ends the job.
            script=f"#!/bin/sh\nexec {shlex.join(work_command(part))}\n",
        )
        if answer is None or answer.returncode == 0:
            return ""  # where the controller does not answer, the coordinator submits again
        message = answer.stderr.strip().removeprefix("sbatch: error: ")
        return "" if any(word in message for word in _UNREACHABLE) else f"sbatch refused the job: {message}"

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


def engine_of(nodes: Nodes, folder: Path, identity: str) -> Engine:
    """Return the engine that a spec names."""
    known: dict[str, type[Engine]] = {}
    for engine in offered(ENGINE_GROUP, type):
        if issubclass(engine, Engine) and known.setdefault(engine.name, engine) is not engine:
            raise HostError(f"two extensions of {__name__} are named {engine.name}; rename or uninstall one")
    return known[nodes.engine](nodes, folder, identity)
