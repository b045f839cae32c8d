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
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from experiments.common.evaluation import EVIDENCE, evaluation_parser, fill_page, run_campaign
from experiments.common.figures import save
from experiments.common.provenance import made_by, recorded
from experiments.common.tables import markdown_table, right
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
from unperturbed.analysis.structure.dictionary.learning import Method
from unperturbed.collectors.data import Trace

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999", "#000000", "#882255")
"""Okabe and Ito's, which people with any sight can distinguish."""
GREYS = ("#666666", "#bbbbbb", "#222222", "#8c8c8c", "#dddddd", "#444444")
SHOWN = 200
METRIC = "PAPI_TOT_CYC"


def draw(path: Path, structure: Found, phase_of: Sequence[int]) -> None:
    """Draw the first intervals of a run.

    Parameters
    ----------
    path : Path
        The SVG file. The name of its folder salts the identifiers within.
    found : Found
        The program's phases and words.
    phase_of : sequence of int
        The phase of each class.
    """
    figure = Figure(figsize=(9, 3.3), layout="constrained")
    axes: Any = figure.subplots(4, 1, sharex=True, height_ratios=(5, 1, 1, 1))
    trace, sequence, words = structure.runs[0], structure.sequence, structure.dictionary.decomposition
    axes[0].plot(trace[METRIC] / np.maximum(trace["PAPI_TOT_INS"], 1), linewidth=0.7, color="#333333")
    axes[0].set(
        ylabel="cycles an\ninstruction",
        title=f"{structure.program.name}: the first {SHOWN} intervals of a run",
        xlim=(0, SHOWN),
    )
    strips: dict[str, Any] = {
        "milestones": structure.truth.labels,
        "classes": np.array(_colours_of(phase_of, len(structure.program.phases)))[sequence.labels],
        "words": np.repeat(np.repeat(words.words, np.diff(words.cuts)), sequence.lengths),
    }
    for place, (name, labels) in zip(axes[1:], strips.items(), strict=True):
        shown = np.ma.masked_less(labels[None, :SHOWN], 0)
        colours: Any = ListedColormap(COLOURS if name != "words" else GREYS)
        place.imshow(
            shown,
            aspect="auto",
            interpolation="none",
            cmap=colours,
            vmin=0,
            vmax=colours.N - 1,
            extent=(0, SHOWN, 0, 1),
        )
        place.set(yticks=[], ylabel=name)
        place.yaxis.label.set(rotation=0, ha="right", va="center")
    for cut in sequence.starts[words.cuts[:-1]]:
        axes[3].axvline(cut, color="white", linewidth=1)
    axes[-1].set(xlabel="interval")
    patches = [
        Patch(color=colour, label=phase) for colour, phase in zip(COLOURS, structure.program.phases, strict=False)
    ]
    figure.legend(handles=patches, loc="outside lower center", ncols=len(patches), frameon=False)
    save(figure, path)


def _colours_of(phase_of: Sequence[int], phases: int) -> list[int]:
    """Return the number of each class's colour: its phase's for the first class of it, a further one for others."""
    colours: list[int] = []
    further = phases
    for phase in phase_of:
        if phase in colours:
            colours.append(further % len(COLOURS))
            further += 1
        else:
            colours.append(phase)
    return colours


HERE = Path(__file__).parent
METHODS: tuple[Method, ...] = ("description_length", "monotone")
"""The default, and the paper's composite algorithm."""
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
    """Phases and words of a program's runs."""

    program: Program  # What ran
    runs: tuple[Trace, ...]  # Those with the milestones
    sequence: StructuralSequence  # Of the first run
    truth: Truth  # Of the first run, by its milestones
    dictionary: Dictionary  # Learned from the sequence, by default
    paper: Dictionary  # Learned from the sequence by the paper's composite algorithm

    @property
    def dictionaries(self) -> dict[str, Dictionary]:
        """What each method learned."""
        return {"default": self.dictionary, "paper": self.paper}


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
    default, paper = (learn_dictionary(sequence, method=method) for method in METHODS)
    return Found(program, tuple(runs), sequence, truth_of(runs[0], program), default, paper)


def with_noise(trace: Trace, sigma: float, seed: int) -> Trace:
    """Multiply the simulated counters, but instructions, by log-normal factors with this σ."""
    rng = np.random.default_rng(seed)
    factors = {
        name: np.exp(sigma * rng.normal(size=len(trace))) for name in trace.names("simulated") if name != "PAPI_TOT_INS"
    }
    changed = {name: np.rint(trace[name] * factor).astype(np.int64) for name, factor in factors.items()}
    return replace(trace, columns={**trace.columns, **changed})


def ways_table(structure: Found) -> list[str]:
    """Return the scores of ways to classify, with noise added."""
    rows = []
    for noise in NOISES:
        trace = with_noise(structure.runs[0], noise, seed=1)
        for way, options in WAYS.items():
            scores = score(structural_sequence(trace, **options), structure.truth)
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


def runs_table(structure: Found) -> list[str]:
    """Return the scores of further runs, classified as the first."""
    rows = []
    for number, trace in enumerate(structure.runs):
        sequence = structural_sequence(trace, classes=structure.sequence.classes)
        name = f"{number + 1}{', whose classes these are' if number == 0 else ''}"
        rows.append((name, *cells(score(sequence, truth_of(trace, structure.program))), len(sequence.outliers)))
    return markdown_table(["run", *right(*COLUMNS, "unlike all classes")], rows)


def words_table(structure: Found) -> list[str]:
    """Return the words that each method learned, in the program's phases."""
    phase_of = phase_of_classes(structure)
    rows = []
    for method, dictionary in structure.dictionaries.items():
        segments = dictionary.decomposition.words
        for number, word in enumerate(dictionary.words):
            phases = [structure.program.phases[phase_of[int(symbol)]] for symbol in word]  # type: ignore[call-overload]
            different = [phase for phase, _ in groupby(phases)]
            rows.append((method, letters_of(word), int((segments == number).sum()), ", ".join(different)))
    return markdown_table(["method", "word", *right("times"), "its phases"], rows)


def methods_table(structure: Found) -> list[str]:
    """Return how well the words of each method describe the run, and those of the phases' order by milestones."""
    order = structure.truth.order.tolist()
    sources = {
        "the run's symbols": structure.dictionaries,
        "the milestones' phases": dict(
            zip(structure.dictionaries, (learn_dictionary(order, method=method) for method in METHODS), strict=True)
        ),
    }
    rows = [
        (
            source,
            method,
            len(learned.words),
            f"{learned.bits.total:.0f} of {learned.baseline_bits:.0f}",
            f"{learned.adequacy.cost:g}",
            f"{learned.adequacy.bound:g}",
            "yes" if learned.is_adequate else "no",
            learned.stopped,
        )
        for source, dictionaries in sources.items()
        for method, learned in dictionaries.items()
    ]
    heads = right("words", "bits", "J", "bound a(L)")
    return markdown_table(["learnt of", "method", *heads, "adequate", "why the search ended"], rows)


def words_paragraph(structure: Found) -> str:
    """Return what the words are compared with."""
    order = structure.truth.order.tolist()
    own = description_length(order, [structure.program.numbers(word) for word in structure.program.words]).total
    return (
        f"Of {len(structure.sequence)} symbols, and of {len(order)} phases, which take {own:.0f} bits by the program's "
        f"own words. The phases of the run's symbols are {indel_distance(_phase_order(structure), order)} insertions "
        "and deletions from those by milestones; *edits* above count from the first milestone on, these from the start "
        "of the run."
    )


def phase_of_classes(structure: Found) -> list[int]:
    """Return the phase of each class of the first run, and last of its outliers."""
    whole = structure.truth.labels >= 0
    classes = structure.sequence.labels.astype(np.int64)
    return list(map(int, phases_of_classes(classes[whole], structure.truth.labels[whole], int(classes.max()) + 1)))


def _phase_order(structure: Found) -> list[int]:
    """Return the phases of the first run's classes, without repetitions."""
    phase_of = phase_of_classes(structure)
    return [phase for phase, _ in groupby(phase_of[symbol] for symbol in structure.sequence.symbols.tolist())]


def section(structure: Found) -> str:
    """Return a program's part of the page."""
    return "\n".join(
        [
            f"## {structure.program.name}",
            "",
            f"{len(structure.runs[0])} intervals; phases by milestones: {', '.join(structure.program.phases)}.",
            "",
            *(f"- {line}" for line in structure.sequence.classes.describe()),
            "",
            f"![{structure.program.name}](structure/{structure.program.name}.svg)",
            "",
            "The first run, with random factors on its counters:",
            "",
            *ways_table(structure),
            "",
            "All runs by the classes of the first:",
            "",
            *runs_table(structure),
            "",
            "Words learnt of the first run, by each method:",
            "",
            *words_table(structure),
            "",
            words_paragraph(structure),
            "",
            *methods_table(structure),
            "",
        ]
    )


def main() -> None:
    """Run what is missing, evaluate, write the page and its figures."""
    parser = evaluation_parser(__doc__, "structure")
    parser.add_argument("--seeds", type=int, default=20, help="draws of planted classes of each kind (20)")
    arguments = parser.parse_args()
    made = made_by()
    sections = []
    (EVIDENCE / "structure").mkdir(exist_ok=True)
    for program in (PHASES, BLOCKSORT):
        structure = analyse(program, runs_of(campaign_of(program, arguments.campaigns), program))
        draw(EVIDENCE / "structure" / f"{program.name}.svg", structure, phase_of_classes(structure))
        sections.append(section(structure))
        print(f"{program.name}: evaluated", file=sys.stderr)
    page = fill_page(
        HERE / "page.md",
        programs=sections,
        structureless=structureless_table(arguments.seeds),
        planted=planted_table(arguments.seeds),
        times=time_table(),
        seeds=arguments.seeds,
        recorded=recorded(arguments.campaigns / program.name for program in (PHASES, BLOCKSORT)),
        made=made,
    )
    (EVIDENCE / "structure.md").write_text(page)
    print(f"written: {EVIDENCE / 'structure.md'}")


if __name__ == "__main__":
    main()
