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
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments.common.evaluation import EVIDENCE, fill_page
from experiments.common.provenance import made_by
from experiments.common.tables import markdown_table, right
from experiments.structure.accesses import FILES, AccessPath, lengths_of_files, read_path
from experiments.structure.accesses import SIZES as FILE_SIZES
from experiments.structure.power import (
    COPIES,
    SYMBOLS,
    THETA,
    alternation_table,
    draw_powers,
    kernel_table,
    sequence_of,
)
from experiments.structure.second_run import LETTERS, collapsed
from unperturbed.analysis.structure import (
    Dictionary,
    StructuralSequence,
    description_length,
    indel_distance,
    learn_dictionary,
    letters_of,
    structural_sequence,
)

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
    found = learn_dictionary(sequence, method=METHODS[method], adequate=bound)  # type: ignore[arg-type]
    return found, time.process_time() - start


def planted_table(seeds: int) -> list[str]:
    """Return how well each method finds planted motifs."""
    rows = []
    for noise in NOISES:
        drawn = [sequence_of(seed, noise) for seed in range(seeds)]
        own = [description_length(sequence, motifs).total for sequence, motifs in drawn]
        for method in METHODS:
            found = [learn(sequence, method)[0] for sequence, _ in drawn]
            ratios = [one.bits.total / unit for one, unit in zip(found, own, strict=True)]
            exact = [len(set(one.words) & set(motifs)) for one, (_, motifs) in zip(found, drawn, strict=True)]
            rows.append(
                (
                    f"{noise:.0%}",
                    method,
                    f"{np.median(ratios):.2f}",
                    f"{max(ratios):.2f}",
                    f"{np.mean(exact):.1f} of 3",
                    f"{np.median([len(one.words) for one in found]):g}",
                    f"{np.median([one.adequacy.cost for one in found]):g}",
                    f"{sum(one.is_adequate for one in found)} of {seeds}",
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
        found, _ = learn(sequence, method)
        decomposition, first = found.decomposition, sequence.starts
        begins = first[decomposition.cuts[:-1]]
        ends = np.append(begins[1:], sequence.elements)
        for number, word in enumerate((*found.words, None)):
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
        found, _ = learn(sequence, method)
        rows.append(
            (
                method,
                f"{found.bits.total:.0f} of {found.baseline_bits:.0f}",
                f"{found.adequacy.cost:g}",
                f"{found.adequacy.bound:g}",
                "adequate" if found.is_adequate else "not adequate",
                found.stopped,
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
