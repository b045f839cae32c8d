"""A source of another distribution.

Planned, compiled into the runtime, read at intervals, in the trace, in the catalogue.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from unperturbed.common.user_cache import user_cache

RECORD = """
from pathlib import Path

from unperturbed.collectors import Metric
from unperturbed.collectors.sources import CatalogueEntry, Event, Source, SourceCatalogue, SourceState, SourceSupport

MEANING = "times that the source was read"


def event(name):
    return Event(name) if name == "toy::reads" else None


def metric(name):
    return Metric(name, "os", source="toy", meaning=MEANING)


def catalogue(trials):
    way = SourceSupport("toy", "os", "events", MEANING)
    return SourceCatalogue(SourceState("toy", note="one event"), [CatalogueEntry("toy::reads", "toy event", (way,))])


TOY = Source(name="toy", title="the toy", order=50, event=event, metric=metric, catalogue=catalogue, prefix="toy::",
             c_file=Path(__file__).with_name("toy.c"), c_name="toy_source")
"""

COUNTING = """
static int open_toy(struct unperturbed_counters *counters, struct unperturbed_header *header, pid_t pid)
{
    (void)header, (void)pid;
    counters->total[0] = 0;
    return 0;
}

static int read_toy(struct unperturbed_counters *counters, struct unperturbed_record *record)
{
    record->value[0] = ++counters->total[0];
    return 0;
}

static void close_toy(struct unperturbed_counters *counters) { counters->events = 0; }

const struct unperturbed_source toy_source = {open_toy, read_toy, close_toy, 0, 0};
"""

SPEC = """
name: toy
program:
  run: python3 -c "sum(range(3000000))"
measure:
  source: toy
  sampler: SAMPLER
  interval: 5ms
  hardware: ["toy::reads"]
campaign:
  baseline_runs: 5
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A distribution that offers a source, on the path of a new process."""
    site = tmp_path / "site"
    information = site / "toy-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[unperturbed.sources]\ntoy = toy:TOY\n")
    (site / "toy.py").write_text(RECORD)
    (site / "toy.c").write_text(COUNTING)
    own = tmp_path / "cache" / "unperturbed"
    own.mkdir(parents=True, mode=0o700)
    compiled = user_cache() / "kernels"
    compiled.mkdir(exist_ok=True, mode=0o700)
    (own / "kernels").symlink_to(compiled)  # the report's loops take 18 s of CPU time to compile
    return {**os.environ, "PYTHONPATH": str(site), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def unperturbed(*arguments: str, folder: Path, environment: dict[str, str]) -> str:
    command = [sys.executable, "-m", "unperturbed.harness.cli", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_catalogue_lists_it(tmp_path: Path, environment: dict[str, str]) -> None:
    listing = json.loads(unperturbed("metrics", "--json", "toy::*", folder=tmp_path, environment=environment))
    assert [(metric["name"], metric["source"]) for metric in listing["metrics"]] == [("toy::reads", "toy")]
    assert "one event" in unperturbed("metrics", "--source", "toy", folder=tmp_path, environment=environment)


def test_its_few_metrics_are_those_of_a_program_that_is_run_without_a_spec(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    code = "from unperturbed.harness.drafts.metrics import choose_hardware; print(choose_hardware((), 'toy').names)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("('toy::reads',)\n", "")


def test_other_sources_do_not_refuse_its_names(tmp_path: Path, environment: dict[str, str]) -> None:
    code = (
        "from unperturbed.collectors.passes import plan_passes\n"
        "from unperturbed.collectors.sources.callgrind import Machine\n"
        "from unperturbed.errors import HostError\n"
        "try: plan_passes(['toy::writes'], source='auto', machine=Machine(), compiler='gcc')\n"
        "except HostError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert "toy: " in done.stdout
    assert "papi" not in done.stdout


@pytest.mark.parametrize("sampler", ["inside", "outside"])
def test_a_campaign_counts_by_it(tmp_path: Path, environment: dict[str, str], sampler: str) -> None:
    (tmp_path / "toy.yaml").write_text(SPEC.replace("SAMPLER", sampler))
    unperturbed("run", "toy.yaml", "--campaign", "campaign", folder=tmp_path, environment=environment)
    from unperturbed.collectors import Trace

    traces = [Trace.read(path) for path in sorted((tmp_path / "campaign/runs").glob("*/trace.parquet"))]
    assert len(traces) >= 2
    for trace in traces:
        assert trace.metrics["toy::reads"].source == "toy"
        assert len(trace) > 3
        assert list(trace["toy::reads"]) == [1] * len(trace)
    assert "the toy" in (tmp_path / "campaign/report.html").read_text()


def test_a_program_that_was_built_without_it_is_refused(tmp_path: Path, environment: dict[str, str]) -> None:
    text = f"""
import subprocess
from pathlib import Path
from unperturbed.collectors.records.file import Setup, create_record_file, read_record_file
from unperturbed.collectors.sources import Event

setup = Setup("toy", 1_000_000, "monotonic", (Event("toy::reads"),))
create_record_file(Path("record"), setup)
subprocess.run([{str(_built_without(tmp_path))!r}], env={{"UNPERTURBED_RECORD": "record"}}, check=True)
print(read_record_file(Path("record"), setup).message)
"""
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert "built before this source of counts was installed" in done.stdout


def _built_without(folder: Path) -> Path:
    from unperturbed.collectors.runtime import BOUNDS, runtime_files

    (folder / "program.c").write_text("int main(void) { return 0; }\n")
    sources = [BOUNDS[0], folder / "program.c", *runtime_files(), BOUNDS[1]]
    command = ["gcc", "-std=gnu11", "-DUNPERTURBED_EXECUTABLE", *map(str, sources), "-o", str(folder / "program")]
    subprocess.run([*command, "-ldl", "-lrt", "-lpthread"], check=True)
    return folder / "program"
