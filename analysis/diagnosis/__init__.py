"""Diagnosis of a run: compare its log of timestamped events with the logs of good runs.

Kamdem Kengne et al., "Distance-Based Trace Diagnosis for Multimedia Applications: Help Me TED!".
"""

from typing import TYPE_CHECKING

from unperturbed.analysis.diagnosis.calibrating import (
    FittedStrictness,
    LabelledTrace,
    calibrate,
    read_labelled,
    read_strictness,
    with_strictness,
    write_strictness,
)
from unperturbed.analysis.diagnosis.comparison import LogComparison, Stream
from unperturbed.analysis.diagnosis.distances.blocks import AbstractTrace, Block, abstract, learn_blocks
from unperturbed.analysis.diagnosis.distances.counts import (
    DroppingDistance,
    OccurrenceDistance,
    TypeCounts,
    count_types,
    dropping_distance,
    normalize,
    occurrence_distance,
)
from unperturbed.analysis.diagnosis.distances.temporal import (
    EditScript,
    Operation,
    TemporalDistance,
    temporal_distance,
)
from unperturbed.analysis.diagnosis.distances.temporal_search import Variant
from unperturbed.analysis.diagnosis.events import BadLine, EventTrace, EventType, Reading, Unit, shared_ids
from unperturbed.analysis.diagnosis.findings import (
    Carrier,
    Diagnosis,
    Finding,
    PaperDistance,
    Verdict,
    Visible,
    carriers_of,
)
from unperturbed.analysis.diagnosis.kinds import Kind, anomaly_kinds
from unperturbed.analysis.diagnosis.kinds.crash import Crash
from unperturbed.analysis.diagnosis.kinds.delays import Desynchronisation, SlowStreaming
from unperturbed.analysis.diagnosis.kinds.lost_events import LostEvents
from unperturbed.analysis.diagnosis.kinds.missing_type import MissingType
from unperturbed.analysis.diagnosis.kinds.slow_phase import SlowPhase
from unperturbed.analysis.diagnosis.reading import read_events
from unperturbed.analysis.diagnosis.reading.formats import LineParser, LogFormat, PlainFormat, log_formats
from unperturbed.analysis.diagnosis.verdict import DistanceChoice, diagnose
from unperturbed.common.faces import lazy_names

if TYPE_CHECKING:  # loaded on first use
    from unperturbed.analysis.diagnosis.reading.compiled_format import CompiledFormat

__all__ = [
    "AbstractTrace",
    "BadLine",
    "Block",
    "Carrier",
    "CompiledFormat",
    "Crash",
    "Desynchronisation",
    "Diagnosis",
    "DistanceChoice",
    "DroppingDistance",
    "EditScript",
    "EventTrace",
    "EventType",
    "Finding",
    "FittedStrictness",
    "Kind",
    "LabelledTrace",
    "LineParser",
    "LogComparison",
    "LogFormat",
    "LostEvents",
    "MissingType",
    "OccurrenceDistance",
    "Operation",
    "PaperDistance",
    "PlainFormat",
    "Reading",
    "SlowPhase",
    "SlowStreaming",
    "Stream",
    "TemporalDistance",
    "TypeCounts",
    "Unit",
    "Variant",
    "Verdict",
    "Visible",
    "abstract",
    "anomaly_kinds",
    "calibrate",
    "carriers_of",
    "count_types",
    "diagnose",
    "dropping_distance",
    "learn_blocks",
    "log_formats",
    "normalize",
    "occurrence_distance",
    "read_events",
    "read_labelled",
    "read_strictness",
    "shared_ids",
    "temporal_distance",
    "with_strictness",
    "write_strictness",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    former={
        "unperturbed.analysis.diagnosis": "describe=finding_text",
        "unperturbed.analysis.diagnosis.comparison": "Comparison=LogComparison",
    },
)
