"""The paper's composite algorithm beside words by description length: planted words, the power, a path of accesses.

    python -m experiments.structure.methods [--seeds 10]

Writes docs/evidence/structure_methods.md and its figure. The path of accesses is the one that
`python -m experiments.structure.accesses` recorded.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from experiments.common.evaluation import EVIDENCE, fill_page
from experiments.common.figures import COLOURS, panels, save
from experiments.common.provenance import made_by
from experiments.common.tables import markdown_table, right
from experiments.structure.accesses import FILES, AccessPath, lengths_of_files, read_path
from experiments.structure.accesses import SIZES as FILE_SIZES
from experiments.structure.milestones import adjusted_rand_index
from experiments.structure.second_run import LETTERS, collapsed, motif, noisy, run_of
from unperturbed.analysis.structure import (
    Adequacy,
    Decomposition,
    Dictionary,
    StructuralSequence,
    description_length,
    first_decomposition,
    indel_distance,
    indel_distances,
    kernel,
    learn_dictionary,
    learn_monotone,
    letters_of,
    nearest_prototype,
    structural_sequence,
)

POWERS = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0)
KERNEL_NOISES = (0.0, 0.05, 0.15)
COPIES, THETA, SYMBOLS = 20, 0.3, 300
APART = ("abcdefgh", "ijklmnop", "qrstuvwx")
"""Motifs without a common symbol: each is as far from each other as two segments of eight symbols can be."""


def motifs_of(rng: random.Random) -> list[str]:
    """Return three motifs of 5 to 12 symbols over five classes."""
    return [motif(rng, LETTERS) for _ in range(3)]


def sequence_of(seed: int, noise: float, size: int = SYMBOLS) -> tuple[str, list[str]]:
    """Return motifs in a random order with noise, and the motifs."""
    rng = random.Random(f"{seed} {noise} {size}")
    motifs = motifs_of(rng)
    return run_of(rng, motifs, size, noise), motifs


def kernel_table(seeds: int) -> list[str]:
    """Return what the kernel keeps of noisy copies of three motifs, cut where they were joined."""
    rows = []
    for kind, choose in (("random", motifs_of), ("equally far apart", lambda _: list(APART))):
        for noise in KERNEL_NOISES[1:]:
            for power in POWERS:
                outcomes = [_kept(choose, noise, power, seed) for seed in range(seeds)]
                shares, represented, singles, agreement = (np.array(column) for column in zip(*outcomes, strict=True))
                rows.append(
                    (
                        kind,
                        f"{noise:.0%}",
                        f"{power:g}",
                        f"{np.median(shares):.0%}",
                        f"{represented.mean():.1f} of 3",
                        f"{singles.sum()} of {seeds}",
                        f"{np.median(agreement):.2f}",
                    )
                )
    heads = ("noise", "power", "segments kept", "motifs with a word", "one word each", "adjusted Rand index")
    return markdown_table(["motifs", *right(*heads)], rows)


def _kept(
    choose: Callable[[random.Random], list[str]], noise: float, power: float, seed: int
) -> tuple[float, int, bool, float]:
    """Return the share of segments kept, motifs among them, whether one each, and how (4) agrees with the motifs."""
    rng = random.Random(f"{seed} {noise}")
    motif_of = {noisy(rng, word, noise): number for number, word in enumerate(choose(rng)) for _ in range(COPIES)}
    segments, motifs = list(motif_of), np.array(list(motif_of.values()))
    distances = indel_distances(segments)
    members = kernel(distances, power).members
    represented = len(set(motifs[members].tolist()))
    agreement = adjusted_rand_index(nearest_prototype(distances, members), motifs)
    return len(members) / len(segments), represented, represented == len(members) == 3, agreement


@dataclass(frozen=True)
class Ended:
    """What the alternation of one power ended with."""

    kept: float  # Share of the different segments of the first decomposition that the first kernel keeps
    rounds: int  # Until a dictionary came back
    words: int  # Of the last dictionary
    edits: float  # J of (7) over them
    bits: float  # Of that decomposition
    pruned: float  # Bits of the best round without the words that save none, which is what the tool keeps
    stopped: str  # Why it ended


def alternation(sequence: str, power: float, *, literal: bool = False) -> Ended:
    """Run one alternation from the window's first decomposition."""
    cuts = first_decomposition(sequence, theta=THETA).tolist()
    segments = list(dict.fromkeys(sequence[first:stop] for first, stop in pairwise(cuts)))
    kept = len(kernel(indel_distances(segments), power).members) / len(segments)
    dictionary: Dictionary = learn_monotone(
        sequence, _unjudged, powers=(power,), thetas=(THETA,), random_starts=0, literal=literal
    )
    last = dictionary.rounds[-1]
    return Ended(
        kept,
        len(dictionary.rounds),
        len(last.words),
        last.cost,
        last.bits,
        dictionary.bits.total,
        dictionary.stopped.partition(",")[0],
    )


def _unjudged(decomposition: Decomposition) -> Adequacy:
    return Adequacy(decomposition.cost, 0.0, is_adequate=False)


def alternation_table(sequences: Sequence[str], units: Sequence[float]) -> list[str]:
    """Return what alternations end with, at each power; bits are relative to each sequence's unit. Medians."""
    rows = []
    for power in POWERS:
        ended = [alternation(sequence, power) for sequence in sequences]
        equal = [alternation(sequence, power, literal=True) for sequence in sequences]
        cycles = sum(outcome.stopped.startswith("cycle") for outcome in ended)
        rows.append(
            (
                f"{power:g}",
                f"{np.median([outcome.kept for outcome in ended]):.0%}",
                f"{np.median([outcome.rounds for outcome in ended]):g}",
                f"{cycles} of {len(ended)}",
                f"{np.median([outcome.words for outcome in ended]):g}",
                f"{np.median([outcome.edits for outcome in ended]):g}",
                *(
                    f"{np.median([value / unit for value, unit in zip(values, units, strict=True)]):.2f}"
                    for values in (
                        [outcome.bits for outcome in ended],
                        [outcome.pruned for outcome in ended],
                        [outcome.pruned for outcome in equal],
                    )
                ),
            )
        )
    heads = (
        "power",
        "segments kept",
        "rounds",
        "cycles",
        "words",
        "J",
        "bits",
        "pruned",
        "pruned, equal segments kept",
    )
    return markdown_table(right(*heads), rows)


def draw_powers(path: Path, seeds: int) -> None:
    """Draw words, J and bits at the end of alternations over the power, for each noise."""
    figure, axes = panels(3, height=2.6)
    for noise, colour in zip(KERNEL_NOISES, COLOURS, strict=False):
        drawn = [sequence_of(seed, noise) for seed in range(seeds)]
        own = [description_length(sequence, motifs).total for sequence, motifs in drawn]
        ended = [[alternation(sequence, power) for sequence, _ in drawn] for power in POWERS]
        curves = (
            [np.median([outcome.words for outcome in some]) for some in ended],
            [np.median([outcome.edits for outcome in some]) for some in ended],
            [np.median([outcome.bits / unit for outcome, unit in zip(some, own, strict=True)]) for some in ended],
        )
        for place, curve in zip(axes, curves, strict=True):
            place.plot(POWERS, curve, marker=".", color=colour, label=f"noise {noise:.0%}")
        default = [learn_dictionary(sequence, adequate=0).bits.total for sequence, _ in drawn]
        ratio = np.median([bits / unit for bits, unit in zip(default, own, strict=True)])
        axes[2].axhline(ratio, color=colour, linestyle=":")
    for place, label in zip(axes, ("words", "J", "bits / bits with the true motifs"), strict=True):
        place.set(xscale="log", xlabel="power", ylabel=label)
        place.set_xticks([1, 2, 4, 8, 16, 32], ["1", "2", "4", "8", "16", "32"], minor=False)
        place.minorticks_off()
    axes[0].legend(frameon=False)
    save(figure, path)


HERE = Path(__file__).parent
METHODS = {"default": "description_length", "paper": "monotone"}
"""From a method's name on the page to the library's."""
NOISES = (0.0, 0.05, 0.15, 0.25)
WEIGHTS = {"five classes, evenly": (1, 1, 1, 1, 1), "five classes, unevenly": (8, 4, 2, 1, 1)}
MORE = 3
"""Times as many sequences without structure as planted ones: what is rare there needs more."""
SIZES, TIMED = (300, 1_000, 2_000), 3
POWER_NOISE = 0.05


def learn(sequence: str | StructuralSequence, method: str, *, bound: float | None = None) -> tuple[Dictionary, float]:
    """Return what a method learns, and the processor time it takes in seconds."""
    start = time.process_time()
    dictionary = learn_dictionary(sequence, method=METHODS[method], adequate=bound)  # type: ignore[arg-type]
    return dictionary, time.process_time() - start


def planted_table(seeds: int) -> list[str]:
    """Return how well each method finds planted motifs."""
    rows = []
    for noise in NOISES:
        drawn = [sequence_of(seed, noise) for seed in range(seeds)]
        own = [description_length(sequence, motifs).total for sequence, motifs in drawn]
        for method in METHODS:
            dictionaries = [learn(sequence, method)[0] for sequence, _ in drawn]
            ratios = [dictionary.bits.total / unit for dictionary, unit in zip(dictionaries, own, strict=True)]
            exact = [
                len(set(dictionary.words) & set(motifs))
                for dictionary, (_, motifs) in zip(dictionaries, drawn, strict=True)
            ]
            rows.append(
                (
                    f"{noise:.0%}",
                    method,
                    f"{np.median(ratios):.2f}",
                    f"{max(ratios):.2f}",
                    f"{np.mean(exact):.1f} of 3",
                    f"{np.median([len(dictionary.words) for dictionary in dictionaries]):g}",
                    f"{np.median([dictionary.adequacy.cost for dictionary in dictionaries]):g}",
                    f"{sum(dictionary.is_adequate for dictionary in dictionaries)} of {seeds}",
                )
            )
    heads = right("bits: median", "most", "motifs found", "words", "J", "adequate")
    return markdown_table([*right("noise"), "method", *heads], rows)


def structureless_table(seeds: int) -> list[str]:
    """Return how often each method calls words of independent symbols adequate."""
    rows = []
    for kind, weights in WEIGHTS.items():
        drawn = [_independent(seed, weights) for seed in range(seeds)]
        for method in METHODS:
            # Without words a model is not adequate, so that only those with words need shuffled sequences.
            worded = [sequence for sequence in drawn if learn(sequence, method, bound=0)[0].words]
            adequate = sum(learn(sequence, method)[0].is_adequate for sequence in worded)
            rows.append((kind, method, f"{len(worded)} of {seeds}", f"{adequate} of {seeds}"))
    return markdown_table(["symbols", "method", *right("with words", "adequate")], rows)


def _independent(seed: int, weights: Sequence[int]) -> str:
    rng, made = random.Random(seed), ""
    while len(made) < SYMBOLS:
        made = collapsed(made + "".join(rng.choices(LETTERS, weights, k=SYMBOLS)))
    return made[:SYMBOLS]


def time_table() -> list[str]:
    """Return the processor time of each method, taken by turns."""
    rows = []
    for size in SIZES:
        taken: dict[str, list[float]] = {method: [] for method in METHODS}
        for seed in range(TIMED):
            for method, times in taken.items():
                times.append(learn(sequence_of(seed, POWER_NOISE, size)[0], method)[1])
        rows.append((f"{size:,}", *(f"{np.median(times):.1f}" for times in taken.values())))
    return markdown_table(right("symbols", *(f"{method}, processor s" for method in METHODS)), rows)


def access_table(path: AccessPath, sequence: StructuralSequence) -> list[str]:
    """Return each method's words of the path, and the stages that their segments begin in."""
    rows = []
    for method in METHODS:
        dictionary, _ = learn(sequence, method)
        decomposition, first = dictionary.decomposition, sequence.starts
        begins = first[decomposition.cuts[:-1]]
        ends = np.append(begins[1:], sequence.elements)
        for number, word in enumerate((*dictionary.words, None)):
            own = np.flatnonzero(decomposition.words == (-1 if word is None else number))
            if not len(own):
                continue
            stages = Counter(path.stages[place] for place in begins[own])
            rows.append(
                (
                    method,
                    "no word" if word is None else letters_of(word),
                    len(own),
                    f"{(ends[own] - begins[own]).sum() / sequence.elements:.1%}",
                    f"{decomposition.distances[own].sum()}",
                    ", ".join(f"{stage}: {times}" for stage, times in stages.most_common()),
                )
            )
    numbers = right("times", "of the accesses", "edits")
    return markdown_table(["method", "word", *numbers, "stage in which its segments begin"], rows)


def access_scores(sequence: StructuralSequence) -> list[str]:
    """Return the bits, J and bound of each method on the path."""
    rows = []
    for method in METHODS:
        dictionary, _ = learn(sequence, method)
        rows.append(
            (
                method,
                f"{dictionary.bits.total:.0f} of {dictionary.baseline_bits:.0f}",
                f"{dictionary.adequacy.cost:g}",
                f"{dictionary.adequacy.bound:g}",
                "adequate" if dictionary.is_adequate else "not adequate",
                dictionary.stopped,
            )
        )
    return markdown_table(["method", *right("bits", "J", "bound a(L)"), "model", "why the search ended"], rows)


def access_facts(path: AccessPath, sequence: StructuralSequence) -> dict[str, str | int | list[str]]:
    """Return what the page says of the path."""
    lengths = lengths_of_files()
    return {
        "path_recorded": path.recorded,
        "path_accesses": f"{len(path.pages):,}",
        "path_files": FILES,
        "path_sizes": " or ".join(f"{size:,}" for size in FILE_SIZES),
        "path_classes_list": [f"- {line}" for line in sequence.classes.describe()],
        "path_pages": len(set(path.pages)),
        "path_classes": len(sequence.classes),
        "path_symbols": len(sequence),
        "path_sorts": lengths.count(max(FILE_SIZES)),
        "path_small": lengths.count(min(FILE_SIZES)),
    }


def main() -> None:
    """Evaluate, and write the page and its figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=10, help="planted sequences of each kind (10)")
    seeds = parser.parse_args().seeds
    made = made_by()
    learn(sequence_of(0, 0.0)[0], "default")  # compiles
    drawn = [sequence_of(seed, POWER_NOISE) for seed in range(seeds)]
    path = read_path()
    sequence = structural_sequence(path.pages, element="access")
    text = letters_of(sequence.symbols.tolist())
    (EVIDENCE / "structure").mkdir(exist_ok=True)
    draw_powers(EVIDENCE / "structure" / "power.svg", seeds)
    page = fill_page(
        HERE / "methods.md",
        made=made,
        seeds=seeds,
        figure_1=indel_distance("aabaa", "aaba"),
        symbols=SYMBOLS,
        timed=TIMED,
        copies=COPIES,
        theta=THETA,
        noise=f"{POWER_NOISE:.0%}",
        planted=planted_table(seeds),
        structureless=structureless_table(MORE * seeds),
        times=time_table(),
        kernels=kernel_table(seeds),
        alternations=alternation_table(
            [sequence for sequence, _ in drawn],
            [description_length(sequence, motifs).total for sequence, motifs in drawn],
        ),
        path_alternations=alternation_table([text], [learn(sequence, "default")[0].bits.total]),
        path_words=access_table(path, sequence),
        path_scores=access_scores(sequence),
        **access_facts(path, sequence),
    )
    (EVIDENCE / "structure_methods.md").write_text(page)
    print(f"written: {EVIDENCE / 'structure_methods.md'}")


if __name__ == "__main__":
    main()
