"""Claims, tables, figures and pages of evidence."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.common.claims import Claim, agreement, claims_table
from experiments.common.evaluation import evaluation_parser, fill_page, run_campaign
from experiments.common.figures import panels, save
from experiments.common.tables import markdown_table, right


def test_a_table_has_a_line_a_row_whatever_is_in_its_cells() -> None:
    assert markdown_table(["pair", *right("|ρ|", "runs")], [("a |\n b", 0.5, 12)]) == [
        r"| pair | \|ρ\| | runs |",
        "|---|---:|---:|",
        r"| a \| b | 0.5 | 12 |",
    ]
    with pytest.raises(ValueError, match="2 cells, and there are 1"):
        markdown_table(["one"], [(1, 2)])


def test_claims_are_tabulated_and_counted() -> None:
    claims = [
        Claim("§ 8: more", "less", agrees=False),
        Claim("§ 9: equal", "equal", agrees=True),
        Claim("§ 9: linear", "linear in one", agrees=None),
        Claim("§ 10: slow", "no counter", agrees=None, verdict="not measured"),
    ]
    assert claims_table(claims).splitlines()[2:] == [
        "| § 8: more | less | **no** |",
        "| § 9: equal | equal | yes |",
        "| § 9: linear | linear in one | in part |",
        "| § 10: slow | no counter | not measured |",
    ]
    assert agreement(claims) == (
        "Of the paper's 4 claims 1 agree with what was found here, 1 in part, 1 do not, 1 cannot be told."
    )


def test_figures_are_equal_for_equal_data(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        figure, axes = panels(3, columns=2, height=2, sharex=True)
        for place in axes:
            place.plot([1, 2], [3, 4])
        save(figure, tmp_path / name)
    assert len(axes) == 3
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_pages_are_filled_and_campaigns_are_where_the_option_says(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("{runs} runs\n\n{table}\n")
    assert fill_page(tmp_path / "page.md", runs=3, table=["a", "b"]) == "3 runs\n\na\nb\n"
    parser = evaluation_parser("Evaluate.\n\nLong.", "causal")
    assert parser.description == "Evaluate."
    assert parser.parse_args([]).campaigns == Path("campaigns/causal")


def test_a_campaign_that_cannot_run_ends_the_evaluation_unless_that_is_accepted(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="missing: the campaign ended with 2"):
        run_campaign(tmp_path / "missing.yaml", tmp_path / "campaign")
    assert run_campaign(tmp_path / "missing.yaml", tmp_path / "campaign", accept=(2,)) == 2
