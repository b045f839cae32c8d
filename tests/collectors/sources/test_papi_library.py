"""Which PAPI is loaded: the one that UNPERTURBED_PAPI names, and no other in its place.

`tests/pmu/test_papi_versions.py` counts with each version.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.collectors.runtime.programs import BUSY, compile_program, sample
from unperturbed.collectors.listing import trials_on_this_host
from unperturbed.collectors.records.file import Records, Setup
from unperturbed.collectors.sources import Event
from unperturbed.collectors.sources.papi import PAPI, ask_papi, wheel_library
from unperturbed.errors import HostError

SAMPLERS = ("inside", "outside")


def later_papi(folder: Path) -> str:
    """Build a PAPI that knows none of the versions that it is asked for, as one of the future would."""
    names = "thread_init create_eventset assign_eventset_component add_named_event set_opt attach start stop reset read"
    names += " event_name_to_code get_event_info strerror get_component_index get_component_info num_components"
    names += " enum_event enum_cmp_event event_code_to_name destroy_eventset cleanup_eventset get_opt library_init"
    text = "".join(f"int PAPI_{name}(void) {{ return -1; }}\n" for name in names.split())
    (folder / "later.c").write_text(text)
    library = folder / "libpapi.so.8.0"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, folder / "later.c"], check=True)
    return str(library)


def refused(folder: Path, sampler: str, library: str) -> Records:
    program = str(compile_program(folder, BUSY + "int main(void) { busy(1000); return 0; }"))
    events = (Event("PAPI_TOT_INS"),)
    setup = Setup("papi", 1_000_000, "monotonic", events, sampler=sampler, capacity=64, papi=library)  # type: ignore[arg-type]
    records, _ = sample(folder, [program], setup)
    assert (records.state, len(records.rows)) == ("failed", 0)
    return records


def test_the_variable_names_a_path_or_what_the_linker_looks_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("UNPERTURBED_PAPI", raising=False)
    assert PAPI.library() == ""
    monkeypatch.setenv("UNPERTURBED_PAPI", "libpapi.so.7.0")
    assert PAPI.library() == PAPI.observer_library() == "libpapi.so.7.0"
    (tmp_path / "libpapi.so").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNPERTURBED_PAPI", "./libpapi.so")
    assert PAPI.library() == PAPI.observer_library() == str(tmp_path / "libpapi.so"), "programs run elsewhere"


def test_a_path_that_cannot_be_used_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("UNPERTURBED_PAPI", str(tmp_path / "none.so"))
    with pytest.raises(HostError, match=r"none\.so: no such file; set the variable to a PAPI library, or unset it"):
        PAPI.library()
    deep = tmp_path / ("d" * 200) / ("e" * 200)
    deep.mkdir(parents=True)
    (deep / "libpapi.so").touch()
    monkeypatch.setenv("UNPERTURBED_PAPI", str(deep / "libpapi.so"))
    with pytest.raises(HostError, match=r"longer than 255 bytes; use a symbolic link with a shorter path"):
        PAPI.observer_library()


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_what_cannot_be_loaded_is_not_replaced_by_another(tmp_path: Path, sampler: str) -> None:
    records = refused(tmp_path, sampler, str(tmp_path / "none.so"))
    assert records.message.startswith(f"libpapi: {tmp_path}/none.so: cannot open shared object file")
    assert records.papi_version == ""


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_papi_of_the_future_is_told_from_a_missing_pmu(tmp_path: Path, sampler: str) -> None:
    library = later_papi(tmp_path)
    reason = "unsupported PAPI version: use one of 5.7, 6.0, 7.0, 7.1 and 7.2"
    assert refused(tmp_path, sampler, library).message == f"PAPI_library_init: {reason}"
    assert ask_papi(trials_on_this_host("gcc"), [], library).problem == reason


def test_the_wheels_library_serves_no_program_that_is_not_python(tmp_path: Path) -> None:
    library = wheel_library()
    if not library:
        pytest.skip("python-papi has wheels for x86-64 and Python 3.11 to 3.13 only")
    assert "undefined symbol: _Py" in refused(tmp_path, "inside", library).message
    assert ask_papi(trials_on_this_host("gcc"), [], library).version == "6.0.0", "its events can be listed"


_COUNTS_ITSELF = """
from unperturbed.collectors.self_counting.process import ThreadCounters
from unperturbed.collectors.sources.perf.names import PerfCode
from unperturbed.errors import HostError
try:
    ThreadCounters({"PAPI_TOT_INS": PerfCode(0, 0)}, "papi").open()
except HostError as error:
    print(error)
"""


def test_a_process_that_counts_itself_takes_it_too(tmp_path: Path) -> None:
    """In a process of its own: PAPI is loaded once in each, and other tests load another."""
    environment = os.environ | {"UNPERTURBED_PAPI": later_papi(tmp_path)}
    command = [sys.executable, "-c", _COUNTS_ITSELF]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert told.startswith("PAPI_library_init: unsupported PAPI version: use one of")
