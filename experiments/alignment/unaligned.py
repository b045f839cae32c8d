"""How much of the alignment's work intervals of equal work save: pairs of runs element by element, beside DTW.

    python -m experiments.alignment.unaligned [--campaigns FOLDER]

Runs shortened campaigns of records, rules and raytracer twice, with intervals of CPU time and with intervals of
work (`clock: work`), or continues them. Pairs of runs that collected different metrics are compared element by element
without any alignment, and by dynamic time warping in the paper's way and in this tool's, without anchors. Milestones
that were not used judge each. Writes docs/evidence/alignment_work.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import yaml

from experiments.alignment.pairs import WORKLOADS, Pair, Workload, own, pairs_of, plain
from experiments.common.evaluation import EVIDENCE, evaluation_parser, fill_page, run_campaign
from experiments.common.provenance import made_by, recorded
from experiments.common.tables import markdown_table, right
from unperturbed.analysis.alignment import WarpPath, summarise_scores
from unperturbed.common.table import Column

HERE = Path(__file__).parent
RECORDS = 350
SHORTER: Mapping[str, tuple[str, str, str]] = {
    "records": ("prepare", "--rounds 45", "--rounds 6"),
    "rules": ("prepare", "--days 3 --customers 105 --orders 5000", "--days 1 --customers 105 --orders 2000"),
    "raytracer": ("run", "48 36 320", "48 36 44"),
}
"""What makes a run so short that it has about `RECORDS` intervals."""

CLOCKS = {"time": "process-cpu", "work": "work"}
MOST_PAIRS = 9


def unaligned(pair: Pair, _anchor: str, _budget: int) -> WarpPath:
    """Hold interval i of one run against interval i of the other, the longer one's rest against the other's last."""
    longest = np.arange(max(len(pair.a), len(pair.b)))
    return WarpPath(np.minimum(longest, len(pair.a) - 1), np.minimum(longest, len(pair.b) - 1), 0.0)


WAYS: Mapping[str, Callable[[Pair, str, int], WarpPath]] = {
    "no alignment": unaligned,
    "DTW (the paper)": plain,
    "DTW, guided by instructions (default)": own,
}


def write_short_spec(folder: Path, workload: Workload, clock: str) -> Path:
    """Write a workload's spec with a shorter run and another clock; return its path."""
    key, long, short = SHORTER[workload.name]
    spec = yaml.safe_load((HERE / f"{workload.name}.yaml").read_text())
    spec["program"][key] = spec["program"][key].replace(long, short)
    spec["program"]["source"] = str(HERE / spec["program"]["source"])
    spec["measure"] |= {"clock": clock, "interval": {"records": RECORDS}}
    path = folder / f"{workload.name}.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(spec, sort_keys=False))
    return path


def shares(pairs: Sequence[Pair], workload: Workload, judge: str) -> list[str]:
    """Return for each way the share of perfect elements and of those within one interval [%], medians over pairs."""
    cells = []
    for way in WAYS.values():
        summaries = [summarise_scores(pair.scores(way(pair, workload.anchor, 0), judge)) for pair in pairs]
        perfect, near = (
            100 * np.median([getattr(summary, name) for summary in summaries]) for name in ("perfect", "within_one")
        )
        cells.append(f"{perfect:.1f} ({near:.1f})")
    return cells


def rows_of(workload: Workload, campaigns: Path) -> list[tuple[str, ...]]:
    """Run a workload by both clocks, and return a row for each judge and clock."""
    rows = []
    for ends, clock in CLOCKS.items():
        campaign = campaigns / f"{workload.name}-{ends}"
        run_campaign(write_short_spec(campaigns / f"specs-{ends}", workload, clock), campaign)
        pairs = pairs_of(workload, campaign, MOST_PAIRS)
        lengths = [len(trace) for pair in pairs for trace in (pair.a, pair.b)]
        apart = f"{min(lengths)}–{max(lengths)}"
        rows += [(workload.name, judge, ends, apart, *shares(pairs, workload, judge)) for judge in workload.judges]
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, judge and write the page."""
    parser = evaluation_parser(__doc__, "alignment-work")
    parser.add_argument("--workloads", nargs="+", choices=SHORTER, default=list(SHORTER), help="only these")
    options, made = parser.parse_args(arguments), made_by()
    chosen = [workload for workload in WORKLOADS if workload.name in options.workloads]
    rows = [row for workload in chosen for row in rows_of(workload, options.campaigns)]
    head: list[Column | str] = ["workload", "judged by", "intervals end by", *right("intervals", *WAYS)]
    folders = [options.campaigns / f"{workload.name}-{ends}" for workload in chosen for ends in CLOCKS]
    page = fill_page(HERE / "page_work.md", table=markdown_table(head, rows), recorded=recorded(folders), made=made)
    (EVIDENCE / "alignment_work.md").write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
