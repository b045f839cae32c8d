"""Shared by all tests: examples are found afresh but reproducibly, and a busy machine fails nothing."""

import gc
import os
from collections.abc import Generator

import pytest
from hypothesis import settings

# The same examples each time: more of them would find nothing new.
settings.register_profile("steady", deadline=None, derandomize=True, print_blob=True, max_examples=50)
settings.load_profile("steady")

# Tests start hundreds of commands: what these load is compiled once, whatever the host prefers.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

_LONGEST_FIRST = (
    "tests/docs/",
    "tests/instrument/real/",
    "tests/harness/campaign/",
    "tests/harness/cli/",
    "tests/harness/",
    "tests/attacks/",
    "tests/experiments/",
    "tests/instrument/",
    "tests/processes/",
    "tests/pages/",
)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Use all processors for folders, and this process for single files, which workers would only delay."""
    if config.args and all(".py" in argument for argument in config.args):
        return 0
    config.option.dist = "loadfile"
    return os.cpu_count() or 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep what is loaded for all tests out of garbage collection, which would look at it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that no processor waits at the end for one of them."""
    ranks = {folder: rank for rank, folder in enumerate(_LONGEST_FIRST)}
    items.sort(
        key=lambda item: min(
            (rank for folder, rank in ranks.items() if item.nodeid.startswith(folder)), default=len(ranks)
        )
    )
