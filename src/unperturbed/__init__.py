"""Public interface of the library: trustworthy measurement campaigns.

>>> import unperturbed as up

Each name below is loaded on first use, so importing this module takes only milliseconds.

=================  ====================================================================================
`load`             open a recorded campaign as a `Campaign` (alias: `open_campaign`)
`check`            compare a campaign's configurations with its baseline; for single traces, see `Baseline`
`read_trace`       read one run's `Trace`; `read_sweep` reads a sweep's table, `read_events` an event log
`read_traces`      read traces that other tools recorded; `read_perf_stat` reads those of `perf stat -I`
`align`, `merge`   align two runs interval by interval; merge runs with different metrics into one trace
`dtw`, `pairwise`  compute dynamic time warping of two series, or of all pairs in a set
`partition`        find subsets of metrics that leave the program unperturbed
`structure`        find the phases of a run, as phase words that recur
`diagnose`         compare an event trace with the traces of successful runs
`learn`            learn a causal model from a table of runs, given `Knowledge`
=================  ====================================================================================

The subpackages contain the rest: `unperturbed.analysis` (interpretation of measurements), `unperturbed.collectors`
(traces and data collection), `unperturbed.harness` (campaigns), `unperturbed.instrument` (software counters).
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
    from unperturbed.analysis.structure import structure
    from unperturbed.collectors import Metric, Trace, read_sweep
    from unperturbed.collectors.imports import read_perf_stat, read_traces
    from unperturbed.harness.library import Campaign, check, load, read_trace
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
        from importlib.metadata import version  # noqa: PLC0415  takes 10 ms, so not on import

        globals()[name] = version("unperturbed")
        return globals()[name]
    return _get(name)
