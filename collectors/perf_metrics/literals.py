"""What formulas of perf's metrics ask of the host: `#num_cpus_online` and its like."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from unperturbed.collectors.sources.perf.sysfs import cpu_list
from unperturbed.errors import SpecError

_CPUS = "sys/devices/system/cpu"


def literal_value(text: str, root: Path = Path("/")) -> float:
    """Return the value of a literal on this host.

    `text`: As the formula has it; capital and small letters are alike, as older tables write `#SMT_on`.
    """
    found = _LITERALS.get(text.casefold())
    if found is None:
        raise SpecError(f"unknown literal {text}; supported: {', '.join(_LITERALS)}")
    value = found(root)
    if value is None:
        raise SpecError(f"it asks for {text}, which the kernel does not say on this host")
    return value


def _number(file: Path) -> float | None:
    text = file.read_text().strip() if file.exists() else ""
    return float(text) if re.fullmatch(r"[0-9]+", text) else None


def _cpus(name: str) -> Callable[[Path], float | None]:
    def count(root: Path) -> float | None:
        file = root / _CPUS / name
        return float(len(cpu_list(file.read_text()))) if file.exists() else None

    return count


def _topology(*names: str) -> Callable[[Path], float | None]:
    def count(root: Path) -> float | None:
        return float(len(set(_places(root, names)))) or None

    return count


def _places(root: Path, names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the place of each processor, as its files describe it, if it has all of them."""
    for cpu in (root / _CPUS).glob("cpu[0-9]*"):
        files = [cpu / "topology" / name for name in names]
        if all(file.exists() for file in files):
            yield tuple(file.read_text().strip() for file in files)


def _dies(root: Path) -> float | None:
    """Count dies; a kernel that knows none has one a package."""
    dies, packages = _topology("physical_package_id", "die_id"), _topology("physical_package_id")
    return dies(root) or packages(root)


def _smt(root: Path) -> float | None:
    """Tell whether threads share a core; kernels without simultaneous multithreading have no file of it."""
    return _number(root / _CPUS / "smt/active") or 0.0


def _slots(root: Path) -> float | None:
    """Return the width of an Arm core's dispatch, from the description of its PMU."""
    files = sorted((root / "sys/bus/event_source/devices").glob("*/caps/slots"))
    text = files[0].read_text().strip() if files else ""
    return float(int(text, 0)) if re.fullmatch(r"0x[0-9a-fA-F]+|[0-9]+", text) else None


def _persistent_memory(root: Path) -> float | None:
    return float((root / "sys/firmware/acpi/tables/NFIT").exists())


def _no(_root: Path) -> float | None:
    return 0.0


_LITERALS: Mapping[str, Callable[[Path], float | None]] = MappingProxyType(
    {
        "#num_cpus": _cpus("possible"),
        "#num_cpus_online": _cpus("online"),
        "#num_cores": _topology("physical_package_id", "core_id"),
        "#num_dies": _dies,
        "#num_packages": _topology("physical_package_id"),
        "#smt_on": _smt,
        "#core_wide": _no,  # both: whether perf counts processors; here one program is counted
        "#target_cpu": _no,
        "#has_pmem": _persistent_memory,
        "#slots": _slots,
    }
)
