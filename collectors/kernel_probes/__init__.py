"""Probes of the kernel, which counts their hits: registered for a campaign, and what a hit costs."""
