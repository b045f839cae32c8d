"""Emulated machines with a performance monitoring unit, for hosts that have none.

QEMU's Cortex-A57 counts cycles and retired instructions. Its clock follows the number of instructions (`-icount
shift=1`: two nanoseconds each), so counts and intervals are nearly the same at every boot, however busy the host is.
Kernel and libraries are Debian's own, fetched once by name.
"""

from __future__ import annotations

import io
import shutil
import stat
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from tests.pmu.architectures import ARM64, Architecture
from tests.pmu.packages import fetch_guest
from unperturbed.errors import HostError, RunError

__all__ = ["Machine", "Outcome", "prepare_machine"]

_COMMAND_LINE = "console={} quiet loglevel=4 panic=-1 nokaslr norandmaps"
"""Addresses are the same at every boot, and so are the counts, almost to the instruction."""

_INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs -o mode=1777 tmp /tmp
mkdir -p /out
sh /script
echo $? > /status
{ stty raw -echo; tar -czf - -C / status out; } <> /dev/ARCHIVE >&0
poweroff -f
"""

_ACCOUNTS = {
    "/etc/passwd": b"root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n",
    "/etc/group": b"root:x:0:\nnogroup:x:65534:\n",
}


@dataclass(frozen=True)
class Outcome:
    """What one boot left.

    Attributes
    ----------
    console : what the script and the kernel printed.
    status : exit code of the script.
    files : what stood below `/out` at the end, by path relative to it.
    """

    console: str
    status: int
    files: dict[str, bytes] = field(repr=False)


@dataclass(frozen=True)
class Machine:
    """An emulated machine that can be booted any number of times.

    Attributes
    ----------
    architecture : the kind of its processor.
    kernel : the guest's kernel.
    tree : folder with the files that every boot has.
    """

    architecture: Architecture
    kernel: Path
    tree: Path

    def run(
        self,
        files: Mapping[str, Path],
        script: str,
        *,
        timeout_s: float,
        pmu: bool = True,
        cpu: str = "",
        processors: int = 1,
    ) -> Outcome:
        """Boot, run a shell script as root, and bring back what it left below `/out`.

        Parameters
        ----------
        files : absolute path in the guest → file on the host, whose permissions it keeps.
        script : for busybox's shell; /proc, /sys, /dev and /tmp are mounted, a user `nobody` exists.
        timeout_s : seconds on the host, boot included (about 2 s without any load).
        pmu : whether the processor has a performance monitoring unit.
        cpu : the processor, by the emulator's name; empty for the architecture's usual one.
        processors : they take turns on one of the host's, and the instruction counter counts for all of them together.

        Raises
        ------
        RunError
            The machine did not come to the script's end in time; the message holds the end of the console.
        HostError
            QEMU is not installed.
        """
        with tempfile.TemporaryDirectory(prefix="pmu-machine-") as name:
            folder = Path(name)
            image, archive = folder / "initramfs", folder / "archive"
            kind = self.architecture
            init = _INIT.replace("ARCHIVE", kind.archive)
            image.write_bytes(b"".join(_initramfs(self.tree, files, script, init)))
            processor = (cpu or kind.processor) + ("" if pmu else kind.without_pmu)
            command = [
                *(kind.emulator, *kind.machine, "-cpu", processor, "-smp", str(processors)),
                *("-icount", f"shift={kind.clock_shift},sleep=off", "-m", "512", "-nodefaults", "-no-user-config"),
                *("-display", "none", "-no-reboot", "-nic", "none", "-kernel", str(self.kernel)),
                *("-initrd", str(image), "-append", _COMMAND_LINE.format(kind.console)),
                *("-serial", "stdio", "-monitor", "none"),
                *("-chardev", f"file,id=archive,path={archive}", "-device", "pci-serial,chardev=archive"),
            ]
            console = _console_of(command, timeout_s)
            content = archive.read_bytes()
        return _unpack(content, console)


def prepare_machine(architecture: Architecture = ARM64) -> Machine:
    """Return a machine; its kernel and libraries are fetched on first use and kept in the user's cache.

    Raises
    ------
    HostError
        A tool or a package is missing; the message says which and what to type.
    """
    if not shutil.which(architecture.emulator):
        raise HostError(
            f"there is no {architecture.emulator} on this host (on Debian: apt-get install --no-install-recommends "
            f"{architecture.emulator_package})"
        )
    folder = fetch_guest(architecture)
    return Machine(architecture, folder / "kernel", folder / "tree")


def _console_of(command: list[str], timeout_s: float) -> str:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        printed = (expired.stdout or b"").decode(errors="replace")
        raise RunError(
            f"the emulated machine did not end within {timeout_s:g} s. Its console:\n{printed[-2000:]}"
        ) from None
    console = done.stdout.decode(errors="replace").replace("\r\n", "\n")
    if done.returncode != 0:
        raise RunError(f"{command[0]} failed with exit code {done.returncode}:\n{console[-2000:]}")
    return console


def _unpack(content: bytes, console: str) -> Outcome:
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
            members = {member.name: archive.extractfile(member) for member in archive.getmembers() if member.isfile()}
            files = {name: member.read() for name, member in members.items() if member}
    except (tarfile.TarError, EOFError, OSError) as error:
        raise RunError(
            f"the emulated machine sent no whole archive ({len(content)} bytes, {error}). Its "
            f"console:\n{console[-2000:]}"
        ) from error
    status = int(files.pop("status"))
    return Outcome(console, status, {str(PurePosixPath(name).relative_to("out")): data for name, data in files.items()})


def _initramfs(tree: Path, files: Mapping[str, Path], script: str, init: str) -> Iterator[bytes]:
    """Yield the parts of the machine's root file system.

    An archive in cpio's `newc` format (Linux's buffer-format.rst).
    """
    entries: dict[str, tuple[int, bytes]] = {}

    def add(path: str, mode: int, content: bytes) -> None:
        for parent in reversed(PurePosixPath(path).parents[:-1]):
            entries.setdefault(str(parent), (stat.S_IFDIR | 0o755, b""))
        entries[path] = (mode, content)

    for path in sorted(tree.rglob("*")):
        name = "/" + path.relative_to(tree).as_posix()
        if path.is_symlink():
            add(name, stat.S_IFLNK | 0o777, str(path.readlink()).encode())
        elif path.is_file():
            add(name, stat.S_IFREG | 0o755, path.read_bytes())
    for folder in ("/proc", "/sys", "/dev", "/tmp"):
        add(folder, stat.S_IFDIR | 0o755, b"")
    for name, content in _ACCOUNTS.items():
        add(name, stat.S_IFREG | 0o644, content)
    add("/bin/sh", stat.S_IFLNK | 0o777, b"busybox")
    add("/init", stat.S_IFREG | 0o755, init.encode())
    add("/script", stat.S_IFREG | 0o644, script.encode())
    for name, path in files.items():
        add(name, stat.S_IFREG | stat.S_IMODE(path.stat().st_mode), path.read_bytes())
    for number, (name, (mode, content)) in enumerate(entries.items(), start=1):
        yield _cpio_entry(number, name.lstrip("/"), mode, content)
    yield _cpio_entry(0, "TRAILER!!!", 0, b"")


def _cpio_entry(number: int, name: str, mode: int, content: bytes) -> bytes:
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08x" % value for value in fields) + name.encode() + b"\0"
    return b"".join(part + bytes(-len(part) % 4) for part in (head, content))
