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
from collections.abc import Callable, Sequence
from pathlib import Path

from unperturbed.common.user_cache import user_cache
from unperturbed.errors import HostError

__all__ = ["fetch_guest", "fetch_tools"]

_ARCHITECTURE = "arm64"
_LIBRARY = re.compile(r"\./(usr/)?lib/(aarch64-linux-gnu/)?[^/]+\.so(\.[^/]*)?")
_FORMAT = 1
"""Raised whenever what the cached folder holds changes."""
_TOOLS = ("gdb", "perf")
_TOOL_PACKAGES = (
    *("gdb-minimal", "libexpat1", "libgmp10", "libreadline8", "libtinfo6", "libxxhash0"),
    *("linux-perf", "libbabeltrace1", "libcap2", "libdw1", "libelf1", "libnuma1", "libopencsd1", "libperl5.36"),
    *("libpython3.11", "libslang2", "libunwind8", "libglib2.0-0", "libpcre2-8-0", "libuuid1", "libbz2-1.0"),
    *("libcrypt1", "liblzma5", "libzstd1", "zlib1g", "libstdc++6"),
)
"""Debian 12's; of another release some have other names, and `fetch_tools` says so. libdebuginfod asks servers for
symbols and needs the libraries of half a network; the guest has no network, and a stand-in of it."""


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
    return _kept("", _make_guest)


def fetch_tools() -> dict[str, Path]:
    """Return gdb and perf for the guest, and their libraries, by path in the guest; fetched as the guest itself is.

    14 MB of packages, of which 55 MB are kept.

    Raises
    ------
    HostError
        As `fetch_guest`.
    """
    folder = _kept("-tools", _make_tools)
    return {f"/{path.relative_to(folder).as_posix()}": path for path in folder.rglob("*") if path.is_file()}


def _kept(what: str, make: Callable[[Path, Path], None]) -> Path:
    """Return a folder of the cache, made where it is not there yet."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise HostError(
            "the emulated machine is made of Debian packages, and this host has no apt-get: use a Debian host"
        )
    release = platform.freedesktop_os_release().get("VERSION_CODENAME", "unknown")
    target = user_cache() / "pmu" / f"{release}{what}-{_FORMAT}"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=target.parent) as name:
        made = Path(name, "guest")
        make(Path(name), made)
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


def _make_tools(folder: Path, made: Path) -> None:
    libraries, unpacked = made / "lib" / "aarch64-linux-gnu", folder / "unpacked"
    libraries.mkdir(parents=True)
    (made / "bin").mkdir()
    for package in _Apt(folder).download(_TOOL_PACKAGES):
        subprocess.run(["dpkg-deb", "-x", str(package), str(unpacked)], check=True)
    for name in _TOOLS:
        shutil.copy2(unpacked / "usr" / "bin" / name, made / "bin" / name)
    for path in unpacked.rglob("*.so*"):
        if _LIBRARY.fullmatch(f"./{path.relative_to(unpacked)}") and path.exists():
            shutil.copy2(path, libraries / path.name)


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
