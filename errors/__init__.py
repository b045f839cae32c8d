"""The one exception hierarchy, a leaf that every part may import and that imports nothing.

::

    UnperturbedError            what the user can mend: one clear message, never a traceback
    ├── SpecError               wrong spec, wrong usage, unusable input                     exit code 2
    ├── HostError               this host cannot do it: a tool, a counter, a permission     exit code 3
    └── RunError                the measured program or its build failed                    exit code 1

Only the command line turns an error into an exit code (`exit_code`). A message says what is wrong, where, and what to
do next. Functions of the analysis library raise `ValueError` and `TypeError` for wrong arguments, as numpy and scipy
do; `DataError` is both. A library of an extra that is not installed is an `ImportError` too.

::

    SpecError
    └── DataError(ValueError)   data that cannot be analysed: too few runs, a constant metric, unlike traces
    HostError
    └── MissingExtraError(ImportError)   an optional part of this distribution is not installed
"""

from __future__ import annotations

__all__ = ["DataError", "HostError", "MissingExtraError", "RunError", "SpecError", "UnperturbedError"]


class UnperturbedError(Exception):
    """Base of every error that a user can mend."""

    exit_code = 2


class SpecError(UnperturbedError):
    """The spec, the command line or an input file is wrong."""

    exit_code = 2


class DataError(SpecError, ValueError):
    """Data that cannot be analysed as asked."""


class HostError(UnperturbedError):
    """This host cannot do what is asked: a missing tool, counter or permission."""

    exit_code = 3


class MissingExtraError(HostError, ImportError):
    """A library is missing that an extra of this distribution installs.

    Parameters
    ----------
    library : str
        Its name.
    extra : str
        The extra, as `analysis`.
    """

    def __init__(self, library: str, extra: str) -> None:
        super().__init__(
            f"this needs {library}, which is not installed; the extra [{extra}] has it: "
            f"pip install 'unperturbed[{extra}]'"
        )
        self.extra = extra


class RunError(UnperturbedError):
    """The measured program, or its build, failed."""

    exit_code = 1
