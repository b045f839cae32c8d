"""Export of a diagnosis to Perfetto: one process per log, events as instants by plugin, findings as slices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unperturbed.harness.exports import Format
from unperturbed.harness.exports import perfetto as packets

if TYPE_CHECKING:
    from unperturbed.analysis.diagnosis import Diagnosis


def write_diagnosis(diagnosis: Diagnosis, path: Path) -> None:
    """Write a diagnosis and the logs that it compares."""
    with path.open("wb") as file:
        file.writelines(_packets(diagnosis))


def _packets(diagnosis: Diagnosis) -> Iterator[bytes]:
    compared = diagnosis.comparison
    texts = dict.fromkeys(
        [*(reported.summary for reported in diagnosis.findings), *(event_type.name for event_type in compared.types)]
    )
    names = {text: iid for iid, text in enumerate(texts, 1)}
    yield packets.first_packet(names)
    factor = 10**9 // (compared.ticks_a_second or 10**9)
    unit = [] if compared.ticks_a_second else ["each tick of the log is shown as one nanosecond"]
    logs: list[tuple[str, str, Any]] = [(f"diagnosed: {diagnosis.trace}", diagnosis.verdict, compared.observed)]
    for name, held in zip(diagnosis.references, compared.references, strict=True):
        logs.append((f"reference: {name}", "reference", held))
    uuid = 0
    for pid, (title, label, held) in enumerate(logs, 1):
        uuid += 1
        process = uuid
        yield packets.process_track(process, pid, title, [label, *unit])
        if pid == 1:
            last = int(held.trace.duration)
            for finding in diagnosis.findings:
                uuid += 1
                where = f"{finding.where}; confidence {finding.confidence}".removeprefix("; ")
                yield packets.event_track(uuid, process, f"finding: {finding.kind}", where)
                for kind, tick in ((packets.SLICE_BEGIN, finding.since or 0), (packets.SLICE_END, last)):
                    yield packets.slice_event(kind, uuid, names[finding.summary], tick * factor)
        by_plugin: defaultdict[str, list[int]] = defaultdict(list)
        for number in np.flatnonzero(held.counts).tolist():
            by_plugin[compared.types[number].plugin].append(number)
        for plugin, numbers in by_plugin.items():
            uuid += 1
            yield packets.event_track(uuid, process, plugin or "events")
            for number in numbers:
                times = np.asarray(held.times(number) * factor, np.int64)
                yield from packets.instant_events(uuid, names[compared.types[number].name], times)


FORMAT = Format("perfetto-diagnosis", packets.SUFFIXES, {"diagnosis": write_diagnosis})
