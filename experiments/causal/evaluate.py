"""The experiments of "Causal analysis for performance modeling of computer programs" with campaigns of this tool.

    python -m experiments.causal.evaluate [--campaigns FOLDER] [--only NAME …] [--points N] [--no-run]

Runs the sweeps of each part into the folder, or goes on with what stands there; learns what causes what from their
tables, compares it with the paper's claims, and writes docs/evidence/causal.md and its figures. A part that this host
cannot measure is left out, and the page says so. With --only the other parts of the page are those that were evaluated
last. With --points all is small, and nothing is written but into the folder.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from experiments.common.evaluation import EVIDENCE, GOOD, HOST_CANNOT, evaluation_parser, fill_page, run_campaign

HERE = Path(__file__).parent
COUNTERS = "a processor whose counters can be read"


@dataclass(frozen=True)
class Part:
    """A part of the page.

    Attributes
    ----------
    name : str
        Its name.
    specs : tuple of str
        Its sweeps, each a spec beside this file, without `.yaml`.
    module : str
        Where `findings(campaign, figures)` is. It is given the campaign's folder; of a part with several sweeps the
        folder that holds them all.
    needs : str
        What not every host has, for the page; empty where all can do it.
    """

    name: str
    specs: tuple[str, ...]
    module: str
    needs: str = ""


PARTS = (
    Part("lu_processor", ("lu_processor",), "experiments.causal.decomposition.findings", COUNTERS),
    Part("lu", ("lu",), "experiments.causal.decomposition.findings"),
    Part("kernels", ("lu", "matmul", "mergesort"), "experiments.causal.kernels.findings"),
    Part("jpeg", ("jpeg2000_lossless", "jpeg2000_lossy"), "experiments.causal.jpeg.findings", COUNTERS),
)


def specs_of(part: Part, folder: Path, points: int | None) -> list[Path]:
    """Return the specs of a part; for a trial copies of them in a folder, with few points.

    Where every combination is measured, two values of each parameter stay.
    """
    if points is None:
        return [HERE / f"{name}.yaml" for name in part.specs]
    specs = folder / "specs"
    specs.mkdir(parents=True, exist_ok=True)
    for beside in HERE.iterdir():
        if beside.is_dir() and not (specs / beside.name).exists():
            (specs / beside.name).symlink_to(beside)
    made = []
    for name in part.specs:
        spec = yaml.safe_load((HERE / f"{name}.yaml").read_text())
        if "points" in spec["campaign"]:
            spec["campaign"]["points"] = points
        else:
            spec["parameters"] = {one: values[:2] for one, values in spec["parameters"].items()}
        path = specs / f"{name}.yaml"
        path.write_text(yaml.safe_dump(spec, sort_keys=False))
        made.append(path)
    return made


def campaign_of(part: Part, folder: Path) -> Path:
    """Return the campaign, or folder of campaigns, that a part's findings use."""
    return folder / part.specs[0] if len(part.specs) == 1 else folder


def measured(part: Part, folder: Path, points: int | None) -> bool:
    """Run a part's sweeps, or go on with them; return False where this host cannot do it.

    Raises
    ------
    SystemExit
        A sweep that failed.
    """
    accept = (GOOD, HOST_CANNOT) if part.needs else (GOOD,)
    specs = specs_of(part, folder, points)
    return all(run_campaign(spec, folder / spec.stem, accept=accept) == GOOD for spec in specs)


def page_of(sections: Path) -> str:
    """Return the page of the parts that have been evaluated."""
    evaluated = [sections / f"{part.name}.md" for part in PARTS]
    return fill_page(HERE / "page.md", parts=(path.read_text().rstrip() + "\n" for path in evaluated if path.exists()))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing, evaluate, write the page and its figures."""
    parser = evaluation_parser(__doc__, "causal")
    parser.add_argument(
        "--only", nargs="+", choices=[part.name for part in PARTS], metavar="NAME", help="these parts alone"
    )
    parser.add_argument(
        "--points", type=int, help="points of each sweep, for a trial; its page stays in the folder of the sweeps"
    )
    parser.add_argument("--no-run", action="store_true", help="evaluate the sweeps as they stand, and run nothing")
    asked = parser.parse_args(arguments)
    folder: Path = asked.campaigns.resolve() / (f"trial-{asked.points}" if asked.points else "")
    evidence = EVIDENCE if asked.points is None else folder
    (evidence / "causal").mkdir(parents=True, exist_ok=True)
    sections = folder / "sections"
    sections.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        if asked.only and part.name not in asked.only:
            continue
        if not asked.no_run and not measured(part, folder, asked.points):
            section = f"*{part.name} needs {part.needs}. This host is none: the part was left out.*"
        else:
            section = importlib.import_module(part.module).findings(campaign_of(part, folder), evidence / "causal")
        (sections / f"{part.name}.md").write_text(section)
        print(f"{part.name}: evaluated", file=sys.stderr)
    page = evidence / "causal.md"
    page.write_text(page_of(sections))
    print(f"written: {page}")


if __name__ == "__main__":
    main()
