"""`unperturbed run -- ./program` counts everything that the process runs, and nothing that this tool does within it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.harness.campaign.test_sampling_campaign import traces
from tests.harness.phases_campaign import unperturbed

FEW = ("--runs", "3", "--baseline-runs", "5", "--metrics", "perf::page-faults,perf::task-clock")
CALLS = ("malloc", "calloc", "close", "open", "read", "mmap", "ioctl", "sigaction")

NOTHING = """
#include <pthread.h>
static volatile unsigned long sink;
static void work(int times) { for (int i = 0; i < times; i++) sink = sink * 31 + i; }
static void *part(void *given) { work(1000000); return given; }
int main(int count, char **argument) {
    (void)argument;
    work(60000000);
    for (int i = 0; count > 1 && i < 32; i++) { pthread_t t; pthread_create(&t, 0, part, 0); pthread_join(t, 0); }
    return 0;
}
"""

LIBRARY = """
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
static void *part(void *given) {
    char *page = mmap(0, 4096 * 1000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 1000; i++) page[4096 * i] = 1;
    for (volatile unsigned long i = 0; i < 50000000; i++) {}
    return given;
}
void in_parallel(void) {
    pthread_t t[4];
    for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, part, 0);
    for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
}
"""


def compiled(folder: Path, text: str, name: str, *flags: str) -> None:
    (folder / "source.c").write_text(text)
    subprocess.run(["gcc", "-O1", "-pthread", "source.c", *flags, "-o", name], cwd=folder, check=True)


@pytest.mark.parametrize("sampler", ["inside", "outside"])
@pytest.mark.parametrize("threads", [(), ("32",)], ids=["alone", "threads"])
def test_a_program_that_calls_nothing_has_no_calls(tmp_path: Path, sampler: str, threads: tuple[str, ...]) -> None:
    compiled(tmp_path, NOTHING, "nothing")
    words = (*FEW, "--sampler", sampler, "--count", ",".join(CALLS), "--", "./nothing", *threads)
    done = unperturbed(tmp_path, "run", *words)
    assert done.returncode in (0, 4), done.stderr
    (campaign,) = (tmp_path / "campaigns").glob("*/")
    for trace in traces(campaign, "calls"):
        counted = {name: int(trace[f"calls_{name}"].sum()) for name in CALLS}
        own = 1 if threads else 0  # glibc allocates the first thread's stack guard with calloc, and caches it
        assert counted == dict.fromkeys(CALLS, 0) | {"calloc": own}


def test_threads_that_a_library_starts_are_counted(tmp_path: Path) -> None:
    compiled(tmp_path, LIBRARY, "libparallel.so", "-shared", "-fPIC")
    text = "void in_parallel(void); int main(void) { in_parallel(); return 0; }"
    compiled(tmp_path, text, "parallel", "-L.", "-lparallel", f"-Wl,-rpath,{tmp_path}")
    done = unperturbed(tmp_path, "run", *FEW, "--count", "mmap", "--", "./parallel")
    assert done.returncode in (0, 4), done.stderr
    campaign = tmp_path / "campaigns" / "parallel"
    for trace in traces(campaign, "baseline"):
        assert trace.attributes["sampled_threads"] == 5
        assert 4000 <= int(trace["perf::page-faults"].sum()) < 4100
        assert trace["perf::task-clock"].sum() / 1e9 > 0.8 * trace.attributes["cpu_s"]
    # Without the setting, the same counts are too small, and the terminal says so.
    spec = tmp_path / "campaigns" / "parallel.yaml"
    text = spec.read_text()
    assert "  threads: all" in text
    (tmp_path / "campaigns" / "main.yaml").write_text(
        text.replace("  threads: all", "  threads: main").replace("name: parallel", "name: main")
    )
    less = unperturbed(tmp_path, "run", "campaigns/main.yaml")
    said = " ".join((less.stdout + less.stderr).split())
    assert "counted only in its main thread" in said
    assert "set `threads: all` under `measure` in the spec" in said
    assert int(traces(tmp_path / "campaigns" / "main", "baseline")[0]["perf::page-faults"].sum()) < 1000
