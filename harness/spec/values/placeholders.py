"""Placeholders of a spec, `{build}` and the like: the one table of their meanings and the keys that may contain them.

A placeholder is a name in braces; `{parameters.NAME}` is the value of a sweep's parameter. `${NAME}` is left to the
shell, and `{{name}}` stands for the text `{name}`; braces around anything else are ordinary text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from unperturbed.errors import SpecError

PARAMETER = "parameters."
"""What the placeholders of a sweep's parameters begin with."""

_FORM = re.compile(
    r"\$\{\w+\}|\{\{(?P<literal>(?:parameters\.)?\w+)\}\}|\{(?P<name>parameters\.[A-Za-z_]\w*|[A-Za-z_]\w*)\}"
)


@dataclass(frozen=True)
class Placeholder:
    """What a placeholder stands for."""

    meaning: str  # One line for people
    fields: frozenset[str]  # Keys of `program:` whose text may contain it


_RUN = ("run", "stdin", "environment")

PLACEHOLDERS: Mapping[str, Placeholder] = MappingProxyType(
    {
        "cc": Placeholder("the instrumenting C compiler", frozenset({"build"})),
        "cxx": Placeholder("the instrumenting C++ compiler", frozenset({"build"})),
        "build": Placeholder(
            "the folder in which the program was built: a copy of its source, one for each configuration",
            frozenset({"build", "prepare", "working_folder", *_RUN}),
        ),
        "source": Placeholder("the same folder as {build}", frozenset({"build", "prepare", "working_folder", *_RUN})),
        "inputs": Placeholder(
            "the folder that holds the files of `inputs` and what `prepare` makes", frozenset({"prepare", *_RUN})
        ),
        "scratch": Placeholder(
            "a folder of this run alone, empty when it starts", frozenset({"working_folder", *_RUN})
        ),
        "spec": Placeholder("the folder of the spec's file", frozenset({"build", "prepare", "working_folder", *_RUN})),
        "python": Placeholder("the Python interpreter that runs this tool", frozenset({"prepare"})),
    }
)

OF_PARAMETERS = Placeholder("the value of the parameter NAME at the point of a sweep that is run", frozenset(_RUN))
"""`{parameters.NAME}`, of which there is one for each parameter."""


def find_placeholders(text: str) -> tuple[str, ...]:
    """Return the names in braces, each once, in the order of the text; whether such placeholders exist is not asked."""
    return tuple(dict.fromkeys(match["name"] for match in _FORM.finditer(text) if match["name"]))


def substitute(text: str, known: Mapping[str, str]) -> str:
    """Put values in the place of placeholders."""

    def value(match: re.Match[str]) -> str:
        if match["literal"]:
            return f"{{{match['literal']}}}"
        if not match["name"]:
            return match[0]
        if match["name"] not in known:
            raise SpecError(
                f"`{text}`: {match[0]} stands for nothing here; known are {', '.join(f'{{{name}}}' for name in known)}"
            )
        return known[match["name"]]

    return _FORM.sub(value, text)
