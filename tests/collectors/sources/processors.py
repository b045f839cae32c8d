"""How the kernel shows the cores' PMUs of processors: names, formats and events of arch/x86/events of Linux 6.12."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

Devices = Mapping[str, str]

DEVICES = "sys/bus/event_source/devices"

_INTEL_FORMATS = {
    "event": "config:0-7",
    "umask": "config:8-15",
    "edge": "config:18",
    "pc": "config:19",
    "inv": "config:23",
    "cmask": "config:24-31",
    "offcore_rsp": "config1:0-63",
    "ldlat": "config1:0-15",
    "frontend": "config1:0-23",
}
_AMD_FORMATS = {
    "event": "config:0-7,32-35",
    "umask": "config:8-15",
    "edge": "config:18",
    "inv": "config:23",
    "cmask": "config:24-31",
}
_LEVEL_1 = ("retiring", "bad-spec", "fe-bound", "be-bound")
_LEVEL_2 = ("heavy-ops", "br-mispredict", "fetch-lat", "mem-bound")


def _pmu(name: str, number: int, formats: Mapping[str, str], events: Mapping[str, str], cpus: str = "") -> Devices:
    return {
        f"{name}/type": str(number),
        **({f"{name}/cpus": cpus} if cpus else {}),
        **{f"{name}/format/{term}": bits for term, bits in formats.items()},
        **{f"{name}/events/{event}": terms for event, terms in events.items()},
    }


def _topdown(*names: str) -> Devices:
    return {
        "slots": "event=0x00,umask=0x4",
        **{f"topdown-{name}": f"event=0x00,umask={0x80 + index:#x}" for index, name in enumerate(names)},
    }


_MSR = {"msr/type": "11", "msr/events/tsc": "event=0x00", "msr/format/event": "config:0-63"}

ICE_LAKE = {**_pmu("cpu", 4, _INTEL_FORMATS, _topdown(*_LEVEL_1)), **_MSR}
SAPPHIRE_RAPIDS = {**_pmu("cpu", 4, _INTEL_FORMATS, _topdown(*_LEVEL_1, *_LEVEL_2)), **_MSR}
ALDER_LAKE = {
    **_pmu("cpu_core", 4, _INTEL_FORMATS, _topdown(*_LEVEL_1, *_LEVEL_2), "0-15"),
    **_pmu(
        "cpu_atom",
        10,
        _INTEL_FORMATS,
        {  # the efficiency cores' own: ordinary events of the same names
            "topdown-retiring": "event=0xc2,umask=0x0",
            "topdown-bad-spec": "event=0x73,umask=0x0",
            "topdown-fe-bound": "event=0x71,umask=0x0",
            "topdown-be-bound": "event=0x74,umask=0x0",
        },
        "16-23",
    ),
    **_MSR,
}
ZEN_4 = {
    **_pmu("cpu", 4, _AMD_FORMATS, {"cpu-cycles": "event=0x76", "instructions": "event=0xc0"}),
    "amd_l3/type": "12",
    "amd_l3/cpumask": "0,8",
    "amd_l3/format/event": "config:0-7",
    "amd_l3/format/umask": "config:8-15",
    **_MSR,
}
ZEN_5 = {**ZEN_4, "amd_umc_0/type": "13", "amd_umc_0/cpumask": "0", "amd_umc_0/format/event": "config:0-7"}


def processor(root: Path, devices: Devices, cpus: str = "") -> Path:
    """Lay out a processor's PMUs below a folder, and the processors that this process may run on."""
    files = {f"{DEVICES}/{name}": text for name, text in devices.items()}
    if cpus:
        files["proc/self/status"] = f"Name:\tpython\nCpus_allowed_list:\t{cpus}"
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    return root
