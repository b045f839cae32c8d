"""The paper's experiment again: every recorded trace diagnosed, and what came of it written to docs/evidence/diagnosis.md.

    python experiments/diagnosis/evaluate.py [--traces FOLDER]

The folder is what `record.py` makes. Each trace is diagnosed against the references of its pipeline and clip; labels, and what a viewer
would have noticed, come from the recorder. Beside the diagnosis stand the paper's own rule, and plain distances of sequences as in its
table II.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rapidfuzz.distance import Indel

from unperturbed.analysis.alignment import dtw_cost
from unperturbed.analysis.diagnosis import EventTrace, diagnose, dropping_distance, occurrence_distance, read_events, shared_ids

HERE = Path(__file__).parent
EVIDENCE = HERE.parents[1] / "docs" / "evidence"
WITH_OBJECTS = ("level", "function", "object", "word")
"""What tells events apart for the diagnosis: without the object two sinks are one."""
PAPERS = ("level", "function", "word")
"""The paper's data preparation, section IV-B."""
KINDS = ("crash or truncation", "lost events", "desynchronisation", "slow streaming")
THETA = 0.25


@dataclass(frozen=True)
class Diagnosed:
    """A test trace, and what was said of it.

    Attributes
    ----------
    row : as the recorder wrote it.
    verdict, kinds : of the diagnosis; the kinds that it names.
    papers : the paper's occurrence and dropping distance from the first reference.
    lcs, dtw : plain distances from the first reference, which know of no time and of no kind.
    """

    row: dict[str, Any]
    verdict: str
    kinds: tuple[str, ...]
    papers: tuple[int, int]
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


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the recorder's rows."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("traces/*.json"))]


def diagnose_all(folder: Path, rows: Sequence[dict[str, Any]], told: Callable[[str], None]) -> list[Diagnosed]:
    """Diagnose every test trace against the references of its pipeline and clip."""
    cells = defaultdict(list)
    for row in rows:
        cells[row["pipeline"], row["clip"]].append(row)
    found = []
    for number, ((pipeline, clip), members) in enumerate(cells.items(), 1):
        told(f"{pipeline}, {clip}: {number} of {len(cells)}")
        references = [row for row in members if row["role"] == "reference"]
        known = [read_events(folder / row["log"], identity=WITH_OBJECTS) for row in references]
        first = read_events(folder / references[0]["log"], identity=PAPERS)
        for row in members:
            if row["role"] == "reference":
                continue
            said = diagnose(known, read_events(folder / row["log"], identity=WITH_OBJECTS))
            trace = read_events(folder / row["log"], identity=PAPERS)
            found.append(
                Diagnosed(
                    row=row,
                    verdict=said.verdict,
                    kinds=tuple(finding.kind for finding in said.findings),
                    papers=(occurrence_distance(first, trace, theta=THETA).total, dropping_distance(first, trace).total),
                    **plain_distances(first, trace),
                )
            )
    return found


def plain_distances(reference: EventTrace, trace: EventTrace) -> dict[str, Any]:
    """Return the distances of the paper's table II: |x| + |y| − 2 LCS, and DTW of events coded as integers."""
    _, (one, other) = shared_ids([reference, trace])
    return {
        "lcs": Indel.distance(one.tolist(), other.tolist()),
        "dtw": dtw_cost(one.astype(np.float64), other.astype(np.float64)),
    }


def confusion(found: Sequence[Diagnosed]) -> list[str]:
    """Return what was there by what was said, as Markdown."""
    lines = [
        "| what was there | traces | called clean | undecided | called anomalous | "
        + " | ".join(f"… {kind}" for kind in KINDS)
        + " |",
        "|---|" + "---:|" * (4 + len(KINDS)),
    ]
    groups = {"nothing changed": [one for one in found if one.is_clean]}
    for kind in KINDS:
        groups[f"{kind}, noticeable"] = [one for one in found if kind in one.noticed]
    groups["changed, and nothing to be noticed"] = [one for one in found if not one.is_clean and not one.noticed]
    for label, group in groups.items():
        counts = [sum(one.verdict == verdict for one in group) for verdict in ("clean", "undecided", "anomalous")]
        named = [sum(kind in one.kinds for one in group) for kind in KINDS]
        lines.append(f"| {label} | {len(group)} | " + " | ".join(map(str, [*counts, *named])) + " |")
    return lines


def by_strength(found: Sequence[Diagnosed]) -> list[str]:
    """Return a row for each change and strength."""
    lines = [
        "| change | strength | traces | noticeable | called anomalous | of the noticeable | kind named rightly |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    groups = defaultdict(list)
    for one in found:
        if not one.is_clean:
            change = f"{one.row['change']} {one.row['place']}".strip()
            groups[change, one.row["unit"], float(one.row["strength"])].append(one)
    for (change, unit, strength), group in sorted(groups.items()):
        noticeable = [one for one in group if one.noticed]
        called = sum(one.verdict == "anomalous" for one in group)
        right = f"{sum(one.named_rightly for one in noticeable)}" if noticeable else "–"
        of_them = f"{sum(one.verdict == 'anomalous' for one in noticeable)}" if noticeable else "–"
        lines.append(f"| {change} | {strength:g} {unit} | {len(group)} | {len(noticeable)} | {called} | {of_them} | {right} |")
    return lines


def other_ways(found: Sequence[Diagnosed]) -> list[str]:
    """Return how clean and noticeable traces are told apart by the diagnosis, by the paper's rule and by plain distances."""
    clean = [one for one in found if one.is_clean]
    noticeable = [one for one in found if one.noticed]
    ways: dict[str, tuple[Callable[[Diagnosed], bool], str]] = {
        "the diagnosis": (lambda one: one.verdict == "anomalous", "yes"),
        f"the paper's rule: any of its occurrence (θ = {THETA}) and dropping distance above 0": (
            lambda one: sum(one.papers) > 0,
            "yes",
        ),
    }
    for name, measured in (
        ("the paper's two distances added, above the best threshold", lambda one: sum(one.papers)),
        ("LCS distance above the best threshold", lambda one: one.lcs),
        ("DTW of event numbers above the best threshold", lambda one: one.dtw),
    ):
        best = best_threshold([measured(one) for one in clean], [measured(one) for one in noticeable])
        ways[name] = (lambda one, measured=measured, best=best: measured(one) > best, "no")  # type: ignore[misc]
    lines = ["| way | false alarms | noticeable anomalies missed | right | names the kind |", "|---|---:|---:|---:|---|"]
    for name, (is_anomalous, names_kind) in ways.items():
        false, missed = sum(map(is_anomalous, clean)), sum(not is_anomalous(one) for one in noticeable)
        share = 1 - (false + missed) / (len(clean) + len(noticeable))
        lines.append(f"| {name} | {false} of {len(clean)} | {missed} of {len(noticeable)} | {share:.1%} | {names_kind} |")
    return lines


def best_threshold(clean: Sequence[float], noticeable: Sequence[float]) -> float:
    """Return the threshold that tells most of *these* traces rightly apart, which flatters: it is fitted to what it is judged by."""
    candidates = np.unique([*clean, *noticeable])
    errors = [(np.array(clean) > at).sum() + (np.array(noticeable) <= at).sum() for at in candidates]
    return float(candidates[int(np.argmin(errors))])


def table_2(found: Sequence[Diagnosed]) -> list[str]:
    """Return the plain distances' ranges for clean traces and for the paper's changes, in the paper's pipeline."""
    lines = ["| traces in `decode` | LCS distance | DTW distance | said |", "|---|---:|---:|---|"]
    groups: dict[str, list[Diagnosed]] = {"clean": [one for one in found if one.is_clean and one.row["pipeline"] == "decode"]}
    for one in sorted(found, key=lambda one: float(one.row["strength"])):
        if one.row["pipeline"] == "decode" and one.row["change"] in ("sleep-time", "error-after"):
            groups.setdefault(f"{one.row['change']} {one.row['strength']:g} {one.row['unit']}", []).append(one)
    for label, group in groups.items():
        lcs, dtw = ([getattr(one, name) for one in group] for name in ("lcs", "dtw"))
        said = sorted({kind for one in group for kind in one.kinds}) or ["clean"]
        lines.append(f"| {label} | {min(lcs):,} to {max(lcs):,} | {min(dtw):,.0f} to {max(dtw):,.0f} | {', '.join(said)} |")
    return lines


def missed(found: Iterable[Diagnosed]) -> list[str]:
    """Return a line for every trace that was told wrongly."""
    lines = []
    for one in found:
        wrong = one.verdict != "clean" if one.is_clean else bool(one.noticed) and not one.named_rightly
        if wrong:
            there = "nothing changed" if one.is_clean else ", ".join(one.noticed)
            lines.append(
                f"- `{one.row['name']}`: {there}; called {one.verdict}{': ' if one.kinds else ''}{', '.join(one.kinds)}."
            )
    return lines or ["None."]


def page(found: Sequence[Diagnosed], references: int, seconds: float) -> str:
    """Return the page of evidence."""
    clean = [one for one in found if one.is_clean]
    noticeable = [one for one in found if one.noticed]
    quiet = [one for one in found if not one.is_clean and not one.noticed]
    return (
        (HERE / "page.md")
        .read_text()
        .format(
            traces=len(found),
            clean=len(clean),
            anomalous=len(found) - len(clean),
            references=references,
            false_alarms=sum(one.verdict != "clean" for one in clean),
            noticeable=len(noticeable),
            found=sum(one.verdict == "anomalous" for one in noticeable),
            named=sum(one.named_rightly for one in noticeable),
            quiet=len(quiet),
            quiet_called=sum(one.verdict == "anomalous" for one in quiet),
            confusion="\n".join(confusion(found)),
            by_strength="\n".join(by_strength(found)),
            other_ways="\n".join(other_ways(found)),
            table_2="\n".join(table_2(found)),
            missed="\n".join(missed(found)),
            seconds=seconds,
        )
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
        raise SystemExit(f"{folder} holds no trace: record them first, python experiments/diagnosis/record.py {folder}")
    started = time.process_time()
    found = diagnose_all(folder, rows, lambda line: print(line, file=sys.stderr))
    target = EVIDENCE / "diagnosis.md"
    references = sum(row["role"] == "reference" for row in rows)
    target.write_text(page(found, references, time.process_time() - started), encoding="utf-8")
    print(f"written: {target}")


if __name__ == "__main__":
    main()
