"""Logs with date-times: which format is chosen, and the times and events that are read; what the messages advise."""

from __future__ import annotations

import io
import re
import shlex
from pathlib import Path

import pytest

from tests.attacks.seeds import dated_logs
from unperturbed.analysis.diagnosis import EventTrace, diagnose, read_events
from unperturbed.errors import DataError
from unperturbed.harness.cli import main

SECOND = 10**9
STEPS = [f"{('start', 'stop')[at % 2]} {at}" for at in range(60)]


def read(log: str, **options: object) -> EventTrace:
    return read_events(io.BytesIO(log.encode()), **options)  # type: ignore[arg-type]


def each(form: str, times: int = 60) -> str:
    return "".join(
        form.format(at=at, step=STEPS[at], square=at * at, name=STEPS[at].split()[0]) + "\n" for at in range(times)
    )


@pytest.mark.parametrize("name", dated_logs())
def test_each_format_is_chosen_and_read(name: str) -> None:
    trace = read(dated_logs()[name])
    assert trace.reading is not None
    assert (trace.reading.format, len(trace), len(trace.types), trace.unit) == (name, 30, 2, "ns")
    assert (trace.since_start == [at * SECOND for at in range(30)]).all()
    assert (trace.reading.bad_lines, trace.reading.further_lines) == (0, 0)


@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("2024-05-01 12:00:{at:02},123 - app.core - ERROR - {step}", "log4j"),
        ("17/06/09 20:10:{at:02} INFO executor.Backend: {step}", "log4j"),
        ("081109 2036{at:02} 148 INFO dfs.DataNode$PacketResponder: {step}", "log4j"),
        ("2015-07-29 17:41:{at:02},744 - INFO  [Peer[myid=1]/0:0:2181:Election@774] - {step}", "log4j"),
        ("2024/05/01 12:00:{at:02} [error] 12#12: *{at} {step}, client: 1.2.3.4", "apache"),
        ("2024-05-01T12:00:{at:02}+0200 host app[3]: {step}", "syslog"),
        ("May 01 12:00:{at:02}.123456 host app[3]: {step}", "syslog"),
        ("<34>1 2024-05-01T12:00:{at:02}.003Z host app {at} ID47 - {step}", "syslog"),
        ("[Mon May  6 10:00:{at:02} 2024] usb 1-1: {step}", "dmesg"),
        ('{at} 12:34:{at:02} {name}(3, "abc") = -1 ENOENT (No such file)', "strace"),
        ("17145216{at:02}.123456 {name}(3) = 0", "strace"),
        ("     1.000000 {name}(3) = 0", "strace"),
        ("[2024-05-01 13:15:{at:02}.442106204] (+1.000000000) host {name}: {{ cpu_id = 0 }}, {{ n = 1 }}", "lttng"),
        ("2025-01-24 11:39:{at:02}.555  1249-1321  BufferQueue   surfaceflinger   E  {step}", "logcat"),
        ("20171223-22:15:{at}:7|Step_LSC|30002312|{step}", "text"),
        ("[10.30 16:49:{at:02}] chrome.exe - {step}", "text"),
        ("- 11178385{at:02} 2005.06.03 R02 2005-06-03-15.42.{at:02}.675872 R02 RAS KERNEL INFO {step}", "text"),
        ("17145216{at:02}.25 {step}", "text"),
        ("2024050112{at:02}00 {step}", "text"),
        ("time={at:02} 2024-05-01T12:00:{at:02}Z {step}", "text"),
        ('{{"__REALTIME_TIMESTAMP":"17145216{at:02}000000","PRIORITY":"3","MESSAGE":"{step}"}}', "jsonl"),
        ('{{"ts":17145216{at:02}.5,"level":"error","msg":"{step}"}}', "jsonl"),
        ("2024-05-01T12:00:{at:02}.5Z,{name}", "csv"),
    ],
)
def test_other_ways_to_write_them(form: str, name: str) -> None:
    log = each(form)
    trace = read(f"time,name\n{log}" if name == "csv" else log)
    assert trace.reading is not None
    assert (trace.reading.format, len(trace), len(trace.types)) == (name, 60, 2)
    minute = 60 if "{at:02}00 " in form else 1
    assert (trace.since_start == [at * minute * SECOND for at in range(60)]).all()


TEXTS = ("db query", "cache hit", "worker started", "flush done")


def of_texts(form: str) -> str:
    lines = (form.replace("SS", f"{at:02}").replace("TEXT", TEXTS[at % 4]) for at in range(60))
    return "".join(line.replace("WORD", TEXTS[at % 4].split()[0]) + "\n" for at, line in enumerate(lines))


@pytest.mark.parametrize(
    ("form", "name", "event"),
    [
        ('time="2024-05-01T12:00:SSZ" level=info msg="TEXT" n=SS', "logfmt", "db query"),
        ("ts=2024-05-01T12:00:SSZ level=info caller=a.go:SS msg=WORD", "logfmt", "db"),
        ("at=info ts=2024-05-01T12:00:SSZ method=GET path=/WORD?n=SS status=200", "logfmt", "GET /db 200"),
        ('2024-05-01T12:00:SSZ level=info msg="TEXT" n=SS', "text", "db query"),
        ('May  1 12:00:SS host app[1]: time="2024-05-01T12:00:SSZ" level=info msg="TEXT"', "syslog", "db query"),
        ('{"timestamp":"2024-05-01T12:00:SSZ","fields":{"message":"TEXT"}}', "jsonl", "db query"),
        (
            '{"time_iso8601":"2024-05-01T12:00:SSZ","request_method":"GET","request_uri":"/WORD/SS?x","status":200}',
            "jsonl",
            "GET /db/# 200",
        ),
        ('{"time_local":"01/May/2024:12:00:SS +0000","request":"GET /WORD/SS?x HTTP/1.1"}', "jsonl", "GET /db/#"),
        ('{"t":{"$date":"2024-05-01T12:00:SS.000+00:00"},"s":"I","msg":"TEXT"}', "jsonl", "db query"),
        ('{"@t":"2024-05-01T12:00:SSZ","@mt":"TEXT {N}"}', "jsonl", "db query {N}"),
        ('{"timeUnixNano":"17145216SS000000000","body":{"stringValue":"TEXT"}}', "jsonl", "db query"),
        ('{"@timestamp":"2024-05-01T12:00:SSZ","event":{"action":"a"},"message":"TEXT"}', "jsonl", "db query"),
        ('{"version":"1.1","short_message":"TEXT","timestamp":17145216SS}', "jsonl", "db query"),
    ],
)
def test_named_parts(form: str, name: str, event: str) -> None:
    trace = read(of_texts(form))
    assert trace.reading is not None
    assert (trace.reading.format, len(trace.types), trace.duration) == (name, 4, 59 * SECOND)
    assert trace.types[0].name == event


def test_fractions_of_seconds_in_json_keep_nanoseconds() -> None:
    log = "".join(f'{{"ts":171460799{at}.400000001,"msg":"a"}}\n' for at in range(3))
    assert read(log).timestamps.tolist() == [(1714607990 + at) * SECOND + 400_000_001 for at in range(3)]


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (
            '{"time":"2024-05-01T12:00:01Z","what":"x"}\n',
            r"no JSON object with a message .*; the keys are time, what: ",
        ),
        ('[{"ts":1,"msg":"a"},{"ts":2,"msg":"b"}]\n', r"this is a JSON array: write one object a line, such as by `jq"),
        ('[\n{"ts":1,"msg":"a"},\n{"ts":2,"msg":"b"}]\n', r"this is a JSON array: write one object a line"),
        ('{\n"ts":1\n}\n', r"this is JSON of several lines an object: write one object a line, such as by `jq -c"),
        ("Wed 2024-05-01 12:00:01.5 UTC [s=ab0;i=1]\n    PRIORITY=6\n", r"this is the output of journalctl -o verbose"),
        ("__CURSOR=s=ab0\n__REALTIME_TIMESTAMP=1714607990400000\nMESSAGE=a\n", r"the output of journalctl -o export"),
        ('{"ts":1e999999999,"msg":"a"}\n', r"the time 1E\+999999999 is too large"),
    ],
)
def test_named_parts_that_cannot_be_read(log: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(log)


def test_a_log_whose_types_collapse_is_not_clean() -> None:
    log = of_texts('2024-05-01T12:00:SSZ what="TEXT" n=SS')
    diagnosis = diagnose([read(log)] * 3, read(log))
    assert diagnosis.verdict == "undecided"
    assert "all 60 events are of a single type, but their lines have at least 4 different texts" in diagnosis.notes[0]
    clean = of_texts('12:34:SS open("/TEXT", 0) = 3')
    assert diagnose([read(clean)] * 3, read(clean)).verdict == "clean"


def test_levels_and_plugins() -> None:
    (kind,) = read(each("03-17 16:13:{at:02}.811  1702  2395 E Window: lost 0x12 in /tmp/a at 10.0.0.1:80")).types
    assert (kind.name, kind.plugin, kind.level) == ("lost # in # at #", "Window", "ERROR")
    (kind,) = read(each('2024-05-01 12:00:{at:02},123 warning a.b: for user bob{at}: "x y" took {at} ms')).types
    assert (kind.name, kind.plugin, kind.level) == ("for user bob#: # took # ms", "a.b", "WARN")
    kinds = read(each('{at} 12:34:{at:02} open("/x", 0) = -1 EPERM (Operation not permitted)')).types
    assert [kind.name for kind in kinds] == ["open EPERM"]


def test_interrupted_calls_are_one_event_and_messages_continue() -> None:
    trace = read(each('1 12:34:{at:02} read(3,  <unfinished ...>\n1 12:34:{at:02} <... read resumed>"x", 3) = 1'))
    assert (len(trace), [kind.name for kind in trace.types]) == (60, ["read"])
    log = """\
12:34:00.5 wait4(-1,  <unfinished ...>
[pid 2] 12:34:01.0 read(3,  <unfinished ...>
[pid 3] 12:34:01.5 brk(0) = 0
[pid 1] 12:34:09.0 <... wait4 resumed>0, 0) = 2
[pid 2] 12:34:10.5 <... read resumed>) = -1 EINTR (Interrupted)
[pid 3] 12:34:11.0 brk(0) = 0
"""
    trace = read(log)
    assert trace.since_start.tolist() == [0, SECOND // 2, SECOND, 21 * SECOND // 2]
    assert [trace.types[at].name for at in trace.events] == ["wait4", "read EINTR", "brk", "brk"]
    trace = read(each("2024-05-01 12:00:{at:02} ERROR a.b: failed\n  at a.b.c\nCaused by: d"), format="log4j")
    assert trace.reading is not None
    assert (len(trace), trace.reading.further_lines) == (60, 120)


@pytest.mark.parametrize("clock", ["{hour:02}:{minute:02}:01.5 {step}", "{hour:02}:{minute:02}:01 read(3) = 1"])
def test_times_without_a_date_go_on_over_midnight(clock: str) -> None:
    minutes = range(23 * 60 + 30, 24 * 60 + 30)
    log = "".join(clock.format(hour=at // 60 % 24, minute=at % 60, step="ab"[at % 2]) + "\n" for at in minutes)
    trace = read(log)
    assert trace.duration == 59 * 60 * SECOND
    assert trace.reading is not None
    assert trace.reading.assumed == "its times, which have no date, fall back once, which was read as the next day"


@pytest.mark.parametrize(
    ("days", "note"),
    [
        (("01-May-2024", "02-May-2024"), ""),
        (("01-MAY-24", "02-MAY-24"), ""),
        (("01.05.2024", "02.05.2024"), ""),
        (("1.5.24", "2.5.24"), ""),
        (("01 May 2024", "02 May 2024"), ""),
        (("Wed, 01 May 2024", "Thu, 02 May 2024"), ""),
        (("May 01 2024", "May 02 2024"), ""),
        (("Wednesday, May 1, 2024", "Thursday, May 2, 2024"), ""),
        (("01/May/2024", "02/May/2024"), ""),
        (("I0501", "W0502"), ""),
        (("05/01/2024", "05/02/2024"), "the month first, because they would be further apart otherwise"),
        (("01/02/2024", "02/02/2024"), "the day first, because they would be further apart otherwise"),
        (("31/01/2024", "01/02/2024"), "the day first, because no other order is possible"),
        (("12/31/2024", "01/01/2025"), "the month first, because no other order is possible"),
        (("05/01/24", "05/02/24"), "the month first, because they would be further apart otherwise"),
        (("24/05/01", "24/05/02"), "the year first, because they would be further apart otherwise"),
    ],
)
@pytest.mark.parametrize("before", ["", "[", "app7 "])
def test_days_of_dates_are_read(before: str, days: tuple[str, str], note: str) -> None:
    end = "]" if before == "[" else ""
    log = each(f"{before}{days[0]} 23:59:{{at:02}}.5{end} {{step}}") + each(
        f"{before}{days[1]} 23:59:{{at:02}}.5{end} {{step}}"
    )
    trace = read(log)
    assert (len(trace), len(trace.types), trace.duration) == (120, 2, (86_400 + 59) * SECOND)
    assert trace.reading is not None
    assert trace.reading.assumed == (f"its dates were read with {note}" if note else "")


@pytest.mark.parametrize("date", ["2024.121", "1 mai 2024", "01/02-2024", "05/01"])
def test_dates_in_an_unknown_form_are_refused(date: str) -> None:
    with pytest.raises(DataError, match=f"a date in an unknown form is beside the time of day, such as '{date}'"):
        read(each(date + " 12:00:{at:02} {step}"))
    assert read(each("192.168.1.1 12:00:{at:02} 10.0.0.1 {step}")).duration == 59 * SECOND


@pytest.mark.parametrize(
    ("form", "late"),
    [
        ("2024-05-01 11:59:{at:02} PM {step}", "2024-05-02 12:00:{at:02} AM {step}"),
        ("5/1/2024 11:59:{at:02} AM {step}", "5/1/2024 12:00:{at:02} PM {step}"),
        ("11:59:{at:02}.000 p.m. {step}", "12:00:{at:02}.000 a.m. {step}"),
        ("May 01, 2024 12:59:{at:02} AM {step}", "May 01, 2024 1:00:{at:02} AM {step}"),
    ],
)
def test_times_before_and_after_noon(form: str, late: str) -> None:
    trace = read(each(form) + each(late))
    assert (len(trace.types), trace.duration) == (2, 119 * SECOND)


def test_times_of_a_pattern_go_on_over_midnight() -> None:
    log = each("23:59:{at:02} {name}") + each("00:00:{at:02} {name}")
    trace = read(log, pattern=r"(?P<time>\S+) (?P<name>\w+)")
    assert trace.duration == 119 * SECOND
    assert trace.reading is not None
    assert trace.reading.assumed == "its times, which have no date, fall back once, which was read as the next day"


def test_dates_without_a_year_go_on_over_new_year() -> None:
    days = ("Dec 30", "Dec 31", "Jan  1", "Jan  2")
    trace = read("".join(f"{day} 12:00:00 host app: step\n" for day in days))
    assert trace.duration == 3 * 86_400 * SECOND
    assert "no year" in (trace.reading.assumed if trace.reading else "")


@pytest.mark.parametrize(
    "prefix",
    ["Nov 29 02:44:16 host gst-launch-1.0[123]: ", "11-29 02:44:16.100  1234  1240 D app: ", "2026-11-29T02:44:16Z "],
)
def test_gstreamer_behind_the_prefix_of_another_log(prefix: str) -> None:
    log = (Path(__file__).parents[1] / "data" / "pipeline.log").read_text().splitlines()
    plain = read("\n".join(log))
    trace = read("\n".join(prefix + line for line in log))
    assert trace.types == plain.types
    assert (trace.timestamps == plain.timestamps).all()


def test_gstreamer_in_androids_log() -> None:
    gst = "0:00:00.130346757 0x563e avi.c:24:loop:<avidemux0:src_0> starting"
    (kind,) = read(each("11-29 02:44:{at:02}.100  1234  1240 D GStreamer+avidemux: " + gst)).types
    assert (kind.name, kind.plugin, kind.element) == ("DEBUG loop <avidemux0:src_0> starting", "avidemux", "avidemux0")


def test_a_date_a_record_number_or_a_process_is_not_taken_for_the_time() -> None:
    trace = read(each("20240501 0000{at:02} 12 INFO app.Worker: {name}"))
    assert (trace.duration, len(trace.types)) == (59 * SECOND, 2)
    assert "simple was rejected: its number is no time, because it is 20240501 in all of them" in trace.reading.choice  # type: ignore[union-attr]
    for number in ("{at}", "100{square}"):
        trace = read(each(number + " 12:00:{at:02}.5 {name}"))
        assert (trace.reading.format, trace.duration, len(trace.types)) == ("text", 59 * SECOND, 2)  # type: ignore[union-attr]
    with pytest.raises(DataError, match="is no time, because it is 5 in all of them: give, as `pattern`"):
        read(each("5 {name}"))
    with pytest.raises(DataError, match=r"is no time, because it goes back in [0-9]+% of them"):
        read("".join(f"{1000 + at % 3} {STEPS[at]}\n" for at in range(60)))
    with pytest.raises(DataError, match="is no time, because it rises by at most 1 from line to line"):
        read("".join(f"{at} silly config {'abcdefgh'[at % 8] * (at // 8 + 1)}\n" for at in range(60)))
    assert "check that it is no number of the line" in read(each("{at} {name}")).reading.choice  # type: ignore[union-attr]


def test_a_log_whose_end_shows_the_format_is_looked_at_there_too(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("".join(f"{at if at < 30_000 else 60_000 - at} step{at % 3} of the work\n" for at in range(60_000)))
    assert log.stat().st_size > 1_000_000
    with pytest.raises(DataError, match="is no time, because it goes back in"):
        read_events(log)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(["diagnose", *words])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def logs(folder: Path, text: str) -> list[str]:
    paths = [folder / f"{name}.log" for name in ("a", "b", "c")]
    for path in paths:
        path.write_text(text)
    return list(map(str, paths))


@pytest.mark.parametrize(
    ("text", "words", "fault", "advice"),
    [
        (each("{square} 12:00:00 {name}"), "", "two formats explain", r"\((--format simple) or"),
        (each("17145216{at:02}000 {name}"), "--format simple --unit s", "beyond all calendars", r"\((--unit ms)\)"),
        (each("17145216{at:02}000.5 {name}"), "--format simple --unit s", "beyond all calendars", r"\((--unit ms)\)"),
        (each("{at}.5 {name}"), "", "has decimals: give its unit", r"(--unit s)"),
        (each("2024-05-01T12:00:{at:02}.123Z {name}"), "--format simple", "a date-time", r"\((--format text)\)"),
        (each("2024-05-01T12:{at:02}:00Z {name}") * 2, "", "time goes backwards", r"\((--most-late \d+)\)"),
    ],
)
def test_the_command_that_a_message_advises_works(
    text: str, words: str, fault: str, advice: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = shlex.split(words)
    code, told = run(capsys, *given, *logs(tmp_path, text))
    assert (code, fault in told) == (2, True), told
    found = re.search(advice, told)
    assert found, told
    name = found[1].split()[0]
    kept = given[: given.index(name)] if name in given else given
    code, told = run(capsys, *found[1].split(), *kept, *logs(tmp_path, text))
    assert code == 0, told


def test_a_table_and_a_pattern_can_have_date_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = "time,name\n" + each("2024-05-01T12:00:{at:02}.123Z,{name}")
    assert run(capsys, *logs(tmp_path, table))[0] == 0
    pattern = r"^(?P<name>\w+) at (?P<time>.*)$"
    trace = read(each("{name} at 2024-05-01T12:00:{at:02}.123Z"), pattern=pattern)
    assert (trace.duration, trace.unit) == (59 * SECOND, "ns")


def test_the_choice_and_the_new_day_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = "".join(f"{at // 60 % 24:02}:{at % 60:02}:00 step {'ab'[at % 2]}\n" for at in range(1410, 1470))
    code, told = run(capsys, *logs(tmp_path, log))
    told = " ".join(told.split())
    assert code == 0
    assert "was read as text: 100% of the first lines match, time goes forward in 100% of 60 sampled events" in told
    assert "fall back once, which was read as the next day" in told


def test_sinks_whose_events_share_one_time_are_no_division_by_zero() -> None:
    def trace(steps: int) -> EventTrace:
        events = [(5, f"basesink:step {at % 3}") for at in range(steps)]
        return EventTrace.from_pairs([*events, (900, "left over")], unit="ms")

    assert diagnose([trace(90)] * 3, trace(90)).findings == ()
    assert diagnose([trace(90)] * 3, trace(30)).verdict == "anomalous"
