"""How often a second run is called different, and when it should be: written to docs/evidence/structure_second_run.md.

    python -m experiments.structure.second_run [--pairs 40] [--seed 1]

Both runs consist of the same three motifs in a random order, with noise; the words are learned from the first. A second
run with something foreign in it has one more motif, of a class that the first one lacks or of the same classes, for a
tenth or a twentieth of its length.
"""

from __future__ import annotations

import argparse
import random
from itertools import groupby
from pathlib import Path

from experiments.common.evaluation import EVIDENCE, fill_page
from experiments.common.provenance import made_by
from experiments.common.tables import markdown_table, right
from unperturbed.analysis.structure import Composition, compare_structure, compose, structural_sequence

HERE = Path(__file__).parent
LETTERS = "abcde"
CLASSES = {letter: number for number, letter in enumerate(LETTERS + "f")}
SIZES, NOISES = (100, 300, 1000), (0.0, 0.05, 0.15)
KINDS = ("the same", "a new class, 1/10", "other words, 1/10", "other words, 1/20")


def collapsed(text: str) -> str:
    """Return a text without repetitions."""
    return "".join(symbol for symbol, _ in groupby(text))


def motif(rng: random.Random, letters: str) -> str:
    """Return 5 to 12 symbols without equal neighbours."""
    length, symbols = rng.randint(5, 12), ""
    while len(symbols) < length:
        symbols = collapsed(symbols + rng.choice(letters))
    return symbols


def noisy(rng: random.Random, exact: str, noise: float) -> str:
    """Return a text with a share of its symbols lost, replaced or followed by another."""
    symbols: list[str] = []
    for symbol in exact:
        other = rng.choice(LETTERS)
        symbols += rng.choice(((), (other,), (symbol, other))) if rng.random() < noise else (symbol,)
    return collapsed("".join(symbols))


def run_of(rng: random.Random, motifs: list[str], size: int, noise: float) -> str:
    """Return motifs in a random order, a share of the symbols lost, replaced or followed by another."""
    exact = ""
    while len(exact) < size:
        exact = collapsed(exact + rng.choice(motifs))
    return noisy(rng, exact, noise)


def second_of(rng: random.Random, motifs: list[str], size: int, noise: float, kind: str) -> str:
    """Return a second run of some kind."""
    run = run_of(rng, motifs, size, noise)
    if kind == KINDS[0]:
        return run
    length = size // int(kind.rpartition("/")[2])
    foreign = run_of(rng, [motif(rng, LETTERS + "f" * 4 if "class" in kind else LETTERS)], length, noise)
    middle = len(run) // 2
    return collapsed(run[:middle] + foreign + run[middle:])


def main() -> None:
    """Count, and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=40, help="pairs of runs of each kind (40)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    made = made_by()
    rows = []
    for noise in NOISES:
        for size in SIZES:
            different, learned = dict.fromkeys(KINDS, 0), 0
            for pair in range(arguments.pairs):
                rng = random.Random(f"{arguments.seed} {noise} {size} {pair}")
                motifs = [motif(rng, LETTERS) for _ in range(3)]
                first = structural_sequence(list(run_of(rng, motifs, size, noise)), classes=CLASSES)
                composition = compose(first, adequate=0)
                if not composition.dictionary.words:
                    continue
                learned += 1
                for kind in KINDS:
                    symbols = list(second_of(rng, motifs, size, noise, kind))
                    second = structural_sequence(symbols, classes=first.classes)
                    # The second run's own words do not matter here, so they are not learned.
                    comparison = compare_structure(composition, Composition(second, composition.dictionary), seed=pair)
                    different[kind] += not comparison.is_adequate
            shares = (f"{different[kind] / learned:.0%}" if learned else "–" for kind in KINDS)
            rows.append((f"{noise:.0%}", f"{size:,}", learned, *shares))
            print(*rows[-1], flush=True)
    table = markdown_table(right("noise", "symbols", "with words", *KINDS), rows)
    error = f"{100 * (0.05 * 0.95 / arguments.pairs) ** 0.5:.1f}"
    page = fill_page(HERE / "second_run.md", pairs=arguments.pairs, error=error, table=table, made=made)
    (EVIDENCE / "structure_second_run.md").write_text(page)


if __name__ == "__main__":
    main()
