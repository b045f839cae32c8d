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

from typing import TYPE_CHECKING, Any

from unperturbed.common.faces import lazy_names

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


_get, __dir__ = lazy_names(__name__)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415  10 ms, which importing this module does not take

        globals()[name] = version("unperturbed")
        return globals()[name]
    return _get(name)
