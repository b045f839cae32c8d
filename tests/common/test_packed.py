"""Compressed files: each form, wherever a file is read."""

from __future__ import annotations

import bz2
import gzip
import importlib
import lzma
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.collectors.imports.test_fuzz import FILES
from unperturbed.analysis.diagnosis import read_events
from unperturbed.collectors.imports import find_format, read_traces, recognise
from unperturbed.common.packed import plain_name
from unperturbed.errors import DataError, HostError
from unperturbed.harness.methods.causal.reading import read_table

_ZSTD = importlib.import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
FORMS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": _ZSTD.compress,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", FILES)
def test_imports_read_compressed_files(tmp_path: Path, form: str, name: str) -> None:
    plain, packed = tmp_path / name, tmp_path / f"{name}.{form}"
    plain.write_bytes(FILES[name])
    packed.write_bytes(FORMS[form](FILES[name]))
    assert recognise(packed) is recognise(plain) is not None
    for own, other in zip(read_traces(packed), read_traces(plain), strict=True):
        assert dict(own.metrics) == dict(other.metrics)
        assert {key: own[key].tolist() for key in own} == {key: other[key].tolist() for key in other}
        assert own.attributes["run"] == other.attributes["run"]
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"the compressed data is damaged or ends too early .* copy the file again"):
        read_traces(packed)
    assert recognise(tmp_path / "none") is None


@pytest.mark.parametrize("form", FORMS)
def test_names_of_paraver_beside_a_compressed_trace(tmp_path: Path, form: str) -> None:
    (tmp_path / f"x.prv.{form}").write_bytes(FORMS[form](FILES["x.prv"]))
    names = b"EVENT_TYPE\n7  42000050 PAPI_TOT_INS [Instr completed]\n"
    (tmp_path / f"x.pcf.{form}").write_bytes(FORMS[form](names))
    assert list(read_traces(tmp_path / f"x.prv.{form}")[0].metrics) == ["PAPI_TOT_INS"]
    (tmp_path / f"x.pcf.{form}").unlink()
    (tmp_path / "x.pcf").write_bytes(names)
    assert list(read_traces(tmp_path / f"x.prv.{form}")[0].metrics) == ["PAPI_TOT_INS"]


@pytest.mark.parametrize("form", FORMS)
def test_tables_and_logs(tmp_path: Path, form: str) -> None:
    table = tmp_path / f"t.tsv.{form}"
    table.write_bytes(FORMS[form](b"n\tx\n" + b"".join(b"%d\t%d\n" % (at, 2 * at) for at in range(40))))
    frame, *_ = read_table(table)
    assert frame["x"].to_list() == list(range(0, 80, 2))
    log = tmp_path / f"a.log.{form}"
    lines = b"".join(b"%d a%d\n" % (at, at % 3) for at in range(1, 60))
    log.write_bytes(FORMS[form](lines))
    (tmp_path / "a.log").write_bytes(lines)
    assert len(read_events(log)) == len(read_events(tmp_path / "a.log"))


@pytest.mark.parametrize(("form", "module"), [("zst", _ZSTD.__name__), ("xz", "lzma"), ("bz2", "bz2")])
def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, module: str) -> None:
    path = tmp_path / f"x.csv.{form}"
    path.write_bytes(FORMS[form](FILES["plain.csv"]))
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(HostError, match=r"requires .*, or unpack the file"):
        read_traces(path, "csv")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
@pytest.mark.parametrize("form", ["", *FORMS])
def test_other_encodings(tmp_path: Path, encoding: str, form: str) -> None:
    pack = FORMS.get(form, bytes)
    table, log = tmp_path / "x.csv", tmp_path / "a.log"
    table.write_bytes(pack("time,µ\r\n1,2\r\n2,3\r\n".encode(encoding)))
    log.write_bytes(
        pack("".join(f"2024-05-01 12:00:{at:02} step {at % 3} \u20ac\r\n" for at in range(60)).encode(encoding))
    )
    for options in ((), ("csv",)):
        (trace,) = read_traces(table, *options)
        assert trace["µ"].tolist() == [2, 3]
    assert len(read_events(log)) == 60


def test_perf_stat_with_a_mark_of_its_byte_order(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    rows = "".join(f"     0.{at}00000000,{at},,cycles,100000000,100.00,,\r\n" for at in range(1, 6))
    path.write_bytes(f"\ufeff# started on Mon Jan  1 00:00:00 2024\r\n\r\n{rows}".encode())
    (trace,) = read_traces(path)
    assert trace["cycles"].tolist() == [1, 2, 3, 4, 5]


def test_plain_names() -> None:
    assert plain_name(Path("a/b.csv.GZ")) == Path("a/b.csv")
    assert plain_name(Path("a/b.csv")) == Path("a/b.csv")
    assert find_format("csv").recognise(FILES["plain.csv"])
