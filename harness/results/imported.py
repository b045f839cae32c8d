"""Report content of an imported campaign, in the place of program, host and sources: files, and who counted."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from typing import TYPE_CHECKING

from unperturbed.analysis.report import CounterSource, Headline
from unperturbed.common.wording import listing

if TYPE_CHECKING:
    from unperturbed.harness.campaign.manifest import Manifest
    from unperturbed.harness.spec.campaign_spec import CampaignSpec, Imported

_KINDS = {
    "hardware": "counted by the processor",
    "simulated": "simulated, not counted by a processor",
    "os": "counted by the operating system or by software",
    "software": "counted by software",
    "derived": "computed from others",
}


def imported_source(imported: Imported) -> CounterSource:
    """Return where imported counts come from, metric by metric."""
    by_kind: dict[str, list[str]] = {}
    for name, kind in imported.metrics.items():
        by_kind.setdefault(kind, []).append(name)
    parts = [f"{listing(names)} {'is' if len(names) == 1 else 'are'} {_KINDS[kind]}" for kind, names in by_kind.items()]
    return CounterSource(
        name=f"imported from {imported.title}",
        sentence=f"Imported from {imported.title}, as the files say it: {'; '.join(parts)}.",
        simulated="simulated" in by_kind,
    )


def imported_headline(imported: Imported, manifest: Manifest) -> Headline:
    """Return the headline: nothing is known of program and host."""
    return Headline(
        program=f"imported from {imported.title}",
        command=imported.command,
        started=manifest.fact("begun"),
        seconds=sum(state.seconds or 0.0 for state in manifest.runs()),
        version=metadata.version("unperturbed"),
    )


def imported_provenance(spec: CampaignSpec, imported: Imported, manifest: Manifest) -> dict[str, Mapping[str, str]]:
    """Return the groups of facts: the import, its options, and each file with its checksum."""
    return {
        "campaign": {
            "name": spec.name,
            "record": str(spec.path),
            "record digest": spec.digest,
            "imported": manifest.fact("begun"),
            "by": imported.command or "the library",
        },
        "what was imported": {
            "format": f"{imported.title} ({imported.format})",
            **(
                {"options": ", ".join(f"{key}={value}" for key, value in imported.options.items())}
                if imported.options
                else {}
            ),
            "program and host": "not recorded",
            "metrics": ", ".join(f"{name} ({kind})" for name, kind in imported.metrics.items()),
        },
        "files (sha256)": {str(one["file"]): f"{one['configuration']}, {one['sha256']}" for one in imported.files},
    }
