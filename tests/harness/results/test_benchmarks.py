"""Verdicts on totals that other harnesses recorded: matched by name, one family, and what they cannot tell."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.collectors.imports.totals.made import Times, benchexec, google, hyperfine, pyperf
from tests.harness.results.schema_faults import schema_faults
from unperturbed.analysis.totals import check_totals
from unperturbed.collectors.data import Trace
from unperturbed.collectors.imports import read_traces
from unperturbed.errors import DataError
from unperturbed.harness.studies.benchmarks import BenchmarkVerdicts, compare_benchmarks, of_benchmark

CHANCE = np.random.default_rng(7)


def times(mean: float, runs: int = 10, spread: float = 0.002) -> list[float]:
    return [mean * float(factor) for factor in np.exp(spread * CHANCE.normal(size=runs))]


def recorded(folder: Path, name: str, content: bytes) -> list[Trace]:
    (folder / name).write_bytes(content)
    return read_traces(folder / name)


def compared(folder: Path, before: Times, after: Times, **settings: object) -> BenchmarkVerdicts:
    sides = [recorded(folder, f"{name}.json", hyperfine(each)) for name, each in (("before", before), ("after", after))]
    return compare_benchmarks("JSON of hyperfine", sides[0], sides[1:], **settings)  # type: ignore[arg-type]


def test_each_benchmark_has_its_verdict(tmp_path: Path) -> None:
    before = {"same": times(1.0), "slower": times(2.0), "noisy": times(1.0, spread=0.2), "gone": times(1.0)}
    after = {"same": times(1.0), "slower": times(2.2), "noisy": times(1.0, spread=0.2), "new": times(1.0)}
    verdicts = compared(tmp_path, before, after)
    assert dict(verdicts.verdicts) == {"same": "unperturbed", "slower": "perturbed", "noisy": "undecided"}
    assert verdicts.headline() == "3 benchmarks: 1 perturbed (slower), 1 undecided (noisy) and 1 unperturbed"
    assert verdicts.sentences()[0] == "same: time is the same within 2 %."
    assert verdicts.sentences()[1].startswith("slower has 10 % more time")
    assert "Only in the baseline: gone." in verdicts.notes
    assert "Only in checked: new." in verdicts.notes
    assert verdicts.at_least("perturbed") == ("slower",)
    assert verdicts.at_least("undecided") == ("slower", "noisy")
    assert verdicts.to_frame()["benchmark"].to_list() == ["same", "slower", "noisy"]


def test_all_benchmarks_are_one_family(tmp_path: Path) -> None:
    before, after = ({f"b{at}": times(1.0) for at in range(5)} for _ in range(2))
    verdicts = compared(tmp_path, before, after)
    alone = compared(tmp_path, {"b0": before["b0"]}, {"b0": after["b0"]})
    p = sorted((changes[0].p, changes[0].p_corrected) for changes in verdicts.totals.values())
    assert p[0][1] == pytest.approx(min(1, 5 * p[0][0]))
    assert alone.totals["b0"][0].p_corrected == alone.totals["b0"][0].p == verdicts.totals["b0"][0].p


def test_the_same_as_the_library_tells_of_one_benchmark(tmp_path: Path) -> None:
    before, after = {"sort": times(1.0)}, {"sort": times(1.05)}
    verdicts = compared(tmp_path, before, after)
    sides = (read_traces(tmp_path / f"{name}.json") for name in ("before", "after"))
    (expected,) = check_totals(*sides, ["time_s"])
    assert verdicts.totals["sort"] == (expected,)


def test_a_tolerance_decides(tmp_path: Path) -> None:
    before, after = {"sort": times(1.0)}, {"sort": times(1.04)}
    wide = compared(tmp_path, before, after, tolerances={"time": 0.1})
    assert (wide.verdicts["sort"], compared(tmp_path, before, after).verdicts["sort"]) == ("unperturbed", "perturbed")


def test_two_single_benchmarks_need_no_common_name(tmp_path: Path) -> None:
    verdicts = compared(tmp_path, {"./old": times(1.0)}, {"./new": times(1.0)})
    assert list(verdicts.totals) == ["./new"]
    assert "./new is compared with ./old, under the former's name." in verdicts.notes


def test_without_a_common_name_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"the baseline has a, b; checked has c\. .* --option baseline=NAME"):
        compared(tmp_path, {"a": times(1), "b": times(1)}, {"c": times(1)})


def test_too_few_runs_are_refused_with_the_number_that_is_needed(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"too few runs .* at least 2 runs, .* \(.*: a has 1 and 10\)"):
        compared(tmp_path, {"a": times(1.0, runs=1)}, {"a": times(1.0)})
    verdicts = compared(tmp_path, {"a": times(1.0), "b": times(1.0)}, {"a": times(1.0), "b": times(1.0, runs=1)})
    assert list(verdicts.totals) == ["a"]
    assert any(note.startswith("1 benchmark not compared: each side needs at least 2") for note in verdicts.notes)


def test_a_benchmark_may_be_chosen_by_its_name(tmp_path: Path) -> None:
    traces = recorded(tmp_path, "both.json", hyperfine({"old": times(1.0), "new": times(1.0)}))
    assert {trace.attributes["benchmark"] for trace in of_benchmark(traces, "new", "checked")} == {"new"}
    with pytest.raises(DataError, match=r"baseline=odl: the files have no such benchmark; they have old, new"):
        of_benchmark(traces, "odl", "baseline")


def of_google(folder: Path, role: str, files: Sequence[Sequence[float]]) -> list[Trace]:
    made = [google({"BM": each}, date=f"2031-01-02 1{at}:00:00") for at, each in enumerate(files)]
    return [trace for at, content in enumerate(made) for trace in recorded(folder, f"{role}{at}.json", content)]


def test_runs_of_a_process_are_averaged_where_there_are_enough_processes(tmp_path: Path) -> None:
    """Ten repetitions of a process agree, and processes differ: only processes may decide."""
    before, after = (
        of_google(tmp_path, role, [times(mean, spread=1e-4) for mean in means])
        for role, means in (("before", (1.0, 1.1, 1.2)), ("after", (1.05, 1.15, 1.25)))
    )
    many = compare_benchmarks("Google Benchmark", before, [after])
    assert len(many.totals["BM"][0].reference) == 3
    assert many.verdicts["BM"] == "undecided"
    assert not any("of one process" in note for note in many.notes)
    one = compare_benchmarks("Google Benchmark", before[:10], [after[:10]])
    assert len(one.totals["BM"][0].reference) == 10
    assert one.verdicts["BM"] == "perturbed"
    assert any(note.startswith("Runs of one process are compared as if") for note in one.notes)


def test_what_two_recordings_cannot_tell(tmp_path: Path) -> None:
    def notes(before: bytes, after: bytes) -> str:
        sides = [recorded(tmp_path, name, content) for name, content in (("a", before), ("b", after))]
        return "\n".join(compare_benchmarks("made", sides[0], sides[1:]).notes)

    values = {"sort": [[1.0], [1.01], [1.02]]}
    early, late = pyperf(values), pyperf(values, host="there").replace(b"2031-01-02 10", b"2031-01-02 11")
    said = notes(early, late)
    assert "The sides were recorded one after the other (the baseline from 2031-01-02 10:00:00 to" in said
    assert "The baseline was recorded on here, and checked on there" in said
    assert "overlap in time" in notes(early, early + b"\n")
    assert "do not show when each run took place" in notes(*(hyperfine({"sort": times(1.0)}) for _ in range(2)))


def test_totals_that_some_runs_lack_are_not_compared(tmp_path: Path) -> None:
    before = recorded(tmp_path, "a.json", hyperfine({"a": times(1.0)}, memory_usage_byte=[4096] * 10))
    after = recorded(tmp_path, "b.json", hyperfine({"a": times(1.0)}))
    verdicts = compare_benchmarks("made", before, [after])
    assert [change.metric for change in verdicts.totals["a"]] == ["time_s"]
    assert "memory of a: not compared, because some runs lack it, or have another unit." in verdicts.notes


def test_sides_without_a_common_total_are_named_with_their_units(tmp_path: Path) -> None:
    before = recorded(tmp_path, "a.json", pyperf({"sort": [[1.0], [1.1]]}))
    after = recorded(tmp_path, "b.json", pyperf({"sort": [[4096.0], [4097.0]]}, unit="byte"))
    wanted = r"sort: the baseline has time_s \[s\], and checked has memory \[B\]\)\. Give files"
    with pytest.raises(DataError, match=wanted):
        compare_benchmarks("made", before, [after])


def test_several_checked_sides_are_families_of_their_own(tmp_path: Path) -> None:
    sides = [recorded(tmp_path, f"{at}.json", hyperfine({"a": times(1.0 + at / 10)})) for at in range(3)]
    verdicts = compare_benchmarks("made", sides[0], sides[1:])
    assert list(verdicts.totals) == ["checked-1: a", "checked-2: a"]


def test_files_of_benchexec_are_runs_of_each_task(tmp_path: Path) -> None:
    sides = []
    for role, factor in (("a", 1.0), ("b", 1.5)):
        files = [benchexec({"x.yml": mean * factor}, date=f"2031 {role} {at}") for at, mean in enumerate(times(1.0, 4))]
        sides.append([trace for at, file in enumerate(files) for trace in recorded(tmp_path, f"{role}{at}.xml", file)])
    verdicts = compare_benchmarks("XML of BenchExec", sides[0], sides[1:])
    found = {change.metric: change.verdict for change in verdicts.totals["x.yml (unreach-call)"]}
    assert found == {"cpu_s": "perturbed", "time_s": "perturbed", "memory": "unperturbed"}


def test_json_and_page(tmp_path: Path) -> None:
    verdicts = compared(tmp_path, {"a<b": times(1.0)}, {"a<b": times(1.2)})
    written = json.loads(json.dumps(verdicts.to_dict(), allow_nan=False))
    assert schema_faults("verdicts", written) == []
    assert written["verdicts"] == []
    assert [change["verdict"] for change in written["totals"]["a<b"]] == ["perturbed"]
    assert "no verdicts on correlations" in written["notes"][0]
    page = verdicts.write_html(tmp_path / "report.html").read_text()
    assert "What the comparison leaves open" in page
    assert "a&lt;b has" in page
    assert "a<b has" not in page
