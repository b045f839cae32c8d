"""Text of a spec: names of metrics, folders, parameters and packages, and the forms that they have."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

from pydantic import StringConstraints

from unperturbed.harness.spec.model import ListOf

_METRIC = "^[A-Za-z_][A-Za-z0-9_]{0,63}$"
PARAMETER_PATTERN = "^[A-Za-z_][A-Za-z0-9_]{0,39}$"
_FILE_NAME = "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
_VARIABLE = "^[A-Za-z_][A-Za-z0-9_]*$"
_DIGEST = "^sha256:[0-9a-f]{64}$"
SLURM_TIME = r"^(\d+|\d+:\d\d|\d+:\d\d:\d\d|\d+-\d+|\d+-\d+:\d\d|\d+-\d+:\d\d:\d\d)$"
_ABSOLUTE = r"^/[^\n]+$"
_PACKAGE = "^(upstream:)?[a-z0-9][a-z0-9+.-]+$"

FORMS: Mapping[str, str] = MappingProxyType(
    {
        _METRIC: "a metric's name has letters, digits and `_`, does not begin with a digit, and is at most 64 long",
        PARAMETER_PATTERN: "a parameter's name has letters, digits and `_`, does not begin with a digit, and is at "
        "most 40 long",
        _FILE_NAME: "it names a folder: letters, digits, `_`, `-` and `.`, beginning with a letter or digit, at most "
        "64 in all",
        _VARIABLE: "an environment variable's name has letters, digits and `_`, and does not begin with a digit",
        _DIGEST: "write `sha256:` and 64 hexadecimal digits, as `sha256sum` prints them",
        SLURM_TIME: "a limit of Slurm has the form `minutes`, `minutes:seconds`, `hours:minutes:seconds`, "
        "`days-hours`, `days-hours:minutes` or `days-hours:minutes:seconds`, in quotes",
        _ABSOLUTE: "write an absolute path, which begins with /",
        _PACKAGE: "a Debian source package's name has lower-case letters, digits, `+`, `-` and `.`, and may follow "
        "`upstream:`",
    }
)
"""The form that a pattern stands for, in words."""

Text = Annotated[str, StringConstraints(pattern=r"\S")]
AbsoluteFolder = Annotated[str, StringConstraints(pattern=_ABSOLUTE)]
Texts = Annotated[tuple[Text, ...], ListOf]
MetricName = Annotated[str, StringConstraints(pattern=_METRIC)]
ParameterName = Annotated[str, StringConstraints(pattern=PARAMETER_PATTERN)]
FileName = Annotated[str, StringConstraints(pattern=_FILE_NAME)]
PackageName = Annotated[str, StringConstraints(pattern=_PACKAGE)]
VariableName = Annotated[str, StringConstraints(pattern=_VARIABLE)]
Sha256 = Annotated[str, StringConstraints(pattern=_DIGEST)]
