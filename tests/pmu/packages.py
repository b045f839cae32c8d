"""The emulated machine's kernel and libraries.

Debian's arm64 packages, fetched by name from the host's own package sources.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from unperturbed.common.user_cache import user_cache
from unperturbed.errors import HostError

__all__ = ["fetch_guest"]

_ARCHITECTURE = "arm64"
_LIBRARY = re.compile(r"\./(usr/)?lib/(aarch64-linux-gnu/)?[^/]+\.so(\.[^/]*)?")
_FORMAT = 1
"""Raised whenever what the cached folder holds changes."""


def fetch_guest() -> Path:
    """Return a folder with the guest's `kernel`, its `tree` of libraries and busybox.

    `packages`, their names and versions.

    It is fetched when the user's cache lacks it: 25 MB of packages and 10 MB of package lists, of which 33 MB are kept.
    The host's own lists and packages stay untouched, and no privilege is needed.

    Raises
    ------
    HostError
        apt-get is missing, or the host's package sources do not have the packages.
    """
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise HostError(
            "the emulated machine is made of Debian packages, and this host has no apt-get: use a Debian host"
        )
    release = platform.freedesktop_os_release().get("VERSION_CODENAME", "unknown")
    target = user_cache() / "pmu" / f"{release}-{_FORMAT}"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=target.parent) as name:
        made = Path(name, "guest")
        _make_guest(Path(name), made)
        try:
            made.rename(target)
        except OSError:
            if not target.exists():  # else another process was as quick
                raise
    return target


def _make_guest(folder: Path, made: Path) -> None:
    apt = _Apt(folder)
    names = ["busybox-static", "libc6", "libgcc-s1", "libpfm4"]
    names.append(apt.dependency("linux-image-cloud-arm64", "linux-image-"))
    names.append(apt.dependency("libpapi-dev", "libpapi"))
    libraries = made / "tree" / "lib" / "aarch64-linux-gnu"
    libraries.mkdir(parents=True)
    (made / "tree" / "bin").mkdir()
    (made / "tree" / "lib" / "ld-linux-aarch64.so.1").symlink_to("aarch64-linux-gnu/ld-linux-aarch64.so.1")
    packages = apt.download(names)
    for package in packages:
        if _extract(package, made, libraries) == 0:
            raise HostError(f"{package.name} holds neither a kernel nor busybox nor a library: is this a Debian host?")
    (made / "packages").write_text("".join(f"{package.stem}\n" for package in packages))


def _extract(package: Path, made: Path, libraries: Path) -> int:
    """Take the kernel, busybox or the shared libraries out of a package, all libraries into one folder.

    Return how many files that were.
    """
    files = 0
    with (
        subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE) as unpacking,
        tarfile.open(fileobj=unpacking.stdout, mode="r|") as archive,
    ):
        for member in archive:
            name = Path(member.name).name
            if member.name.startswith("./boot/vmlinu"):
                target = made / "kernel"
            elif member.name in {"./bin/busybox", "./usr/bin/busybox"}:
                target = made / "tree" / "bin" / "busybox"
            elif _LIBRARY.fullmatch(member.name):
                target = libraries / name
            else:
                continue
            if member.issym():
                if (
                    Path(member.linkname).name != name
                ):  # one that leads to the folder where all libraries are is not needed
                    target.symlink_to(Path(member.linkname).name)
            elif content := archive.extractfile(member):
                target.write_bytes(content.read())
                files += 1
    return files


class _Apt:
    """apt for another architecture, with lists of its own; the sources and their keys are the host's."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in ("lists/partial", "cache/archives/partial", "packages"):
            (folder / name).mkdir(parents=True)
        self._options = (
            f"-oAPT::Architecture={_ARCHITECTURE}",
            f"-oAPT::Architectures={_ARCHITECTURE}",
            f"-oDir::State::lists={folder / 'lists'}",
            f"-oDir::Cache={folder / 'cache'}",
            "-oDir::State::status=/dev/null",
            "-oAcquire::Languages=none",
            "-oAPT::Sandbox::User=root",  # the sandbox's user cannot write into a private folder
        )
        # One source that fails, of a vendor that offers nothing for this architecture, is no reason to give up.
        self._updated = self._run(["apt-get", "update"], check=False)

    def dependency(self, package: str, prefix: str) -> str:
        """Return the first package on which another depends, of those whose name begins so."""
        for line in self._run(["apt-cache", "depends", package]).splitlines():
            relation, _, name = line.strip().partition(": ")
            if relation == "Depends" and name.startswith(prefix) and name != package:
                return name
        raise HostError(f"package {package} ({_ARCHITECTURE}) depends on no {prefix}*: is this a Debian host?")

    def download(self, names: Sequence[str]) -> list[Path]:
        """Fetch packages, checked by the sources' signatures."""
        self._run(["apt-get", "download", *names])
        return sorted((self._folder / "packages").glob("*.deb"))

    def _run(self, command: list[str], *, check: bool = True) -> str:
        done = subprocess.run(
            [command[0], *self._options, *command[1:]],
            cwd=self._folder / "packages",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if check and done.returncode != 0:
            raise HostError(
                f"{' '.join(command)} ({_ARCHITECTURE}) failed; are the package sources of this host Debian's, and "
                "reachable?\n"
                f"{(self._updated + done.stdout).strip()[-2000:]}"
            )
        return done.stdout
