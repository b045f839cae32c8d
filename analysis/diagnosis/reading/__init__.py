"""Readers of event logs, one module a format.

::

    sources      files, standard input, gzip, zstd: one buffer of bytes
    formats      which format a log has
    gstreamer, ftrace, simple, table    compiled: what one line of a format says
    pattern      any line, by the user's regular expression
    scan         compiled: all lines of a block; spans and line are its words, kernels compiles it
    reader       all of it put together

The compiler is loaded by the first log that is read, so that importing this package stays cheap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from unperturbed.analysis.diagnosis.events import EventTrace, Unit

if TYPE_CHECKING:
    from unperturbed.analysis.diagnosis.reading.formats import Format

__all__ = ["read_events"]


def read_events(
    path: str | Path | BinaryIO,
    *,
    format: Format | None = None,  # noqa: A002 - the word for it
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
    path : path, "-" for standard input, or an open binary stream
        Plain, gzip or zstd: that is told from the first bytes.
    format : {"gstreamer", "ftrace", "simple", "csv", "pattern"}, optional
        None tells it from the first lines.
    unit : {"ns", "us", "ms", "s", "ticks"}, optional
        Of the timestamps of a simple, csv or pattern log; needed where they have decimals, which then become nanoseconds. GStreamer's
        and ftrace's are nanoseconds.
    identity : fields of GStreamer's line: "level", "category", "file", "function", "object", "word"
        What makes two events the same, "word" being the first word of the message. The paper keeps "Debug level, function and the first
        argument of the message" (section IV-B).
    by_plugin : bool
        Tell apart events of two categories although their identity is the same: each type has one plugin then. False is the paper's
        literal identity; types have no plugin then.
    keep_numbers : bool
        Addresses in a word or object always become 0x#. Other numbers of a word become # too (`size=21984`), unless kept; those in
        names (`filesrc0`) stay.
    keep_start_up : bool
        Keep what GStreamer logs while it loads plugins.
    process : int, optional
        Which process of a GStreamer log, where several wrote into it.
    columns : mapping of "time", "name", "plugin", "level" to columns of a csv log, optional
        Those not given go by usual names (time, timestamp, ts; name, event; plugin, category; level).
    pattern : str, optional
        A regular expression, searched in each line, with the groups `time` and `name`, and `plugin` and `level` if wanted. A time is a
        number or hours:minutes:seconds. Ten times slower than the other formats, and more.
    most_late : int, optional [ticks of the result]
        Events that are written after a later one are sorted (stably) and counted, where they are at most so late. None: in a
        GStreamer log, where no thread can have waited to write it; 1 ms in other logs of a known unit; else 0.
    most_bad : float
        Share of lines without an event, from which on the log is refused. Comments, and empty lines, are none of them.
    bad_lines_shown : int
        How many are kept in `Reading.first_bad_lines`.
    name : str, optional
        Of the trace; the source's otherwise.
    block_bytes : int
        Bytes read at a time. A longer line makes the buffer grow.

    Returns
    -------
    EventTrace
        `reading` says what was left out. Not in it are lines that only continue a message.

    Raises
    ------
    DataError
        No such file, damaged compression, no format that fits, no event, too many bad lines, time that goes backwards (with the line
        where), several processes or runs in one log, and arguments that do not go together.
    HostError
        A zstd log, and no package to unpack it.

    Notes
    -----
    Section II-A and IV-B of Kamdem Kengne et al. A GStreamer thread takes the time of an event, then waits for the log's lock; so an event
    can stand behind later ones of other threads. But when a thread has written, all that was written before has an earlier
    time than the thread's next event. That is what is checked: it needs no tolerance. Memory is 12 bytes an event, a block and the
    different events' texts.
    """
    from unperturbed.analysis.diagnosis.reading import reader  # noqa: PLC0415 - loads the compiler

    options = reader.Options(
        format=format,
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
