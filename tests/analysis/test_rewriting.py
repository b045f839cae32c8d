"""What the rewriting of a program adds to a run, by function."""

from __future__ import annotations

from pathlib import Path

from unperturbed.analysis.rewriting import Rewriting
from unperturbed.collectors.sources.instructions import read_profile

LIBC = "/lib/libc.so.6"
BEFORE = {("prog", "main"): 100, ("prog", "walk"): 800, ("", "?"): 100}
AFTER = {("prog", "main"): 100, ("prog", "walk"): 850, ("prog", "step"): 60, ("", "?"): 100}
NO_OPS = {("prog", "walk"): {"turns": 40}, ("prog", "step"): {"steps": 10}}
KINDS = {("prog", "walk"): {"memory": 30, "vector": -20}, ("prog", "step"): {"call": 50}}


def test_no_ops_and_other_code_are_told_apart() -> None:
    added = Rewriting.of(BEFORE, AFTER, NO_OPS, KINDS)
    assert (added.before, added.after) == (1000, 1110)
    assert {cost.name: (cost.after - cost.before, cost.by_compiler) for cost in added.functions} == {
        "step": (60, 50),
        "walk": (50, 10),
    }
    assert list(added.no_ops.items()) == [("turns", 40), ("steps", 10)]
    said = " ".join(added.sentences("ready")).replace("\u00a0", " ")
    assert "Without counting, ready executes +11 % instructions: 5.0 % are no-ops, one for each event, and" in said
    assert "and 6.0 % come from other code that the compiler generates around them." in said
    assert "No-ops of ready by metric: turns 4.0 %, steps 1.0 %." in said
    assert (
        "Functions of ready with other code: step (+5.0 %: calls +5.0 %) and walk (+1.0 %: memory accesses +3.0 %, "
        "vector instructions −2.0 %)." in said
    )
    assert Rewriting.from_dict(added.to_dict()) == added
    assert [str(row[0]) for row in added.table("ready").rows] == ["step", "walk"]


def test_functions_without_a_place_are_not_the_compilers_work() -> None:
    """In a C++ program that throws, the unwinder of the host executed more; around the sites, nothing had changed."""
    unwinder = ("/lib/libgcc_s.so.1", "_Unwind_Find_FDE")
    before = {**BEFORE, unwinder: 50_000, (LIBC, "memcpy"): 49_000}
    after = {**BEFORE, ("prog", "walk"): 840, ("prog", "begin"): 30, unwinder: 50_480, (LIBC, "memcpy"): 49_003}
    added = Rewriting.of(before, after, {("prog", "walk"): {"turns": 40}}, {})
    assert [cost.title for cost in added.functions] == ["_Unwind_Find_FDE of libgcc_s.so.1", "walk", "begin"]
    said = [sentence.replace("\u00a0", " ") for sentence in added.sentences("ready")]
    assert said == [
        "Without counting, ready executes +0.55 % instructions: 0.040 % are no-ops, one for each event, 0 % come from "
        "other code that the compiler generates around them, and 0.51 % are in functions without a counted place that "
        "is executed.",
        "No-ops of ready by metric: turns 0.040 %.",
        "Functions of ready without a counted place that differ: _Unwind_Find_FDE of libgcc_s.so.1 (+0.48 %) and begin "
        "(+0.030 %).",
    ]
    assert Rewriting.from_dict(added.to_dict()) == added


def test_functions_that_differ_between_runs_of_the_program_are_not_blamed_on_the_rewriting() -> None:
    """Lua seeds its hashes by the clock: chains, and so searches, differ from run to run."""
    before = {**BEFORE, ("prog", "find"): 540, ("prog", "grow"): 100}
    after = {**AFTER, ("prog", "find"): 648, ("prog", "grow"): 120}
    again = {**before, ("prog", "find"): 648, ("prog", "walk"): 805}
    added = Rewriting.of(before, after, NO_OPS, KINDS, again=again)
    assert {cost.name: cost.spread for cost in added.functions} == {"find": 108, "step": 0, "walk": 5, "grow": 0}
    assert [cost.name for cost in added.functions if cost.varies] == ["find", "walk"]
    said = [sentence.replace("\u00a0", " ") for sentence in added.sentences("ready")]
    assert said[2:] == [
        "Functions of ready with other code: step (+3.0 %: calls +3.0 %).",
        "Functions of ready without a counted place that differ: grow (+1.2 %).",
        "Two runs of the untouched program differ in find (6.6 %) and walk (0.30 %): the differences of ready in "
        "these functions may be the program's own.",
    ]
    assert [str(row[0]) for row in added.table("ready").rows][:2] == ["find (differs between runs)", "step"]
    assert Rewriting.from_dict(added.to_dict()) == added


def test_clones_and_parts_are_their_function() -> None:
    """A function that counts is no longer cloned: it has not lost code and won as much elsewhere."""
    before = {("prog", "probe.isra.0"): 900, ("prog", "main"): 100}
    after = {("prog", "probe"): 880, ("prog", "probe.cold"): 60, ("prog", "main"): 100}
    no_ops, kinds = (
        {("prog", "probe"): {"probes": 30}},
        {("prog", "probe"): {"call": 4}, ("prog", "probe.cold"): {"call": 6}},
    )
    (probe,) = Rewriting.of(before, after, no_ops, kinds).functions
    assert (probe.name, probe.before, probe.after, probe.by_compiler) == ("probe", 900, 940, 10)
    assert (probe.no_ops, probe.kinds) == ({"probes": 30}, {"call": 10})


def test_subsets_are_split_into_few_builds_with_few_no_ops() -> None:
    no_ops = {("prog", "walk"): {"a": 2, "b": 4, "c": 40, "d": 5, "e": 3}}
    added = Rewriting.of({("prog", "walk"): 1000}, {("prog", "walk"): 1054}, no_ops, {})
    subsets = {"few": ["a"], "some": ["b"], "many": ["c"], "others": ["d"], "rest": ["e"]}
    assert added.split(subsets, 0.01) == [("rest", "few"), ("others", "some"), ("many",)]
    assert added.split(subsets, 0.1) == [("many", "others", "some", "rest", "few")]


def test_other_code_of_a_function_counts_once_for_all_metrics_with_sites_there() -> None:
    no_ops = {("prog", "walk"): {"a": 2, "b": 4}, ("prog", "turn"): {"c": 1}}
    before, after = ({("prog", name): number for name in ("walk", "turn")} for number in (500, 505))
    added = Rewriting.of(before, after | {("prog", "walk"): 496}, no_ops, {})
    assert {cost.name: cost.by_compiler for cost in added.functions} == {"walk": -10, "turn": 4}
    subsets = {name: [name] for name in "abc"}
    assert added.split(subsets, 0.016) == [("c",), ("b", "a")]
    assert added.split(subsets, 0.015) == [("c",), ("a",), ("b",)]
    assert added.split(subsets, 0.021) == [("b", "a", "c")]


def test_a_program_that_stays_the_same_adds_nothing() -> None:
    added = Rewriting.of(BEFORE, BEFORE, {}, {})
    assert added.functions == () and added.table("ready").rows == []
    assert len(added.sentences("ready")) == 1


PROFILE = """\
# callgrind format
positions: instr
events: Ir
ob=/build/prog
fl=a.c
fn=main
0x10 2
0x14 2
cfn=walk
calls=3 0x20
0x18 900
fi=b.h
0x1c 1
fn=walk'2
0x20 7
fn=walk
0x20 5
ob=/lib/libc.so
fn=memcpy
0x20 4
"""


def test_a_profile_has_executions_by_address_and_no_cost_of_callees_twice(tmp_path: Path) -> None:
    (tmp_path / "profile.1").write_text(PROFILE)
    (tmp_path / "profile.2").write_text(PROFILE)
    assert {key: dict(executions) for key, executions in read_profile(tmp_path).items()} == {
        ("/build/prog", "main"): {0x10: 4, 0x14: 4, 0x1C: 2},
        ("/build/prog", "walk"): {0x20: 24},
        ("/lib/libc.so", "memcpy"): {0x20: 8},
    }
