"""The examples of the reference's page: the smallest useful spec, one with every key but
those of a sweep and of a service, a sweep, a service, what runs already."""

from __future__ import annotations

import re
from pathlib import Path

from unperturbed.harness.spec import docs
from unperturbed.harness.spec.campaign_spec import CampaignSpec, spec_keys

_PAGE = Path(docs.__file__).with_name("reference.md").read_text(encoding="utf-8")

SMALL_EXAMPLE, _FULL, SWEEP_EXAMPLE, SERVICE_EXAMPLE, ATTACH_EXAMPLE = re.findall(
    r"```yaml\n(.*?)(?:<!-- .* -->)?```", _PAGE, re.DOTALL
)


def full_example() -> str:
    """Return a spec with every key, those of other distributions too, but for those of a sweep and of a service."""
    others = (key for name, key in spec_keys().items() if name not in CampaignSpec.model_fields)
    return "".join([_FULL, *(key.sample for key in others)])
