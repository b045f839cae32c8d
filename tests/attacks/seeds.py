"""What the fuzzers begin with: small valid inputs of every reader."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.harness.phases_campaign import SPEC
from tests.harness.points_sweep import SPEC as SWEEP

if TYPE_CHECKING:
    import polars as pl

    from unperturbed.collectors.records.file import Setup
    from unperturbed.collectors.sources import Pass

ROOT = Path(__file__).parents[2]
_LOGS = ROOT / "tests" / "analysis" / "diagnosis" / "data"

SPEC_WORDS = tuple(
    word.encode()
    for word in (
        "name", "program", "measure", "campaign", "analysis", "source", "build", "run", "shell", "result", "outputs",
        "parameters", "software", "hardware", "derived", "enter", "return", "call", "loop", "gauge", "line", "label",
        "probe", "uprobe", "usdt", "preload", "python", "subsets", "baseline_runs", "interval", "timeout", "programs",
        "layouts", "shams", "anchor", "align_on", "{build}", "{scratch}", "{parameters.n}", "1..9 step 2", "log 1..100",
        "1e3 ms", "-0.0", "&a", "*a", "<<: *a", "!!python/object:os.system", "? ", "- ", ": ", "|", ">", "---", "...",
        "%YAML 9.9", "{{", "}}", "/proc/self/mem", "nan", ".inf", "0o777", "1:30", "2001-01-01", "~", "!!binary aGk=",
    )
)  # fmt: skip
EXPRESSION_WORDS = tuple(
    word.encode()
    for word in (
        "log(", "max(", "min(", "abs(", "exp(", "sqrt(", "sign(", "if", "else", "and", "or", "not", "==", "<=", "**",
        "//", "%", "(", ")", ",", "`", "'", '"', "1e999", "1j", "0x10", "a", "b", "`c d`", "t", "lambda:0", "[0]", ".x",
        "__import__", "True", "None", "\n", "#", "\\", "-", "tiers:", "derive:", "forbid:", "require:", "kinds:", "->",
    )
)  # fmt: skip
EXPRESSIONS = tuple(
    text.encode()
    for text in (
        "a / b", "log(a) + 2 * b", "max(a, b, 3) ** 2", "a if b > 0 else -a", "`c d` // 2 % 5", "t == 'x'",
        "not (a > 1 and b < 2)", "'perf::page-faults' / PAPI_TOT_INS", "(a + b) / (a - 1)", "a ** b ** 2", "abs(-a)",
    )
)  # fmt: skip


@functools.cache
def spec_texts() -> Sequence[bytes]:
    """Return the texts of specs that are in the repository, and of the tests' own."""
    files = sorted([*ROOT.glob("experiments/*/*.yaml"), *ROOT.glob("harness/drafts/examples/*.yaml")])
    return [*(file.read_bytes() for file in files), *(yaml.safe_dump(tree).encode() for tree in (SPEC, SWEEP))]


@functools.cache
def spec_trees() -> Sequence[bytes]:
    """Return the same as trees of JSON, which is YAML too."""
    return [json.dumps(yaml.safe_load(text), default=str).encode() for text in spec_texts()]


def knowledge_texts() -> Sequence[bytes]:
    """Return files of prior knowledge."""
    return [
        b"tiers: [[n, kind], [instr], [T]]\nforbidden: [n -> T]\nrequired: [instr -> T]\nkinds: {kind: discrete}\n"
        b"derive: {ipc: instr / T, half: n / 2}\nlog: [T]\nexclude: [x]\n",
        b"derivatives: [gain = d T / d kernel from 0 to 1]\ncurves: [T over n]\nlog: [T]\n",
    ]


def settings_texts() -> Sequence[bytes]:
    """Return files of software metrics, as the compiler wrapper takes them."""
    return [
        yaml.safe_dump({"measure": {"software": SPEC["measure"]["software"]}}).encode(),
        b"software:\n  a: {call: f, in: g, file: x.c}\n  b: {gauge: q.length}\n  c: {line: 'x.c:3'}\n  d: {loop: f#1}\n",
    ]


def record_setup(*, threads: bool = False) -> Setup:
    """Return the settings of the record files below."""
    from unperturbed.collectors.records.file import Setup
    from unperturbed.collectors.sources import Event

    events = (Event("perf::page-faults", 1, 2, kernel=True), Event("perf::task-clock", 1, 1, kernel=True))
    kernel = ("minor_faults",)
    return Setup("perf_event", 100_000, "monotonic", events, kernel, software=2, capacity=8, threads=threads)


def record_pass(source: str = "perf_event") -> Pass:
    """Return what the runs of these record files, or of simulated runs, count."""
    from unperturbed.collectors.sources import Pass
    from unperturbed.collectors.sources.callgrind import metric

    if source == "simulated":
        return Pass("main", source, tuple(metric(f"PAPI_{name}") for name in ("TOT_INS", "LD_INS")))
    from unperturbed.collectors.data import Metric

    setup = record_setup()
    metrics = tuple(Metric(event.name, "os", source="perf_event") for event in setup.events)
    return Pass("main", source, metrics, setup.events)


@functools.cache
def record_files() -> Sequence[bytes]:
    """Return record files of one and of two threads, whole and cut off by a kill."""
    import numpy as np

    from unperturbed.collectors.records.file import HEADER, create_record_file

    setup = record_setup()
    found = []
    with tempfile.TemporaryDirectory() as name:
        create_record_file(Path(name) / "record", setup)
        empty = (Path(name) / "record").read_bytes()
    for threads, state in ((1, 2), (2, 1)):
        content = bytearray(empty)
        header = np.frombuffer(content, HEADER, 1)[0]
        header["taken"], header["owner"], header["state"], header["tables"] = 6, 7, state, 1
        header["threads"] = threads
        rows = np.frombuffer(content, setup.record, setup.capacity, HEADER.itemsize)
        for at in range(6):
            row = rows[at]
            row["whole"], row["thread"], row["monotonic_ns"] = at + 1, at % threads, 10**9 + at * 100_000
            row["cpu_ns"], row["read_ns"], row["enabled_ns"], row["running_ns"] = at * 90_000, 700, at * 9, at * 9
            for field in ("hardware", "os", "software"):
                row[field] = at * 3
        found.append(bytes(content))
    return found


@functools.cache
def trace_frame() -> pl.DataFrame:
    """Return the table of a small trace."""
    import polars as pl

    end = [20, 40, 60, 80]
    return pl.DataFrame(
        {
            "begin_ns": [0, 20, 40, 60],
            "end_ns": end,
            "overruns": [0, 0, 1, 0],
            "instructions": [5, 6, 7, 8],
            "ipc": [0.5, 0.25, 1.5, 2.0],
        }
    )


def trace_tree() -> bytes:
    """Return the description of that trace."""
    return json.dumps(
        {
            "format": 1,
            "metrics": [
                {"name": "instructions", "kind": "hardware", "unit": "", "source": "PAPI", "components": ["a:b"]},
                {"name": "ipc", "kind": "derived", "unit": "1", "semantics": "counter", "components": []},
            ],
            "attributes": {"run": "0001", "configuration": "baseline", "seconds": 1.5, "clock": "monotonic"},
        }
    ).encode()


@functools.cache
def parquet_file() -> bytes:
    """Return that trace as a file."""
    from unperturbed.collectors.data.files import encode_parquet

    return encode_parquet(trace_frame(), "unperturbed", json.loads(trace_tree()))


_FACTS: Mapping[str, Any] = {
    "id": "4f", "purpose": "a campaign", "spec_text": yaml.safe_dump(SPEC), "spec_path": "/nowhere/spec.yaml",
    "name": "phases", "begun": "2031-05-04T10:12:00+00:00", "host": "h", "reasons": {}, "program": "p", "builds": {},
    "passes": [{"name": "main", "source": "simulated", "metrics": ["PAPI_TOT_INS"], "machine": None}],
    "expected": {"exit_code": 0, "digest": "0", "run": "0000"},
    "native": {"exit_code": 0, "seconds": 1.0, "user_s": 1.0, "system_s": 0.0, "max_rss_kib": 1024},
    "pilot:main": {"interval_ns": 20_000_000, "intervals": 180, "seconds": 4.0, "note": ""},
}  # fmt: skip


def manifest_tree() -> bytes:
    """Return the facts of a manifest, and what its runs have in common, as JSON."""
    host = {"load_1min": 0.5, "steal_s": 0.0, "busy_s": 1.0, "context_switches": 10, "swap_used_mib": 0}
    more = {"host_before": host, "host_after": host, "seconds": 1.5, "attempt": 1}
    return json.dumps({"facts": _FACTS, **more}).encode()


@functools.cache
def manifest_file() -> bytes:
    """Return a manifest with runs in every state."""
    from unperturbed.harness.campaign.manifest import Manifest
    from unperturbed.harness.campaign.plan import PlannedRun

    with tempfile.TemporaryDirectory() as name:
        with Manifest(Path(name) / "campaign.sqlite") as manifest:
            manifest.set_facts(**_FACTS)
            runs = [PlannedRun(f"{at:04d}", "baseline", "main", at, 0, 0) for at in range(1, 5)]
            manifest.plan(runs)
            for run in runs[:3]:
                manifest.start(run, attempt=1, started="2031-05-04T10:12:00+00:00", host={"load_1min": 0.5})
            manifest.finish(runs[0], seconds=1.5, intervals=4, host={}, totals={"columns": {"x": 1}})
            manifest.fail(runs[1], seconds=1.0, error="it said nothing", host={}, final=True)
        return (Path(name) / "campaign.sqlite").read_bytes()


def csv_tables() -> Sequence[bytes]:
    """Return tables for causal models."""
    rows = "".join(f"{at},{at % 3},{at * at / 7},{'ab'[at % 2]}\n" for at in range(24))
    written = "".join(
        f"{at} MiB;1.{at:03d},5;2024-05-{at + 1:02d};{'?*'[at % 2] if at % 5 == 0 else at}\n" for at in range(24)
    )
    return [
        *(f"n,k,T,word\n{rows}".encode(), b"x\ty\n1\t2\n3\t4\n", b'"a b","c,d"\n1,NA\n2,"x ""y"""\n'),
        f"Runs;;;\nmem;t;day;n\n;s;;\n{written}".encode("utf-16"),
        f"# n k T word\n{rows}".replace(",", "  ").encode(),
        rows.encode(),
    ]


def json_tables() -> Sequence[bytes]:
    """Return tables for causal models in JSON."""
    records = [{"n": at, "T": at * at / 7, "word": "ab"[at % 2], "m": "-" if at == 3 else at} for at in range(24)]
    return [
        json.dumps(records).encode(),
        "\n".join(map(json.dumps, records)).encode(),
        json.dumps({"context": {"host": "a"}, "benchmarks": records}).encode(),
        json.dumps({"n": [1, 2, 3], "T": [0.5, None, "1 ms"]}).encode(),
    ]


def sweep_trees() -> Sequence[bytes]:
    """Return a sweep's table: its description in the first line, then the CSV."""
    kinds = {"n": ("parameter", "integer"), "x": ("os", "number"), "t": ("parameter", "text")}
    columns = [{"name": name, "kind": kind, "components": [], "type": type_} for name, (kind, type_) in kinds.items()]
    tree = {"format": 1, "rows": 2, "columns": columns, "facts": {"name": "s", "missing": [{"point": 1, "why": "w"}]}}
    return [json.dumps(tree).encode() + b"\nn,x,t\n1,0.5,a\n2,1.5,b\n"]


@functools.cache
def logs() -> Mapping[str, Sequence[bytes]]:
    """Return pieces of real event logs, by format."""
    real = [(_LOGS / name).read_bytes()[:6000] for name in ("pipeline.log", "two_threads_multiline.log", "colours.log")]
    plain = b"".join(b"%d event%d\n" % (1000 * at, at % 3) for at in range(30))
    return {
        "gstreamer": real,
        "ftrace": [(_LOGS / "tracefs.txt").read_bytes()[:5000]],
        "csv": [b"time,name,level\n" + plain.replace(b" ", b",").replace(b"\n", b",low\n")],
        "simple": [plain],
        "pattern": [plain, b"0:00:01.5 a\n0:00:02.25 b\n"],
        **{name: [text.encode()] for name, text in dated_logs().items()},
    }


def dated_logs(lines: int = 30) -> Mapping[str, str]:
    """Return a log of steps `a` and `b` for each format with date-times, one event a second."""
    forms = {
        "syslog": "Jun 14 15:16:{at:02} combo sshd(pam_unix)[{pid}]: step {step} {at}",
        "logcat": "03-17 16:13:{at:02}.811  1702  2395 D WindowManager: step {step} {at}",
        "log4j": "2015-10-18 18:01:{at:02},978 INFO [main] org.apache.AM: step {step} {at}",
        "apache": "[Sun Dec 04 04:47:{at:02} 2005] [notice] step {step} {at}",
        "access": '10.0.0.{at} - - [10/Oct/2024:13:55:{at:02} -0700] "GET /{step}/{at}?q=1 HTTP/1.1" 200 2326 "-" "x"',
        "dmesg": "[   {at:2}.000000] usb 1-{at}: step {step} {at}",
        "lttng": "[13:15:{at:02}.442106204] (+1.000000000) host sched_{step}: {{ cpu_id = 0 }}, {{ n = {at} }}",
        "strace": '[pid {pid}] 12:34:{at:02}.123456 read_{step}(3, "{at}", 10) = 3',
        "text": "2024-05-01T12:00:{at:02}.123Z step {step} {at}",
        "jsonl": '{{"time":"2024-05-01T00:00:{at:02}.5Z","level":"info","logger":"app","msg":"step {step} {at}"}}',
        "logfmt": 'time="2024-05-01T00:00:{at:02}.5Z" level=info msg="step {step} {at}" n={at}',
    }
    return {
        name: "".join(form.format(at=at, step="ab"[at % 2], pid=100 + at % 3) + "\n" for at in range(lines))
        for name, form in forms.items()
    }


@functools.cache
def imported_files() -> Mapping[str, Sequence[bytes]]:
    """Return files of other tools, by import format."""
    import gzip
    import lzma

    from tests.collectors.imports.monitor_tables import MONITORS
    from tests.collectors.imports.test_fuzz import FILES
    from tests.collectors.imports.test_likwid import HEAD, row

    return {
        **{name: [text.encode()] for name, text in MONITORS.items()},
        "asv": [FILES["asv.json"]],
        "benchexec": [FILES["benchexec.xml"], FILES["benchexec.csv"]],
        "caliper": [FILES["x.cali"], FILES["caliper.json"], FILES["slices.cali"], FILES["iterations.json"]],
        "csv": [FILES["plain.csv"], gzip.compress(FILES["plain.csv"]), lzma.compress(FILES["plain.csv"])],
        "google-benchmark": [FILES["google.json"], FILES["google.csv"]],
        "hyperfine": [FILES["hyperfine.json"]],
        "likwid": [(HEAD + "".join(row(at) for at in range(6))).encode()],
        "paraver": [FILES["x.prv"], FILES["sets.prv"]],
        "parquet": [parquet_file()],
        "perf-script": [FILES["x.script"], FILES["records.script"]],
        "perf-stat": [
            *(FILES[name] for name in ("perf.csv", "perf.json", "cgroups.csv", "perf-people.txt", "perf-metrics.csv")),
            *(FILES[name] for name in ("perf-metrics.txt", "perf-metrics.json", "perf-metrics-old.json")),
        ],
        "perfetto": [FILES["x.pftrace"], FILES["chrome.json"], FILES["unclosed.json"]],
        "pyperf": [FILES["pyperf.json"]],
        "rebench": [FILES["rebench.data"]],
    }


def recipe_texts() -> Sequence[bytes]:
    """Return the recipes of this tool, and one with every key."""
    from unperturbed.collectors.imports.recipe import own_recipes

    whole = (
        b"title: t\nrecognise: '^a'\nsuffixes: [.x]\nseparator: [blanks, ';']\nheading: '^a'\nlines: [groups, names]\n"
        b"skip: x\nwithout: y\nmissing: z\ntime: {columns: [a, b], format: [seconds, '%H:%M']}\n"
        b"first row since boot: no\nrecording: '^#'\nkind: hardware\nadvice: do\n"
        b"columns:\n  - {match: '(d)', is: device, name: 'D \\1', devices: {'-1': all}}\n"
        b"  - {match: '(.*)', is: counts, unit: '\\1'}\n"
    )
    return [whole, *(path.read_bytes() for path in own_recipes())]


@functools.cache
def elf_files() -> Sequence[bytes]:
    """Return a small program and a small library."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "a.c"
        source.write_text('#include <stdio.h>\nint work(int n) { return n; }\nint main(void) { puts(""); return 0; }\n')
        for flags in (["-g", "-Wl,--build-id"], ["-shared", "-fPIC", "-s"]):
            subprocess.run([shutil.which("gcc") or "cc", "-O1", *flags, source, "-o", f"{name}/out"], check=True)
            found.append((Path(name) / "out").read_bytes())
    return found


def dump_files() -> Sequence[bytes]:
    """Return what callgrind dumps of two intervals."""
    from unperturbed.collectors.sources.callgrind import EVENTS

    counts = " ".join(str(number) for number in range(len(EVENTS)))
    parts = (
        f"part: {number}\ndesc: Trigger: Client Request: interval {number}\nevents: {' '.join(EVENTS)}\ntotals: {counts}\n"
        for number in (1, 2)
    )
    return ["\n".join(parts).encode()]
