"""The counting text itself, and putting it into a preprocessed text without moving a line.

The form of an increment matters more than anything else here. A plain `c++` is sunk out of loops by gcc and clang at -O2, so that
samples taken in the middle of a run read 0; a volatile increment is three instructions. One `incq` in an asm statement is one
instruction, and stays where it is put.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from unperturbed.instrument.finder import Hit
from unperturbed.instrument.preprocessed import PreprocessedText

__all__ = ["rewrite"]

_COUNTS = "__unperturbed_counts"
_VERSION = 1

# A name that users of the text cannot meet: it reads as a system header, so that debuggers and gcov leave it out.
_ORIGIN = '# 1 "<unperturbed>" 3'

_PROLOGUE = """\
{origin}
struct __unperturbed_table {{ struct __unperturbed_table *next; unsigned long long *counts; const unsigned int *metric; \
unsigned int sites; unsigned int version; }};
{language}void unperturbed_register(struct __unperturbed_table *) __attribute__((weak, visibility("default")));
static {volatile}unsigned long long {counts}[{sites}] __attribute__((section("unperturbed_sites"), used, aligned(64)));
static const unsigned int __unperturbed_metric[{sites}] = {{{metrics}}};
static struct __unperturbed_table __unperturbed_table = {{ 0, (unsigned long long *){counts}, __unperturbed_metric, {sites}u, \
{version}u }};
static void __attribute__((constructor)) __unperturbed_construct(void) {{ \
if (unperturbed_register) unperturbed_register(&__unperturbed_table); }}
"""

_INCREMENT = '__asm__ __volatile__("{{incq %0|inc %0}}":"+m"({slot}));'
_ADD = '__asm__ __volatile__("{{addq %1,%0|add %0,%1}}":"+m"({slot}):"er"((long long)({add})));'


def rewrite(text: PreprocessedText, hits: Sequence[Hit], *, source: str, language: str, x86_64: bool) -> bytes:
    """Return the text with counters in it.

    Parameters
    ----------
    hits : in the order of their slots.
    source : path of the source, for a text that names none.
    language : `c` or `c++`.
    x86_64 : count by one instruction; elsewhere by a volatile addition (several instructions; on 32-bit machines a sample may fall
        between the halves of a carry).

    Notes
    -----
    Nothing inserted holds a line break but the prologue, which brings its own line markers: file and line of all code stay.
    """
    insertions: list[tuple[int, int, int, bytes]] = []
    for slot, hit in enumerate(hits):
        counting = _counting(f"{_COUNTS}[{slot}]", hit, x86_64=x86_64)
        start, end = hit.spot.start, hit.spot.end
        if hit.spot.form == "expression":
            insertions.append((start, 2, -end, f"(__extension__({{{counting}}}),".encode()))
            insertions.append((end, 0, -start, b")"))
        elif hit.spot.form == "bare":
            insertions.append((start, 1, slot, f"if((__extension__({{{counting}}}),0));else ".encode()))
        else:
            insertions.append((start, 1, slot, counting.encode()))
    prologue = _prologue(text, hits, source=source, language=language, x86_64=x86_64)
    insertions.append((text.prologue_offset(), -1, 0, prologue.encode("utf-8", "surrogateescape")))
    return _inserted(text.data, insertions)


def _inserted(data: bytes, insertions: list[tuple[int, int, int, bytes]]) -> bytes:
    """Put texts in. At one offset closing parentheses come first, then statements, then opening ones, the widest outermost."""
    pieces = []
    last = 0
    for offset, _, _, piece in sorted(insertions):
        pieces += [data[last:offset], piece]
        last = offset
    return b"".join([*pieces, data[last:]])


def _counting(slot: str, hit: Hit, *, x86_64: bool) -> str:
    if x86_64:
        statement = _ADD.format(slot=slot, add=hit.add) if hit.add else _INCREMENT.format(slot=slot)
    else:
        # (void): the value of ({…}) would be read from the counter once more.
        statement = f"(void)({slot}+=(unsigned long long)(long long)({hit.add or 1}));"
    # (void)0: clang evaluates ({…}) in a constant expression only if it ends with an expression.
    return f"if(!__builtin_is_constant_evaluated()){{{statement}}}(void)0;" if hit.guarded else statement


def _prologue(text: PreprocessedText, hits: Sequence[Hit], *, source: str, language: str, x86_64: bool) -> str:
    prologue = _PROLOGUE.format(
        origin=_ORIGIN,
        language='extern "C" ' if language == "c++" else "extern ",
        volatile="" if x86_64 else "volatile ",
        counts=_COUNTS,
        sites=len(hits),
        metrics=",".join(str(hit.metric) for hit in hits),
        version=_VERSION,
    )
    offset = text.prologue_offset()
    if re.match(rb"#(?:line)? \d+ ", text.data[offset : offset + 16]):
        return prologue
    file, line = text.locate(offset)
    name = (file or source).replace("\\", "\\\\").replace('"', '\\"')
    here = f'# {line} "{name}"\n'
    return prologue + here if offset else here + prologue + here
