"""The experiments of "Causal analysis for performance modeling of computer programs" with campaigns of this tool.

    python -m experiments.causal.evaluate [--campaigns FOLDER] [--only NAME …] [--points N] [--no-run] [--stored]

Runs the sweeps of each part into the folder, or goes on with what stands there; learns what causes what from their
tables, compares it with the paper's claims, and writes docs/evidence/causal.md and its figures. A part that this host
cannot measure keeps its section of the page; without one it is left out, and the page says so. With --only the
other parts of the page stay, and a part that this host cannot measure ends the command with 3. With --points all is
small, and nothing is written but into the folder.

Each sweep's table is kept in experiments/causal/tables, so that a later learner is evaluated on the same runs: --stored
takes the tables that are there, and runs nothing. A part that has none keeps its section of the page.
"""

from __future__ import annotations

import importlib
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from experiments.common.evaluation import EVIDENCE, GOOD, HOST_CANNOT, evaluation_parser, fill_page, run_campaign
from experiments.common.provenance import made_by
from unperturbed.collectors.data import read_sweep, read_sweep_facts
from unperturbed.common.wording import listing

HERE = Path(__file__).parent
STORED = HERE / "tables"
TABLE = "table.parquet"
END = "end"
"""The mark behind the last part."""
LARGEST = 5_000_000
"""Bytes of a table that the repository takes."""
COUNTERS = "a processor whose counters can be read"
JPEG = ("jpeg2000_lossless", "jpeg2000_lossy")
SIMULATOR = {"LL": "256 KiB 8-way 64 B"}
"""Of simulated parts; as lu.yaml has it."""
NATIVE_RUNS = 15
"""As lu.yaml has it: of simulated parts, times are all that the host itself decides."""
SIMULATED = {"PAPI_L2_DCM": "PAPI_L2_TCM"}
"""What the simulator has in the place of a processor's metric: its last level holds data and instructions."""


@dataclass(frozen=True)
class Part:
    """A part of the page."""

    name: str  # Its name
    specs: tuple[str, ...]  # Its sweeps, each a spec beside this file, without `.yaml`
    # Where `findings(campaign, figures)` is. It is given the campaign's folder; of a part with several sweeps the
    # folder that holds them all.
    module: str
    needs: str = ""  # What not every host has, for the page; empty where all can do it
    simulated: bool = False  # The specs count a processor's misses, and the part a simulator's

    def within(self, folder: Path) -> Path:
        """Return the folder, in one of sweeps, where those of this part are: simulated ones have a folder of theirs."""
        return folder / "simulated" if self.simulated else folder


PARTS = (
    Part("lu_processor", ("lu_processor",), "experiments.causal.decomposition.findings", COUNTERS),
    Part("lu", ("lu",), "experiments.causal.decomposition.findings"),
    Part("kernels", ("lu", "matmul", "mergesort"), "experiments.causal.kernels.findings"),
    Part("jpeg", JPEG, "experiments.causal.jpeg.findings", COUNTERS),
    Part("jpeg_simulated", JPEG, "experiments.causal.jpeg.findings", simulated=True),
    Part("jpeg_sizes", ("jpeg2000_sizes",), "experiments.causal.jpeg.sizes", simulated=True),
)


def specs_of(part: Part, folder: Path, points: int | None) -> list[Path]:
    """Return the specs of a part; of a simulated one, and for a trial with few points, copies of them in a folder.

    Where every combination is measured, a trial has two values of each parameter.
    """
    if points is None and not part.simulated:
        return [HERE / f"{name}.yaml" for name in part.specs]
    specs = part.within(folder) / "specs"
    specs.mkdir(parents=True, exist_ok=True)
    for beside in HERE.iterdir():
        if beside.is_dir() and not (specs / beside.name).exists():
            (specs / beside.name).symlink_to(beside)
    made = []
    for name in part.specs:
        spec = yaml.safe_load((HERE / f"{name}.yaml").read_text())
        if part.simulated:
            measure = spec["measure"]
            hardware = [SIMULATED.get(metric, metric) for metric in measure["hardware"]]
            spec["measure"] = measure | {"source": "simulated", "simulator": SIMULATOR, "hardware": hardware}
            spec["campaign"].pop("repetitions", None)  # simulated counts hardly differ from run to run
            spec["campaign"].setdefault("native_runs", NATIVE_RUNS)  # … and times do
        if points is not None and "points" in spec["campaign"]:
            spec["campaign"]["points"] = points
        elif points is not None:
            spec["parameters"] = {parameter: values[:2] for parameter, values in spec["parameters"].items()}
        path = specs / f"{name}.yaml"
        path.write_text(yaml.safe_dump(spec, sort_keys=False))
        made.append(path)
    return made


def campaign_of(part: Part, folder: Path) -> Path:
    """Return the campaign, or folder of campaigns, that a part's findings use."""
    within = part.within(folder)
    return within / part.specs[0] if len(part.specs) == 1 else within


def measured(part: Part, folder: Path, points: int | None) -> bool:
    """Run a part's sweeps, or go on with them; return False where this host cannot do it."""
    accept = (GOOD, HOST_CANNOT) if part.needs else (GOOD,)
    specs = specs_of(part, folder, points)
    return all(run_campaign(spec, part.within(folder) / spec.stem, accept=accept) == GOOD for spec in specs)


def store(part: Part, folder: Path) -> None:
    """Keep the tables of a part's sweeps in the repository."""
    for name in part.specs:
        table = part.within(folder) / name / TABLE
        if table.stat().st_size > LARGEST:
            raise SystemExit(
                f"{table}: {table.stat().st_size:,} bytes are too many to be kept; {LARGEST:,} are allowed"
            )
        kept = part.within(STORED) / name
        kept.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(table, kept / TABLE)


def stored(part: Part) -> bool:
    """Return whether all tables of a part are kept."""
    return all((part.within(STORED) / name / TABLE).exists() for name in part.specs)


def sections_of(page: Path) -> dict[str, str]:
    """Return the sections that a page has, by the name of their part."""
    if not page.exists():
        return {}
    _, *pieces = re.split(r"^<!-- (\w+) -->\n", page.read_text(), flags=re.MULTILINE)
    return {name: text.strip() for name, text in zip(pieces[::2], pieces[1::2], strict=True) if name != END}


def page_of(sections: Mapping[str, str]) -> str:
    """Return the page of the parts that have a section."""
    parts = [f"<!-- {part.name} -->\n{sections[part.name].strip()}\n" for part in PARTS if part.name in sections]
    return fill_page(HERE / "page.md", kept=_kept(sections), parts=parts)


def _kept(sections: Mapping[str, str]) -> str:
    """Say which parts can be made again from kept tables, and which are of an earlier learner."""
    heads = {name: text.lstrip("# ").partition("\n")[0].partition(" (")[0] for name, text in sections.items()}
    old = [f"*{heads[part.name]}*" for part in PARTS if part.name in sections and not stored(part)]
    said = []
    if len(old) < len(sections):
        said.append(
            "Tables of the sweeps are kept in `experiments/causal/tables`; from them `python -m "
            "experiments.causal.evaluate --stored` makes the page again with the learner of today."
        )
    if old:
        said.append(f"No table was kept of {listing(old)}: what stands here is of the learner of its day.")
    missing = [part.name for part in PARTS if part.name not in sections]
    if missing:
        said.append(f"Not recorded yet: {', '.join(missing)}.")
    return " ".join(said)


def evaluated(part: Part, folder: Path, evidence: Path, made: str) -> str:
    """Evaluate a part; say when its sweeps were recorded, and by what they are evaluated."""
    section: str = importlib.import_module(part.module).findings(campaign_of(part, folder), evidence / "causal")
    sweeps = [part.within(folder) / name for name in part.specs]
    days = sorted(str(read_sweep_facts(sweep).get("begun", "unknown"))[:10] for sweep in sweeps)
    when = f"on {days[0]}" if days[0] == days[-1] else f"from {days[0]} to {days[-1]}"
    times = sorted({read_sweep(sweep)[1]["cpu_s"].meaning.partition("; ")[2] for sweep in sweeps} - {""})
    least = f"; a time is {listing(times)}" if times else ""
    return f"{section.strip()}\n\nRecorded {when}{least}. {made}"


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
    parser.add_argument("--stored", action="store_true", help="evaluate the tables that are kept, and run nothing")
    asked, made = parser.parse_args(arguments), made_by()
    folder: Path = asked.campaigns.resolve() / (f"trial-{asked.points}" if asked.points else "")
    evidence = EVIDENCE if asked.points is None else folder
    (evidence / "causal").mkdir(parents=True, exist_ok=True)
    page = evidence / "causal.md"
    sections = sections_of(page)
    unmeasured = False
    for part in PARTS:
        if asked.only and part.name not in asked.only:
            continue
        if asked.stored:
            if not stored(part):
                print(f"{part.name}: no table is kept, its section stays", file=sys.stderr)
                continue
            section = evaluated(part, STORED, evidence, made)
        elif not asked.no_run and not measured(part, folder, asked.points):
            unmeasured = True
            if part.name in sections:
                print(f"{part.name}: this host cannot measure it, its section stays", file=sys.stderr)
                continue
            section = f"*{part.name} needs {part.needs}. This host is none: the part was left out.*"
        else:
            section = evaluated(part, folder, evidence, made)
            if asked.points is None:
                store(part, folder)
        sections[part.name] = section
        print(f"{part.name}: evaluated", file=sys.stderr)
    page.write_text(page_of(sections))
    print(f"written: {page}")
    if asked.only and unmeasured:
        raise SystemExit(HOST_CANNOT)


if __name__ == "__main__":
    main()
