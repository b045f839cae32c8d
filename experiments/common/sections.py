"""Sections of evidence pages that are made by a command of their own."""

from __future__ import annotations

import re
from pathlib import Path


def sections_of(text: str) -> list[str]:
    """Return the parts of a page: what stands before the first heading of level 2, then each section."""
    return re.split(r"(?m)^(?=## )", text)


def write_section(page: Path, section: str) -> None:
    """Replace the section of a page that has the same heading; without one, add it at the end."""
    heading = section.splitlines()[0]
    parts = sections_of(page.read_text(encoding="utf-8"))
    same = [at for at, part in enumerate(parts) if part.splitlines()[:1] == [heading]]
    if same:
        parts[same[0]] = section
    else:
        parts.append(f"\n{section}")
    page.write_text("".join(parts), encoding="utf-8")
