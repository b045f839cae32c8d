"""Options that several commands on campaigns have in common."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from unperturbed.common.extras import load_library
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


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add `--jobs`, the number of processes that compare runs."""
    parser.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help="compare runs in N processes, which takes less time where there are many; the verdicts are the same",
    )


@contextmanager
def sharing(arguments: argparse.Namespace) -> Iterator[None]:
    """Share the analyses among as many processes as `--jobs` asks for."""
    if arguments.jobs is None:
        yield
        return
    if arguments.jobs < 1:
        raise SpecError(f"--jobs {arguments.jobs}: give the number of processes, 1 or more")
    with load_library("joblib").parallel_config("loky", n_jobs=arguments.jobs):  # slow to load
        yield


def format_options(texts: Iterable[str]) -> dict[str, str]:
    """Return the options of an import format, each given as `KEY=VALUE`."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise SpecError(f"--option {text}: give it as KEY=VALUE, as time=seconds")
        found[key.strip()] = value.strip()
    return found
