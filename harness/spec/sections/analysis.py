"""Section `analysis`: how runs are aligned and perturbation is judged, and rules on the metrics for this."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from unperturbed.harness.spec.model import (
    ADDED_LATER,
    AS_LIST,
    AS_MAPPING,
    AS_TEXT,
    MAY_CHANGE,
    Because,
    Draft,
    Frozen,
    ListOf,
    Section,
    SpecKey,
    empty,
    reading,
    text_or_mapping,
)
from unperturbed.harness.spec.quantities import Percentage
from unperturbed.harness.spec.sections._metrics import Metrics, key_of, measured_are
from unperturbed.harness.spec.text import Text, Texts

if TYPE_CHECKING:
    from unperturbed.harness.spec.campaign_spec import CampaignSpec


_TOTALS = ("default", "time")
"""Keys of `totals` that are not metrics."""

_FailOn = Literal["perturbed", "shifted", "undecided"]
_FailOnOrNever = Literal["perturbed", "shifted", "undecided", "never"]


class FailOn(Section):
    """Verdicts on correlations and totals for which `run` and `check` exit with code 4."""

    correlations: _FailOnOrNever = Field(default="perturbed")
    """Mildest verdict on correlations that causes exit code 4."""
    totals: _FailOnOrNever = Field(default="never")
    """Mildest verdict on totals that causes exit code 4."""


_FailOnValue = Annotated[
    FailOn,
    reading(
        Annotated[
            Annotated[_FailOn, Tag(AS_TEXT)] | Annotated[FailOn, Tag(AS_MAPPING)], Discriminator(text_or_mapping)
        ],
        lambda value: value if isinstance(value, FailOn) else FailOn(correlations=value),
    ),
]


def _refuse_names(value: Any) -> Any:
    """Refuse one list of names in place of a list of lists."""
    if isinstance(value, list) and value and all(isinstance(name, str) for name in value):
        names = ", ".join(" ".join(name.split())[:60] for name in value[:_NAMED])
        more = ", …" if len(value) == 1 or len(value) > _NAMED else ""
        raise ValueError(
            f"expected a list of lists: write `[[{names}{more}]]` if any two of these metrics must be seen together, "
            "one more list for each further set, or `all` for all pairs of hardware metrics"
        )
    return value


_NAMED = 4  # Metrics in the message

_Together = Annotated[
    Annotated[Literal["all"], Tag(AS_TEXT)] | Annotated[tuple[Texts, ...], ListOf, Tag(AS_LIST)],
    Discriminator(lambda value: AS_TEXT if isinstance(value, str) else AS_LIST),
    BeforeValidator(_refuse_names),
]


class Analysis(Section):
    """How runs are aligned and perturbation is judged."""

    align_on: Annotated[Texts, MAY_CHANGE] = Field(default=(), examples=[["IPC"]])
    """Metrics that runs are aligned on; every configuration must measure them. By default, IPC if the spec derives it
    from the baseline's metrics, else PAPI_TOT_INS, else the first hardware metric, else the first operating-system
    metric."""
    anchor: Text | None = Field(default=None, examples=["blocks"])
    """A cheap software metric that every configuration except the baseline counts, to align all runs by it. With only
    the baseline's metrics, the anchor forms a configuration of its own, which is compared with the baseline."""
    alpha: Annotated[float, MAY_CHANGE, Because("at 0.5 or more, the test is no better than tossing a coin")] = Field(
        default=0.05, gt=0, lt=0.5
    )
    """Significance level of the tests: the rate of false alarms that you accept."""
    tolerance: Annotated[
        float, MAY_CHANGE, Because("the tolerance is a difference between correlations, usually 0.1")
    ] = Field(default=0.1, ge=0, lt=1)
    """Largest change of a correlation that you consider harmless. With 0, every change that the runs show is
    *perturbed*."""
    totals: Annotated[Mapping[Text, Percentage], Frozen, MAY_CHANGE] = Field(
        default_factory=empty, examples=[{"default": "1 %", "PAPI_L1_DCM": "3 %", "time": "2 %"}]
    )
    """Largest relative change of a metric's total over a run that you consider harmless, for each metric. `default`
    applies to all other metrics (1 % if not given), `time` to wall-clock and CPU time (2 % if not given). With 0 %,
    every change that the runs show is *perturbed*."""
    together: Annotated[_Together, ADDED_LATER] = Field(
        default=(), examples=["all", [["PAPI_L1_DCM", "PAPI_BR_MSP"], ["PAPI_LD_INS", "PAPI_SR_INS", "PAPI_L2_TCM"]]]
    )
    """Hardware metrics, and metrics derived from them, that must be seen together: any two of a list are counted in the
    same run at least once, in the fewest passes that are found. `all` stands for all pairs of hardware metrics. By
    default, each metric is in one pass, and which metrics share it is left to chance."""
    fail_on: Annotated[_FailOnValue, MAY_CHANGE] = Field(
        default_factory=FailOn, examples=["shifted", {"correlations": "perturbed", "totals": "perturbed"}]
    )
    """Mildest verdict that makes `run` and `check` exit with code 4. `perturbed`: the runs show a change beyond the
    tolerance. `shifted`: the runs show any change. `undecided`: also if the runs show neither a change nor its absence.
    A single verdict applies to correlations; a mapping sets totals too."""


def default_align_on(spec: CampaignSpec) -> tuple[str, ...]:
    """Return the default metric to align runs on: IPC, else instructions, else the first metric of the baseline.

    Only one metric, because alignment inflates the outer correlation of the metrics that it uses. IPC must be derived
    from the baseline's metrics.
    """
    measure = spec.measure
    if "IPC" in measure.derived and not set(measure.derived["IPC"].names) & set(measure.software):
        return ("IPC",)
    known = (*measure.hardware, *measure.os)
    return ("PAPI_TOT_INS",) if "PAPI_TOT_INS" in known else known[:1]


def wanted_pairs(spec: CampaignSpec) -> Iterator[tuple[tuple[str, str], frozenset[str]]]:
    """Yield two metrics that must be seen together, and the hardware metrics that a run must count for it."""
    measure, together = spec.measure, spec.analysis.together
    lists = (measure.hardware,) if together == "all" else together
    pairs = dict.fromkeys(pair for names in lists for pair in combinations(names, 2))
    for first, second in pairs:
        parts = [measure.derived[name].names if name in measure.derived else (name,) for name in (first, second)]
        yield (first, second), frozenset(part for names in parts for part in names if part in measure.hardware)


def _check(draft: Draft) -> None:
    metrics = Metrics.named_in(draft)
    _check_anchor(draft, metrics)
    _check_together(draft, metrics)
    for name, path in draft.keys("analysis", "totals").items():
        known = (*metrics.measured, *_TOTALS)
        if name not in known:
            hint = draft.did_you_mean(name, known) or measured_are(list(metrics.measured))
            draft.report_key(path, f"unknown metric `{name}`; {hint}")
    for path, name in draft.distinct_texts("analysis", "align_on"):
        if metrics.software_in(name):
            what = "is not measured in the baseline, so runs cannot be aligned on it: use a metric of the baseline"
            draft.report(path, f"`{name}` {what}")
        elif name not in metrics.in_baseline:
            key = key_of(name)
            hint = draft.did_you_mean(name, metrics.in_baseline) or measured_are(metrics.in_baseline)
            what = f"`{name}` is not measured: add it to `{key}`" if key else f"unknown metric `{name}`; {hint}"
            draft.report(path, what)


def _check_together(draft: Draft, metrics: Metrics) -> None:
    path = ("analysis", "together")
    if draft.value(*path) and draft.value("measure", "multiplex") is True:
        draft.report_key(path, "with `multiplex: true`, all metrics share each run: remove `together` or `multiplex`")
    value = draft.value(*path)
    for at, names in enumerate(value if isinstance(value, list) else ()):
        if isinstance(names, list) and len(names) < 2:
            draft.report((*path, at), "list at least two metrics that must be seen together")
        for place, name in draft.distinct_texts(*path, at):
            kind = metrics.measured.get(name)
            if kind == "os":
                draft.report(place, f"every run measures `{name}`, an operating-system metric: leave it out")
            elif kind == "software" or metrics.software_in(name):
                draft.report(
                    place, f"`subsets` say which runs count `{name}`: only hardware metrics are divided into passes"
                )
            elif kind is None and name not in metrics.derived:
                hint = draft.did_you_mean(name, metrics.in_baseline) or measured_are(metrics.in_baseline)
                where = f"`{name}` is not measured: add it to `{key_of(name)}`" if key_of(name) else ""
                draft.report(place, where or f"unknown metric `{name}`; {hint}")


def _check_anchor(draft: Draft, metrics: Metrics) -> None:
    path = ("analysis", "anchor")
    anchor = draft.text(*path)
    if anchor is None:
        return
    if metrics.measured.get(anchor) != "software":
        draft.report(path, metrics.not_software(draft, anchor))
    elif draft.has("measure", "software", anchor, "gauge"):
        draft.report(path, f"`{anchor}` is a gauge, which has no events to align by: use a metric that counts events")


ANALYSIS = SpecKey("analysis", Analysis, "How runs are aligned and judged.", _check, default=Analysis)
