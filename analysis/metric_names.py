"""Plain names of metrics, for readers who do not know PAPI's presets."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unperturbed.collectors.data import Metric


_PLAIN = {
    "PAPI_BR_CN": "conditional branches",
    "PAPI_BR_INS": "branches",
    "PAPI_BR_MSP": "mispredicted branches",
    "PAPI_BR_TKN": "taken branches",
    "PAPI_FP_INS": "floating-point instructions",
    "PAPI_FP_OPS": "floating-point operations",
    "PAPI_L1_DCA": "L1-data accesses",
    "PAPI_L1_DCM": "L1-data misses",
    "PAPI_L1_ICM": "L1-instruction misses",
    "PAPI_L1_TCM": "L1 misses",
    "PAPI_L2_DCM": "L2-data misses",
    "PAPI_L2_TCA": "L2 accesses",
    "PAPI_L2_TCM": "L2 misses",
    "PAPI_L3_TCM": "last-level misses",
    "PAPI_LD_INS": "loads",
    "PAPI_LST_INS": "loads and stores",
    "PAPI_REF_CYC": "reference cycles",
    "PAPI_RES_STL": "stalled cycles",
    "PAPI_SR_INS": "stores",
    "PAPI_TLB_DM": "data-TLB misses",
    "PAPI_TLB_IM": "instruction-TLB misses",
    "PAPI_TOT_CYC": "cycles",
    "PAPI_TOT_INS": "instructions",
    "Bc": "conditional branches",
    "Bcm": "mispredicted conditional branches",
    "Bi": "indirect branches",
    "Bim": "mispredicted indirect branches",
    "D1mr": "L1-data read misses",
    "D1mw": "L1-data write misses",
    "DLmr": "last-level read misses",
    "DLmw": "last-level write misses",
    "Dr": "loads",
    "Dw": "stores",
    "I1mr": "L1-instruction misses",
    "ILmr": "last-level instruction misses",
    "Ir": "instructions",
    "IPC": "instructions per cycle",
    "minor_faults": "minor page faults",
    "major_faults": "major page faults",
    "voluntary_switches": "voluntary context switches",
    "involuntary_switches": "involuntary context switches",
}

_SIMULATORS = ("callgrind", "simulated", "cachegrind")


def plain_name(name: str) -> str:
    """Return a metric's plain name, such as `L1-data misses` for `PAPI_L1_DCM`; without one, the name itself."""
    return _PLAIN.get(name, name)


def pair_name(first: str, second: str) -> str:
    """Return the plain names of a pair of metrics; only one name if both are the same metric."""
    return plain_name(first) if first == second else f"{plain_name(first)} – {plain_name(second)}"


def is_simulated(metric: Metric) -> bool:
    """Return whether a metric is a simulated count or computed from one."""
    return metric.kind == "simulated" or any(part.split(":")[0] in _SIMULATORS for part in metric.components)


def meaning(name: str, described: Mapping[str, Metric]) -> str:
    """Return a tooltip for a metric: its code name, meaning, unit and source."""
    metric = described.get(name)
    if metric is None:
        return f"{name}: {plain_name(name)}"
    said = metric.meaning or plain_name(name)
    origin = (
        f"simulated, by {metric.source or 'a model'}" if is_simulated(metric) else f"{metric.kind}, by {metric.source}"
    )
    unit = f"{metric.unit} per interval" if metric.semantics == "counter" else metric.unit
    return f"{name}: {said} ({unit}; {origin.removesuffix(', by ')})"
