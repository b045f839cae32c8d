"""Profiles of two builds, compared: the untouched program, and a build without counting that configurations share."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from unperturbed.analysis.rewriting import Rewriting
from unperturbed.collectors.sources.instructions import Profile
from unperturbed.harness.program.patching import places_of
from unperturbed.instrument.binaries.instruction_kinds import instruction_kinds


def compare_builds(
    before: tuple[Profile, Path], after: tuple[Profile, Path], metrics: Sequence[str], again: Profile | None = None
) -> Rewriting:
    """Return what a build without counting executes in addition to the untouched build.

    `before`, `after`: The profile of the untouched build and of the other, each with the folder of the build.
    `metrics`: The metrics of the other build, in the order of their numbers.
    `again`: The profile of a second run of the untouched build.
    """
    (first, untouched), (second, ready) = before, after
    of_files = places_of(ready)
    sites = {
        str(path): {address: metrics[place.metric] for place in places for address in place.addresses}
        for path, places in of_files.items()
    }
    per_event = max((len(place.lengths) for places in of_files.values() for place in places), default=1)
    no_ops: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for (file, function), executions in second.items():
        of_file = sites.get(file, {})
        for address in executions.keys() & of_file.keys():
            no_ops[_relative(file, ready), function][of_file[address]] += executions[address]
    kinds: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for sign, profile, tree in ((-1, first, untouched), (1, second, ready)):
        for (file, function), executions in profile.items():
            known = _kinds_of(file, Path(file).stat().st_mtime_ns) if Path(file).is_relative_to(tree) else {}
            for address, count in executions.items() if known else ():
                if address not in sites.get(file, {}):
                    kinds[_relative(file, tree), function][known.get(address, "other")] += sign * count
    repeated = None if again is None else _by_function(again, untouched)
    return Rewriting.of(_by_function(first, untouched), _by_function(second, ready), no_ops, kinds, per_event, repeated)


@lru_cache(maxsize=8)
def _kinds_of(file: str, modified_ns: int) -> Mapping[int, str]:  # noqa: ARG001  a build can take another's folder
    return instruction_kinds(Path(file))


def _by_function(profile: Profile, tree: Path) -> dict[tuple[str, str], int]:
    total: Counter[tuple[str, str]] = Counter()
    for (file, function), executions in profile.items():
        total[_relative(file, tree), function] += sum(executions.values())
    return total


def _relative(file: str, tree: Path) -> str:
    """Return the path of a program or library in a build, or of a library of the host; '' if there is no file."""
    path = Path(file)
    if path.is_relative_to(tree):
        return str(path.relative_to(tree))
    return str(path) if path.is_absolute() else ""
