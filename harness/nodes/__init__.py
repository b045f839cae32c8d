"""Campaigns on several nodes: the share of each node, and the state of campaigns, on nodes or on one host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unperturbed.common.faces import lazy_names

if TYPE_CHECKING:
    from unperturbed.harness.nodes.status import CampaignStatus, PartStatus, read_status

__all__ = ["CampaignStatus", "PartStatus", "read_status"]

__getattr__, __dir__ = lazy_names(__name__, {"status": ("CampaignStatus", "PartStatus", "read_status")})
