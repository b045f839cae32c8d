"""YAML text of drafted specs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")
_INTERPRETER = re.compile(r"(python|pypy|perl|ruby|bash|dash|sh|zsh|node|lua|php|Rscript|julia)[0-9.]*")
_SCRIPTS = (".py", ".pl", ".rb", ".sh", ".js", ".mjs", ".lua", ".php", ".R", ".jl")
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


def called(words: Sequence[str]) -> str:
    """Return what a command is called by: its program, or the script that an interpreter runs."""
    name = Path(words[0]).name
    script = Path(next((word for word in words[1:] if not word.startswith("-")), ""))
    if _INTERPRETER.fullmatch(name) and script.suffix in _SCRIPTS and script.is_file():
        return script.stem
    return name


def campaign_name(text: str) -> str:
    """Return a name for a campaign and its folder, made from a file's name."""
    kept = re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-._")
    return kept[:48] or "program"


def commented(text: str) -> str:
    """Return lines as comments."""
    return "".join(f"# {line}\n" if line else "#\n" for line in text.splitlines())
