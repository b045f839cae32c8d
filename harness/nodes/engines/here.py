"""This host: each part is a process, one after another, which outlives whoever watches it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from unperturbed.harness.campaign.summary import is_locked
from unperturbed.harness.nodes.engines import Engine, Job, work_command
from unperturbed.harness.nodes.shares import NodePart, read_json, write_json
from unperturbed.harness.spec.sections.nodes import Nodes

_JOB = "job.json"
_SECONDS_TO_END = 10.0


class Here(Engine):
    """Executes one part after another on this host: two at a time would disturb each other."""

    name = "here"
    at_once = 1
    pause = 0.05

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
