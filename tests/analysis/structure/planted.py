"""Sequences made of motifs in a random order, with noise and with runs collapsed; and sequences without structure."""

import random
from itertools import groupby


def collapsed(symbols):
    return "".join(symbol for symbol, _ in groupby(symbols))


def motif(chance, letters, length):
    made = chance.choice(letters)
    while len(made) < length:
        made = collapsed(made + chance.choice(letters))
    return made


def planted(seed, noise, *, motifs=3, size=290, letters="abcde", lengths=(5, 12)):
    """Return a sequence of about so many symbols, and its motifs.

    A symbol in `noise` of all is lost, replaced, or followed by another, each as often. What is equal side by side is
    collapsed before and after.
    """
    chance = random.Random(seed)
    words = [motif(chance, letters, chance.randint(*lengths)) for _ in range(motifs)]
    told = ""
    while len(told) < size:
        told = collapsed(told + chance.choice(words))
    noisy = []
    for symbol in told:
        kind = chance.choice(("lost", "replaced", "followed")) if chance.random() < noise else ""
        other = chance.choice(letters)
        noisy += {"": [symbol], "lost": [], "replaced": [other], "followed": [symbol, other]}[kind]
    return collapsed(noisy), words


def structureless(seed, *, size=290, weights=(1, 1, 1, 1, 1), letters="abcdefghij"):
    """Return independent symbols without equal neighbours."""
    chance = random.Random(seed)
    made = ""
    while len(made) < size:
        made = collapsed(made + "".join(chance.choices(letters[: len(weights)], weights, k=size)))
    return made[:size]
