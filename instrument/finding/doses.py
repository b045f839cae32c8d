"""Counting code of several doses: a place that holds no increment or any number of them up to a maximum.

With one increment, a place does what a counter costs; with more, a multiple of it, from which the analysis extrapolates
to none (Malony, Reed and Wijshoff, "Performance Measurement Intrusion and Perturbation Analysis", IEEE Transactions on
Parallel and Distributed Systems 3(4), 1992). The first increment of a place is the metric's own, so a metric's count is
exact at every dose. Each other one adds as much to a dummy that nothing reads. A dose has an array of dummies with a
slot for each site, like the counters' own: each further dose costs the same instruction, and a line of memory more.

A place is as long as all its increments: a no-op for each. So all doses execute equally many instructions.
"""

from __future__ import annotations

from collections.abc import Sequence

_DUMMIES = "__unperturbed_dose"

# As in `binaries.places`, which reads the entries: distance to the place, metric, version 2, length of all
# instructions, number of doses, length of each dose, instructions.
_ENTRY = (
    '.Lunperturbed_%=:.pushsection unperturbed_places,\\"ao?\\",{progbits},.Lunperturbed_%=;.balign 4;'
    ".long .Lunperturbed_%=-.,{metric};.short 2,{end}f-{start}f;.byte {doses},{lengths};{text}{end}:.popsection;"
)


def dummy_arrays(sites: int, doses: int) -> str:
    """Return the declarations of the dummies of a translation unit, one array for each dose but the first."""
    attributes = 'section("unperturbed_sites"),used,aligned(64)'
    return "".join(
        f"static unsigned long long {_DUMMIES}{dose}[{sites}] __attribute__(({attributes}));\n"
        for dose in range(2, doses + 1)
    )


def dose_slots(slot: int, counter: str, doses: int) -> list[str]:
    """Return what the increments of a site add to: the metric's counter, then its dummies."""
    return [counter, *(f"{_DUMMIES}{dose}[{slot}]" for dose in range(2, doses + 1))]


def dose_entry(metric: int, texts: Sequence[str], progbits: str) -> str:
    """Return the entry of a place in the list of places; `texts`: the instructions of each dose."""
    lengths = ",".join(f"{_label(number + 1)}f-{_label(number)}f" for number in range(len(texts)))
    made = {
        "{progbits}": progbits,
        "{metric}": str(metric),
        "{start}": _label(0),
        "{end}": _label(len(texts)),
        "{doses}": str(len(texts)),
        "{lengths}": lengths,
        "{text}": "".join(f"{_label(number)}:{text};" for number, text in enumerate(texts)),
    }
    entry = _ENTRY
    for name, value in made.items():
        entry = entry.replace(name, value)
    return entry


def dose_no_ops(no_op: str, length: str, doses: int) -> str:
    """Return a no-op for each dose; `no_op`: one as long as the instructions between two labels, `length`."""
    return ";".join(no_op.replace(length, f"({_label(number + 1)}b-{_label(number)}b)") for number in range(doses))


def own_label(text: str, label: str, number: int) -> str:
    """Return instructions that jump to their first label, with the label of the dose instead of `label`."""
    return text.replace(f"{label}:", "").replace(f"{label}b", f"{_label(number)}b")


def _label(number: int) -> str:
    return f"7766{number + 1}"
