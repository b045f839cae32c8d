"""Fills letters in, one by one: the program that tools observe."""

import json
import re
import sys

LETTER = "Dear {name}, your order of {count} {item} leaves on {day}. " * 8
PLACES = re.compile(r"{(\w+)}")

words: dict[str, int] = {}


def letter_of(order: dict[str, object]) -> str:
    """Return the letter about an order."""
    return PLACES.sub(lambda place: str(order[place[1]]), LETTER)


for number in range(int(sys.argv[1])):
    written = json.dumps({"name": f"customer {number}", "count": number % 7, "item": "lamps", "day": "Monday"})
    for word in letter_of(json.loads(written)).split():
        words[word] = words.get(word, 0) + 1
    if number % 100 == 0:
        print(len(words), flush=True)
