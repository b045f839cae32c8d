"""`name`: what a campaign is called."""

from __future__ import annotations

from unperturbed.harness.spec.model import SpecKey
from unperturbed.harness.spec.values.text import FileName

NAME = SpecKey(
    "name",
    FileName,
    "Name of the campaign, and of its folder.",
    required=True,
    examples=("quickstart",),
    sample="name: everything\n",
)
