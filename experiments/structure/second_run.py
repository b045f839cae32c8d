"""How often a second run is called different, and when it should be: written to docs/evidence/structure_second_run.md.

    python experiments/structure/second_run.py [--pairs 40] [--seed 1]

Both runs are made of the same three motifs in a random order, with noise; the words are learnt of the first. A second run with something
foreign in it has one more motif, of a class that the first one lacks or of the same classes, for a tenth or a twentieth of its length.
"""

from __future__ import annotations

import argparse
import random
from itertools import groupby
from pathlib import Path

from unperturbed.analysis.structure import compare_structure, compose, structural_sequence

EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence" / "structure_second_run.md"
LETTERS = "abcde"
CLASSES = {letter: number for number, letter in enumerate(LETTERS + "f")}
SIZES, NOISES = (100, 300, 1000), (0.0, 0.05, 0.15)
KINDS = ("the same", "a new class, 1/10", "other words, 1/10", "other words, 1/20")


def collapsed(text: str) -> str:
    """Return a text without repetitions."""
    return "".join(symbol for symbol, _ in groupby(text))


def motif(chance: random.Random, letters: str) -> str:
    """Return 5 to 12 symbols without equal neighbours."""
    length, made = chance.randint(5, 12), ""
    while len(made) < length:
        made = collapsed(made + chance.choice(letters))
    return made


def run_of(chance: random.Random, motifs: list[str], size: int, noise: float) -> str:
    """Return motifs in a random order, a share of the symbols lost, replaced or followed by another."""
    told = ""
    while len(told) < size:
        told = collapsed(told + chance.choice(motifs))
    noisy = []
    for symbol in told:
        other = chance.choice(LETTERS)
        made = chance.choice(((), (other,), (symbol, other))) if chance.random() < noise else (symbol,)
        noisy += made
    return collapsed("".join(noisy))


def second_of(chance: random.Random, motifs: list[str], size: int, noise: float, kind: str) -> str:
    """Return a second run of some kind."""
    made = run_of(chance, motifs, size, noise)
    if kind == KINDS[0]:
        return made
    length = size // int(kind.rpartition("/")[2])
    foreign = run_of(chance, [motif(chance, LETTERS + "f" * 4 if "class" in kind else LETTERS)], length, noise)
    middle = len(made) // 2
    return collapsed(made[:middle] + foreign + made[middle:])


def main() -> None:
    """Count, and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=40, help="pairs of runs of each kind (40)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rows = []
    for noise in NOISES:
        for size in SIZES:
            different, learned = dict.fromkeys(KINDS, 0), 0
            for pair in range(arguments.pairs):
                chance = random.Random(f"{arguments.seed} {noise} {size} {pair}")
                motifs = [motif(chance, LETTERS) for _ in range(3)]
                first = structural_sequence(list(run_of(chance, motifs, size, noise)), classes=CLASSES)
                learnt = compose(first, adequate=0)
                if not learnt.dictionary.words:
                    continue
                learned += 1
                for kind in KINDS:
                    second = structural_sequence(list(second_of(chance, motifs, size, noise, kind)), classes=first.classes)
                    # The second run's own words say nothing here, so those of the first stand for them.
                    found = compare_structure(learnt, type(learnt)(second, learnt.dictionary), seed=pair)
                    different[kind] += not found.adequacy.is_adequate
            shares = (f"{different[kind] / learned:.0%}" if learned else "–" for kind in KINDS)
            rows.append(f"| {noise:.0%} | {size:,} | {learned} | {' | '.join(shares)} |")
            print(rows[-1], flush=True)
    EVIDENCE.write_text(
        "# When a second run is called different\n\n"
        f"`python experiments/structure/second_run.py --pairs {arguments.pairs} --seed {arguments.seed}`. Both runs are made of the same three "
        "motifs of 5 to 12 symbols over 5 classes, in a random order;\nthe share of the symbols that the noise column says is lost, replaced or "
        f"followed by another. Words are learnt of the first; of {arguments.pairs} pairs, as many have words. Of these, called different\nat a level "
        "of 5 %, when the second has nothing foreign in it, and when a part of its length is made of one more motif.\n\n"
        f"| noise | symbols | with words | {' | '.join(KINDS)} |\n|---:|---:|---:|{'---:|' * len(KINDS)}\n"
        + "\n".join(rows)
        + "\n"
    )


if __name__ == "__main__":
    main()
