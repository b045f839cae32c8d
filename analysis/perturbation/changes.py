"""From arrays to records: one `Change` a coefficient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from unperturbed.analysis.perturbation.compare import Comparison
from unperturbed.analysis.perturbation.correlation import FloatArray
from unperturbed.analysis.perturbation.verdict import Change, CheckName

__all__ = ["Side", "changes_of"]


@dataclass(frozen=True)
class Side:
    """Runs of one configuration, and a coefficient of each: `rho` has shape (runs, changes)."""

    configuration: str
    runs: tuple[str, ...]
    rho: FloatArray


def changes_of(
    check: CheckName,
    labels: Sequence[tuple[str, str]],
    reference: Side,
    observed: Side,
    compared: Comparison,
    *,
    tolerance: float,
    align_on: Sequence[str] = (),
    note: Callable[[str], str] = lambda _: "",
    more_runs_help: bool = True,
) -> tuple[Change, ...]:
    """Write down what was compared; what depends on the family of changes is filled in by `decide`.

    Parameters
    ----------
    labels : the metrics of each change.
    reference, observed : what was compared; `compared` is how.
    align_on : metrics by which runs were aligned. `note` says what else a reader must know of a metric.
    more_runs_help : see `Change`.
    """
    return tuple(
        Change(
            check=check,
            first=first,
            second=second,
            reference=tuple(reference.rho[:, at].tolist()),
            observed=tuple(observed.rho[:, at].tolist()),
            reference_runs=reference.runs,
            observed_runs=observed.runs,
            effect=float(compared.effect[at]),
            low=float(compared.low[at]),
            high=float(compared.high[at]),
            p=float(compared.p[at]),
            p_corrected=float(compared.p[at]),
            smallest_visible=float("inf"),
            tolerance=tolerance,
            verdict="undecided",
            aligned_on=first in align_on or second in align_on,
            note="; ".join(dict.fromkeys(filter(None, (compared.notes[at], note(first), note(second))))),
            standard_error=float(compared.standard_error[at]),
            freedom=float(compared.freedom[at]),
            more_runs_help=more_runs_help,
            p_discovery=float(compared.p[at]),
            against=reference.configuration,
        )
        for at, (first, second) in enumerate(labels)
    )
