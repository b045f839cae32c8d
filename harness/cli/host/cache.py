"""Show or clear the user's cache, or compile the loops of the analyses in advance."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from unperturbed.common.wording import did_you_mean
from unperturbed.errors import SpecError
from unperturbed.harness.cli.streams import print_json
from unperturbed.harness.cli.warming import remember_warmed, warmers

_PARTS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "kernels": (("kernels/*",), "compiled loops of the analyses; `cache warm` compiles them"),
    "sources": (("sources/*", "apt"), "Debian source packages of `debian:` in specs; downloaded again when needed"),
    "runtime": (
        ("*",),
        "samplers, observers, compiler launchers, object files for programs; compiled again when needed",
    ),
}
"""Parts of the cache: patterns of their files, and a description. A file belongs to the first part that it matches."""


class Command:
    """`unperturbed cache info|clear|warm`."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the actions and their arguments."""
        todo = parser.add_subparsers(dest="action", required=True, metavar="info|clear|warm")
        info = todo.add_parser("info", help="show the content and size of the cache")
        info.add_argument("--json", action="store_true", help="print the result as JSON")
        clear = todo.add_parser("clear", help="clear the cache (do not use this while a campaign is running)")
        clear.add_argument(
            "parts", nargs="*", metavar="PART", help=f"parts to clear: {', '.join(_PARTS)} (default: all)"
        )
        warm = todo.add_parser("warm", help="compile the loops of the analyses now instead of at their first use")
        warm.add_argument(
            "parts", nargs="*", metavar="PART", help=f"parts to compile: {', '.join(warmers())} (default: all)"
        )

    def run(self, arguments: argparse.Namespace) -> int:
        """Execute the chosen action; return 0."""
        from unperturbed.common.user_cache import user_cache

        folder = user_cache()
        if arguments.action == "warm":
            _warm(arguments.parts)
        elif arguments.action == "clear":
            _clear(folder, arguments.parts)
        else:
            _info(folder, as_json=arguments.json)
        return 0


def _require_known(parts: list[str], known: Mapping[str, object]) -> None:
    for part in parts:
        if part not in known:
            there = f"use {', '.join(known)}"
            raise SpecError(f"unknown part {part!r}; {did_you_mean(part, known) or there}")


def _entries(folder: Path) -> Mapping[str, list[Path]]:
    """Return each part's files and whole folders."""
    taken: set[Path] = set()
    entries = {}
    for part, (patterns, _) in _PARTS.items():
        chosen = [path for pattern in patterns for path in sorted(folder.glob(pattern)) if path not in taken]
        entries[part] = [path for path in chosen if path.name not in ("kernels", "sources")]
        taken.update(chosen)
    return entries


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir() and not path.is_symlink():
        yield from (file for file in path.rglob("*") if file.is_file() and not file.is_symlink())
    elif path.is_file():
        yield path


def _info(folder: Path, *, as_json: bool) -> None:
    sizes = {
        part: (len(paths), sum(file.stat().st_size for path in paths for file in _files(path)))
        for part, paths in _entries(folder).items()
    }
    if as_json:
        parts = {part: {"entries": entries, "bytes": size} for part, (entries, size) in sizes.items()}
        print_json({"folder": str(folder), "parts": parts})
        return
    print(folder)
    for part, (entries, size) in sizes.items():
        print(f"  {part:8} {entries:5} entries {size / 1e6:9.1f} MB   {_PARTS[part][1]}")


def _clear(folder: Path, parts: list[str]) -> None:
    _require_known(parts, _PARTS)
    freed = 0
    for part, paths in _entries(folder).items():
        for path in paths if part in parts or not parts else ():
            freed += sum(file.stat().st_size for file in _files(path))
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    print(f"{freed / 1e6:.1f} MB freed in {folder}")


def _warm(parts: list[str]) -> None:
    known = warmers()
    _require_known(parts, known)
    for name, compile_kernels in known.items():
        if not parts or name in parts:
            print(f"{name} …", file=sys.stderr)
            began = time.monotonic()
            compile_kernels()
            remember_warmed(name)
            print(f"{name}: ready after {time.monotonic() - began:.1f} s")
