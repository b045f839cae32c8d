"""What a node executes for a campaign that has another end than verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from unperturbed.harness.campaign.execution import SEARCH, SWEEP
from unperturbed.harness.nodes.worker import Maker
from unperturbed.harness.studies.search_on_nodes import part as search
from unperturbed.harness.studies.sweep import nodes as sweep

NODE_MAKERS: Mapping[str, Maker] = MappingProxyType({SWEEP: sweep.make_part, SEARCH: search.make_part})
"""What makes the runs of a part, by the purpose of the part's folder."""
