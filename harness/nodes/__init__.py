"""Campaigns on several nodes: the share of each node, and the state of campaigns, on nodes or on one host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unperturbed.common.faces import lazy_names

if TYPE_CHECKING:
    from unperturbed.harness.nodes.coordinate import cancel, run_on_nodes
    from unperturbed.harness.nodes.shares import (
        NODES,
        NodePart,
        done_runs,
        lacks,
        parts_of,
        read_json,
        reading,
        recorded_share,
        share_of,
        whole_campaign,
    )
    from unperturbed.harness.nodes.status import CampaignStatus, PartStatus, read_status
    from unperturbed.harness.nodes.worker import work

__all__ = [
    "NODES",
    "CampaignStatus",
    "NodePart",
    "PartStatus",
    "cancel",
    "done_runs",
    "lacks",
    "parts_of",
    "read_json",
    "read_status",
    "reading",
    "recorded_share",
    "run_on_nodes",
    "share_of",
    "whole_campaign",
    "work",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "coordinate": ("cancel", "run_on_nodes"),
        "shares": (
            "NODES",
            "NodePart",
            "done_runs",
            "lacks",
            "parts_of",
            "read_json",
            "reading",
            "recorded_share",
            "share_of",
            "whole_campaign",
        ),
        "status": ("CampaignStatus", "PartStatus", "read_status"),
        "worker": ("work",),
    },
)
