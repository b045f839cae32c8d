"""The effect of the kernel's power: on segments whose clusters are known, and on the whole alternation."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from experiments.common.figures import COLOURS, panels, save
from experiments.common.tables import markdown_table, right
from experiments.structure.milestones import adjusted_rand_index
from experiments.structure.second_run import LETTERS, motif, noisy, run_of
from unperturbed.analysis.structure import (
    Adequacy,
    Decomposition,
    Dictionary,
    description_length,
    first_decomposition,
    indel_distances,
    kernel,
    learn_dictionary,
    learn_monotone,
    nearest_prototype,
)

POWERS = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0)
NOISES = (0.0, 0.05, 0.15)
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
        for noise in NOISES[1:]:
            for power in POWERS:
                found = [_kept(choose, noise, power, seed) for seed in range(seeds)]
                shares, represented, singles, agreement = (np.array(column) for column in zip(*found, strict=True))
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
    found: Dictionary = learn_monotone(
        sequence, _unjudged, powers=(power,), thetas=(THETA,), random_starts=0, literal=literal
    )
    last = found.rounds[-1]
    return Ended(
        kept,
        len(found.rounds),
        len(last.words),
        last.cost,
        last.bits,
        found.bits.total,
        found.stopped.partition(",")[0],
    )


def _unjudged(found: Decomposition) -> Adequacy:
    return Adequacy(found.cost, 0.0, is_adequate=False)


def alternation_table(sequences: Sequence[str], units: Sequence[float]) -> list[str]:
    """Return what alternations end with, at each power; bits are relative to each sequence's unit. Medians."""
    rows = []
    for power in POWERS:
        ended = [alternation(sequence, power) for sequence in sequences]
        equal = [alternation(sequence, power, literal=True) for sequence in sequences]
        cycles = sum(one.stopped.startswith("cycle") for one in ended)
        rows.append(
            (
                f"{power:g}",
                f"{np.median([one.kept for one in ended]):.0%}",
                f"{np.median([one.rounds for one in ended]):g}",
                f"{cycles} of {len(ended)}",
                f"{np.median([one.words for one in ended]):g}",
                f"{np.median([one.edits for one in ended]):g}",
                *(
                    f"{np.median([value / unit for value, unit in zip(values, units, strict=True)]):.2f}"
                    for values in (
                        [one.bits for one in ended],
                        [one.pruned for one in ended],
                        [one.pruned for one in equal],
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
    for noise, colour in zip(NOISES, COLOURS, strict=False):
        drawn = [sequence_of(seed, noise) for seed in range(seeds)]
        own = [description_length(sequence, motifs).total for sequence, motifs in drawn]
        ended = [[alternation(sequence, power) for sequence, _ in drawn] for power in POWERS]
        curves = (
            [np.median([one.words for one in some]) for some in ended],
            [np.median([one.edits for one in some]) for some in ended],
            [np.median([one.bits / unit for one, unit in zip(some, own, strict=True)]) for some in ended],
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
