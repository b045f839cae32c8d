"""Options that several commands on campaigns have in common."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from unperturbed.errors import SpecError


def add_fail_on(parser: argparse.ArgumentParser) -> None:
    """Add `--fail-on`, the mildest verdict for which a command exits with 4."""
    parser.add_argument(
        "--fail-on",
        choices=("perturbed", "shifted", "undecided"),
        help=(
            "exit with 4 for this verdict and more serious ones (default: analysis.fail_on of the spec, else perturbed)"
        ),
    )


def add_no_check(parser: argparse.ArgumentParser) -> None:
    """Add `--no-check`, for hosts that only measure."""
    parser.add_argument(
        "--no-check",
        action="store_true",
        help="measure without verdicts; run `unperturbed check` on the folder later, here or on another host",
    )


def format_options(texts: Iterable[str]) -> dict[str, str]:
    """Return the options of an import format, each given as `KEY=VALUE`.

    Raises
    ------
    SpecError
        One is given otherwise.
    """
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise SpecError(f"--option {text}: give it as KEY=VALUE, as time=seconds")
        found[key.strip()] = value.strip()
    return found
