"""What is wrong with a run, told by its log of timestamped events and that of a run that worked.

Kamdem Kengne et al., "Distance-Based Trace Diagnosis for Multimedia Applications: Help me TED!".
"""

from unperturbed.analysis.diagnosis.blocks import AbstractTrace, Block, abstract, learn_blocks
from unperturbed.analysis.diagnosis.calibrating import Fitted, LabelledTrace, calibrate, read_labelled, with_strictness
from unperturbed.analysis.diagnosis.comparison import Comparison, Stream
from unperturbed.analysis.diagnosis.diagnosing import diagnose
from unperturbed.analysis.diagnosis.distances import (
    DroppingDistance,
    OccurrenceDistance,
    TypeCounts,
    count_types,
    dropping_distance,
    normalize,
    occurrence_distance,
)
from unperturbed.analysis.diagnosis.events import BadLine, EventTrace, EventType, Reading, Unit, shared_ids
from unperturbed.analysis.diagnosis.findings import Carrier, Diagnosis, Finding, PaperDistance, Verdict, carriers_of
from unperturbed.analysis.diagnosis.kinds import KINDS, Crash, Desynchronisation, Kind, LostEvents, SlowStreaming
from unperturbed.analysis.diagnosis.reading import read_events
from unperturbed.analysis.diagnosis.temporal import EditScript, Operation, TemporalDistance, Variant, temporal_distance

__all__ = [
    "KINDS",
    "AbstractTrace",
    "BadLine",
    "Block",
    "Carrier",
    "Comparison",
    "Crash",
    "Desynchronisation",
    "Diagnosis",
    "DroppingDistance",
    "EditScript",
    "EventTrace",
    "EventType",
    "Finding",
    "Fitted",
    "Kind",
    "LabelledTrace",
    "LostEvents",
    "OccurrenceDistance",
    "Operation",
    "PaperDistance",
    "Reading",
    "SlowStreaming",
    "Stream",
    "TemporalDistance",
    "TypeCounts",
    "Unit",
    "Variant",
    "Verdict",
    "abstract",
    "calibrate",
    "carriers_of",
    "count_types",
    "diagnose",
    "dropping_distance",
    "learn_blocks",
    "normalize",
    "occurrence_distance",
    "read_events",
    "read_labelled",
    "shared_ids",
    "temporal_distance",
    "with_strictness",
]
