"""From the record file of a run to its trace."""

from __future__ import annotations

from unperturbed.collectors.records.assemble import assemble, derived_metric, milestone, thread_traces
from unperturbed.collectors.records.counts import implausible
from unperturbed.collectors.records.file import (
    CHOOSE_PROCESSOR,
    NO_PINNING,
    OVERFLOW_SIGNAL,
    SIGNAL,
    Mark,
    Probe,
    Records,
    Setup,
    create_record_file,
    read_record_file,
)

__all__ = [
    "CHOOSE_PROCESSOR",
    "NO_PINNING",
    "OVERFLOW_SIGNAL",
    "SIGNAL",
    "Mark",
    "Probe",
    "Records",
    "Setup",
    "assemble",
    "create_record_file",
    "derived_metric",
    "implausible",
    "milestone",
    "read_record_file",
    "thread_traces",
]
