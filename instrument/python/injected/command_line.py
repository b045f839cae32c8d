"""Parser for Python command lines: the options, and the script, module or code to run."""

from __future__ import annotations

_WITH_VALUE = "cmWXQ"
_LONG_WITH_VALUE = ("--check-hash-based-pycs",)


class CommandLine:
    """Parsed arguments of a Python interpreter."""

    def __init__(self, options: tuple[str, ...], letters: frozenset[str], kind: str, value: str) -> None:
        self.options = options  # Python's own options, as given, without -c and -m
        self.letters = letters  # Single-letter options among them that take no value
        self.kind = kind  # `script`, `module` (-m), `code` (-c) or `stdin`
        self.value = value  # Path, module name or code; '' for stdin


def read_command_line(words: list[str]) -> CommandLine:
    """Parse the arguments of the interpreter, as CPython's getopt does."""
    options: list[str] = []
    letters: set[str] = set()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            break
        if word == "-" or not word.startswith("-"):
            rest.insert(0, word)
            break
        if word.startswith("--"):
            options.append(word)
            if word in _LONG_WITH_VALUE and rest:
                options.append(rest.pop(0))
            continue
        for place, letter in enumerate(word[1:], 1):
            if letter not in _WITH_VALUE:
                letters.add(letter)
                continue
            value = word[place + 1 :] or (rest.pop(0) if rest else "")
            before = word[:place]
            if letter in "cm":
                kept = (*options, before) if len(before) > 1 else tuple(options)
                return CommandLine(kept, frozenset(letters), "code" if letter == "c" else "module", value)
            options += [f"{before}{letter}", value]
            break
        else:
            options.append(word)
    kind, value = ("script", rest[0]) if rest and rest[0] != "-" else ("stdin", "")
    return CommandLine(tuple(options), frozenset(letters), kind, value)
