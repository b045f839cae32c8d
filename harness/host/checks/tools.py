"""Tools that campaigns use: libpapi and its support for this processor, valgrind, and setpriv for every run."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path

from unperturbed.collectors.sources import find_source
from unperturbed.collectors.sources.papi import LIBRARY_VARIABLE
from unperturbed.common import supervision
from unperturbed.harness.host.checks import _ask_papi
from unperturbed.harness.host.checks.counting import core_pmus
from unperturbed.harness.host.doctor import REAL, Finding, Host, HostCheck, check, field, find_tool, text

_PAPI = re.compile(r"libpapi\.so(?:\.(\d+(?:\.\d+)*))?")
_DEFAULT_FOLDERS = ("lib", "usr/lib", "lib64", "usr/lib64")

_ZEN_4 = {*range(0x10, 0x20), *range(0x60, 0x80), *range(0xA0, 0xB0)}
_INTEL = {
    0x8F: ("Sapphire Rapids", (7, 1)),
    **dict.fromkeys((0x97, 0x9A), ("Alder Lake", (7, 2))),
    **dict.fromkeys((0xB7, 0xBA, 0xBF), ("Raptor Lake", (7, 2))),
    **dict.fromkeys((0xAD, 0xAE), ("Granite Rapids", (7, 2))),
}
_ARM = {0xD40: ("Neoverse V1", (7, 1)), 0xD4F: ("Neoverse V2", (7, 1))}
"""Processors, each with the first PAPI version that has presets for it (release notes of PAPI 7.0.1 to 7.2)."""

_ANSWER_TIME_S = 20


@dataclass(frozen=True)
class PapiVerdict:
    """What libpapi reports once it is loaded."""

    error: str = ""  # Why it cannot be used at all; empty if it can
    disabled: str = ""  # Why its perf_event component is off; empty if it is on
    presets: int = 0  # Number of presets that it offers on this host
    counters: int = 0  # Number of counters that it can use at the same time
    version: tuple[int, ...] = ()  # The version that it reports; empty if it cannot be used


def ask(library: str = "") -> PapiVerdict:
    """Load libpapi, by path or linker name ('' for the newest), in a separate process; return its report."""
    command = [sys.executable, "-I", _ask_papi.__file__, *filter(None, [library])]
    try:
        answer = supervision.run(command, capture_output=True, text=True, timeout=_ANSWER_TIME_S)
    except subprocess.TimeoutExpired:
        return PapiVerdict(f"it gave no answer within {_ANSWER_TIME_S} s")
    if answer.returncode != 0:
        return PapiVerdict(f"it ended its process with exit code {answer.returncode}: {answer.stderr.strip()[-200:]}")
    reported = json.loads(answer.stdout.splitlines()[-1])
    known = {"error": reported["error"] or "", "version": tuple(reported.get("version", ()))}
    return PapiVerdict(**{**reported, **known})


def papi_versions(root: Path) -> list[tuple[int, ...]]:
    """Return the versions of libpapi that the linker finds without LD_LIBRARY_PATH, newest first; () if unnumbered."""
    folders = [root / name for name in _DEFAULT_FOLDERS]
    folders += [folder for name in _DEFAULT_FOLDERS[:2] for folder in sorted((root / name).glob("*-linux-*"))]
    for file in [root / "etc/ld.so.conf", *sorted((root / "etc/ld.so.conf.d").glob("*.conf"))]:
        for line in (text(file) or "").splitlines():
            if line.startswith("/"):
                folders.append(root / line.strip().lstrip("/"))
    names = [_PAPI.fullmatch(entry.name) for folder in folders for entry in folder.glob("libpapi.so*")]
    version_numbers = {tuple(map(int, (match[1] or "").split("."))) if match[1] else () for match in names if match}
    return sorted(version_numbers, reverse=True)


def papi_version(root: Path) -> tuple[int, ...] | None:
    """Return the version of the newest libpapi that the dynamic linker finds; None without one, () if unnumbered."""
    return next(iter(papi_versions(root)), None)


def versions() -> Sequence[str]:
    """Return the versions of this tool, Python, PAPI and the kernel, one line each."""
    chosen, installed = find_source("papi").library(), papi_version(REAL)
    if chosen:
        papi_is = _dotted(ask(chosen).version) or "cannot be used"
        papi_is += f" ({chosen})"
    elif installed is None:
        papi_is = "from python-papi's wheel" if find_source("papi").observer_library() else "not installed"
    else:
        papi_is = _dotted(installed) or "of unknown version"
    return (
        f"unperturbed {metadata.version('unperturbed')}",
        f"Python {platform.python_version()} ({sys.executable})",
        f"PAPI {papi_is}",
        f"{platform.system()} {platform.release()} {platform.machine()}",
    )


@check("libpapi", "counting", rank=40)
def libpapi(host: Host) -> Finding:
    """Check whether libpapi is installed and usable; on a recorded tree, only whether it is installed."""
    if host.root != REAL:
        return papi(host.root, None)
    chosen, library = find_source("papi").library(), find_source("papi").observer_library()
    asked = ask(library) if library or papi_version(REAL) is not None else None
    return papi(REAL, asked, bundled=bool(library) and not chosen, chosen=chosen)


def papi(root: Path, verdict: PapiVerdict | None, *, bundled: bool = False, chosen: str = "") -> Finding:
    """Return the finding on libpapi from its files and its own report; `verdict` is None on a recorded tree.

    `bundled`: Whether it is the library of python-papi's wheel, which is used if the system has none.
    """
    version = papi_version(root)
    if version is None and not bundled and not chosen:
        why = "Metrics with PAPI names then come from perf_event's nearest event, or from the simulated source."
        return Finding("libpapi", "note", "libpapi is not installed", why, "apt-get install libpapi-dev")
    own = verdict.version if verdict else ()
    if chosen:
        named = f"libpapi {_dotted(own)}".strip() + f" ({chosen}, from {LIBRARY_VARIABLE})"
    elif version is None:
        named = f"python-papi's libpapi {_dotted(own)}".strip() + " (no system library)"
    else:
        named = f"libpapi {_dotted(own or version)}".strip()
    finding = _judged(root, verdict, named)
    return finding if chosen else replace(finding, why=f"{finding.why} {_others(root, own)}".strip())


def _others(root: Path, used: tuple[int, ...]) -> str:
    """Return a sentence on other installed versions and how to select one; empty if there are none."""
    installed = sorted({version[:2] for version in papi_versions(root) if len(version) > 1})
    used = used[:2] or (installed[-1] if installed else ())
    others = [version for version in installed if version != used]
    if not others:
        return ""
    listed, verb = " and ".join(map(_dotted, others)), "is" if len(others) == 1 else "are"
    other = _dotted(others[-1])
    taken = f"{LIBRARY_VARIABLE}=libpapi.so.{other} selects version {other} instead of the newest"
    return f"PAPI {listed} {verb} also installed: {taken}."


def _judged(root: Path, verdict: PapiVerdict | None, named: str) -> Finding:
    if verdict is None:
        return Finding("libpapi", "good", f"{named} is installed")
    if verdict.error:
        return Finding("libpapi", "bad", f"{named} cannot be used: {verdict.error}", "perf_event counts instead.")
    if verdict.disabled or verdict.presets == 0:
        return _useless(named, verdict, pmu=bool(core_pmus(root)))
    if not core_pmus(root):
        what = f"{named} has {verdict.presets} presets for this processor, but no PMU can count them"
        return Finding("libpapi", "note", what, "PAPI recognizes the processor by its model, not by its counters.")
    return Finding("libpapi", "good", f"{named}: {verdict.presets} presets, {verdict.counters} counters")


def _useless(named: str, verdict: PapiVerdict, *, pmu: bool) -> Finding:
    if not verdict.disabled:
        what = f"{named} offers no presets on this host"
        why = "Names of native events may still work."
        if pmu:
            why += (
                " PAPI's libpfm may use a different name for this PMU than the kernel; perf_event works without PAPI."
            )
        return Finding("libpapi", "bad" if pmu else "note", what, why)
    what = f"{named} has a disabled perf_event component: “{verdict.disabled}”"
    if pmu:
        return Finding(
            "libpapi", "bad", what, "There is a PMU, so the cause is permission or the library's age: see there."
        )
    return Finding(
        "libpapi", "note", what, "Without a PMU, PAPI offers nothing, not even the kernel's software events."
    )


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version[:3]))


@check("libpapi's age", "counting", rank=50)
def papi_age(host: Host) -> Finding | None:
    """Check whether the installed libpapi is older than the processor; None if it is not, or if this is unknown."""
    chosen = find_source("papi").library() if host.root == REAL else ""
    version = ask(chosen).version if chosen else papi_version(host.root)
    known = _processor(host.root)
    if not version or known is None or version >= known[1]:
        return None
    name, since = known
    wanted = _dotted(since)
    return Finding(
        "libpapi's age",
        "bad" if core_pmus(host.root) else "note",
        f"libpapi {_dotted(version)} is older than this processor ({name}), which has presets since {wanted}",
        "Presets fail; with source: auto, perf_event counts what it can instead. Download the sources of PAPI "
        f"{wanted} or later, and type there:",
        "cd src && ./configure && make && make install && ldconfig",
    )


def _processor(root: Path) -> tuple[str, tuple[int, int]] | None:
    """Return the processor's name and the first PAPI version that supports it; None for older processors."""
    described = partial(field, root / "proc/cpuinfo")
    if described("CPU implementer") == "0x41":
        return _ARM.get(int(described("CPU part") or "0", 16))
    vendor, family, model = described("vendor_id"), described("cpu family"), int(described("model") or 0)
    if vendor == "AuthenticAMD":
        if family == "26":
            return "Zen 5", (7, 2)
        return ("Zen 4", (7, 1)) if family == "25" and model in _ZEN_4 else None
    return _INTEL.get(model) if vendor == "GenuineIntel" and family == "6" else None


@check("valgrind", "counting", rank=60)
def valgrind(host: Host) -> Finding:
    """Check whether valgrind, which simulates counters, is installed."""
    tool = find_tool(host.root, "valgrind")
    if tool is None:
        pmu = bool(core_pmus(host.root))
        why = "Counters cannot be simulated." + (
            "" if pmu else " There is no PMU either: hardware metrics have no source."
        )
        return Finding(
            "valgrind", "note" if pmu else "bad", "valgrind is not installed", why, "apt-get install valgrind"
        )
    if host.root != REAL:
        return Finding("valgrind", "good", "valgrind is installed")
    answer = supervision.run([tool, "--version"], capture_output=True, text=True)
    if answer.returncode != 0:
        broken = f"valgrind does not run: {answer.stderr.strip()[-200:]}"
        return Finding(
            "valgrind", "bad", broken, "Counters cannot be simulated.", "apt-get install --reinstall valgrind"
        )
    return Finding("valgrind", "good", f"{answer.stdout.strip()}: counters can be simulated")


def setpriv(root: Path) -> Finding:
    """Return the finding on setpriv, which ends a measured program together with the harness."""
    if find_tool(root, "setpriv") is None:
        why = "setpriv ends the measured program together with the harness; no run is possible without setpriv."
        return Finding("setpriv", "bad", "setpriv is missing", why, "apt-get install util-linux")
    return Finding("setpriv", "good", "setpriv is installed")


SETPRIV = HostCheck("setpriv", "counting", 70, lambda host: setpriv(host.root))
