"""Claims, tables, figures and pages of evidence."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

from experiments.common.evaluation import evaluation_parser, fill_page, put_section, run_campaign
from experiments.common.figures import panels, save
from experiments.common.provenance import MANIFEST, made_by, recorded
from experiments.common.tables import Claim, agreement, claims_table, markdown_table, right
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.plan import PlannedRun


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


def test_a_page_says_where_and_when_its_campaigns_ran(tmp_path: Path) -> None:
    description = {
        "host": {"name": "h", "system": "s", "kernel": "Linux 6.1.0 #1 SMP", "virtual machine": "kvm"},
        "processor": {"model": "Some CPU"},
        "packages": {"unperturbed": "1.2.3"},
    }
    for name, day, load in (("one", "2026-01-02", 0.5), ("two", "2026-01-03", 2.0)):
        (tmp_path / name).mkdir()
        with Manifest(tmp_path / name / MANIFEST) as manifest:
            manifest.set_facts(description=description)
            run = PlannedRun("0001", "baseline", "main", 1, 1, 0)
            manifest.plan([run])
            manifest.start(run, attempt=1, started=f"{day}T10:00:00", host={"load_1min": load})
            manifest.finish(run, seconds=1, intervals=9, host={}, totals=None)
    assert recorded(tmp_path / name for name in ("one", "two", "none")) == (
        "Recorded from 2026-01-02 to 2026-01-03 with version 1.2.3 on Some CPU, Linux 6.1.0, virtual machine (kvm), "
        "at a load average of 1.2 (at most 2.0)."
    )
    assert recorded([tmp_path / "none"]) == ""


def test_a_page_says_by_what_it_was_made() -> None:
    made = made_by()
    assert re.fullmatch(
        r"Made by `python .+` at commit (?:[0-9a-f]{10}(?:-dirty)?|unknown) on "
        + date.today().isoformat()
        + r" with version \S+ on .+, \d+ processors, at a load average of [\d.]+ before it began\.",
        made,
    ), made


def test_a_section_of_a_page_is_replaced_and_the_others_stay(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n<!-- one -->\n\n<!-- two -->\nold\n")
    put_section(page, "one", ["## One", "", "text"])
    put_section(page, "two", ["new", "lines"])
    put_section(page, "one", ["## One again"])
    assert page.read_text() == "# Page\n\n<!-- one -->\n## One again\n\n<!-- two -->\nnew\nlines\n"
    with pytest.raises(ValueError, match="no section three: put the line <!-- three --> where it belongs"):
        put_section(page, "three", [])
