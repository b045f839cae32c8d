"""Collection of metrics at intervals: traces, sources of counts, samplers, and the samplers' record files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unperturbed.common.faces import lazy_names

if TYPE_CHECKING:
    from unperturbed.collectors.data import Metric, Trace, read_sweep

__all__ = ["Metric", "Trace", "read_sweep"]

__getattr__, __dir__ = lazy_names(__name__)
