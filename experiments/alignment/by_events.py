"""How many intervals are aligned rightly if the program's own events end them, beside intervals of work and of time.

    python -m experiments.alignment.by_events [--campaigns FOLDER]

Runs campaigns of the quickstart's program whose intervals end by CPU time, by the simulator's work and by the program's
events, or continues them. Pairs of runs that collected different metrics are compared interval by interval and by
dynamic time warping, without anchors. Milestones of two other metrics judge each. Writes
docs/evidence/alignment_events.md.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from experiments.alignment.pairs import Pair, Workload, pairs_of
from experiments.alignment.unaligned import MOST_PAIRS, WAYS, shares
from experiments.common.evaluation import EVIDENCE, evaluation_parser, fill_page, run_campaign
from experiments.common.provenance import made_by, recorded
from experiments.common.tables import markdown_table, right
from unperturbed.common.table import Column

HERE = Path(__file__).parent
QUICKSTART = HERE.parent / "quickstart" / "quickstart.yaml"
SIZE = 1_380_000  # bytes of input, twice the quickstart's: 136 steps
STEPS = 136
ENDS: Mapping[str, Mapping[str, Any]] = {
    "time": {"clock": "process-cpu", "interval": {"records": STEPS}},
    "work": {"clock": "work", "interval": {"records": STEPS}},
    "events": {"interval": {"every": 1, "of": "steps"}},
}
"""What ends the intervals → the keys of the spec."""

BLOCKSORT = Workload("blocksort", ("front", "ties"), "buckets", ("buckets", "moves"), "bzip2")
COMMON = ("buckets", "moves")  # in both configurations, to judge
SUBSETS = {"front": ("places", *COMMON), "ties": ("lookups", "dealt", "ranked", *COMMON)}


def write_spec(folder: Path, ends: str) -> Path:
    """Write the quickstart's spec with other subsets, and with intervals that end as is said; return its path."""
    spec = yaml.safe_load(QUICKSTART.read_text())
    program, measure = spec["program"], spec["measure"]
    spec["name"] = f"blocksort-{ends}"
    program["source"] = str(QUICKSTART.parent / program["source"])
    program["prepare"] = program["prepare"].replace("--size 690000", f"--size {SIZE}")
    del measure["interval"]
    measure |= {**ENDS[ends], "source": "simulated", "derived": {"IPC": "PAPI_TOT_INS / PAPI_TOT_CYC"}}
    measure["hardware"].append("PAPI_TOT_CYC")
    wanted = {"steps", *sum(SUBSETS.values(), ())} if ends == "events" else {*sum(SUBSETS.values(), ())}
    measure["software"] = {name: event for name, event in measure["software"].items() if name in wanted}
    spec["campaign"] = {"baseline_runs": 5, "runs": 3, "subsets": {name: list(each) for name, each in SUBSETS.items()}}
    del spec["analysis"]["anchor"]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{spec['name']}.yaml"
    path.write_text(yaml.safe_dump(spec, sort_keys=False))
    return path


def warpable(pair: Pair) -> Pair:
    """Return a pair without the note that the same events cut both runs, so that dynamic time warping aligns it."""

    def plain_clock(attributes: Mapping[str, Any]) -> dict[str, Any]:
        return {**attributes, "clock": "monotonic"}

    return Pair(*(replace(run, attributes=plain_clock(run.attributes)) for run in (pair.a, pair.b)))


def rows_of(ends: str, campaigns: Path) -> list[tuple[str, ...]]:
    """Run the campaign of one kind of interval, and return a row for each judge."""
    campaign = campaigns / f"blocksort-{ends}"
    run_campaign(write_spec(campaigns / "specs", ends), campaign)
    pairs = [warpable(pair) for pair in pairs_of(BLOCKSORT, campaign, MOST_PAIRS)]
    lengths = [len(trace) for pair in pairs for trace in (pair.a, pair.b)]
    apart = f"{min(lengths)}–{max(lengths)}"
    return [(ends, judge, apart, *shares(pairs, BLOCKSORT, judge)) for judge in BLOCKSORT.judges]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, judge and write the page."""
    parser = evaluation_parser(__doc__, "alignment-events")
    options, made = parser.parse_args(arguments), made_by()
    rows = [row for ends in ENDS for row in rows_of(ends, options.campaigns)]
    head: list[Column | str] = ["intervals end by", "judged by", *right("intervals", *WAYS)]
    folders = [options.campaigns / f"blocksort-{ends}" for ends in ENDS]
    page = fill_page(HERE / "page_events.md", table=markdown_table(head, rows), recorded=recorded(folders), made=made)
    (EVIDENCE / "alignment_events.md").write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
