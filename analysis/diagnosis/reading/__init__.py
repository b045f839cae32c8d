"""Reading of event logs.

::

    reader           a log from its first byte to a trace
    sources          files, standard input and streams, plain or compressed: one buffer of bytes
    format           what a format is, which ones there are, which one a log has
    formats          one module a format
    compiled_format  formats whose lines are parsed by a compiled function
    scan             the compiled loop over lines; line and spans are what its formats are written with

The compiler is loaded by the first log that is read, so that importing this package stays cheap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from unperturbed.analysis.diagnosis.events import EventTrace, Unit
from unperturbed.analysis.diagnosis.reading.format import ReadOptions


def read_events(
    path: str | Path | BinaryIO,
    *,
    format: str | None = None,  # noqa: A002  the usual word
    unit: Unit | None = None,
    identity: Sequence[str] = ("level", "function", "word"),
    by_plugin: bool = True,
    keep_numbers: bool = False,
    keep_start_up: bool = False,
    process: int | None = None,
    columns: Mapping[str, str] | None = None,
    pattern: str | None = None,
    most_late: int | None = None,
    most_bad: float = 0.1,
    bad_lines_shown: int = 5,
    name: str | None = None,
    block_bytes: int = 1 << 24,
) -> EventTrace:
    """Read a log of timestamped events, once, from beginning to end.

    Parameters
    ----------
    path : path-like or binary stream
        "-" is standard input. Plain, gzip or zstd: the first bytes show which.
    format : str, optional
        The name of a format: "gstreamer", "ftrace", "simple", "csv", "pattern", or one that another distribution adds
        (see `PlainFormat`). By default the first lines decide.
    unit : {"ns", "us", "ms", "s", "ticks"}, optional
        Of the timestamps of a simple, csv or pattern log; needed where they have decimals, which then become
        nanoseconds. GStreamer's and ftrace's are nanoseconds.
    identity : sequence of str, default ("level", "function", "word")
        The fields by which two GStreamer events are the same: of "level", "category", "file", "function", "object" and
        "word", the first word of the message. The paper keeps "Debug level, function and the first argument of the
        message" (section IV-B).
    by_plugin : bool, default True
        Distinguish events of two categories although their identity is the same: each type has one plugin then. False
        is the paper's literal identity; types have no plugin then.
    keep_numbers : bool, default False
        Addresses in a word or object always become 0x#. Other numbers of a word become # too (`size=21984`), unless
        kept; those in names (`filesrc0`) stay.
    keep_start_up : bool, default False
        Keep what GStreamer logs while it loads plugins.
    process : int, optional
        Which process of a GStreamer log to read, where several wrote into it.
    columns : mapping of str to str, optional
        Columns of a csv log, for "time", "name", "plugin" and "level". By default the usual names (time, timestamp, ts;
        name, event; plugin, category; level).
    pattern : str, optional
        A regular expression, searched in each line, with the groups `time` and `name`, and `plugin` and `level` if
        wanted. A time is a number or hours:minutes:seconds. Ten times slower than the built-in formats, and more.
    most_late : int, optional
        Events that are written after a later one are sorted (stably) and counted, where they are late by at most so
        many ticks. By default in a GStreamer log: where their thread can have waited to write them; in other logs of a
        known unit 1 ms; else 0.
    most_bad : float, default 0.1
        A log is refused if a larger share of its lines holds no event. Comments and empty lines do not count.
    bad_lines_shown : int, default 5
        How many are kept in `Reading.first_bad_lines`.
    name : str, optional
        Of the trace; the source's by default.
    block_bytes : int, default 16777216
        Bytes read at a time. A longer line makes the buffer grow.

    Returns
    -------
    EventTrace
        Its `reading` has what was left out. Lines that only continue a message are not in it.

    Raises
    ------
    DataError
        No such file, damaged compression, no format that fits, no event, too many bad lines, time that goes backwards
        (with the line where), several processes or runs in one log, and arguments that contradict each other.
    HostError
        A zstd log, and no package to unpack it; or the extension of another distribution cannot be loaded.

    Notes
    -----
    Sections II-A and IV-B of Kamdem Kengne et al. A GStreamer thread takes the time of an event, then waits for the
    log's lock; so an event can be written after later ones of other threads. But when a thread has written, everything
    written before has an earlier time than the thread's next event. This is checked, without a tolerance. Memory is 12
    bytes an event, a block and the texts of the event types.
    """
    from unperturbed.analysis.diagnosis.reading import reader  # noqa: PLC0415  loads the compiler

    options = ReadOptions(
        format="pattern" if format is None and pattern is not None else format,
        unit=unit,
        identity=tuple(identity),
        by_plugin=by_plugin,
        keep_numbers=keep_numbers,
        keep_start_up=keep_start_up,
        process=process,
        columns=dict(columns or {}),
        pattern=pattern,
        most_late=most_late,
        most_bad=most_bad,
        bad_lines_shown=bad_lines_shown,
        block_bytes=block_bytes,
    )
    return reader.read(path, options, name)
