"""How numbers are gathered at intervals: the trace, the catalogue of metrics, the samplers and their sources."""

from unperturbed.collectors.trace import Metric, Trace

__all__ = ["Metric", "Trace"]
