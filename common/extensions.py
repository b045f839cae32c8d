"""Discovery of extensions: modules of a room (package) and entry points of other distributions, without a list.

A room is a package in which each module defines one record or one class of a kind. Another distribution extends a room
through an entry point in the room's group, for example in its pyproject.toml::

    [project.entry-points."unperturbed.log_formats"]
    mylog = "my_package.mylog:FORMAT"
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar, cast

from unperturbed.errors import HostError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

T = TypeVar("T")


def records_in(room: str, kind: type[T], *, group: str, inside: Sequence[str] = ()) -> dict[str, T]:
    """Return the records in a room (a package), by `name`: from its modules (but not `_…`), then from entry points.

    `inside`: Rooms inside this room whose modules hold records too; they come after the room's own.
    """
    rooms = (room, *(f"{room}.{name}" for name in inside))
    own = (
        value
        for place in rooms
        for module in _modules(place)
        for value in vars(module).values()
        if isinstance(value, kind)
    )
    return _by_name(room, (*own, *offered(group, kind)))


def classes_in(room: str, base: type[T], *, group: str) -> dict[str, type[T]]:
    """Return the subclasses of a class in a room (a package), by `name`: from its modules, then from its entry points.

    The base itself, classes that a module only imports, and modules with a name that starts with `_` are left out.
    """
    own = (
        value
        for module in _modules(room)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, base) and value.__module__ == module.__name__
    )
    others = (candidate for candidate in offered(group, type) if issubclass(candidate, base))
    return _by_name(
        room,
        (
            candidate
            for candidate in (*own, *others)
            if candidate is not base and not candidate.__name__.startswith("_")
        ),
    )


def offered(group: str, kind: type[T]) -> Iterator[T]:
    """Yield the object of each entry point in a group, in the order of the entry points' names."""
    for point in sorted(_entry_points(tuple(sys.path)).select(group=group), key=lambda point: point.name):
        yield load(point, kind)


def loaders(group: str, kind: type[T]) -> dict[str, Callable[[], T]]:
    """For each entry point in a group, by name, return a function that imports the entry point's object."""
    points = sorted(_entry_points(tuple(sys.path)).select(group=group), key=lambda point: point.name)
    return {point.name: partial(load, point, kind) for point in points}


@cache
def _entry_points(_path: tuple[str, ...]) -> EntryPoints:
    """Return the entry points of all distributions on the path; cached, because reading them takes 10 ms."""
    from importlib.metadata import entry_points  # noqa: PLC0415  not every command needs it

    return cast("EntryPoints", entry_points())  # before Python 3.12 a different type with the same `select`


def load(point: EntryPoint, kind: type[T]) -> T:
    """Return the object that an entry point names."""
    owner = point.dist.name if point.dist else "an unknown distribution"
    where = f"the extension {point.value} of {owner} (entry point {point.name} of {point.group})"
    try:
        loaded = point.load()
    except Exception as error:  # foreign code may raise any exception
        raise HostError(
            f"cannot load {where}: {type(error).__name__}: {error}; fix or uninstall the extension"
        ) from error
    if not isinstance(loaded, kind):
        raise HostError(
            f"{where} has type {type(loaded).__name__}, not {kind.__name__}; fix or uninstall the extension"
        )
    return loaded


def _modules(room: str) -> Iterator[ModuleType]:
    package = sys.modules.get(room) or importlib.import_module(room)
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
        if not module.name.startswith("_"):
            yield importlib.import_module(f"{room}.{module.name}")


def _by_name(room: str, values: Iterable[T]) -> dict[str, T]:
    by_name: dict[str, T] = {}
    for value in values:
        name: str = value.name  # type: ignore[attr-defined]  # every kind has a `name`
        if by_name.setdefault(name, value) is not value:
            raise HostError(f"two extensions of {room} are named {name}; rename one of them, or uninstall its package")
    return by_name
