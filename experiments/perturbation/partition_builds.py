"""Partition with a build for each candidate, and with one build: time, builds, runs, and what is certified.

    python -m experiments.perturbation.partition_builds [--campaigns FOLDER] [--programs quickstart bzip2]
    python -m experiments.perturbation.partition_builds --attempts [--campaigns FOLDER] [--programs network glpk]

The second command makes further searches by one build, each with another setting, and writes their section of the page.
The first runs `unperturbed partition` twice on each program, with the same metrics, tolerance and limits, and writes
docs/evidence/partition_builds.md. A search that is already complete in its folder keeps its recorded time. Times are
CPU times of everything that the command executes: they hardly depend on what else the host does.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from experiments.common.evaluation import EVIDENCE, put_section
from experiments.common.provenance import recorded
from experiments.common.tables import markdown_table, right
from experiments.perturbation.programs import Evaluation, programs_parser
from experiments.perturbation.series import HERE, PROGRAMS
from experiments.perturbation.variants import write_variant
from unperturbed.common.table import Column
from unperturbed.harness.campaign.manifest import Manifest

WAYS = {"separate": "builds: separate", "one": "builds: one"}
"""Keys of `campaign` for each way to search; each with the strategy that is its default."""

ATTEMPTS = {"varied": "builds: one, layouts: varied"}
"""Further ways with one build."""

WRITTEN = {"quickstart": HERE.parent / "quickstart" / "quickstart.yaml", "glpk": HERE / "glpk.yaml"}
"""Specs whose input is short as written."""


@dataclass(frozen=True)
class Search:
    """One search that has ended."""

    program: str
    way: str  # Name in `WAYS` or `ATTEMPTS`
    seconds: float  # CPU time of the command: builds, runs and analysis
    made: int  # Builds of the program, the untouched one among them
    runs: int
    plan: Mapping[str, Any]  # plan.json

    @property
    def metrics(self) -> int:
        """Return the number of metrics in certified subsets."""
        return sum(len(subset["metrics"]) for subset in self.plan["subsets"])

    @property
    def for_families(self) -> int:
        """Return the number of runs until the last family was certified; 0 if none was searched for."""
        used = [each["runs_used"] for each in self.plan["history"] if each["stage"] == "rewriting"]
        return max(used, default=0)


def write_spec(folder: Path, program: str) -> Path:
    """Write a program's spec with a short input and without subsets."""
    folder.mkdir(parents=True, exist_ok=True)
    if program in WRITTEN:
        spec = yaml.safe_load(WRITTEN[program].read_text())
        if "source" in spec["program"]:
            spec["program"]["source"] = str(WRITTEN[program].parent / spec["program"]["source"])
    else:
        chosen = next(each for each in PROGRAMS if each.name == program)
        spec = yaml.safe_load(write_variant(folder, chosen, layouts=True).read_text())
        spec["measure"]["interval"] = {"records": 200}
    spec["campaign"] = {"baseline_runs": 10, "runs": 5, "seed": 1}
    path = folder / f"{program}.yaml"
    path.write_text(yaml.safe_dump(spec, sort_keys=False))
    return path


def search(spec: Path, way: str, campaign: Path) -> Search:
    """Search for a partition, or read one that is complete."""
    timed = campaign.with_suffix(".seconds")
    settings = yaml.safe_load(spec.read_text())
    settings["campaign"] |= yaml.safe_load(f"{{{_keys(way)}}}")
    own = spec.with_stem(f"{spec.stem}-{way}")
    own.write_text(yaml.safe_dump(settings, sort_keys=False))
    if not timed.is_file():
        began = _seconds_of_children()
        command = [sys.executable, "-m", "unperturbed.harness.cli", "partition", str(own), "--campaign", str(campaign)]
        code = subprocess.run(command, check=False).returncode
        if code not in (0, 4):
            raise SystemExit(f"{spec.stem}: the search ended with {code}")
        timed.write_text(str(_seconds_of_children() - began))
    plan = json.loads((campaign / "plan.json").read_text())
    with Manifest(campaign / "campaign.sqlite", read_only=True) as manifest:
        known = manifest.fact("builds")
        runs = len(manifest.runs("done"))
    made = len({each["number"] for each in known.values()})
    return Search(settings["name"], way, float(timed.read_text()), made, runs, plan)


def _seconds_of_children() -> float:
    """Return the CPU time of all processes that this one, or one of its children, has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def table(searches: Sequence[Search]) -> list[str]:
    """Return the table of all searches."""
    columns: tuple[Column | str, ...] = (
        *("program", "searched with"),
        *right("builds", "runs", "of them for families", "CPU minutes", "metrics", "in certified subsets", "subsets"),
        *right("families"),
        "left out",
    )
    rows = []
    for each in searches:
        plan = each.plan
        left = [one["metric"] for one in plan["unmeasurable"]]
        left += [metric for one in plan["undecided"] for metric in one["metrics"]]
        rows.append(
            [
                each.program,
                f"`{_keys(each.way)}`",
                str(each.made),
                str(each.runs),
                "" if each.way == "separate" else str(each.for_families),
                f"{each.seconds / 60:.1f}",
                str(each.metrics + len(left)),
                str(each.metrics),
                str(len(plan["subsets"])),
                "" if each.way == "separate" else str(len(plan.get("families", ()))),
                ", ".join(left) or "–",
            ]
        )
    return markdown_table(columns, rows)


def _keys(way: str) -> str:
    return {**WAYS, **ATTEMPTS}[way]


def headline(searches: Sequence[Search]) -> str:
    """Return how many builds, runs and minutes each way takes, and what it certifies, over all programs."""
    said = []
    for builds in WAYS:
        chosen = [each for each in searches if each.way == builds]
        minutes, made = sum(each.seconds for each in chosen) / 60, sum(each.made for each in chosen)
        runs = sum(each.runs for each in chosen)
        metrics, subsets = sum(each.metrics for each in chosen), sum(len(each.plan["subsets"]) for each in chosen)
        said.append(
            f"with `builds: {builds}` {made} builds, {runs} runs and {minutes:.0f} min of CPU time, and certified "
            f"{metrics} metrics in {subsets} subsets"
        )
    return f"{len(searches) // len(WAYS)} searches took {said[0]}; {said[1]}."


def main(arguments: Sequence[str] | None = None) -> int:
    """Search what is missing, write the page."""
    parser = programs_parser(
        __doc__, "partition-builds", ("quickstart", "bzip2", "network", "glpk"), others=("chess", "redcode")
    )
    parser.add_argument("--attempts", action="store_true", help="make the further searches instead")
    asked = Evaluation.of(parser, arguments)
    searches, folders = [], []
    for program in asked.options.programs:
        spec = write_spec(asked.campaigns / "specs", program)
        for way in ATTEMPTS if asked.options.attempts else WAYS:
            folders.append(asked.campaigns / f"{program}-{way}")
            searches.append(search(spec, way, folders[-1]))
    if asked.options.attempts:
        lines = [*table(searches), "", f"{recorded(folders)} {asked.made}"]
        put_section(EVIDENCE / "partition_builds.md", "attempts", lines)
        return 0
    asked.write("partition_builds", folders, headline=headline(searches), table=table(searches))
    return 0


if __name__ == "__main__":
    sys.exit(main())
