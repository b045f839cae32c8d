"""The emulated machines' kernels and libraries.

Debian's packages, fetched by name from the host's own package sources, or from another release on the same server.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tests.pmu.architectures import ARM64, Architecture
from unperturbed.common.user_cache import user_cache
from unperturbed.errors import HostError

__all__ = ["fetch_guest", "fetch_papi", "fetch_tools"]

_FORMAT = 1
"""Raised whenever what the cached folder holds changes."""
_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
"""Of all Debian's releases that are in use."""
_TOOLS = ("gdb", "perf")
_TOOL_PACKAGES = (
    *("gdb-minimal", "libexpat1", "libgmp10", "libreadline8", "libtinfo6", "libxxhash0"),
    *("linux-perf", "libbabeltrace1", "libcap2", "libdw1", "libelf1", "libnuma1", "libopencsd1", "libperl5.36"),
    *("libpython3.11", "libslang2", "libunwind8", "libglib2.0-0", "libpcre2-8-0", "libuuid1", "libbz2-1.0"),
    *("libcrypt1", "liblzma5", "libzstd1", "zlib1g", "libstdc++6"),
)
"""Debian 12's; of another release some have other names, and `fetch_tools` says so. libdebuginfod asks servers for
symbols and needs the libraries of half a network; the guest has no network, and a stand-in of it."""


def fetch_guest(architecture: Architecture = ARM64) -> Path:
    """Return a folder with the guest's `kernel`, its `tree` of libraries and busybox.

    `packages`, their names and versions.

    It is fetched when the user's cache lacks it: 25 MB of packages and 10 MB of package lists, of which 33 MB are kept
    (for arm64). The host's own lists and packages stay untouched, and no privilege is needed.

    Raises
    ------
    HostError
        apt-get is missing, or the host's package sources do not have the packages.
    """
    return _kept(architecture.suite, _name("", architecture), partial(_make_guest, architecture))


def fetch_tools() -> dict[str, Path]:
    """Return gdb and perf for the arm64 guest, and their libraries, by path in the guest; fetched as the guest itself.

    14 MB of packages, of which 55 MB are kept.

    Raises
    ------
    HostError
        As `fetch_guest`.
    """
    return _by_path(_kept("", "-tools", _make_tools))


def fetch_papi(suite: str, packages: Sequence[str], architecture: Architecture = ARM64) -> dict[str, Path]:
    """Return PAPI of another Debian release for a guest, by path in the guest; fetched likewise.

    It lies beside the guest's own.

    Parameters
    ----------
    suite : the release.
    packages : what else is taken from there, and replaces the guest's own: libraries of other packages.
    architecture : of the guest.

    Raises
    ------
    HostError
        As `fetch_guest`.
    """
    return _by_path(_kept(suite, _name("-papi", architecture), partial(_make_papi, suite, packages, architecture)))


def _name(what: str, architecture: Architecture) -> str:
    return what + ("" if architecture.name == ARM64.name else f"-{architecture.name}")


def _by_path(folder: Path) -> dict[str, Path]:
    return {f"/{path.relative_to(folder).as_posix()}": path for path in folder.rglob("*") if path.is_file()}


def _kept(suite: str, what: str, make: Callable[[Path, Path], None]) -> Path:
    """Return a folder of the cache, made where it is not there yet."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise HostError(
            "the emulated machine is made of Debian packages, and this host has no apt-get: use a Debian host"
        )
    release = suite or platform.freedesktop_os_release().get("VERSION_CODENAME", "unknown")
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


def _make_guest(architecture: Architecture, folder: Path, made: Path) -> None:
    apt = _Apt(folder, architecture, architecture.suite)
    names = ["busybox-static", "libc6", "libgcc-s1", apt.dependency(architecture.kernel_package, "linux-image-")]
    if architecture.has_papi:
        names += ["libpfm4", apt.dependency("libpapi-dev", "libpapi")]
    tree = made / "tree"
    libraries = tree / architecture.libraries.lstrip("/")
    libraries.mkdir(parents=True)
    (tree / "bin").mkdir()
    linker = tree / architecture.linker.lstrip("/")
    linker.parent.mkdir(exist_ok=True)
    linker.symlink_to(f"{architecture.libraries}/{linker.name}")
    packages = apt.download(names)
    for package in packages:
        if _extract(package, made, libraries, architecture) == 0:
            raise HostError(f"{package.name} holds neither a kernel nor busybox nor a library: is this a Debian host?")
    (made / "packages").write_text("".join(f"{package.stem}\n" for package in packages))


def _make_papi(suite: str, others: Sequence[str], architecture: Architecture, folder: Path, made: Path) -> None:
    apt = _Apt(folder, architecture, suite)
    libraries = made / architecture.libraries.lstrip("/")
    libraries.mkdir(parents=True)
    for package in apt.download([apt.dependency("libpapi-dev", "libpapi"), *others]):
        _extract(package, made, libraries, architecture)


def _make_tools(folder: Path, made: Path) -> None:
    libraries, unpacked = made / ARM64.libraries.lstrip("/"), folder / "unpacked"
    libraries.mkdir(parents=True)
    (made / "bin").mkdir()
    for package in _Apt(folder, ARM64).download(_TOOL_PACKAGES):
        subprocess.run(["dpkg-deb", "-x", str(package), str(unpacked)], check=True)
    for name in _TOOLS:
        shutil.copy2(unpacked / "usr" / "bin" / name, made / "bin" / name)
    for path in unpacked.rglob("*.so*"):
        if ARM64.library.fullmatch(f"./{path.relative_to(unpacked)}") and path.exists():
            shutil.copy2(path, libraries / path.name)


def _extract(package: Path, made: Path, libraries: Path, architecture: Architecture) -> int:
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
            elif architecture.library.fullmatch(member.name):
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
                target.chmod(0o755)
                files += 1
    return files


class _Apt:
    """apt for another architecture, with lists of its own; the sources and their keys are the host's.

    A release that is not the host's is looked for where the host's own comes from.
    """

    def __init__(self, folder: Path, architecture: Architecture, suite: str = "") -> None:
        self._folder = folder
        self._name = architecture.name
        for name in ("lists/partial", "cache/archives/partial", "packages"):
            (folder / name).mkdir(parents=True)
        self._options = (
            f"-oAPT::Architecture={architecture.name}",
            f"-oAPT::Architectures={architecture.name}",
            f"-oDir::State::lists={folder / 'lists'}",
            f"-oDir::Cache={folder / 'cache'}",
            "-oDir::State::status=/dev/null",
            "-oAcquire::Languages=none",
            "-oAPT::Sandbox::User=root",  # the sandbox's user cannot write into a private folder
            *(_source_of(suite, folder) if suite else ()),
        )
        # One source that fails, of a vendor that offers nothing for this architecture, is not a reason to give up.
        self._updated = self._run(["apt-get", "update"], check=False)

    def dependency(self, package: str, prefix: str) -> str:
        """Return the first package on which another depends, of those whose name begins so."""
        for line in self._run(["apt-cache", "depends", package]).splitlines():
            relation, _, name = line.strip().partition(": ")
            if relation == "Depends" and name.startswith(prefix) and name != package:
                return name
        raise HostError(f"package {package} ({self._name}) depends on no {prefix}*: is this a Debian host?")

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
                f"{' '.join(command)} ({self._name}) failed; are the package sources of this host Debian's, and "
                "reachable?\n"
                f"{(self._updated + done.stdout).strip()[-2000:]}"
            )
        return done.stdout


def _source_of(suite: str, folder: Path) -> tuple[str, str]:
    """Return apt's options by which it knows one release alone, from the server of the host's own."""
    release = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    known = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(CODENAME) $(SITE)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    servers = dict(line.split(" ", 1) for line in known.splitlines())
    if release not in servers:
        raise HostError(
            f"none of this host's package sources is {release or 'a Debian release'}: is this a Debian host?"
        )
    file = folder / "sources.list"
    keys = f"[signed-by={_KEYS}] " if _KEYS.exists() else ""
    file.write_text(f"deb {keys}{servers[release]} {suite} main\n")
    return f"-oDir::Etc::SourceList={file}", "-oDir::Etc::SourceParts=/dev/null"
