"""Probes of the kernel, which counts their hits: registered for a campaign, and what a hit costs."""

from __future__ import annotations

from unperturbed.collectors.kernel_probes.cost import HitCost, measure_hit_cost
from unperturbed.collectors.kernel_probes.registration import Place, probe_registry, register_probes, remove_probes

__all__ = ["HitCost", "Place", "measure_hit_cost", "probe_registry", "register_probes", "remove_probes"]
