"""The measured program's source, a user's folder or a Debian source package, and the identity of the program."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import tarfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from unperturbed.common import supervision
from unperturbed.common.scratch import scratch_folder
from unperturbed.errors import HostError, SpecError
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections.program import PROGRAM_PATH
from unperturbed.harness.spec.text import PARAMETER, PLACEHOLDERS, substitute
from unperturbed.instrument.layout import file_digest

FETCHING_TOOLS = {"apt-get": "apt", "dpkg-source": "dpkg-dev"}  # Each with its Debian package
_IGNORED = shutil.ignore_patterns(".git", "__pycache__", "*.pyc")
_CAMPAIGN = "campaign.sqlite"
_UPSTREAM = "upstream:"

_IDENTITY_DIGITS = 16
_BESIDE = "{spec}"  # How a command names what lies beside the spec
_MOUNTS = Path("/proc/self/mountinfo")
_KERNEL_FILES = ("bpf", "configfs", "debugfs", "efivarfs", "mqueue", "pstore", "securityfs", "sysfs", "tracefs")
_MADE_UP = frozenset((*_KERNEL_FILES, "cgroup", "cgroup2", "devpts", "devtmpfs", "proc"))
"""Kinds of file systems that hold no files that somebody wrote."""


def copy_source(source: Path, target: Path) -> None:
    """Copy a source folder with its links, without files of version control and campaigns inside it."""
    shutil.copytree(source, target, symlinks=True, ignore=_left_out)


def require_copyable(source: Path) -> None:
    """Refuse as source the root of all files, and what the kernel makes up: copying these would not end."""
    real = source.resolve()
    if real == Path(real.root):
        raise SpecError(f"source: {source} is the root folder: name the folder of the program's source")
    try:
        mounts = _MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return
    kinds = {Path(_unescaped(line.split()[4])): line.partition(" - ")[2].split()[0] for line in mounts}
    kind = next((kinds[folder] for folder in (real, *real.parents) if folder in kinds), "")
    if kind in _MADE_UP or real == Path("/dev"):
        raise SpecError(
            f"source: {source} is a file system of the kernel ({kind}): name the folder of the program's source"
        )


def _unescaped(path: str) -> str:
    """Return a path of the list of mounts, in which spaces and the like are octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)


def source_files(source: Path) -> Iterator[Path]:
    """Yield the files that `copy_source` copies, in a fixed order."""
    for folder, below, files in os.walk(source):
        out = _left_out(folder, [*below, *files])
        below[:] = sorted(set(below) - out)
        yield from (Path(folder) / name for name in sorted(set(files) - out))


def _left_out(folder: str, names: list[str]) -> set[str]:
    """Return what is no part of the source. A campaign's folder inside it would be copied into itself without end."""
    return set(_IGNORED(folder, names)) | {name for name in names if Path(folder, name, _CAMPAIGN).is_file()}


def debian_source(package: str, cache: Path) -> Path:
    """Fetch and unpack a Debian source package, once for this user; return the unpacked folder.

    Lists and downloads are kept in the user's cache: nothing of the system changes. `package`: `bzip2`, or with a
    version `bzip2=1.0.8-5`; `upstream:bzip2` for the upstream source alone, without Debian's patches.
    """
    folder = cache / "sources" / package.replace("/", "_")
    unpacked = folder / "unpacked"
    if unpacked.is_dir():
        return unpacked
    for tool, owner in FETCHING_TOOLS.items():
        if shutil.which(tool) is None:
            raise HostError(
                f"{tool} is missing, so Debian's source of {package} cannot be fetched (apt-get install {owner})"
            )
    (cache / "sources").mkdir(parents=True, exist_ok=True)
    with (cache / "sources" / ".lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # apt refuses to share its lists
        if not unpacked.is_dir():  # another process may have fetched it meanwhile
            _fetch(package, cache, folder)
    return unpacked


def _fetch(package: str, cache: Path, folder: Path) -> None:
    """Fetch and unpack a package into a folder that appears whole or not at all."""
    options, name = _apt_options(cache), package.removeprefix(_UPSTREAM)
    with scratch_folder("fetch", folder.parent) as aside:
        if not any((cache / "apt" / "lists").glob("*_Sources*")):
            _apt(options, "update", aside, package)
        _apt(options, "source", aside, name, *(["--tar-only"] if name != package else []))
        (_unpack if name == package else _unpack_upstream)(aside, package)
        shutil.rmtree(folder, ignore_errors=True)
        aside.rename(folder)


def _unpack(folder: Path, package: str) -> None:
    described = sorted(folder.glob("*.dsc"))
    if not described:
        raise SpecError(f"apt fetched no source package for {package!r}; is it the name of a Debian source package?")
    unpacking = ["dpkg-source", "--no-check", "--extract", described[0].name, "unpacked"]
    result = supervision.run(unpacking, cwd=folder, capture_output=True, text=True)
    if result.returncode != 0:
        raise HostError(f"dpkg-source failed to unpack {described[0].name}: {result.stderr.strip()}")


def _unpack_upstream(folder: Path, package: str) -> None:
    packed = sorted(folder.glob("*.orig.tar.*[!c]"))  # without its signature, .asc
    if not packed:
        raise SpecError(
            f"{package}: this package has no upstream source of its own; write {package.removeprefix(_UPSTREAM)}"
        )
    (folder / "all").mkdir()
    try:
        with tarfile.open(packed[0]) as archive:
            archive.extractall(folder / "all", filter="data")
    except tarfile.TarError as error:
        raise HostError(f"cannot unpack {packed[0].name}: {error}") from None
    found = list((folder / "all").iterdir())
    (found[0] if len(found) == 1 and found[0].is_dir() else folder / "all").rename(folder / "unpacked")


def _apt(options: list[str], verb: str, folder: Path, package: str, *more: str) -> None:
    arguments = [verb] if verb == "update" else [verb, "--download-only", "--only-source", "-qq", *more, package]
    result = supervision.run(["apt-get", *options, *arguments], cwd=folder, capture_output=True, text=True)
    if result.returncode == 0:
        return
    reason = result.stderr.strip().splitlines()
    output = "\n".join(reason[-3:])
    if "Unable to find a source package" in output:
        raise SpecError(f"no Debian source package {package!r}; look it up with: apt-cache showsrc {package}")
    hint = f"\n`debian: {_UPSTREAM}{package}` asks for the upstream source alone" if ".debian.tar." in output else ""
    raise HostError(f"apt-get {verb} failed while fetching Debian's source of {package}:\n{output}{hint}")


def _apt_options(cache: Path) -> list[str]:
    """Write the host's package lists as lists of source packages; return the options that make apt use them."""
    apt = cache / "apt"
    (apt / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    parts = apt / "sources.list.d"
    parts.mkdir(exist_ok=True)
    release = _codename()
    found = False
    listed = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    for file in listed:
        if not file.is_file() or file.suffix not in (".list", ".sources"):
            continue
        text = (
            _as_source_stanzas(file.read_text(), release)
            if file.suffix == ".sources"
            else _as_source_lines(file.read_text(), release)
        )
        if text:
            (parts / file.name).write_text(text)
            found = True
    if not found:
        raise HostError(
            f"no package source for this release ({release}) in /etc/apt: Debian's source packages cannot be fetched"
        )
    settings = {
        "Dir::Etc::SourceList": "/dev/null",
        "Dir::Etc::SourceParts": parts,
        "Dir::State::Lists": apt / "lists",
        "APT::Sandbox::User": "",
    }
    return [argument for name, value in settings.items() for argument in ("-o", f"{name}={value}")]


def _codename() -> str:
    if codename := platform.freedesktop_os_release().get("VERSION_CODENAME"):
        return codename
    raise HostError(
        "no VERSION_CODENAME in /etc/os-release: this host is not like Debian; use `source:` instead of `debian:`"
    )


def _of_release(suites: list[str], release: str) -> bool:
    """Return whether these suites are the distribution's own: other registries often have no source packages."""
    return any(suite == release or suite.startswith(f"{release}-") for suite in suites)


def _as_source_stanzas(text: str, release: str) -> str:
    kept = []
    for stanza in text.split("\n\n"):
        lines = [line for line in stanza.splitlines() if not line.startswith("#")]
        suites = [line.partition(":")[2].split() for line in lines if line.startswith("Suites:")]
        if suites and _of_release(suites[0], release):
            kept.append("\n".join("Types: deb-src" if line.startswith("Types:") else line for line in lines))
    return "\n\n".join(kept) + "\n" if kept else ""


def _as_source_lines(text: str, release: str) -> str:
    kept = []
    for line in text.splitlines():
        words = [word for word in line.split() if not word.startswith("[") and not word.endswith("]")]
        if words[:1] in (["deb"], ["deb-src"]) and _of_release(words[2:3], release):
            kept.append("deb-src" + line.strip()[len(words[0]) :])
    return "".join(f"{line}\n" for line in dict.fromkeys(kept))


def program_identity(spec: CampaignSpec, source: Path | None) -> str:
    """Return the identity of a campaign's program, which all its configurations share.

    It is made of the content of the source and of the input files, the commands (in these, the content of the files
    that they name; without a shell, of those that are a whole word), the compilers' names and the environment. What
    instrumentation adds is no part of it, nor where anything lies. `source` is None for a program that is taken as it
    is.
    """
    program = spec.program
    content = hashlib.sha256()
    for file in () if source is None else source_files(source):
        content.update(json.dumps([os.path.relpath(file, source), *_of_file(file)]).encode())
    run = program.run.split() if program.shell else shlex.split(program.run)
    if source is None:
        run[0] = shutil.which(run[0], path=PROGRAM_PATH) or run[0]
    parts = [
        [_word(spec, word) for word in run],
        program.shell,
        program.working_folder,
        None if program.stdin is None else _word(spec, program.stdin),
        {name: _word(spec, value) for name, value in program.environment.items()},
        [file_digest(spec.folder / name) for name in program.inputs],
        [_word(spec, word) for word in shlex.split(program.prepare or "")],
        [] if program.build is None else [_word(spec, program.build), dict(program.compilers)],
    ]
    content.update(json.dumps(parts, sort_keys=True).encode())
    for command in (program.build, program.run if program.shell else None):
        for digest in _contents_beside(spec, command or ""):
            content.update(digest.encode())
    name = program.debian or (Path(run[0]).name if source is None else source.resolve().name)
    return f"{name} {content.hexdigest()[:_IDENTITY_DIGITS]}"


def _of_file(file: Path) -> list[str | bool]:
    """Return what a build may see of a file: where a link leads; else its content, and whether it can be executed."""
    if file.is_symlink():
        return [str(file.readlink())]
    return [file_digest(file), os.access(file, os.X_OK)] if file.is_file() else ["special"]


def _word(spec: CampaignSpec, text: str) -> str:
    """Return a word of a command; of a file, wherever it lies, the content."""
    names = (*PLACEHOLDERS, *(f"{PARAMETER}{name}" for name in spec.parameters))
    same = {name: f"{{{name}}}" for name in names}
    word = substitute(text, same | {"spec": str(spec.folder)})
    named = word.startswith("/") and os.access(word, os.R_OK) and Path(word).is_file()
    return file_digest(word) if named else substitute(text, same)


def _contents_beside(spec: CampaignSpec, command: str) -> list[str]:
    """Return the content of files beside the spec that a command reads; redirected output changes with each run."""
    words = _words_of_shell(command)
    read = (
        word for before, word in pairwise(["", *words]) if _BESIDE in word and not before.endswith((">", ">&", ">|"))
    )
    files = (Path(f"{spec.folder}{word.partition(_BESIDE)[2]}") for word in read)
    return [file_digest(file) for file in files if file.is_file() and os.access(file, os.R_OK)]


def _words_of_shell(text: str) -> list[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return list(lexer)
    except ValueError:  # an odd quotation mark, in a comment or a here-document
        return [word.strip("\"'();&|<>") for word in text.split()]
