"""Phases of programs, found in their counters and compared with milestones.

    python -m experiments.structure.evaluate [--campaigns FOLDER] [--seeds 20]

Runs the campaigns of phases and blocksort into the folder, or continues them; classifies the intervals of runs by
simulated hardware counters, learns words of the phases, and compares both with the milestones that software counters
counted; counts how often planted classes are found; writes docs/evidence/structure.md and its figures.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.common.evaluation import EVIDENCE, evaluation_parser, fill_page, run_campaign
from experiments.common.tables import markdown_table, right
from experiments.structure.figures import draw
from experiments.structure.milestones import (
    BLOCKSORT,
    PHASES,
    Program,
    Scores,
    Truth,
    phases_of_classes,
    score,
    truth_of,
)
from experiments.structure.planted import planted_table, structureless_table, time_table
from unperturbed.analysis.structure import (
    Dictionary,
    StructuralSequence,
    description_length,
    indel_distance,
    learn_dictionary,
    letters_of,
    structural_sequence,
)
from unperturbed.collectors.data import Trace

HERE = Path(__file__).parent
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
    """Phases and words of a program's runs.

    Attributes
    ----------
    program : Program
        What ran.
    runs : tuple of Trace
        Those with the milestones.
    sequence : StructuralSequence
        Of the first run.
    truth : Truth
        Of the first run, by its milestones.
    dictionary : Dictionary
        Learned from the sequence.
    """

    program: Program
    runs: tuple[Trace, ...]
    sequence: StructuralSequence
    truth: Truth
    dictionary: Dictionary


def campaign_of(program: Program, folder: Path, spec: Path | None = None) -> Path:
    """Run a program's campaign, or continue it; return its folder."""
    campaign = folder / program.name
    run_campaign(spec or HERE / f"{program.name}.yaml", campaign)
    return campaign


def runs_of(campaign: Path, program: Program) -> tuple[Trace, ...]:
    """Return the campaign's runs with the milestones."""
    traces = [Trace.read(path) for path in sorted(campaign.glob("runs/[0-9]*[0-9]/trace.parquet"))]
    return tuple(trace for trace in traces if all(name in trace.metrics for name in program.milestones))


def analyse(program: Program, runs: Sequence[Trace]) -> Found:
    """Find phases and words of the first run."""
    sequence = structural_sequence(runs[0], name=program.name)
    return Found(program, tuple(runs), sequence, truth_of(runs[0], program), learn_dictionary(sequence))


def with_noise(trace: Trace, sigma: float, seed: int) -> Trace:
    """Multiply the simulated counters, but instructions, by log-normal factors with this σ."""
    rng = np.random.default_rng(seed)
    factors = {
        name: np.exp(sigma * rng.normal(size=len(trace))) for name in trace.names("simulated") if name != "PAPI_TOT_INS"
    }
    changed = {name: np.rint(trace[name] * factor).astype(np.int64) for name, factor in factors.items()}
    return replace(trace, columns={**trace.columns, **changed})


def ways_table(found: Found) -> list[str]:
    """Return the scores of ways to classify, with noise added."""
    rows = []
    for noise in NOISES:
        trace = with_noise(found.runs[0], noise, seed=1)
        for way, options in WAYS.items():
            scores = score(structural_sequence(trace, **options), found.truth)
            rows.append((f"{noise:.0%}", way, *cells(scores)))
    return markdown_table([*right("noise added"), "way", *right(*COLUMNS)], rows)


def cells(scores: Scores) -> tuple[str, ...]:
    """Return scores as cells of a table, one for each of `COLUMNS`."""
    return (
        f"{scores.classes}",
        f"{scores.right:.1%} of {scores.whole}",
        f"{scores.rand:.3f}",
        f"{scores.met:.1%} of {scores.borders}",
        f"{scores.off}",
        f"{scores.spurious}",
        f"{scores.phases}, {scores.edits}",
    )


def runs_table(found: Found) -> list[str]:
    """Return the scores of further runs, classified as the first."""
    rows = []
    for number, trace in enumerate(found.runs):
        sequence = structural_sequence(trace, classes=found.sequence.classes)
        name = f"{number + 1}{', whose classes these are' if number == 0 else ''}"
        rows.append((name, *cells(score(sequence, truth_of(trace, found.program))), len(sequence.outliers)))
    return markdown_table(["run", *right(*COLUMNS, "unlike all classes")], rows)


def words_table(found: Found) -> list[str]:
    """Return the words that were learned, beside the program's own."""
    dictionary, phase_of = found.dictionary, phase_of_classes(found)
    segments = dictionary.decomposition.words
    rows = []
    for number, word in enumerate(dictionary.words):
        phases = [found.program.phases[phase_of[int(symbol)]] for symbol in word]  # type: ignore[call-overload]
        different = [phase for place, phase in enumerate(phases) if place == 0 or phases[place - 1] != phase]
        rows.append((letters_of(word), int((segments == number).sum()), ", ".join(different)))
    return markdown_table(["word", *right("times"), "its phases"], rows)


def words_paragraph(found: Found) -> str:
    """Return how good the words are."""
    dictionary, order = found.dictionary, found.truth.order.tolist()
    own = description_length(order, [found.program.numbers(word) for word in found.program.words]).total
    learned = learn_dictionary(order).bits.total
    verdict = "adequate" if dictionary.is_adequate else "not adequate"
    adequacy = dictionary.adequacy
    return (
        f"The run's {len(found.sequence)} symbols take {dictionary.baseline_bits:.0f} bits spelt out and "
        f"{dictionary.bits.total:.0f} by these words. J = {adequacy.cost:g}, bound {adequacy.bound:g}: {verdict}. The "
        f"order of the run's phases, as milestones tell it, takes {own:.0f} bits by the program's own words and "
        f"{learned:.0f} by words learnt of that order; the phases of the run's symbols are "
        f"{indel_distance(_phase_order(found), order)} insertions and deletions from it."
    )


def phase_of_classes(found: Found) -> list[int]:
    """Return the phase of each class of the first run, and last of its outliers."""
    whole = found.truth.labels >= 0
    classes = found.sequence.labels.astype(np.int64)
    return list(map(int, phases_of_classes(classes[whole], found.truth.labels[whole], int(classes.max()) + 1)))


def _phase_order(found: Found) -> list[int]:
    """Return the phases of the first run's classes, without repetitions."""
    phase_of = phase_of_classes(found)
    phases = [phase_of[symbol] for symbol in found.sequence.symbols.tolist()]
    return [phase for place, phase in enumerate(phases) if place == 0 or phases[place - 1] != phase]


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
            words_paragraph(found),
            "",
        ]
    )


def main() -> None:
    """Run what is missing, evaluate, write the page and its figures."""
    parser = evaluation_parser(__doc__, "structure")
    parser.add_argument("--seeds", type=int, default=20, help="draws of planted classes of each kind (20)")
    arguments = parser.parse_args()
    sections = []
    (EVIDENCE / "structure").mkdir(exist_ok=True)
    for program in (PHASES, BLOCKSORT):
        found = analyse(program, runs_of(campaign_of(program, arguments.campaigns), program))
        draw(EVIDENCE / "structure" / f"{program.name}.svg", found, phase_of_classes(found))
        sections.append(section(found))
        print(f"{program.name}: evaluated", file=sys.stderr)
    page = fill_page(
        HERE / "page.md",
        programs=sections,
        structureless=structureless_table(arguments.seeds),
        planted=planted_table(arguments.seeds),
        times=time_table(),
        seeds=arguments.seeds,
    )
    (EVIDENCE / "structure.md").write_text(page)
    print(f"written: {EVIDENCE / 'structure.md'}")


if __name__ == "__main__":
    main()
