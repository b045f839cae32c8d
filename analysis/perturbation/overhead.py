"""What measuring added to a run: instructions, cycles, time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unperturbed.analysis.perturbation.verdict import Overhead
from unperturbed.collectors.trace import Trace

__all__ = ["overhead"]

_INSTRUCTIONS, _CYCLES = "PAPI_TOT_INS", "PAPI_TOT_CYC"


def overhead(reference_traces: Sequence[Trace], traces: Sequence[Trace]) -> Overhead:
    """Compare mean totals over runs: 0.03 is 3 % more than the reference, None what was not counted.

    Parameters
    ----------
    reference_traces, traces : runs of the reference and of the checked configuration.

    Returns
    -------
    Overhead
        `instructions` from PAPI_TOT_INS, `cycles` from PAPI_TOT_CYC (simulated ones where the trace says so), `time` from the
        first interval's begin to the last one's end; None for simulated runs, whose time is the simulator's.
    """

    def added(reference: float | None, observed: float | None) -> float | None:
        return None if not reference or observed is None else observed / reference - 1

    return Overhead(
        instructions=added(_mean_total(reference_traces, _INSTRUCTIONS), _mean_total(traces, _INSTRUCTIONS)),
        cycles=added(_mean_total(reference_traces, _CYCLES), _mean_total(traces, _CYCLES)),
        time=added(_mean_duration_ns(reference_traces), _mean_duration_ns(traces)),
    )


def _mean_total(traces: Sequence[Trace], name: str) -> float | None:
    if not traces or any(name not in trace.metrics for trace in traces):
        return None
    return float(np.mean([trace[name].sum() for trace in traces]))


def _mean_duration_ns(traces: Sequence[Trace]) -> float | None:
    if not traces or any(len(trace) == 0 or trace.names("simulated") for trace in traces):
        return None
    return float(np.mean([trace.end_ns[-1] - trace.begin_ns[0] for trace in traces]))
