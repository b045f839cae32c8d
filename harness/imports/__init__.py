"""Campaigns of runs that other tools recorded: their folder, on which everything works but running more."""

from unperturbed.harness.imports.campaign import Group, import_campaign
from unperturbed.harness.imports.foreign import what_to_type

__all__ = ["Group", "import_campaign", "what_to_type"]
