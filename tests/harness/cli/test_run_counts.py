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
    (tmp_path / "campaigns" / "main.yaml").write_text(
        text.replace("measure:\n", "measure:\n  threads: main\n").replace("name: parallel", "name: main")
    )
    less = unperturbed(tmp_path, "run", "campaigns/main.yaml")
    said = " ".join((less.stdout + less.stderr).split())
    assert "counted only in its main thread" in said
    assert "set `threads: all` under `measure` in the spec" in said
    assert int(traces(tmp_path / "campaigns" / "main", "baseline")[0]["perf::page-faults"].sum()) < 1000


CONSTRUCTED = """
#include <stdlib.h>
static volatile unsigned long sink;
void step(int i) { sink += i; }
__attribute__((constructor)) static void early(void) { for (int i = 0; i < 1000; i++) { step(i); free(malloc(10)); } }
int main(void) {
    for (unsigned i = 0; i < 60000000; i++) sink = sink * 31 + i;
    for (int i = 0; i < 50; i++) { step(i); free(malloc(20)); }
    return 0;
}
"""


@pytest.mark.parametrize("builds", ["separate", "one"])
def test_events_of_constructors_are_counted_or_named(tmp_path: Path, builds: str) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "early.c").write_text(CONSTRUCTED)
    text = (
        "name: {sampler}\nprogram:\n  source: source\n  build: '{{cc}} -O1 -fno-builtin early.c -o early'\n"
        "  run: '{{build}}/early'\nmeasure:\n  interval: 4 ms\n  source: perf_event\n  sampler: {sampler}\n"
        "  hardware: ['perf::task-clock']\n  software:\n    steps: {{enter: step}}\n    mallocs: {{preload: malloc}}\n"
        "campaign:\n  baseline_runs: 5\n  runs: 3\n  subsets: {{every: [steps, mallocs]}}\n  seed: 1\n"
    ) + ("  builds: separate\n" if builds == "separate" else "")
    said = {}
    for sampler, counted in (("inside", 50), ("outside", 1050)):
        (tmp_path / f"{sampler}.yaml").write_text(text.format(sampler=sampler))
        done = unperturbed(tmp_path, "run", f"{sampler}.yaml")
        assert done.returncode in (0, 4), done.stderr
        said[sampler] = " ".join((done.stdout + done.stderr).split())
        for trace in traces(tmp_path / "campaigns" / sampler, "every"):
            assert [int(trace[name].sum()) for name in ("steps", "mallocs")] == [counted, counted]
    for name in ("steps", "mallocs"):
        assert f"{name}: 1,000 events happened before the first interval, in constructors" in said["inside"]
    assert "before the first interval" not in said["outside"]


WORK = """
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile unsigned long sink;
static void work(void) { for (unsigned i = 0; i < 30000000; i++) sink = sink * 31 + i; }
"""
FORKS = (
    "int main(void) { for (int i = 0; i < 3; i++) if (fork() == 0) { work(); _exit(0); }\n"
    "    for (int i = 0; i < 3; i++) wait(0); return 0; }"
)
CLOSES = "int main(void) { for (int i = 3; i < 1024; i++) close(i); work(); work(); return 0; }"
EXECUTES = (
    "int main(int count, char **argument) { char *again[] = {argument[0], argument[0], 0};\n"
    '    if (count < 2) { execv("/proc/self/exe", again); return 9; } work(); work(); return 0; }'
)
PLAIN = "int main(void) { work(); work(); return 0; }"
SOME = ("--runs", "3", "--baseline-runs", "5", "--metrics", "perf::task-clock", "--count", "malloc")


@pytest.mark.parametrize(
    ("text", "flags", "cause", "advised", "works"),
    [
        (CLOSES, (), "closed the sampler's file descriptors", "--sampler outside", ("--sampler", "outside")),
        (
            PLAIN,
            ("-fsanitize=address",),
            "built with AddressSanitizer",
            "--env ASAN_OPTIONS=verify_asan_link_order=0",
            ("--env", "ASAN_OPTIONS=verify_asan_link_order=0"),
        ),
    ],
    ids=["closes", "sanitizer"],
)
def test_a_refusal_names_the_cause_and_the_option_that_works(
    tmp_path: Path, text: str, flags: tuple[str, ...], cause: str, advised: str, works: tuple[str, ...]
) -> None:
    compiled(tmp_path, WORK + text, "worker", *flags)
    refused = unperturbed(tmp_path, "run", *SOME, "--name", "refused", "--", "./worker")
    assert refused.returncode not in (0, 4)
    said = " ".join(refused.stderr.split())
    assert cause in said
    assert advised in said
    done = unperturbed(tmp_path, "run", *SOME, "--name", "works", *works, "--", "./worker")
    assert done.returncode in (0, 4), done.stderr
    for trace in traces(tmp_path / "campaigns" / "works", "baseline"):
        assert trace["perf::task-clock"].sum() / 1e9 > 0.7 * trace.attributes["cpu_s"]


@pytest.mark.parametrize("text", [FORKS, EXECUTES], ids=["forks", "executes itself"])
@pytest.mark.parametrize("sampler", ["inside", "outside"])
def test_all_processes_of_a_program_are_counted(tmp_path: Path, text: str, sampler: str) -> None:
    compiled(tmp_path, WORK + text, "worker")
    done = unperturbed(tmp_path, "run", *SOME, "--sampler", sampler, "--", "./worker")
    assert done.returncode in (0, 4), done.stderr
    for trace in traces(tmp_path / "campaigns" / "worker", "baseline"):
        assert trace["perf::task-clock"].sum() / 1e9 > 0.7 * trace.attributes["cpu_s"]
