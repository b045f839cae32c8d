"""What is wrong with a run, told by its log of timestamped events and that of a run that worked.

Kamdem Kengne et al., "Distance-Based Trace Diagnosis for Multimedia Applications: Help me TED!".
"""

from unperturbed.analysis.diagnosis.blocks import AbstractTrace, Block, abstract, learn_blocks
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
from unperturbed.analysis.diagnosis.reading import read_events
from unperturbed.analysis.diagnosis.temporal import EditScript, Operation, TemporalDistance, Variant, temporal_distance

__all__ = [
    "AbstractTrace",
    "BadLine",
    "Block",
    "DroppingDistance",
    "EditScript",
    "EventTrace",
    "EventType",
    "OccurrenceDistance",
    "Operation",
    "Reading",
    "TemporalDistance",
    "TypeCounts",
    "Unit",
    "Variant",
    "abstract",
    "count_types",
    "dropping_distance",
    "learn_blocks",
    "normalize",
    "occurrence_distance",
    "read_events",
    "shared_ids",
    "temporal_distance",
]
