"""Every subset of a program's software metrics: how metrics interact, and how far a greedy plan is from the best one.

    python -m experiments.perturbation.interaction

Writes `docs/evidence/perturbation_interaction.md`. Open problem 1 of Mytkowicz et al., *Understanding Measurement
Perturbation in Trace-based Data*, section 4: "The most general, but prohibitive, approach will try all possible
partitionings into subsets. We will investigate greedy approaches to this problem." With six metrics and a simulator it
can be tried.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from experiments.common.evaluation import EVIDENCE, GOOD, NEGATIVE, evaluation_parser, fill_page, run_campaign
from experiments.common.figures import panels, save
from experiments.common.provenance import made_by, recorded
from experiments.common.tables import markdown_table, right
from experiments.perturbation.series import HERE, PROGRAMS, Pair, runs_by_configuration
from experiments.perturbation.variants import write_variant
from unperturbed.analysis.perturbation import Baseline, Change, Verdict, VerdictName, combine_checks
from unperturbed.collectors.data import Trace
from unperturbed.harness.spec.load import load_spec

PROGRAM = "redcode"
METRICS = ("cleared", "deaths", "splits", "tasks", "skips", "executed")
BASELINE_RUNS = 26
"""As many as the paper's figure 3 shows."""
RUNS = 3
STRATEGIES = ("first-fit", "restarts")
FIGURE_3 = ("chess", ("PAPI_L1_DCM", "PAPI_L2_TCM", "PAPI_TLB_DM"))
"""The program that stands for the paper's sjeng, and the metrics of the figure's two pairs."""

Subset = frozenset[str]


@dataclass(frozen=True)
class Interaction:
    """Two subsets without a common metric, and what they do together."""

    # first, second: The subsets.
    first: Subset
    second: Subset
    change: Change  # The change of their union whose effect differs most from the sum of its parts' effects
    parts: tuple[Change, Change]  # The same pair or metric in each subset

    @property
    def excess(self) -> float:
        """Return by how much the effect together exceeds the sum of the effects apart."""
        return self.change.effect - sum(part.effect for part in self.parts)

    @property
    def standard_error(self) -> float:
        """Return the standard error of the excess, from how each group of runs varies."""
        groups = (*(change.observed for change in (self.change, *self.parts)), self.change.reference)
        return float(np.sqrt(sum(np.var(group, ddof=1) / len(group) for group in groups)))


def all_subsets(metrics: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield every subset with a metric, the smallest first."""
    for size in range(1, len(metrics) + 1):
        yield from combinations(metrics, size)


def write_specs(folder: Path) -> tuple[Path, Path]:
    """Write the spec of every subset, and that of figure 3's runs.

    Result `subsets`, `figure`: The specs. Figure 3 has the short input.
    """
    by_name = {program.name: program for program in PROGRAMS}
    subsets = write_variant(folder / "subsets", by_name[PROGRAM])
    spec: dict[str, Any] = yaml.safe_load(subsets.read_text())
    spec["campaign"].pop("sham")
    spec["measure"]["software"] = {name: spec["measure"]["software"][name] for name in METRICS}
    chosen = {"-".join(subset): list(subset) for subset in all_subsets(METRICS)}
    spec["campaign"] |= {"baseline_runs": BASELINE_RUNS, "runs": RUNS, "subsets": chosen}
    subsets.write_text(yaml.safe_dump(spec, sort_keys=False))
    name, counters = FIGURE_3
    figure = write_variant(folder / "figure3", by_name[name], layouts=True)
    spec = yaml.safe_load(figure.read_text())
    spec["measure"] |= {"hardware": ["PAPI_TOT_INS", *counters], "software": {}, "derived": {}}
    spec["campaign"] = {"baseline_runs": BASELINE_RUNS, "builds": "separate", "seed": 1}
    spec["analysis"] = {}
    figure.write_text(yaml.safe_dump(spec, sort_keys=False))
    return subsets, figure


def judge_subsets(campaign: Path, spec_path: Path) -> dict[Subset, Verdict]:
    """Compare the runs of every subset with the baseline."""
    spec = load_spec(spec_path)
    runs, _ = runs_by_configuration(campaign)
    settings = spec.analysis
    baseline = Baseline(
        runs["baseline"], metrics=spec.measure.hardware, alpha=settings.alpha, tolerance=settings.tolerance
    )
    return {
        frozenset(metrics): combine_checks(
            name, baseline.inner(runs[name]), baseline.outer(runs[name], align_on=tuple(settings.align_on))
        )
        for name, metrics in spec.campaign.subsets.items()
    }


def interactions(verdicts: Mapping[Subset, Verdict]) -> list[Interaction]:
    """Return what every two subsets without a common metric do together, the largest excess first."""
    rows = []
    for first, second in combinations(verdicts, 2):
        if first & second:
            continue
        together = {(change.check, change.label): change for change in verdicts[first | second].changes}
        apart = [
            {(change.check, change.label): change for change in verdicts[part].changes} for part in (first, second)
        ]
        rows.append(
            max(
                (
                    Interaction(first, second, change, (apart[0][key], apart[1][key]))
                    for key, change in together.items()
                ),
                key=lambda interaction: abs(interaction.excess),
            )
        )
    return sorted(rows, key=lambda interaction: -abs(interaction.excess))


def best_plan(valid: Collection[Subset], metrics: Subset) -> tuple[Subset, ...]:
    """Return disjoint valid subsets that hold the most of these metrics, and the fewest such subsets."""
    if not metrics:
        return ()
    lowest = min(metrics)
    plans = [best_plan(valid, metrics - {lowest})]  # without the metric
    plans += [
        (subset, *best_plan(valid, metrics - subset)) for subset in valid if lowest in subset and subset <= metrics
    ]
    return max(plans, key=lambda plan: (sum(map(len, plan)), -len(plan)))


def search_plan(spec: Path, campaign: Path, strategy: str) -> dict[str, Any]:
    """Let `unperturbed partition` find a plan by runs of its own, and return it as JSON."""
    command = [sys.executable, "-m", "unperturbed.harness.cli", "partition", str(spec), "--campaign", str(campaign)]
    done = subprocess.run([*command, "--strategy", strategy, "--json"], stdout=subprocess.PIPE, check=False)
    if done.returncode not in (GOOD, NEGATIVE):
        raise SystemExit(f"the search by {strategy} ended with {done.returncode}")
    plan: dict[str, Any] = json.loads(done.stdout)
    return plan


def interaction_sentences(verdicts: Mapping[Subset, Verdict]) -> list[str]:
    """Return what was found of interactions: subsets that perturb only together, or only apart."""
    named = {subset: verdict.verdict for subset, verdict in verdicts.items()}
    of_pairs = {
        (first, second): ({named[first], named[second]}, named[first | second])
        for first, second in combinations(named, 2)
        if not first & second
    }
    together = [
        pair for pair, verdicts_of_pair in of_pairs.items() if verdicts_of_pair == ({"unperturbed"}, "perturbed")
    ]
    recovered = [pair for pair, (apart, both) in of_pairs.items() if "perturbed" in apart and both == "unperturbed"]
    apart = [pair for pair, (verdicts_of_pair, _) in of_pairs.items() if verdicts_of_pair == {"unperturbed"}]
    usable = sum(verdict == "unperturbed" for verdict in named.values())
    lines = [
        f"Of {len(of_pairs)} pairs of disjoint subsets, {len(apart)} have two unperturbed subsets, as {usable} of "
        f"{len(named)} subsets are unperturbed; {len(together)} of these pairs are perturbed together. In "
        f"{len(recovered)} pairs at least one is perturbed, and their union is unperturbed."
    ]
    singles = [pair for pair in together if len(pair[0]) == len(pair[1]) == 1]
    if singles:
        lines.append("Single metrics that perturb only together: " + ", ".join(_both(*pair) for pair in singles) + ".")
    singles = [pair for pair in recovered if len(pair[0]) == len(pair[1]) == 1]
    if singles:
        lines.append("Metrics that are unperturbed only together: " + ", ".join(_both(*pair) for pair in singles) + ".")
    return lines


def interaction_table(interactions: Sequence[Interaction], most: int = 8) -> list[str]:
    """Return the pairs of single metrics whose effects add up least, as rows of a table."""
    single = [interaction for interaction in interactions if len(interaction.first) == len(interaction.second) == 1][
        :most
    ]
    rows = [
        (
            *(f"{_name(part)}" for part in (interaction.first, interaction.second)),
            f"{interaction.change.check} {interaction.change.label.replace('PAPI_', '')}",
            *(_effect(change) for change in (*interaction.parts, interaction.change)),
            f"{interaction.excess:+.3f} ± {interaction.standard_error:.3f}",
        )
        for interaction in single
    ]
    return markdown_table(["A", "B", "correlation", *right("A alone", "B alone", "both", "beyond the sum")], rows)


def verdict_table(verdicts: Mapping[Subset, Verdict]) -> list[str]:
    """Return how many subsets of each size have which verdict, as rows of a table."""
    names: tuple[VerdictName, ...] = ("unperturbed", "undecided", "shifted", "perturbed")
    rows = []
    for size in range(1, len(METRICS) + 1):
        of_size = [verdict.verdict for subset, verdict in verdicts.items() if len(subset) == size]
        rows.append((size, len(of_size), *(of_size.count(name) for name in names)))
    return markdown_table(right("metrics", "subsets", *names), rows)


def plan_table(verdicts: Mapping[Subset, Verdict], plans: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the plans beside the best one, as rows of a table."""
    valid = {subset for subset, verdict in verdicts.items() if verdict.verdict == "unperturbed"}
    best = best_plan(valid, frozenset(METRICS))
    rows: list[tuple[Any, ...]] = [
        ("every subset", sum(map(len, best)), len(best), "–", RUNS * len(verdicts) + BASELINE_RUNS)
    ]
    for strategy, plan in plans.items():
        certified = [frozenset(subset["metrics"]) for subset in plan["subsets"]]
        confirmed = sum(subset in valid for subset in certified)
        rows.append(
            (
                strategy,
                sum(map(len, certified)),
                len(certified),
                f"{confirmed} of {len(certified)}",
                plan["runs_used"],
            )
        )
    heads = right("metrics in subsets", "subsets", "of these unperturbed in the exhaustive runs", "runs")
    return markdown_table(["way", *heads], rows)


def plan_lines(plans: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the subsets of each plan."""
    return [
        f"- {strategy}: "
        + ("; ".join(", ".join(subset["metrics"]) for subset in plan["subsets"]) or "no subset")
        + "".join(f". Not measurable: {metric['metric']}" for metric in plan["unmeasurable"])
        + "".join(f". Undecided: {', '.join(subset['metrics'])}" for subset in plan["undecided"])
        + "."
        for strategy, plan in plans.items()
    ]


def draw_figure_3(campaign: Path, target: Path) -> list[str]:
    """Draw the paper's figure 3 with both of its pairs, and return a sentence for each.

    The simulator counts misses of the translation buffer in a run of its own. Intervals of equal work hold the same
    work in it, so that its intervals stand beside those of the run with the caches.
    """
    runs, _ = runs_by_configuration(campaign)
    program, (first, second, third) = FIGURE_3
    passes = _by_pass(runs["baseline"])
    pairs: dict[Pair, list[float]] = {(first, second): [], (first, third): []}
    for traces in zip(*passes, strict=True):
        columns = {name: trace[name] for trace in traces for name in (first, second, third) if name in trace}
        length = min(map(len, columns.values()))
        for (cause, effect), rho in pairs.items():
            rho.append(_spearman(columns[cause][:length], columns[effect][:length]))
    figure, axes = panels(1, columns=1, height=2.6)
    lines = []
    for pair, rho in pairs.items():
        label = " – ".join(name.removeprefix("PAPI_") for name in pair)
        axes[0].plot(range(1, len(rho) + 1), np.abs(rho), marker=".", label=label)
        lines.append(f"- {label}: ρ from {min(rho):.3f} to {max(rho):.3f} in {len(rho)} runs.")
    axes[0].set(title=program, ylim=(0, 1), xlabel="baseline run", ylabel="|ρ|")
    axes[0].legend(frameon=False, fontsize=7)
    save(figure, target)
    return lines


def _by_pass(traces: Sequence[Trace]) -> list[list[Trace]]:
    by_pass: dict[str, list[Trace]] = {}
    for trace in traces:
        by_pass.setdefault(str(trace.attributes["pass"]), []).append(trace)
    return list(by_pass.values())


def _spearman(first: Any, second: Any) -> float:
    from scipy.stats import spearmanr  # noqa: PLC0415  slow to load

    return float(spearmanr(first, second).statistic)


def _effect(change: Change) -> str:
    return f"{change.effect:+.3f} ({change.verdict})"


def _name(subset: Subset) -> str:
    return ", ".join(name for name in METRICS if name in subset)


def _both(first: Subset, second: Subset) -> str:
    return f"{_name(first)} with {_name(second)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, evaluate, write the page and its figure."""
    parser = evaluation_parser(__doc__, "perturbation-interaction")
    options, made = parser.parse_args(arguments), made_by()
    campaigns: Path = options.campaigns.resolve()
    subsets, figure = write_specs(campaigns / "specs")
    run_campaign(subsets, campaigns / "subsets")
    run_campaign(figure, campaigns / "figure3")
    plans = {name: search_plan(subsets, campaigns / f"plan-{name}", name) for name in STRATEGIES}
    verdicts = judge_subsets(campaigns / "subsets", subsets)
    (EVIDENCE / "perturbation").mkdir(exist_ok=True)
    page = fill_page(
        HERE / "page_interaction.md",
        program=PROGRAM,
        metrics=", ".join(METRICS),
        baseline_runs=BASELINE_RUNS,
        runs=RUNS,
        count=len(verdicts),
        verdicts=verdict_table(verdicts),
        sentences=interaction_sentences(verdicts),
        interactions=interaction_table(interactions(verdicts)),
        plans=plan_table(verdicts, plans),
        plan_lines=plan_lines(plans),
        figure3=draw_figure_3(campaigns / "figure3", EVIDENCE / "perturbation" / "figure3_26.svg"),
        recorded=recorded(campaigns / name for name in ("subsets", "figure3")),
        made=made,
    )
    (EVIDENCE / "perturbation_interaction.md").write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
