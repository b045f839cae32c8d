"""The README's table is what the campaigns of docs/evidence/quickstart.md gave."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_readmes_table_is_that_of_the_evidence():
    page = (ROOT / "docs/evidence/quickstart.md").read_text()
    rows = re.findall(
        r"^  (\w+) +[✓✗] (\w+) +([+−][\d.]+) % +([✓✗]) +(\d+) +(\d+|·) +· +·$", (ROOT / "README.md").read_text(), re.M
    )
    assert [row[0] for row in rows] == ["anchor", "output", "front", "ties"]
    campaigns = int(re.search(r"in (\d+) of \1 campaigns", page)[1])
    for name, verdict, added, totals, same, changed in rows:
        counts = f"{same} ✓" if changed == "·" else f"{same} ✓, {changed} ✗"
        assert f"{name} {verdict} ({counts})" in page
        low, high, count, of_totals = re.search(
            rf"^\| {name} \| ([+-][\d.]+) % to ([+-][\d.]+) % \| (\d+) (\w+)", page, re.M
        ).groups()
        assert int(count) >= campaigns - 1  # a time was called shifted in one campaign, as README says
        decimals = len(added.partition(".")[2])
        assert round(float(low), decimals) <= float(added.replace("−", "-")) <= round(float(high), decimals)
        assert {"✓": "unperturbed", "✗": "perturbed"}[totals] == of_totals
