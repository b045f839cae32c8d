"""Phases of programs, found in their counters and held against milestones.

    python experiments/structure/evaluate.py [--campaigns FOLDER] [--seeds 20]

Runs the campaigns of phases and blocksort into the folder, or takes what stands there; classifies the intervals of runs by simulated hardware
counters, learns words of the phases, and holds both against the milestones that software counters counted; counts how often planted classes are
found; writes docs/evidence/structure.md and its figures.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from figures import draw
from milestones import BLOCKSORT, PHASES, Program, Scores, Truth, phases_of_classes, score, truth_of
from planted import planted_table, structureless_table, time_table

from unperturbed.analysis.structure import (
    Dictionary,
    StructuralSequence,
    description_length,
    indel_distance,
    learn_dictionary,
    letters_of,
    structural_sequence,
)
from unperturbed.collectors.trace import Trace

HERE = Path(__file__).parent
EVIDENCE = HERE.parents[1] / "docs" / "evidence"
NOISES = (0.0, 0.05, 0.1, 0.2, 0.4)
COLUMNS = (
    "classes",
    "whole intervals right",
    "adjusted Rand index",
    "milestones met",
    "off at most",
    "needless changes",
    "phases, edits",
)
WAYS: Mapping[str, Mapping[str, Any]] = {
    "by default": {},
    "each interval by itself": {"smooth": False},
    "and runs of one interval join a neighbour": {"smooth": False, "dwell": 2},
}


@dataclass(frozen=True, eq=False)
class Found:
    """What was found in a program's runs.

    Attributes
    ----------
    runs : traces that hold the milestones.
    sequence, truth : of the first run.
    dictionary : learnt of it.
    """

    program: Program
    runs: tuple[Trace, ...]
    sequence: StructuralSequence
    truth: Truth
    dictionary: Dictionary


def campaign_of(program: Program, folder: Path, spec: Path | None = None) -> Path:
    """Run a program's campaign, or go on with it; return its folder."""
    campaign = folder / program.name
    chosen = spec or HERE / f"{program.name}.yaml"
    command = ["-m", "unperturbed.harness.cli", "run", str(chosen), "--campaign", str(campaign)]
    code = subprocess.run([sys.executable, *command], check=False).returncode
    if code not in (0, 4):  # what counting perturbs is no matter here: counters and milestones are of the same run
        raise SystemExit(f"{program.name}: the campaign ended with {code}")
    return campaign


def runs_of(campaign: Path, program: Program) -> tuple[Trace, ...]:
    """Return the campaign's runs that hold the milestones."""
    traces = [Trace.read(path) for path in sorted(campaign.glob("runs/[0-9]*[0-9]/trace.parquet"))]
    return tuple(trace for trace in traces if all(name in trace.metrics for name in program.milestones))


def analyse(program: Program, runs: Sequence[Trace]) -> Found:
    """Find phases and words of the first run."""
    sequence = structural_sequence(runs[0], name=program.name)
    return Found(program, tuple(runs), sequence, truth_of(runs[0], program), learn_dictionary(sequence))


def disturbed(trace: Trace, share: float, seed: int) -> Trace:
    """Return a trace whose simulated counters but instructions are off by random factors, of this standard deviation of their logarithm."""
    rng = np.random.default_rng(seed)
    factors = {name: np.exp(share * rng.normal(size=len(trace))) for name in trace.names("simulated") if name != "PAPI_TOT_INS"}
    changed = {name: np.rint(trace[name] * factor).astype(np.int64) for name, factor in factors.items()}
    return replace(trace, columns={**trace.columns, **changed})


def ways_table(found: Found) -> list[str]:
    """Return the scores of ways to classify, with noise added."""
    lines = [f"| noise added | way | {' | '.join(COLUMNS)} |", f"|---:|---|{'---:|' * len(COLUMNS)}"]
    for noise in NOISES:
        trace = disturbed(found.runs[0], noise, seed=1)
        for way, options in WAYS.items():
            lines.append(f"| {noise:.0%} | {way} | {cells(score(structural_sequence(trace, **options), found.truth))} |")
    return lines


def cells(scores: Scores) -> str:
    """Return scores as cells of a table."""
    return (
        f"{scores.classes} | {scores.right:.1%} of {scores.whole} | {scores.rand:.3f} | {scores.met:.1%} of {scores.borders} | "
        f"{scores.off} | {scores.needless} | {scores.phases}, {scores.edits}"
    )


def runs_table(found: Found) -> list[str]:
    """Return the scores of further runs, classified as the first."""
    lines = [f"| run | {' | '.join(COLUMNS)} | unlike all classes |", f"|---|{'---:|' * (len(COLUMNS) + 1)}"]
    for number, trace in enumerate(found.runs):
        sequence = structural_sequence(trace, classes=found.sequence.classes)
        name = f"{number + 1}{', whose classes these are' if number == 0 else ''}"
        lines.append(f"| {name} | {cells(score(sequence, truth_of(trace, found.program)))} | {len(sequence.unlike)} |")
    return lines


def words_table(found: Found) -> list[str]:
    """Return the words that were learnt, beside the program's own."""
    dictionary, phase_of = found.dictionary, phase_of_classes(found)
    segments = dictionary.decomposition.words
    lines = ["| word | times | its phases |", "|---|---:|---|"]
    for number, word in enumerate(dictionary.words):
        phases = [found.program.phases[phase_of[int(symbol)]] for symbol in word]  # type: ignore[call-overload]
        told = ", ".join(phase for place, phase in enumerate(phases) if place == 0 or phases[place - 1] != phase)
        lines.append(f"| {letters_of(word)} | {int((segments == number).sum())} | {told} |")
    return lines


def words_said(found: Found) -> str:
    """Return how good the words are."""
    dictionary, order = found.dictionary, found.truth.order.tolist()
    own = description_length(order, [found.program.numbers(word) for word in found.program.words])
    verdict = "adequate" if dictionary.is_adequate else "not adequate"
    cost = dictionary.adequacy
    spent = f"{dictionary.baseline_bits:.0f} bits spelt out and {dictionary.bits.total:.0f} by these words"
    told = f"{own.total:.0f} bits by the program's own words and {learn_dictionary(order).bits.total:.0f} by words learnt of that order"
    edits = indel_distance(_phases_told(found), order)
    return (
        f"The run's {len(found.sequence)} symbols take {spent}. J = {cost.cost:g}, bound {cost.bound:g}: {verdict}. The order of the run's phases, "
        f"as milestones tell it, takes {told}; the phases of the run's symbols are {edits} insertions and deletions from it."
    )


def phase_of_classes(found: Found) -> list[int]:
    """Return the phase that each class of the first run belongs to, and what is unlike all classes."""
    whole = found.truth.labels >= 0
    classes = found.sequence.labels.astype(np.int64)
    return list(map(int, phases_of_classes(classes[whole], found.truth.labels[whole], int(classes.max()) + 1)))


def _phases_told(found: Found) -> list[int]:
    phase_of = phase_of_classes(found)
    told = [phase_of[symbol] for symbol in found.sequence.symbols.tolist()]
    return [phase for place, phase in enumerate(told) if place == 0 or told[place - 1] != phase]


def section(found: Found) -> str:
    """Return a program's part of the page."""
    return "\n".join(
        [
            f"## {found.program.name}",
            "",
            f"{len(found.runs[0])} intervals; phases by milestones: {', '.join(found.program.phases)}.",
            "",
            *(f"- {line}" for line in found.sequence.classes.describe()),
            "",
            f"![{found.program.name}](structure/{found.program.name}.svg)",
            "",
            "The first run, with random factors on its counters:",
            "",
            *ways_table(found),
            "",
            "All runs by the classes of the first:",
            "",
            *runs_table(found),
            "",
            "Words learnt of the first run:",
            "",
            *words_table(found),
            "",
            words_said(found),
            "",
        ]
    )


def main() -> None:
    """Run what is missing, evaluate, write the page and its figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--campaigns", type=Path, default=Path("campaigns/structure"), help="folder of the campaigns (campaigns/structure)"
    )
    parser.add_argument("--seeds", type=int, default=20, help="draws of planted classes of each kind (20)")
    arguments = parser.parse_args()
    sections = []
    (EVIDENCE / "structure").mkdir(exist_ok=True)
    for program in (PHASES, BLOCKSORT):
        found = analyse(program, runs_of(campaign_of(program, arguments.campaigns), program))
        draw(EVIDENCE / "structure" / f"{program.name}.svg", found, phase_of_classes(found))
        sections.append(section(found))
        print(f"{program.name}: evaluated", file=sys.stderr)
    page = (HERE / "page.md").read_text()
    filled = page.format(
        programs="\n".join(sections),
        structureless="\n".join(structureless_table(arguments.seeds)),
        planted="\n".join(planted_table(arguments.seeds)),
        times="\n".join(time_table()),
        seeds=arguments.seeds,
    )
    (EVIDENCE / "structure.md").write_text(filled)
    print(f"written: {EVIDENCE / 'structure.md'}")


if __name__ == "__main__":
    main()
