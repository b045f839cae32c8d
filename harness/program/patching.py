"""Configurations of one build: the same files, which count at other places.

With `builds: one`, all configurations run the same build. Before a run, the places of the configuration's metrics are
patched, in the build's files themselves: the program keeps its path, its files and the addresses of all its code.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path

from unperturbed.common.scratch import write_whole
from unperturbed.errors import RunError
from unperturbed.harness.program.layouts import AS_BUILT, PATCHED, linked_files
from unperturbed.instrument.binaries.places import Place, patch, read_places


def count_at(tree: Path, metrics: Collection[int], *, layout: int = AS_BUILT, dose: int = 1) -> None:
    """Make the programs and libraries of a build count these metrics only.

    `layout`: The layout that is in place.
    `dose`: Number of increments at each place of these metrics.
    """
    state = tree.parent / PATCHED
    wanted = json.dumps([layout, sorted(metrics), *([dose] if dose > 1 else [])])
    if state.is_file() and state.read_text() == wanted:
        return
    state.unlink(missing_ok=True)  # a killed process leaves a part patched
    for path, places in places_of(tree, layout=layout).items():
        _patch(path, places, metrics, dose)
    write_whole(state, wanted)


def places_of(tree: Path, *, layout: int = AS_BUILT) -> Mapping[Path, tuple[Place, ...]]:
    """Return the places in each program and library of a build, in the layout that is in place."""
    marker = tree.parent / "built.json"  # not beside a node's copy, which has a folder of its own
    return _places_of(tree, layout, marker.stat().st_mtime_ns if marker.is_file() else 0)


@lru_cache(maxsize=64)
def _places_of(tree: Path, _layout: int, _built_ns: int) -> Mapping[Path, tuple[Place, ...]]:
    found = {path: read_places(path) for path in linked_files(tree)}
    return {path: places for path, places in found.items() if places}


def _patch(path: Path, places: tuple[Place, ...], metrics: Collection[int], dose: int) -> None:
    """Patch a file, and keep its mode and its time of change: the program or a Makefile may look at them."""
    before = path.stat()
    path.chmod(before.st_mode | 0o200)
    try:
        patch(path, places, metrics, dose=dose)
    except OSError as error:
        if error.errno != errno.ETXTBSY:
            raise
        raise RunError(
            f"{path} is still running, because an earlier run left a process behind, so the counters of the next run "
            "cannot be patched into the file: end that process, or use `builds: separate`"
        ) from None
    finally:
        path.chmod(before.st_mode)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
