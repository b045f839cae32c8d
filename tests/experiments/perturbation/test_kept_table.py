"""The table of changes that the repository keeps, with which a processor's is compared: what the page was made of."""

from __future__ import annotations

import re

import polars as pl

from experiments.common.evaluation import EVIDENCE
from experiments.perturbation.findings import SIMULATED, side_by_side
from experiments.perturbation.series import PROGRAMS

KEPT = pl.read_parquet(SIMULATED)


def test_it_is_small_and_of_all_programs() -> None:
    assert SIMULATED.stat().st_size <= 5_000_000
    assert set(KEPT["program"]) == {program.name for program in PROGRAMS}
    assert set(KEPT["check"]) == {"inner", "outer"}
    assert set(KEPT["verdict"]) <= {"perturbed", "shifted", "undecided", "unperturbed"}
    assert KEPT.select("effect", "low", "high", "sham_effect", "chance").null_count().sum_horizontal().item() == 0


def test_the_page_says_what_it_holds() -> None:
    perturbed = KEPT.filter(pl.col("verdict") == "perturbed")
    shams_too = (perturbed["sham_verdict"] == "perturbed").sum()
    assert (
        f"Of {len(perturbed)} perturbed changes (of a pair or metric in a step), {shams_too} are perturbed in the "
        "step's sham as well"
    ) in (EVIDENCE / "perturbation.md").read_text()


def test_the_headlines_change_and_its_sham_are_those_of_the_table() -> None:
    page = (EVIDENCE / "perturbation.md").read_text()
    (said,) = re.findall(
        r"\((\w+), (inner|outer) (\w+)(?: – (\w+))? when (\w+) comes in, at [^)]*\)\) is (\S+), "
        r"and in the sham, which counts nothing, (\S+)\.",
        page,
    )
    program, check, first, second, step, *values = said
    change = KEPT.row(
        by_predicate=(pl.col("program") == program)
        & (pl.col("step") == step)
        & (pl.col("check") == check)
        & (pl.col("first") == f"PAPI_{first}")
        & (pl.col("second") == f"PAPI_{second or first}"),
        named=True,
    )
    assert values == [f"{change['effect']:+.2f}", f"{change['sham_effect']:+.2f}"]


def test_it_agrees_with_itself() -> None:
    rows = [line.split(" | ") for line in side_by_side(KEPT, KEPT)[2:]]
    assert len(rows) == 2 * len(PROGRAMS)
    for row in rows:
        assert row[4:6] == ["0", "0"], "neither has a perturbed change that the other has not"
        assert row[6] == "+1.00"
