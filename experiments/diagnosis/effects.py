"""Effects of each change: by its label, and as measured.

python -m experiments.diagnosis.effects             the index of labels, for README.md
python -m experiments.diagnosis.effects FOLDER      what the sinks of the traces in FOLDER showed
"""

from __future__ import annotations

import csv
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from experiments.common.tables import markdown_table
from experiments.diagnosis.changes import CHANGES
from experiments.diagnosis.pipelines import PIPELINES

Row = Mapping[str, str]


def read_table(folder: Path) -> list[Row]:
    """Return the rows of traces.csv."""
    with (folder / "traces.csv").open(newline="") as table:
        return list(csv.DictReader(table))


def index() -> str:
    """Return the list of each change's effects, and where; one that does the same in several pipelines has one item."""
    places: dict[tuple[str, str, str, str], list[str]] = {}
    for change in CHANGES:
        for pipeline in PIPELINES:
            if strengths := change.strengths(pipeline):
                listed = ", ".join(f"{strength:g}" for strength in sorted(strengths))
                key = (f"{change.name} {change.place}".strip(), f"{listed} {change.unit}", *change.effect(pipeline))
                places.setdefault(key, []).append(f"{pipeline.name} ({sum(strengths.values())})")
    return "\n".join(
        f"- **{change}**, {strengths}, in {', '.join(where)}: *{kind}*.\n  {does[0].upper()}{does[1:]}."
        for (change, strengths, kind, does), where in places.items()
    )


def measured(rows: Sequence[Row]) -> str:
    """Return the table of what was noticed: a row for each pipeline, change and strength; ranges over its traces."""
    groups = defaultdict(list)
    for row in rows:
        key = (
            row["pipeline"],
            row["change"] if row["role"] == "anomalous" else row["role"],
            row["place"],
            float(row["strength"]),
            row["unit"],
        )
        groups[key].append(row)
    lines = []
    for (pipeline, change, place, strength, unit), group in sorted(groups.items()):
        found = Counter(kind for row in group for kind in json.loads(row["noticed"]))
        lines.append(
            (
                pipeline,
                f"{change} {place}".strip(),
                f"{strength:g} {unit}" if unit else "",
                str(len(group)),
                "; ".join(f"{kind} {times}" for kind, times in sorted(found.items())),
                _range(group, "pictures_lost_share", 100),
                _range(group, "sound_lost_share", 100),
                _range(group, "late_ms"),
                _range(group, "sound_early_ms"),
                _range(group, "sound_late_ms"),
                _range(group, "missing_end_ms"),
                _range(group, "lines"),
            )
        )
    head = (
        "pipeline",
        "change",
        "strength",
        "traces",
        "noticed",
        "pictures lost %",
        "sound lost %",
        "late ms",
        "sound early ms",
        "sound late ms",
    )
    return "\n".join(markdown_table((*head, "end missing ms", "lines"), lines))


def _range(rows: Iterable[Row], column: str, scale: float = 1) -> str:
    """Return the least and the most of a column, or the one value."""
    values = [f"{scale * float(row[column]):.0f}" for row in rows]
    least, most = min(values, key=float), max(values, key=float)
    return least if least == most else f"{least}–{most}"


if __name__ == "__main__":
    print(measured(read_table(Path(sys.argv[1]))) if len(sys.argv) > 1 else index())
