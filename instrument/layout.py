"""Another layout of the same program: its objects linked in another order, its sections shifted.

One binary is one sample of code layout, and the order in which objects are linked is enough to move results ("Producing wrong data
without doing anything obviously wrong", ASPLOS 2009, section 4). A layout is drawn at random from a text (seed, configuration and number); the
same text gives the same layout of the same objects:

- Objects that stand side by side on the link line are shuffled, unless the order could make another program of them (`objects`).
  Whatever else stands there (libraries, archives, linker options) stays where it is.
- Padding stands before all of them, in each kind of section a random number of alignment units within a page, and a little of it
  before up to eight of the others, so that functions also move against each other where the order stays.

No instruction of the program is another one, and none is added that would ever run.
"""

# pathlib would cost every link step 5 ms.
# ruff: noqa: PTH103, PTH118, PTH119, PTH122, PTH123

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

from unperturbed.errors import HostError
from unperturbed.instrument.commandline import Argument, Command, joined_value, machine_flags, split_arguments
from unperturbed.instrument.objects import is_object, why_order_matters
from unperturbed.instrument.options import LANGUAGES, UNCOUNTED
from unperturbed.instrument.response_files import expanded, response_text
from unperturbed.instrument.settings import Settings

__all__ = ["Layout", "draw_layout", "why_order_stays"]

_UNIT = 16
"""Functions are aligned so: whole units keep every alignment that the compiler chose."""

_FRONT_UNITS = 256
_GAP_UNITS = 16
_GAPS = 8
"""Units before all objects (a page), before others, and before how many of these: more would spread a large program over more pages than it has."""

_SECTIONS = {
    "u": '.section .text.unlikely,"ax",%progbits',
    "t": ".text",
    "r": '.section .rodata,"a",%progbits',
    "d": ".data",
    "b": ".bss",
}
"""What is padded. Linkers gather unlikely code before all other, `main` (.text.startup) between the two."""


class _Operand(NamedTuple):
    """An input that becomes code: its place among the arguments, the `-x` in force there, and with which others it may change places."""

    place: int
    forced: str
    group: int | None


class Layout(NamedTuple):
    """One layout, drawn.

    Attributes
    ----------
    seed : text that it is drawn from.
    pads : objects of padding: the first stands before everything, the others before operands.
    folder : that they stand in; it goes with `remove`.
    """

    seed: str
    pads: tuple[str, ...]
    folder: str

    def arranged(self, arguments: Sequence[str]) -> list[str]:
        """Return a link's arguments in this layout."""
        words = expanded(tuple(arguments))
        parsed = split_arguments(words)
        operands = _operands(parsed)
        texts = {operand.place: list(parsed[operand.place].words) for operand in operands}
        if not _why_order_stays(parsed, operands):
            chance = random.Random(f"{self.seed}:order")
            for group in dict.fromkeys(operand.group for operand in operands):
                places = [operand.place for operand in operands if operand.group == group and group is not None]
                drawn = chance.sample(places, len(places))
                texts |= {place: list(parsed[other].words) for place, other in zip(places, drawn, strict=True)}
        for operand, pad in zip(_chosen_gaps(self.seed, operands), self.pads[1:], strict=False):
            between = ["-x", "none", pad, "-x", operand.forced] if operand.forced else [pad]
            texts[operand.place][:0] = between
        arranged = [_kept(range(len(self.pads))), self.pads[0]]
        for place, argument in enumerate(parsed):
            arranged += texts.get(place, argument.words)
        return arranged if words == tuple(arguments) else [self._response_file(arranged)]

    def remove(self) -> None:
        """Remove the padding: it is linked."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _response_file(self, words: Sequence[str]) -> str:
        """Return a response file for arguments that came in one: they may be too many for a command line."""
        path = os.path.join(self.folder, "arguments")
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(response_text(words))
        return f"@{path}"


def draw_layout(settings: Settings, command: Command) -> Layout | None:
    """Draw the layout of a link, with its padding made; None when the settings ask for none.

    Raises
    ------
    HostError
        The compiler cannot make the padding.
    """
    if not settings.layout or not (command.executable or command.library):
        return None
    # Not the whole path: a sham build stands in another folder, and shall have the layout of the build that counts.
    seed = f"{settings.layout}:{os.path.basename(command.output)}"
    folder = os.path.join(settings.passing_folder, f"{os.getpid()}-{os.urandom(4).hex()}-layout")
    os.makedirs(folder)
    gaps = _chosen_gaps(seed, _operands(split_arguments(command.arguments)))
    chance = random.Random(f"{seed}:padding")
    sources = []
    for number in range(1 + len(gaps)):
        sources.append(f"pad{number}.c")
        with open(os.path.join(folder, sources[-1]), "w", encoding="ascii") as file:
            file.write(_padding(number, chance, _GAP_UNITS if number else _FRONT_UNITS))
    words = [command.compiler[-1], *machine_flags(command), "-fno-lto", "-g0", "-w", "-x", "c", "-c", *sources]
    try:
        made = subprocess.run(words, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise HostError(f"the compiler {words[0]} cannot be run ({error.strerror}); is it installed and on PATH?") from None
    if made.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        raise HostError(f"{words[0]} cannot make the padding of a layout: {made.stderr.strip()}")
    return Layout(seed, tuple(os.path.join(folder, f"pad{number}.o") for number in range(len(sources))), folder)


def why_order_stays(arguments: Sequence[str]) -> str:
    """Say why a layout leaves a link's operands in their order; empty when they are shuffled."""
    parsed = split_arguments(expanded(tuple(arguments)))
    operands = _operands(parsed)
    groups = [operand.group for operand in operands if operand.group is not None]
    if len(groups) == len(set(groups)):
        return "no two objects stand side by side in the link"
    return _why_order_stays(parsed, operands)


def _why_order_stays(parsed: Sequence[Argument], operands: Sequence[_Operand]) -> str:
    for operand in operands:
        path = parsed[operand.place].name
        if operand.group is not None and (reason := why_order_matters(path)):
            return f"{path}: {reason}"
    return ""


def _operands(parsed: Sequence[Argument]) -> list[_Operand]:
    """Return the objects and sources of a link. Between two libraries, archives or linker options objects may change places."""
    operands: list[_Operand] = []
    forced, group = "", 0
    for place, argument in enumerate(parsed):
        name = argument.name
        if not argument.is_input:
            if name.startswith("-x"):
                value = joined_value(argument, "-x")
                forced = "" if value == "none" else value
            if name.startswith(("-l", "-Wl,", "-Xlinker", "-x")):
                group += 1
        elif not forced and is_object(name):
            operands.append(_Operand(place, "", group))
        else:
            group += 1
            if forced or os.path.splitext(name)[1] in {*LANGUAGES, *UNCOUNTED}:
                operands.append(_Operand(place, forced, None))
    return operands


def _chosen_gaps(seed: str, operands: Sequence[_Operand]) -> list[_Operand]:
    """Return the operands that padding stands before."""
    behind_first = range(1, len(operands))
    chosen = random.Random(f"{seed}:gaps").sample(behind_first, min(_GAPS, len(behind_first)))
    return [operands[number] for number in sorted(chosen)]


def _padding(number: int, chance: random.Random, units: int) -> str:
    """Return the C text of an object of padding."""
    lines = []
    for letter, section in _SECTIONS.items():
        symbol = _symbol(number, letter)
        lines += [section, f".balign {_UNIT}", f".globl {symbol}", f".hidden {symbol}", f"{symbol}:"]
        lines.append(f".skip {_UNIT * chance.randrange(units)}")
    return "".join(f"__asm__({_quoted(line)});\n" for line in lines)


def _quoted(line: str) -> str:
    escaped = line.replace('"', '\\"')
    return f'"{escaped}\\n"'


def _symbol(number: int, letter: str) -> str:
    return f"unperturbed_pad_{number}{letter}"


def _kept(numbers: Sequence[int]) -> str:
    """Return the option that keeps padding where the linker removes what nothing refers to (--gc-sections)."""
    return "-Wl," + ",".join(f"-u,{_symbol(number, letter)}" for number in numbers for letter in _SECTIONS)
