"""Runs of a real MPI program, by MPICH, Open MPI and Slurm: ranks, what starts them, waiting, and faults."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import unperturbed as up
from tests.harness.nodes.slurm import cluster, lacking
from tests.harness.phases_campaign import unperturbed
from tools.tutorials import PAGES, blocks
from unperturbed.collectors.data import Trace

HEAT = Path(__file__).with_name("heat.c")
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
KINDS = ("mpich", "openmpi")
KERNEL = {"source": "perf_event", "hardware": ["perf::task-clock", "perf::page-faults"], "interval": "1 ms"}


def _spec(folder: Path, program: Mapping[str, Any], subsets: Mapping[str, Any] | None = None, **measure: Any) -> Path:
    content = {
        "name": "heat",
        "program": {"environment": ENVIRONMENT, **program},
        "measure": {**KERNEL, **measure},
        "campaign": {"baseline_runs": 5, "runs": 3, **({"subsets": subsets} if subsets else {})},
    }
    spec = folder / "heat.yaml"
    spec.write_text(json.dumps(content))
    return spec


def _compiled(folder: Path, kind: str, text: str = "") -> Path:
    source = folder / "heat.c"
    source.write_text(text or HEAT.read_text())
    subprocess.run([f"mpicc.{kind}", "-O2", source, "-o", folder / "heat"], check=True)
    return folder / "heat"


def _traces(folder: Path) -> list[Trace]:
    runs = sorted((folder / "campaigns" / "heat" / "runs").glob("0*/trace.parquet"))
    return [Trace.read(run) for run in runs if run.parent.name != "0000"]


@pytest.mark.parametrize("kind", KINDS)
def test_each_rank_has_a_trace_and_what_starts_it_has_none(tmp_path: Path, kind: str) -> None:
    program = _compiled(tmp_path, kind)
    done = unperturbed(tmp_path, "run", _spec(tmp_path, {"run": f"mpirun.{kind} -np 2 {program} 20000 1000 0.75"}))
    assert done.returncode == 0, done.stderr
    traces = _traces(tmp_path)
    assert len(traces) == 5
    for number, trace in enumerate(traces, 1):
        told = trace.attributes["processes"]
        assert [(rank["rank"], rank["image"], rank["processes"]) for rank in told] == [(0, "heat", 1), (1, "heat", 1)]
        # Two for each step, and one for each fifth
        assert [rank["totals"]["mpi_waits"] for rank in told] == [2200, 2200]
        for rank in told:
            assert 0 < rank["totals"]["mpi_wait_ns"] < 1e9 * rank["seconds"]
        folder = tmp_path / "campaigns" / "heat" / "runs" / f"{number:04d}" / "processes"
        parts = [Trace.read(file) for file in sorted(folder.iterdir())]
        assert [part.attributes["processes"][0]["rank"] for part in parts] == [0, 1]
        for name in ("perf::task-clock", "mpi_waits"):
            assert [int(part[name].sum()) for part in parts] == [rank["totals"][name] for rank in told]


LARGE = """
#include <mpi.h>
#include <stdio.h>
extern int MPI_Bcast_c(void *, MPI_Count, MPI_Datatype, int, MPI_Comm) __attribute__((weak));
extern int MPI_Allreduce_c(const void *, void *, MPI_Count, MPI_Datatype, MPI_Op, MPI_Comm) __attribute__((weak));
extern int MPI_Sendrecv_c(const void *, MPI_Count, MPI_Datatype, int, int, void *, MPI_Count, MPI_Datatype, int, int,
                          MPI_Comm, MPI_Status *) __attribute__((weak));
int main(int argc, char **argv) {
    int rank;
    long sum = 0, all = 0, others = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int step = 0; step < 50; step++) {
        for (volatile int i = 0; i < 500000; i++) sum += i % (rank + 2);
        (MPI_Bcast_c ? MPI_Bcast_c(&sum, 1, MPI_LONG, 0, MPI_COMM_WORLD)
                     : MPI_Bcast(&sum, 1, MPI_LONG, 0, MPI_COMM_WORLD));
        (MPI_Allreduce_c ? MPI_Allreduce_c(&sum, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD)
                         : MPI_Allreduce(&sum, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
        (MPI_Sendrecv_c ? MPI_Sendrecv_c(&all, 1, MPI_LONG, 1 - rank, 0, &others, 1, MPI_LONG, 1 - rank, 0,
                                         MPI_COMM_WORLD, MPI_STATUS_IGNORE)
                        : MPI_Sendrecv(&all, 1, MPI_LONG, 1 - rank, 0, &others, 1, MPI_LONG, 1 - rank, 0,
                                       MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    if (rank == 0) printf("%ld %ld\\n", sum, others);
    MPI_Finalize();
    return 0;
}
"""
"""Asks for MPI 4's large counts as mpi4py does. MPICH 4 has them, Open MPI 4 has not."""


@pytest.mark.parametrize("kind", KINDS)
def test_calls_with_large_counts_are_counted(tmp_path: Path, kind: str) -> None:
    program = _compiled(tmp_path, kind, LARGE)
    done = unperturbed(tmp_path, "run", _spec(tmp_path, {"run": f"mpirun.{kind} -np 2 {program}"}))
    assert done.returncode == 0, done.stderr
    for trace in _traces(tmp_path):
        assert [rank["totals"]["mpi_waits"] for rank in trace.attributes["processes"]] == [150, 150]


VECTORS = """
#include <mpi.h>
#include <stdio.h>
typedef const MPI_Count C;
typedef const MPI_Aint D;
typedef MPI_Datatype T;
#define WEAK __attribute__((weak))
extern int MPI_Gatherv_c(const void *, MPI_Count, T, void *, C *, D *, T, int, MPI_Comm) WEAK;
extern int MPI_Scatterv_c(const void *, C *, D *, T, void *, MPI_Count, T, int, MPI_Comm) WEAK;
extern int MPI_Allgatherv_c(const void *, MPI_Count, T, void *, C *, D *, T, MPI_Comm) WEAK;
extern int MPI_Alltoallv_c(const void *, C *, D *, T, void *, C *, D *, T, MPI_Comm) WEAK;
extern int MPI_Alltoallw_c(const void *, C *, D *, const T *, void *, C *, D *, const T *, MPI_Comm) WEAK;
extern int MPI_Reduce_scatter_c(const void *, void *, C *, T, MPI_Op, MPI_Comm) WEAK;
extern int MPI_Neighbor_allgatherv_c(const void *, MPI_Count, T, void *, C *, D *, T, MPI_Comm) WEAK;
extern int MPI_Neighbor_alltoallv_c(const void *, C *, D *, T, void *, C *, D *, T, MPI_Comm) WEAK;
extern int MPI_Neighbor_alltoallw_c(const void *, C *, D *, const T *, void *, C *, D *, const T *, MPI_Comm) WEAK;
#define CALL(name, large, small) ((void *)MPI_##name##_c ? MPI_##name##_c large : MPI_##name small)
static unsigned long from[8], to[8], sum;
static void add(void) { for (int i = 0; i < 8; i++) { sum = sum * 31 + to[i]; to[i] = 0; from[i] += sum % 97; } }
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm world = MPI_COMM_WORLD, line, self[2];
    T L = MPI_LONG, types[2] = {MPI_LONG, MPI_LONG};
    int rank, two = 2, other, one = 1, m[2];
    int n[2] = {1, 2}, at[2] = {0, 3}, bytes[2] = {0, 24}, ends[2] = {2, 2};
    MPI_Comm_rank(world, &rank);
    other = 1 - rank;
    MPI_Count N[2] = {1, 2}, M[2], E[2] = {2, 2};
    MPI_Aint A[2] = {0, 3}, B[2] = {0, 24};
    m[0] = m[1] = rank + 1, M[0] = M[1] = rank + 1;
    MPI_Cart_create(world, 1, &two, &one, 0, &line);
    MPI_Dist_graph_create_adjacent(world, 1, &other, MPI_UNWEIGHTED, 1, &other, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, self);
    MPI_Graph_create(world, 2, (int[]){1, 2}, (int[]){1, 0}, 0, self + 1);
    for (int step = 0; step < 30; step++) {
        for (volatile int i = 0; i < 500000; i++) sum += i % (rank + 2);
        sum = step;
        int own = rank + 1;
        CALL(Gatherv, (from, own, L, to, rank ? NULL : N, rank ? NULL : A, L, 0, world),
             (from, own, L, to, n, at, L, 0, world)); add();
        CALL(Scatterv, (from, rank ? NULL : N, rank ? NULL : A, L, to, own, L, 0, world),
             (from, n, at, L, to, own, L, 0, world)); add();
        CALL(Allgatherv, (from, own, L, to, N, A, L, world), (from, own, L, to, n, at, L, world)); add();
        CALL(Alltoallv, (from, N, A, L, to, M, A, L, world), (from, n, at, L, to, m, at, L, world)); add();
        CALL(Alltoallv, (MPI_IN_PLACE, NULL, NULL, L, to, E, A, L, world),
             (MPI_IN_PLACE, NULL, NULL, L, to, ends, at, L, world)); add();
        CALL(Alltoallw, (from, N, B, types, to, M, B, types, world),
             (from, n, bytes, types, to, m, bytes, types, world));
        add();
        CALL(Reduce_scatter, (from, to, N, L, MPI_SUM, world), (from, to, n, L, MPI_SUM, world)); add();
        CALL(Neighbor_allgatherv, (from, 2, L, to, E, A, L, line), (from, 2, L, to, ends, at, L, line)); add();
        for (int kind = 0; kind < 2; kind++) {
            CALL(Neighbor_allgatherv, (from, 2, L, to, E, A, L, self[kind]), (from, 2, L, to, ends, at, L, self[kind]));
            add();
        }
        CALL(Neighbor_alltoallv, (from, E, A, L, to, E, A, L, line), (from, ends, at, L, to, ends, at, L, line)); add();
        CALL(Neighbor_alltoallw, (from, E, B, types, to, E, B, types, line),
             (from, ends, B, types, to, ends, B, types, line)); add();
    }
    if (rank == 0) printf("%ld\\n", sum);
    MPI_Finalize();
    return 0;
}
"""
"""All vector collectives with large counts, if there are some; what it prints must be the same without them."""


@pytest.mark.parametrize("kind", KINDS)
def test_vector_collectives_with_large_counts_are_counted(tmp_path: Path, kind: str) -> None:
    program = _compiled(tmp_path, kind, VECTORS)
    done = unperturbed(tmp_path, "run", _spec(tmp_path, {"run": f"mpirun.{kind} -np 2 {program}"}))
    assert done.returncode == 0, done.stderr
    for trace in _traces(tmp_path):
        assert [rank["totals"]["mpi_waits"] for rank in trace.attributes["processes"]] == [12 * 30, 12 * 30]


MPI4PY = """
import sys
from mpi4py import MPI
world = MPI.COMM_WORLD
rank, total = world.Get_rank(), 0
for step in range(40):
    own = sum(i * i for i in range(12000 if rank == 0 else 3000))
    total = (total + world.allreduce(own)) % 1000003
    world.Barrier()
if rank == 0:
    print(world.Get_size(), total)
"""


@pytest.mark.parametrize(
    "measure",
    [
        pytest.param({}, id="counted"),
        pytest.param({"source": "simulated", "hardware": ["PAPI_TOT_INS"]}, id="simulated", marks=pytest.mark.long),
    ],
)
def test_ranks_of_mpi4py_are_counted(tmp_path: Path, measure: dict[str, Any]) -> None:
    """Debian's, of Open MPI; MPI is loaded by an import, without a program that is linked with it."""
    python = "/usr/bin/python3"
    if subprocess.run([python, "-c", "import mpi4py"], capture_output=True, check=False).returncode:
        pytest.skip("not installed: python3-mpi4py")
    (tmp_path / "ring.py").write_text(MPI4PY)
    if measure:
        measure = {**measure, "interval": {"records": 60}}
    program = {"run": f"mpirun.openmpi -np 2 {python} {{spec}}/ring.py"}
    done = unperturbed(tmp_path, "run", _spec(tmp_path, program, **measure))
    assert done.returncode == 0, done.stderr
    instructions = []
    for trace in _traces(tmp_path):
        told = trace.attributes["processes"]
        assert [rank["rank"] for rank in told] == [0, 1]
        assert all(rank["totals"]["mpi_waits"] >= 80 for rank in told)
        # Rank 1 has a quarter of the work, and waits for the rest.
        assert told[1]["totals"]["mpi_wait_ns"] > told[0]["totals"]["mpi_wait_ns"]
        instructions.append([rank["totals"].get("PAPI_TOT_INS", 1) for rank in told])
    for of_rank in zip(*instructions, strict=True):  # without what a rank executes while it waits
        assert max(of_rank) < 1.05 * min(of_rank)


HYBRID = """
#include <mpi.h>
#include <pthread.h>
static void work(int n) { for (volatile long k = 0; k < n * 100000L; k++) { } }
static void *helper(void *unused) { work(40); return unused; }
int main(int argc, char **argv) {
    int rank, provided;
    pthread_t threads[2];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i <= rank; i++) pthread_create(&threads[i], 0, helper, 0);
    work(40);
    for (int i = 0; i <= rank; i++) pthread_join(threads[i], 0);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
"""


@pytest.mark.parametrize("kind", KINDS)
def test_threads_of_each_rank_have_traces(tmp_path: Path, kind: str) -> None:
    """Also where a shell starts the program of a rank. Which rank begins first varies from run to run."""
    program = _compiled(tmp_path, kind, HYBRID)
    script = tmp_path / "rank.sh"
    script.write_text(f"#!/bin/sh\n{program}\nexit $?\n")
    script.chmod(0o755)
    spec = _spec(tmp_path, {"run": f"mpirun.{kind} -np 2 {script}"}, threads="each")
    done = unperturbed(tmp_path, "run", spec)
    assert done.returncode == 0, done.stderr
    for number, trace in enumerate(_traces(tmp_path), 1):
        threads = {thread["role"]: thread for thread in trace.attributes["threads"]}
        own = {role for role in threads if "helper" in role or "main" in role}  # MPI has threads, too
        assert own == {"rank 0/main", "rank 1/main", "rank 0/helper#1", "rank 1/helper#1", "rank 1/helper#2"}
        assert "threads_without_traces" not in trace.attributes
        for file in (tmp_path / "campaigns" / "heat" / "runs" / f"{number:04d}" / "threads").iterdir():
            alone = Trace.read(file)
            thread = threads[alone.attributes["role"]]
            assert alone.attributes["thread"] == thread["number"] == int(file.stem)
            assert alone["perf::task-clock"].sum() == thread["totals"]["perf::task-clock"]
        for rank in trace.attributes["processes"]:
            of_rank = [one["totals"] for role, one in threads.items() if role.startswith(f"rank {rank['rank']}/")]
            counted = sum(totals["perf::task-clock"] for totals in of_rank)
            assert 0.8 * rank["totals"]["perf::task-clock"] < counted <= rank["totals"]["perf::task-clock"]


@pytest.mark.long
def test_children_of_a_rank_belong_to_it(tmp_path: Path) -> None:
    program = _compiled(tmp_path, "mpich")
    script = tmp_path / "rank.sh"
    script.write_text(f"#!/bin/sh\n{program} 20000 1000 0.5\nexit $?\n")
    script.chmod(0o755)
    done = unperturbed(tmp_path, "run", _spec(tmp_path, {"run": f"mpirun.mpich -np 2 {script}"}))
    assert done.returncode == 0, done.stderr
    for trace in _traces(tmp_path):
        told = trace.attributes["processes"]
        assert [(rank["rank"], rank["processes"], rank["totals"]["mpi_waits"]) for rank in told] == [
            (0, 2, 2200),
            (1, 2, 2200),
        ]


@pytest.mark.parametrize(
    ("kind", "subsets"),
    [
        ("mpich", None),
        pytest.param("mpich", {"summing": ["sums"]}, marks=pytest.mark.long, id="mpich, with a subset"),
        pytest.param("openmpi", None, marks=pytest.mark.long),  # its start takes three times as long
    ],
)
def test_simulated_counts_leave_waiting_out_and_so_repeat(
    tmp_path: Path, kind: str, subsets: dict[str, list[str]] | None
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "heat.c").write_text(HEAT.read_text())
    variable = {"mpich": "MPICH_CC", "openmpi": "OMPI_CC"}[kind]
    spec = _spec(
        tmp_path,
        {
            "source": "src",
            "build": f"env {variable}={{cc}} mpicc.{kind} -O2 heat.c -o heat",
            "run": f"mpirun.{kind} -np 2 {{build}}/heat 2000 400 0.75",
        },
        subsets,
        source="simulated",
        hardware=["PAPI_TOT_INS", "PAPI_BR_INS"],
        interval={"every": 10, "of": "steps"},
        software={"steps": {"enter": "exchange"}, **({"sums": {"enter": "total"}} if subsets else {})},
    )
    done = unperturbed(tmp_path, "run", spec)
    assert done.returncode in (0, 4), done.stderr
    counted: dict[int, list[int]] = {0: [], 1: []}
    for trace in _traces(tmp_path):
        starters = {process["image"] for process in trace.attributes["launchers"]}
        assert f"mpirun.{kind}" in starters
        for rank in trace.attributes["processes"]:
            assert (rank["intervals"], rank["totals"]["steps"]) == (41, 400)
            counted[rank["rank"]].append(rank["totals"]["PAPI_TOT_INS"])
    for counts in counted.values():  # waiting included, they differ by more than a half
        assert max(counts) < 1.01 * min(counts), counted
    found = json.loads((tmp_path / "campaigns" / "heat" / "verdicts.json").read_text())["ranks"]
    checked = up.Campaign(tmp_path / "campaigns" / "heat").check().ranks
    assert checked is not None
    assert checked.to_dict()["imbalance"] == found["imbalance"]
    judged = {each["configuration"]: list(each["by_rank"]) for each in found["verdicts"]}
    assert judged == ({"summing": ["rank 0", "rank 1"]} if subsets else {})
    assert found["imbalance"]["PAPI_TOT_INS"]["largest"] == "rank 0"
    assert 1.4 < found["imbalance"]["PAPI_TOT_INS"]["low"] < found["imbalance"]["PAPI_TOT_INS"]["high"] < 1.5
    assert {rank: each["calls"] for rank, each in found["waiting"].items()} == {"rank 0": 880, "rank 1": 880}
    assert min(counted[0]) > 2 * max(counted[1])  # three quarters of the cells against one, and the start of both


FAULTS = {
    "abort": ("MPI_Abort(MPI_COMM_WORLD, 7);", "ended with exit code"),
    "kill": ("raise(9);", "ended with exit code|was killed by SIGKILL"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_rank_that_fails_ends_the_run_with_its_reason(tmp_path: Path, kind: str, fault: str) -> None:
    statement, reason = FAULTS[fault]
    text = HEAT.read_text().replace("#include <mpi.h>", "#include <mpi.h>\n#include <signal.h>")
    late = f'    double heat = 0;\n    if (rank == 1 && getenv("UNPERTURBED_RECORD")) {{ {statement} }}\n'
    program = _compiled(tmp_path, kind, text.replace("    double heat = 0;\n", late))
    done = unperturbed(tmp_path, "run", _spec(tmp_path, {"run": f"mpirun.{kind} -np 2 {program} 20000 1000 0.5"}))
    assert done.returncode == 1
    said = " ".join(done.stderr.split())
    assert any(part in said for part in reason.split("|")), said


def test_srun_is_refused_where_its_ranks_are_not_seen(tmp_path: Path) -> None:
    for measure, why in (
        ({"sampler": "outside"}, "where an observer does not see them"),
        ({"source": "simulated", "hardware": ["PAPI_TOT_INS"]}, "sees only what it starts"),
    ):
        done = unperturbed(tmp_path, "run", _spec(tmp_path, {"run": "srun -n 2 true"}, **measure))
        assert done.returncode == 2
        assert "heat.yaml:1:" in done.stderr
        assert why in " ".join(done.stderr.split())


needs_slurm = pytest.mark.skipif(bool(lacking()), reason=f"not installed: {', '.join(lacking())}")


@pytest.fixture
def slurm_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a short name: sockets of Slurm are in it, and their paths have at most 107 bytes."""
    return tmp_path_factory.mktemp("slurm")


@needs_slurm
@pytest.mark.parametrize(("kind", "plugin"), [("mpich", "pmi2"), ("openmpi", "pmix")])
def test_ranks_of_srun_are_counted_by_slurm(tmp_path: Path, slurm_folder: Path, kind: str, plugin: str) -> None:
    program = _compiled(tmp_path, kind)
    run = f"srun --nodes=1 --ntasks=2 --overcommit --mpi={plugin} {program} 20000 1000 0.75"
    with cluster(slurm_folder) as slurm:
        # Ranks that wait for each other on shared processors may take many times as long as in the pilot run.
        spec = _spec(tmp_path, {"run": run}, interval="10 ms")
        done = unperturbed(tmp_path, "run", spec, environment=slurm.environment)
    assert done.returncode == 0, done.stderr
    for trace in _traces(tmp_path):
        told = trace.attributes["processes"]
        assert [(rank["rank"], rank["totals"]["mpi_waits"]) for rank in told] == [(0, 2200), (1, 2200)]


NODES = "the ranks of the run are on several nodes, whose clocks and process numbers differ"


@needs_slurm
def test_ranks_on_several_nodes_of_slurm_are_refused(tmp_path: Path, slurm_folder: Path) -> None:
    program = _compiled(tmp_path, "mpich")
    spec = _spec(tmp_path, {"run": f"srun --nodes=2 --ntasks=2 --mpi=pmi2 {program} 20000 1000 0.75"})
    with cluster(slurm_folder) as slurm:
        done = unperturbed(tmp_path, "run", spec, environment=slurm.environment)
    assert done.returncode == 1
    assert NODES in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    "variables",
    [
        {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
        {"PMI_RANK": "0", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "2"},
    ],
)
def test_ranks_of_which_some_are_elsewhere_are_refused(tmp_path: Path, variables: dict[str, str]) -> None:
    """As `mpirun` with a list of hosts tells its ranks; there is one host here."""
    (tmp_path / "rank.sh").write_text("#!/bin/sh\ni=0\nwhile [ $i -lt 30000 ]; do i=$((i+1)); done\n")
    (tmp_path / "rank.sh").chmod(0o755)
    spec = _spec(tmp_path, {"environment": variables, "run": str(tmp_path / "rank.sh")})
    done = unperturbed(tmp_path, "run", spec)
    assert done.returncode == 1
    assert NODES in " ".join(done.stderr.split())


def _on_nodes(spec: Path, **campaign: int) -> None:
    content = json.loads(spec.read_text())
    content["nodes"] = {"engine": "slurm", "count": 2}
    content["campaign"].update(campaign)
    spec.write_text(json.dumps(content))


@needs_slurm
def test_srun_on_a_node_starts_ranks_in_the_job_of_the_part(tmp_path: Path, slurm_folder: Path) -> None:
    """With a job of its own, it would wait for a node that no part has."""
    program = _compiled(tmp_path, "mpich")
    script = tmp_path / "rank.sh"
    script.write_text(
        f'#!/bin/sh\necho "$SLURM_JOB_ID $SLURMD_NODENAME" >> {tmp_path}/places\nexec {program} 20000 500 0.75\n'
    )
    script.chmod(0o755)
    spec = _spec(tmp_path, {"run": f"srun --nodes=1 --ntasks=2 --mpi=pmi2 {script}"})
    _on_nodes(spec, baseline_runs=10)
    with cluster(slurm_folder) as slurm:
        done = unperturbed(tmp_path, "run", spec, environment=slurm.environment)
    assert done.returncode == 0, done.stderr
    places = {tuple(line.split()) for line in (tmp_path / "places").read_text().splitlines()}
    nodes = dict(sorted(places, key=lambda place: place[1]))
    assert len(places) == len(nodes) == 2, places  # two jobs, those of the parts, each on its node
    traces = sorted((tmp_path / "campaigns" / "heat" / "nodes").glob("0*/runs/0*/trace.parquet"))
    counted = [Trace.read(trace) for trace in traces if trace.parent.name != "0000"]
    assert len(counted) == 10
    for trace in counted:
        told = trace.attributes["processes"]
        assert [(rank["rank"], rank["totals"]["mpi_waits"]) for rank in told] == [(0, 1100), (1, 1100)]


@pytest.mark.long
@needs_slurm
def test_ranks_of_all_nodes_have_verdicts(tmp_path: Path, slurm_folder: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "heat.c").write_text(HEAT.read_text())
    spec = _spec(
        tmp_path,
        {
            "source": "src",
            "build": "env MPICH_CC={cc} mpicc.mpich -O2 heat.c -o heat",
            "run": "mpirun.mpich -np 2 {build}/heat 2000 400 0.75",
        },
        {"summing": ["sums"]},
        source="simulated",
        hardware=["PAPI_TOT_INS", "PAPI_BR_INS"],
        interval={"every": 10, "of": "steps"},
        software={"steps": {"enter": "exchange"}, "sums": {"enter": "total"}},
    )
    _on_nodes(spec, baseline_runs=10, runs=4)
    with cluster(slurm_folder) as slurm:
        done = unperturbed(tmp_path, "run", spec, environment=slurm.environment)
    assert done.returncode in (0, 4), done.stderr
    (found,) = json.loads((tmp_path / "campaigns" / "heat" / "nodes.json").read_text())["ranks"]
    ranks = {rank.partition("/")[2] for rank in found["by_rank"]}
    assert (len(found["by_rank"]), ranks) == (4, {"rank 0", "rank 1"})
    assert "Verdicts by rank" in (tmp_path / "campaigns" / "heat" / "report.html").read_text()


def test_ranks_without_a_sampler_are_said(tmp_path: Path) -> None:
    """A static program: the launcher alone could be sampled, and is not."""
    (tmp_path / "still.c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-static", "still.c", "-o", "still"], cwd=tmp_path, check=True)
    done = unperturbed(tmp_path, "run", _spec(tmp_path, {"run": f"mpirun.mpich -np 2 {tmp_path / 'still'}"}))
    assert done.returncode != 0
    assert "a rank that is not built here must be linked dynamically" in " ".join(done.stderr.split())


def test_the_tutorial_measures_this_program() -> None:
    assert next(block.text for block in blocks(PAGES["mpi"]) if block.title == "heat.c") == HEAT.read_text()
