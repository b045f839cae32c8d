"""What is wrong with a run, told by its log of timestamped events and that of a run that worked.

Kamdem Kengne et al., "Distance-Based Trace Diagnosis for Multimedia Applications: Help me TED!".
"""

from unperturbed.analysis.diagnosis.events import BadLine, EventTrace, EventType, Reading, Unit, shared_ids
from unperturbed.analysis.diagnosis.reading import read_events

__all__ = ["BadLine", "EventTrace", "EventType", "Reading", "Unit", "read_events", "shared_ids"]
