"""Query libpapi's capabilities in a separate process: if the library crashes, the doctor continues.

Run this file as a script, without this project's packages, with the path of a library or none; it prints one JSON
object. It tries libraries and versions in the same order as the runtime (`collectors/sources/papi/event_set.c`). It
needs no compiler and writes nothing, unlike the C program with which `collectors.sources.papi` queries PAPI.
"""

from __future__ import annotations

import ctypes
import json
import sys

_LIBRARIES = tuple(f"libpapi.so{version}" for version in (".7.2", ".7.1", ".7.0", ".7", ".6.0", ".6", ""))
_VERSIONS = ((7, 2), (7, 1), (7, 0), (6, 0), (5, 7))
_PRESETS = 128
_LIBRARY_VERSION = 21
_INVALID = -1
_FIRST_PRESET = -(1 << 31)

_DISABLED_REASON = 128 + 64 + 128 + 3 * 64
"""Offset of `disabled_reason` in PAPI_component_info_t: the fields before it are the same in versions 5 to 7."""


def _load(libraries: tuple[str, ...]) -> tuple[ctypes.CDLL | None, str]:
    """Return the first library that can be loaded, or None and the error of the last library."""
    problem = ""
    for name in libraries:
        try:
            return ctypes.CDLL(name), ""
        except OSError as error:
            problem = str(error)
    return None, problem


def _ask(given: str) -> dict[str, object]:
    papi, problem = _load((given,) if given else _LIBRARIES)
    if papi is None:
        return {"error": problem if given else "no libpapi could be loaded"}
    if not hasattr(papi, "PAPI_library_init"):
        return {"error": "the library is not PAPI: it has no function PAPI_library_init"}
    code = -1
    for major, minor in _VERSIONS:
        code = papi.PAPI_library_init(major << 24 | minor << 16)
        if code > 0:
            break
    else:
        if code == _INVALID:
            known = ", ".join(f"{major}.{minor}" for major, minor in reversed(_VERSIONS))
            return {"error": f"PAPI_library_init: unsupported PAPI version (supported: {known})"}
        papi.PAPI_strerror.restype = ctypes.c_char_p
        return {"error": f"PAPI_library_init: {(papi.PAPI_strerror(code) or b'').decode(errors='replace')}"}
    index = papi.PAPI_get_component_index(b"perf_event")
    if index < 0:
        return {"error": "the library was built without the perf_event component"}
    papi.PAPI_get_component_info.restype = ctypes.c_void_p
    component = papi.PAPI_get_component_info(index)
    version = papi.PAPI_get_opt(_LIBRARY_VERSION, None)
    return {
        "error": None,
        "version": [version >> 24 & 255, version >> 16 & 255, version >> 8 & 255],
        "disabled": ctypes.string_at(component + _DISABLED_REASON).decode(errors="replace"),
        "presets": sum(papi.PAPI_query_event(ctypes.c_int(_FIRST_PRESET + preset)) == 0 for preset in range(_PRESETS)),
        "counters": papi.PAPI_num_cmp_hwctrs(index),
    }


if __name__ == "__main__":
    print(json.dumps(_ask(*sys.argv[1:] or [""])))
