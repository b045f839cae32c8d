"""The paper's experiment again: diagnose every recorded trace, and write the results to docs/evidence/diagnosis.md.

    python -m experiments.diagnosis.evaluate [--traces FOLDER]

The folder is what `record.py` makes. Each trace is diagnosed against the references of its pipeline and clip; labels,
and what a viewer would have noticed, come from the recorder. The diagnosis is compared with the paper's own rule and
plain distances of sequences as in its table II.
"""

from __future__ import annotations

import argparse
import gzip
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rapidfuzz.distance import Indel

from experiments.common.evaluation import EVIDENCE, fill_page
from experiments.common.provenance import made_by
from experiments.common.tables import markdown_table, right
from experiments.diagnosis import missing_types, slow_phases
from experiments.diagnosis.record import PAPERS, WITH_OBJECTS, read_rows
from experiments.diagnosis.shown import CUT, DESYNCHRONISED, LOST, SLOW
from unperturbed.analysis.alignment import dtw_cost
from unperturbed.analysis.diagnosis import (
    EventTrace,
    anomaly_kinds,
    diagnose,
    dropping_distance,
    occurrence_distance,
    read_events,
    shared_ids,
)

HERE = Path(__file__).parent
_GSTREAMER = re.compile(r"GStreamer Core Library version ([\d.]+)")
KINDS = tuple(anomaly_kinds())
"""What the diagnosis looks for; its page has a column for each."""
MEASURED = (CUT, LOST, DESYNCHRONISED, SLOW)
"""What is measured at the sinks. No change of the plan acts on a part of the run only, so that none is a slow phase."""
THETA = 0.25


@dataclass(frozen=True)
class Diagnosed:
    """A test trace and its diagnosis."""

    row: dict[str, Any]  # As the recorder wrote it
    verdict: str  # Of the diagnosis
    kinds: tuple[str, ...]  # The kinds of anomaly that it names
    papers: tuple[int, int]  # The paper's occurrence and dropping distance from the first reference
    # lcs, dtw: Plain distances from the first reference, which know of no time and of no kind.
    lcs: int
    dtw: float

    @property
    def is_clean(self) -> bool:
        """Tell whether nothing was changed."""
        return bool(self.row["role"] == "clean")

    @property
    def noticed(self) -> tuple[str, ...]:
        """Return the kinds of what a viewer would have noticed."""
        return tuple(self.row["noticed"])

    @property
    def named_rightly(self) -> bool:
        """Tell whether a kind that was measured at the sinks is among those that the diagnosis names."""
        return bool(set(self.noticed) & set(self.kinds))


def diagnose_all(folder: Path, rows: Sequence[dict[str, Any]], report: Callable[[str], None]) -> list[Diagnosed]:
    """Diagnose every test trace against the references of its pipeline and clip."""
    cells = defaultdict(list)
    for row in rows:
        cells[row["pipeline"], row["clip"]].append(row)
    diagnoses = []
    for number, ((pipeline, clip), members) in enumerate(cells.items(), 1):
        report(f"{pipeline}, {clip}: {number} of {len(cells)}")
        references = [row for row in members if row["role"] == "reference"]
        known = [read_events(folder / row["log"], identity=WITH_OBJECTS) for row in references]
        first = read_events(folder / references[0]["log"], identity=PAPERS)
        for row in members:
            if row["role"] == "reference":
                continue
            diagnosis = diagnose(known, read_events(folder / row["log"], identity=WITH_OBJECTS))
            trace = read_events(folder / row["log"], identity=PAPERS)
            diagnoses.append(
                Diagnosed(
                    row=row,
                    verdict=diagnosis.verdict,
                    kinds=tuple(finding.kind for finding in diagnosis.findings),
                    papers=papers_distances(first, trace),
                    lcs=lcs_distance(first, trace),
                    dtw=dtw_distance(first, trace),
                )
            )
    return diagnoses


def lcs_distance(reference: EventTrace, trace: EventTrace) -> int:
    """Return |x| + |y| − 2 LCS, of the paper's table II."""
    _, (first, other) = shared_ids([reference, trace])
    return int(Indel.distance(first.tolist(), other.tolist()))


def dtw_distance(reference: EventTrace, trace: EventTrace) -> float:
    """Return DTW of events coded as integers, of the same table."""
    _, (first, other) = shared_ids([reference, trace])
    return float(dtw_cost(first.astype(np.float64), other.astype(np.float64)))


def papers_distances(reference: EventTrace, trace: EventTrace) -> tuple[int, int]:
    """Return the paper's occurrence and dropping distance."""
    return occurrence_distance(reference, trace, theta=THETA).total, dropping_distance(reference, trace).total


def confusion(diagnoses: Sequence[Diagnosed]) -> list[str]:
    """Return the confusion matrix, anomalies by verdict and kind, as Markdown."""
    groups = {"nothing changed": [diagnosed for diagnosed in diagnoses if diagnosed.is_clean]}
    for kind in MEASURED:
        groups[f"{kind}, noticeable"] = [diagnosed for diagnosed in diagnoses if kind in diagnosed.noticed]
    rows = []
    groups["changed, and nothing to be noticed"] = [
        diagnosed for diagnosed in diagnoses if not diagnosed.is_clean and not diagnosed.noticed
    ]
    for label, group in groups.items():
        counts = [
            sum(diagnosed.verdict == verdict for diagnosed in group) for verdict in ("clean", "undecided", "anomalous")
        ]
        named = [sum(kind in diagnosed.kinds for diagnosed in group) for kind in KINDS]
        rows.append((label, len(group), *counts, *named))
    numbers = right("traces", "called clean", "undecided", "called anomalous", *(f"… {kind}" for kind in KINDS))
    return markdown_table(["what was there", *numbers], rows)


def by_strength(diagnoses: Sequence[Diagnosed]) -> list[str]:
    """Return a row for each change and strength."""
    rows = []
    groups = defaultdict(list)
    for diagnosed in diagnoses:
        if not diagnosed.is_clean:
            change = f"{diagnosed.row['change']} {diagnosed.row['place']}".strip()
            groups[change, diagnosed.row["unit"], float(diagnosed.row["strength"])].append(diagnosed)
    for (change, unit, strength), group in sorted(groups.items()):
        noticeable = [diagnosed for diagnosed in group if diagnosed.noticed]
        called = sum(diagnosed.verdict == "anomalous" for diagnosed in group)
        right_kind = f"{sum(diagnosed.named_rightly for diagnosed in noticeable)}" if noticeable else "–"
        of_them = f"{sum(diagnosed.verdict == 'anomalous' for diagnosed in noticeable)}" if noticeable else "–"
        rows.append((change, f"{strength:g} {unit}", len(group), len(noticeable), called, of_them, right_kind))
    numbers = right("traces", "noticeable", "called anomalous", "of the noticeable", "kind named rightly")
    return markdown_table(["change", "strength", *numbers], rows)


def _above_best(
    measured: Callable[[Diagnosed], float], clean: Sequence[Diagnosed], noticeable: Sequence[Diagnosed]
) -> Callable[[Diagnosed], bool]:
    """Return whether a trace's distance is above the threshold that separates these best."""
    best = best_threshold(
        [measured(diagnosed) for diagnosed in clean], [measured(diagnosed) for diagnosed in noticeable]
    )
    return lambda diagnosed: measured(diagnosed) > best


def other_ways(diagnoses: Sequence[Diagnosed]) -> list[str]:
    """Return how well the diagnosis, the paper's rule and plain distances separate clean from noticeable traces."""
    clean = [diagnosed for diagnosed in diagnoses if diagnosed.is_clean]
    noticeable = [diagnosed for diagnosed in diagnoses if diagnosed.noticed]
    ways: dict[str, tuple[Callable[[Diagnosed], bool], str]] = {
        "the diagnosis": (lambda diagnosed: diagnosed.verdict == "anomalous", "yes"),
        f"the paper's rule: any of its occurrence (θ = {THETA}) and dropping distance above 0": (
            lambda diagnosed: sum(diagnosed.papers) > 0,
            "yes",
        ),
    }
    distances: dict[str, Callable[[Diagnosed], float]] = {
        "the paper's two distances added, above the best threshold": lambda diagnosed: sum(diagnosed.papers),
        "LCS distance above the best threshold": lambda diagnosed: diagnosed.lcs,
        "DTW of event numbers above the best threshold": lambda diagnosed: diagnosed.dtw,
    }
    for name, measured in distances.items():
        ways[name] = (_above_best(measured, clean, noticeable), "no")
    rows = []
    for name, (is_anomalous, names_kind) in ways.items():
        false, missed = sum(map(is_anomalous, clean)), sum(not is_anomalous(diagnosed) for diagnosed in noticeable)
        share = 1 - (false + missed) / (len(clean) + len(noticeable))
        rows.append((name, f"{false} of {len(clean)}", f"{missed} of {len(noticeable)}", f"{share:.1%}", names_kind))
    numbers = right("false alarms", "noticeable anomalies missed", "right")
    return markdown_table(["way", *numbers, "names the kind"], rows)


def best_threshold(clean: Sequence[float], noticeable: Sequence[float]) -> float:
    """Return the threshold that separates *these* traces best, which flatters: it is fitted to what it is judged by."""
    candidates = np.unique([*clean, *noticeable])
    errors = [(np.array(clean) > at).sum() + (np.array(noticeable) <= at).sum() for at in candidates]
    return float(candidates[int(np.argmin(errors))])


def table_2(diagnoses: Sequence[Diagnosed]) -> list[str]:
    """Return the plain distances' ranges for clean traces and for the paper's changes, in the paper's pipeline."""
    rows = []
    groups: dict[str, list[Diagnosed]] = {
        "clean": [diagnosed for diagnosed in diagnoses if diagnosed.is_clean and diagnosed.row["pipeline"] == "decode"]
    }
    for diagnosed in sorted(diagnoses, key=lambda diagnosed: float(diagnosed.row["strength"])):
        if diagnosed.row["pipeline"] == "decode" and diagnosed.row["change"] in ("sleep-time", "error-after"):
            groups.setdefault(
                f"{diagnosed.row['change']} {diagnosed.row['strength']:g} {diagnosed.row['unit']}", []
            ).append(diagnosed)
    for label, group in groups.items():
        lcs, dtw = ([getattr(diagnosed, name) for diagnosed in group] for name in ("lcs", "dtw"))
        kinds = sorted({kind for diagnosed in group for kind in diagnosed.kinds}) or ["clean"]
        ranges = (f"{min(lcs):,} to {max(lcs):,}", f"{min(dtw):,.0f} to {max(dtw):,.0f}")
        rows.append((label, *ranges, ", ".join(kinds)))
    return markdown_table(["traces in `decode`", *right("LCS distance", "DTW distance"), "said"], rows)


def missed(diagnoses: Iterable[Diagnosed]) -> list[str]:
    """Return a line for every trace with a wrong diagnosis."""
    lines = []
    for diagnosed in diagnoses:
        wrong = (
            diagnosed.verdict != "clean"
            if diagnosed.is_clean
            else bool(diagnosed.noticed) and not diagnosed.named_rightly
        )
        if wrong:
            there = _undisturbed(diagnosed.row) if diagnosed.is_clean else ", ".join(diagnosed.noticed)
            called = f"{diagnosed.verdict}{': ' if diagnosed.kinds else ''}{', '.join(diagnosed.kinds)}"
            lines.append(f"- `{diagnosed.row['name']}`: {there}; called {called}.")
    return lines or ["None."]


def _undisturbed(row: dict[str, Any]) -> str:
    """Return what the sinks and the host show of a run in which nothing was changed."""
    apart = max(row["sound_late_ms"], row["sound_early_ms"])
    return (
        f"nothing changed (at the sinks {row['late_ms']:.0f} ms late, sound and picture {apart:.0f} ms apart; load "
        f"{row['load']:.0f})"
    )


def recorded(folder: Path, rows: Sequence[dict[str, Any]]) -> str:
    """Return the sentence that says when the traces were recorded, with which GStreamer, and on how busy a host."""
    days = sorted(row["ended_at"][:10] for row in rows)
    when = f"on {days[0]}" if days[0] == days[-1] else f"from {days[0]} to {days[-1]}"
    loads = [row["load"] for row in rows]
    again = sum(row["attempt"] > 1 for row in rows)
    with gzip.open(folder / rows[0]["log"], "rt", errors="replace") as log:
        version = next((match[1] for line in log if (match := _GSTREAMER.search(line))), "of unknown version")
    return (
        f"Recorded {when} by GStreamer {version}, at a load average of {np.median(loads):.1f} (at most "
        f"{max(loads):.1f}; the stress of the experiment is part of it); {again} traces took more than one attempt."
    )


def page(
    diagnoses: Sequence[Diagnosed],
    references: int,
    seconds: float,
    made: str,
    planted: dict[str, list[str]] | None = None,
) -> str:
    """Return the page of evidence; `planted` has the tables of what is planted in logs, by name."""
    clean = [diagnosed for diagnosed in diagnoses if diagnosed.is_clean]
    noticeable = [diagnosed for diagnosed in diagnoses if diagnosed.noticed]
    quiet = [diagnosed for diagnosed in diagnoses if not diagnosed.is_clean and not diagnosed.noticed]
    return fill_page(
        HERE / "page.md",
        traces=len(diagnoses),
        clean=len(clean),
        anomalous=len(diagnoses) - len(clean),
        references=references,
        false_alarms=sum(diagnosed.verdict != "clean" for diagnosed in clean),
        noticeable=len(noticeable),
        found=sum(diagnosed.verdict == "anomalous" for diagnosed in noticeable),
        named=sum(diagnosed.named_rightly for diagnosed in noticeable),
        quiet=len(quiet),
        quiet_called=sum(diagnosed.verdict == "anomalous" for diagnosed in quiet),
        confusion=confusion(diagnoses),
        by_strength=by_strength(diagnoses),
        other_ways=other_ways(diagnoses),
        table_2=table_2(diagnoses),
        missed=missed(diagnoses),
        **(planted or {"missing_types": [], "planted_phases": []}),
        seconds=seconds,
        made=made,
    )


def main() -> None:
    """Diagnose all, write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--traces", type=Path, default=Path("campaigns/diagnosis"), help="folder of the recorder (campaigns/diagnosis)"
    )
    folder = parser.parse_args().traces
    rows = read_rows(folder)
    if not rows:
        raise SystemExit(f"{folder} holds no trace: record them first, python -m experiments.diagnosis.record {folder}")
    made = f"{recorded(folder, rows)} {made_by()}"
    started = time.process_time()
    diagnoses = diagnose_all(folder, rows, lambda line: print(line, file=sys.stderr))
    target = EVIDENCE / "diagnosis.md"
    references = sum(row["role"] == "reference" for row in rows)
    planted = {
        "missing_types": missing_types.table(missing_types.LOGS, folder),
        "planted_phases": slow_phases.recorded_table(folder),
    }
    seconds = time.process_time() - started
    target.write_text(page(diagnoses, references, seconds, made, planted), encoding="utf-8")
    print(f"written: {target}")


if __name__ == "__main__":
    main()
