"""Where in the spec something stands that turned out to be wrong only later: when its source was looked at, or when it was counted."""

from __future__ import annotations

from pathlib import Path

from unperturbed.harness.spec.draft import Draft
from unperturbed.harness.spec.models import Campaign
from unperturbed.harness.spec.yamlpos import read_yaml

__all__ = ["at_metric"]


def at_metric(campaign: Campaign, name: str) -> str:
    """Return `file:line:column` of a software metric's name in the spec; the file as seen from the current folder, where it lies below it."""
    place = Draft(read_yaml(campaign.text, str(campaign.path)), campaign.folder).key_position(("measure", "software", name))
    here = Path.cwd()
    file = campaign.path.relative_to(here) if campaign.path.is_relative_to(here) else campaign.path
    return f"{file}:{place.line}:{place.column}"
