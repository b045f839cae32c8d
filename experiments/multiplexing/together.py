"""Passes in which all pairs of metrics meet: how many, beside what is necessary and beside passes by first fit.

    python -m experiments.multiplexing.together [--campaigns FOLDER] [--programs bzip2 chess network redcode]

Plans passes for several numbers of metrics and counters, and measures each program on a simulated processor with four
counters, in passes in which all pairs of ten metrics meet.
Writes docs/evidence/together.md.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import yaml

from experiments.common.evaluation import EVIDENCE, evaluation_parser, fill_page, run_campaign
from experiments.common.provenance import made_by, recorded
from experiments.common.tables import markdown_table, right
from experiments.multiplexing.evaluate import HARDWARE
from experiments.perturbation.programs import missing_sentence
from experiments.perturbation.series import PROGRAMS, Program
from experiments.perturbation.variants import write_variant
from unperturbed.collectors.data import Trace
from unperturbed.collectors.sources.covering import Group, cover
from unperturbed.collectors.sources.limits import Limits, divide
from unperturbed.common.table import Column
from unperturbed.common.wording import duration
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.spec.sections.campaign import PILOT

METRICS = HARDWARE[:10]
COUNTERS = 4
SIZES = ((8, 4), (10, 4), (12, 4), (14, 4), (20, 4), (40, 4), (10, 3), (10, 6), (20, 6))
"""Metrics that need a counter, and counters."""
_TRIALS = 600  # As collectors/passes.py


def met(passes: Iterable[Iterable[str]]) -> int:
    """Return how many pairs of metrics meet in these passes."""
    return len({frozenset(pair) for held in passes for pair in combinations(held, 2)})


def plans() -> Iterator[Sequence[object]]:
    """Yield a row for each number of metrics and counters."""
    for metrics, counters in SIZES:
        names = [f"m{at:02}" for at in range(metrics)]
        pairs = list(map(frozenset, combinations(names, 2)))
        asked: list[Group] = []

        def fits(group: Group, counters: int = counters, asked: list[Group] = asked) -> bool:
            asked.append(group)
            return len(group) <= counters

        first_fit = divide(names, Limits(counters, ()), ())
        assert first_fit is not None
        greedy = cover(names, pairs, fits, largest=counters, seconds=0.0)
        begun = time.perf_counter()
        found = cover(names, pairs, fits, largest=counters)
        seconds = time.perf_counter() - begun
        asked.clear()
        tried = cover(names, pairs, fits, trials=_TRIALS)
        yield (
            *(metrics, counters, len(pairs), len(first_fit), f"{met(first_fit) / len(pairs):.0%}"),
            *(len(greedy.groups), len(found.groups), found.at_least, f"{seconds:.1f}"),
            *(len(tried.groups), len(asked)),
        )


def plan_table(rows: Iterable[Sequence[object]]) -> list[str]:
    """Return the table of plans."""
    columns = [
        *right("metrics", "counters", "pairs", "passes by first fit", "pairs met by these"),
        *right("passes, greedy", "passes", "necessary", "seconds", "passes, by trials", "trials"),
    ]
    return markdown_table(columns, rows)


def write_spec(folder: Path, program: Program) -> Path:
    """Write a program's spec with a baseline alone, in whose passes all pairs meet."""
    spec = yaml.safe_load(write_variant(folder, program).read_text())
    spec["measure"] |= {"hardware": list(METRICS), "simulator": {"counters": COUNTERS}}
    for key in ("software", "derived"):
        spec["measure"].pop(key, None)
    spec["campaign"] = {"baseline_runs": 5, "seed": 1}
    spec["analysis"] = {"together": "all"}
    path = folder / f"{program.name}.yaml"
    path.write_text(yaml.safe_dump(spec, sort_keys=False))
    return path


def measured(program: str, campaign: Path) -> Sequence[object]:
    """Return the row of a program: its passes, its runs, their time, and the pairs that meet in its traces."""
    with Manifest(campaign / "campaign.sqlite", read_only=True) as manifest:
        passes: list[Mapping[str, object]] = manifest.required_fact("passes")
        pilots = [manifest.required_fact(f"{PILOT}:{item['name']}")["seconds"] for item in passes]
        runs = manifest.runs("done")
        division = passes[0]["division"]
    held = {
        frozenset(Trace.read(campaign / "runs" / state.run.id / "trace.parquet").names("simulated")) for state in runs
    }
    predicted = len(runs) * sum(pilots) / len(pilots)
    took = sum(state.seconds or 0.0 for state in runs)
    pairs = len(METRICS) * (len(METRICS) - 1) // 2
    times = (duration(predicted, whole=True), duration(took, whole=True))
    return program, len(passes), division, len(runs), *times, f"{met(held)} of {pairs}"


def program_table(rows: Iterable[Sequence[object]]) -> list[str]:
    """Return the table of programs."""
    heads: list[Column | str] = [
        "program",
        *right("passes"),
        "said of them",
        *right("runs", "predicted", "took", "pairs met"),
    ]
    return markdown_table(heads, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, write the page."""
    parser = evaluation_parser(__doc__, "together")
    names = [program.name for program in PROGRAMS]
    parser.add_argument("--programs", nargs="+", choices=names, default=names, help="programs to run (all)")
    options = parser.parse_args(arguments)
    made, table = made_by(), plan_table(plans())
    chosen = [program for program in PROGRAMS if program.name in options.programs]
    for program in chosen:
        run_campaign(write_spec(options.campaigns / "specs", program), options.campaigns / program.name)
    folders = [options.campaigns / program.name for program in chosen]
    page = fill_page(
        Path(__file__).parent / "page_together.md",
        plans=table,
        programs=program_table(measured(folder.name, folder) for folder in folders),
        missing=missing_sentence(options.programs),
        metrics=", ".join(f"`{name}`" for name in METRICS if name not in Limits.fixed),
        recorded=recorded(folders),
        made=made,
    )
    (EVIDENCE / "together.md").write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
