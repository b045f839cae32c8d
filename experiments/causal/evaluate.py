"""The experiments of "Causal analysis for performance modeling of computer programs" again, measured by campaigns of this tool.

    python experiments/causal/evaluate.py [--campaigns FOLDER] [--only NAME …] [--points N] [--no-run]

Runs the sweeps of each part into the folder, or goes on with what stands there; learns what causes what from their tables, holds it against what
the paper says, and writes docs/evidence/causal.md and its figures. A part that this host cannot measure is left out, and the page says so. With
--only the other parts of the page are those that were evaluated last. With --points all is small, and nothing is written but into the folder.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

HERE = Path(__file__).parent
EVIDENCE = HERE.parents[1] / "docs" / "evidence"
HOST_CANNOT = 3
"""Exit code of a campaign that this host cannot do."""
COUNTERS = "a processor whose counters can be read"


@dataclass(frozen=True)
class Part:
    """A part of the page.

    Attributes
    ----------
    name : str
    specs : tuple of str
        Its sweeps, each a spec beside this file, without `.yaml`.
    module : str
        Where `findings(campaign, figures)` is. It is given the campaign's folder; of a part with several sweeps the folder that holds them all.
    needs : str
        What not every host has, for the page; empty where all can do it.
    """

    name: str
    specs: tuple[str, ...]
    module: str
    needs: str = ""


PARTS = (
    Part("lu_processor", ("lu_processor",), "lu_findings", COUNTERS),
    Part("lu", ("lu",), "lu_findings"),
    Part("kernels", ("lu", "matmul", "mergesort"), "kernels_findings"),
    Part("jpeg", ("jpeg2000_lossless", "jpeg2000_lossy"), "jpeg_findings", COUNTERS),
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
    """Return what a part's findings are made of."""
    return folder / part.specs[0] if len(part.specs) == 1 else folder


def measured(part: Part, folder: Path, points: int | None) -> bool:
    """Run a part's sweeps, or go on with them; return False where this host cannot do it.

    Raises
    ------
    SystemExit
        A sweep that failed.
    """
    for spec in specs_of(part, folder, points):
        command = ["-m", "unperturbed.harness.cli", "run", str(spec), "--campaign", str(folder / spec.stem)]
        code = subprocess.run([sys.executable, *command], check=False).returncode
        if code == HOST_CANNOT and part.needs:
            return False
        if code != 0:
            raise SystemExit(f"{spec.stem}: the sweep ended with {code}")
    return True


def page_of(sections: Path) -> str:
    """Return the page of the parts that have been evaluated."""
    told = [sections / f"{part.name}.md" for part in PARTS]
    return (
        (HERE / "page.md")
        .read_text()
        .format(parts="\n".join(path.read_text().rstrip() + "\n" for path in told if path.exists()))
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing, evaluate, write the page and its figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--campaigns", type=Path, default=Path("campaigns/causal"), help="folder of the sweeps (campaigns/causal)"
    )
    parser.add_argument("--only", nargs="+", choices=[part.name for part in PARTS], metavar="NAME", help="these parts alone")
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
            said = f"*{part.name} needs {part.needs}. This host is none: the part was left out.*"
        else:
            said = importlib.import_module(part.module).findings(campaign_of(part, folder), evidence / "causal")
        (sections / f"{part.name}.md").write_text(said)
        print(f"{part.name}: evaluated", file=sys.stderr)
    page = evidence / "causal.md"
    page.write_text(page_of(sections))
    print(f"written: {page}")


if __name__ == "__main__":
    main()
