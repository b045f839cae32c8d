"""Picture: a correlation in the untouched program, a counted build, its sham, and one build with and without counting.

    python -m experiments.perturbation.one_correlation [--campaigns FOLDER] [--program chess] [--step nodes]

Runs one step of a program twice, with `builds: separate` and with `builds: one`, each run in a layout of its own, and
writes docs/evidence/perturbation/one_correlation.svg: the pair of metrics that varies most among the untouched runs.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import yaml

from experiments.common.evaluation import EVIDENCE, evaluation_parser, run_campaign
from experiments.common.figures import BLUE, GREY, ORANGE, panels, save
from experiments.common.provenance import made_by
from experiments.perturbation.series import PROGRAMS, runs_by_configuration
from experiments.perturbation.variants import write_variant
from unperturbed.analysis.perturbation import Baseline
from unperturbed.collectors.data import Trace
from unperturbed.harness.campaign.plan import ALL

LAYOUTS = 8
NAMES = ("untouched\nprogram", "counted\nbuild", "its sham", "one build,\nno counting", "one build,\ncounting")


def measure(campaigns: Path, name: str, step: str, builds: str) -> tuple[list[str], Mapping[str, list[Trace]]]:
    """Run the step in one way; return the hardware metrics, and the runs `baseline`, `counted`, `without`."""
    program = next(each for each in PROGRAMS if each.name == name)
    spec = write_variant(campaigns / "specs", program, layouts=True)
    settings = yaml.safe_load(spec.read_text())
    metrics = list(settings["measure"]["software"])
    chosen = metrics[: metrics.index(step) + 1]
    settings["measure"]["software"] = {each: settings["measure"]["software"][each] for each in chosen}
    settings["campaign"] |= {
        "builds": builds,
        "baseline_runs": LAYOUTS,
        "runs": LAYOUTS,
        "sham": True,
        "subsets": {step: chosen},
    }
    own = spec.with_stem(f"{name}-{builds}")
    own.write_text(yaml.safe_dump(settings, sort_keys=False))
    run_campaign(own, campaigns / f"{name}-{builds}")
    runs, shams = runs_by_configuration(campaigns / f"{name}-{builds}")
    sorted_runs = {
        "baseline": runs["baseline"],
        "counted": runs[step],
        "without": shams[ALL if builds == "one" else step],
    }
    by_layout = {
        key: sorted(each, key=lambda trace: int(trace.attributes["layout"])) for key, each in sorted_runs.items()
    }
    return settings["measure"]["hardware"], by_layout


def draw(path: Path, label: str, values: Sequence[Sequence[float]]) -> None:
    """Draw a column of dots for each configuration, one dot a layout; lines join runs of one layout."""
    figure, (axes,) = panels(1, width=7, height=3.2)
    for first, second in ((1, 2), (3, 4)):
        for pair in zip(values[first], values[second], strict=True):
            axes.plot((first, second), pair, color=GREY, linewidth=0.8, zorder=1)
    for place, (column, colour) in enumerate(zip(values, (BLUE, ORANGE, ORANGE, ORANGE, ORANGE), strict=True)):
        filled = colour if place in (0, 1, 4) else "white"
        axes.scatter([place] * len(column), column, s=28, facecolors=filled, edgecolors=colour, zorder=2)
    axes.set_xticks(range(len(NAMES)), NAMES)
    axes.set_xlim(-0.5, len(NAMES) - 0.5)
    axes.set_ylabel(f"correlation of\n{label}")
    save(figure, path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, draw the picture, and print what it shows."""
    parser = evaluation_parser(__doc__, "one-correlation")
    parser.add_argument("--program", default="chess", choices=[program.name for program in PROGRAMS])
    parser.add_argument("--step", default="nodes", help="the last software metric that is counted (nodes)")
    options, made = parser.parse_args(arguments), made_by()
    campaigns: Path = options.campaigns.resolve()
    metrics, separate = measure(campaigns, options.program, options.step, "separate")
    _, one = measure(campaigns, options.program, options.step, "one")
    counted, sham = (
        Baseline(separate["baseline"], metrics=metrics).inner(separate[key]) for key in ("counted", "without")
    )
    ready, patched = (Baseline(separate["baseline"], metrics=metrics).inner(one[key]) for key in ("without", "counted"))
    at = int(np.argmax([np.std(change.reference) for change in counted.changes]))
    label = counted.changes[at].label
    columns = [counted.changes[at].reference]
    for verdict in (counted, sham, ready, patched):
        columns += [change.observed for change in verdict.changes if change.label == label]
    draw(EVIDENCE / "perturbation" / "one_correlation.svg", label, columns)
    for name, column in zip(NAMES, columns, strict=True):
        print(f"{name.replace(chr(10), ' ')}: {min(column):.3f} to {max(column):.3f}")
    for first, second in ((1, 2), (3, 4)):
        change = np.subtract(columns[second], columns[first])
        print(f"within layouts, from {NAMES[first]!r} to {NAMES[second]!r}: {min(change):+.4f} to {max(change):+.4f}")
    print(label, made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
