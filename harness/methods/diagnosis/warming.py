"""Compile the readers of event logs and their distances ahead of their first use."""

from __future__ import annotations

from typing import get_args

_LOG = "".join(f"{1000 * at} {'abc'[at % 3]}\n" for at in range(60))


def warm() -> None:
    """Compile the readers of event logs and the distances of event traces."""
    from unperturbed.analysis.diagnosis import (
        EventTrace,
        Variant,
        abstract,
        diagnose,
        learn_blocks,
        log_formats,
        read_events,
        temporal_distance,
    )
    from unperturbed.common.scratch import scratch_folder

    for log_format in log_formats().values():
        log_format.compile()
    with scratch_folder("warming") as place:
        path = place / "log"
        path.write_text(_LOG)
        trace = read_events(path, format="simple")
    abstract(trace, learn_blocks([trace]))
    diagnose([trace, trace, trace], trace)
    for types, step in ((3, 1), (3, 1 << 30), (50, 1)):  # few and many types, times of 32 bits and of more
        events, others = (
            EventTrace.from_pairs([((step + 10) * at + at % 7, f"type{at * stride % types}") for at in range(300)])
            for stride in (1, 7)
        )
        for variant in get_args(Variant):
            temporal_distance(events, others, variant=variant).script()
