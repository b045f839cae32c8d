"""How well planted motifs are found, and how often sequences without structure seem to have some: a table, printed.

    python -m tests.analysis.structure.dictionary.recovery [--seeds 20] [--first 0] [--method NAME] [--only KIND]

Motifs: 3 of 5 to 12 symbols of 5 classes, some 290 symbols. `ratio` is the description length with what was learnt over
that with the true motifs, or without words where they do not pay; `exact` those whose words are the motifs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from time import process_time

import numpy as np

from tests.analysis.structure.planted import planted, structureless
from unperturbed.analysis.structure import description_length, learn_dictionary

Case = tuple[str, list[str]]

CASES: dict[str, Callable[[int], Case]] = {
    **{f"noise {noise:g}": (lambda seed, noise=noise: planted(seed, noise)) for noise in (0, 0.05, 0.15, 0.25, 0.35)},
    **{
        f"{size} symbols, noise .15": (lambda seed, size=size: planted(seed, 0.15, size=size))
        for size in (60, 100, 150)
    },
    "even classes": lambda seed: (structureless(seed), []),
    "uneven classes": lambda seed: (structureless(seed, weights=(8, 4, 2, 1, 1)), []),
    "three classes": lambda seed: (structureless(seed, weights=(1, 1, 1)), []),
    "ten classes, 1000 symbols": lambda seed: (structureless(seed, size=1000, weights=(1,) * 10), []),
}


def rows(seeds: range, method: str, only: str) -> Iterator[str]:
    for name, make in CASES.items():
        if only not in name:
            continue
        ratios, adequate, wordless, exact, spent = [], 0, 0, 0, []
        for seed in seeds:
            sequence, motifs = make(seed)
            began = process_time()
            found = learn_dictionary(sequence, method=method)
            spent.append(process_time() - began)
            best = min(description_length(sequence, words).total for words in ([], motifs))
            ratios.append(found.bits.total / best)
            adequate += found.is_adequate
            wordless += not found.words
            exact += sorted(found.words) == sorted(motifs)
        spread = " ".join(f"{value:.3f}" for value in np.quantile(ratios, (0.5, 0.9, 1)))
        over = sum(ratio > 1.1 for ratio in ratios)
        yield (
            f"{name:28} ratio {spread}, over 1.1: {over:3}, exact {exact:3}, without words {wordless:3}, "
            f"adequate {adequate:3} of {len(seeds)}; {np.mean(spent):.2f} s"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--method", default="description_length")
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    for row in rows(range(given.first, given.first + given.seeds), given.method, given.only):
        print(row, flush=True)


if __name__ == "__main__":
    main()
