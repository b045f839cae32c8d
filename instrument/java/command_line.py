"""Parser for the command line of `java`: its options, the main class, and where classes are searched."""

from __future__ import annotations

import shlex
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_CLASS_PATH = ("-cp", "-classpath", "--class-path")
_MODULE_PATH = ("-p", "--module-path", "--upgrade-module-path", "--patch-module")
_WITH_VALUE = (
    *_CLASS_PATH,
    *_MODULE_PATH,
    *("--add-modules", "--add-exports", "--add-opens", "--add-reads", "--limit-modules", "--source", "-d"),
    *("--describe-module", "--enable-native-access"),
)
"""Options of `java` whose value may be the next word."""


@dataclass(frozen=True)
class JavaCommand:
    """What a command line of `java` starts."""

    kind: str  # `class`, `jar`, `module`, `source` (a .java file) or `nothing`
    value: str  # Class, path or module; '' for nothing
    class_path: tuple[str, ...]  # Folders and archives, as written
    disables: str  # Option that forbids what counting needs; '' if there is none


def read_java_command(words: Sequence[str], folder: Path, class_path: str | None) -> JavaCommand:
    """Parse the words behind `java`.

    `class_path`: The environment's CLASSPATH.
    """
    paths, modules, kind, value, disables = class_path, [], "nothing", "", ""
    rest = list(_expanded(words, folder))
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            kind, value = ("source" if word.endswith(".java") else "class"), word
            break
        name, has_value, given = word.partition("=") if word.startswith("--") else (word, "", "")
        if word in ("-jar", "-m", "--module") or name == "--module":
            kind, value = ("jar" if word == "-jar" else "module"), given or (rest.pop(0) if rest else "")
            break
        if name in _WITH_VALUE and not has_value:
            given = rest.pop(0) if rest else ""
        if name in _CLASS_PATH:
            paths = given
        elif name in _MODULE_PATH:
            modules.append(given.partition("=")[2] or given)
        elif word == "-XX:+DisableAttachMechanism":
            continue
        elif word.startswith("-Xshare:dump") or word in ("-version", "--version", "-h", "--help"):
            disables = word
    own = [value] if kind == "jar" else [] if kind == "module" else (paths or ".").split(":")
    return JavaCommand(kind, value, tuple(filter(None, [*own, *":".join(modules).split(":")])), disables)


def _expanded(words: Sequence[str], folder: Path) -> Iterator[str]:
    """Replace `@file` by the words in the file, as `java` does."""
    for word in words:
        if word.startswith("@") and not word.startswith("@@") and (folder / word[1:]).is_file():
            yield from shlex.split((folder / word[1:]).read_text(errors="replace"), comments=True)
        else:
            yield word


def classes_on(paths: Sequence[str], folder: Path) -> Iterator[tuple[Path, str, Path | None]]:
    """Yield archive or folder, class name with dots, and the class's own file (None in an archive)."""
    seen: set[Path] = set()
    waiting = [folder / path for path in paths]
    while waiting:
        place = waiting.pop(0)
        if place.name == "*":
            waiting[:0] = sorted(place.parent.glob("*.jar"))
        elif place in seen:
            continue
        elif place.is_dir():
            jars = sorted(place.glob("*.jar"))
            waiting += [jar for jar in jars if str(place) not in map(str, seen)]
            for file in sorted(place.rglob("*.class")):
                yield place, ".".join(file.relative_to(place).with_suffix("").parts), file
        elif place.is_file():
            names, further = _archived(place)
            waiting += further
            yield from ((place, name, None) for name in names)
        seen.add(place)


def _archived(place: Path) -> tuple[list[str], list[Path]]:
    """Return the names of the classes in an archive, and the archives that its manifest names."""
    try:
        with zipfile.ZipFile(place) as archive:
            names = [
                name for name in archive.namelist() if name.endswith(".class") and not name.startswith("META-INF/")
            ]
            manifest = archive.read("META-INF/MANIFEST.MF") if "META-INF/MANIFEST.MF" in archive.namelist() else b""
    except (OSError, zipfile.BadZipFile):
        return [], []
    lines = manifest.decode(errors="replace").replace("\r\n", "\n").replace("\n ", "").split("\n")
    further = next((line.partition(":")[2].split() for line in lines if line.startswith("Class-Path:")), [])
    return [name.removesuffix(".class").replace("/", ".") for name in names], [place.parent / name for name in further]
