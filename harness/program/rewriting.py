"""Profiles of two builds, compared: the untouched program, and the one build of all configurations without counting."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from unperturbed.analysis.rewriting import Rewriting
from unperturbed.collectors.sources.instructions import Profile
from unperturbed.harness.program.patching import places_of


def compare_builds(
    profile: Callable[[Path], Profile | None], untouched: Path, ready: Path, metrics: Sequence[str]
) -> Rewriting | None:
    """Return what `ready` executes in addition to `untouched`; None if there is no profile.

    `profile`: Runs a build and returns its profile, or None if its result is wrong.
    `metrics`: The metrics of the build, in the order of their numbers.
    """
    first, second = profile(untouched), profile(ready)
    if first is None or second is None:
        return None
    sites = {
        str(path): {place.address: metrics[place.metric] for place in places}
        for path, places in places_of(ready).items()
    }
    no_ops: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for (file, function), executions in second.items():
        of_file = sites.get(file, {})
        for address in executions.keys() & of_file.keys():
            no_ops[_relative(file, ready), function][of_file[address]] += executions[address]
    return Rewriting.of(_by_function(first, untouched), _by_function(second, ready), no_ops)


def _by_function(profile: Profile, tree: Path) -> dict[tuple[str, str], int]:
    total: Counter[tuple[str, str]] = Counter()
    for (file, function), executions in profile.items():
        total[_relative(file, tree), function] += sum(executions.values())
    return total


def _relative(file: str, tree: Path) -> str:
    """Return the path of a program or library in a build; '' for a library of the host."""
    return str(Path(file).relative_to(tree)) if Path(file).is_relative_to(tree) else ""
