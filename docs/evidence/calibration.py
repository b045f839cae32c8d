"""How often the verdicts are wrong, and what they find: simulated campaigns, written to `docs/evidence/calibration.md`.

    python docs/evidence/calibration.py --campaigns 1000 --seed 1 [--jobs 4]
    python docs/evidence/calibration.py --campaigns 1000 --seed 1 --only rounds

A campaign is k baseline runs and r checked runs of a simulated program (`tests/analysis/simulate.py`), judged by the
same functions as real ones. One campaign's runs serve for every k and r, so rows of one kind of program are not
independent. The kinds of programs are independent pieces of work: with `--jobs`, or within `joblib.parallel_config`,
they are shared among processes, and the page is the same. The tables are made in `experiments/calibration`. The second
command writes only the section on runs within rounds, and the rows on them in the summary.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from itertools import product
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from scipy import special

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # the simulated programs are part of the tests, not installed

from experiments.calibration.attempts import CASES, attempts_cells, attempts_table  # noqa: E402  after the path is set
from experiments.calibration.common import ALPHA, TOLERANCE, header  # noqa: E402
from experiments.calibration.few import (  # noqa: E402
    FEW,
    FEW_SPREAD,
    MONOTONE_INTERVALS,
    MONOTONE_PHI,
    few_cell,
    few_header,
    monotone_header,
    monotone_rows,
)
from experiments.calibration.inner import INNER_BASELINE, INNER_CHECKED, inner_cell, inner_header  # noqa: E402
from experiments.calibration.nodes import NODES, nodes_cell, nodes_header  # noqa: E402
from experiments.calibration.outer import (  # noqa: E402
    NOISE_SPREAD,
    OUTER,
    OUTER_RHO,
    WIDER,
    WIDER_SPREAD,
    Runs,
    outer_cell,
    outer_header,
    wider_cell,
    wider_header,
)
from experiments.calibration.power import (  # noqa: E402
    CURVES,
    GOAL,
    OTHERS,
    PLANTED,
    goal_table,
    plot,
    power_curves,
    power_table,
)
from experiments.calibration.rounds import ROUND_KINDS, rounds_header, rounds_row  # noqa: E402
from experiments.calibration.rounds_attempts import rounds_attempts  # noqa: E402
from experiments.calibration.unlike import KINDS, unlike_header, unlike_row  # noqa: E402
from experiments.calibration.whole import whole_cell, whole_header  # noqa: E402
from experiments.common.provenance import made_by  # noqa: E402
from experiments.common.sections import sections_of, write_section  # noqa: E402
from unperturbed.analysis.parallel import choose_workers  # noqa: E402

PAGE = (ROOT / "experiments/calibration/page.md").read_text(encoding="utf-8")
PHI, INTERVALS = (0.7, 0.95), (165, 1000)
SPREADS, WIDER_RUNS = "outer check by spread of the noise", "outer check of checked runs that spread wider"
UNLIKE_RUNS = "inner check of checked runs that differ in other ways"
"""Names of three tables in the summary."""


def spread_table(draws: int, seed: int, family: int = 66) -> Iterator[str]:
    """Why the test pools and the interval does not: normal populations, the checked runs' spread 1, 2 and 3 times as
    wide."""
    rng = np.random.default_rng(seed)
    heads = ["k", "r", "spread", "false alarms of 66: pooled", "Welch", "power: pooled", "Welch"]
    yield from header([*heads, "accepted at the tolerance: pooled", "Welch", "the wider"])
    for k, r, ratio in product(INNER_BASELINE, INNER_CHECKED, (1, 2, 3)):
        before = rng.standard_normal((draws, k))
        after = ratio * rng.standard_normal((draws, r))
        change = after.mean(axis=1) - before.mean(axis=1)
        first, second = before.var(axis=1, ddof=1), after.var(axis=1, ddof=1)
        pooled = np.sqrt(((k - 1) * first + (r - 1) * second) / (k + r - 2) * (1 / k + 1 / r))
        welch = np.sqrt(first / k + second / r)
        freedom = (first / k + second / r) ** 2 / ((first / k) ** 2 / (k - 1) + (second / r) ** 2 / (r - 1))
        cells = []
        for shift in (0, 4):
            for error, degrees in ((pooled, k + r - 2), (welch, freedom)):
                p = 2 * special.stdtr(degrees, -np.abs(change + shift) / error)
                cells.append(float((p <= ALPHA / family).mean()) * (family if shift == 0 else 1))
        halves = [pooled * special.stdtrit(k + r - 2, 1 - ALPHA), welch * special.stdtrit(freedom, 1 - ALPHA)]
        tolerance = 4.0
        halves.append(np.maximum(*halves))
        cells += [float((np.abs(change + tolerance) + half < tolerance).mean()) for half in halves]
        yield f"| {k} | {r} | {ratio} × | {' | '.join(f'{cell:.3f}' for cell in cells)} |"


Task = tuple[str, Callable[..., Iterator[Any]], tuple[Any, ...]]


def execute(_common: None, task: Task) -> tuple[list[Any], float]:
    """Make the rows of one task, in whatever process; return them, and the CPU time that they took."""
    _, function, arguments = task
    started = time.process_time()
    return list(function(*arguments)), time.process_time() - started


def page(campaigns: int, seed: int, drawing: Path) -> str:
    """Run everything and write it down."""
    made, started = made_by(), time.process_time()
    kinds = [(campaigns, seed, phi, intervals) for phi, intervals in product(PHI, INTERVALS)]
    curves = [
        (max(4, campaigns // 10), seed, phi, int(intervals))
        for intervals, phi in product(CURVES["intervals"], CURVES["phi"])
    ]
    tasks: list[Task] = [
        *(("whole", whole_cell, kind) for kind in kinds),
        *(("inner", inner_cell, kind) for kind in kinds),
        ("goal", goal_table, (max(4, campaigns * 2 // 5), seed)),
        *(
            ("outer", outer_cell, (max(4, campaigns * 2 // 5), seed, Runs(rho, spread)))
            for rho, spread in product(OUTER_RHO, NOISE_SPREAD)
        ),
        *(("wider", wider_cell, (max(4, campaigns * 2 // 5), seed, *kind)) for kind in WIDER),
        *(("attempts", attempts_cells, (max(4, campaigns * 2 // 5), seed, case)) for case in CASES),
        *(("few", few_cell, (max(4, campaigns * 2 // 5), seed, runs)) for runs in FEW),
        ("monotone", monotone_rows, (max(4, campaigns // 10), seed)),
        *(("nodes", nodes_cell, (max(4, campaigns // 5), seed, nodes)) for nodes in NODES),
        *(("unlike", unlike_row, (max(4, campaigns * 2 // 5), seed, kind)) for kind in KINDS),
        *(
            ("rounds", rounds_row, (max(4, campaigns * 2 // 5), seed, check, kind))
            for check, kind in product(("inner", "outer"), ROUND_KINDS)
        ),
        ("rounds_attempts", rounds_attempts, (max(4, campaigns * 2 // 5), seed)),
        *(("curves", power_curves, curve) for curve in curves),
        ("spread", spread_table, (50 * campaigns, seed)),
    ]
    workers = choose_workers(kernels=False)
    heads = {
        "whole": whole_header,
        "inner": inner_header,
        "outer": outer_header,
        "wider": wider_header,
        "few": few_header,
        "monotone": monotone_header,
        "nodes": nodes_header,
        "unlike": unlike_header,
        "rounds": rounds_header,
    }
    found: dict[str, list[Any]] = {name: [*head()] for name, head in heads.items()}
    elsewhere = 0.0
    with closing(workers.map(execute, None, tasks)) as in_order:
        for (name, *_), (rows, seconds) in zip(tasks, in_order, strict=True):
            found.setdefault(name, []).extend(rows)
            elsewhere += seconds if workers.count > 1 else 0.0
    power = dict(found.pop("curves"))
    plot(power, drawing)
    found["attempts"] = [*attempts_table(found["attempts"])]
    tables = {**found, "power": power_table(power)}
    tables["summary"] = list(summary(tables))
    written = {name: "\n".join(table) for name, table in tables.items()}
    return PAGE.format(
        made=made, seconds=time.process_time() - started + elsewhere,
        figure=drawing.name, outer_campaigns=max(4, campaigns * 2 // 5), outer_intervals=OUTER["intervals"],
        wider_spread=WIDER_SPREAD, few_spread=FEW_SPREAD, monotone_pairs=max(4, campaigns // 10),
        monotone_intervals=MONOTONE_INTERVALS, monotone_phi=MONOTONE_PHI, node_campaigns=max(4, campaigns // 5),
        alpha=ALPHA, tolerance=TOLERANCE, curve_campaigns=max(4, campaigns // 10), before=PLANTED[0],
        after=PLANTED[1],
        others=OTHERS, **GOAL, **written,
    )  # fmt: skip


def summary(tables: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """The rates of all kinds of campaigns in a few rows, which the explanation of the verdicts quotes."""

    def shares(table: str, column: str) -> list[tuple[float, float]]:
        heads = [cell.strip() for cell in tables[table][0].split("|")]
        cells = [row.split("|")[heads.index(column)].strip("* ").split(" ± ") for row in tables[table][2:]]
        return [(float(cell[0]), float(cell[1])) for cell in cells if cell != ["–"]]

    rows = {
        "false alarms, inner and outer check together": ("whole", "false alarms of the whole"),
        "false alarms, inner check alone": ("inner", "false alarms"),
        "called perturbed at the tolerance, inner check: one pair has changed": ("inner", "one called perturbed"),
        "… every pair has changed": ("inner", "any of all called perturbed"),
        "called perturbed at the tolerance, outer check: every metric has changed": ("whole", "outer called perturbed"),
        "called unperturbed at the tolerance, inner check": ("inner", "accepted"),
        "called unperturbed at the tolerance, outer check": ("whole", "outer accepted"),
        f"false alarms, {SPREADS}": ("outer", "false alarms"),
        f"called perturbed at the tolerance, {SPREADS}: every metric": ("outer", "called perturbed"),
        f"called unperturbed at the tolerance, {SPREADS}": ("outer", "accepted"),
        f"false alarms, {WIDER_RUNS}": ("wider", "false alarms"),
        f"called perturbed at the tolerance, {WIDER_RUNS}: every metric": ("wider", "called perturbed"),
        f"called unperturbed at the tolerance, {WIDER_RUNS}": ("wider", "accepted"),
        f"false alarms, {UNLIKE_RUNS}": ("unlike", "false alarms"),
        f"called perturbed at the tolerance, {UNLIKE_RUNS}: every pair": ("unlike", "called perturbed"),
        f"called unperturbed at the tolerance, {UNLIKE_RUNS}": ("unlike", "accepted"),
        "false alarms, outer check over nodes": ("nodes", "false alarms"),
        "called perturbed at the tolerance, outer check over nodes: every metric": ("nodes", "called perturbed"),
        "called unperturbed at the tolerance, outer check over nodes": ("nodes", "accepted"),
        "false alarms, within rounds": ("rounds", "false alarms"),
        "called perturbed at the tolerance, within rounds: every coefficient": ("rounds", "called perturbed"),
        "called unperturbed at the tolerance, within rounds": ("rounds", "accepted"),
    }
    yield from header(["error", "kinds of campaigns", "smallest share", "mean", "largest", "its standard error"])
    for name, place in rows.items():
        if place[0] not in tables:
            continue
        found = shares(*place)
        largest, error = max(found)
        mean = np.mean([share for share, _ in found])
        yield f"| {name} | {len(found)} | {min(found)[0]:.3f} | {mean:.3f} | {largest:.3f} | {error:.3f} |"


def write_rounds(campaigns: int, seed: int, page: Path) -> None:
    """Write the section on runs within rounds, and the rows on them in the summary."""
    made, campaigns = made_by(), max(4, campaigns * 2 // 5)
    rows = [
        row
        for check, kind in product(("inner", "outer"), ROUND_KINDS)
        for row in rounds_row(campaigns, seed, check, kind)  # type: ignore[arg-type]
    ]
    table = [*rounds_header(), *rows]
    (section,) = (part for part in sections_of(PAGE) if "{rounds}" in part)
    text = section.rstrip().format(
        rounds="\n".join(table),
        rounds_attempts="\n".join(rounds_attempts(campaigns, seed)),
        outer_campaigns=campaigns,
        alpha=ALPHA,
        tolerance=TOLERANCE,
    )
    write_section(page, f"{text}\n\n{made}\n\n")
    of_rounds = {row.split("|")[1]: row for row in summary({"rounds": table}) if "within rounds" in row}
    lines = page.read_text(encoding="utf-8").split("\n")
    lines = [of_rounds.get(line.split("|")[1], line) if "|" in line else line for line in lines]
    page.write_text("\n".join(lines), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--campaigns", type=int, default=1000, help="inner campaigns of each kind of program; others are shares of it"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".md"))
    parser.add_argument("--jobs", type=int, help="processes among which the kinds of programs are shared")
    parser.add_argument("--only", choices=("rounds",), help="write only this section")
    chosen = parser.parse_args(arguments)
    if chosen.only:
        write_rounds(chosen.campaigns, chosen.seed, chosen.output)
        return 0
    with nullcontext() if chosen.jobs is None else joblib.parallel_config("loky", n_jobs=chosen.jobs):
        written = page(chosen.campaigns, chosen.seed, chosen.output.with_suffix(".svg"))
    chosen.output.write_text(written, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
