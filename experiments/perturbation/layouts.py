"""Does the counting perturb, or the code that comes with it? Steps and their shams, each in many layouts.

    python -m experiments.perturbation.layouts [--campaigns FOLDER] [--programs bzip2 chess] [--processor]

Runs shortened campaigns of the perturbation experiment's programs, with three steps each (the first, the middle and
the last) and their shams: every run of a configuration has a layout of its own, and a sham has its step's, run by run.
The size of the environment varies as well. Layouts are drawn again with replacement, 400 times, for the intervals.
Writes docs/evidence/perturbation_layouts.md and its figure; with --processor the same with longer runs and a
processor's own counters, perturbation_layouts_processor.md.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import yaml
from numpy.typing import NDArray

from experiments.common.evaluation import EVIDENCE, run_campaign
from experiments.common.figures import COLOURS, panels, save
from experiments.common.tables import markdown_table, right
from experiments.perturbation.programs import Evaluation, programs_parser
from experiments.perturbation.series import Program, require_processor, runs_by_configuration
from experiments.perturbation.variants import COUNTERS, LAYOUTS, write_variant
from unperturbed.analysis.perturbation import Baseline, Verdict
from unperturbed.collectors.data import Trace
from unperturbed.common.table import Column
from unperturbed.common.wording import counted, listing

DRAWS = 400
LEVEL = 95
"""Level of the intervals [%]."""

SIMULATED = """!!! note "Simulated counters"
    Counters are simulated (`clock: work`). The simulated machine has caches and a branch predictor, and no
    prefetcher, no out-of-order core, no branch target buffer and no neighbours. A real processor feels a layout in
    more ways. The same experiment on a processor still awaits a host whose counters can be read
    (`make validate-processor`).

Newer campaigns find more: by [one build in varied layouts](one_build.md#in-varied-layouts),
counting alone perturbs 8 of 38 pairs for `mtf` of bzip2 and for `squares` of chess, where this page has none. In
[36 steps in one layout](one_build.md#the-steps-of-the-papers-experiment), shams perturb 144 of 174 inner and outer
changes, or 83 %."""
ON_PROCESSOR = "Counters are a processor's, at intervals of 2 ms by the clock."

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Step:
    """A configuration and its sham in the same layouts."""

    metric: str  # The software metric that came in last
    added: float  # Increments that it executes, as a share of the baseline's instructions
    # counting, sham: Inner changes against the baseline; the pairs of both are in the same order.
    counting: Verdict
    sham: Verdict
    # outer, outer_sham: Outer changes, of each metric with itself after alignment.
    outer: Verdict
    outer_sham: Verdict
    # (draws, 2, pairs): What is called perturbed when the layouts are drawn again: in the step, in its sham.
    shared: BoolArray
    parts: FloatArray  # (draws,): How much of the changes the sham shows, see `part_of`


@dataclass(frozen=True)
class Layouts:
    """A program in its layouts."""

    program: Program  # The program
    baseline: Baseline  # Its runs that count nothing, each in a layout of its own
    intervals: tuple[int, int]  # The shortest and the longest run
    steps: tuple[Step, ...]  # From the rarest metric to all


def in_layouts(program: Program, spec: Path, campaign: Path, *, draws: int = DRAWS) -> Layouts:
    """Judge each step and its sham against the baseline, and again with layouts drawn with replacement."""
    settings = yaml.safe_load(spec.read_text())
    metrics, align_on = settings["measure"]["hardware"], settings["analysis"]["align_on"]
    runs, unordered = runs_by_configuration(campaign)
    base = runs["baseline"]
    instructions = float(np.mean([trace["PAPI_TOT_INS"].sum() for trace in base]))
    subsets = settings["campaign"]["subsets"]
    chance = np.random.default_rng(settings["campaign"]["seed"])
    baseline = Baseline(base, metrics=metrics)
    shams = {name: _same_layouts(runs[name], unordered[name]) for name in subsets}
    judged = {name: _judged(baseline, runs[name], shams[name]) for name in subsets}
    again: dict[str, list[tuple[Verdict, Verdict]]] = {name: [] for name in subsets}
    for _ in range(draws):
        drawn = Baseline(_drawn(base, chance.integers(len(base), size=len(base))), metrics=metrics)
        for name in subsets:
            rows = chance.integers(len(runs[name]), size=len(runs[name]))
            again[name].append(_judged(drawn, _drawn(runs[name], rows), _drawn(shams[name], rows)))
    steps = []
    for name, software in subsets.items():
        events = np.mean([sum(int(trace[metric].sum()) for metric in software) for trace in runs[name]])
        steps.append(
            Step(
                metric=software[-1],
                added=float(events) / instructions,
                counting=judged[name][0],
                sham=judged[name][1],
                outer=baseline.outer(runs[name], align_on=align_on),
                outer_sham=baseline.outer(shams[name], align_on=align_on),
                shared=np.array([[perturbed(verdict) for verdict in pair] for pair in again[name]]).reshape(
                    draws, 2, -1
                ),
                parts=np.array([part_of(*pair) for pair in again[name]]),
            )
        )
    lengths = [len(trace) for trace in base]
    return Layouts(program, baseline, (min(lengths), max(lengths)), tuple(steps))


def part_of(counting: Verdict, sham: Verdict) -> float:
    """Return how much of a step's changes its sham shows: the slope of the sham's changes over the step's.

    All pairs are taken, so that no pair is chosen for its large change. Changes are on Fisher's scale, weighted
    alike; 1 says that the sham changes everything as the step does, 0 that it changes nothing.
    """
    changed, alone = (
        np.array(
            [np.mean(np.arctanh(change.observed)) - np.mean(np.arctanh(change.reference)) for change in verdict.changes]
        )
        for verdict in (counting, sham)
    )
    return float(changed @ alone / (changed @ changed))


def perturbed(verdict: Verdict) -> list[bool]:
    """Return for each change whether it is called perturbed."""
    return [change.verdict == "perturbed" for change in verdict.changes]


def against_mean(verdict: Verdict) -> float:
    """Return the share of single layouts that tell another story of a pair than the mean over layouts does.

    A layout tells that a pair changed when its run deviates from the baseline's mean by more than the tolerance.
    """
    apart = []
    for change in verdict.changes:
        mean = np.tanh(np.mean(np.arctanh(change.reference)))
        single = np.abs(np.array(change.observed) - mean) > change.tolerance
        apart.append(np.mean(single != (abs(change.effect) > change.tolerance)))
    return float(np.mean(apart))


def table(all_layouts: Sequence[Layouts]) -> list[str]:
    """Return a row for each step of each program."""
    heads: list[Column | str] = [
        "program",
        "counted up to",
        *right(
            "increments per instruction, %",
            "pairs perturbed",
            "… by the sham",
            "… by both",
            "metrics perturbed, outer",
            "… by the sham",
            "… by both",
            f"share of the change in the sham [{LEVEL} %]",
            "single layouts that disagree",
        ),
    ]
    rows = []
    for layouts in all_layouts:
        for step in layouts.steps:
            own, alone, outer, outer_alone = (
                np.array(perturbed(verdict)) for verdict in (step.counting, step.sham, step.outer, step.outer_sham)
            )
            rows.append(
                (
                    layouts.program.name,
                    step.metric,
                    _share(step.added),
                    f"{own.sum()} of {len(own)}",
                    int(alone.sum()),
                    int((own & alone).sum()),
                    f"{outer.sum()} of {len(outer)}",
                    int(outer_alone.sum()),
                    int((outer & outer_alone).sum()),
                    f"{part_of(step.counting, step.sham):.2f} [{_interval(step.parts, '.2f')}]",
                    f"{against_mean(step.counting):.1%}",
                )
            )
    return markdown_table(heads, rows)


def headline(all_layouts: Sequence[Layouts]) -> str:
    """State the share of perturbed correlations that are perturbed by the shams, with its interval."""
    steps = [step for layouts in all_layouts for step in layouts.steps]
    own = np.concatenate([perturbed(step.counting) for step in steps])
    alone = np.concatenate([perturbed(step.sham) for step in steps])
    if not own.any():
        return f"No correlation of {own.size} is perturbed in a step."
    shared = np.concatenate([step.shared for step in steps], axis=2)
    counts = shared[:, 0].sum(axis=1)
    shares = (shared[:, 0] & shared[:, 1]).sum(axis=1)[counts > 0] / counts[counts > 0]
    both, only = int((own & alone).sum()), int((alone & ~own).sum())
    by_program = []
    for layouts in all_layouts:
        pairs = [np.array([perturbed(step.counting), perturbed(step.sham)]) for step in layouts.steps]
        if (caused := sum(int(pair[0].sum()) for pair in pairs)) > 0:
            by_program.append(
                f"{sum(int(pair.all(axis=0).sum()) for pair in pairs)} of {caused} in {layouts.program.name}"
            )
    alone_too = f"{only or 'No'} correlation{'s' * (only > 1)} {'are' if only > 1 else 'is'} perturbed by a sham alone."
    return (
        f"**Of {own.sum()} correlations that a step perturbs, its sham, which counts nothing, perturbs "
        f"{both} as well: {100 * both / own.sum():.0f} % ({LEVEL} % interval over layouts: "
        f"{_interval(100 * shares, '.0f')} %).** The interval covers layouts, not other programs: by program it is "
        f"{listing(by_program)}. {alone_too} "
        f"{own.size} correlations were compared: {counted(len(steps), 'step')} of "
        f"{counted(len(all_layouts), 'program')}."
    )


def spread(all_layouts: Sequence[Layouts]) -> list[str]:
    """Return how far layouts alone move correlations of the baseline."""
    rows = []
    for layouts in all_layouts:
        deviation = layouts.baseline.correlations.std(axis=0, ddof=1)
        at = int(deviation.argmax())
        pair = " – ".join(name.removeprefix("PAPI_") for name in layouts.baseline.pairs[at])
        low, high = layouts.baseline.correlations[:, at].min(), layouts.baseline.correlations[:, at].max()
        rows.append(
            (
                layouts.program.name,
                f"{layouts.intervals[0]:,} to {layouts.intervals[1]:,}",
                f"{np.median(deviation):.3f}",
                f"{deviation.max():.3f}",
                f"{pair}: {low:.2f} to {high:.2f}",
            )
        )
    heads: list[Column | str] = [
        "program",
        *right("intervals a run", "standard deviation of ρ, median pair", "… largest"),
        "that pair: range of ρ over layouts",
    ]
    return markdown_table(heads, rows)


def draw(path: Path, all_layouts: Sequence[Layouts]) -> None:
    """Draw each pair's change in the step and in its sham, a panel a program."""
    figure, axes = panels(len(all_layouts), columns=2, height=3.8)
    for place, layouts in zip(axes, all_layouts, strict=True):
        widest = 0.0
        for step, colour in zip(layouts.steps, COLOURS, strict=False):
            x, y = ([change.effect for change in verdict.changes] for verdict in (step.counting, step.sham))
            for verdict, values, others, horizontal in ((step.counting, x, y, True), (step.sham, y, x, False)):
                error = np.array(
                    [(value - c.low, c.high - value) for value, c in zip(values, verdict.changes, strict=True)]
                )
                error = np.clip(error.T, 0, None)
                bars = {"xerr": error} if horizontal else {"yerr": error}
                at = (values, others) if horizontal else (others, values)
                place.errorbar(*at, **bars, fmt="none", ecolor=colour, elinewidth=0.4, alpha=0.6)
            place.scatter(x, y, s=9, color=colour, label=f"up to {step.metric}, {_share(step.added)} % added")
            widest = max(widest, *np.abs([*x, *y]))
        widest *= 1.15
        tolerance = layouts.steps[0].counting.changes[0].tolerance
        place.axvspan(-tolerance, tolerance, color="#eeeeee", zorder=0)
        place.axhspan(-tolerance, tolerance, color="#eeeeee", zorder=0)
        place.plot([-widest, widest], [-widest, widest], color="#999999", linewidth=0.8, zorder=1)
        place.set(
            title=layouts.program.name,
            xlim=(-widest, widest),
            ylim=(-widest, widest),
            xlabel="change of ρ in the step",
            ylabel="change of ρ in its sham",
        )
        place.legend(frameon=False, fontsize=7)
    save(figure, path)


def _judged(baseline: Baseline, counting: Sequence[Trace], sham: Sequence[Trace]) -> tuple[Verdict, Verdict]:
    return baseline.inner(counting), baseline.inner(sham)


def _same_layouts(counting: Sequence[Trace], sham: Sequence[Trace]) -> list[Trace]:
    """Return the sham's runs in the order of the layouts of the step's runs."""
    by_layout = {trace.attributes["layout"]: trace for trace in sham}
    return [by_layout[trace.attributes["layout"]] for trace in counting]


def _drawn(traces: Sequence[Trace], rows: NDArray[np.int64]) -> list[Trace]:
    """Return runs by their rows, each with a name of its own: a baseline refuses the same run twice."""
    return [
        replace(traces[row], attributes={**traces[row].attributes, "run": f"drawn {place}"})
        for place, row in enumerate(rows)
    ]


def _share(share: float) -> str:
    return "< 0.001" if share < 1e-5 else f"{100 * share:.2g}"


def _interval(values: FloatArray, form: str) -> str:
    tail = (100 - LEVEL) / 2
    low, high = np.percentile(values, [tail, 100 - tail])
    return f"{low:{form}} to {high:{form}}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, evaluate, write the page and its figure."""
    parser = programs_parser(__doc__, "perturbation-layouts")
    parser.add_argument("--processor", action="store_true", help="longer runs, counted by this host's processor")
    asked = Evaluation.of(parser, arguments)
    on_processor = asked.options.processor
    campaigns = asked.campaigns / ("processor" if on_processor else "")
    all_layouts = []
    for program in asked.programs:
        spec = write_variant(campaigns / "specs", program, layouts=True, counters=COUNTERS if on_processor else None)
        run_campaign(spec, campaigns / program.name)
        all_layouts.append(in_layouts(program, spec, campaigns / program.name, draws=DRAWS))
        print(f"{program.name}: evaluated", file=sys.stderr)
    if on_processor:
        require_processor(layouts.baseline.traces[0] for layouts in all_layouts)
    name = "layouts_processor" if on_processor else "layouts"
    (EVIDENCE / "perturbation").mkdir(exist_ok=True)
    draw(EVIDENCE / "perturbation" / f"{name}.svg", all_layouts)
    page = asked.fill(
        "page_layouts.md",
        [campaigns / program.name for program in asked.programs],
        title="Counting, or the code that comes with it?" + (" On a processor" if on_processor else ""),
        counted=ON_PROCESSOR if on_processor else SIMULATED,
        figure=f"perturbation/{name}.svg",
        headline=headline(all_layouts),
        table=table(all_layouts),
        spread=spread(all_layouts),
        layouts=LAYOUTS,
        draws=DRAWS,
        level=LEVEL,
    )
    (EVIDENCE / f"perturbation_{name}.md").write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
