"""Campaigns whose software metrics are counted by every means, by the real command line: compiled in, probes,
libraries in between, Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.harness.campaign.test_sampling_campaign import traces
from tests.harness.phases_campaign import unperturbed, write_spec

KERNEL = ["perf::task-clock", "perf::page-faults"]
NATIVE = {
    "measure__source": "auto",
    "measure__hardware": KERNEL,
    "measure__derived": None,
    "measure__interval": "4 ms",
    "analysis__align_on": ["perf::task-clock"],
    "program__run": "{build}/phases 200",
    "campaign__runs": 3,
}
PROBES = Path("/sys/bus/event_source/devices/uprobe").is_dir() and os.geteuid() == 0
"""Whether this host has probes of the kernel, and we may set them."""

ALLOCATING = """
#include <stdio.h>
#include <stdlib.h>
enum state { IDLE, BUSY = 7 };
static struct { int length; enum state state; } queue;
__attribute__((noinline)) static void serve(volatile unsigned long *work) { for (int k = 0; k < 20000; k++) *work += k; }
int main(void) {
    volatile unsigned long work = 0;
    for (int i = 0; i < 3000; i++) {
        queue.length = i / 30;
        queue.state = i % 2 ? BUSY : IDLE;
        void *volatile p = malloc(64 + i % 7);
        free(p);
        serve(&work);
    }
    puts("done");
    return 0; }
"""


def allocating(folder: Path) -> None:
    """Write a program that allocates 3000 times, serves as often, and keeps a queue's length."""
    (folder / "queue").mkdir(parents=True)
    (folder / "queue" / "queue.c").write_text(ALLOCATING)


@pytest.mark.parametrize("sampler", ["inside", pytest.param("outside", marks=pytest.mark.long)])
def test_gauges_and_library_calls_beside_compiled_milestones(tmp_path: Path, sampler: str) -> None:
    allocating(tmp_path)
    software = {
        "serves": {"enter": "serve"},
        "length": {"gauge": "queue.length"},
        "state": {"gauge": "queue.c::queue.state"},
        "allocations": {"preload": "malloc"},
    }
    changed = {
        **NATIVE,
        "program__source": "queue",
        "program__build": "{cc} -O2 queue.c -o queue",
        "program__run": "{build}/queue",
        "measure__sampler": sampler,
        "measure__software": software,
        "campaign__subsets": {"values": ["length", "state"], "calls": ["allocations"]},
        "analysis__anchor": "serves",
    }
    done = unperturbed(tmp_path, "run", write_spec(tmp_path, **changed))
    assert done.returncode == 0, done.stderr
    campaign = tmp_path / "campaigns" / "phases"
    for trace in traces(campaign, "values"):
        assert trace["serves"].sum() == 3000
        assert trace.metrics["length"].semantics == "gauge"
        assert trace.metrics["serves"].semantics == "counter"
        # The queue grows by one in 30 serves: the value at each interval's end is known from what was counted until
        # then.
        expected = np.minimum(np.maximum(trace["serves"].cumsum() - 1, 0), 2999) // 30
        assert np.abs(trace["length"] - expected).max() <= 1
        assert trace["length"][-1] == 99
        assert set(trace["state"]) <= {0, 7}
    for trace in traces(campaign, "calls"):
        assert trace["serves"].sum() == 3000
        assert 3000 <= trace["allocations"].sum() < 3100, (
            "the program's own, and a few of the C library's on its behalf"
        )
        assert trace.metrics["allocations"].source == "interposition"


def test_gauges_in_simulated_intervals(tmp_path: Path) -> None:
    spec = write_spec(
        tmp_path,
        measure__software={"rounds": {"enter": "begin_round"}, "seed": {"gauge": "state"}, "steps": {"loop": "walk"}},
        campaign__subsets={"steps": ["steps", "seed"]},
    )
    done = unperturbed(tmp_path, "run", spec)
    assert done.returncode in (0, 4), done.stderr
    found = traces(tmp_path / "campaigns" / "phases", "steps")
    assert len(found) == 3
    rows = {words[0]: words[1:] for line in done.stdout.splitlines() if (words := line.split())}
    assert rows["rounds"][:3] == ["8", f"{found[0]['rounds'].sum():,}", "always"], (
        "five runs of the anchor, three of the subset"
    )
    assert rows["steps"][:3] == ["3", f"{found[0]['steps'].sum():,}", "always"]
    assert float(rows["steps"][3].replace(",", "")) > float(rows["rounds"][3].replace(",", "")) > 0
    least, most = min(trace["seed"].min() for trace in found), max(trace["seed"].max() for trace in found)
    assert rows["seed"] == ["3", "gauge", f"{least:,}", "…", f"{most:,}"]
    for trace in found:
        assert trace.metrics["seed"].semantics == "gauge"
        assert 0 <= trace["seed"].min() < trace["seed"].max() < 2**32
        assert trace["seed"][-1] == found[0]["seed"][-1], "the same number in the end, in every run"


@pytest.mark.skipif(not PROBES, reason="no uprobe PMU, or not root")
@pytest.mark.parametrize("sampler", [pytest.param("inside", marks=pytest.mark.long), "outside"])
def test_probes_of_the_kernel_beside_compiled_milestones(tmp_path: Path, sampler: str) -> None:
    software = {
        "rounds": {"enter": "begin_round"},
        "sweeps": {"probe": {"uprobe": "phases:sweep", "max_rate": 100_000}},
        "prints": {"probe": {"uprobe": "libc.so.6:printf"}},
    }
    changed = {
        **NATIVE,
        "program__build": "make CC={cc} CFLAGS='-O2 -g -fno-inline'",
        "measure__sampler": sampler,
        "measure__software": software,
        "campaign__subsets": {"probed": ["sweeps", "prints"]},
    }
    spec = write_spec(tmp_path, **changed)
    done = unperturbed(tmp_path, "run", spec)
    assert done.returncode == 0, done.stderr
    assert "sweeps" in done.stderr
    assert "hits per second" in done.stderr, "the rehearsal says what the probes cost"
    campaign = tmp_path / "campaigns" / "phases"
    for trace in traces(campaign, "probed"):
        assert trace["rounds"].sum() == trace["sweeps"].sum() == 200
        assert trace["prints"].sum() == 1
        assert trace.metrics["sweeps"].source == "kernel probe"
    for trace in traces(campaign, "baseline"):
        assert not trace.names("software")
    assert "hits per second" in (campaign / "report.html").read_text()
    told = unperturbed(tmp_path, "doctor", spec)
    assert told.returncode == 0
    assert "kernel probe" in told.stdout


@pytest.mark.skipif(not PROBES, reason="no uprobe PMU, or not root")
def test_a_probe_that_is_hit_too_often_is_refused_before_any_planned_run(tmp_path: Path) -> None:
    probe = {"uprobe": "phases:sweep", "max_rate": 100}
    changed = {
        **NATIVE,
        "program__build": "make CC={cc} CFLAGS='-O2 -g -fno-inline'",
        "measure__software": {"rounds": {"enter": "begin_round"}, "sweeps": {"probe": probe}},
        "campaign__subsets": {"probed": ["sweeps"]},
    }
    spec = write_spec(tmp_path, **changed)
    done = unperturbed(tmp_path, "run", spec)
    assert done.returncode == 2
    line = next(number for number, text in enumerate(spec.read_text().splitlines(), 1) if text.strip() == "sweeps:")
    assert f"spec.yaml:{line}:5: sweeps is hit too often" in done.stderr
    assert "max_rate: " in done.stderr
    assert not list((tmp_path / "campaigns" / "phases" / "runs").glob("0001/trace.parquet"))
    probe["max_rate"] = 100_000
    asked = unperturbed(tmp_path, "run", write_spec(tmp_path, **changed))
    assert asked.returncode == 0, asked.stderr
    assert "rehearsing" not in asked.stderr, "what the rehearsal found is kept, and a limit makes no other campaign"


@pytest.mark.skipif(not PROBES, reason="no uprobe PMU, or not root")
def test_probes_are_refused_where_the_program_is_simulated(tmp_path: Path) -> None:
    software = {"rounds": {"enter": "begin_round"}, "draws": {"probe": {"uprobe": "phases:next"}}}
    spec = write_spec(tmp_path, measure__source="auto", measure__software=software, campaign__subsets={"a": ["draws"]})
    done = unperturbed(tmp_path, "run", spec)
    assert done.returncode == 2
    assert "kernel probes do not work in a simulated program" in done.stderr
    told = unperturbed(tmp_path, "doctor", spec)
    assert told.returncode == 2
    assert "kernel probes do not work in a simulated program" in told.stdout


@pytest.mark.skipif(not PROBES, reason="no uprobe PMU, or not root")
def test_sites_tells_a_probes_binary_and_cost_once(tmp_path: Path) -> None:
    probes = {"prints": {"probe": {"uprobe": "libc.so.6:printf"}}, "sweeps": {"probe": {"uprobe": "phases:sweep"}}}
    changed = {**NATIVE, "program__build": "make CC={cc} CFLAGS='-O2 -g -fno-inline'", "measure__software": probes}
    spec = write_spec(tmp_path, **changed, campaign__subsets=None, analysis__anchor=None)
    done = unperturbed(tmp_path, "sites", spec)
    assert done.returncode == 0, done.stderr
    prints, at_prints, sweeps, at_sweeps = done.stdout.splitlines()
    assert at_prints.count("libc.so.6") == 1
    assert at_sweeps.split()[0] == "phases", "as seen from the source's folder"
    for metric, place in ((prints, at_prints), (sweeps, at_sweeps)):
        assert " us per hit" in metric
        assert " us per hit" not in place


SCRIPT = """
import json
import sys

class Book:
    def lend(self, n):
        return sum(range(n))

def read(n):
    return json.loads("[1, 2, %d]" % n)

book = Book()
total = 0
for i in range(5000):
    total += book.lend(1500) + read(i)[2]
print(total)
"""


@pytest.mark.parametrize("sampler", ["inside", pytest.param("outside", marks=pytest.mark.long)])
def test_a_python_program_that_is_not_built(tmp_path: Path, sampler: str) -> None:
    (tmp_path / "work.py").write_text(SCRIPT)
    changed = {
        **NATIVE,
        "program__source": None,
        "program__build": None,
        "program__run": "/usr/bin/python3 {spec}/work.py",
        "measure__sampler": sampler,
        "measure__software": {
            "decodes": {"python": {"enter": "json.decoder.JSONDecoder.decode"}},
            "lends": {"python": {"enter": "__main__.Book.lend"}},
            "allocations": {"preload": "malloc"},
        },
        "campaign__subsets": {"own": ["lends"], "library": ["decodes", "allocations"]},
        "analysis__anchor": None,
    }
    done = unperturbed(tmp_path, "run", write_spec(tmp_path, **changed))
    assert done.returncode == 0, done.stderr
    campaign = tmp_path / "campaigns" / "phases"
    for trace in traces(campaign, "own"):
        assert trace["lends"].sum() == 5000
    for trace in traces(campaign, "library"):
        assert trace["decodes"].sum() == 5000
        assert trace["allocations"].sum() > 100


JAVA = """
import java.util.HashMap;

public class Lends {
    static long lend(long n) { long sum = 0; for (long i = 0; i < n; i++) sum += i ^ sum; return sum; }
    public static void main(String[] words) {
        HashMap<Integer, byte[]> kept = new HashMap<>();
        long total = 0;
        for (int i = 0; i < 10000; i++) { total += lend(5000); kept.put(i % 100, new byte[20000]); }
        System.gc();
        System.out.println(total + " " + kept.size());
    }
}
"""


@pytest.mark.skipif(shutil.which("javac") is None, reason="no Java development kit here (default-jdk-headless)")
def test_a_java_program_that_the_campaign_compiles(tmp_path: Path) -> None:
    (tmp_path / "java").mkdir()
    (tmp_path / "java/Lends.java").write_text(JAVA)
    changed = {
        **NATIVE,
        "program__source": "java",
        "program__build": "javac -g Lends.java",
        "program__run": "java -XX:+UseSerialGC -Xmx64m -cp {build} Lends",
        "measure__sampler": "outside",
        "measure__software": {
            "lends": {"jvm": {"enter": "Lends.lend"}},
            "puts": {"jvm": {"enter": "java.util.HashMap.put"}, "threads": "exact"},
            "pauses": {"jvm": {"event": "collections"}},
        },
        "campaign__subsets": {"methods": ["lends", "puts"], "machine": ["pauses"]},
        "analysis__anchor": None,
    }
    done = unperturbed(tmp_path, "run", write_spec(tmp_path, **changed))
    assert done.returncode == 0, done.stderr
    campaign = tmp_path / "campaigns" / "phases"
    for trace in traces(campaign, "methods"):
        assert trace["lends"].sum() == 10000
        assert trace["puts"].sum() >= 10000
    for trace in traces(campaign, "machine"):
        assert trace["pauses"].sum() > 5
    shown = unperturbed(tmp_path, "sites", tmp_path / "spec.yaml")
    assert "Lends.java:5  Lends.lend(long)" in shown.stdout


def test_sites_lists_places_costs_and_what_is_not_seen(tmp_path: Path) -> None:
    spec = write_spec(
        tmp_path,
        measure__software={
            "rounds": {"enter": "begin_round"},
            "seed": {"gauge": "state"},
            "steps": {"loop": "walk", "threads": "exact"},
            "found": {"write": "found", "add": "steps"},
            "allocations": {"preload": "malloc"},
        },
        campaign__subsets={"all": ["seed", "steps"], "others": ["found", "allocations"]},
    )
    shown = unperturbed(tmp_path, "sites", spec)
    assert shown.returncode == 2, "steps is not a variable in begin_round"
    shown = unperturbed(
        tmp_path,
        "sites",
        write_spec(
            tmp_path,
            **{
                "measure__software": {
                    "rounds": {"enter": "begin_round"},
                    "seed": {"gauge": "state"},
                    "steps": {"loop": "walk", "threads": "exact"},
                    "found": {"write": "found"},
                    "allocations": {"preload": "malloc"},
                },
                "campaign__subsets": {"all": ["seed", "steps"], "others": ["found", "allocations"]},
            },
        ),
        "--json",
    )
    assert shown.returncode == 0, shown.stderr
    metrics = json.loads(shown.stdout)["metrics"]
    assert [(place["file"], place["line"]) for place in metrics["rounds"]["sites"]] == [("phases.c", 40)]
    assert metrics["rounds"]["instructions_per_event"] == 1
    assert len(metrics["found"]["sites"]) == 4
    assert metrics["seed"]["semantics"] == "gauge"
    assert metrics["seed"]["instructions_per_event"] == 0
    assert "locked" in metrics["steps"]["cost"]
    assert "libc" in metrics["allocations"]["sites"][0]["file"]
    assert not list((tmp_path / "campaigns").glob("*")), "nothing is left behind"


def test_a_metric_without_a_place_is_named_at_its_line_with_the_nearest_names(tmp_path: Path) -> None:
    software = {"rounds": {"enter": "begin_roumd"}, "allocations": {"preload": "maloc"}, "steps": {"loop": "walk"}}
    spec = write_spec(tmp_path, measure__software=software, campaign__subsets={"all": ["allocations", "steps"]})
    lines = spec.read_text().splitlines()
    at = {name: next(number for number, text in enumerate(lines, 1) if text.strip() == f"{name}:") for name in software}
    for command in ("sites", "run"):
        done = unperturbed(tmp_path, command, spec)
        assert done.returncode == 2, done.stderr
        assert (
            f"spec.yaml:{at['rounds']}:5: software metric 'rounds': the program has no site for `enter: begin_roumd`"
            in done.stderr
        )
        assert "begin_round" in done.stderr
    done = unperturbed(tmp_path, "sites", spec)
    assert f"spec.yaml:{at['allocations']}:5: " in done.stderr
    assert "malloc" in done.stderr


def test_every_metric_without_a_place_is_told_at_once(tmp_path: Path) -> None:
    software = {"allocs": {"preload": "maloc"}, "steps": {"loop": "walk"}, "prints": {"preload": "printg"}}
    spec = write_spec(
        tmp_path,
        measure__software=software,
        campaign__subsets={"all": ["allocs", "steps", "prints"]},
        analysis__anchor=None,
    )
    done = unperturbed(tmp_path, "run", spec)
    assert done.returncode == 2
    for name, meant in (("allocs", "malloc"), ("prints", "printf")):
        (line,) = [line for line in done.stderr.splitlines() if f"software metric '{name}'" in line]
        assert meant in line


@pytest.mark.parametrize("subsets", [{"steps": ["steps", "rounds"]}, {}])
def test_an_interval_that_is_the_shortest_is_not_to_be_made_shorter(
    tmp_path: Path, subsets: dict[str, list[str]]
) -> None:
    """A baseline alone is judged too: by how far its runs agree."""
    spec = write_spec(
        tmp_path,
        program__run="{build}/phases 3",
        measure__interval="1 ms",
        campaign__subsets=subsets,
        analysis__anchor=None,
    )
    done = unperturbed(tmp_path, "run", spec)
    assert done.returncode == 1, done.stdout
    assert "intervals of 100,000 basic blocks, but a verdict needs at least 30: give the program " in done.stderr
    assert "times as much work" in done.stderr


@pytest.mark.parametrize("nodes", [{}, {"nodes": {"engine": "here", "count": 2}}])
def test_a_short_program_is_traced_without_a_check_and_the_note_says_what_a_verdict_needs(
    tmp_path: Path, nodes: dict[str, Any]
) -> None:
    spec = write_spec(
        tmp_path,
        program__run="{build}/phases 3",
        measure__interval="1 ms",
        campaign__subsets={},
        campaign__baseline_runs=10,
        campaign__runs=4,
        analysis__anchor=None,
        **nodes,
    )
    done = unperturbed(tmp_path, "run", spec, "--no-check")
    assert done.returncode == 0, done.stderr
    campaign = tmp_path / "campaigns" / "phases"
    log = (campaign / "nodes" / "01" / "job.log").read_text() if nodes else done.stderr
    assert "but a verdict needs at least 30: give the program" in " ".join(log.split())
    assert len(list(campaign.glob("**/runs/*/trace.parquet"))) >= 10


def test_a_short_program_is_traced_where_no_verdict_is_to_be_given(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, **{**NATIVE, "program__run": "{build}/phases 30", "measure__interval": "1 ms"})
    done = unperturbed(tmp_path, "run", spec)
    assert done.returncode == 0, done.stderr
    assert "this campaign gives traces but no verdict" in done.stderr


BY_HAND = """
#include <stdio.h>
__attribute__((noinline)) static long work(long n) { volatile long s = 0; for (long i = 0; i < n; i++) s += i ^ n; return s; }
int main(void) { long t = 0; for (int i = 0; i < 300; i++) t += work(1000000); printf("%ld\\n", t); return 0; }
"""


@pytest.mark.parametrize("sampler", ["inside", "outside"])
def test_a_program_built_by_hand_is_traced_as_it_is(tmp_path: Path, sampler: str) -> None:
    (tmp_path / "x.c").write_text(BY_HAND)
    (tmp_path / "metrics.yaml").write_text("software:\n  steps: {loop: work}\n")
    made = unperturbed(tmp_path, "cc", "--sham", "--metrics", "metrics.yaml", "--", "gcc", "-O2", "x.c", "-o", "sham")
    assert made.returncode == 0, made.stderr
    spec = tmp_path / "sham.yaml"
    spec.write_text(
        f"name: sham\nprogram: {{run: '{{spec}}/sham'}}\ncampaign: {{baseline_runs: 5}}\n"
        f"measure: {{interval: 2 ms, sampler: {sampler}, hardware: [perf::task-clock]}}\n"
    )
    done = unperturbed(tmp_path, "run", spec)
    assert done.returncode == 0, done.stderr
    assert done.stderr.index("gives traces but no verdict") < done.stderr.index("running the untouched program"), (
        "it is said first"
    )
    runs = traces(tmp_path / "campaigns" / "sham", "baseline")
    assert len(runs) == 5
    assert all(len(trace) >= 30 and trace["perf::task-clock"].sum() > 0 for trace in runs)


FORKING = """
#include <unistd.h>
int forked;
__attribute__((constructor)) static void early(void) { forked = fork(); if (!forked) usleep(100000); }
"""
FORKED = """
#include <stdio.h>
#include <sys/wait.h>
extern int forked;
static long work(long n) { volatile long s = 0; for (long i = 0; i < n; i++) s += i; return s; }
int main(void) { long t = 0; for (int i = 0; i < 200; i++) t += work(1000000);
    if (forked) { wait(0); printf("%ld\\n", t); } return 0; }
"""


def test_a_child_that_a_constructor_forked_before_the_sampler_is_counted(tmp_path: Path) -> None:
    """It has its parent's random bytes, by which copies of the runtime in one process know each other."""
    (tmp_path / "forking.c").write_text(FORKING)
    (tmp_path / "x.c").write_text(FORKED)
    for words in (["-shared", "-fPIC", "forking.c", "-o", "libforking.so"], ["x.c", "-o", "x", "-L.", "-lforking"]):
        subprocess.run(["gcc", "-O1", *words, "-Wl,-rpath,$ORIGIN"], cwd=tmp_path, check=True)
    spec = tmp_path / "forked.yaml"
    spec.write_text(
        "name: forked\nprogram: {run: '{spec}/x'}\ncampaign: {baseline_runs: 5}\n"
        "measure: {interval: 2 ms, sampler: inside, hardware: [perf::task-clock]}\n"
    )
    done = unperturbed(tmp_path, "run", spec, "--no-check")
    assert done.returncode == 0, done.stderr
    for trace in traces(tmp_path / "campaigns" / "forked", "baseline"):
        assert [process["image"] for process in trace.attributes["processes"]] == ["x", "x"]
        assert trace["perf::task-clock"].sum() / 1e9 > 0.8 * trace.attributes["cpu_s"]


def test_a_sham_build_by_hand_has_the_layout_and_counts_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.c").write_text(
        "#include <stdio.h>\nstatic long work(long n) { long s = 0; for (long i = 0; i < n; i++) s += i ^ n; "
        "return s; }\n"
        'int main(void) { printf("%ld\\n", work(1000)); return 0; }\n'
    )
    (tmp_path / "metrics.yaml").write_text("software:\n  steps: {loop: work}\n  works: {enter: work}\n")
    sizes = {}
    for name, words in {"counting": (), "sham": ("--sham",)}.items():
        made = unperturbed(tmp_path, "cc", "--metrics", "metrics.yaml", *words, "--", "gcc", "-O2", "x.c", "-o", name)
        assert made.returncode == 0, made.stderr
        assert subprocess.run([tmp_path / name], capture_output=True, text=True, check=True).stdout == "523372\n"
        sizes[name] = subprocess.run(
            ["size", tmp_path / name], capture_output=True, text=True, check=True
        ).stdout.split()[6:9]
    assert sizes["counting"] == sizes["sham"]
    listings = {
        name: subprocess.run(
            ["objdump", "-d", "--no-show-raw-insn", tmp_path / name], capture_output=True, text=True, check=True
        ).stdout
        for name in sizes
    }
    assert listings["counting"].count("\tincq") == listings["sham"].count("\tincq") + 2, "one for each site"
