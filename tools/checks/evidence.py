"""Check that every figure of the documentation can be made again, and that no two pages give different figures.

    python tools/checks/evidence.py

- Each page of docs/evidence with figures, and each of its sections that a command of its own writes, has the line of
  `experiments.common.provenance.made_by`: a command whose script exists and is named in the Makefile (`make validate`,
  `make bench`), a commit of this history, date, version, host.
- Where a paragraph of another page links to an evidence page, each of its figures is found there; so are those of a
  table or list below such a paragraph. Where the link names a section (`page.md#section`), they are found in it: on a
  long page almost any figure stands somewhere.

Prints `file:line: what`, and exits with 1 where there is any.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from markdown.extensions.toc import slugify, unique
from prose import blank_code, paragraphs, report, table_rows, user_pages

EVIDENCE = Path("docs/evidence")
WITHOUT_FIGURES = ("processor.md",)  # it lists what `make validate-processor` records

MADE = re.compile(
    r"Made by `python (?P<command>[^`]+)`(?: and the commands below)? at commit (?P<commit>[0-9a-f]{7,40}) on "
    r"\d{4}-\d\d-\d\d with version \d[\w.]* on \w"
)
"""The line that a page has, as `experiments.common.provenance.made_by` writes it from unchanged code."""

_SECTION = re.compile(r"^<!-- (\w+) -->$", re.MULTILINE)
_NUMBER = re.compile(r"(?<![\w.])[-−+±]?(?:\d[\d,]*\d|\d)(?:\.\d+)?(?!\w)|(?<![\w.])\.\d+")
_UNITS = {"%": 0.01, "million": 1e6}
_UNIT = re.compile(rf"\s*({'|'.join(_UNITS)})")
_ITEM = re.compile(r"[-*+] |\d+\. ")
_LINK = re.compile(r"\]\(([^)#\s]+\.md)(?:#([^)\s]*))?\)")
_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*$")


def main() -> int:
    """Print every fault; return the exit code."""
    pages = [page for page in sorted(EVIDENCE.glob("*.md")) if page.name not in WITHOUT_FIGURES]
    faults = [(page, fault) for page in pages for fault in unmade(page.read_text(encoding="utf-8"))]
    faults += [(page, fault) for page in user_pages() for fault in parted(page)]
    return report((f"{page}:{line}: {what}" for page, (line, what) in faults), "evidence")


def unmade(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and fault of each part with a table of figures that does not say how it was made."""
    starts = [match.start() for match in _SECTION.finditer(text)] or [0]
    for begin, end in zip(starts, [*starts[1:], len(text)], strict=True):
        part, line = text[begin:end], text.count("\n", 0, begin) + 1
        if not re.search(r"^\|.*\d.*\|$", part, re.MULTILINE):
            continue
        made = MADE.search(" ".join(part.split()))
        if not made:
            yield line, "no line “Made by `python …` at commit … on … with version … on …” (provenance.made_by)"
            continue
        line += part[: part.index("Made by `")].count("\n")
        yield from ((line, what) for what in _faults_of(made["command"], made["commit"]))


def _faults_of(command: str, commit: str) -> Iterator[str]:
    words = command.split()
    script = words[1].replace(".", "/") + ".py" if words[0] == "-m" else words[0]
    module = script.removesuffix(".py").replace("/", ".")
    package = module.rpartition(".")[0]  # `-m tests.attacks` runs its modules
    named = rf"{re.escape(script)}|(?:-m |: |, )(?:{re.escape(module)}|{re.escape(package)})(?![\w.])"
    if not Path(script).exists():
        yield f"there is no {script}, which the command names"
    elif not re.search(named, Path("Makefile").read_text(encoding="utf-8")):
        yield f"no goal of the Makefile makes it: {script}"
    if whole_history() and not is_ancestor(commit):
        yield f"commit {commit} is not in this history"


def parted(page: Path) -> Iterator[tuple[int, str]]:
    """Yield line and fault of each figure that the evidence linked beside it, a page or its section, does not have."""
    text = page.read_text(encoding="utf-8")
    lines, lead = text.split("\n"), []
    headings = [(line, "#") for line, content in enumerate(blank_code(text).split("\n"), 1) if _HEADING.match(content)]
    for line, paragraph in sorted((*paragraphs(text), *table_rows(text), *headings)):
        links = _LINK.findall(paragraph)
        if paragraph.startswith("|") or _ITEM.match(lines[line - 1]):
            links = links or lead
        else:
            lead = links
        linked = [((page.parent / name).resolve(), anchor) for name, anchor in links]
        sources = [(file, anchor) for file, anchor in linked if file.parent == EVIDENCE.resolve() and file.exists()]
        found = [section(file.read_text(encoding="utf-8"), anchor) for file, anchor in sources]
        for (file, anchor), part in zip(sources, found, strict=True):
            if part is None:
                yield line, f"{file.name} has no section {anchor}"
        if sources and None not in found:
            known = [float(figure) for part in found if part for figure, _ in figures(part)]
            places = " or ".join(sorted({f"{file.name}#{anchor}".rstrip("#") for file, anchor in sources}))
            for figure, unit in figures(paragraph):
                if not _is_among(figure, [*known, *(round(value / unit, 9) for value in known)]):
                    yield line, f"{figure} is not on {places}"


def section(text: str, anchor: str) -> str | None:
    """Return a page's part from the heading of that anchor to the next one of its level or above; all for no anchor."""
    if not anchor:
        return text
    lines, begin, depth = text.split("\n"), None, 0
    taken: set[str] = set()
    for number, line in enumerate(blank_code(text).split("\n")):
        heading = _HEADING.match(line)
        if not heading:
            continue
        if begin is not None and len(heading[1]) <= depth:
            return "\n".join(lines[begin:number])
        if unique(slugify(re.sub(r"[`*]|\]\([^)]*\)", "", heading[2]), "-"), taken) == anchor:
            begin, depth = number, len(heading[1])
    return None if begin is None else "\n".join(lines[begin:])


def figures(text: str) -> Iterable[tuple[str, float]]:
    """Yield each number of a text, unsigned, with the unit behind it (% is 0.01); code, names and links have none."""
    plain = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "`", text))
    plain = re.sub(r"\b[A-Za-z]\w*-\d+\b", "", plain)  # x86-64, Cortex-A57
    for match in _NUMBER.finditer(plain):
        unit = _UNIT.match(plain, match.end())
        yield match[0].lstrip("-−+±").replace(",", ""), _UNITS[unit[1]] if unit else 1.0


def _is_among(figure: str, known: list[float]) -> bool:
    """Tell whether a figure is among the known ones, as it is or, unless it is a single digit, rounded."""
    half = 0.5 * 10.0 ** -len(figure.partition(".")[2]) if len(figure) > 1 else 0.0
    return any(abs(float(figure) - value) <= half + 1e-9 for value in known)


def whole_history() -> bool:
    """Tell whether commits can be looked up here: not in an unpacked source distribution or a shallow clone."""
    return _git("rev-parse", "--is-shallow-repository").stdout.strip() == "false"


def is_ancestor(commit: str) -> bool:
    """Tell whether a commit is the one that is checked out or came before it."""
    return _git("merge-base", "--is-ancestor", commit, "HEAD").returncode == 0


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], capture_output=True, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main())
