"""Sentences about the results, generated from the numbers, and the table of every change that is kept beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from experiments.common.tables import markdown_table, right
from experiments.perturbation.series import HERE, Series, Step
from unperturbed.analysis.perturbation import Change, Verdict
from unperturbed.common.table import Column

LARGE = 0.3
"""The paper's "dramatic" drops: from 0.8 to less than 0.5, figure 4, and from above 0.9 to 0.3, figure 7."""
SMALL_OVERHEAD = 0.03
"""The paper's "minimal instrumentation overhead, which increased instructions executed by less than 3%"."""


def findings(all_series: Sequence[Series]) -> list[str]:
    """Return what was found over all programs, then for each."""
    return [
        *(f"- {line}" for line in _overall(all_series)),
        *(line for series in all_series for line in ("", f"**{series.program.name}**", "", *_of(series))),
    ]


def _overall(all_series: Sequence[Series]) -> list[str]:
    large = [series.program.name for series in all_series if _largest_below(series) >= LARGE]
    large_changes = (
        f"A change of a correlation by {LARGE} or more where less than {SMALL_OVERHEAD:.0%} more instructions were "
        "executed, as in the paper, was "
        + (f"seen in {', '.join(large)}." if large else f"seen in no program of {len(all_series)}.")
    ) + "".join(_alone(series) for series in all_series if series.program.name in large)
    tool = [step.verdict.verdict for series in all_series for step in series.steps]
    left_out = [verdict for series in all_series for verdict in series.left_out_verdicts]
    paper = sum(_perturbed_as_paper(step) for series in all_series for step in series.steps)
    alarms = [count > 0 for series in all_series for count in series.left_out]
    return [
        large_changes,
        f"Of {len(tool)} steps the tool calls {_outcomes(tool)}. The paper's rule (a deviation larger than any among "
        f"the baseline runs, in any pair or metric) calls {paper} of them perturbed.",
        f"Of {len(alarms)} baseline runs, which have nothing added, each held against the others, the paper's rule "
        f"calls {sum(alarms)} perturbed, the tool {_outcomes(left_out)}.",
        *_of_all_shams(all_series),
    ]


def _outcomes(verdicts: Iterable[str]) -> str:
    counts = Counter(verdicts)
    return ", ".join(f"{counts[name]} {name}" for name in ("perturbed", "shifted", "undecided", "unperturbed"))


def _of_all_shams(all_series: Sequence[Series]) -> list[str]:
    """Describe how many of the perturbed pairs and metrics the shams show too."""
    alone = [
        step.sham is not None and (change.check, change.label) in _perturbed(step.sham)
        for series in all_series
        for step in series.steps
        if step.sham is not None
        for change in step.verdict.changes
        if change.verdict == "perturbed"
    ]
    if not alone:
        return []
    return [
        f"Of {len(alone)} perturbed changes (of a pair or metric in a step), {sum(alone)} are perturbed in the step's "
        "sham as well, which counts nothing."
    ]


def _perturbed(verdict: Verdict) -> set[tuple[str, str]]:
    return {(change.check, change.label) for change in verdict.changes if change.verdict == "perturbed"}


def _of(series: Series) -> list[str]:
    describers = (
        _steps,
        _inner,
        _outer,
        _inner_recovery,
        _outer_recovery,
        _nothing_added,
        _shams,
        _instructions,
        _alarms,
    )
    return [f"- {line}" for describe in describers if (line := describe(series))]


def _steps(series: Series) -> str:
    inner, outer = (
        sum(
            any(change.verdict == "perturbed" for change in step.verdict.changes if change.check == check)
            for step in series.steps
        )
        for check in ("inner", "outer")
    )
    return (
        f"In the place of the paper's {series.program.stands_for}: of {len(series.steps)} steps {inner} have a "
        f"perturbed inner correlation and {outer} a perturbed outer one."
    )


def _shams(series: Series) -> str:
    """Describe what the code's place and the no-ops do alone."""
    steps = [step for step in series.steps if step.sham is not None]
    if not steps:
        return ""
    alone = sum(step.sham is not None and step.sham.verdict == "perturbed" for step in steps)
    both = sum(step.sham is not None and step.sham.verdict == step.verdict.verdict == "perturbed" for step in steps)
    counting = sum(step.verdict.verdict == "perturbed" for step in steps)
    return (
        f"Of {len(steps)} step{'s' * (len(steps) > 1)} with a sham, {counting} are perturbed, of {alone} the sham is, "
        f"of {both} both: a sham has the step's code, with a no-op in the place of every increment, so that what it "
        "shows comes with the code, not with the counting."
    )


def _inner(series: Series) -> str:
    at, change = _largest([step.inner.changes for step in series.steps])
    step = series.steps[at]
    pair = (change.first, change.second)
    return (
        f"The largest change of an inner correlation is {change.effect:+.3f}: {_name(change)} goes from "
        f"{series.along(pair)[0]:.2f} to {np.mean(change.observed):.2f} when {step.metric} comes in, at {_added(step)} "
        f"({change.verdict}, corrected p {change.p_corrected:.2g})."
    )


def _outer(series: Series) -> str:
    at, change = _largest([step.outer.changes for step in series.steps])
    step = series.steps[at]
    return (
        f"The largest change of an outer correlation is {change.effect:+.3f}: {_name(change)} with itself, "
        f"{np.mean(change.reference):.2f} among baseline runs, {np.mean(change.observed):.2f} when {step.metric} comes "
        f"in ({change.verdict}, corrected p {change.p_corrected:.2g})."
    )


def _inner_recovery(series: Series) -> str:
    return _recovery([step.inner.changes for step in series.steps], series, "an inner")


def _outer_recovery(series: Series) -> str:
    return _recovery([step.outer.changes for step in series.steps], series, "an outer")


def _recovery(changes: Sequence[Sequence[Change]], series: Series, kind: str) -> str:
    """Describe the greatest return towards the baseline as more is added, which the paper saw in figure 7."""
    recoveries = [
        (abs(fallen.effect) - abs(later.effect), fallen, later, at, end)
        for along in zip(*changes, strict=True)
        for at, fallen in enumerate(along)
        if fallen.verdict == "perturbed"
        for end, later in enumerate(along[at + 1 :], at + 1)
    ]
    if not recoveries:
        return ""
    gain, fallen, later, at, end = max(recoveries, key=lambda recovery: recovery[0])
    if gain < series.spec.analysis.tolerance:
        what = f"No {kind.split()[1]} correlation that a step perturbs"
        return f"{what} comes back by more than the tolerance in a later one."
    return (
        f"The greatest recovery of {kind} correlation is that of {_name(fallen)}: {fallen.effect:+.3f} from its "
        f"baseline when {series.steps[at].metric} comes in ({fallen.verdict}), {later.effect:+.3f} when "
        f"{series.steps[end].metric} does ({later.verdict})."
    )


def _nothing_added(series: Series) -> str:
    first = series.steps[0]
    inner, outer = (
        f"{effect:+.3f} ({label.replace('PAPI_', '')})" for label, effect in (first.largest_inner, first.largest_outer)
    )
    return (
        f"The first step adds {first.events:,} increments a run and is another binary. Its largest changes, inner "
        f"{inner} and outer {outer}, come from code and data that lie elsewhere, or from chance. The tool calls it "
        f"{first.verdict.verdict}."
    )


def _instructions(series: Series) -> str:
    fewer = [
        f"{step.metric} ({100 * step.verdict.overhead.instructions:+.2f} %)"
        for step in series.steps
        if step.verdict.overhead.instructions is not None and round(step.verdict.overhead.instructions, 4) < 0
    ]
    if not fewer:
        return "No step executes fewer instructions than the baseline."
    return (
        f"Fewer instructions than the baseline's are executed with {', '.join(fewer)}, though increments were added: "
        "the compiler made other code of the functions that hold them."
    )


def _alarms(series: Series) -> str:
    alarms = sum(count > 0 for count in series.left_out)
    return (
        f"Each baseline run, held against the other {len(series.left_out) - 1}: the paper's rule calls {alarms} of "
        f"{len(series.left_out)} perturbed, in up to {max(series.left_out)} of {series.compared} pairs and metrics; "
        f"the tool calls {_outcomes(series.left_out_verdicts)}."
    )


def _largest(steps: Sequence[Sequence[Change]]) -> tuple[int, Change]:
    at = max(range(len(steps)), key=lambda at: max(abs(change.effect) for change in steps[at]))
    return at, max(steps[at], key=lambda change: abs(change.effect))


def _largest_below(series: Series) -> float:
    return max((abs(change.effect) for _, change in _changes_below(series)), default=0.0)


def _changes_below(series: Series) -> list[tuple[Step, Change]]:
    """Return the changes of the steps that execute little more, whatever the share of increments in it."""
    below = [step for step in series.steps if step.executed_ratio < SMALL_OVERHEAD]
    return [(step, change) for step in below for change in step.verdict.changes]


def _alone(series: Series) -> str:
    """Say what the sham of a program's largest change does; nothing where there is no sham."""
    step, change = max(_changes_below(series), key=lambda step_and_change: abs(step_and_change[1].effect))
    alone = step.of_sham(change.check, change.label)
    if alone is None:
        return ""
    return (
        f" The largest there ({series.program.name}, {change.check} {_name(change)} when {step.metric} comes in, at "
        f"{_added(step)}) is {change.effect:+.2f}, and in the sham, which counts nothing, {alone:+.2f}."
    )


def _perturbed_as_paper(step: Step) -> bool:
    return "perturbed" in (step.inner_as_paper.verdict, step.outer_as_paper.verdict)


def _name(change: Change) -> str:
    return change.label.replace("PAPI_", "")


def _added(step: Step) -> str:
    ratio = 100 * step.increment_ratio
    increments = f"{ratio:.2f} %" if ratio >= 0.01 else f"{ratio:.1g} %"
    return f"{100 * step.executed_ratio:+.2f} % instructions executed (increments: {increments})"


TABLES = HERE / "tables"
SIMULATED, PROCESSOR = TABLES / "simulated.parquet", TABLES / "processor.parquet"
_KEYS = ("program", "step", "check", "first", "second")


def changes_of(all_series: Sequence[Series]) -> pl.DataFrame:
    """Return a row for each change of each step.

    Result: Columns `program`, `step` (the software metric that came in), `check`, `first`, `second`; `effect`, `low`,
    `high` (change of ρ and its interval), `verdict`, `sham_effect` and `sham_verdict` (null without a sham), and
    `chance`, the standard deviation of ρ over the baseline runs.
    """
    rows = []
    for series in all_series:
        for step in series.steps:
            alone = {} if step.sham is None else {(change.check, change.label): change for change in step.sham.changes}
            for change in step.verdict.changes:
                sham = alone.get((change.check, change.label))
                rows.append(
                    {
                        "program": series.program.name,
                        "step": step.metric,
                        "check": change.check,
                        "first": change.first,
                        "second": change.second,
                        "effect": change.effect,
                        "low": change.low,
                        "high": change.high,
                        "verdict": change.verdict,
                        "sham_effect": None if sham is None else sham.effect,
                        "sham_verdict": None if sham is None else sham.verdict,
                        "chance": float(np.std(change.reference, ddof=1)),
                    }
                )
    return pl.DataFrame(rows, infer_schema_length=None)


def side_by_side(simulated: pl.DataFrame, processor: pl.DataFrame) -> list[str]:
    """Return what the simulator and the processor say of the same changes, a row a program and check.

    `simulated`, `processor`: Of `changes_of`. Changes of metrics that only one of them counted are left out.
    """
    both = simulated.join(processor, on=_KEYS, suffix="_processor")
    rows = []
    for (program, check), group in both.group_by(["program", "check"], maintain_order=True):
        ours, theirs = (group[name] == "perturbed" for name in ("verdict", "verdict_processor"))
        rank = group.select(pl.corr("effect", "effect_processor", method="spearman")).item()
        rows.append(
            (
                program,
                check,
                len(group),
                int((ours & theirs).sum()),
                int((ours & ~theirs).sum()),
                int((theirs & ~ours).sum()),
                f"{rank:+.2f}",
                *(f"{np.median(group[name]):.3f}" for name in ("chance", "chance_processor")),
            )
        )
    heads: tuple[Column | str, ...] = (
        "program",
        "check",
        *right(
            "changes",
            "perturbed on both",
            "on the simulator alone",
            "on the processor alone",
            "rank correlation of the changes",
            "chance, simulator",
            "chance, processor",
        ),
    )
    return markdown_table(heads, rows)


def agreement(all_series: Sequence[Series]) -> list[str]:
    """Return the pairs that the two agree on and those that they do not, of the changes just evaluated."""
    processor = changes_of(all_series)
    if not SIMULATED.exists():
        return ["The simulator's table is not kept yet: run `python -m experiments.perturbation.evaluate`."]
    return side_by_side(pl.read_parquet(SIMULATED), processor)


def write_changes(all_series: Sequence[Series], *, processor: bool) -> None:
    """Keep the table of every change beside the experiment."""
    TABLES.mkdir(exist_ok=True)
    changes_of(all_series).write_parquet(PROCESSOR if processor else SIMULATED)
