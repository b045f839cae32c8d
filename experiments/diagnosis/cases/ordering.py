"""The paper's ordering of two slow runs and one that breaks off, by its temporal distance and by plain distances.

    python -m experiments.diagnosis.cases.ordering [--runs 5]

Kamdem Kengne et al., section V, "Comparison with standards sequence distances" and table II: T_1 has a sleep-time of
30 ms a picture before the decoder, T_2 one of 5 ms, T_3 an error. d(T_r, T_1) > d(T_r, T_2) is what a viewer sees.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import median

import numpy as np

from experiments.common.evaluation import put_section
from experiments.common.provenance import made_by
from experiments.common.tables import markdown_table, right
from experiments.diagnosis.evaluate import dtw_distance, lcs_distance
from experiments.diagnosis.pipelines import PIPELINES, Clip
from experiments.diagnosis.record import PAGE, Take, read_take, record_takes
from unperturbed.analysis.diagnosis import EventTrace, abstract, learn_blocks, temporal_distance
from unperturbed.common.table import Column

CLIP = Clip("ball", "ticks", 125)
"""5 s, as the paper's `generic`."""
REFERENCE, CLEAN, T_1, T_2, T_3 = "T_r", "clean", "T_1: 30 ms", "T_2: 5 ms", "T_3: error"
SETTINGS: Mapping[str, Mapping[str, str]] = {
    REFERENCE: {},
    CLEAN: {},
    T_2: {"sleep-time": "5000"},
    T_1: {"sleep-time": "30000"},
    T_3: {"error-after": "63"},
}
"""Properties of the `identity` before the decoder. The paper's error comes after 500 buffers, of an unknown number."""

Distance = Callable[[EventTrace, EventTrace], float]


def _d3(variant: str) -> Distance:
    return lambda reference, other: temporal_distance(reference, other, variant=variant, per_plugin=False).total  # type: ignore[arg-type]


def _in_time(reference: EventTrace, other: EventTrace) -> float:
    return temporal_distance(reference, other, per_plugin=False).script().cost_in_time


DISTANCES: Mapping[str, tuple[Distance, tuple[float, float, float] | None]] = {
    "d3 of definition 4 (`paper`)": (_d3("paper"), (131525, 132090.5, float("nan"))),
    "d3 by gaps (`gaps`)": (_d3("gaps"), None),
    "of it in time": (_in_time, None),
    "Mannila's (`mannila`)": (_d3("mannila"), None),
    "DTW of event numbers": (dtw_distance, (504472, 509069, 920600)),
    "|x| + |y| − 2 LCS": (lcs_distance, (28086, 28035, 18377)),
}
"""Distance, and the paper's values for T_2, T_1 and T_3."""


def measure(traces: Mapping[str, Sequence[EventTrace]]) -> dict[str, dict[str, list[list[float]]]]:
    """Return distance → what was changed → a list for each reference of the distances of the runs from it."""
    distances: dict[str, dict[str, list[list[float]]]] = defaultdict(dict)
    for name, (distance, _) in DISTANCES.items():
        for label in (CLEAN, T_2, T_1, T_3):
            distances[name][label] = [
                [distance(reference, other) for other in traces[label]] for reference in traces[REFERENCE]
            ]
    return distances


def ordered(smaller: Sequence[Sequence[float]], larger: Sequence[Sequence[float]]) -> tuple[int, int]:
    """Return in how many triples of a reference and two runs the second distance is larger, and how many there are."""
    pairs = [(a, b) for near, far in zip(smaller, larger, strict=True) for a, b in product(near, far)]
    return sum(b > a for a, b in pairs), len(pairs)


def rows(distances: Mapping[str, Mapping[str, Sequence[Sequence[float]]]]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each distance."""
    for name, (_, papers) in DISTANCES.items():
        values = {label: np.concatenate(distances[name][label]) for label in distances[name]}
        cells = [f"{median(each):,.0f} ({each.min():,.0f} to {each.max():,.0f})" for each in values.values()]
        first, of = ordered(distances[name][CLEAN], distances[name][T_2])
        second, _ = ordered(distances[name][T_2], distances[name][T_1])
        quoted = (
            "–" if papers is None else "; ".join("–" if np.isnan(figure) else f"{figure:,.6g}" for figure in papers)
        )
        yield name, *cells, f"{first} of {of}", f"{second} of {of}", quoted


def section(traces: Mapping[str, Sequence[EventTrace]], made: str) -> list[str]:
    """Return the section of the page."""
    heads: list[Column | str] = [
        *right(CLEAN, T_2, T_1, T_3, "T_2 above clean", "T_1 above T_2"),
        "the paper's T_2; T_1; T_3",
    ]
    lengths = {label: f"{median(map(len, group)):,.0f}" for label, group in traces.items()}
    reference = traces[REFERENCE][0]
    began = time.process_time()
    blocks = learn_blocks([reference])
    learnt_s = time.process_time() - began
    short = abstract(reference, blocks)
    return [
        "## The ordering of table II, with d3",
        "",
        f"One stream of {CLIP.frames} pictures, {CLIP.seconds:g} s, decoded as fast as it can be (pipeline `decode`), "
        f"{len(traces[REFERENCE])} runs of each kind. Events are told apart as in section IV-B (level, function, first "
        "word). Medians, least and most over all pairs of a reference and a run; median events of a run: "
        f"{'; '.join(f'{label} {length}' for label, length in lengths.items())}.",
        "",
        *markdown_table(["distance from T_r", *heads], rows(measure(traces))),
        "",
        "A viewer sees T_1 slower than T_2 and T_2 slower than a clean run; the counts say in how many triples of a "
        "reference and two runs a distance says so.",
        "",
        f"**Blocks.** `learn_blocks` describes the {len(reference):,} events of the first reference in {len(short):,} "
        f"timestamped blocks, in {learnt_s:.2f} s of CPU time.",
        "",
        "**What changed on this section, and why.** Since 28 November 2026 the runs are recorded on a host that "
        "does nothing else. Beside other work (a load average of 6.4 before the recording) definition 4 put T_2 "
        "above a clean run in 75 of 125 triples, and T_1 above T_2 in 89; the part in time put all in order then, "
        "too.",
        "",
        made,
    ]


def main() -> None:
    """Record, measure, and write the section."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    folder = Path("campaigns/diagnosis_cases/ordering")
    parser.add_argument("--traces", type=Path, default=folder, help=f"folder of the logs ({folder})")
    parser.add_argument("--runs", type=int, default=5, help="runs of each kind (5)")
    chosen = parser.parse_args()
    made = made_by()
    names = {label: [f"{label.split(':')[0]}-{run}" for run in range(chosen.runs)] for label in SETTINGS}
    # Kinds take turns, so that what the host does meanwhile is not a property of one.
    takes = [
        Take(names[label][run], PIPELINES[0], CLIP, {"coded": properties} if properties else {})
        for run in range(chosen.runs)
        for label, properties in SETTINGS.items()
    ]
    record_takes(chosen.traces, takes)
    traces = {label: [read_take(chosen.traces, name) for name in group] for label, group in names.items()}
    put_section(PAGE, "ordering", section(traces, made))
    print(f"written: {PAGE}")


if __name__ == "__main__":
    main()
