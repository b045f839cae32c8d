"""How numbers are gathered at intervals: the trace, the catalogue of metrics, the samplers and their sources."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unperturbed.collectors.trace import Metric, Trace

__all__ = ["Metric", "Trace"]


def __getattr__(name: str) -> Any:
    # numpy, which traces need, stays out of processes that count themselves (`pyperf_hook`): it changes their memory.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from unperturbed.collectors import trace  # noqa: PLC0415

    return getattr(trace, name)
