"""Every change of the series as a table, kept beside the experiment; and two such tables side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from experiments.common.tables import markdown_table, right
from experiments.perturbation.series import HERE, Series
from unperturbed.common.table import Column

TABLES = HERE / "tables"
SIMULATED, PROCESSOR = TABLES / "simulated.parquet", TABLES / "processor.parquet"
_KEYS = ("program", "step", "check", "first", "second")


def changes_of(found: Sequence[Series]) -> pl.DataFrame:
    """Return a row for each change of each step.

    Result: Columns `program`, `step` (the software metric that came in), `check`, `first`, `second`; `effect`, `low`,
    `high` (change of ρ and its interval), `verdict`, `sham_effect` and `sham_verdict` (null without a sham), and
    `chance`, the standard deviation of ρ over the baseline runs.
    """
    rows = []
    for series in found:
        for step in series.steps:
            alone = {} if step.sham is None else {(one.check, one.label): one for one in step.sham.changes}
            for change in step.verdict.changes:
                sham = alone.get((change.check, change.label))
                rows.append(
                    {
                        "program": series.program.name,
                        "step": step.metric,
                        "check": change.check,
                        "first": change.first,
                        "second": change.second,
                        "effect": change.effect,
                        "low": change.low,
                        "high": change.high,
                        "verdict": change.verdict,
                        "sham_effect": None if sham is None else sham.effect,
                        "sham_verdict": None if sham is None else sham.verdict,
                        "chance": float(np.std(change.reference, ddof=1)),
                    }
                )
    return pl.DataFrame(rows, infer_schema_length=None)


def side_by_side(simulated: pl.DataFrame, processor: pl.DataFrame) -> list[str]:
    """Return what the simulator and the processor say of the same changes, a row a program and check.

    `simulated`, `processor`: Of `changes_of`. Changes of metrics that only one of them counted are left out.
    """
    both = simulated.join(processor, on=_KEYS, suffix="_processor")
    rows = []
    for (program, check), group in both.group_by(["program", "check"], maintain_order=True):
        ours, theirs = (group[name] == "perturbed" for name in ("verdict", "verdict_processor"))
        rank = group.select(pl.corr("effect", "effect_processor", method="spearman")).item()
        rows.append(
            (
                program,
                check,
                len(group),
                int((ours & theirs).sum()),
                int((ours & ~theirs).sum()),
                int((theirs & ~ours).sum()),
                f"{rank:+.2f}",
                *(f"{np.median(group[name]):.3f}" for name in ("chance", "chance_processor")),
            )
        )
    heads: tuple[Column | str, ...] = (
        "program",
        "check",
        *right(
            "changes",
            "perturbed on both",
            "on the simulator alone",
            "on the processor alone",
            "rank correlation of the changes",
            "chance, simulator",
            "chance, processor",
        ),
    )
    return markdown_table(heads, rows)


def agreement(found: Sequence[Series]) -> list[str]:
    """Return the pairs that the two agree on and those that they do not, of the changes just evaluated."""
    processor = changes_of(found)
    if not SIMULATED.exists():
        return ["The simulator's table is not kept yet: run `python -m experiments.perturbation.evaluate`."]
    return side_by_side(pl.read_parquet(SIMULATED), processor)


def write_changes(found: Sequence[Series], *, processor: bool) -> None:
    """Keep the table of every change beside the experiment."""
    TABLES.mkdir(exist_ok=True)
    changes_of(found).write_parquet(PROCESSOR if processor else SIMULATED)
