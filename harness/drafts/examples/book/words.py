"""Count the words of a random text."""

import random

KINDS = 500


def draw(chance, many):
    """Return words drawn at random."""
    return [f"word{int(chance.random() ** 2 * KINDS)}" for _ in range(many)]


def count(words):
    """Return how often each word occurs."""
    counts = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return counts


def main():
    """Count the words of 30 chapters, and print the most common word."""
    chance, total = random.Random(1), {}
    for _ in range(30):
        for word, times in count(draw(chance, 2000)).items():
            total[word] = total.get(word, 0) + times
        sorted(total, key=total.get)
    print(max(total, key=total.get), sum(total.values()))


if __name__ == "__main__":
    main()
