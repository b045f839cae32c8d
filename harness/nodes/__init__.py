"""Campaigns on several nodes: the share of each node, and the state of campaigns, on nodes or on one host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unperturbed.common.faces import lazy_names

if TYPE_CHECKING:
    from unperturbed.harness.nodes.coordinate import Coordination, cancel, coordinated, run_on_nodes
    from unperturbed.harness.nodes.engines import engine_of
    from unperturbed.harness.nodes.kinds import SEARCHES, SWEEPS, Kind, kind_of, whole_campaign
    from unperturbed.harness.nodes.requests import Requests, read_requests
    from unperturbed.harness.nodes.shares import (
        FOLDER,
        NODES,
        NodePart,
        dealt_points,
        differing_facts,
        done_runs,
        lacks,
        own_seed,
        parts_of,
        read_json,
        reading,
        recorded_share,
        share_of,
        this_node,
        write_json,
        write_once,
    )
    from unperturbed.harness.nodes.status import CampaignStatus, PartStatus, read_status
    from unperturbed.harness.nodes.worker import Maker, work

__all__ = [
    "FOLDER",
    "NODES",
    "SEARCHES",
    "SWEEPS",
    "CampaignStatus",
    "Coordination",
    "Kind",
    "Maker",
    "NodePart",
    "PartStatus",
    "Requests",
    "cancel",
    "coordinated",
    "dealt_points",
    "differing_facts",
    "done_runs",
    "engine_of",
    "kind_of",
    "lacks",
    "own_seed",
    "parts_of",
    "read_json",
    "read_requests",
    "read_status",
    "reading",
    "recorded_share",
    "run_on_nodes",
    "share_of",
    "this_node",
    "whole_campaign",
    "work",
    "write_json",
    "write_once",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "coordinate": ("Coordination", "cancel", "coordinated", "run_on_nodes"),
        "engines": ("engine_of",),
        "kinds": ("Kind", "SEARCHES", "SWEEPS", "kind_of", "whole_campaign"),
        "requests": ("Requests", "read_requests"),
        "shares": (
            "FOLDER",
            "NODES",
            "NodePart",
            "dealt_points",
            "differing_facts",
            "done_runs",
            "lacks",
            "parts_of",
            "read_json",
            "reading",
            "own_seed",
            "recorded_share",
            "share_of",
            "this_node",
            "write_json",
            "write_once",
        ),
        "status": ("CampaignStatus", "PartStatus", "read_status"),
        "worker": ("Maker", "work"),
    },
)
