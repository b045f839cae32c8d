"""What this host can count and how many passes it takes: the catalogue of metrics, and passes found by trying."""

from __future__ import annotations

from unperturbed.collectors.planning.listing import Listing, list_metrics, nearest
from unperturbed.collectors.planning.passes import Passes, misspelt, plan_passes

__all__ = ["Listing", "Passes", "list_metrics", "misspelt", "nearest", "plan_passes"]
