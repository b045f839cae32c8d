"""The rooms of the house, which may use which, and the picture of it in ARCHITECTURE.md.

python tests/rooms.py        writes the picture again
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
PARTS = ("errors", "common", "collectors", "instrument", "analysis", "harness")

ORDER: Mapping[str, tuple[str, ...]] = {
    "": PARTS,
    "collectors": (
        "data",
        "sources",
        "imports",
        "runtime",
        "records",
        "self_counting",
    ),
    "collectors/sources": ("perf", "papi"),
    "collectors/imports": ("perf", "totals"),
    "instrument": ("events", "finding", "missing", "compiler", "binaries", "python", "java"),
    "analysis": (
        "alignment",
        "perturbation",
        "totals",
        "doses",
        "floor",
        "pages",
        "choice",
        "nodes",
        "partition",
        "diagnosis",
        "structure",
        "causal",
        "report",
    ),
    "analysis/alignment": ("dtw",),
    "analysis/diagnosis": ("reading", "distances", "kinds"),
    "analysis/structure": ("classes", "dictionary"),
    "analysis/causal": ("table", "independence", "regression", "derived_tables", "discovery", "model", "html"),
    "analysis/report": ("campaign",),
    "harness/exports": ("content",),
    "harness": (
        "spec",
        "host",
        "program",
        "campaign",
        "nodes",
        "results",
        "studies",
        "drafts",
        "library",
        "exports",
        "cli",
        "methods",
    ),
    "harness/methods": ("causal", "diagnosis", "structure"),
}
"""Rooms of each folder, from the ground up: a room may use those before it, and none behind it."""

BESIDE: Mapping[str, tuple[str, ...]] = {
    "collectors": ("errors", "common"),
    "instrument": ("errors", "common"),
    "analysis": ("errors", "common", "collectors/data"),
    "harness": ("errors", "common", "collectors", "instrument", "analysis"),
    "common": ("errors",),
    "errors": (),
}
"""What a part may use of other parts."""


MOST: Mapping[str, int] = {"instrument/events/kinds": 16}  # an extension each: twelve, and room for those to come
"""Folders that may have more than twelve modules beside each other, at most twenty, each with its reason."""


@cache
def modules() -> Mapping[str, Path]:
    """Return every product module by its dotted name below `unperturbed`.

    A folder without `__init__.py` holds no modules: programs of the examples, for instance.
    """
    found = {}
    for part in PARTS:
        for path in sorted((ROOT / part).rglob("*.py")):
            if not (path.parent / "__init__.py").exists():
                continue
            words = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(words[:-1] if words[-1] == "__init__" else words)] = path
    return found


@cache
def imports() -> Mapping[str, frozenset[str]]:
    """Return which product modules each product module imports, anywhere in it."""
    known, found = modules(), {}
    for name, path in known.items():
        used: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                used |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                public = _public_names(node.module.removeprefix("unperturbed."))
                used |= {node.module if alias.name in public else f"{node.module}.{alias.name}" for alias in node.names}
        short = {one.removeprefix("unperturbed.") for one in used if one.startswith("unperturbed.")}
        found[name] = frozenset(filter(None, (_module(one) for one in short))) - {name}
    return found


@cache
def _public_names(name: str) -> frozenset[str]:
    """Return what a package's face exports; a function there may have the name of its module."""
    path = modules().get(name)
    if path is None or path.name != "__init__.py":
        return frozenset()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return frozenset(ast.literal_eval(node.value))
    return frozenset()


def _module(name: str) -> str | None:
    """Return the module that a dotted name is, or is a part of."""
    known = modules()
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name or None


def unordered() -> list[str]:
    """Return each room that has no place in the order of its folder, and each place without a room."""
    found = []
    for folder, rooms in ORDER.items():
        there = {path.parent.name for path in (ROOT / folder).glob("*/__init__.py")} if folder else set(PARTS)
        found += [f"{folder}/{room} has no place in tests/rooms.py" for room in sorted(there - set(rooms))]
        found += [f"{folder}/{room} is in tests/rooms.py and not there" for room in sorted(set(rooms) - there)]
    return found


def faults_of_order() -> list[str]:
    """Return each import that goes up, or to a part that may not be used."""
    return sorted(
        f"{modules()[name].relative_to(ROOT)} imports unperturbed.{other}"
        for name, used in imports().items()
        for other in used
        if not _may_use(name.split("."), other.split("."))
    )


def faults_of_size() -> list[str]:
    """Return each folder with too many modules, and each file name that repeats its folder's or shares a prefix."""
    found = []
    for folder in sorted({path.parent for path in modules().values()}):
        stems = sorted(path.stem for path in folder.glob("*.py") if path.stem not in ("__init__", "__main__"))
        room = str(folder.relative_to(ROOT))
        if len(stems) > MOST.get(room, 12):
            found.append(f"{room} has {len(stems)} modules beside each other")
        found += [f"{room}/{stem}.py repeats its folder's name" for stem in stems if stem.startswith(folder.name)]
        prefixes = Counter(stem.partition("_")[0] for stem in stems if "_" in stem.strip("_"))
        found += [f"{room} has {count} files {prefix}_*" for prefix, count in prefixes.items() if count > 2]
    return found


def _may_use(user: list[str], used: list[str]) -> bool:
    if user[0] != used[0]:
        place = "/".join(used)
        return any(place == one or place.startswith(f"{one}/") for one in BESIDE[user[0]])
    depth = 0
    while depth < min(len(user), len(used)) and user[depth] == used[depth]:
        depth += 1
    rooms = ORDER.get("/".join(user[:depth]), ())
    mine, other = (words[depth] if len(words) > depth else "" for words in (user, used))
    if mine in rooms and other in rooms:
        return rooms.index(other) < rooms.index(mine)
    return True  # modules that stand beside rooms join them; a room's own modules are its own affair


def picture() -> str:
    """Return the rooms and their arrows as Mermaid draws them, without arrows that others imply."""
    used: dict[str, set[str]] = defaultdict(set)
    for name, others in imports().items():
        for other in others:
            first, second = _room(name), _room(other)
            if first != second and "" not in (first, second):
                used[first].add(second)
    lines = ["```mermaid", "flowchart TB"]
    for part in reversed(PARTS):
        rooms = [room for room in reversed(ORDER.get(part, ())) if (ROOT / part / room).is_dir()]
        if rooms:
            nodes = "; ".join(f"{part}_{room}[{room}]" for room in rooms)
            lines += [f"    subgraph {part}", *_wrapped(f"        {nodes}"), "    end"]
        else:
            lines.append(f"    {part}")
    implied = _implied(used)
    arrows: dict[str, list[str]] = defaultdict(list)
    for first in sorted(used):
        for second in sorted(used[first] - implied[first] - {"errors", "common"}):
            arrows[second].append(first)
    for second, users in arrows.items():
        lines.append(f"    {' & '.join(users)} --> {second}".replace("/", "_"))
    return "\n".join([*lines, "```"])


def _room(name: str) -> str:
    part, *rest = name.split(".")
    if part not in ORDER:
        return part
    return f"{part}/{rest[0]}" if rest and rest[0] in ORDER[part] else ""


def _implied(used: Mapping[str, set[str]]) -> Mapping[str, set[str]]:
    """Return, for each room, the rooms that it reaches through others."""

    def reached(rooms: Iterable[str], seen: set[str]) -> set[str]:
        for room in rooms:
            if room not in seen:
                seen.add(room)
                reached(used.get(room, ()), seen)
        return seen

    return {room: reached((two for one in used[room] for two in used.get(one, ())), set()) for room in list(used)}


def listed() -> str:
    """Return every part and its rooms with the first sentence of their `__init__.py`, cut at its colon where long."""
    lines = []
    for part in reversed(PARTS):
        for path in sorted((ROOT / part).glob("__init__.py")) + sorted((ROOT / part).glob("*/__init__.py")):
            room = path.parent.relative_to(ROOT)
            indent = "  " * (len(room.parts) - 1)
            sentence = " ".join((ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n\n")[0].split())
            line = f"{indent}- **{room.name}/** {sentence}"
            short = line.partition(": ")[0].removesuffix(".")
            lines += _wrapped(f"{short}." if len(line) > 120 else line, f"{indent}  ")
    return "\n".join(lines)


def _wrapped(line: str, indent: str = "        ") -> list[str]:
    return textwrap.wrap(line, 120, subsequent_indent=indent, break_on_hyphens=False)


def renewed(text: str) -> str:
    """Return ARCHITECTURE.md's text with today's list and picture."""
    for name, content in (("rooms", listed()), ("picture", picture())):
        block = re.compile(rf"(<!-- {name}: made by tests/rooms.py -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        text, count = block.subn(lambda found, new=content: f"{found[1]}\n{new}\n\n{found[2]}", text)
        assert count == 1, f"ARCHITECTURE.md has no place for {name}"
    return text


if __name__ == "__main__":
    ARCHITECTURE.write_text(renewed(ARCHITECTURE.read_text()))
