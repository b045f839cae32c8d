"""Hardware counts within a function: beside callgrind's own counts, and what the switching changes.

    python -m experiments.perturbation.within [--campaigns FOLDER]

Measures the quickstart's program by the simulator and writes docs/evidence/within.md.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from experiments.common.evaluation import EVIDENCE, evaluation_parser, fill_page, run_campaign
from experiments.common.provenance import made_by, recorded
from experiments.common.tables import markdown_table, right
from unperturbed.analysis.perturbation import VERDICT_SIGNS, ranked_changes
from unperturbed.analysis.totals import TotalChange
from unperturbed.common.wording import percent
from unperturbed.harness.library import Campaign

HERE = Path(__file__).parent
QUICKSTART = HERE.parent / "quickstart"
FUNCTIONS = ("bwt_forward", "mtf_encode", "symbols_encode")
COUNTED = {"instructions": "PAPI_TOT_INS", "misses": "PAPI_L1_DCM", "mispredicted": "PAPI_BR_MSP"}
OWN_EVENTS = {"PAPI_TOT_INS": ("Ir",), "PAPI_L1_DCM": ("D1mr", "D1mw"), "PAPI_BR_MSP": ("Bcm", "Bim")}
"""callgrind's events whose sum is each metric."""


def write_spec(folder: Path) -> Path:
    """Write a spec with a subset for each function, and one that counts the calls."""
    folder.mkdir(parents=True, exist_ok=True)
    spec: dict[str, Any] = yaml.safe_load((QUICKSTART / "quickstart.yaml").read_text())
    spec["program"]["source"] = str(QUICKSTART / "blocksort")
    spec["name"] = "within"
    software = {
        f"{function}_{what}": {"within": function, "of": metric}
        for function in FUNCTIONS
        for what, metric in COUNTED.items()
    }
    calls = {f"{function}_calls": {"enter": function} for function in FUNCTIONS}
    spec["measure"] |= {"hardware": list(COUNTED.values()), "software": {**software, **calls}}
    subsets = {function: [f"{function}_{what}" for what in COUNTED] for function in FUNCTIONS}
    spec["campaign"] |= {"subsets": {**subsets, "calls": list(calls)}, "builds": "one"}
    spec["analysis"] = {"align_on": ["PAPI_L1_DCM", "PAPI_BR_MSP"]}
    path = folder / "within.yaml"
    path.write_text(yaml.safe_dump(spec, sort_keys=False))
    return path


def counts_of_callgrind(folder: Path, function: str, simulator: Mapping[str, str]) -> dict[str, int]:
    """Return what callgrind itself counts in the untouched program from a function's entry until it is left."""
    if not folder.is_dir():
        shutil.copytree(QUICKSTART / "blocksort", folder)
        subprocess.run(["make", "CC=gcc"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        corpus = [sys.executable, "make_corpus.py", "--size", "690000", "corpus.txt"]
        subprocess.run(corpus, cwd=folder, check=True)
    caches = [f"--{name}={_geometry(text)}" for name, text in simulator.items()]
    words = ["valgrind", "-q", "--tool=callgrind", "--cache-sim=yes", "--branch-sim=yes", *caches]
    words += [f"--toggle-collect={function}", "--callgrind-out-file=counts", "./blocksort", "-c", "-b", "136"]
    subprocess.run([*words, "corpus.txt"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    text = (folder / "counts").read_text()
    names, totals = (re.findall(rf"^{key}: (.*)", text, re.MULTILINE)[-1].split() for key in ("events", "totals"))
    counts = dict(zip(names, map(int, totals), strict=False))  # zeros at the end are left out
    return {metric: sum(counts.get(name, 0) for name in events) for metric, events in OWN_EVENTS.items()}


def _geometry(text: str) -> str:
    """Return `32 KiB 8-way 64 B` as valgrind writes it."""
    size, ways, line = re.fullmatch(r"(\d+) KiB (\d+)-way (\d+) B", text).groups()  # type: ignore[union-attr]
    return f"{int(size) * 1024},{ways},{line}"


def _total(campaign: Campaign, configuration: str, metric: str) -> float:
    return float(np.mean([trace[metric].sum() for trace in campaign[configuration]]))


def counts_table(campaign: Campaign, program: Path, simulator: Mapping[str, str]) -> list[str]:
    """Return each metric's total beside callgrind's own."""
    rows = []
    for function in FUNCTIONS:
        calls = round(_total(campaign, "calls", f"{function}_calls"))
        own = counts_of_callgrind(program, function, simulator)
        for what, metric in COUNTED.items():
            counted = _total(campaign, function, f"{function}_{what}")
            whole = _total(campaign, "baseline", metric)
            more = counted - own[metric]
            rows.append(
                [
                    *(f"`{function}`", f"{calls:,}", metric, f"{100 * counted / whole:.3g} %"),
                    *(f"{own[metric]:,}", f"{counted:,.0f}", f"{more:+,.0f}", f"{more / calls:+,.1f}"),
                ]
            )
    heads = right("of the whole", "callgrind's own count", "counted", "difference", "… a call")
    return markdown_table(["within", *right("calls"), "metric", *heads], rows)


def verdicts_table(campaign: Campaign) -> list[str]:
    """Return what the switching changes: correlations and totals, against the baseline."""
    checked = campaign.check()
    rows = []
    for function in (*FUNCTIONS, "calls"):
        verdict = checked.of(function)
        most = ranked_changes(verdict.changes)[0]
        totals = {change.metric: change for change in checked.totals[function]}
        rows.append(
            [
                *(f"`{function}`", f"{VERDICT_SIGNS[verdict.verdict]} {verdict.verdict}"),
                *(sum(change.verdict == "perturbed" for change in verdict.changes), len(verdict.changes)),
                *(f"{most.check} {most.label} {most.effect:+.3f}", *(_cell(totals[each]) for each in COUNTED.values())),
            ]
        )
    counts, totals_heads = right("perturbed", "of"), right(*COUNTED.values())
    return markdown_table(["subset", "correlations", *counts, "largest change", *totals_heads], rows)


def _cell(change: TotalChange) -> str:
    return f"{'equal' if change.equal else percent(change.change)} {VERDICT_SIGNS[change.verdict]}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign, count by callgrind alone, write the page."""
    options = evaluation_parser(__doc__, "within").parse_args(arguments)
    made, folder = made_by(), options.campaigns.resolve()
    spec, campaign = write_spec(folder / "specs"), folder / "within"
    run_campaign(spec, campaign)
    found = Campaign(campaign)
    simulator = yaml.safe_load(spec.read_text())["measure"]["simulator"]
    page = fill_page(
        HERE / "page_within.md",
        counts=counts_table(found, folder / "program", simulator),
        verdicts=verdicts_table(found),
        recorded=recorded([campaign]),
        made=made,
    )
    (EVIDENCE / "within.md").write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
