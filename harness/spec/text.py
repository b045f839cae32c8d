"""Text in a spec: the format of names (of metrics, folders, parameters, packages), and placeholders like `{build}`.

`{parameters.NAME}` is the value of a sweep's parameter. `${NAME}` is left to the shell, and `{{name}}` stands for the
text `{name}`; braces around anything else are ordinary text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import StringConstraints

from unperturbed.common.wording import listing
from unperturbed.errors import SpecError
from unperturbed.harness.spec.model import ListOf

_METRIC = "^[A-Za-z_][A-Za-z0-9_]{0,63}$"
PARAMETER_PATTERN = "^[A-Za-z_][A-Za-z0-9_]{0,39}$"
_FILE_NAME = "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
_VARIABLE = "^[A-Za-z_][A-Za-z0-9_]*$"
_DIGEST = "^sha256:[0-9a-f]{64}$"
SLURM_TIME = r"^(\d+|\d+:\d\d|\d+:\d\d:\d\d|\d+-\d+|\d+-\d+:\d\d|\d+-\d+:\d\d:\d\d)$"
_ABSOLUTE = r"^/[^\n]+$"
_PACKAGE = "^(upstream:)?[a-z0-9][a-z0-9+.-]+$"

FORMS: Mapping[str, str] = {
    _METRIC: "a metric's name has at most 64 letters, digits and `_`, and does not start with a digit",
    PARAMETER_PATTERN: "a parameter's name has at most 40 letters, digits and `_`, and does not start with a digit",
    _FILE_NAME: "a folder's name has at most 64 letters, digits, `_`, `-` and `.`, and starts with a letter or digit",
    _VARIABLE: "an environment variable's name has only letters, digits and `_`, and does not start with a digit",
    _DIGEST: "write `sha256:` and 64 hexadecimal digits, as `sha256sum` prints them",
    SLURM_TIME: "a Slurm time limit has the form `minutes`, `minutes:seconds`, `hours:minutes:seconds`, "
    "`days-hours`, `days-hours:minutes` or `days-hours:minutes:seconds`, in quotes",
    _ABSOLUTE: "write an absolute path, starting with /",
    _PACKAGE: "a Debian source package's name has only lower-case letters, digits, `+`, `-` and `.`; it may follow "
    "`upstream:`",
}
"""Pattern → its description in messages."""

Text = Annotated[str, StringConstraints(pattern=r"\S")]
AbsoluteFolder = Annotated[str, StringConstraints(pattern=_ABSOLUTE)]
Texts = Annotated[tuple[Text, ...], ListOf]
MetricName = Annotated[str, StringConstraints(pattern=_METRIC)]
ParameterName = Annotated[str, StringConstraints(pattern=PARAMETER_PATTERN)]
FileName = Annotated[str, StringConstraints(pattern=_FILE_NAME)]
PackageName = Annotated[str, StringConstraints(pattern=_PACKAGE)]
VariableName = Annotated[str, StringConstraints(pattern=_VARIABLE)]
Sha256 = Annotated[str, StringConstraints(pattern=_DIGEST)]


PARAMETER = "parameters."  # Prefix of the placeholders of a sweep's parameters

_PLACEHOLDER = re.compile(
    r"\$\{\w+\}|\{\{(?P<literal>(?:parameters\.)?\w+)\}\}|\{(?P<name>parameters\.[A-Za-z_]\w*|[A-Za-z_]\w*)\}"
)


@dataclass(frozen=True)
class Placeholder:
    """A placeholder and its meaning."""

    meaning: str  # One line, for the reference
    fields: frozenset[str]  # Keys of `program:` whose text may contain it


_OF_A_RUN = ("run", "ready", "load", "stdin", "environment")

PLACEHOLDERS: Mapping[str, Placeholder] = {
    "cc": Placeholder("the instrumenting C compiler", frozenset({"build"})),
    "cxx": Placeholder("the instrumenting C++ compiler", frozenset({"build"})),
    "build": Placeholder(
        "the folder in which the program was built: a copy of its source, one for each configuration",
        frozenset({"build", "prepare", "working_folder", *_OF_A_RUN}),
    ),
    "source": Placeholder("the same folder as {build}", frozenset({"build", "prepare", "working_folder", *_OF_A_RUN})),
    "inputs": Placeholder(
        "the folder with the files of `inputs` and the files that `prepare` creates",
        frozenset({"prepare", *_OF_A_RUN}),
    ),
    "scratch": Placeholder(
        "a folder for this run only, empty when the run starts", frozenset({"working_folder", "tool", *_OF_A_RUN})
    ),
    "port": Placeholder(
        "a free TCP port of this host, the same in all keys of a run",
        frozenset({"run", "ready", "load", "tool", "environment"}),
    ),
    "pid": Placeholder("the number of the attached process, the first one of several", frozenset({"tool"})),
    "spec": Placeholder(
        "the folder of the spec's file", frozenset({"build", "prepare", "tool", "working_folder", *_OF_A_RUN})
    ),
    "python": Placeholder("the Python interpreter that runs this tool", frozenset({"prepare"})),
}

OF_PARAMETERS = Placeholder("the value of the parameter NAME at the current point of a sweep", frozenset(_OF_A_RUN))
"""`{parameters.NAME}`: one for each parameter."""


def find_placeholders(text: str) -> tuple[str, ...]:
    """Return the distinct names in braces, in the order of the text, whether or not such placeholders exist."""
    return tuple(dict.fromkeys(match["name"] for match in _PLACEHOLDER.finditer(text) if match["name"]))


def substitute(text: str, known: Mapping[str, str]) -> str:
    """Replace the placeholders in a text with their values."""

    def value(match: re.Match[str]) -> str:
        if match["literal"]:
            return f"{{{match['literal']}}}"
        if not match["name"]:
            return match[0]
        if match["name"] not in known:
            use = listing([f"{{{name}}}" for name in known], "or")
            raise SpecError(f"`{text}`: unknown placeholder {match[0]}; use {use}")
        return known[match["name"]]

    return _PLACEHOLDER.sub(value, text)
