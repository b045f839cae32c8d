"""A search whose truth is known and whose runs are real and short: a source of counts of another distribution.

The source's two metrics move together, unless the program counts more than so many software metrics: each subset of up
to so many is unperturbed, and each larger one is perturbed. Nothing depends on the processor, nor on how busy it is.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

RECORD = """
from pathlib import Path

from unperturbed.collectors import Metric
from unperturbed.collectors.sources import CatalogueEntry, Event, Source, SourceCatalogue, SourceState, SourceSupport

NAMES = ("toy::a", "toy::b")


def event(name):
    return Event(name) if name in NAMES else None


def metric(name):
    return Metric(name, "hardware", source="toy", meaning="a toy")


def catalogue(trials):
    way = SourceSupport("toy", "hardware", "events", "a toy")
    return SourceCatalogue(SourceState("toy", note="toys"), [CatalogueEntry(name, "a toy", (way,)) for name in NAMES])


TOY = Source(name="toy", title="the toy", order=50, event=event, metric=metric, catalogue=catalogue, prefix="toy::",
             c_file=Path(__file__).with_name("toy.c"), c_name="toy_source")
"""

COUNTING = """
#include <time.h>

static uint32_t crowded, noise;
static int64_t reads, total[2];

static int open_toy(struct unperturbed_counters *counters, struct unperturbed_header *header, pid_t pid)
{
    struct timespec now;
    (void)counters, (void)pid;
    clock_gettime(CLOCK_MONOTONIC, &now);
    noise = (uint32_t)now.tv_nsec | 1;
    crowded = header->software > MOST;
    return 0;
}

static uint32_t draw(uint32_t below)
{
    noise = noise * 1664525u + 1013904223u;
    return (noise >> 16) % below;
}

static int read_toy(struct unperturbed_counters *counters, struct unperturbed_record *record)
{
    int64_t wave = 100 + 10 * (reads % 16 < 8 ? reads % 16 : 16 - reads % 16);
    (void)counters;
    reads++;
    total[0] += wave + draw(7);
    total[1] += (crowded ? 100 + draw(90) : wave) + draw(7);
    record->value[0] = total[0];
    record->value[1] = total[1];
    return 0;
}

static void close_toy(struct unperturbed_counters *counters) { counters->events = 0; }

const struct unperturbed_source toy_source = {open_toy, read_toy, close_toy, 0, 0};
"""

PROGRAM = """
#include <time.h>
#include <unistd.h>

static volatile long sum;
__attribute__((noinline)) static void one(void) { sum += 1; }
__attribute__((noinline)) static void two(void) { sum += 2; }
__attribute__((noinline)) static void three(void) { sum += 3; }

int main(int argc, char **argv)
{
    struct timespec step = {0, 2000000};
    for (int at = 0; at < 60; at++) {
        one();
        two();
        three();
        nanosleep(&step, 0);
    }
    return argc > 1 && access(argv[1], F_OK) == 0;
}
"""

SPEC: dict[str, Any] = {
    "name": "toys",
    "program": {"source": "toys", "build": "{cc} -O1 toys.c -o toys", "run": "{build}/toys {spec}/fail"},
    "measure": {
        "source": "toy",
        "interval": "2 ms",
        "hardware": ["toy::a", "toy::b"],
        "software": {name: {"enter": name} for name in ("one", "two", "three")},
    },
    "campaign": {"baseline_runs": 10, "runs": 6, "seed": 3},
    "analysis": {"align_on": ["toy::a"], "tolerance": 0.6},
}
"""The program fails while there is a file `fail` beside the spec."""


def write_search(folder: Path, nodes: dict[str, Any] | None, *, metrics: int = 3, most: int = 2, **design: Any) -> Path:
    """Write the spec, the program and the source; return the spec's path. Up to `most` of the metrics go together."""
    (folder / "toys").mkdir(parents=True)
    (folder / "toys" / "toys.c").write_text(PROGRAM)
    information = folder / "site" / "toy-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[unperturbed.sources]\ntoy = toy:TOY\n")
    (folder / "site" / "toy.py").write_text(RECORD)
    (folder / "site" / "toy.c").write_text(COUNTING.replace("MOST", str(most)))
    spec = {**SPEC, "campaign": {**SPEC["campaign"], **design}}
    software = dict(list(SPEC["measure"]["software"].items())[:metrics])
    spec["measure"] = {**SPEC["measure"], "software": software}
    if nodes is not None:
        spec["nodes"] = nodes
    (folder / "spec.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
    return folder / "spec.yaml"


def environment(folder: Path, base: dict[str, str] | None = None) -> dict[str, str]:
    """Return the environment in which the source is found, on nodes too."""
    return {**(base or os.environ), "PYTHONPATH": str(folder / "site")}
