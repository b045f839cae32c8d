"""One boot of the emulated machine runs all cases, and one without a PMU a few more; the tests look at what came back."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from cases import COMPILER, Result, build_program, run_cases
from machine import Machine, prepare_machine
from matrix import CASES, CASES_WITHOUT_PMU

from unperturbed.collectors.runtime_build import build_list, build_observer


@pytest.fixture(scope="session")
def machine() -> Machine:
    return prepare_machine()


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("programs")
    return {
        "work": build_program(folder, "work.c", runtime=True),
        "team": build_program(folder, "team.c", runtime=True),
        "reference": build_program(folder, "reference.c", runtime=False),
        "observer": build_observer(COMPILER),
        "list": build_list(COMPILER),
    }


@pytest.fixture(scope="session")
def results(machine: Machine, programs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """Return what each of `CASES` left."""
    return run_cases(machine, programs, CASES, tmp_path_factory.mktemp("records"), timeout_s=150)


@pytest.fixture(scope="session")
def results_without_pmu(
    machine: Machine, programs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Result]:
    """Return what each of `CASES_WITHOUT_PMU` left on a processor without a PMU."""
    folder = tmp_path_factory.mktemp("records-without-pmu")
    return run_cases(machine, programs, CASES_WITHOUT_PMU, folder, timeout_s=60, pmu=False)
