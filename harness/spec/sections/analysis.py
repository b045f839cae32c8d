"""`analysis`: how runs are aligned and perturbation is judged, and rules on what they are aligned by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Discriminator, Field, Tag

from unperturbed.harness.spec.model import (
    AS_MAPPING,
    AS_TEXT,
    MAY_CHANGE,
    Because,
    Draft,
    Frozen,
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
"""Keys of `totals` that are no metrics."""

_FailOn = Literal["perturbed", "shifted", "undecided"]
_FailOnOrNever = Literal["perturbed", "shifted", "undecided", "never"]


class FailOn(Section):
    """Verdicts for which `run` and `check` exit with 4, of correlations and of totals."""

    correlations: _FailOnOrNever = Field(default="perturbed")
    """The mildest verdict on correlations."""
    totals: _FailOnOrNever = Field(default="never")
    """The mildest verdict on totals."""


_FailOnValue = Annotated[
    FailOn,
    reading(
        Annotated[
            Annotated[_FailOn, Tag(AS_TEXT)] | Annotated[FailOn, Tag(AS_MAPPING)], Discriminator(text_or_mapping)
        ],
        lambda value: value if isinstance(value, FailOn) else FailOn(correlations=value),
    ),
]


class Analysis(Section):
    """How runs are aligned and perturbation is judged."""

    align_on: Annotated[Texts, MAY_CHANGE] = Field(default=(), examples=[["IPC"]])
    """Metrics by which runs are aligned; every configuration must measure them. By default IPC if it is derived, else
    PAPI_TOT_INS, else the first hardware metric, else the first operating-system metric."""
    anchor: Text | None = Field(default=None, examples=["blocks"])
    """A cheap software metric that is put into every configuration but the baseline, to align all runs by it. Alone
    with the baseline's metrics it is a configuration of its own, which is compared with the baseline."""
    alpha: Annotated[float, MAY_CHANGE, Because("at one half or more, the test is no better than tossing a coin")] = (
        Field(default=0.05, gt=0, lt=0.5)
    )
    """Level of the tests: the rate of false alarms that you accept."""
    tolerance: Annotated[float, MAY_CHANGE, Because("it is a difference of correlations, 0.1 as a rule")] = Field(
        default=0.1, ge=0, lt=1
    )
    """The largest change of a correlation that you declare to be harmless. With 0, every change that is shown is
    *perturbed*."""
    totals: Annotated[Mapping[Text, Percentage], Frozen, MAY_CHANGE] = Field(
        default_factory=empty, examples=[{"default": "1 %", "PAPI_L1_DCM": "3 %", "time": "2 %"}]
    )
    """The largest relative change of a metric's total over a run that you declare to be harmless, by metric. `default`
    is that of all others, 1 % unless given; `time` that of wall-clock and CPU time, 2 % unless given. With 0 %, every
    change that is shown is *perturbed*."""
    fail_on: Annotated[_FailOnValue, MAY_CHANGE] = Field(
        default_factory=FailOn, examples=["shifted", {"correlations": "perturbed", "totals": "perturbed"}]
    )
    """The mildest verdict for which `run` and `check` exit with 4. `perturbed`: a change beyond the tolerance is shown.
    `shifted`: any change is shown. `undecided`: also if neither a change nor its absence is shown. A text is that of
    correlations; a mapping gives that of totals too."""


def default_align_on(spec: CampaignSpec) -> tuple[str, ...]:
    """Return the metric by which runs are aligned unless the spec names some: IPC, else instructions, else the first.

    One metric only: the outer correlation of what runs were aligned on is flattered. IPC must be derived from what the
    baseline measures.
    """
    measure = spec.measure
    if "IPC" in measure.derived and not set(measure.derived["IPC"].names) & set(measure.software):
        return ("IPC",)
    known = (*measure.hardware, *measure.os)
    return ("PAPI_TOT_INS",) if "PAPI_TOT_INS" in known else known[:1]


def _check(draft: Draft) -> None:
    metrics = Metrics.named_in(draft)
    _check_anchor(draft, metrics)
    for name, path in draft.keys("analysis", "totals").items():
        known = (*metrics.measured, *_TOTALS)
        if name not in known:
            hint = draft.did_you_mean(name, known) or measured_are(list(metrics.measured))
            draft.report_key(path, f"unknown metric `{name}`; {hint}")
    for path, name in draft.distinct_texts("analysis", "align_on"):
        if metrics.software_in(name):
            what = "is not measured in the baseline, so no run can be aligned with it on this metric"
            draft.report(path, f"`{name}` {what}")
        elif name not in metrics.in_baseline:
            key = key_of(name)
            hint = draft.did_you_mean(name, metrics.in_baseline) or measured_are(metrics.in_baseline)
            what = f"`{name}` is not measured: add it to `{key}`" if key else f"unknown metric `{name}`; {hint}"
            draft.report(path, what)


def _check_anchor(draft: Draft, metrics: Metrics) -> None:
    path = ("analysis", "anchor")
    anchor = draft.text(*path)
    if anchor is None:
        return
    if metrics.measured.get(anchor) != "software":
        draft.report(path, metrics.not_software(draft, anchor))
    elif draft.has("measure", "software", anchor, "gauge"):
        draft.report(path, f"`{anchor}` is a gauge, which has no events to align by: use a metric that counts")


ANALYSIS = SpecKey("analysis", Analysis, "How runs are aligned and judged.", _check, default=Analysis)
