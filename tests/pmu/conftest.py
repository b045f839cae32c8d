"""One boot of the emulated machine runs all cases, and two with other processors a few more.

The tests look at what came back.
"""

from pathlib import Path

import pytest

from tests.pmu.architectures import NEWEST_ARM64
from tests.pmu.cases import COMPILER, Result, build_program, run_cases
from tests.pmu.machine import Machine, prepare_machine
from tests.pmu.matrix import CASES, CASES_OF_ANOTHER
from unperturbed.collectors.runtime import build_observer, build_trials


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
        "list": build_trials(COMPILER),
    }


@pytest.fixture(scope="session")
def results(machine: Machine, programs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """Return what each of `CASES` left."""
    return run_cases(machine, programs, CASES, tmp_path_factory.mktemp("records"), timeout_s=150)


@pytest.fixture(scope="session")
def results_without_pmu(
    machine: Machine, programs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Result]:
    """Return what each of `CASES_OF_ANOTHER` left on a processor without a PMU."""
    folder = tmp_path_factory.mktemp("records-without-pmu")
    return run_cases(machine, programs, CASES_OF_ANOTHER, folder, timeout_s=60, pmu=False)


@pytest.fixture(scope="session")
def results_of_unknown_processor(
    machine: Machine, programs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Result]:
    """Return the same of a processor that has a PMU, of a kind that the library's tables do not know."""
    folder = tmp_path_factory.mktemp("records-of-unknown-processor")
    return run_cases(machine, programs, CASES_OF_ANOTHER, folder, timeout_s=60, cpu=NEWEST_ARM64)
