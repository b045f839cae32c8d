"""Builds and inputs on a node: copied to the node's disk if the spec requests it, and compared by digest."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from unperturbed.errors import HostError, SpecError
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.plan import configurations
from unperturbed.harness.campaign.preparation import Workspace
from unperturbed.harness.campaign.progress import Progress
from unperturbed.harness.campaign.session import first_layout_of, make_layouts
from unperturbed.harness.nodes.shares import NodePart, share_of
from unperturbed.harness.program.layouts import AS_BUILT, put_in_place
from unperturbed.harness.program.process import program_command
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.instrument.binaries.probes import needed_libraries

_ID_DIGITS = 12
_COPY = "copy"
_DIGITS = 16


def staged_folder(spec: CampaignSpec, identity: str, part: NodePart) -> Path | None:
    """Return the folder for a node's copy of the builds; None if the program runs from the campaign's folder.

    The path's length, which shifts the program's stack, is the same on all nodes, and no two parts share a folder. If
    layouts vary, or all configurations are one build, each node needs a copy, because it changes the build before runs.
    """
    if spec.nodes is None:
        return None
    if spec.nodes.stage is None:
        changed = spec.campaign.layouts == "varied" or spec.builds == "one"
        return part.folder / _COPY if changed else None
    return Path(spec.nodes.stage) / f"unperturbed-{identity[:_ID_DIGITS]}-{part.name}"


def link_layouts(spec: CampaignSpec, workspace: Workspace, manifest: Manifest, progress: Progress) -> None:
    """Link the layouts for the runs of all nodes; each node has its own, so that the nodes' results are independent."""
    count = spec.nodes.count if spec.nodes is not None else 1
    runs = [
        (item.name, first_layout_of(part) + run)
        for part in range(1, count + 1)
        for item in configurations(share_of(spec, part))
        for run in range(item.runs)
    ]
    built = {item.name: (item, workspace.builds[item.name]) for item in configurations(spec)}
    make_layouts(spec, built, runs, manifest, progress)
    for tree in filter(None, workspace.builds.values()):
        put_in_place(tree, AS_BUILT)  # nodes copy this layout


@contextmanager
def staged(spec: CampaignSpec, home: Path, workspace: Workspace, folder: Path) -> Iterator[Workspace]:
    """Copy builds and inputs to a folder on this node, replacing an earlier copy; remove the copy at the end."""
    _make_empty(folder)
    try:
        try:
            copies = _copy(home, workspace, folder)
        except (OSError, shutil.Error) as error:
            raise HostError(f"cannot copy the builds and inputs to {folder.parent}: {_reason(error)}") from None
        _compare(spec, home, workspace, copies)
        yield copies
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _make_empty(folder: Path) -> None:
    """Create an empty folder for a copy, private to this user, because its parent may be writable by everybody."""
    above = folder.parent
    if not above.is_dir():
        raise HostError(
            f"`stage`: {above} is not a folder on this node; create it on every node, or choose another folder"
        )
    try:
        if folder.is_symlink() or (folder.exists() and folder.stat().st_uid != os.geteuid()):
            what = "is a symbolic link" if folder.is_symlink() else "belongs to another user"
            raise HostError(f"`stage`: {folder} {what}; remove it, or choose another folder")
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(mode=stat.S_IRWXU)
    except OSError as error:
        key = "" if folder.name == _COPY else "`stage`: "  # a copy in the campaign's folder needs no `stage`
        raise HostError(f"{key}cannot write to {above} on this node: {error.strerror}") from None


def _copy(home: Path, workspace: Workspace, folder: Path) -> Workspace:
    """Copy every build and the inputs, with the same relative paths as in the campaign's folder."""
    origins = [workspace.inputs]
    for build in filter(None, workspace.builds.values()):
        origins += [build, *filter(Path.is_dir, [build.parent / "layouts"])]
    for origin in dict.fromkeys(origins):
        shutil.copytree(origin, folder / origin.relative_to(home), symlinks=True)
    builds = {
        name: None if build is None else folder / build.relative_to(home) for name, build in workspace.builds.items()
    }
    return Workspace(builds, folder / workspace.inputs.relative_to(home), workspace.program)


def _compare(spec: CampaignSpec, home: Path, workspace: Workspace, copies: Workspace) -> None:
    staged_by = ["`stage`"] if spec.nodes is not None and spec.nodes.stage is not None else []
    staged_by += ["`layouts: varied`"] if spec.campaign.layouts == "varied" else []
    staged_by += ["`builds: one`"] if spec.builds == "one" else []
    for name, build in copies.builds.items():
        if build is None:
            continue
        for label, file in binary_files(spec, name, build, copies.inputs).items():
            if file.resolve().is_relative_to((home / "builds").resolve()):
                raise SpecError(
                    f"the copied program of configuration {name} still loads {label} from {file}, an absolute path "
                    "into the original build: link the program with an RPATH or RUNPATH that begins with $ORIGIN, or "
                    f"remove {' and '.join(staged_by)}"
                )
    built, copied = (binaries_digest(spec, side.builds, side.inputs) for side in (workspace, copies))
    if built != copied:
        raise HostError(
            f"the copy of the program and its libraries on this node differs from the build (digest of the copy: "
            f"{copied}, of the build: {built})"
        )


def _reason(error: OSError | shutil.Error) -> str:
    """Return why a file could not be copied; the exception of `shutil.copytree` combines all errors, without errno."""
    if error.errno == errno.ENOSPC or "[Errno 28]" in str(error):
        return "no space left on this node's disk"
    return error.strerror or str(error)


def binary_files(spec: CampaignSpec, name: str, build: Path | None, inputs: Path) -> dict[str, Path]:
    """Return a build's `program` (if it is a binary) and the libraries that this node's linker finds, by name."""
    own = spec.of_program(name if name in spec.programs else "")
    command = program_command(own, scratch=inputs, build=build, inputs=inputs)
    if command.binary is None:
        return {}
    files = {"program": command.binary}
    with suppress(SpecError):  # a script needs no libraries
        files |= needed_libraries(command.binary, command.library_path)
    return files


def binaries_digest(spec: CampaignSpec, builds: Mapping[str, Path | None], inputs: Path) -> str:
    """Return one digest of every build's program and of the libraries that this node's linker finds for it."""
    content = hashlib.sha256()
    for name, build in sorted(builds.items()):
        files = binary_files(spec, name, build, inputs)
        if not files:
            content.update(f"{name}: none\n".encode())
        for label, file in sorted(files.items()):
            content.update(f"{name} {label} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return f"sha256 {content.hexdigest()[:_DIGITS]}"
