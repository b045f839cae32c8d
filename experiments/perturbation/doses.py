"""Dose and response: how often the extrapolation from doses 1, 2 and 4 holds what a program gives without counting.

    python -m experiments.perturbation.doses [--campaigns FOLDER] [--programs bzip2 chess]

Runs the last step of `layouts.py` again, which counts all software metrics, with `builds: one` and `doses: [0, 1, 2,
4]`. The value at dose 0 is extrapolated from doses 1, 2 and 4 alone, and held against the same build without counting
and against the baseline. Writes docs/evidence/doses.md.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.common.tables import markdown_table, right
from experiments.perturbation.programs import Evaluation, programs_parser
from experiments.perturbation.series import Program, runs_by_configuration
from unperturbed.analysis.doses.response import (
    SERIOUSNESS,
    DoseResponses,
    Response,
    decide_responses,
    responses_of_checks,
)
from unperturbed.analysis.perturbation import Baseline, Verdict
from unperturbed.analysis.totals.verdict import total_of
from unperturbed.collectors.data import Trace
from unperturbed.common.table import Column
from unperturbed.harness.campaign.plan import ALL
from unperturbed.harness.results.doses import responses_in_pass
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import load_spec

RUNS = 8
"""Of each configuration, each in a layout of its own."""
DOSES = (1, 2, 4)


@dataclass(frozen=True)
class Step:
    """A subset at several doses, extrapolated in two ways."""

    program: str
    metric: str  # The software metric that came in last
    blind: DoseResponses  # From doses 1, 2 and 4, linearity judged by these alone
    checked: DoseResponses  # Linearity judged by the runs without counting
    coefficients: DoseResponses  # As `blind`, but with the coefficients extrapolated instead of the signals
    untouched: dict[tuple[str, str, str], float]  # Mean of the baseline, of each correlation and total


def steps_of(program: Program, spec_path: Path, campaign: Path) -> Iterator[Step]:
    """Extrapolate each step of a program."""
    spec = load_spec(spec_path)
    runs, shams = runs_by_configuration(campaign)
    metrics = spec.measure.hardware
    ready = sorted(shams[ALL], key=lambda trace: int(trace.attributes["block"]))
    without, untouched = Baseline(ready, metrics=metrics), Baseline(runs["baseline"], metrics=metrics)
    plain = {("inner", *pair): float(rho) for pair, rho in zip(untouched.pairs, _means(untouched), strict=True)}
    for name, software in spec.campaign.subsets.items():
        by_dose = {dose: runs[name if dose == 1 else f"{name}-x{dose}"] for dose in DOSES}
        blind, checked = (_responses(spec, name, by_dose, without, ready, idle=idle) for idle in (False, True))
        totals = {each.first for each in blind.responses if each.check == "total"}
        yield Step(
            program.name,
            software[-1],
            blind,
            checked,
            _of_coefficients(spec, name, by_dose, without),
            plain | {("total", metric, metric): _mean_total(runs["baseline"], metric) for metric in totals},
        )


def _responses(
    spec: CampaignSpec,
    name: str,
    by_dose: dict[int, list[Trace]],
    without: Baseline,
    ready: Sequence[Trace],
    *,
    idle: bool,
) -> DoseResponses:
    """Return the responses of one step; `idle`: whether runs without counting help to judge whether it is linear."""

    def check(runs: Sequence[Trace]) -> tuple[Verdict, ...]:
        return (without.inner(runs),)

    totals = [metric for metric in spec.measure.hardware if metric in ready[0].metrics]
    found = responses_in_pass(spec, by_dose, check, check(by_dose[1]), ready, totals, idle=idle)
    return decide_responses(name, found, alpha=spec.analysis.alpha)


def _of_coefficients(
    spec: CampaignSpec, name: str, by_dose: dict[int, list[Trace]], without: Baseline
) -> DoseResponses:
    """Return the responses of correlations, each extrapolated as a coefficient."""
    checks = {dose: (runs, [without.inner(runs)]) for dose, runs in by_dose.items()}
    alpha = spec.analysis.alpha
    return decide_responses(name, responses_of_checks(checks, (), checks[1][1][0], (), alpha=alpha), alpha=alpha)


def _means(baseline: Baseline) -> np.ndarray:
    return np.asarray(baseline.correlations.mean(axis=0))


def _mean_total(runs: Sequence[Trace], metric: str) -> float:
    return float(np.mean([total_of(run, metric) for run in runs]))


def _key(response: Response) -> tuple[str, str, str]:
    return response.check, response.first, response.second


@dataclass(frozen=True)
class Held:
    """One response with the truths that its extrapolation is held against."""

    blind: Response
    checked: Response
    untouched: float

    @property
    def holds_ready(self) -> bool:
        """Return whether the interval holds what the build gives without counting."""
        assert self.checked.without is not None
        return self.blind.low <= self.checked.without <= self.blind.high

    @property
    def holds_untouched(self) -> bool:
        """Return whether the interval holds what the baseline gives."""
        return self.blind.low <= self.untouched <= self.blind.high

    @property
    def errors(self) -> tuple[float, float]:
        """Return the distance to the truth, without and with the correction, in units of the tolerance."""
        assert self.checked.without is not None
        truth, unit = self.checked.without, self.blind.tolerance
        if self.blind.check == "total":
            unit *= truth
        return abs(self.blind.means[1] - truth) / unit, abs(self.blind.value - truth) / unit


def held_of(step: Step) -> list[Held]:
    """Pair the two ways of judging a step's responses with the baseline."""
    known = {_key(response): response for response in step.checked.responses}
    return [
        Held(response, known[_key(response)], step.untouched[_key(response)])
        for response in step.blind.responses
        if _key(response) in known
    ]


def table(steps: Sequence[Step]) -> list[str]:
    """Return the table of the correlations of all steps."""
    columns: tuple[Column | str, ...] = (
        "program",
        *right("pairs", "interval holds `ready`", "holds the baseline", *SERIOUSNESS),
        *right("the same, judged with `ready`", "error of counting", "left by the correction"),
        *right("left by extrapolated coefficients", "their interval holds `ready`, of those that need it"),
    )
    rows = []
    for step in steps:
        held = [each for each in held_of(step) if each.blind.check != "total"]
        known = {_key(each): each for each in step.coefficients.responses}
        needed = [each for each in held if each.blind.change != "unperturbed"]
        other = [replace(each, blind=known[_key(each.blind)]) for each in needed]
        rows.append(
            [
                step.program,
                *_counts(held),
                *(_median([each.errors[way] for each in needed]) for way in (0, 1)),
                _median([each.errors[1] for each in other]),
                f"{sum(each.holds_ready for each in other)} of {len(other)}",
            ]
        )
    return markdown_table(columns, rows)


def totals_table(steps: Sequence[Step]) -> list[str]:
    """Return the table of the totals of all steps."""
    columns: tuple[Column | str, ...] = (
        "program",
        *right("totals", "interval holds `ready`", "holds the baseline", *SERIOUSNESS),
        *right("the same, judged with `ready`", "error of counting", "left by the correction"),
    )
    rows = []
    for step in steps:
        held = [each for each in held_of(step) if each.blind.check == "total"]
        needed = [each for each in held if each.blind.outcome in ("corrected", "not linear")]
        errors = (_median([each.errors[way] for each in needed]) for way in (0, 1))
        rows.append([step.program, *_counts(held), *errors])
    return markdown_table(columns, rows)


def _counts(held: Sequence[Held]) -> list[str]:
    outcomes = Counter(each.blind.outcome for each in held)
    with_ready = Counter(each.checked.outcome for each in held)
    return [
        str(len(held)),
        str(sum(each.holds_ready for each in held)),
        str(sum(each.holds_untouched for each in held)),
        *(str(outcomes[name]) for name in SERIOUSNESS),
        " / ".join(str(with_ready[name]) for name in SERIOUSNESS),
    ]


def _median(values: Sequence[float]) -> str:
    return f"{np.median(values):.2f}" if values else "–"


def headline(steps: Sequence[Step]) -> str:
    """Return how often the interval holds the truth, of everything and of what is corrected."""
    held = [each for step in steps for each in held_of(step)]
    corrected = [each for each in held if each.blind.outcome == "corrected"]
    return (
        f"Of {len(held)} correlations and totals in {len(steps)} steps, the interval from doses 1, 2 and 4 holds what "
        f"the same build gives without counting in {sum(each.holds_ready for each in held)}. Of {len(corrected)} that "
        f"are corrected, it does so in {sum(each.holds_ready for each in corrected)}. It holds what the baseline "
        f"gives, which has none of the rewriting, in {sum(each.holds_untouched for each in held)} of {len(held)}."
    )


def measure_doses(settings: dict[str, Any]) -> None:
    """Change a spec so that it measures the last subset, the one of all metrics, at all doses."""
    subsets = dict([*settings["campaign"]["subsets"].items()][-1:])
    settings["campaign"] |= {"builds": "one", "doses": [0, *DOSES], "sham": False, "subsets": subsets}
    settings["campaign"] |= {"baseline_runs": RUNS, "runs": RUNS}
    used = {metric for metrics in subsets.values() for metric in metrics}
    software = settings["measure"]["software"]
    settings["measure"]["software"] = {name: event for name, event in software.items() if name in used}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, evaluate, write the page."""
    asked = Evaluation.of(programs_parser(__doc__, "perturbation-doses"), arguments)
    steps = [step for found in asked.run(measure_doses, layouts=True) for step in steps_of(*found)]
    asked.write("doses", headline=headline(steps), correlations=table(steps), totals=totals_table(steps), runs=RUNS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
