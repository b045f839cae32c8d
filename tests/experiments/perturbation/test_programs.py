"""The programs of the perturbation experiment run the same twice, and each metric is counted where it should be."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from unperturbed.common.user_cache import user_cache
from unperturbed.errors import HostError
from unperturbed.harness.program.build import build_configuration, find_source
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import load_spec

FOLDER = Path(__file__).parents[3] / "experiments" / "perturbation"
SITES = {
    "bzip2": {
        "blocks": 1,
        "rows": 1,
        "buckets": 1,
        "runs": 1,
        "simple": 1,
        "codes": 1,
        "nblock": 14,
        "compares": 1,
        "mtf": 6,
    },
    "chess": {
        "slashes": 1,
        "captures": 1,
        "searches": 1,
        "scored": 1,
        "nodes": 2,
        "attacks": 1,
        "listed": 1,
        "selected": 1,
        "squares": 45,
    },
    "network": {
        "flows": 2,
        "pivots": 1,
        "trees": 1,
        "arcs": 1,
        "ancestors": 1,
        "leaving": 2,
        "relinked": 8,
        "potentials": 1,
        "priced": 2,
    },
    "redcode": {
        "rounds": 1,
        "copied": 1,
        "cleared": 1,
        "deaths": 1,
        "splits": 1,
        "tasks": 3,
        "skips": 1,
        "executed": 1,
        "values": 33,
    },
}
MakeDay = Callable[[int], str]


@pytest.fixture(params=[pytest.param(name, marks=[] if name == "bzip2" else [pytest.mark.long]) for name in SITES])
def program(request: pytest.FixtureRequest) -> CampaignSpec:
    return load_spec(FOLDER / f"{request.param}.yaml")


def source_of(program: CampaignSpec) -> Path:
    """Return the program's source from the user's cache; without registry and cache it cannot be tested."""
    package = str(program.program.debian)
    try:
        source = find_source(program.program, FOLDER)
    except HostError as error:
        if (user_cache() / "sources" / package / "unpacked").is_dir():
            raise
        pytest.skip(f"{package} cannot be fetched: {error}")
    assert source is not None
    return source


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Callable[[CampaignSpec], Path]:
    """Return a function from a program to the folder of its build without counters, which is made once."""
    made: dict[str, Path] = {}

    def folder(program: CampaignSpec) -> Path:
        if program.name not in made:
            place = tmp_path_factory.mktemp(program.name) / "00"
            made[program.name] = build_configuration(
                program.program, source_of(program), place, None, spec_folder=FOLDER
            ).folder
        return made[program.name]

    return folder


def test_each_subset_adds_one_metric_to_the_one_before(program: CampaignSpec) -> None:
    assert program.name in SITES
    before: tuple[str, ...] = ()
    for name, metrics in program.campaign.subsets.items():
        assert tuple(metrics)[:-1] == before
        assert name == f"with-{metrics[-1]}"
        before = tuple(metrics)
    assert sorted(before) == sorted(program.measure.software)


def test_every_spec_measures_the_same_machine_in_the_same_way() -> None:
    machines = [load_spec(FOLDER / f"{name}.yaml").measure for name in SITES]
    for machine in machines:
        assert machine.hardware == machines[0].hardware
        assert machine.simulator == machines[0].simulator
        assert (machine.source, machine.clock) == ("simulated", "work")


@pytest.mark.usefixtures("loaded_wrapper")
def test_each_metric_has_the_places_that_it_should_have(program: CampaignSpec, tmp_path: Path) -> None:
    built = build_configuration(
        program.program, source_of(program), tmp_path / "00", program.measure.software, spec_folder=FOLDER
    )
    assert built.sites == SITES[program.name]
    assert not built.skipped


def test_result_is_the_same_twice(
    program: CampaignSpec, untouched: Callable[[CampaignSpec], Path], tmp_path: Path
) -> None:
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    for name in program.program.inputs:
        (inputs / Path(name).name).write_bytes((FOLDER / name).read_bytes())
    known = {"build": str(untouched(program)), "inputs": str(inputs), "spec": str(FOLDER), "python": sys.executable}
    if program.program.prepare is not None:
        subprocess.run(shlex.split(filled(program.program.prepare, known)), check=True)
    results = [result(program, known, tmp_path / f"run{repetition}") for repetition in range(2)]
    assert results[0] == results[1]
    assert len(results[0]) > 50


def filled(text: str, known: dict[str, str]) -> str:
    for name, value in known.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def result(program: CampaignSpec, known: dict[str, str], folder: Path) -> bytes:
    """Run a program natively; return its standard output and the files that belong to its result."""
    folder.mkdir()
    settings = {name: filled(value, known) for name, value in program.program.environment.items()}
    stdin = filled(program.program.stdin or "/dev/null", known)
    with Path(stdin).open("rb") as given:
        done = subprocess.run(
            ["/bin/sh", "-c", filled(program.program.run, known)],
            cwd=folder,
            stdin=given,
            capture_output=True,
            check=True,
            timeout=60,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", **settings},
        )
    return done.stdout + b"".join((folder / name).read_bytes() for name in program.program.outputs)


# The day of the bus company


def written(tmp_path: Path, trips: int, seed: int) -> list[list[str]]:
    target = tmp_path / "day"
    script = FOLDER / "network" / "make_day.py"
    subprocess.run([sys.executable, script, "--trips", str(trips), "--seed", str(seed), target], check=True)
    return [line.split() for line in target.read_text().splitlines()]


@pytest.mark.parametrize("seed", range(3))
def test_day_has_a_solution_and_as_many_arcs_as_it_says(tmp_path: Path, seed: int) -> None:
    lines = written(tmp_path, 40, seed)
    nodes = {int(line[1]): int(line[2]) for line in lines if line[0] == "n"}
    arcs = [tuple(int(word) for word in line[1:]) for line in lines if line[0] == "a"]
    assert lines[0] == ["p", "min", "81", str(len(arcs))]
    assert sum(nodes.values()) == 0
    # A vehicle of its own for each trip is a solution: the depot sends one to each start and gets one from each end.
    assert {(1, 2 * trip) for trip in range(1, 41)} <= {arc[:2] for arc in arcs}
    assert {(2 * trip + 1, 1) for trip in range(1, 41)} <= {arc[:2] for arc in arcs}
    assert all(cost >= 0 for *_, cost in arcs)


def test_network_simplex_finds_the_cheapest_of_all_assignments(
    untouched: Callable[[CampaignSpec], Path], tmp_path: Path
) -> None:
    folder = untouched(load_spec(FOLDER / "network.yaml"))
    for seed in range(3):
        lines = written(tmp_path, 7, seed)
        arcs = {(int(line[1]), int(line[2])): int(line[5]) for line in lines if line[0] == "a"}
        done = subprocess.run([folder / "transport", tmp_path / "day"], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[0] == f"cost {cheapest(arcs, 7)}"


def cheapest(arcs: dict[tuple[int, int], int], trips: int) -> int:
    """Try for each trip in turn which vehicle makes it: a new one, or one that has just ended another trip."""

    def best(trip: int, ended: frozenset[int]) -> int:
        if trip == trips:
            return sum(arcs[2 * end + 3, 1] for end in ended)
        start, now = 2 * trip + 2, ended | {trip}
        ways = [arcs[1, start] + best(trip + 1, now)]
        ways += [
            arcs[2 * end + 3, start] + best(trip + 1, now - {end}) for end in ended if (2 * end + 3, start) in arcs
        ]
        return min(ways)

    return best(0, frozenset())
