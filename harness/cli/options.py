"""Options that several commands have in common."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from unperturbed.common.extras import load_library
from unperturbed.errors import SpecError
from unperturbed.harness.cli.parser import RegisteredNames

if TYPE_CHECKING:
    from unperturbed.harness.campaign.progress import Watch
    from unperturbed.harness.exports import Kind


def add_fail_on(parser: argparse.ArgumentParser) -> None:
    """Add `--fail-on`, the mildest verdict for which a command exits with 4."""
    parser.add_argument(
        "--fail-on",
        choices=("perturbed", "shifted", "undecided"),
        help="exit with 4 on this verdict on correlations, or a more serious one (default: the spec's "
        "`analysis.fail_on`, which also has a key for totals, else perturbed)",
    )


def add_judging_of_imports(add: Callable[..., Any]) -> None:
    """Add `--tolerance` and `--after`, which a spec sets for campaigns that have one.

    `add`: The method `add_argument` of a parser or of a group.
    """
    add(
        "--tolerance",
        action="append",
        default=[],
        metavar="SIZE",
        help="largest change that counts as none: of totals and means (`3 %%`; default: 2 %% for times, 1 %% for "
        "others), of one of them (`NAME=3 %%`), or of a correlation (`0.2`; default: 0.1); repeatable",
    )
    add(
        "--after",
        choices=("start", "steady"),
        default="start",
        help="steady: judge correlations of the intervals after the warm-up only (default: start, all intervals)",
    )


def parse_tolerances(given: Sequence[str]) -> tuple[float | None, dict[str, float]]:
    """Return the tolerance of correlations, None if not given, and those of totals by metric."""
    from unperturbed.harness.spec.quantities import parse_percent

    correlations, totals = None, dict[str, float]()
    for text in given:
        name, equals, size = text.rpartition("=")
        if not equals and re.fullmatch(r"0?\.\d+|0", text.strip()):
            correlations = float(text)
            continue
        try:
            share = parse_percent(size.strip())
        except ValueError as error:
            raise SpecError(f"--tolerance {text}: {error}, or a number below 1 for correlations") from None
        totals |= {name: share} if name else {"default": share, "time": share}
    return correlations, totals


def add_no_check(parser: argparse.ArgumentParser) -> None:
    """Add `--no-check`, for hosts that only measure."""
    parser.add_argument(
        "--no-check",
        action="store_true",
        help="measure without verdicts; run `unperturbed check` on the campaign's folder later, here or on another "
        "host",
    )


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add `--jobs`, the number of processes that compare runs."""
    parser.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help="compare runs in N processes: faster for many runs, with the same verdicts",
    )


@contextmanager
def judging(arguments: argparse.Namespace) -> Iterator[Watch]:
    """Run analyses in `--jobs` processes; yield the function that shows their progress."""
    from unperturbed.harness.cli.terminal import chosen_progress

    if arguments.jobs is not None and arguments.jobs < 1:
        raise SpecError(f"--jobs {arguments.jobs}: give the number of processes, 1 or more")
    with chosen_progress(arguments) as progress:
        if arguments.jobs is None:
            yield progress.watch
            return
        with load_library("joblib").parallel_config("loky", n_jobs=arguments.jobs):  # slow to load
            yield progress.watch


def format_options(texts: Iterable[str]) -> dict[str, str]:
    """Return the options of an import format, each given as `KEY=VALUE`."""
    options = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise SpecError(f"--option {text}: give the option as KEY=VALUE, such as time=seconds")
        options[key.strip()] = value.strip()
    return options


def add_program_options(parser: argparse.ArgumentParser, *, comparing: bool = False, until: bool = True) -> None:
    """Add the options for a program after `--`; `comparing`: only the options that apply to two compared programs."""
    options = parser.add_argument_group(
        "for a program after --", ("settings of its spec, which is written beside the campaign")
    )
    add = options.add_argument
    add("--metrics", default="", metavar="A,B", help="hardware metrics (default: up to six that this host can count)")
    add(
        "--interval",
        default="",
        metavar="T",
        help="sampling interval such as `20 ms` or `2 M instructions`, or the number of intervals per run (default: "
        "200)",
    )
    if comparing:
        add("--runs", dest="baseline_runs", type=int, metavar="N", help="runs of each program (default: 10)")
        parser.set_defaults(count="", runs=None)
    else:
        add(
            "--count",
            default="",
            metavar="F,G",
            help="count calls to these library functions (default: some that the program calls, such as malloc, or "
            "some functions of a Python script)",
        )
        add("--runs", type=int, metavar="N", help="runs with software metrics (default: 10)")
        add("--baseline-runs", type=int, metavar="N", help="runs with hardware metrics only (default: 10)")
    if until:
        add(
            "--until",
            default="",
            choices=("decided",),
            help="decided: make further runs, in up to six steps, until the verdicts are decided",
        )
        add(
            "--max-runs",
            type=int,
            metavar="N",
            help="with --until decided: maximum number of runs of each configuration (default: 60)",
        )
    else:
        parser.set_defaults(until="", max_runs=None)
    add("--max-hours", type=float, metavar="H", help="start no further run after this many hours")
    add(
        "--source",
        default="",
        metavar="NAME",
        help="source of hardware metrics; `unperturbed metrics` lists the sources (default: auto)",
    )
    add(
        "--sampler",
        default="",
        choices=("inside", "outside"),
        help="where to take samples: inside the program or from another process",
    )
    add(
        "--env",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="pass on or set an environment variable; repeatable (PATH, LD_LIBRARY_PATH, PYTHONPATH, VIRTUAL_ENV, "
        "OMP_NUM_THREADS, GOMAXPROCS and MKL_NUM_THREADS are always passed on)",
    )
    add(
        "--input",
        default="",
        metavar="FILE",
        help="file for the program's standard input, or `null` for none (default: the redirected stdin; a pipe is "
        "copied)",
    )
    add("--name", default="", metavar="NAME", help="name of the campaign (default: derived from the program's name)")


def add_progress_option(parser: argparse.ArgumentParser) -> None:
    """Add `--progress`, for programs that watch a command."""
    parser.add_argument(
        "--progress",
        choices=("text", "json"),
        default="text",
        help="json: write one JSON object per line to stderr for each event (docs/reference/command_line.md)",
    )


def add_format(parser: argparse.ArgumentParser, kind: Kind) -> None:
    """Add `--format`, the name of an export format; its help lists the installed formats."""

    def names() -> Iterable[str]:
        from unperturbed.harness.exports import formats

        return formats(kind)

    formats_help = "%(names)s (default: by FILE's suffix)"
    option = parser.add_argument("--format", metavar="NAME", help=formats_help)
    option.names = RegisteredNames(names)  # type: ignore[attr-defined]  # argparse fills help texts from attributes
