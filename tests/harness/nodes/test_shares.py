"""The share of each node: how runs are dealt out, who owns a part, and which nodes differ."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from unperturbed.errors import SpecError
from unperturbed.harness.campaign.plan import configurations
from unperturbed.harness.nodes.shares import NodePart, claim, lacks, parts_of, read_json, share_of, write_once
from unperturbed.harness.nodes.worker import differences, node_facts
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import parse_spec

TEXT = """
name: x
program: {source: phases, build: "make CC={cc}", run: "sleep 0"}
measure: {hardware: [], os: [minor_faults], software: {steps: {loop: walk}}}
campaign: {baseline_runs: BASE, runs: RUNS}
nodes: {engine: here, count: COUNT}
"""


def _spec(base: int, runs: int, count: int) -> CampaignSpec:
    text = TEXT.replace("BASE", str(base)).replace("RUNS", str(runs)).replace("COUNT", str(count))
    return parse_spec(text, "x.yaml", Path(__file__).parents[1])


def _runs(spec: CampaignSpec) -> dict[str, int]:
    return {item.name: item.runs for item in configurations(spec)}


def test_the_shares_are_the_whole_and_grow_with_it() -> None:
    for base, runs in ((22, 11), (23, 12), (40, 15)):
        whole = _spec(base, runs, 4)
        shares = [_runs(share_of(whole, number)) for number in (1, 2, 3, 4)]
        assert sum(share["baseline"] for share in shares) == base and sum(share["all"] for share in shares) == runs
        assert min(share["baseline"] for share in shares) >= 5 and min(share["all"] for share in shares) >= 2
    before, after = ([_runs(share_of(_spec(base, 11, 4), number)) for number in (1, 2, 3, 4)] for base in (22, 27))
    assert all(new["baseline"] >= old["baseline"] for old, new in zip(before, after, strict=True))
    seeds = {share_of(_spec(22, 11, 4), number).campaign.seed for number in (1, 2, 3, 4)}
    assert len(seeds) == 4
    assert share_of(_spec(22, 11, 4), 1).digest == _spec(27, 12, 4).digest  # a campaign goes on with more runs
    assert _spec(22, 11, 4).digest != _spec(22, 11, 3).digest


@pytest.mark.parametrize("change", ["time: '2:00:00'", "partition: long", "extra: [--qos=long]"])
def test_what_slurm_is_asked_for_may_change(change: str) -> None:
    text = TEXT.replace("BASE", "22").replace("RUNS", "11").replace("COUNT", "4").replace("here", "slurm")
    changed = text.replace("count: 4", f"count: 4, {change}")
    assert changed != text
    first, second = (parse_spec(one, "x.yaml", Path(__file__).parents[1]) for one in (text, changed))
    assert first.digest == second.digest


def test_too_few_runs_are_refused_with_the_numbers() -> None:
    with pytest.raises(SpecError) as refused:
        _spec(12, 5, 3)
    assert str(refused.value).splitlines() == [
        "x.yaml:5:27: `baseline_runs: 12` gives each node only 4 runs, but a node needs at least 5: set "
        "`baseline_runs` to 15 or more, or reduce `count`",
        "x.yaml:5:37: `runs: 5` gives each node only 1 run, but a node needs at least 2: set `runs` to 6 or "
        "more, or reduce `count`",
    ]
    assert lacks(_spec(10, 4, 2), {"baseline": 4, "all": 2}) == ("baseline 4 of 5",)
    assert lacks(_spec(10, 4, 2), {"baseline": 5, "all": 2}) == ()


def _part(folder: Path, number: int) -> NodePart:
    part = parts_of(folder, number)[-1]
    part.folder.mkdir(parents=True, exist_ok=True)
    return part


def test_a_part_has_one_owner_and_a_node_one_part(tmp_path: Path) -> None:
    parts = tuple(_part(tmp_path, number) for number in (1, 2))
    assert claim(parts[0], parts, "alpha") == "" and claim(parts[0], parts, "alpha") == ""
    assert claim(parts[0], parts, "beta") == "the part belongs to node alpha"
    assert claim(parts[1], parts, "alpha") == "node alpha already owns part 01"
    assert parts[1].owner is None and claim(parts[1], parts, "beta") == ""


def test_of_many_claims_at_once_one_holds(tmp_path: Path) -> None:
    part = _part(tmp_path, 1)
    start, won = threading.Barrier(16), []

    def contend(name: str) -> None:
        start.wait()
        if claim(part, (part,), name) == "":
            won.append(name)

    threads = [threading.Thread(target=contend, args=(f"node{at}",)) for at in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won == [part.owner]
    assert [path.name for path in part.folder.iterdir()] == ["owner.json"]


def test_a_damaged_file_gets_a_message(tmp_path: Path) -> None:
    assert write_once(tmp_path / "a.json", {"a": 1}) and not write_once(tmp_path / "a.json", {"a": 2})
    assert read_json(tmp_path / "a.json") == {"a": 1} and read_json(tmp_path / "b.json") is None
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(SpecError, match="damaged"):
        read_json(tmp_path / "a.json")
    (tmp_path / "a.json").write_text("[]")
    with pytest.raises(SpecError, match="not a JSON object"):
        read_json(tmp_path / "a.json")


def _tree(root: Path, *, model: str = "Zen", microcode: str = "0x1", governor: str = "performance") -> Path:
    files = {
        "proc/cpuinfo": f"processor : 0\nmodel name : {model}\nmicrocode : {microcode}\n\nprocessor : 1\n",
        "proc/meminfo": "MemTotal:       16777216 kB\n",
        "proc/sys/kernel/osrelease": "6.1.0\n",
        "proc/sys/kernel/randomize_va_space": "2\n",
        "proc/sys/kernel/perf_event_paranoid": "1\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": f"{governor}\n",
        "sys/devices/system/cpu/smt/control": "on\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    }
    for name, content in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    return root


def test_hard_and_soft_differences(tmp_path: Path) -> None:
    spec = _spec(10, 4, 2)

    def facts(name: str, **changes: str) -> dict[str, str]:
        return node_facts(spec, {"baseline": None}, tmp_path, root=_tree(tmp_path / name, **changes))

    first = facts("first")
    assert (first["processors"], first["memory"], first["transparent huge pages"]) == ("2", "16 GiB", "madvise")
    assert differences(first, facts("same")) == ((), ())
    soft = facts("soft", microcode="0x2", governor="powersave")
    assert differences(first, soft) == (
        (),
        ("microcode: 0x1 there, 0x2 here", "governor: performance there, powersave here"),
    )
    assert differences(first, facts("hard", model="Skylake")) == (("processor model: Zen there, Skylake here",), ())
    other = {**first, "program and libraries": "sha256 0"}
    assert differences(first, other)[0][0].startswith("program and libraries: sha256 ")


def test_another_binary_is_another_program(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tool").write_text(f"#!/bin/sh\necho {name}\n")
        (tmp_path / name / "tool").chmod(0o755)
    spec = parse_spec(
        TEXT.replace("sleep 0", "{build}/tool").replace("BASE", "10").replace("RUNS", "4").replace("COUNT", "2"),
        "x.yaml",
        tmp_path,
        recorded=True,
    )
    one, two = (node_facts(spec, {"baseline": tmp_path / name}, tmp_path) for name in ("a", "b"))
    assert one["program and libraries"] != two["program and libraries"]
    assert differences(one, two)[0][0].startswith("program and libraries")
