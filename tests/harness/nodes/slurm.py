"""A real Slurm of three nodes in a temporary folder: Debian's daemons on the loopback, without systemd and cgroups."""

from __future__ import annotations

import contextlib
import getpass
import os
import random
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

NEEDED = ("slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "sinfo", "munged", "setpriv")
NODES = 3
_DISK_SIZE = "16m"

_CONFIGURATION = """\
ClusterName=unperturbed
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld
SlurmdLogFile={folder}/log/slurmd.%n
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SlurmdTimeout=5
SlurmctldTimeout=10
KillWait=1
MinJobAge=300
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=node[1-3] NodeAddr=127.0.0.1 NodeHostname={host} Port=[{first}-{last}] CPUs=2 Boards=1 SocketsPerBoard=1 \
CoresPerSocket=2 ThreadsPerCore=1 RealMemory=500 Feature=typea State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=EXCLUSIVE PriorityTier=1 \
PreemptMode=REQUEUE
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP OverSubscribe=EXCLUSIVE PriorityTier=10 PreemptMode=OFF
"""


def lacking() -> tuple[str, ...]:
    """Return which programs of Slurm are not installed."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return tuple(name for name in NEEDED if shutil.which(name, path=path) is None)


def can_mount() -> bool:
    """Return whether this user may mount file systems, in a mount namespace of its own."""
    command = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    return (
        shutil.which("unshare") is not None and not subprocess.run(command, capture_output=True, check=False).returncode
    )


class Cluster:
    """The daemons of one cluster.

    Attributes
    ----------
    folder : Path
        Their folder.
    environment : dict of str to str
        By which commands reach this cluster.
    disk : Path
        A disk of each node's own, where `local_disks` is set: the same path, another file system on each.
    """

    def __init__(self, folder: Path, *, local_disks: bool = False) -> None:
        self.folder = folder
        self.disk, self._local_disks = folder / "disk", local_disks
        path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "PATH": path}
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Write the configuration and start everything; return when the nodes are idle."""
        for name in ("munge", "disk", "state", "spool", "log", *(f"spool/node{node}" for node in range(1, NODES + 1))):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "munge").chmod(0o700)
        key = self.folder / "munge" / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        port = random.randrange(20_000, 60_000)  # of the ephemeral ones too: who meets a used one tries again
        text = _CONFIGURATION.format(
            host=socket.gethostname(),
            user=getpass.getuser(),
            folder=self.folder,
            port=port,
            first=port + 1,
            last=port + NODES,
        )
        (self.folder / "slurm.conf").write_text(text)
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
        munge = self.folder / "munge"
        options = [f"--{name}={munge / name.removesuffix('-file')}" for name in ("pid-file", "log-file", "seed-file")]
        self._start(
            "munged",
            "--foreground",
            "--force",
            f"--key-file={key}",
            f"--socket={munge / 'socket'}",
            *options,
            name="munged",
        )
        self._wait((munge / "socket").exists)
        self.start_controller("-i")
        for node in range(1, NODES + 1):
            self.start_node(f"node{node}")
        self._wait(lambda: self.ask("sinfo", "-h", "-p", "main", "-t", "idle", "-o", "%D").strip() == str(NODES))

    def start_controller(self, *options: str) -> None:
        """Start the controller, which reads what it knew before."""
        self._start("slurmctld", "-D", *options, name="slurmctld")

    def start_node(self, node: str) -> None:
        """Start a node's daemon."""
        command = ["slurmd", "-D", "-N", node]
        if self._local_disks:
            mounted = (
                f"mount -t tmpfs -o size={_DISK_SIZE} none {shlex.quote(str(self.disk))} && exec {' '.join(command)}"
            )
            command = ["unshare", "--mount", "/bin/sh", "-c", mounted]
        self._start(*command, name=node)

    def seen_by(self, node: str, path: Path) -> Path:
        """Return a path by which this process sees what a node sees at that path."""
        return Path(f"/proc/{self._daemons[node].pid}/root{path}")

    def kill(self, daemon: str) -> None:
        """Kill `slurmctld`, or `node1` and so on.

        The controller is killed once it has written down what it did: one that has forgotten a job gives the job's
        number away again and takes the node out of service, until an administrator returns it.
        """
        if daemon == "slurmctld":
            now, written = time.time(), self.folder / "state" / "job_state"
            for job, *_ in self.jobs():
                self.ask("scontrol", "update", f"jobid={job}", "comment=known")  # there is a change to write then
                self._wait(lambda: written.is_file() and written.stat().st_mtime > now)
        process = self._daemons.pop(daemon)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """Cancel all jobs and end every daemon."""
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            self.ask("scancel", "--full", f"--user={getpass.getuser()}")
            until = time.monotonic() + 5
            while self.jobs() and time.monotonic() < until:
                time.sleep(0.1)
        for process in reversed(self._daemons.values()):
            process.terminate()
        for process in self._daemons.values():
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._end_jobs()

    def _end_jobs(self) -> None:
        """Kill what outlived its daemon: a job's step goes on without it, as on a real node."""
        own = os.fsencode(str(self.folder))
        for entry in os.scandir("/proc"):
            with contextlib.suppress(OSError, ValueError):
                number, place = int(entry.name), Path(entry.path)
                if number != os.getpid() and own in (place / "environ").read_bytes() + (place / "cmdline").read_bytes():
                    os.kill(number, signal.SIGKILL)

    def ask(self, *command: str) -> str:
        """Return what one of Slurm's commands prints."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False, timeout=30)
        return done.stdout

    def jobs(self) -> list[list[str]]:
        """Return number, name, state and node of each job that waits or runs."""
        return [line.split("|") for line in self.ask("squeue", "-h", "-o", "%i|%j|%T|%N").splitlines()]

    def _start(self, *command: str, name: str) -> None:
        with (self.folder / "log" / f"{name}.stderr").open("ab") as log:
            self._daemons[name] = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", "--", *command],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )

    def _wait(self, what: object, seconds: float = 20) -> None:
        assert callable(what)
        until = time.monotonic() + seconds
        while not what():
            if time.monotonic() > until or any(one.poll() is not None for one in self._daemons.values()):
                raise TimeoutError(f"the cluster does not start; see {self.folder / 'log'}")
            time.sleep(0.05)


@contextlib.contextmanager
def cluster(folder: Path, *, local_disks: bool = False) -> Iterator[Cluster]:
    """Start a cluster, on other ports where some are used; stop it in the end."""
    for attempt in range(5):
        made = Cluster(folder / f"cluster{attempt}", local_disks=local_disks)
        try:
            made.start()
        except TimeoutError:
            made.stop()
            if attempt == 4:
                raise
        else:
            break
    try:
        yield made
    finally:
        made.stop()
