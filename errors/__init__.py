"""The exception hierarchy; every room may import this module, which imports nothing.

::

    UnperturbedError            errors that the user can fix: one clear message, never a traceback
    ├── SpecError               wrong spec, wrong usage, unusable input                     exit code 2
    ├── HostError               a tool, a counter or a permission is missing on this host   exit code 3
    └── RunError                the measured program or its build failed                    exit code 1

Only the command line turns an error into an exit code (`exit_code`). A message states what is wrong, where, and what to
do next. Functions of the analysis library raise `ValueError` and `TypeError` for wrong arguments, like numpy and scipy;
`DataError` is both a `SpecError` and a `ValueError`. `MissingExtraError` is also an `ImportError`.

::

    SpecError
    └── DataError(ValueError)   data that cannot be analysed: too few runs, a constant metric, traces that differ
    HostError
    └── MissingExtraError(ImportError)   an optional part of this distribution is not installed
"""

from __future__ import annotations

__all__ = ["DataError", "HostError", "MissingExtraError", "RunError", "SpecError", "UnperturbedError"]


class UnperturbedError(Exception):
    """Base class of all errors that a user can fix."""

    exit_code = 2


class SpecError(UnperturbedError):
    """The spec, the command line or an input file is wrong."""

    exit_code = 2


class DataError(SpecError, ValueError):
    """The data does not allow the requested analysis."""


class HostError(UnperturbedError):
    """This host lacks a required tool, counter or permission."""

    exit_code = 3


class MissingExtraError(HostError, ImportError):
    """A library of an optional extra is not installed.

    Parameters
    ----------
    library : str
        Name of the library.
    extra : str
        Name of the extra, for example `analysis`.
    """

    def __init__(self, library: str, extra: str) -> None:
        super().__init__(
            f"{library} is required but not installed; install the extra [{extra}]: pip install 'unperturbed[{extra}]'"
        )
        self.extra = extra


class RunError(UnperturbedError):
    """The measured program, or its build, failed.

    Attributes
    ----------
    recurs : bool
        Whether a run fails in this way each time, so that another attempt is in vain.
    """

    exit_code = 1

    def __init__(self, *arguments: object, recurs: bool = False) -> None:
        super().__init__(*arguments)
        self.recurs = recurs
