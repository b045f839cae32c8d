"""Kinds of anomaly, each a small class.

Kamdem Kengne et al., "Distance-Based Trace Diagnosis for Multimedia Applications: Help me TED!", section II-B, names three: desynchronisation,
player crash, slow streaming; lost events are added here. The paper takes any distance above 0 for an anomaly. Clean runs of real
pipelines are not at distance 0 of each other; so a kind measures the physical effect and holds it against the references' own noise.

A kind of your own derives from `Kind` and is given to `diagnose(kinds=…)`; see docs/diagnosis.md.
"""

from unperturbed.analysis.diagnosis.kinds.crash import Crash, error_types
from unperturbed.analysis.diagnosis.kinds.desynchronisation import Desynchronisation
from unperturbed.analysis.diagnosis.kinds.kind import Kind
from unperturbed.analysis.diagnosis.kinds.lost_events import LostEvents
from unperturbed.analysis.diagnosis.kinds.slow_streaming import SlowStreaming

__all__ = ["KINDS", "Crash", "Desynchronisation", "Kind", "LostEvents", "SlowStreaming", "error_types"]

KINDS: dict[str, Kind] = {kind.name: kind for kind in (Crash(), LostEvents(), Desynchronisation(), SlowStreaming())}
"""The kinds that are looked for, in the paper's order of distances: dropping, occurrence, temporal."""
