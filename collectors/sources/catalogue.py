"""Names that a spec may use: PAPI presets and operating-system counters, each with its meaning.

A name listed here is known, but not every host can count it: trials show which source can (see
`unperturbed.collectors.passes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


def _cache_presets() -> dict[str, str]:
    """Return the cache presets: PAPI_L{1,2,3}_{D,I,T}C{M,H,A,R,W} and PAPI_L{1,2,3}_{LD,ST}M."""
    side = {"D": "data", "I": "instruction", "T": "total"}
    action = {"M": "misses", "H": "hits", "A": "accesses", "R": "reads", "W": "writes"}
    regular = {
        f"PAPI_L{level}_{s}C{a}": f"level {level} {side[s]} cache {action[a]}"
        for level in (1, 2, 3)
        for s in side
        for a in action
    }
    loads_stores = {
        f"PAPI_L{level}_{kind}M": f"level {level} {'load' if kind == 'LD' else 'store'} misses"
        for level in (1, 2, 3)
        for kind in ("LD", "ST")
    }
    return regular | loads_stores


PRESETS: Mapping[str, str] = MappingProxyType(
    {
        "PAPI_TOT_INS": "instructions completed",
        "PAPI_TOT_CYC": "cycles",
        "PAPI_REF_CYC": "reference clock cycles",
        "PAPI_TOT_IIS": "instructions issued",
        **_cache_presets(),
        "PAPI_TLB_DM": "data translation lookaside buffer misses",
        "PAPI_TLB_IM": "instruction translation lookaside buffer misses",
        "PAPI_TLB_TL": "translation lookaside buffer misses",
        "PAPI_TLB_SD": "translation lookaside buffer shootdowns",
        "PAPI_BR_INS": "branch instructions",
        "PAPI_BR_CN": "conditional branch instructions",
        "PAPI_BR_UCN": "unconditional branch instructions",
        "PAPI_BR_TKN": "conditional branches taken",
        "PAPI_BR_NTK": "conditional branches not taken",
        "PAPI_BR_MSP": "mispredicted branches",
        "PAPI_BR_PRC": "conditional branches predicted correctly",
        "PAPI_BTAC_M": "branch target address cache misses",
        "PAPI_LD_INS": "load instructions",
        "PAPI_SR_INS": "store instructions",
        "PAPI_LST_INS": "load and store instructions",
        "PAPI_INT_INS": "integer instructions",
        "PAPI_FP_INS": "floating-point instructions",
        "PAPI_FP_OPS": "floating-point operations",
        "PAPI_SP_OPS": "single-precision floating-point operations",
        "PAPI_DP_OPS": "double-precision floating-point operations",
        "PAPI_VEC_INS": "vector instructions",
        "PAPI_VEC_SP": "single-precision vector instructions",
        "PAPI_VEC_DP": "double-precision vector instructions",
        "PAPI_FMA_INS": "fused multiply-add instructions",
        "PAPI_FML_INS": "floating-point multiply instructions",
        "PAPI_FAD_INS": "floating-point add instructions",
        "PAPI_FDV_INS": "floating-point divide instructions",
        "PAPI_FSQ_INS": "floating-point square-root instructions",
        "PAPI_FNV_INS": "floating-point inverse instructions",
        "PAPI_SYC_INS": "synchronisation instructions",
        "PAPI_RES_STL": "cycles stalled on any resource",
        "PAPI_STL_ICY": "cycles with no instruction issued",
        "PAPI_FUL_ICY": "cycles with the maximum number of instructions issued",
        "PAPI_STL_CCY": "cycles with no instruction completed",
        "PAPI_FUL_CCY": "cycles with the maximum number of instructions completed",
        "PAPI_MEM_SCY": "cycles stalled for memory accesses",
        "PAPI_MEM_RCY": "cycles stalled for memory reads",
        "PAPI_MEM_WCY": "cycles stalled for memory writes",
        "PAPI_FP_STAL": "cycles in which the floating-point units stall",
        "PAPI_FPU_IDL": "cycles in which the floating-point units are idle",
        "PAPI_FXU_IDL": "cycles in which the integer units are idle",
        "PAPI_LSU_IDL": "cycles in which the load/store units are idle",
        "PAPI_BRU_IDL": "cycles in which the branch units are idle",
        "PAPI_PRF_DM": "data prefetch misses",
        "PAPI_CA_SNP": "requests for a snoop",
        "PAPI_CA_SHR": "requests for exclusive access to a shared line",
        "PAPI_CA_CLN": "requests for exclusive access to a clean line",
        "PAPI_CA_INV": "requests for cache line invalidation",
        "PAPI_CA_ITV": "requests for cache line intervention",
        "PAPI_CSR_FAL": "failed conditional stores",
        "PAPI_CSR_SUC": "successful conditional stores",
        "PAPI_CSR_TOT": "conditional stores",
        "PAPI_HW_INT": "hardware interrupts",
    }
)
"""PAPI preset names, each with its meaning."""


@dataclass(frozen=True)
class OsGroup:
    """Operating-system counters that are read together."""

    bit: int  # The group's bit in the record file's set of groups
    source: str  # The name of the counters' source
    metrics: Mapping[str, str]  # Each counter with its meaning, in the order of their values in a record


OS_GROUPS = (
    OsGroup(
        1,
        "getrusage",
        MappingProxyType(
            {
                "minor_faults": "page faults served without reading from disk",
                "major_faults": "page faults that read from disk",
                "voluntary_switches": "context switches because the process waited",
                "involuntary_switches": "context switches because the process was preempted",
                "user_time_us": "CPU time in user mode, microseconds",
                "system_time_us": "CPU time in the kernel for the process, microseconds",
                "blocks_read": "blocks of 512 bytes read from disk",
                "blocks_written": "blocks of 512 bytes written to disk",
            }
        ),
    ),
    OsGroup(
        2,
        "schedstat",
        MappingProxyType(
            {
                "sched_run_ns": "time for which the main thread ran, nanoseconds",
                "sched_wait_ns": "time for which the main thread waited for a processor while runnable, nanoseconds",
                "sched_slices": "number of time slices in which the main thread ran",
            }
        ),
    ),
    OsGroup(
        4,
        "procio",
        MappingProxyType(
            {
                "chars_read": "bytes returned by read(2) and similar calls",
                "chars_written": "bytes passed to write(2) and similar calls",
                "read_calls": "read system calls",
                "write_calls": "write system calls",
                "bytes_read": "bytes read from disk",
                "bytes_written": "bytes sent to disk",
            }
        ),
    ),
)
"""Groups of operating-system counters; schedstat counts the main thread, the others count the whole process."""

OS_METRICS: Mapping[str, str] = MappingProxyType(
    {name: meaning for group in OS_GROUPS for name, meaning in group.metrics.items()}
)
"""Counters that the operating system maintains for a process, each with its meaning."""


def is_native(name: str) -> bool:
    """Return whether a name has a source's native form, `source::event`, such as `perf::page-faults`."""
    return "::" in name


def preset_unit(name: str) -> str:
    """Return the unit of an event's counts, inferred from the end of its name, which must be in capitals."""
    return "cycles" if name.endswith(("_CYC", "CYCLES")) else "events"


PERF_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "cycles": "PAPI_TOT_CYC",
        "cpu-cycles": "PAPI_TOT_CYC",
        "instructions": "PAPI_TOT_INS",
        "branches": "PAPI_BR_INS",
        "branch-instructions": "PAPI_BR_INS",
        "branch-misses": "PAPI_BR_MSP",
        "cache-misses": "PAPI_L3_TCM",
        "cache-references": "PAPI_L3_TCA",
        "L1-dcache-load-misses": "PAPI_L1_DCM",
        "L1-icache-load-misses": "PAPI_L1_ICM",
        "LLC-load-misses": "PAPI_L3_LDM",
        "dTLB-load-misses": "PAPI_TLB_DM",
        "iTLB-load-misses": "PAPI_TLB_IM",
        **{
            name: f"perf::{name}"
            for name in ("page-faults", "minor-faults", "major-faults", "context-switches", "cpu-migrations")
        },
        "task-clock": "perf::task-clock",
        "cpu-clock": "perf::cpu-clock",
    }
)
"""perf's common event names, each with the corresponding metric in a spec."""
