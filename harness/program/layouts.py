"""Other links of a build, in other layouts or with the sampler: made once, stored beside it, put in place for a run.

The program is always at the same path, so only the layout differs between two runs. If possible, a layout is made by
repeating only the links that the toolchain recorded. The whole build is repeated if a linked file was changed
afterwards (for example stripped), or if the inputs of a link are gone.

    src/             the build, in the active layout
    layouts/NNN/     the linked files of layout NNN, or in NNN.tree/ the whole build; 000 is the original build
    layouts/plain/   the linked files without the sampler: the untouched program, if 000 was linked from its build
    layouts/active   the number of the layout in src/
    layouts/way.json how layouts of this build are made
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from unperturbed.common.scratch import write_whole
from unperturbed.errors import RunError
from unperturbed.harness.program.build import compile_tree
from unperturbed.harness.program.sources import copy_source
from unperturbed.harness.spec.sections.program import Program
from unperturbed.instrument.compiler.toolchain import in_layout, relink
from unperturbed.instrument.finding.site_log import is_check_folder
from unperturbed.instrument.layout import Link, file_digest, read_links

AS_BUILT = 0
_PLAIN = -1
"""Number of the links without the sampler."""

_PLAIN_NAME = "plain"

PATCHED = "patched"
"""File beside the build: which metrics its files count now; see `patching`."""

_ELF = b"\x7fELF"
_LINKED_TYPES = (2, 3)
_MARK = b"unperturbed_sites"
"""Name of a section in every program and library that the toolchain linked; stripping keeps this section."""

_MOST_NOTES = 3


@dataclass(frozen=True)
class _Output:
    """The output of one link."""

    link: int  # Number of the link
    made: str  # Path of the link's output, relative to the build
    places: tuple[str, ...]  # Paths of its copies


@dataclass(frozen=True)
class _Recipe:
    """Method of making layouts of a build."""

    outputs: tuple[_Output, ...]  # The files to link again
    rebuilt: str  # Why the whole build is repeated instead; empty otherwise
    notes: tuple[str, ...]  # Notes for the user, one sentence each


def make_layout(program: Program, source: Path, tree: Path, number: int, layout: str, *, spec_folder: Path) -> None:
    """Make a layout (numbered from 1) unless it exists; afterwards, the build's folder may contain any layout."""
    recipe = _recipe(tree)
    if _kept(tree, recipe, number).is_dir():
        return
    _mark(tree, None)
    with in_layout(_toolchain(tree), layout):
        if not recipe.rebuilt:
            try:
                _link_patiently(tree, recipe)
            except RunError as error:
                recipe = _rebuilt_from_now_on(tree, recipe, error)
        if recipe.rebuilt:
            shutil.rmtree(tree)
            copy_source(source, tree)
            compile_tree(program, tree, tree.parent / "layouts" / f"{number:03d}.log", spec_folder=spec_folder)
    _keep(tree, recipe, number)


def put_in_place(tree: Path, number: int) -> None:
    """Put one of a build's layouts into the build's folder."""
    if not _recipe_file(tree).is_file():
        if number != AS_BUILT:
            raise RunError(
                f"{tree} has no layout {number}: remove the campaign's folder `builds`, and run the campaign again"
            )
        return
    recipe = _read_recipe(tree)
    kept = _kept(tree, recipe, number)
    if not kept.is_dir():
        raise RunError(f"{kept} is missing: remove the campaign's folder `builds`, and run the campaign again")
    active = tree.parent / "layouts" / "active"
    if active.is_file() and active.read_text() == str(number):
        return
    _mark(tree, None)
    if recipe.rebuilt:
        shutil.rmtree(tree, ignore_errors=True)
        shutil.copytree(kept if number != _PLAIN else _kept(tree, recipe, AS_BUILT), tree, symlinks=True)
    for position, output in enumerate(recipe.outputs if not recipe.rebuilt or number == _PLAIN else ()):
        for place in output.places:
            aside = tree / f"{place}.layout"
            shutil.copy2(kept / str(position), aside)
            aside.replace(tree / place)
    _mark(tree, number)


def link_sampler(tree: Path, source: Path, announce: Callable[[], None] = lambda: None) -> str:
    """Repeat the links of the untouched program's build with the sampler, unless done; return why that is impossible.

    Afterwards the build is the baseline, and within `without_sampler` it is the untouched program.
    """
    if _recipe_file(tree).is_file() and _kept(tree, _read_recipe(tree), AS_BUILT).is_dir():
        return ""
    announce()
    if not _recipe_file(tree).is_file():
        links = read_links(_toolchain(tree))
        outputs, why = _find_outputs(tree, links, plain=source)
        if why:
            return why
        recipe = _Recipe(outputs, "", _order_notes(tree, links, outputs))
        _keep(tree, recipe, _PLAIN)
        _write(_recipe_file(tree), json.dumps(asdict(recipe)))
    recipe = _read_recipe(tree)
    put_in_place(tree, _PLAIN)  # a killed session left some files linked again
    _mark(tree, None)
    try:
        _link_patiently(tree, recipe)
    except RunError as error:
        drop_sampler(tree)
        return str(error).partition("\n")[0].replace(f"{tree}/", "")
    _keep(tree, recipe, AS_BUILT)
    _mark(tree, AS_BUILT)
    return ""


def drop_sampler(tree: Path) -> None:
    """Make a build the untouched program again, if `link_sampler` has made it the baseline."""
    if (tree.parent / "layouts" / _PLAIN_NAME).is_dir():
        put_in_place(tree, _PLAIN)
        shutil.rmtree(tree.parent / "layouts")


@contextmanager
def without_sampler(tree: Path | None) -> Iterator[None]:
    """Within this context, a build is the untouched program, even if it is the baseline's build, too."""
    if tree is None or not (tree.parent / "layouts" / _PLAIN_NAME).is_dir():
        yield
        return
    put_in_place(tree, _PLAIN)
    try:
        yield
    finally:
        put_in_place(tree, AS_BUILT)


def layout_notes(tree: Path) -> tuple[str, ...]:
    """Return notes on a build's layouts: why builds are repeated, and which files keep the order of objects."""
    if not _recipe_file(tree).is_file():
        return ()
    recipe = _read_recipe(tree)
    why = (f"Every layout needs a complete build: {recipe.rebuilt}.",) if recipe.rebuilt else ()
    return (*why, *recipe.notes)


def _recipe(tree: Path) -> _Recipe:
    """Return how layouts of a build are made; decide this once, on the original build, which becomes layout 0."""
    if _recipe_file(tree).is_file():
        return _read_recipe(tree)
    links = read_links(_toolchain(tree))
    outputs, rebuilt = _find_outputs(tree, links)
    recipe = _Recipe(outputs, rebuilt, _order_notes(tree, links, outputs))
    _keep(tree, recipe, AS_BUILT)
    _write(_recipe_file(tree), json.dumps(asdict(recipe)))
    return recipe


def _order_notes(tree: Path, links: list[Link], outputs: tuple[_Output, ...]) -> tuple[str, ...]:
    """Return notes on linked files that keep the order of their objects in every layout."""
    kept_orders = [
        f"{output.places[0]} keeps the order of its objects in every layout; only padding varies "
        f"({links[output.link].order.replace(f'{tree}/', '')})."
        for output in outputs
        if links[output.link].order
    ]
    more = len(kept_orders) - _MOST_NOTES
    return (
        *kept_orders[:_MOST_NOTES],
        *([f"{more} more programs or libraries keep the order of their objects."] if more > 0 else []),
    )


def _rebuilt_from_now_on(tree: Path, recipe: _Recipe, error: RunError) -> _Recipe:
    """Switch to a complete build for every layout, because a link cannot be repeated."""
    if any(path.name.isdigit() and int(path.name) != AS_BUILT for path in (tree.parent / "layouts").iterdir()):
        raise error
    # Restore the files that were linked before a link failed.
    for position, output in enumerate(recipe.outputs):
        for place in output.places:
            shutil.copy2(_kept(tree, recipe, AS_BUILT) / str(position), tree / place)
    why = str(error).partition("\n")[0].replace(f"{tree}/", "")
    recipe = replace(recipe, rebuilt=why)
    _keep(tree, recipe, AS_BUILT)
    _write(_recipe_file(tree), json.dumps(asdict(recipe)))
    return recipe


def _find_outputs(tree: Path, links: list[Link], *, plain: Path | None = None) -> tuple[tuple[_Output, ...], str]:
    """Return the links' outputs that still exist, or the reason why linking again would not reproduce them.

    `plain`: The source folder of a build without the sampler, whose mark no file has.
    """
    made = {link.output: number for number, link in enumerate(links)}
    by_digest = {link.digest: number for number, link in enumerate(links)}
    places: dict[int, list[str]] = {}
    for path in _files(tree):
        number = made.get(str(path))
        if number is None and not (_is_linked(path) if plain is None else _is_new_program(path, plain, tree)):
            continue
        digest = file_digest(path)
        if number is None or links[number].digest != digest:
            number = by_digest.get(digest)
        if number is not None and is_check_folder(links[number].folder):
            continue  # CMake keeps the programs from its compiler checks
        if number is None:
            other = "" if plain is None else ", or not linked by {cc} or {cxx}"
            return (), f"{path.relative_to(tree)} was changed after it was linked{other}"
        places.setdefault(number, []).append(str(path.relative_to(tree)))
    if not places:
        return (), "no program was linked with {cc} or {cxx}"
    outputs = (
        _Output(number, os.path.relpath(links[number].output, tree), tuple(places[number])) for number in sorted(places)
    )
    return tuple(outputs), ""


def _files(tree: Path) -> Iterator[Path]:
    for folder, below, names in os.walk(tree):
        below.sort()
        for name in sorted(names):
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink():
                yield path


def linked_files(tree: Path) -> list[Path]:
    """Return the programs and libraries in a build that the toolchain linked."""
    return [path for path in _files(tree) if _is_linked(path)]


def _is_linked(path: Path) -> bool:
    """Return whether a file is a program or library that the toolchain linked with the sampler."""
    return _is_program(path) and _MARK in path.read_bytes()


def _is_new_program(path: Path, source: Path, tree: Path) -> bool:
    """Return whether a file is a program or library that the source does not have."""
    if not _is_program(path):
        return False
    original = source / path.relative_to(tree)
    return not original.is_file() or original.stat().st_mtime_ns != path.stat().st_mtime_ns


def _is_program(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(18)
    if len(head) < 18 or not head.startswith(_ELF):
        return False
    return int.from_bytes(head[16:18], "big" if head[5] == 2 else "little") in _LINKED_TYPES


def _link_patiently(tree: Path, recipe: _Recipe) -> None:
    """Repeat every link of a build, and retry once, because a killed linker is not a fault of the build."""
    try:
        _link(tree, recipe)
    except RunError:
        _link(tree, recipe)


def _link(tree: Path, recipe: _Recipe) -> None:
    """Repeat every link of a build, in order, because programs are linked against libraries that earlier links made."""
    links = read_links(_toolchain(tree))
    for output in recipe.outputs:
        link = links[output.link]
        relink(_toolchain(tree), link)
        made = Path(link.output)
        if made.is_symlink() or not made.is_file():
            raise RunError(f"the linker did not write {made}")
        for place in output.places:
            if tree / place != made:
                shutil.copy2(made, tree / place)
        if output.made not in output.places:
            made.unlink()


def _keep(tree: Path, recipe: _Recipe, number: int) -> None:
    """Store a copy of the build's current layout, atomically."""
    kept = _kept(tree, recipe, number)
    aside = kept.with_name(f".{kept.name}")
    shutil.rmtree(aside, ignore_errors=True)
    if recipe.rebuilt:
        shutil.copytree(tree, aside, symlinks=True)
    else:
        aside.mkdir(parents=True)
        for position, output in enumerate(recipe.outputs):
            shutil.copy2(tree / output.places[0], aside / str(position))
    shutil.rmtree(kept, ignore_errors=True)
    aside.rename(kept)


def _mark(tree: Path, number: int | None) -> None:
    """Record which layout is in the build's folder; None while it is being changed."""
    file = tree.parent / "layouts" / "active"
    if number is None:
        file.unlink(missing_ok=True)
        (tree.parent / PATCHED).unlink(missing_ok=True)
    else:
        _write(file, str(number))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text)


def _read_recipe(tree: Path) -> _Recipe:
    file = _recipe_file(tree)
    try:
        recipe = json.loads(file.read_text())
        outputs = tuple(_Output(**{**output, "places": tuple(output["places"])}) for output in recipe["outputs"])
        return _Recipe(outputs, recipe["rebuilt"], tuple(recipe["notes"]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RunError(
            f"{file} is damaged ({error}): remove the campaign's folder `builds`, and run the campaign again"
        ) from None


def _kept(tree: Path, recipe: _Recipe, number: int) -> Path:
    if number == _PLAIN:
        return tree.parent / "layouts" / _PLAIN_NAME
    return tree.parent / "layouts" / f"{number:03d}{'.tree' if recipe.rebuilt else ''}"


def _recipe_file(tree: Path) -> Path:
    return tree.parent / "layouts" / "way.json"


def _toolchain(tree: Path) -> Path:
    return tree.parent / "toolchain"
