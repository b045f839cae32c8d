"""Logs read by blocks and by the obvious twin: the same events, whatever the bytes and wherever blocks end."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.analysis.diagnosis.reading.naive_reading import Naive, ftrace, gstreamer, joined, simple, table
from unperturbed.analysis.diagnosis import EventTrace, read_events
from unperturbed.errors import DataError

DATA = Path(__file__).parents[1] / "data"
LOGS = ("pipeline.log", "two_threads_multiline.log", "colours.log", "registry_made_anew.log")
LENIENT = {"most_late": 2**62, "most_bad": 1.0}


def told(trace: EventTrace) -> list[tuple[int, str, str, str]]:
    kinds = [(kind.name, kind.plugin, kind.level) for kind in trace.types]
    return [(int(time), *kinds[event]) for time, event in zip(trace.timestamps, trace.events, strict=True)]


def agree(trace: EventTrace, naive: Naive) -> None:
    assert told(trace) == naive.events
    assert list(dict.fromkeys(trace.events.tolist())) == list(range(len(trace.types)))
    reading = trace.reading
    assert reading is not None
    assert (reading.lines, reading.bad_lines, reading.further_lines, reading.start_up_lines) == (
        naive.lines,
        naive.bad,
        naive.further,
        naive.start_up,
    )
    assert [bad.number for bad in reading.first_bad_lines] == naive.bad_numbers[:5]


def read(log: bytes, **options: object) -> EventTrace:
    return read_events(io.BytesIO(log), **options)  # type: ignore[arg-type]


def line(
    time: int, what: str, *, thread: str = "0xa0", process: int = 7, level: str = "DEBUG", category: str = "queue"
) -> bytes:
    seconds, nano = divmod(time, 10**9)
    clock = f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}.{nano:09}"
    return f"{clock} {process:5} {thread:>14} {level:<7} {category:>20} {what}\n".encode()


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("block_bytes", [7, 64, 1000, 1 << 24])
def test_real_logs(name: str, block_bytes: int) -> None:
    log = (DATA / name).read_bytes()
    agree(read_events(DATA / name, block_bytes=block_bytes), gstreamer(log))
    trace = read(log, identity=("function", "object", "word"), keep_numbers=True, block_bytes=block_bytes)
    agree(trace, gstreamer(log, ("function", "object", "word"), keep_numbers=True))


@pytest.mark.parametrize("name", LOGS)
def test_real_logs_with_other_ends(name: str) -> None:
    log = (DATA / name).read_bytes()
    expected = told(read(log))
    assert told(read(log.replace(b"\n", b"\r\n"))) == expected
    assert told(read(log.removesuffix(b"\n"))) == expected
    if name != "registry_made_anew.log":  # two processes
        agree(read(log, keep_start_up=True), gstreamer(log, keep_start_up=True))


def test_colours_change_nothing() -> None:
    coloured = (DATA / "colours.log").read_bytes()
    assert b"\x1b[37mDEBUG" in coloured
    plain = read(gstreamer_without_colours(coloured))
    assert told(read(coloured)) == told(plain)


def gstreamer_without_colours(log: bytes) -> bytes:
    pieces = log.split(b"\x1b[")
    return pieces[0] + b"".join(piece.partition(b"m")[2] for piece in pieces[1:])


PIECES = st.sampled_from(
    [
        *(
            b"0:00:00.000000009",
            b"0:00:01.5",
            b"12:34:56.123456789",
            b"0:99:00.000000001",
            b"3:",
            b" ",
            b"   ",
            b"\t",
            b"  77",
            b"0x7f00a0",
            b"a0",
        ),
        *(
            b"DEBUG",
            b"LOG",
            b"debug",
            b"queue",
            b"GST_STATES",
            b"GST_REGISTRY",
            b"GST_PLUGIN_LOADING",
            b"a.c:1:f:",
            b"b.rs:22:x::y::z:",
            b":0::",
        ),
        *(
            b"<q0:src>",
            b"<a 0xdead>",
            b"<open",
            b"attempt to load plugin",
            b"size=12",
            b"0x12ab:",
            b"640x480",
            b"-5,",
            b"1.5:",
        ),
        *(b"\x1b[31m", b"\x1b[", b"\x00", b"\xff\xfe", b"\xc3\xa9", b"word", b":", b">"),
    ]
)
ORDINARY = st.builds(
    lambda time, thread, level, category, place, rest: (
        line(time, "", thread=thread, level=level, category=category)[:-1] + place + rest
    ),
    st.integers(0, 10**13),
    st.sampled_from(["0xa0", "0xB1", "7f"]),
    st.sampled_from(["DEBUG", "LOG", "WARN"]),
    st.sampled_from(["queue", "GST_STATES", "GST_PLUGIN_LOADING", "GST_REGISTRY"]),
    st.sampled_from([b"a.c:1:f:", b"a.c:2:f:", b"b.rs:22:x::y::z:", b":0::"]),
    st.lists(PIECES, max_size=4).map(b"".join),
)
ANY_LINE = st.one_of(ORDINARY, ORDINARY, st.lists(PIECES, max_size=12).map(b"".join))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(ANY_LINE, max_size=30),
    st.sampled_from([b"\n", b"\r\n"]),
    st.booleans(),
    st.integers(1, 300),
    st.booleans(),
    st.booleans(),
)
def test_any_gstreamer_log(
    lines: list[bytes], end: bytes, is_closed: bool, block_bytes: int, keep_start_up: bool, keep_numbers: bool
) -> None:
    log = joined(lines, end, is_closed)
    expected = gstreamer(log, keep_start_up=keep_start_up, keep_numbers=keep_numbers)
    options = {
        "format": "gstreamer",
        "keep_start_up": keep_start_up,
        "keep_numbers": keep_numbers,
        "block_bytes": block_bytes,
    }
    try:
        trace = read(log, process=None, **options, **LENIENT)
    except DataError as error:
        assert not expected.events or "several processes" in str(error), error
        return
    agree(trace, expected)


NAMES = st.one_of(st.sampled_from(["It", "CS", "ffmpeg:chain:Received", "a b  c"]), st.text(max_size=6)).map(str.encode)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2**63 + 5), st.sampled_from([b" ", b"\t", b"  ", b""]), NAMES).map(
            lambda of: b"%d%s%s" % of
        ),
        max_size=30,
    ),
    st.integers(1, 60),
    st.booleans(),
)
def test_any_simple_list(lines: list[bytes], block_bytes: int, is_closed: bool) -> None:
    log = joined(lines, b"\n", is_closed)
    expected = simple(log)
    if not expected.events:
        with pytest.raises(DataError):
            read(log, format="simple", block_bytes=block_bytes, **LENIENT)
        return
    agree(read(log, format="simple", block_bytes=block_bytes, **LENIENT), expected)


FIELDS = st.text(
    st.characters(blacklist_characters="\r\n\x00\x1b", blacklist_categories=["Cs"]), min_size=1, max_size=8
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 10**9), FIELDS, FIELDS, FIELDS), min_size=1, max_size=20),
    st.permutations(["time", "name", "plugin", "level", "other"]),
    st.sampled_from([",", ";", "\t"]),
    st.integers(1, 80),
)
def test_any_table(rows: list[tuple[int, str, str, str]], order: list[str], delimiter: str, block_bytes: int) -> None:
    out = [delimiter.join(order)]
    for row in rows:
        cells = dict(zip(("time", "name", "plugin", "level"), map(str, row), strict=True), other="x")
        out.append(delimiter.join('"' + cells[column].replace('"', '""') + '"' for column in order))
    log = "\n".join(out).encode()
    agree(read(log, format="csv", block_bytes=block_bytes, **LENIENT), table(log, delimiter))


def test_ftrace_as_tracefs_prints_it() -> None:
    log = (DATA / "tracefs.txt").read_bytes()
    for block_bytes in (11, 1 << 20):
        trace = read(log, block_bytes=block_bytes)
        agree(trace, ftrace(log))
        assert trace.unit == "ns"
        assert set(trace.plugins) == {"kernel", "player", ""}


TRACE_CMD = b"""cpus=2
CPU 1 is empty
          <idle>-0     [001] 58549.289091: sched_switch:         kworker/0:1:0 [120] R ==> trace-cmd:2603 [120]
          <idle>-0     [001] 58549.289092: kernel_stack:         <stack trace>
=> schedule (ffffffff814b260e)
CPU:0 [LOST 17 EVENTS]
   my task [x]-77    [000] d..2. 58549.289100123: function:             __schedule <-- schedule
          player-12    [000] 58549.289101: print:                tracing_mark_write: ffmpeg:decode:frame 3
          player-12    [000] 58549.289102: sched:sched_wakeup:   a:1
"""


def test_ftrace_as_trace_cmd_reports_it() -> None:
    trace = read(TRACE_CMD)
    assert told(trace) == [
        (58549289091000, "sched_switch", "kernel", ""),
        (58549289092000, "kernel_stack", "kernel", ""),
        (58549289100123, "__schedule", "kernel", ""),
        (58549289101000, "ffmpeg:decode:frame", "ffmpeg", ""),
        (58549289102000, "sched_wakeup", "sched", ""),
    ]
    assert trace.reading is not None
    assert (trace.reading.lost_events, trace.reading.bad_lines, trace.reading.further_lines) == (17, 0, 4)
    perf = read(b"player  1234 [001]  1234.567890:       sched:sched_switch: prev_comm=player prev_pid=1234\n")
    assert told(perf) == [(1234567890000, "sched_switch", "sched", "")]
    functions = read(b"    bash-1977 [000] .... 17284.993652: sys_close <-system_call_fastpath\n")
    assert told(functions) == [(17284993652000, "sys_close", "kernel", "")]


def test_ftrace_of_system_calls_as_tracefs_prints_them() -> None:
    log = b"""# tracer: nop
            bash-29978   [000] ..... 26641.510960: sys_dup2(oldfd: 0xc, newfd: 2)
            bash-29978   [000] ..... 26641.510961: sys_dup2 -> 0x2
            bash-29978   [000] ..... 26641.510962: sys_sched_yield()
            bash-29978   [000] ..... 26641.510963: sys_sched_yield -> 0x0
"""
    trace = read(log)
    assert trace.reading is not None
    assert trace.reading.bad_lines == 0
    assert told(trace) == [
        (26641510960000, "sys_enter_dup2", "syscalls", ""),
        (26641510961000, "sys_exit_dup2", "syscalls", ""),
        (26641510962000, "sys_enter_sched_yield", "syscalls", ""),
        (26641510963000, "sys_exit_sched_yield", "syscalls", ""),
    ]
    agree(trace, ftrace(log))
    perf = read(b"bash 29978 [000] 26641.510960: syscalls:sys_enter_dup2: oldfd: 0x0000000c, newfd: 0x00000002\n")
    assert told(perf) == told(trace)[:1]


def test_figure_1_of_the_paper() -> None:
    trace = read(b"1965720232 ffmpeg:gst_ffmpegdec_chain:Received\n1965979119 ffmpeg:gst_ffmpegdec_frame:data\n")
    assert told(trace)[0] == (1965720232, "ffmpeg:gst_ffmpegdec_chain:Received", "ffmpeg", "")
    assert trace.unit == "ticks"


def test_compressed_logs_and_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    plain = DATA / "pipeline.log"
    expected = told(read_events(plain))
    packed = {"gz": gzip.compress(plain.read_bytes()), "zst": zstd.compress(plain.read_bytes())}
    for ending, data in packed.items():
        path = tmp_path / f"log.{ending}"
        path.write_bytes(data)
        assert told(read_events(path, block_bytes=500)) == expected
        path.write_bytes(data[: len(data) // 2])
        with pytest.raises(DataError, match="damaged or ends too early"):
            read_events(path)
    program = "from unperturbed.analysis.diagnosis import read_events; print(len(read_events('-')))"
    done = subprocess.run(
        [sys.executable, "-c", program], input=packed["gz"], capture_output=True, check=True, env=os.environ
    )
    assert int(done.stdout) == len(expected)
    with plain.open() as redirected, subprocess.Popen(["cat", plain], stdout=subprocess.PIPE, text=True) as piped:
        for given in (redirected, piped.stdout):
            monkeypatch.setattr(sys, "stdin", given)
            assert told(read_events("-")) == expected


def test_a_stream_is_read_once_and_stays_open(tmp_path: Path) -> None:
    class Once(io.RawIOBase):
        def __init__(self, data: bytes) -> None:
            self._data, self.given = io.BytesIO(data), 0

        def readable(self) -> bool:
            return True

        def readinto(self, into: memoryview) -> int:  # type: ignore[override]
            read = self._data.readinto(into[:100])
            self.given += read
            return read

    log = (DATA / "pipeline.log").read_bytes()
    stream = Once(log)
    assert told(read_events(stream, block_bytes=300)) == told(read(log))  # type: ignore[arg-type]
    assert stream.given == len(log)
    assert not stream.closed


def test_a_pattern_of_the_user() -> None:
    log = b"[12:00:01.5] net/INFO open 7\n[12:00:02.25] net/WARN retry\n\nnoise\n"
    trace = read(log, pattern=r"^\[(?P<time>[^]]+)\] (?P<plugin>\w+)/(?P<level>\w+) (?P<name>\w+)", most_bad=0.4)
    assert told(trace) == [(43201500000000, "open", "net", "INFO"), (43202250000000, "retry", "net", "WARN")]
    assert trace.reading is not None
    assert [(bad.number, bad.text) for bad in trace.reading.first_bad_lines] == [(4, "noise")]
    with pytest.raises(DataError, match="use \\(\\?P<time>"):
        read(log, pattern="(?P<time>.)")
    with pytest.raises(DataError, match="not a valid regular expression"):
        read(log, pattern="(")
    with pytest.raises(DataError, match="stream:2: time goes backwards by 4 ticks"):
        read(b"5 a\n1 b\n", pattern=r"(?P<time>\d+) (?P<name>\w)")


def test_identity_can_be_chosen() -> None:
    log = (
        line(1, "a.c:1:f:<q0> put 1")
        + line(2, "a.c:9:f:<q1> put 2")
        + line(3, "b.c:1:f: get", level="LOG", category="pad")
    )
    assert [kind.name for kind in read(log).types] == ["DEBUG f put", "LOG f get"]
    assert [kind.name for kind in read(log, identity=("object",)).types] == ["<q0>", "<q1>", ""]
    assert [kind.name for kind in read(log, identity=("file", "function")).types] == ["a.c f", "b.c f"]
    functions = read(log, identity=("function",))
    assert [(kind.name, kind.plugin, kind.level) for kind in functions.types] == [("f", "queue", ""), ("f", "pad", "")]
    assert [(kind.name, kind.plugin) for kind in read(log, identity=("function",), by_plugin=False).types] == [
        ("f", "")
    ]
    with pytest.raises(DataError, match="`identity` cannot contain thread: choose from"):
        read(log, identity=("thread",))


def test_words_without_what_varies() -> None:
    words = {
        "0x55d0c8:": "0x#:",
        "size=21984": "size=#",
        "t:0:00:00.04": "t:#",
        "filesrc0": "filesrc0",
        "640x480": "640x480",
        "-1,": "#,",
    }
    log = b"".join(line(number, f"a.c:1:f: {word} more") for number, word in enumerate(words))
    assert [kind.name for kind in read(log).types] == [f"DEBUG f {word}" for word in words.values()]
    assert [kind.name for kind in read(log, keep_numbers=True).types][1:3] == [
        "DEBUG f size=21984",
        "DEBUG f t:0:00:00.04",
    ]


def test_late_events_are_sorted_where_their_thread_can_have_waited() -> None:
    log = (
        line(10, "a.c:1:f: x") + line(30, "a.c:1:f: y", thread="0xb0") + line(20, "a.c:1:f: z") + line(40, "a.c:1:f: w")
    )
    trace = read(log)
    assert trace.timestamps.tolist() == [10, 20, 30, 40]
    assert [kind.name[-1] for kind in trace.types] == ["x", "z", "y", "w"]
    assert trace.reading is not None
    assert (trace.reading.out_of_order, trace.reading.largest_delay, trace.reading.latest_line) == (1, 10, 3)
    again = log + line(25, "a.c:1:f: v")
    with pytest.raises(
        DataError, match=r"stream:5: time goes backwards by 15 ns; a thread cannot .*set `most_late` to 15 or more"
    ):
        read(again)
    assert read(again, most_late=15).timestamps.tolist() == [10, 20, 25, 30, 40]
    with pytest.raises(DataError, match=r"stream:2: time goes backwards by 2 us"):
        read(b"5000 a\n4998 b\n", unit="us", most_late=1)
    assert read(b"5000 a\n4998 b\n", unit="us").timestamps.tolist() == [4998, 5000]


def test_several_runs_or_processes_in_one_log_are_refused() -> None:
    ready = "gst.c:809:init_post: initialized GStreamer successfully"
    run = line(1, ready, category="GST_INIT") + line(2, "gstelement.c:1:set_state: up", category="GST_STATES")
    other = run.replace(b"    7 ", b"    8 ")
    with pytest.raises(DataError, match="stream:3: a second run begins here, although a pipeline has already run"):
        read(run + other)
    assert len(read(run + other, process=8)) == 1
    with pytest.raises(DataError, match=r"several processes .* \(7 from line 1 on, 8 from line 2 on\)"):
        read(line(1, "a.c:1:f: x") + line(2, "a.c:1:f: x", process=8))
    with pytest.raises(DataError, match="no line comes from process 9"):
        read(run, process=9)


def test_log_where_the_registry_was_made_anew_by_a_helper() -> None:
    trace = read_events(DATA / "registry_made_anew.log")
    assert trace.reading is not None
    assert trace.reading.start_up_lines == 101
    assert [bad.number for bad in trace.reading.first_bad_lines] == [37]


def test_bad_input_is_said() -> None:
    with pytest.raises(DataError, match=r"absent\.log: No such file"):
        read_events("absent.log")
    with pytest.raises(DataError, match="the log is empty"):
        read(b"\n \n")
    with pytest.raises(DataError, match="tracer `function_graph` has durations but no timestamps"):
        read(
            b"# tracer: function_graph\n#\n 0)               |  sys_open() {\n 0)   1.382 us    |    __might_sleep();\n"
        )
    with pytest.raises(DataError, match="no format matches the first lines"):
        read(b"hello world\nfoo\n")
    without_event = r"2 of 3 lines contain no event, more than the allowed 10%. stream:2: .*\('oh'\)"
    with pytest.raises(DataError, match=without_event):
        read(b"1 a\noh\nno\n", format="simple")
    with pytest.raises(DataError, match="has decimals: give its unit"):
        read(b"1.5 a\n")
    with pytest.raises(DataError, match="lines of start-up were left out"):
        read(line(1, "r.c:1:f: x", category="GST_REGISTRY"))
    with pytest.raises(DataError, match="no column 'what': the columns are time, name"):
        read(b"time,name\n1,a\n", columns={"name": "what"})
    with pytest.raises(DataError, match="only comments"):
        read(b"# tracer: nop\n#\n")
    for wrong in (
        {"format": "xml"},
        {"unit": "h"},
        {"most_bad": 2},
        {"most_late": -1},
        {"format": "pattern"},
        {"columns": {"a": "b"}},
    ):
        with pytest.raises(DataError):
            read(b"1 a\n", **wrong)


def test_units_and_decimals() -> None:
    assert read(b"1.5 a\n2 b\n", unit="s").timestamps.tolist() == [1_500_000_000, 2_000_000_000]
    assert read(b"1.5 a\n", unit="s").unit == "ns"
    assert (read(b"15 a\n", unit="ms").unit, int(read(b"15 a\n", unit="ms").timestamps[0])) == ("ms", 15)
    assert told(read(b"\xef\xbb\xbfwhen;what\n5;x\n", columns={"time": "when", "name": "what"})) == [(5, "x", "", "")]


def test_one_event_is_a_trace() -> None:
    trace = read(line(5, "a.c:1:f: x", level="ERROR"))
    assert (len(trace), trace.duration) == (1, 0)
    assert trace.reading is not None
    assert trace.reading.is_too_coarse
    assert not read_events(DATA / "pipeline.log").reading.is_too_coarse  # type: ignore[union-attr]


def test_many_different_events_threads_and_long_lines() -> None:
    many = b"".join(line(number, f"a.c:1:f{number}: x", thread=hex(number + 1)) for number in range(20_000))
    trace = read(many)
    assert len(trace.types) == 20_000
    assert trace.types[-1].name == "DEBUG f19999 x"
    long = line(1, "a.c:1:f: x " + "y" * 300_000) + line(2, "a.c:1:f: " + "z" * 400_000) + line(3, "a.c:1:f: x")
    trace = read(long, block_bytes=1000)
    assert trace.events.tolist() == [0, 1, 0]
    assert trace.types[1].name == "DEBUG f " + "z" * 400_000


@pytest.mark.parametrize("process", ["", "17 ", "[pid 17] "])
def test_calls_of_strace_without_times_are_named(tmp_path: Path, process: str) -> None:
    calls = (
        'read(3, "…", 10) = 3',
        "brk(NULL) = 0x5595",
        "futex(0x1, FUTEX_WAIT, 0 <unfinished ...>",
        "write(1) = -1 EIO",
    )
    path = tmp_path / "calls.log"
    path.write_text("".join(f"{process}{call}\n" for call in calls * 20))
    with pytest.raises(DataError, match=r"calls.log:1: these are system calls without their times: .* `strace -ttt`"):
        read_events(path)
