"""Campaigns of real services, Redis and nginx, with their load generators: inside, outside, simulated."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from unperturbed.collectors.data import Trace

_REDIS = {
    "run": "redis-server --port {port} --save ''",
    "ready": "redis-cli -p {port} ping",
    "load": "redis-benchmark -p {port} -c 1 -n 1500 -t set,get",
}
_TOOL = Path(sys.executable).with_name("unperturbed")
_NGINX = """
daemon off; worker_processes 1; pid {here}/pid; error_log stderr;
events {{ }}
http {{
  access_log off; root {here}; server {{ listen 127.0.0.1:{port}; }}
  client_body_temp_path {here}/1; proxy_temp_path {here}/2; fastcgi_temp_path {here}/3;
  uwsgi_temp_path {here}/4; scgi_temp_path {here}/5;
}}
"""


def write(folder: Path, program: dict[str, Any], **sections: Any) -> Path:
    measure = {"interval": "10 ms", "sampler": "outside", "hardware": ["perf::task-clock"], "os": ["minor_faults"]}
    spec = {"name": "service", "program": program, "measure": measure, "campaign": {"baseline_runs": 5}, **sections}
    file = folder / "spec.yaml"
    file.write_text(yaml.safe_dump(spec, sort_keys=False))
    return file


def run(spec: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [_TOOL, "run", str(spec), *options]
    return subprocess.run(command, cwd=spec.parent, capture_output=True, text=True, check=False, timeout=120)


def traces(folder: Path) -> list[Trace]:
    files = sorted(folder.glob("campaigns/service/runs/[0-9]*/trace.parquet"))
    return [Trace.read(file) for file in files if file.parent.name != "0000"]


def running_in(folder: Path) -> list[str]:
    """Return the names of the processes that run below a folder, as services and loads do in scratch folders."""
    found = psutil.process_iter(["name", "cwd"])
    return [process.info["name"] for process in found if str(process.info["cwd"]).startswith(f"{folder}/")]


def test_redis_observed_from_outside_is_measured_for_the_time_of_its_load(tmp_path: Path) -> None:
    result = run(write(tmp_path, _REDIS))
    assert result.returncode == 0, result.stderr
    runs = traces(tmp_path)
    assert len(runs) == 5
    for trace in runs:
        assert trace.attributes["requests"] == 3000
        assert 0 <= trace.attributes["wall_seconds"] - trace.attributes["time_s"] < 0.1
        # Redis uses a processor only for its load; the start, before it, is left out.
        assert 0.5 < trace["perf::task-clock"].sum() / 1e9 / trace.attributes["cpu_s"] < 1.2
    assert running_in(tmp_path) == []


def test_workers_that_outlive_an_observed_service_do_not_end_its_run(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(
        "import os, signal, socket, sys, time\n"
        "server = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
        "if not os.fork():\n os.setsid(); signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(100)\n"
        "while True: server.accept()[0].close()\n"
    )
    server = "/usr/bin/python3 -S {spec}/server.py {port}"
    program = {"run": server, "ready": "tcp://127.0.0.1:{port}", "load": "sleep 0.2"}
    began = time.monotonic()
    result = run(write(tmp_path, program), "--no-check")
    assert result.returncode == 0, result.stderr
    assert time.monotonic() - began < 40  # a run does not wait 10 s for the worker
    assert len(traces(tmp_path)) == 5
    assert running_in(tmp_path) == []
    measure = {"interval": "400 ms", "sampler": "outside", "hardware": ["perf::task-clock"], "os": []}
    short = write(tmp_path, {**program, "load": "true"}, name="short", measure=measure)
    assert "the load ended within the first interval: give it more requests" in run(short, "--no-check").stderr


def test_simulated_counts_of_redis_are_those_of_its_load(tmp_path: Path) -> None:
    load = "redis-benchmark -p {port} -c 1 -n 1500 -t set"
    result = run(write(tmp_path, {**_REDIS, "load": load}, measure={"hardware": ["PAPI_TOT_INS"]}), "--no-check")
    assert result.returncode == 0, result.stderr
    totals = [float(trace["PAPI_TOT_INS"].sum()) for trace in traces(tmp_path)]
    # A request takes redis thousands of instructions; its start, of millions, is left out.
    assert 3e6 < min(totals) < max(totals) < 15e6
    assert all(trace.attributes["time_s"] > 0 for trace in traces(tmp_path))


def test_nginx_with_a_load_for_a_time_says_that_the_work_is_not_known(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("hello")
    (tmp_path / "start.sh").write_text(
        f"""sed 's/PORT/'$1'/' {tmp_path}/nginx.conf > here.conf; exec nginx -e stderr -c $PWD/here.conf\n"""
    )
    (tmp_path / "nginx.conf").write_text(_NGINX.format(here=tmp_path, port="PORT"))
    program = {
        "run": "sh {spec}/start.sh {port}",
        "ready": "http://127.0.0.1:{port}/",
        "load": "ab -q -n 1000000 http://127.0.0.1:{port}/",
        "duration": "300 ms",
        "stop": "SIGQUIT",
    }
    measure = {"interval": "10 ms", "sampler": "outside", "hardware": ["perf::task-clock"], "os": []}
    result = run(write(tmp_path, program, measure=measure))
    assert result.returncode == 0, result.stderr
    assert "so totals are not of equal work" in result.stdout
    # The worker, a child of the main process, does the work; `children` counts it.
    assert all(0.29 < trace.attributes["time_s"] < 1 for trace in traces(tmp_path))


_COUNTED = """
#include <arpa/inet.h>
#include <stdlib.h>
#include <unistd.h>
static volatile long work;
__attribute__((noinline)) static void handle(int one) {
    char text[9];
    for (long i = 0; i < 20000; i++) work += i;
    if (read(one, text, sizeof text) > 0) (void)!write(one, "done", 4);
}
int main(int count, char **argument) {
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons(atoi(argument[1])),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int server = socket(AF_INET, SOCK_STREAM, 0), yes = count;
    setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    for (int i = 0; i < 1000; i++) handle(-1);
    if (bind(server, (struct sockaddr *)&place, sizeof place) || listen(server, 99)) return 1;
    for (;;) { int one = accept(server, 0, 0); handle(one); close(one); }
}
"""
_REQUESTS = """
import socket, sys, time
for _ in range(int(sys.argv[2])):
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as one:
        one.sendall(b"x"); one.recv(9)
    time.sleep(0.001)
"""


@pytest.mark.parametrize("sampler", ["inside", "outside"])
def test_software_metrics_are_exactly_those_of_the_load(tmp_path: Path, sampler: str) -> None:
    """The start of this service has 1,000 events, and the last try whether it is ready has one."""
    (tmp_path / "server").mkdir()
    (tmp_path / "server/server.c").write_text(_COUNTED)
    (tmp_path / "load.py").write_text(_REQUESTS)
    program = {
        "source": "server",
        "build": "{cc} -O1 -o server server.c",
        "run": "{build}/server {port}",
        "ready": "tcp://127.0.0.1:{port}",
        "load": f"{sys.executable} -S {{spec}}/load.py {{port}} 100",
    }
    measure = {
        "interval": "5 ms",
        "sampler": sampler,
        "hardware": ["perf::task-clock"],
        "software": {"requests": {"enter": "handle"}},
    }
    result = run(
        write(tmp_path, program, measure=measure, campaign={"baseline_runs": 5, "runs": 3, "builds": "separate"})
    )
    assert result.returncode == 0, result.stderr
    counted = [trace for trace in traces(tmp_path) if "requests" in trace.metrics]
    assert len(counted) == 3
    assert all(trace["requests"].sum() == 100 for trace in counted)


def test_what_goes_wrong_is_said_with_what_the_service_printed(tmp_path: Path) -> None:
    result = run(write(tmp_path, {**_REDIS, "run": "redis-server --port {port} --unknown-option 1"}))
    assert result.returncode == 1
    assert "the service ended with exit code 1 before it was ready. The last error output is:" in result.stderr
    assert "Bad directive or wrong number of arguments" in result.stderr
    result = run(write(tmp_path, {**_REDIS, "run": "redis-server --port {port} --daemonize yes"}))
    assert result.returncode == 1
    assert "puts itself into the background" in result.stderr
    assert running_in(tmp_path) == []


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGKILL])
def test_an_ended_campaign_leaves_no_service(tmp_path: Path, number: signal.Signals) -> None:
    spec = write(tmp_path, {**_REDIS, "load": "sleep 60"})
    command = [_TOOL, "run", str(spec)]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while "sleep" not in running_in(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert {"redis-server", "sleep"} <= set(running_in(tmp_path))
        os.kill(process.pid, number)
        process.wait(20)
    finally:
        process.kill()
    deadline = time.monotonic() + 10
    while running_in(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert running_in(tmp_path) == []
