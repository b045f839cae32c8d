"""One piece of structural analysis, in a process of its own: what it took, and what it found.

    python tests/benchmarks/structure_tasks.py TASK SYMBOLS WORDS SEED

prints a line of JSON.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_CLASSES, _LONGEST, _NOISE = 10, 16, 0.05

Words = list[tuple[int, ...]]


@dataclass(frozen=True)
class Task:
    """Something that is done with a sequence and words.

    Attributes
    ----------
    what : str
        What it computes, for the table.
    run : callable
        From a sequence and words to a number.
    planted : bool, default False
        Whether the sequence consists of the words, with noise; otherwise it has no structure.
    """

    what: str
    run: Callable[[NDArray[np.int32], Words], float]
    planted: bool = False


def _collapsed(symbols: NDArray[np.int64]) -> NDArray[np.int32]:
    return (
        symbols[np.append(True, np.diff(symbols) != 0)].astype(np.int32) if len(symbols) else symbols.astype(np.int32)
    )


def _words(rng: np.random.Generator, count: int) -> Words:
    """Return words of 5 to 16 symbols, the first one of 16."""
    made = []
    for number in range(count):
        length = _LONGEST if not number else int(rng.integers(5, _LONGEST + 1))
        made.append(tuple(_collapsed(rng.integers(0, _CLASSES, 4 * length))[:length].tolist()))
    return made


def _sequence(rng: np.random.Generator, symbols: int, words: Words, *, planted: bool) -> NDArray[np.int32]:
    if not planted:
        return _collapsed(rng.integers(0, _CLASSES, symbols * 5 // 4 + 50))[:symbols]
    chosen = rng.integers(0, len(words), symbols // 4)
    exact = np.concatenate([np.array(words[word]) for word in chosen.tolist()])[: symbols * 5 // 4]
    noisy, kinds = rng.random(len(exact)) < _NOISE, rng.integers(0, 2, len(exact))
    exact = np.where(noisy & (kinds == 0), rng.integers(0, _CLASSES, len(exact)), exact)
    return _collapsed(exact[~(noisy & (kinds == 1))])[:symbols]


def _decompose(sequence: NDArray[np.int32], words: Words) -> float:
    from unperturbed.analysis.structure import decompose

    return decompose(sequence, words).cost


def _learn(sequence: NDArray[np.int32], words: Words) -> float:
    """Return the bits with the words that are learnt, over those with the ones that are planted."""
    from unperturbed.analysis.structure import learn_dictionary

    found = learn_dictionary(sequence)
    kept["bits"] = found.bits.total
    return len(found.words)


def _distances(sequence: NDArray[np.int32], words: Words) -> float:
    from unperturbed.analysis.structure import indel_distances

    cuts = np.arange(0, len(sequence), 32)
    lengths = 1 + np.arange(len(cuts)) % 32
    segments = [
        tuple(sequence[cut : cut + length].tolist())
        for cut, length in zip(cuts.tolist(), lengths.tolist(), strict=True)
    ]
    return float(indel_distances(segments).sum())


def _plain(codes: Any, words: Any, lengths: Any, longest: int) -> float:
    """The plain recursion, compiled: from each start, each word's row of distances, symbol by symbol."""
    costs = np.full(len(codes) + 1, np.inf)
    costs[0] = 0
    row, above = np.empty(words.shape[1] + 1), np.empty(words.shape[1] + 1)
    for start in range(len(codes)):
        for word in range(len(lengths)):
            length = lengths[word]
            for place in range(length + 1):
                row[place] = place
            for end in range(start + 1, min(start + longest, len(codes)) + 1):
                above[: length + 1] = row[: length + 1]
                row[0] = above[0] + 1
                for place in range(length):
                    if words[word, place] == codes[end - 1]:
                        row[place + 1] = above[place]
                    else:
                        row[place + 1] = min(above[place + 1], row[place]) + 1
                costs[end] = min(costs[end], costs[start] + row[length])
    return float(costs[-1])


def _compiled_loop(sequence: NDArray[np.int32], words: Words) -> float:
    import numba

    loop = kept.setdefault("loop", numba.njit(_plain))
    padded = np.full((len(words), _LONGEST), -1, np.int32)
    for number, word in enumerate(words):
        padded[number, : len(word)] = word
    lengths = np.array([len(word) for word in words])
    return float(loop(sequence, padded, lengths, 2 * int(lengths.max())))


def _rapidfuzz(sequence: NDArray[np.int32], words: Words) -> float:
    """The same recursion in Python, each segment's distances by rapidfuzz."""
    from rapidfuzz.distance import Indel

    symbols, longest = sequence.tolist(), 2 * max(map(len, words))
    costs = [0.0]
    for end in range(1, len(symbols) + 1):
        ways = []
        for start in range(max(0, end - longest), end):
            segment = symbols[start:end]
            ways.append(costs[start] + min(Indel.distance(segment, word) for word in words))
        costs.append(min(ways))
    return costs[-1]


kept: dict[str, Any] = {}

TASKS = {
    "decompose": Task("optimal decomposition", _decompose),
    "loop": Task("the same recursion, a plain compiled loop", _compiled_loop),
    "rapidfuzz": Task("the same recursion in Python, distances by rapidfuzz", _rapidfuzz),
    "distances": Task("distances of all pairs of segments of 1 to 32 symbols", _distances),
    "learn": Task("a dictionary learnt, and judged beside 19 shuffled sequences", _learn, planted=True),
}


def _status(name: str) -> int:
    """Return a number of bytes from /proc/self/status."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024


def main() -> None:
    """Do the task once small, so that all is loaded and compiled, and then as asked."""
    name, symbols, count, seed = sys.argv[1], *map(int, sys.argv[2:5])
    task = TASKS[name]
    rng = np.random.default_rng(seed)
    words = _words(rng, count)
    few = words[:3]
    task.run(_sequence(rng, 300, few, planted=task.planted), few)
    sequence = _sequence(rng, symbols, words, planted=task.planted)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins again with what is resident now
    before, begin, begin_own = _status("VmRSS"), time.perf_counter(), time.process_time()
    value = task.run(sequence, words)
    found = {"seconds": time.process_time() - begin_own, "elapsed": time.perf_counter() - begin, "value": value}
    found["peak"] = _status("VmHWM") - before
    if task.planted:
        from unperturbed.analysis.structure import description_length

        found["ratio"] = kept["bits"] / description_length(sequence, words).total
    print(json.dumps({"ratio": 0.0, **found}))


if __name__ == "__main__":
    main()
