"""Which metrics predict the rest: four programs, passes that are joined, noise, and mixtures with known sources.

    python -m experiments.choice.evaluate [--campaigns FOLDER] [--programs bzip2 chess network redcode]

Writes docs/evidence/choice.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from experiments.common.evaluation import EVIDENCE, evaluation_parser, fill_page, run_campaign
from experiments.common.provenance import made_by, recorded
from experiments.common.tables import markdown_table, right
from experiments.perturbation.series import PROGRAMS, Program
from experiments.perturbation.variants import write_variant
from unperturbed.analysis.choice.metric_choice import Cost, MetricChoice, choose_metrics
from unperturbed.analysis.choice.moments import Scale
from unperturbed.harness.results.recorded import recorded_campaign
from unperturbed.harness.studies.choice import choose_of_campaign

HARDWARE = (
    *("PAPI_TOT_INS", "PAPI_TOT_CYC", "PAPI_L1_DCM", "PAPI_L1_DCA", "PAPI_L1_DCR", "PAPI_L1_DCW", "PAPI_L1_ICM"),
    *("PAPI_L1_ICA", "PAPI_L1_TCM", "PAPI_L1_LDM", "PAPI_L1_STM", "PAPI_L2_DCM", "PAPI_L2_ICM", "PAPI_L2_TCM"),
    *("PAPI_L2_LDM", "PAPI_L2_STM", "PAPI_BR_INS", "PAPI_BR_CN", "PAPI_BR_MSP", "PAPI_BR_PRC", "PAPI_LD_INS"),
    *("PAPI_SR_INS", "PAPI_LST_INS", "callgrind::Bi", "callgrind::Bcm", "callgrind::Bim"),
)
RUNS, COUNTERS = 6, 6
TARGETS = (0.9, 0.95, 0.99)
JOINED = "bzip2"  # The program that is also measured in passes
DRAWS = 20
SOURCES = (0, 1, 2)
MIXTURES = np.array([[2, 1, 0], [0, 3, 1], [1, 0, 4], [1, 1, 1], [5, 0, 0]])
_COST = Cost(RUNS, None)

FloatArray = NDArray[np.float64]


def write_spec(folder: Path, program: Program, counters: int | None = None) -> Path:
    """Write a program's spec with a baseline alone, a short input, and a code layout of its own for each run."""
    spec: dict[str, Any] = yaml.safe_load(write_variant(folder, program, layouts=True).read_text())
    spec["measure"] |= {"hardware": list(HARDWARE), "interval": {"records": 300}, "clock": "work"}
    if counters is not None:
        spec["measure"].setdefault("simulator", {})["counters"] = counters
    for key in ("software", "derived"):
        spec["measure"].pop(key, None)
    spec["campaign"] = {"baseline_runs": RUNS, "seed": 1, "layouts": "varied"}
    spec.pop("analysis", None)
    path = folder / f"{program.name}{'-passes' if counters else ''}.yaml"
    path.write_text(yaml.safe_dump(spec, sort_keys=False))
    return path


def choice_of(campaign: Path, target: float, scale: Scale = "count") -> MetricChoice:
    """Return the choice of a campaign."""
    return choose_of_campaign(campaign, recorded_campaign(campaign), target=target, scale=scale)


def programs_table(campaigns: Mapping[str, Path]) -> list[str]:
    """Return how many metrics predict the rest, for each program, scale and target."""
    rows = []
    for name, campaign in campaigns.items():
        for scale in ("count", "sqrt"):
            found = {target: choice_of(campaign, target, scale) for target in TARGETS}
            first = found[TARGETS[0]]
            others = [each.r2 for each in first.from_others]
            rows.append(
                [
                    *(name, first.intervals, len(first.metrics), scale),
                    *(_enough(found[target]) for target in TARGETS),
                    *(f"{np.median(others):.3f}", f"{min(others):.3f}"),
                ]
            )
    heads = ["enough for R² 0.9", "0.95", "0.99", "from all others: median R²", "lowest"]
    return markdown_table(["program", *right("intervals", "metrics"), "scale", *right(*heads)], rows)


def _enough(choice: MetricChoice) -> str:
    return "–" if choice.enough is None else str(len(choice.enough.chosen))


def searches_table(campaigns: Mapping[str, Path]) -> list[str]:
    """Return what the best k metrics explain, by the forward search and by the choice."""
    rows = []
    for name, campaign in campaigns.items():
        for step in choice_of(campaign, 0.95).steps:
            rest = np.array([each.r2 for each in step.predictions])
            rows.append(
                [
                    *(name, len(step.chosen), step.how, f"{step.explained:.4f}", f"{step.forward_explained:.4f}"),
                    *(f"{len(step.predicted(0.95))} of {len(rest)}", f"{rest.min():.3f}", f"{step.agreeing} of {RUNS}"),
                ]
            )
    heads = ["explained", "by the forward search", "predicted to 0.95", "lowest R²", "same choice"]
    return markdown_table(["program", *right("k"), "search", *right(*heads)], rows)


def joined_table(together: Path, passes: Path) -> tuple[list[str], str]:
    """Return each metric's R² from all others and nearest metric, of one pass and of joined passes; and a sentence."""
    one, joined = choice_of(together, 0.95), choice_of(passes, 0.95)
    rows, differences = [], []
    for metric in one.metrics:
        of_one, of_joined = (_from_others(choice, metric) for choice in (one, joined))
        differences.append(of_joined - of_one)
        near, other = one.tree.nearest(metric), joined.tree.correlation(metric, one.tree.nearest(metric)[0])
        rows.append([metric, f"{of_one:.4f}", f"{of_joined:.4f}", near[0], f"{near[1].rho:.4f}", f"{other.rho:.4f}"])
    said = (
        f"R² from all others differs by {np.median(np.abs(differences)):.4f} (median) and by at most "
        f"{np.max(np.abs(differences)):.4f}; {_enough(one)} metrics predict the rest to R² 0.95 in one pass, "
        f"{_enough(joined)} in joined passes."
    )
    heads = right("R² from all others: one pass", "joined")
    return markdown_table(["metric", *heads, "nearest", *right("ρ: one pass", "joined")], rows), said


def _from_others(choice: MetricChoice, metric: str) -> float:
    return next(each.r2 for each in choice.from_others if each.metric == metric)


def calibration_table() -> list[str]:
    """Return what is found in noise, whose metrics predict nothing, and in mixtures of known sources."""
    rows = []
    draws: dict[str, Callable[[np.random.Generator], FloatArray]] = {
        "Poisson noise": lambda chance: chance.poisson(100, (150, 10)).astype(np.float64),
        "random walks": lambda chance: np.cumsum(chance.normal(size=(150, 10)), axis=0),
    }
    for name, draw in draws.items():
        chance, values, beyond, wrong = np.random.default_rng(1), list[float](), 0, 0
        for _ in range(DRAWS):
            found = choose_metrics(
                {str(run): draw(chance) for run in range(8)}, [str(at) for at in range(10)], target=0.5, cost=_COST
            )
            each = [one for step in found.steps for one in step.predictions] + list(found.from_others)
            values += [one.r2 for one in each]
            beyond += sum(one.low > 0 for one in each)
            wrong += len(found.unpredicted) < 10
        rows.append([name, len(values), f"{np.mean(values):.3f}", f"{max(values):.3f}", beyond, f"{wrong} of {DRAWS}"])
    heads = ["predictions", "mean R²", "largest R²", "intervals above 0", "draws with a metric predicted to 0.5"]
    return markdown_table(["values", *right(*heads)], rows)


def mixtures_sentence() -> str:
    """Return how often the sources of mixtures are the choice."""
    chance, exactly, alone = np.random.default_rng(2), 0, 0
    for _ in range(DRAWS):
        runs = {}
        for run in range(8):
            steps = chance.gamma(2, 500, (154, 3))
            sources = chance.poisson(np.stack([steps[at : at + 150] for at in range(5)]).mean(axis=0))
            mixed = chance.poisson(sources @ MIXTURES.T)
            runs[str(run)] = np.column_stack([sources, mixed, chance.poisson(50, 150)]).astype(np.float64)
        found = choose_metrics(runs, [str(at) for at in range(9)], target=0.95, cost=_COST)
        exactly += found.enough is not None and set(found.enough.chosen) == {*map(str, SOURCES), "8"}
        alone += found.unpredicted == ("8",)
    return (
        f"Of {DRAWS} draws of three sources, five mixtures of them and one metric of noise, the smallest choice for R² "
        f"0.95 is the sources and the noise in {exactly}, and the noise is the one metric predicted by none in {alone}."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, write the page."""
    parser = evaluation_parser(__doc__, "choice")
    names = [program.name for program in PROGRAMS]
    parser.add_argument("--programs", nargs="+", choices=names, default=names, help="programs to run (all)")
    options = parser.parse_args(arguments)
    made, campaigns = made_by(), {}
    for program in PROGRAMS:
        if program.name in options.programs:
            campaigns[program.name] = options.campaigns / program.name
            run_campaign(write_spec(options.campaigns / "specs", program), campaigns[program.name])
    passes = options.campaigns / f"{JOINED}-passes"
    program = next(each for each in PROGRAMS if each.name == JOINED)
    run_campaign(write_spec(options.campaigns / "specs", program, COUNTERS), passes)
    joined, said = joined_table(campaigns[JOINED], passes)
    page = fill_page(
        Path(__file__).parent / "page.md",
        programs=programs_table(campaigns),
        searches=searches_table(campaigns),
        joined=joined,
        said=said,
        calibration=calibration_table(),
        mixtures=mixtures_sentence(),
        recorded=recorded([*campaigns.values(), passes]),
        made=made,
    )
    (EVIDENCE / "choice.md").write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
