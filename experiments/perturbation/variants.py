"""The experiment's specs changed: shorter inputs and layouts that vary, or longer inputs and a processor's counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from experiments.perturbation.series import HERE, Program

Length = Literal["short", "as written", "long"]

LAYOUTS = 32
INTERVAL = "2 ms"
"""By the clock: where the processor's instructions end intervals, their count is the same in all, and has no pairs."""
COUNTERS = ("PAPI_TOT_INS", "PAPI_TOT_CYC", "PAPI_BR_INS", "PAPI_BR_MSP", "PAPI_L1_DCM", "PAPI_L2_DCM")
"""What six counters of a processor hold at once: pairs need both metrics in one run."""


@dataclass(frozen=True)
class Input:
    """What decides how long a program runs."""

    key: str  # Key of the spec's `program`, or a file beside the spec
    # written, short, long: The text there; what makes the run about a third as long, for a simulator; and what gives
    # a processor some seconds of work.
    written: str
    short: str
    long: str

    def of(self, length: Length) -> str:
        """Return the text for a length."""
        return {"short": self.short, "as written": self.written, "long": self.long}[length]


INPUTS: Mapping[str, Input] = {
    "bzip2": Input("prepare", "--size 3000000", "--size 1000000", "--size 30000000"),
    "chess": Input("chess/positions.txt", "depth 7", "depth 5", "depth 9"),
    "network": Input("prepare", "--trips 1080", "--trips 620", "--trips 2600"),
    "redcode": Input("run", "-r 36", "-r 12", "-r 400"),
}


def write_variant(
    folder: Path, program: Program, *, layouts: bool = False, counters: tuple[str, ...] | None = None
) -> Path:
    """Write a variant of a program's spec.

    `layouts`: Three steps, the first, the middle and the last, with a layout of its own for each run.
    `counters`: Count these by the processor, at intervals of time. Without it, the simulator counts what the spec says.
    """
    folder.mkdir(parents=True, exist_ok=True)
    spec: dict[str, Any] = yaml.safe_load(program.spec.read_text())
    length: Length = "long" if counters else "short" if layouts else "as written"
    _set_length(folder, spec, INPUTS[program.name], length)
    if layouts:
        names = list(spec["campaign"]["subsets"])
        chosen = (names[0], names[len(names) // 2], names[-1])
        spec["campaign"] |= {
            "baseline_runs": LAYOUTS,
            "runs": LAYOUTS,
            "layouts": "varied",
            "subsets": {name: spec["campaign"]["subsets"][name] for name in chosen},
        }
    if counters:
        measure = spec["measure"]
        measure.pop("simulator")
        measure |= {"source": "auto", "clock": "monotonic", "interval": INTERVAL, "hardware": list(counters)}
    path = folder / f"{program.name}.yaml"
    path.write_text(yaml.safe_dump(spec, sort_keys=False))
    return path


def _set_length(folder: Path, spec: dict[str, Any], given: Input, length: Length) -> None:
    """Change the input, and find by their whole path the files that the spec finds beside itself."""
    program = spec["program"]
    if given.key in program:
        program[given.key] = program[given.key].replace(given.written, given.of(length))
    else:
        (folder / given.key).parent.mkdir(exist_ok=True)
        (folder / given.key).write_text((HERE / given.key).read_text().replace(given.written, given.of(length)))
    for key, text in program.items():
        if isinstance(text, str):
            program[key] = text.replace("{spec}", str(HERE))
