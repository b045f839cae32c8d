"""Find the phases that recur in a run, and how a second run differs in structure.

Besides the command, this module adds phases to exports as slices, and compiles the loops of phases ahead of use.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unperturbed.errors import DataError, SpecError
from unperturbed.harness.cli.paths import require_trace, require_writable_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from unperturbed.analysis.structure import Span, StructuralSequence, WordUse
    from unperturbed.collectors.data import Trace
    from unperturbed.harness.exports.content.runs import ExportedRuns, Slice

    Source = Trace | list[str] | list[int] | list[float]

_INADEQUATE = 4
_SEED = 1
_TRACK = "phases"
"""Name of the track for slices of words in an export."""


class Command:
    """Show which phases recur in a run, in which order, and how a second run differs in structure."""

    foreign: Mapping[str, str] = dict.fromkeys(("phases", "words"), "structure TRACE")

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments for the runs, and the options for classes, words and output."""
        parser.add_argument(
            "run", type=Path, metavar="RUN", help="a run's folder or its trace.parquet; with --accesses, a text file"
        )
        parser.add_argument(
            "--against", type=Path, metavar="RUN_B", help="a second run, to describe with the phase words of RUN"
        )
        parser.add_argument(
            "--accesses",
            action="store_true",
            help="the files contain accesses, one per line, such as page numbers, block numbers or module names",
        )
        parser.add_argument(
            "--on",
            metavar="METRICS",
            help="comma-separated metrics to classify intervals by (default: all hardware metrics or, if there are "
            "none, those of the operating system)",
        )
        parser.add_argument(
            "--per",
            metavar="COUNTER",
            help="counter to divide counts by, or `time`, or `none` (default: instructions if they are counted, "
            "otherwise time)",
        )
        parser.add_argument(
            "--classes",
            metavar="K",
            help="number K of classes of intervals, alone or after a method: quantiles:K, ranges:K or most-used:K "
            "(default: the number that gives the shortest description)",
        )
        parser.add_argument(
            "--dwell",
            type=int,
            default=1,
            metavar="N",
            help="merge stretches of one class shorter than N intervals into a neighbouring stretch (default: 1)",
        )
        parser.add_argument(
            "--method",
            choices=("description_length", "paper", "monotone"),
            default="description_length",
            help="how to learn phase words: description_length (the default) looks for the words that give the "
            "shortest description; paper uses the published algorithm, which alternately chooses words from segments "
            "and divides the run into those words; monotone is another name for paper",
        )
        parser.add_argument(
            "--longest", type=int, default=32, metavar="N", help="maximum number of symbols in a word (default: 32)"
        )
        parser.add_argument(
            "--bound",
            type=float,
            metavar="EDITS",
            help="bound a(L): a description is adequate if it needs at most this many insertions and deletions "
            "(default: computed from shuffled sequences)",
        )
        parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
        parser.add_argument(
            "--html",
            type=Path,
            metavar="FILE",
            help="write an HTML page that plots a metric above a strip of phase words",
        )
        parser.add_argument("--json", action="store_true", help="print everything as JSON")

    def run(self, arguments: argparse.Namespace) -> int:
        """Learn the words, print and draw them; return 4 if they describe the run, or the second run, badly."""
        from unperturbed.analysis.structure import compare_structure, compose, most_discriminating_metric
        from unperturbed.harness.cli.warming import warm_once

        _check(arguments)
        paths = [path for path in (arguments.run, arguments.against) if path]
        sources, names = [_read(path, arguments) for path in paths], _names(paths)
        warm_once("structure")
        sequence = _sequence(sources[0], arguments, _classes(arguments.classes), names[0])
        learning: dict[str, Any] = {
            "method": "monotone" if arguments.method == "paper" else arguments.method,
            "adequate": arguments.bound,
            "longest": arguments.longest,
            "seed": arguments.seed,
        }
        composition = compose(sequence, **learning)
        comparison = None
        if arguments.against:
            other = _sequence(sources[1], arguments, sequence.classes, names[1])
            comparison = compare_structure(composition, compose(other, **learning), seed=arguments.seed)
        if arguments.html:
            from unperturbed.analysis.report import render_structure, write_page

            sequences = [sequence] if comparison is None else [sequence, comparison.second.sequence]
            drawn = [most_discriminating_metric(*pair) for pair in zip(sources, sequences, strict=True)]
            signals = [signal for signal in drawn if signal is not None]
            write_page(arguments.html, render_structure(composition, comparison, signals=signals))
        if arguments.json:
            results = {"run": composition.to_dict()}
            if comparison is not None:
                results |= {"against": comparison.second.to_dict(), "comparison": comparison.to_dict()}
            print(json.dumps(results, indent=2, ensure_ascii=False))
        else:
            from unperturbed.harness.methods.structure.terminal import show_structure

            show_structure(composition, comparison)
        return 0 if (comparison or composition).is_adequate else _INADEQUATE


def _check(arguments: argparse.Namespace) -> None:
    if arguments.on is not None and not all(name.strip() for name in arguments.on.split(",")):
        raise SpecError(f"--on {arguments.on!r}: give names of metrics, separated by commas")
    if arguments.accesses and (arguments.on or arguments.per):
        raise SpecError("accesses have no metrics: with --accesses, use neither --on nor --per")
    if arguments.dwell < 1:
        raise SpecError(f"--dwell {arguments.dwell}: give a number of intervals, 1 or more")
    if arguments.bound is not None and not 0 <= arguments.bound < float("inf"):
        raise SpecError(f"--bound {arguments.bound:g}: give a finite number of edits, 0 or more")
    if arguments.seed < 0:
        raise SpecError(f"--seed {arguments.seed}: give a whole number, 0 or more")
    if not 2 <= arguments.longest <= 64:
        raise SpecError(f"--longest {arguments.longest}: give a number of symbols from 2 to 64")
    if arguments.html:
        require_writable_path(arguments.html)


def _read(path: Path, arguments: argparse.Namespace) -> Source:
    if not arguments.accesses:
        from unperturbed.collectors import Trace

        if path.suffix != ".txt":  # a text file may contain accesses
            require_trace(path)
        try:
            trace = Trace.read(path)
        except DataError as error:
            may_be_text = path.is_file() and path.suffix != ".parquet"
            hint = "; to read a text file of accesses, add --accesses" if may_be_text else ""
            raise DataError(f"{error}{hint}") from None
        if not len(trace):
            raise DataError(f"{path}: the trace contains no intervals")
        return trace
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise DataError(f"{path}: cannot read the file as text ({reason})") from None
    if not lines:
        raise DataError(f"{path}: the file contains no accesses: write one access per line")
    for number in (lambda line: int(line, 0), float):
        try:
            return [number(line) for line in lines]
        except ValueError:  # not all of them are such numbers
            continue
    return lines


def _sequence(source: Source, arguments: argparse.Namespace, classes: Any, name: str) -> StructuralSequence:
    from unperturbed.analysis.structure import structural_sequence

    options: dict[str, Any] = {"dwell": arguments.dwell, "seed": arguments.seed}
    if arguments.accesses:
        options["element"] = "access"
    if arguments.on:
        options["metrics"] = [metric.strip() for metric in arguments.on.split(",")]
    if arguments.per:
        options["per"] = None if arguments.per == "none" else arguments.per
    try:
        return structural_sequence(source, classes=classes, name=name, **options)
    except (ValueError, DataError) as error:
        raise SpecError(f"{name}: {error}") from None


def _classes(text: str | None) -> Any:
    """Return the value of --classes: a number of classes, or a kind of classes with their number."""
    from unperturbed.analysis.structure import MostUsed, Quantiles, Ranges

    if text is None:
        return None
    way, colon, number = text.rpartition(":")
    ways = {"quantiles": Quantiles, "ranges": Ranges, "most-used": MostUsed}
    if not number.isdigit() or int(number) < 1 or (colon and way not in ways):
        choices = ", ".join(f"{name}:K" for name in ways)
        raise SpecError(f"--classes {text}: give K, or one of {choices}, where K is a whole number, 1 or more")
    return ways[way](int(number)) if colon else int(number)


def _names(paths: Sequence[Path]) -> list[str]:
    """Return the runs' names: their folders' names, or their paths if two folders have the same name."""
    names = [path.parent.name if path.name == "trace.parquet" else path.name for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]


def add_phases(runs: ExportedRuns) -> tuple[ExportedRuns, tuple[str, ...]]:
    """Add the phases of each run as slices, in the words of the first run; return notes on runs without phases."""
    from dataclasses import replace

    from unperturbed.analysis.structure import Composition, compare_structure, compose, structural_sequence

    first, notes = runs.runs[0], []
    try:
        words = compose(structural_sequence(first.trace, name=first.title))
    except (DataError, ValueError) as error:
        raise SpecError(f"--phases: no phases found in run {first.title}: {error}") from None
    if not words.is_adequate:
        notes.append(f"The words found in run {first.title} describe it badly: `unperturbed structure` shows why.")
    sliced = [replace(first, slices=(*first.slices, *_slices(words.spans, words.uses)))]
    for run in runs.runs[1:]:
        try:
            sequence = structural_sequence(run.trace, classes=words.sequence.classes, name=run.title)
            compared = compare_structure(words, Composition(sequence, words.dictionary))
        except (DataError, ValueError) as error:
            notes.append(f"Run {run.title} has no phases: {error}.")
            sliced.append(run)
        else:
            sliced.append(replace(run, slices=(*run.slices, *_slices(compared.spans, compared.uses))))
    return replace(runs, runs=tuple(sliced)), tuple(notes)


def _slices(spans: Sequence[Span], uses: Sequence[WordUse]) -> Iterator[Slice]:
    from unperturbed.harness.exports.content.runs import Slice

    for span in spans:
        edits = f" ±{span.edits}" if span.edits else ""
        name = f"word {span.word + 1}: {uses[span.word].letters}{edits}" if span.word >= 0 else "no word"
        yield Slice(_TRACK, name, span.first, span.stop)


def warm() -> None:
    """Compile the loops that find phases: classes of intervals, decompositions and the search for a dictionary."""
    from unperturbed.analysis.structure import compare_structure, compose, structural_sequence
    from unperturbed.harness.cli.warming import recurring_phases

    run, other = recurring_phases(_SEED)
    first = compose(structural_sequence(run, seed=_SEED), seed=_SEED)
    second = compose(structural_sequence(other, seed=_SEED, classes=first.sequence.classes), seed=_SEED)
    compare_structure(first, second, seed=_SEED)
