"""Explanations of why a software metric has no site in a build, from the names in the build's sources."""

from __future__ import annotations

from collections.abc import Mapping

from unperturbed.instrument.events.event import Event
from unperturbed.instrument.finding.site_log import SiteReport


def metrics_without_site(report: SiteReport, software: Mapping[str, Event]) -> dict[str, Event]:
    """Return the compiled metrics that have no site."""
    return {name: event for name, event in software.items() if event.means == "compiled" and not report.sites.get(name)}


def missing_metrics(report: SiteReport, software: Mapping[str, Event], why_no_source: str = "") -> dict[str, str]:
    """Return a message for each compiled metric without a site; it ends in `why_no_source` if none was compiled."""
    missing = metrics_without_site(report, software)
    if not missing:
        return {}
    # The fault of one metric's `add` takes the counters of all metrics from its source: only that one is to blame.
    missing = {name: event for name, event in missing.items() if name in report.faulty} or missing
    from unperturbed.instrument.missing.explain import why_missing  # noqa: PLC0415  loads the parser, about 50 ms

    return {name: why_missing(name, event, report, why_no_source) for name, event in missing.items()}
