"""Campaigns with threads one by one: roles, exact counts of each thread, and sums that are those of all threads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unperturbed as up
from tests.harness.phases_campaign import unperturbed, verdicts
from unperturbed.collectors.data import Trace

POOL = """
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#define JOBS 60
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int next;
static long sum;
static __thread volatile long mine;
void step(int n) { for (int i = 0; i < 8000; i++) mine += i * n; }
void job(int number) { for (int i = 0; i < 20 + number * 7 % 40; i++) step(number); }
static void *worker(void *name) {
    prctl(PR_SET_NAME, name);
    for (;;) {
        pthread_mutex_lock(&lock); int number = next++; pthread_mutex_unlock(&lock);
        if (number >= JOBS) break;
        job(number);
    }
    __atomic_add_fetch(&sum, mine, 5);
    return 0; }
static void *logger(void *unused) { for (int i = 0; i < 100; i++) step(i); return unused; }
int main(void) {
    pthread_t t[4]; char names[3][8];
    for (int i = 0; i < 150; i++) step(i);
    pthread_create(&t[3], 0, logger, 0);
    for (int i = 0; i < 3; i++) { sprintf(names[i], "pool-%d", i); pthread_create(&t[i], 0, worker, names[i]); }
    for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
    for (int i = 0; i < 150; i++) step(i);
    printf("%ld\\n", sum); return 0; }
"""
STEPS = 300 + 100 + sum(20 + number * 7 % 40 for number in range(60))
ROLES = {"main", "logger#1", "worker#1", "worker#2", "worker#3"}


def _spec(folder: Path, **measure: Any) -> Path:
    (folder / "src").mkdir()
    (folder / "src" / "pool.c").write_text(POOL)
    content = {
        "name": "pool",
        "program": {"source": "src", "build": "{cc} -O1 -pthread pool.c -o pool", "run": "{build}/pool"},
        "measure": {
            "software": {"jobs": {"enter": "job"}, "steps": {"enter": "step"}},
            "threads": "each",
            "interval": {"records": 60},
            **measure,
        },
        "campaign": {"baseline_runs": 5, "runs": 3, "subsets": {"counted": ["jobs", "steps"]}},
    }
    spec = folder / "pool.yaml"
    spec.write_text(json.dumps(content))
    return spec


def _runs(folder: Path) -> list[Path]:
    return [run for run in sorted((folder / "campaigns" / "pool" / "runs").glob("0*")) if run.name != "0000"]


def _check_threads(run: Path) -> None:
    """Require that a run's threads have roles, and that their traces and totals are parts of the run's sums."""
    trace = Trace.read(run)
    threads = {thread["role"]: thread for thread in trace.attributes["threads"]}
    assert set(threads) == ROLES
    counted = "steps" in trace.metrics
    assert counted == (trace.attributes["configuration"] == "counted")
    if counted:
        assert (trace["jobs"].sum(), trace["steps"].sum()) == (60, STEPS)
        assert [threads[role]["totals"]["steps"] for role in ("main", "logger#1")] == [300, 100]
        assert [threads[role]["totals"]["jobs"] for role in ("main", "logger#1")] == [0, 0]
    for name in trace.metrics:
        if name in threads["main"]["totals"]:
            assert trace[name].sum() == sum(thread["totals"][name] for thread in threads.values()), name
    for number in (1, 2, 3):
        assert threads[f"worker#{number}"]["name"] == f"pool-{number - 1}"
    for file in (run / "threads").iterdir():
        own = Trace.read(file)
        thread = threads[own.attributes["role"]]
        assert own.attributes["thread"] == thread["number"]
        assert len(own) == thread["intervals"]
        for name, total in thread["totals"].items():
            assert own[name].sum() == total
            assert (own[name] >= 0).all()
    assert not list(run.glob("*.threads"))


@pytest.mark.parametrize("builds", ["one", pytest.param("separate", marks=pytest.mark.long)])
def test_the_simulator_counts_each_thread(tmp_path: Path, builds: str) -> None:
    spec = _spec(tmp_path, source="simulated", hardware=["PAPI_TOT_INS", "PAPI_L1_DCM"])
    content = json.loads(spec.read_text())
    content["campaign"]["builds"] = builds
    spec.write_text(json.dumps(content))
    done = unperturbed(tmp_path, "run", "pool.yaml", "--no-check")
    assert done.returncode == 0, done.stderr
    runs = _runs(tmp_path)
    assert len(runs) == 8
    for run in runs:
        _check_threads(run)
    own = [
        {thread["role"]: thread["totals"]["PAPI_TOT_INS"] for thread in Trace.read(run).attributes["threads"]}
        for run in runs
        if Trace.read(run).attributes["configuration"] == "baseline"
    ]
    for role in ("main", "logger#1"):  # the same work in each run; only waiting at the lock differs
        counts = np.array([each[role] for each in own])
        assert np.ptp(counts) <= 0.001 * counts.min(), role
    workers = np.array([[each[f"worker#{number}"] for number in (1, 2, 3)] for each in own])
    assert np.ptp(workers.sum(axis=1)) <= 0.001 * workers.sum(axis=1).min(), "the pool's work is the same in all runs"
    if builds == "one":
        _check_commands(tmp_path, runs)


def _check_commands(folder: Path, runs: list[Path]) -> None:
    """Require that threads of two runs are aligned and merged one by one."""
    counted = [str(run) for run in runs if Trace.read(run).attributes["configuration"] == "counted"][:2]
    told = json.loads(unperturbed(folder, "align", *counted, "--threads", "work", "--json").stdout)
    assert {pair["first"] for pair in told["pairs"]} == {pair["second"] for pair in told["pairs"]} == ROLES
    by_role = json.loads(unperturbed(folder, "align", *counted, "--threads", "role", "--json").stdout)
    assert all(pair["first"] == pair["second"] for pair in by_role["pairs"])
    assert told["distance"] <= by_role["distance"]
    assert set(told["shared"]) == {"jobs", "steps"}
    shown = unperturbed(folder, "align", *counted, "--threads", "work", "--html", "threads.html")
    assert "events of paired threads" in shown.stdout
    assert "worker#1" in (folder / "threads.html").read_text()
    refused = unperturbed(folder, "align", *counted, "--threads", "work", "--region", "1:2")
    assert refused.returncode == 2
    assert "--region cannot be used with --threads" in refused.stderr
    done = unperturbed(folder, "merge", "pool.yaml", "--force", "--threads", "work", "--json")
    assert done.returncode == 0, done.stderr
    merged = json.loads(done.stdout)
    assert set(merged["threads"]) == ROLES
    parts = {role: Trace.read(file) for role, file in merged["threads"].items()}
    assert {role: part.attributes["role"] for role, part in parts.items()} == {role: role for role in ROLES}
    assert parts["main"]["steps"].sum() == pytest.approx(300)
    assert sum(part["steps"].sum() for part in parts.values()) == pytest.approx(STEPS)
    assert all("PAPI_L1_DCM" in part.metrics for part in parts.values())


def test_threads_without_roles_are_not_aligned(tmp_path: Path) -> None:
    _spec(tmp_path, threads="all", source="perf_event", hardware=["perf::task-clock"], interval="1 ms")
    done = unperturbed(tmp_path, "run", "pool.yaml", "--no-check")
    if done.returncode and "ermi" in done.stderr:
        pytest.skip("this host allows no perf events")
    runs = _runs(tmp_path)
    refused = unperturbed(tmp_path, "align", runs[0], runs[1], "--threads", "work")
    assert refused.returncode == 2
    assert "`threads: each` under `measure`" in refused.stderr


def test_the_kernel_counts_each_thread(tmp_path: Path) -> None:
    _spec(tmp_path, source="perf_event", hardware=["perf::task-clock", "perf::page-faults"], interval="1 ms")
    done = unperturbed(tmp_path, "run", "pool.yaml", "--no-check")
    if done.returncode and "ermi" in done.stderr:
        pytest.skip("this host allows no perf events")
    assert done.returncode == 0, done.stderr
    for run in _runs(tmp_path):
        _check_threads(run)


@pytest.mark.long
def test_intervals_by_the_programs_events_are_of_each_thread(tmp_path: Path) -> None:
    _spec(
        tmp_path, source="simulated", hardware=["PAPI_TOT_INS"], interval={"every": 10, "of": "steps"}
    )  # each worker takes hundreds of steps
    assert unperturbed(tmp_path, "run", "pool.yaml", "--no-check").returncode == 0
    for run in _runs(tmp_path):
        trace = Trace.read(run)
        assert len(trace) in (30, 31)
        for file in (run / "threads").iterdir():
            own = Trace.read(file)
            assert (own["steps"][:-1] == 10).all()
        assert sum(thread["totals"]["steps"] for thread in trace.attributes["threads"]) == STEPS


FORKING = """
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile long sum;
void step(int n) { for (int i = 0; i < 8000; i++) sum += i * n; }
static void *member(void *unused) {
    pid_t child = fork();
    for (int i = 0; i < 100; i++) step(i);
    if (!child) _exit(0);
    waitpid(child, 0, 0);
    return unused; }
int main(void) {
    pthread_t t;
    for (int i = 0; i < 300; i++) step(i);
    pthread_create(&t, 0, member, 0); pthread_join(t, 0);
    return 0; }
"""


def test_a_simulated_child_of_another_thread_is_refused(tmp_path: Path) -> None:
    _spec(tmp_path, source="simulated", hardware=["PAPI_TOT_INS"], software={"steps": {"enter": "step"}})
    content = json.loads((tmp_path / "pool.yaml").read_text())
    content["campaign"] = {"baseline_runs": 5, "runs": 3, "subsets": {"counted": ["steps"]}}
    (tmp_path / "pool.yaml").write_text(json.dumps(content))
    (tmp_path / "src" / "pool.c").write_text(FORKING)
    done = unperturbed(tmp_path, "run", "pool.yaml", "--no-check")
    assert done.returncode != 0
    assert "a thread other than the main one created it" in done.stderr


CHILDREN = """
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void work(int n) { for (volatile long k = 0; k < n * 100000L; k++) { } }
static void *helper(void *unused) { work(30); return unused; }
static void *worker(void *unused) { work(50); return unused; }
int main(void) {
    pthread_t t[2];
    pid_t child = fork();
    int count = child ? 1 : 2;
    for (int i = 0; i < count; i++) pthread_create(&t[i], 0, child ? worker : helper, 0);
    work(20);
    for (int i = 0; i < count; i++) pthread_join(t[i], 0);
    if (!child) exit(0);
    waitpid(child, 0, 0);
    return 0; }
"""


def test_threads_of_children_count_for_their_process_and_are_named(tmp_path: Path) -> None:
    spec = _spec(tmp_path, source="perf_event", hardware=["perf::page-faults"], interval="1 ms", software={})
    content = json.loads(spec.read_text())
    content["campaign"] = {"baseline_runs": 5}
    spec.write_text(json.dumps(content))
    (tmp_path / "src" / "pool.c").write_text(CHILDREN)
    done = unperturbed(tmp_path, "run", "pool.yaml")
    if done.returncode and "ermi" in done.stderr:
        pytest.skip("this host allows no perf events")
    assert done.returncode == 0, done.stderr
    for run in _runs(tmp_path):
        trace = Trace.read(run)
        assert [thread["role"] for thread in trace.attributes["threads"]] == ["main", "worker#1"]
        assert trace.attributes["threads_without_traces"] == {"pool": 3}
        assert len(list((run / "processes").iterdir())) == 2
    said = " ".join(done.stdout.split())
    assert "Threads of further processes have no traces and no verdicts of their own" in said
    assert "pool (3 threads)" in said


def test_a_simulated_service_is_refused(tmp_path: Path) -> None:
    (tmp_path / "service.yaml").write_text(
        "name: service\nprogram: {run: sleep 60, duration: 1 s}\n"
        "measure: {threads: each, source: simulated, hardware: [PAPI_TOT_INS]}\n"
    )
    done = unperturbed(tmp_path, "run", "service.yaml", "--no-check")
    assert done.returncode == 2
    assert "`threads: each` cannot cut a service's load out of simulated counts" in done.stderr


APART = """
#include <pthread.h>
#define SIZE (1 << 22)
static volatile char bytes[3][SIZE];
static volatile long sums[3];
static int other;
static void miss(int who, int n) { for (int i = 0; i < 3000; i++) bytes[who][(i * 4096 + n * 64) & (SIZE - 1)]++; }
static void branch(int who, unsigned n) {
    for (int i = 0; i < 12000; i++)
        if ((n = n * 1664525u + 1013904223u) >> 31) sums[who] += n; else sums[who] ^= n;
}
void turn(int who, int n, int apart) {
    int odd = n / 6 % 2;
    if (odd) miss(who, n);
    if (odd != apart) branch(who, n);
    for (int i = 0; i < 20000; i++) sums[who] += i;
}
static void *steady(void *unused) { for (int i = 0; i < 60; i++) turn(0, i, 0); return unused; }
static void *touched(void *unused) { for (int i = 0; i < 60; i++) turn(1, i, other); return unused; }
int main(int count, char **words) {
    pthread_t threads[2];
    other = count > 1;
    pthread_create(&threads[0], 0, steady, 0);
    pthread_create(&threads[1], 0, touched, 0);
    for (int i = 0; i < 60; i++) turn(2, i, 0);
    pthread_join(threads[0], 0); pthread_join(threads[1], 0);
    return 0; }
"""
"""With a word, `touched` mispredicts where it does not miss, instead of where it misses; the others always do both."""


@pytest.mark.parametrize(
    "runs",
    [
        pytest.param({}, id="fixed"),
        pytest.param({"runs": "until decided", "at_most": 10}, id="until", marks=pytest.mark.long),
    ],
)
def test_a_change_in_one_thread_is_found_in_that_thread(tmp_path: Path, runs: Mapping[str, Any]) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "two.c").write_text(APART)
    spec = {
        "name": "two",
        "program": {"source": "src", "build": "{cc} -O1 -pthread two.c -o two", "run": "{build}/two"},
        "programs": {"apart": {"run": "{build}/two apart"}},
        "measure": {
            "threads": "each",
            "source": "simulated",
            "hardware": ["PAPI_L1_DCM", "PAPI_BR_MSP"],
            "interval": {"every": 1, "of": "turns"},  # unlike those of work, as many in each run of a busy host
            "software": {"turns": {"enter": "turn"}},
        },
        "campaign": {"baseline_runs": 5, **runs},
    }
    (tmp_path / "two.yaml").write_text(json.dumps(spec))
    done = unperturbed(tmp_path, "run", "two.yaml")
    assert done.returncode == 4, done.stderr
    campaign = tmp_path / "campaigns" / "two"
    threads = verdicts(campaign)["threads"]
    (found,) = threads["verdicts"]
    assert found["all_threads"] == "perturbed"
    assert found["by_thread"]["touched#1"]["verdict"] == "perturbed"
    assert [found["by_thread"][role]["verdict"] for role in ("main", "steady#1")].count("perturbed") == 0
    assert "Verdicts by thread" in done.stdout
    assert 'id="threads"' in (campaign / "report.html").read_text()
    checked = up.Campaign(campaign).check()
    assert checked.threads is not None
    assert checked.threads.at_least("perturbed") == ("apart",)
    assert json.loads(json.dumps(checked.threads.to_dict())) == threads
    if not runs:
        by_rule = unperturbed(tmp_path, "check", campaign, "--method", "paper")
        assert "Threads have no verdicts of their own by the paper's rule: use `--method runs`." in by_rule.stdout
