"""The paper's own rule: a deviation counts when it is larger than any that was seen among the baseline runs.

Mytkowicz et al., "Understanding Measurement Perturbation in Trace-based Data", section 3.3: "If the deviation […] is
smaller than the deviation observed due to non-determinism, then the deviation is not significant; if it is larger, then
it is significant." The paper does not say how the deviation among baselines is measured; here it is the largest
distance of a baseline run from their mean.

It is offered to reproduce the paper, and is not a basis for a decision: of k exchangeable baseline runs and one that is
checked the last is the farthest out in one case of k + 1, for each pair by itself. With 10 baseline runs and 66
independent pairs an unperturbed configuration is called perturbed in 99.8 % of cases. And "not perturbed" is what it
says of anything that noise could hide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from unperturbed.analysis.perturbation.compare import Comparison
from unperturbed.analysis.perturbation.correlation import FloatArray, fisher
from unperturbed.analysis.perturbation.verdict import Change


def compare_as_paper(reference: FloatArray, observed: FloatArray) -> Comparison:
    """Compare coefficients by the paper's rule.

    `reference`, `observed`: array of float64, shape (k, m) and (r, m). Spearman's ρ, one row a run. The paper checks
    one run; of several the mean is taken.
    Result: `effect` is the change of the mean ρ; `low` and `high` lie as far from it as any baseline run from the
    baseline's mean; `p` is the share of such deviations, the checked one counted in, that are as large: never below
    1/(k + 1). No standard error exists (NaN).
    """
    middle = reference.mean(axis=0)
    effect = observed.mean(axis=0) - middle
    deviations = np.abs(reference - middle)
    largest = deviations.max(axis=0)
    unknown = np.full_like(effect, np.nan)
    return Comparison(
        reference_mean=fisher(middle),
        observed_mean=fisher(observed.mean(axis=0)),
        standard_error=unknown,
        effect=effect,
        low=effect - largest,
        high=effect + largest,
        p=(1 + (deviations >= np.abs(effect)).sum(axis=0)) / (1 + len(reference)),
        freedom=unknown,
        notes=("",) * len(effect),
    )


def decide_as_paper(changes: Sequence[Change]) -> tuple[Change, ...]:
    """Classify each change as *perturbed* or *unperturbed*: the paper has nothing between, and no families of tests."""
    return tuple(
        replace(
            change,
            verdict="perturbed" if change.low > 0 or change.high < 0 else "unperturbed",
            smallest_visible=(change.high - change.low) / 2,
            more_runs_help=False,
        )
        for change in changes
    )
