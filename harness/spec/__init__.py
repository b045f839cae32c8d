"""Campaign specs: validate YAML text into an immutable `CampaignSpec`, or report all its faults at once.

Another distribution adds a top-level key to the spec through an entry point in the group `unperturbed.spec_keys` that
refers to a `SpecKey`. The key's value is `CampaignSpec.extensions[name]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unperturbed.common.faces import lazy_names

if TYPE_CHECKING:
    from unperturbed.harness.spec.campaign_spec import CampaignSpec
    from unperturbed.harness.spec.load import load_spec, parse_spec
    from unperturbed.harness.spec.model import Because, Draft, Section, SpecKey

__all__ = ["Because", "CampaignSpec", "Draft", "Section", "SpecKey", "load_spec", "parse_spec"]

__getattr__, __dir__ = lazy_names(__name__)
