"""Measurement campaigns you can believe: the library's front door.

>>> import unperturbed as up

Each name below is loaded when it is first used, so that importing this module takes milliseconds.

=================  ====================================================================================
`load`             open a recorded campaign (`open_campaign` is the same): `Campaign`
`check`            compare a campaign's configurations with its baseline; of single traces: `Baseline`
`read_trace`       one run's `Trace`; `read_sweep` a sweep's table; `read_events` an event log
`read_traces`      traces that other tools recorded; `read_perf_stat` those of `perf stat -I`
`align`, `merge`   two runs interval by interval; runs of different metrics joined into one trace
`dtw`, `pairwise`  dynamic time warping of two series, and of all pairs of a set
`partition`        find subsets of metrics that leave the program unperturbed
`structure`        the phases of a run, as words that recur
`diagnose`         compare an event trace with those of runs that went well
`learn`            a causal model of a table of runs, given `Knowledge`
=================  ====================================================================================

The packages below it hold the rest: `unperturbed.analysis` (what numbers mean), `unperturbed.collectors` (traces, and
how numbers are gathered), `unperturbed.harness` (campaigns), `unperturbed.instrument` (software counters).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unperturbed.analysis.alignment import align, dtw, merge, pairwise
    from unperturbed.analysis.causal import CausalModel, Knowledge, learn
    from unperturbed.analysis.diagnosis import EventTrace, diagnose, read_events
    from unperturbed.analysis.partition import partition
    from unperturbed.analysis.perturbation import Baseline
    from unperturbed.collectors import Metric, Trace, read_sweep
    from unperturbed.collectors.imports import read_perf_stat, read_traces
    from unperturbed.harness.library import Campaign, check, load, read_trace, structure
    from unperturbed.harness.library import load as open_campaign

    __version__: str

_HOMES = {
    "Baseline": "analysis.perturbation",
    "Campaign": "harness.library",
    "CausalModel": "analysis.causal",
    "EventTrace": "analysis.diagnosis",
    "Knowledge": "analysis.causal",
    "Metric": "collectors",
    "Trace": "collectors",
    "align": "analysis.alignment",
    "check": "harness.library",
    "diagnose": "analysis.diagnosis",
    "dtw": "analysis.alignment",
    "learn": "analysis.causal",
    "load": "harness.library",
    "merge": "analysis.alignment",
    "open_campaign": "harness.library",
    "pairwise": "analysis.alignment",
    "partition": "analysis.partition",
    "read_events": "analysis.diagnosis",
    "read_perf_stat": "collectors.imports",
    "read_sweep": "collectors",
    "read_trace": "harness.library",
    "read_traces": "collectors.imports",
    "structure": "harness.library",
}
"""The package of each public name."""

_ELSEWHERE = {"open_campaign": "load"}
"""Names that are second names of others."""

__all__ = [
    "Baseline",
    "Campaign",
    "CausalModel",
    "EventTrace",
    "Knowledge",
    "Metric",
    "Trace",
    "__version__",
    "align",
    "check",
    "diagnose",
    "dtw",
    "learn",
    "load",
    "merge",
    "open_campaign",
    "pairwise",
    "partition",
    "read_events",
    "read_perf_stat",
    "read_sweep",
    "read_trace",
    "read_traces",
    "structure",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415  10 ms, which importing this module does not take

        found: Any = version("unperturbed")
    elif name in _HOMES:
        found = getattr(importlib.import_module(f"unperturbed.{_HOMES[name]}"), _ELSEWHERE.get(name, name))
    else:
        raise AttributeError(f"module 'unperturbed' has no attribute {name!r}; it has {', '.join(__all__)}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
