"""YAML text of drafted specs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")
_WORDS_OF_YAML = re.compile(r"true|false|yes|no|on|off|null", re.IGNORECASE)


def quoted(text: str) -> str:
    """Return a text as YAML: plain where any reader takes it for text, in double quotes else."""
    if _PLAIN.fullmatch(text) and not _WORDS_OF_YAML.fullmatch(text):
        return text
    return json.dumps(text, ensure_ascii=False)


def quoted_list(items: Iterable[str]) -> str:
    """Return names as a YAML list in one line."""
    return f"[{', '.join(map(quoted, items))}]"


def without_placeholders(text: str) -> str:
    """Return a text in which nothing in braces is a placeholder of the spec."""
    return re.sub(r"(?<!\$)\{((?:parameters\.)?\w+)\}", r"{{\1}}", text)


def campaign_name(text: str) -> str:
    """Return a name for a campaign and its folder, made from a file's name."""
    kept = re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-._")
    return kept[:48] or "program"


def commented(text: str) -> str:
    """Return lines as comments."""
    return "".join(f"# {line}\n" if line else "#\n" for line in text.splitlines())
