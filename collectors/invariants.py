"""What must hold between events, whatever the program: a part is never larger than its whole. A violation means that a count is wrong.

Wrong event tables, errata, speculative counts and multiplexing all show here first. Nothing is corrected; it is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PARTS", "implausible"]

_SLACK = 0.01
"""Counters of one reading are read one after the other, and small excesses over a whole run come from that."""

_INSTRUCTIONS = "PAPI_TOT_INS"
_LEVELS = (1, 2, 3)


def _cache_parts() -> list[tuple[str, str]]:
    parts = []
    for level in _LEVELS:
        for side in ("D", "I", "T"):
            parts += [(f"PAPI_L{level}_{side}C{part}", f"PAPI_L{level}_{side}CA") for part in ("M", "H", "R", "W")]
        parts += [(f"PAPI_L{level}_{side}C{action}", f"PAPI_L{level}_TC{action}") for side in ("D", "I") for action in "MA"]
        parts += [(f"PAPI_L{level}_{kind}M", f"PAPI_L{level}_TCM") for kind in ("LD", "ST")]
    for level in _LEVELS[1:]:
        parts += [(f"PAPI_L{level}_{side}CM", f"PAPI_L{level - 1}_{side}CM") for side in ("D", "I", "T")]
        parts += [(f"PAPI_L{level}_{kind}M", f"PAPI_L{level - 1}_{kind}M") for kind in ("LD", "ST")]
    return parts


PARTS: tuple[tuple[str, str], ...] = (
    *_cache_parts(),
    ("PAPI_BR_MSP", "PAPI_BR_INS"),
    ("PAPI_BR_CN", "PAPI_BR_INS"),
    ("PAPI_BR_UCN", "PAPI_BR_INS"),
    ("PAPI_BR_TKN", "PAPI_BR_CN"),
    ("PAPI_BR_NTK", "PAPI_BR_CN"),
    ("PAPI_BR_PRC", "PAPI_BR_CN"),
    ("PAPI_TLB_DM", "PAPI_TLB_TL"),
    ("PAPI_TLB_IM", "PAPI_TLB_TL"),
    ("PAPI_LD_INS", "PAPI_LST_INS"),
    ("PAPI_SR_INS", "PAPI_LST_INS"),
    ("PAPI_BR_INS", _INSTRUCTIONS),
    ("PAPI_FP_INS", _INSTRUCTIONS),
    ("PAPI_INT_INS", _INSTRUCTIONS),
    ("PAPI_VEC_INS", _INSTRUCTIONS),
    ("PAPI_STL_ICY", "PAPI_TOT_CYC"),
    ("PAPI_STL_CCY", "PAPI_TOT_CYC"),
    ("PAPI_RES_STL", "PAPI_TOT_CYC"),
    ("PAPI_MEM_SCY", "PAPI_TOT_CYC"),
    ("perf::cache-misses", "perf::cache-references"),
    ("perf::branch-misses", "perf::branches"),
    ("perf::branch-misses", "perf::branch-instructions"),
    ("perf::L1-dcache-load-misses", "perf::L1-dcache-loads"),
    ("perf::LLC-load-misses", "perf::LLC-loads"),
    ("perf::dTLB-load-misses", "perf::dTLB-loads"),
    ("perf::iTLB-load-misses", "perf::iTLB-loads"),
    ("perf::minor-faults", "perf::page-faults"),
    ("perf::major-faults", "perf::page-faults"),
)
"""Pairs of metrics of which the first counts a part of what the second counts."""


def implausible(columns: Mapping[str, NDArray[Any]]) -> list[str]:
    """Return a sentence for each pair whose part exceeds its whole, over the run by more than 1 %.

    Parameters
    ----------
    columns : metric name → count of each interval, shape (intervals,). NaN (never counted in an interval) is left out.
    """
    found = []
    for part, whole in PARTS:
        if part not in columns or whole not in columns:
            continue
        both = np.isfinite(columns[part]) & np.isfinite(columns[whole])
        smaller, larger = (float(columns[name][both].sum()) for name in (part, whole))
        if smaller > larger * (1 + _SLACK):
            share = float(np.mean(columns[part][both] > columns[whole][both]))
            found.append(
                f"{part} ({smaller:,.0f}) exceeds {whole} ({larger:,.0f}), of which it is a part; in {share:.0%} of the intervals"
            )
    return found
