"""Made results of other harnesses, in the shape of their files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

Times = Mapping[str, Sequence[float]]
"""Seconds of each run, by benchmark."""


def hyperfine(seconds: Times, **more: Any) -> bytes:
    results = [
        {
            "command": command,
            "mean": sum(each) / len(each),
            "stddev": 0.01,
            "median": each[0],
            "user": 0.4,
            "system": 0.1,
            "min": min(each),
            "max": max(each),
            "times": list(each),
            "exit_codes": [0] * len(each),
            **more,
        }
        for command, each in seconds.items()
    ]
    return json.dumps({"results": results}, indent=2).encode()


def pyperf(processes: Mapping[str, Sequence[Sequence[float]]], *, host: str = "here", unit: str = "second") -> bytes:
    """Return a suite with a calibrating run, then a run for each list of values."""
    benchmarks = []
    for name, each in processes.items():
        runs: list[dict[str, Any]] = [{"metadata": {"calibrate_loops": 8}, "warmups": [[1, 9.9], [8, 8.8]]}]
        runs += [
            {"metadata": {"date": f"2031-01-02 10:00:{at:02d}.5"}, "values": list(values), "warmups": [[8, 7.7]]}
            for at, values in enumerate(each)
        ]
        benchmarks.append({"metadata": {"name": name, "loops": 8, "unit": unit}, "runs": runs})
    return json.dumps({"benchmarks": benchmarks, "metadata": {"hostname": host}, "version": "1.0"}).encode()


def google(times: Times, *, host: str = "here", date: str = "2031-01-02T10:00:00+00:00", **counters: float) -> bytes:
    """Return repetitions [s] written in µs, with their aggregates and a rate."""
    entries: list[dict[str, Any]] = []
    for name, each in times.items():
        entries += [
            {
                "name": name,
                "run_name": name,
                "run_type": "iteration",
                "repetitions": len(each),
                "repetition_index": at,
                "threads": 1,
                "iterations": 1000 + at,
                "real_time": second * 1e6,
                "cpu_time": second * 0.9e6,
                "time_unit": "us",
                "items_per_second": 1 / second,
                **counters,
            }
            for at, second in enumerate(each)
        ]
        entries += [
            {
                "name": f"{name}_{kind}",
                "run_name": name,
                "run_type": "aggregate",
                "aggregate_name": kind,
                "iterations": len(each),
                "real_time": 1.0,
                "cpu_time": 1.0,
                "time_unit": "us",
            }
            for kind in ("mean", "stddev")
        ]
    context = {"date": date, "host_name": host, "num_cpus": 4, "library_build_type": "release"}
    return json.dumps({"context": context, "benchmarks": entries}, indent=1).encode()


def google_csv(times: Times) -> bytes:
    head = "name,iterations,real_time,cpu_time,time_unit,bytes_per_second,items_per_second,label,error_occurred,"
    lines = [
        "2031-01-02T10:00:00+00:00",
        "Running ./bench",
        "Run on (4 X 3000 MHz CPU s)",
        f'{head}error_message,"misses"',
    ]
    for name, each in times.items():
        lines += [
            f'"{name}",1000,{second * 1e9:.6g},{second * 0.9e9:.6g},ns,,12.5,,,,{7 + at}'
            for at, second in enumerate(each)
        ]
        lines += [f'"{name}_{kind}",3,1.5,1.5,ns,,,,,,' for kind in ("mean", "median", "stddev", "cv")]
    return "\n".join([*lines, '"broken",,,,,,,,true,"it failed",']).encode()


def benchexec(seconds: Mapping[str, float], *, date: str = "2031-01-02 10:00:00 CET", status: str = "true") -> bytes:
    """Return a result file with a task for each name, and one that reached its limit."""
    runs = [
        f'  <run name="{name}" files="[{name}]" properties="unreach-call">\n'
        f'    <column title="status" value="{status}"/>\n    <column title="cputime" value="{second}s"/>\n'
        f'    <column title="walltime" value="{second * 1.1}s"/>\n'
        f'    <column title="memory" value="{1_000_000 + at}B"/>\n'
        '    <column title="loops" value="12"/>\n    <column title="category" value="correct" hidden="true"/>\n  </run>'
        for at, (name, second) in enumerate(seconds.items())
    ]
    runs.append(
        '  <run name="slow.yml"><column title="status" value="TIMEOUT"/><column title="cputime" value="901.2s"/></run>'
    )
    head = (
        "<?xml version='1.0' encoding='utf-8'?>\n<!DOCTYPE result PUBLIC '+//IDN sosy-lab.org//DTD BenchExec result "
        "3.0//EN' 'https://www.sosy-lab.org/benchexec/result-3.0.dtd'>\n"
        f'<result benchmarkname="made" name="fast" tool="Made" date="{date}">\n  <systeminfo hostname="here"/>\n'
    )
    return "\n".join([head, *runs, '  <column title="cputime" value="3.5"/>\n</result>']).encode()


def benchexec_table() -> bytes:
    """Return a table of two executions of one run set, the second without its last task."""
    lines = [
        "tool\t\tMade 1\tMade 1\tMade 1\tMade 1\tMade 1\tMade 1",
        "run set\t\tfast\tfast\tfast\tfast\tfast\tfast",
        "tasks/\t\tstatus\tcputime (s)\tmemory (MB)\tstatus\tcputime (s)\tmemory (MB)",
        "a.yml\tunreach-call\ttrue\t1.5\t2.5\ttrue\t1.75\t2.25",
        "b.yml\tunreach-call\tfalse\t3\t4\tTIMEOUT\t900.5\t9",
        "c.yml\tunreach-call\ttrue\t5\t6",
    ]
    return ("\n".join(lines) + "\n").encode()


def rebench(milliseconds: Mapping[str, Sequence[Sequence[float]]], *, warm_up: int = 0) -> bytes:
    """Return a data file with an invocation for each list of iterations."""
    lines = [
        "#!/usr/bin/rebench -c bench.conf",
        "# Execution Start: 2031-01-02T10:00:00.25+00:00",
        '# Environment: {"hostName":"here","cpu":"Made"}',
        '# Source: {"repoURL":null}',
        "invocation\titeration\tvalue\tunit\tcriterion\tbenchmark\texecutor\tsuite\textraArgs\tcores\tinputSize\tvarValue\t"
        "tag\tmachine\trunId",
    ]
    for number, (name, invocations) in enumerate(milliseconds.items()):
        described = {"name": name, "runDetails": {"warmup": warm_up}}
        lines.append(f"# benchmark: {number}={json.dumps(described)}")
        lines.append(f'# run_id: {number}={{"cmdline":"vm {name}","benchmark_id":{number}}}')
        for invocation, values in enumerate(invocations, 1):
            for iteration, value in enumerate(values, 1):
                row = f"{name}\tvm\tmicro\t\t1\t\t\t\t\t{number}"
                lines.append(f"{invocation}\t{iteration}\t{value / 10:f}\tms\tGC\t{row}")
                lines.append(f"{invocation}\t{iteration}\t{value:f}\tms\ttotal\t{row}")
    return ("\n".join(lines) + "\n").encode()


def asv(*, samples: bool = True) -> bytes:
    columns = ["result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_number", "samples"]
    suite: dict[str, list[Any]] = {
        "suite.Sort.time_sort": [
            [0.25, None, 0.5],
            [["10", "20", "30"]],
            "a1",
            1925028000000,
            3.5,
            [0.2, None, 0.4],
            [9],
        ],
        "suite.Sort.peakmem_sort": [[4096], [], "b2", 1925028000000, 1.0, [None], [None]],
        "suite.track_size": [[17], [], "c3", 1925028000000, 1.0, [None], [None]],
        "suite.broken": [None, [], "d4"],
    }
    if samples:
        suite["suite.Sort.time_sort"].append([[0.25, 0.26, 0.24], None, [0.5, 0.51, 0.49]])
    found = {
        "commit_hash": "0123456789abcdef",
        "env_name": "made-py3",
        "date": 1925000000000,
        "params": {"machine": "here", "python": "3.13"},
        "python": "3.13",
        "requirements": {},
        "env_vars": {},
        "result_columns": columns,
        "results": suite,
        "durations": {},
        "version": 2,
    }
    return json.dumps(found).encode()
