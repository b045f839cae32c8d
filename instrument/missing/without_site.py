"""Which software metrics have no site in a build; what explains these is loaded where there are any."""

from __future__ import annotations

from collections.abc import Mapping

from unperturbed.instrument.events.event import Event
from unperturbed.instrument.finding.site_log import SiteReport


def missing_metrics(report: SiteReport, software: Mapping[str, Event]) -> dict[str, str]:
    """Return a message for each compiled metric without a site.

    `software`: The software metrics by name.
    """
    without = {
        name: event for name, event in software.items() if event.means == "compiled" and not report.sites.get(name)
    }
    if not without:
        return {}
    from unperturbed.instrument.missing.explain import why_missing  # noqa: PLC0415  loads the parser: some 50 ms

    return {name: why_missing(name, event, report) for name, event in without.items()}
