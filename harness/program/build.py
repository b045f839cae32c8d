"""Building of configurations: copies the source and runs the build command with the instrumenting compiler."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unperturbed.collectors.data.files import misfit
from unperturbed.collectors.runtime import BOUNDS, runtime_files
from unperturbed.common import supervision
from unperturbed.common.scratch import write_whole
from unperturbed.common.user_cache import user_cache
from unperturbed.errors import HostError, RunError, SpecError
from unperturbed.harness.program.sources import copy_source, debian_source, require_copyable, source_files
from unperturbed.harness.spec.sections.program import Program
from unperturbed.harness.spec.text import substitute
from unperturbed.instrument.compiler.toolchain import without_runtime, write_toolchain
from unperturbed.instrument.events import Event
from unperturbed.instrument.finding.rewrite import Form
from unperturbed.instrument.finding.site_log import read_sites
from unperturbed.instrument.missing import missing_metrics

_SHOWN_LINES = 25
_NO_SPACE_BYTES = 1 << 20
_SHOWN_ERRORS = 2
_ERROR = re.compile(r"\bError \d+\b|\berror:|: (?:command )?not found|No such file or directory")
_OBJECTS = (".o", ".obj", ".lo", ".a", ".so")

_UNFIT = re.compile(r"[\s$`\"'\\;&|<>()\x00-\x1f\x7f]|^~")
"""Characters in a compiler's path that make and shells do not treat literally."""


def _described(sign: str) -> str:
    return "a space" if sign == " " else "a line break" if sign in "\r\n" else f"the character {sign}"


@dataclass(frozen=True)
class Build:
    """A built configuration."""

    folder: Path  # The build's folder; the toolchain is beside it
    sites: Mapping[str, int]  # Number of sites of each software metric
    skipped: Mapping[str, str]  # Source files with possible sites, compiled without counters, each with the reason
    # Software metrics that match no site in the source, each with a message; such a build is unusable.
    missing: Mapping[str, str] = field(default_factory=dict)
    why_no_source: str = ""  # Why the build compiled no source, so that all metrics are missing


def find_source(program: Program, spec_folder: Path) -> Path | None:
    """Return the folder of the program's source; fetch a Debian package first. None if nothing is built."""
    if program.debian is not None:
        return debian_source(program.debian, user_cache())
    if program.source is not None:
        source = spec_folder / program.source
        require_copyable(source)
        return source
    return None


def check_compilers(program: Program) -> None:
    """Raise HostError if a compiler that the build command needs is missing."""
    if program.build is None:
        return
    for role, name in program.compilers.items():
        used = f"{{{role}}}" in program.build
        if used and shutil.which(shlex.split(name)[0]) is None:
            package = "g++" if role == "cxx" else "gcc"
            raise HostError(
                f"no compiler {name!r} on this host: install it, or choose another compiler under `compilers` (on "
                f"Debian, `apt-get install {package} libc6-dev` installs {package})"
            )


def build_configuration(
    program: Program,
    source: Path,
    folder: Path,
    software: Mapping[str, Event] | None,
    *,
    spec_folder: Path,
    announce: Callable[[], None] = lambda: None,
    form: Form = "counting",
    layouts: bool = False,
    ends_intervals: str = "",
    doses: int = 1,
    links: bool = False,
) -> Build:
    """Build one configuration; keep an existing build of the same source and events.

    `folder`: All configurations' folder names have the same length, so paths in the binaries have the same length too.
    `software`: The metrics to compile in; None builds the original program, with the plain compiler and no runtime.
    `layouts`: Record the links, so that the program can be linked in other layouts (`harness.program.layouts`).
    `ends_intervals`: The metric whose events end intervals; '' if none does.
    `doses`: Number of increments that a place of a patchable build can hold.
    `links`: Record the links of the original program, so that they can be repeated with the sampler.
    """
    tree, marker = folder / "src", folder / "built.json"
    ways = {"sham": form == "sham", "patchable": form == "patchable", "layouts": layouts}
    ways |= {f"intervals of {ends_intervals}": bool(ends_intervals), f"doses {doses}": doses > 1}
    key = _key(program, source, software, ways)
    built = _read_marker(marker)
    if built.get("key") == key:
        return Build(tree, built["sites"], built["skipped"])
    if odd := _UNFIT.search(str(folder)):
        raise SpecError(
            f"{folder}: make and configure cannot use a compiler with {_described(odd[0])} in its path, and the "
            "compiler wrapper is in this folder; choose another folder with --campaign"
        )
    announce()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if software is not None or links:
        write_toolchain(
            folder / "toolchain",
            software or {},
            compilers=program.compilers,
            runtime=runtime_files(regions=any(event.kind == "within" for event in (software or {}).values())),
            bounds=BOUNDS,
            form=form,
            layouts=layouts or links,
            objects=user_cache() / "objects",
            ends_intervals=ends_intervals,
            doses=doses,
        )
    copy_source(source, tree)
    with without_runtime(folder / "toolchain") if links else nullcontext():
        compile_tree(program, tree, folder / "build.log", spec_folder=spec_folder)
    sites: dict[str, int] = {}
    skipped: dict[str, str] = {}
    if software:
        report = read_sites(folder / "toolchain")
        why = "" if report.sources else why_no_source(program, source, tree, folder / "build.log")
        if missing := missing_metrics(report, software, why):
            return Build(tree, sites, skipped, missing, why)
        sites = {name: len(places) for name, places in report.sites.items()}
        skipped = dict(report.skipped)
    write_whole(marker, json.dumps({"key": key, "sites": sites, "skipped": skipped}))
    return Build(tree, sites, skipped)


def compile_tree(program: Program, tree: Path, log: Path, *, spec_folder: Path) -> None:
    """Run the build command in a copy of the source; use the toolchain beside the copy, or else the plain compilers."""
    if program.build is None:
        raise SpecError("the program has no build command: set `build`")
    chain = tree.parent / "toolchain"
    compilers = {name: str(chain / name) for name in ("cc", "cxx")} if chain.is_dir() else dict(program.compilers)
    known = {**compilers, "spec": str(spec_folder), "source": str(tree), "build": str(tree)}
    command = [substitute(word, known) for word in shlex.split(program.build)]
    shell = substitute(program.build, known) if program.shell else None
    # A killed compiler leaves temporary files; in this folder, the next build removes them.
    temporary = tree.parent / "tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    with log.open("wb") as output:
        try:
            result = supervision.run(
                ["/bin/sh", "-c", shell] if shell else command,
                cwd=tree,
                env={**os.environ, "TMPDIR": str(temporary)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        except FileNotFoundError:
            raise HostError(
                f"the build command {command[0]!r} does not exist on this host: install it, or correct `build`"
            ) from None
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    if result.returncode != 0 and shutil.disk_usage(tree).free < _NO_SPACE_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tree))
    if result.returncode != 0:
        last = log.read_text(errors="replace").strip().splitlines()[-_SHOWN_LINES:]
        raise RunError(
            "\n".join(
                [
                    f"the build failed with exit code {result.returncode}: {shlex.join(command)}",
                    *last,
                    f"(full output: {log})",
                ]
            )
        )


def why_no_source(program: Program, source: Path, tree: Path, log: Path) -> str:
    """Return why a build never called the instrumenting compiler, what to change, and errors in the build's log.

    `tree`: The copy of `source` in which the build ran.
    """
    build = program.build or ""
    used = [f"`{{{name}}}`" for name in ("cc", "cxx") if f"{{{name}}}" in build]
    errors = _errors_in(log)
    said = f". The build's output has errors: {' / '.join(errors)}".replace(f"{tree}/", "") if errors else ""
    if not used:
        example = f", such as `build: {build} CC={{cc}}`" if build == "make" or build.startswith("make ") else ""
        return (
            f"the build command `{build}` has neither `{{cc}}` nor `{{cxx}}`, which stand for that compiler: add "
            f"them{example}{said}"
        )
    has = f"the build command has {' and '.join(used)}"
    newest = _newest_object(tree)
    again = build.replace("make ", "make -B ", 1)  # makes everything, whether or not it is up to date
    if newest is None and build.startswith("make ") and not errors:
        return (
            f"{has}, but called no compiler. If make had nothing to do, remove the built program from the source "
            f"folder, or make it again: `build: {again}`; otherwise let the build compile the program from its sources"
        )
    if newest is None:
        return f"{has}, but called no compiler: let the build compile the program from its sources{said}"
    name = newest.relative_to(tree)
    original = source / name
    if not original.is_file() or original.stat().st_mtime_ns != newest.stat().st_mtime_ns:
        return f"{has}, but the build made {name} with another compiler: let it compile with {' and '.join(used)}{said}"
    how = f", or make everything again: `build: {again}`" if build.startswith("make ") else ""
    return (
        f"{has}, but had nothing to compile, as the source folder has object files (the newest is {name}): remove them"
        f"{how}{said}"
    )


def _errors_in(log: Path) -> list[str]:
    """Return the last lines of a build's log that report errors, each error of make with the line before it."""
    lines = log.read_text(errors="replace").strip().splitlines()
    errors = [number for number, line in enumerate(lines) if _ERROR.search(line)]
    shown = {near for number in errors[-_SHOWN_ERRORS:] for near in (number - 1, number) if near >= 0}
    return [lines[number].strip() for number in sorted(shown)]


def _newest_object(tree: Path) -> Path | None:
    """Return the object file or library of a build that was written last; None if there is none."""
    objects = [path for path in tree.rglob("*") if path.suffix in _OBJECTS and path.is_file()]
    return max(objects, key=lambda path: path.stat().st_mtime_ns, default=None)


def _read_marker(marker: Path) -> dict[str, Any]:
    """Return the record of a finished build; empty if the build did not finish or the file is damaged."""
    try:
        built = json.loads(marker.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return {} if misfit(built, {"key": str, "sites": {str: int}, "skipped": {str: str}}, "the build") else built


def _key(program: Program, source: Path, software: Mapping[str, Event] | None, ways: Mapping[str, bool]) -> str:
    content = hashlib.sha256()
    for file in source_files(source):
        state = file.lstat()
        content.update(f"{file.relative_to(source)} {state.st_size} {state.st_mtime_ns}\n".encode())
    for runtime in (*runtime_files(regions=True), *BOUNDS):
        content.update(runtime.read_bytes())
    events = None if software is None else {name: event.to_json() for name, event in software.items()}
    # Without these ways, the key stays the same as in versions before these options.
    chosen = [[name for name, wanted in ways.items() if wanted]] if any(ways.values()) else []
    content.update(json.dumps([program.build, dict(program.compilers), events, *chosen]).encode())
    return content.hexdigest()
