"""Other layouts of a build: made once, kept beside it, and put into its place for the runs that have them.

The program always stands at the same path, whatever its layout: nothing but the layout differs between two of them. Making one takes
a link instead of a build where that is sound: the toolchain noted the build's links, and each is made again with another layout. The
build is repeated as a whole where a linked file was changed afterwards (stripped, say), or what it was linked from is gone.

In a build's folder::

    src/             the build, in the layout that was put in place last
    layouts/NNN/     what was linked, or in NNN.tree/ the whole build; 000 is the build as it was made
    layouts/active   the number of the layout that stands in src/
    layouts/way.json how layouts are made here
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from unperturbed.errors import RunError
from unperturbed.harness.build import compile_tree
from unperturbed.harness.sources import copy_source
from unperturbed.harness.spec import Program
from unperturbed.instrument.toolchain import Link, file_digest, in_layout, is_check_folder, read_links, relink

__all__ = ["AS_BUILT", "layout_notes", "make_layout", "put_in_place"]

AS_BUILT = 0

_ELF = b"\x7fELF"
_LINKED_TYPES = (2, 3)
_MARK = b"unperturbed_sites"
"""Name of a section that every program and library has which the toolchain linked; stripping leaves it."""

_MOST_NOTES = 3


@dataclass(frozen=True)
class _Output:
    """What one link made: its number among the links, and where copies of it stand, relative to the build; `made` is where it was linked."""

    link: int
    made: str
    places: tuple[str, ...]


@dataclass(frozen=True)
class _Way:
    """How layouts of a build are made: by linking its outputs again, or, for the reason `rebuilt`, by the whole build."""

    outputs: tuple[_Output, ...]
    rebuilt: str
    notes: tuple[str, ...]


def make_layout(program: Program, source: Path, tree: Path, number: int, layout: str, *, spec_folder: Path) -> None:
    """Make one layout of a build; one that is there already is kept. Afterwards, any layout may stand in the build's place.

    Parameters
    ----------
    program, source, spec_folder : as for `build`.
    tree : of a build that was made with `layouts`.
    number : of the layout, from 1. layout : what it is drawn from.

    Raises
    ------
    RunError
        Neither link nor build can be made again.
    """
    way = _way(tree)
    if _kept(tree, way, number).is_dir():
        return
    _mark(tree, None)
    with in_layout(_toolchain(tree), layout):
        if not way.rebuilt:
            try:
                _link(tree, way)
            except RunError as error:
                way = _rebuilt_from_now_on(tree, way, error)
        if way.rebuilt:
            shutil.rmtree(tree)
            copy_source(source, tree)
            compile_tree(program, tree, tree.parent / "layouts" / f"{number:03d}.log", spec_folder=spec_folder)
    _keep(tree, way, number)


def put_in_place(tree: Path, number: int) -> None:
    """Have a build's folder hold one of its layouts.

    Raises
    ------
    RunError
        There is no such layout.
    """
    if not _way_file(tree).is_file():
        if number != AS_BUILT:
            raise RunError(f"{tree} was not built in layout {number}; remove the campaign's builds folder and run it again")
        return
    way = _read_way(tree)
    kept = _kept(tree, way, number)
    if not kept.is_dir():
        raise RunError(f"{kept} is gone: remove the campaign's builds folder and run it again")
    active = tree.parent / "layouts" / "active"
    if active.is_file() and active.read_text() == str(number):
        return
    _mark(tree, None)
    if way.rebuilt:
        shutil.rmtree(tree, ignore_errors=True)
        shutil.copytree(kept, tree, symlinks=True)
    for position, output in enumerate(way.outputs if not way.rebuilt else ()):
        for place in output.places:
            aside = tree / f"{place}.layout"
            shutil.copy2(kept / str(position), aside)
            aside.replace(tree / place)
    _mark(tree, number)


def layout_notes(tree: Path) -> tuple[str, ...]:
    """Return what is to be known of a build's layouts: why whole builds are made, and where objects keep their order."""
    if not _way_file(tree).is_file():
        return ()
    way = _read_way(tree)
    why = (f"Every layout is a whole build: {way.rebuilt}.",) if way.rebuilt else ()
    return (*why, *way.notes)


def _way(tree: Path) -> _Way:
    """Return how layouts of a build are made. Found out once, on the build as it was made, which is then kept as layout 0."""
    if _way_file(tree).is_file():
        return _read_way(tree)
    links = read_links(_toolchain(tree))
    outputs, rebuilt = _find_outputs(tree, links)
    kept_orders = [
        f"{output.places[0]} keeps the order of its objects in every layout, and only padding varies "
        f"({links[output.link].order.replace(f'{tree}/', '')})."
        for output in outputs
        if links[output.link].order
    ]
    more = len(kept_orders) - _MOST_NOTES
    notes = (*kept_orders[:_MOST_NOTES], *([f"So do {more} other programs or libraries."] if more > 0 else []))
    way = _Way(outputs, rebuilt, notes)
    _keep(tree, way, AS_BUILT)
    _write_aside(_way_file(tree), json.dumps(asdict(way)))
    return way


def _rebuilt_from_now_on(tree: Path, way: _Way, error: RunError) -> _Way:
    """Have every layout be a whole build, as a link cannot be made again.

    Raises
    ------
    RunError
        Other layouts were linked already: the build has changed since then.
    """
    if any(path.name.isdigit() and int(path.name) != AS_BUILT for path in (tree.parent / "layouts").iterdir()):
        raise error
    # What was linked before one failed goes back.
    for position, output in enumerate(way.outputs):
        for place in output.places:
            shutil.copy2(_kept(tree, way, AS_BUILT) / str(position), tree / place)
    why = str(error).partition("\n")[0].replace(f"{tree}/", "")
    way = replace(way, rebuilt=why)
    _keep(tree, way, AS_BUILT)
    _write_aside(_way_file(tree), json.dumps(asdict(way)))
    return way


def _find_outputs(tree: Path, links: list[Link]) -> tuple[tuple[_Output, ...], str]:
    """Return what the links made and is still there, also under other names; or why linking again would not give what is there."""
    made = {link.output: number for number, link in enumerate(links)}
    by_digest = {link.digest: number for number, link in enumerate(links)}
    places: dict[int, list[str]] = {}
    for path in _files(tree):
        number = made.get(str(path))
        if number is None and not _is_linked(path):
            continue
        digest = file_digest(path)
        if number is None or links[number].digest != digest:
            number = by_digest.get(digest)
        if number is not None and is_check_folder(links[number].folder):
            continue  # CMake keeps the programs by which it got to know the compiler
        if number is None:
            return (), f"{path.relative_to(tree)} was changed after it was linked"
        places.setdefault(number, []).append(str(path.relative_to(tree)))
    if not places:
        return (), "no program that {cc} or {cxx} linked is there"
    outputs = (_Output(number, os.path.relpath(links[number].output, tree), tuple(places[number])) for number in sorted(places))
    return tuple(outputs), ""


def _files(tree: Path) -> Iterator[Path]:
    for folder, below, names in os.walk(tree):
        below.sort()
        for name in sorted(names):
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink():
                yield path


def _is_linked(path: Path) -> bool:
    """Tell whether a file is a program or library that a toolchain linked."""
    with path.open("rb") as file:
        head = file.read(18)
        if len(head) < 18 or not head.startswith(_ELF):
            return False
        kind = int.from_bytes(head[16:18], "big" if head[5] == 2 else "little")
        return kind in _LINKED_TYPES and _MARK in file.read()


def _link(tree: Path, way: _Way) -> None:
    """Make every link of a build again, in order: programs are linked against the libraries before them."""
    links = read_links(_toolchain(tree))
    for output in way.outputs:
        link = links[output.link]
        relink(_toolchain(tree), link)
        made = Path(link.output)
        if made.is_symlink() or not made.is_file():
            raise RunError(f"a link made no file {made}")
        for place in output.places:
            if tree / place != made:
                shutil.copy2(made, tree / place)
        if output.made not in output.places:
            made.unlink()


def _keep(tree: Path, way: _Way, number: int) -> None:
    """Keep what stands in a build's place; it appears whole or not at all."""
    kept = _kept(tree, way, number)
    aside = kept.with_name(f".{kept.name}")
    shutil.rmtree(aside, ignore_errors=True)
    if way.rebuilt:
        shutil.copytree(tree, aside, symlinks=True)
    else:
        aside.mkdir(parents=True)
        for position, output in enumerate(way.outputs):
            shutil.copy2(tree / output.places[0], aside / str(position))
    shutil.rmtree(kept, ignore_errors=True)
    aside.rename(kept)


def _mark(tree: Path, number: int | None) -> None:
    """Note which layout stands in a build's place; None while it is being changed."""
    file = tree.parent / "layouts" / "active"
    if number is None:
        file.unlink(missing_ok=True)
    else:
        _write_aside(file, str(number))


def _write_aside(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}")
    aside.write_text(text)
    aside.replace(path)


def _read_way(tree: Path) -> _Way:
    found = json.loads(_way_file(tree).read_text())
    outputs = (_Output(**{**output, "places": tuple(output["places"])}) for output in found["outputs"])
    return _Way(tuple(outputs), found["rebuilt"], tuple(found["notes"]))


def _kept(tree: Path, way: _Way, number: int) -> Path:
    return tree.parent / "layouts" / f"{number:03d}{'.tree' if way.rebuilt else ''}"


def _way_file(tree: Path) -> Path:
    return tree.parent / "layouts" / "way.json"


def _toolchain(tree: Path) -> Path:
    return tree.parent / "toolchain"
