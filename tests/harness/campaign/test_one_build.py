"""Campaigns whose configurations are one build, patched before each run."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.harness.campaign.test_sampling_campaign import traces
from tests.harness.phases_campaign import unperturbed, verdicts, write_spec
from tests.harness.results.schema_faults import schema_faults
from unperturbed.analysis.rewriting import Rewriting
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.program.patching import count_at, places_of

TWO = {
    "campaign__builds": "one",
    "campaign__subsets": {"steps": ["steps"], "turns": ["turns"]},
    "analysis__totals": {"PAPI_TOT_INS": "99 %"},  # so that subsets with many no-ops share a build
}
SOFTWARE = {"rounds": {"enter": "begin_round"}, "steps": {"loop": "walk"}, "turns": {"loop": "sweep"}}
START_UP = 1000
"""Instructions by which runs of one build may differ: the signals that a run takes."""


def totals(campaign: Path, configuration: str, metric: str) -> set[int]:
    return {int(trace[metric].sum()) for trace in traces(campaign, configuration)}


def fact(campaign: Path) -> dict[str, object]:
    with Manifest(campaign / "campaign.sqlite", read_only=True) as manifest:
        return dict(manifest.fact("one_build"))


def test_all_configurations_are_one_build_and_count_exactly(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, **TWO, measure__software=SOFTWARE, campaign__sham=True)
    campaign = tmp_path / "campaigns" / "phases"
    result = unperturbed(tmp_path, "run", spec)
    assert result.returncode in (0, 4), result.stderr
    families = {"ready": ["rounds", "steps", "turns"]}
    assert fact(campaign) == {"families": families, "why_not": "", "tried": True}
    assert sorted(path.name for path in (campaign / "builds").iterdir()) == ["00", "01"]
    assert [row["configuration"] for row in verdicts(campaign)["verdicts"]] == [
        "ready",
        "anchor",
        "steps",
        "turns",
    ]
    assert "ready has a no-op at every site of rounds, steps and turns, and counts nothing" in result.stdout
    assert "What changes the program" in result.stdout
    counting = verdicts(campaign)["counting"]
    assert list(counting) == ["anchor", "steps", "turns"]
    for alone in counting.values():
        assert {change["check"] for change in alone["changes"]} == {"inner", "outer"}
    assert "1. rewriting" in (campaign / "report.html").read_text()
    assert schema_faults("verdicts", verdicts(campaign)) == []
    separate = write_spec(tmp_path / "separate", measure__software=SOFTWARE, campaign__subsets=TWO["campaign__subsets"])
    other = unperturbed(tmp_path / "separate", "run", separate)
    assert other.returncode in (0, 4), other.stderr
    kept = tmp_path / "separate" / "campaigns" / "phases"
    for configuration, metrics in {
        "anchor": ["rounds"],
        "steps": ["rounds", "steps"],
        "turns": ["rounds", "turns"],
    }.items():
        assert {trace.names("software") for trace in traces(campaign, configuration)} == {tuple(metrics)}
        for metric in metrics:
            counts = totals(campaign, configuration, metric)
            assert counts == totals(kept, configuration, metric)
            assert min(counts) > 0
    assert {trace.names("software") for trace in traces(campaign, "ready")} == {()}
    added = Rewriting.from_dict(verdicts(campaign)["rewriting"]["ready"])
    assert {metric: {count} for metric, count in added.no_ops.items()} == {
        metric: totals(campaign, name, metric)
        for metric, name in (("rounds", "anchor"), ("steps", "steps"), ("turns", "turns"))
    }
    assert {cost.file for cost in added.functions} == {"phases"}
    assert "no-ops, one for each event" in result.stdout
    instructions = {name: totals(campaign, name, "PAPI_TOT_INS") for name in ("ready", "anchor", "steps", "turns")}
    every = set().union(*instructions.values())
    assert max(every) - min(every) <= START_UP, instructions


def test_configurations_share_layouts_and_are_compared_within_them(tmp_path: Path) -> None:
    design = {"campaign__layouts": "varied", "campaign__sham": True, "campaign__runs": 5, "campaign__baseline_runs": 6}
    spec = write_spec(tmp_path, **TWO, measure__software=SOFTWARE, **design)
    campaign = tmp_path / "campaigns" / "phases"
    result = unperturbed(tmp_path, "run", spec)
    assert result.returncode in (0, 4), result.stderr
    rounds = {
        name: [tuple(trace.attributes[key] for key in ("block", "layout")) for trace in traces(campaign, name)]
        for name in ("baseline", "ready", "steps", "turns")
    }
    assert sorted(rounds["baseline"]) == [(block, block + 1) for block in range(6)]
    assert len(set(rounds["ready"])) == 5
    assert set(rounds["ready"]) == set(rounds["steps"]) == set(rounds["turns"])
    layouts = {f"{layout:03d}" for _, layout in rounds["ready"]}
    assert {path.name for path in campaign.glob("builds/00/layouts/0*")} >= {"000", *layouts}
    linked = [
        line.partition("linking ")[2].removesuffix(" …") for line in result.stderr.splitlines() if "linking " in line
    ]
    assert linked == ["baseline", "6 layouts of baseline", "5 layouts of ready"], "once for each build"
    for name in ("steps", "turns"):
        assert totals(campaign, name, name) != {0}
    assert totals(campaign, "steps", "rounds") == totals(campaign, "turns", "rounds")
    (note,) = (note for note in verdicts(campaign)["notes"] if "within layouts" in note)
    assert re.search(r"leaves out [0-9.]+\u00a0% of the variance", note)


@pytest.mark.long  # test_doses.py has a campaign with families, too
def test_families_are_builds_of_their_own(tmp_path: Path) -> None:
    families = {"walks": ["steps"], "sweeps": ["turns"]}
    design = {"campaign__families": families, "campaign__sham": True, "campaign__runs": 5}
    spec = write_spec(tmp_path, **TWO, measure__software=SOFTWARE, **design)
    campaign = tmp_path / "campaigns" / "phases"
    result = unperturbed(tmp_path, "run", spec)
    assert result.returncode in (0, 4), result.stderr
    assert fact(campaign)["families"] == {"ready-walks": ["rounds", "steps"], "ready-sweeps": ["rounds", "turns"]}
    assert {path.name for path in campaign.glob("builds/*")} == {"00", "01", "02"}
    found = verdicts(campaign)
    assert set(found["counting"]) == {"anchor", "steps", "turns"}
    for family, metric in (("ready-walks", "steps"), ("ready-sweeps", "turns")):
        assert set(Rewriting.from_dict(found["rewriting"][family]).no_ops) == {"rounds", metric}
        assert totals(campaign, metric, metric) != {0}
        instructions = [totals(campaign, name, "PAPI_TOT_INS") for name in (family, metric)]
        every = set().union(*instructions)
        assert max(every) - min(every) <= START_UP, instructions
    planned = json.loads(unperturbed(tmp_path, "run", "--dry-run", "--json", spec).stdout)
    assert planned["builds"] == {
        "reference": [],
        "baseline": [],
        "ready-walks": ["rounds", "steps"],
        "ready-sweeps": ["rounds", "turns"],
    }


@pytest.mark.long
def test_a_build_that_executes_many_no_ops_is_split(tmp_path: Path) -> None:
    subsets = {"steps": ["steps"], "turns": ["turns"], "both": ["rounds"]}
    split = {**TWO, "analysis__totals": {}, "campaign__subsets": subsets, "analysis__anchor": None}
    spec = write_spec(tmp_path, **split, measure__software=SOFTWARE, campaign__sham=True, campaign__runs=5)
    campaign = tmp_path / "campaigns" / "phases"
    result = unperturbed(tmp_path, "run", spec)
    assert result.returncode in (0, 4), result.stderr
    families = {
        f"ready-{name}": [metric] for name, metric in (("both", "rounds"), ("steps", "steps"), ("turns", "turns"))
    }
    assert fact(campaign) == {"families": families, "why_not": "", "tried": True}
    note = re.compile(r"3 builds, expected to change less: both ≈\s0\s%; steps [\d.]+\s%; turns [\d.]+\s%\.")
    assert note.search(result.stderr)
    found = verdicts(campaign)
    assert any(map(note.search, found["notes"]))
    assert [row["configuration"] for row in found["verdicts"]] == [*families, *subsets]
    for family, (metric,) in families.items():
        assert set(Rewriting.from_dict(found["rewriting"][family]).no_ops) == {metric}
    shutil.rmtree(campaign / "runs" / "0003")
    again = unperturbed(tmp_path, "run", spec)
    assert again.returncode in (0, 4), again.stderr
    assert "building ready " not in again.stderr
    planned = unperturbed(tmp_path, "run", "--dry-run", spec).stdout
    assert "build ready is split if it executes too many instructions without counting" in planned
    assert [row["configuration"] for row in verdicts(campaign)["verdicts"]] == [*families, *subsets]
    assert unperturbed(tmp_path, "check", campaign).returncode == again.returncode


CHECKED = """\
cc: phases.c
	$(CC) $(CFLAGS) -O2 -o phases phases.c
	cksum < phases > phases.sum
"""


GOLD = "all: phases.c\n\t$(CC) -O2 -ffunction-sections -fuse-ld=gold -Wl,--gc-sections -o phases phases.c\n"
DAMAGED = """\
all: phases.c
	$(CC) -O2 -o phases phases.c
	head -c 10000 /dev/zero > zeros
	objcopy --dump-section unperturbed_places=places phases /dev/null 2> errors; if test -f places; then \\
	head -c $$(stat -c %s places) zeros > bad && objcopy --update-section unperturbed_places=bad phases; fi
"""
INTEL = "all: phases.c\n\t$(CC) -O2 -masm=intel -o phases phases.c\n"
OWN_BYTES = ("/bin/sh {spec}/checked.sh {build}", "the program's result changes if its file is patched")
DROPPED = ("{build}/phases 60", "the linker dropped the list of places")
NO_LIST = ("{build}/phases 60", "is damaged")
SYNTAX = ("{build}/phases 60", "need AT&T assembly syntax")
clang = pytest.mark.skipif(not shutil.which("clang"), reason="clang is not installed")
gold = pytest.mark.skipif(not shutil.which("ld.gold"), reason="gold is not installed")


@pytest.mark.parametrize(
    ("makefile", "run", "why"),
    [
        pytest.param(CHECKED, *OWN_BYTES, id="own bytes"),
        pytest.param(GOLD, *DROPPED, id="gold", marks=[gold, pytest.mark.long]),
        pytest.param(DAMAGED, *NO_LIST, id="damaged list", marks=pytest.mark.long),
        pytest.param(INTEL, *SYNTAX, id="intel syntax", marks=clang),
    ],
)
def test_where_a_program_cannot_be_patched_there_are_separate_builds(tmp_path: Path, makefile, run, why) -> None:
    compilers = {"cc": "clang"} if "intel" in makefile else None
    spec = write_spec(tmp_path, campaign__builds="one", program__run=run, program__compilers=compilers)
    (tmp_path / "phases" / "Makefile").write_text(makefile)
    (tmp_path / "checked.sh").write_text(
        'cksum < "$1/phases" | cmp -s - "$1/phases.sum" || exit 1\nexec "$1/phases" 60\n'
    )
    campaign = tmp_path / "campaigns" / "phases"
    result = unperturbed(tmp_path, "run", spec)
    assert result.returncode in (0, 4), result.stderr
    assert why in str(fact(campaign)["why_not"])
    assert why in " ".join(result.stderr.split())
    own = "The baseline is a build of its own: the program's result changes if it is linked again."
    assert (own in " ".join(result.stderr.split())) == ("result changes" in why)
    assert len({path.name for path in (campaign / "builds").iterdir()}) >= 4
    assert totals(campaign, "steps", "steps") != {0}
    assert why in html.unescape((campaign / "report.html").read_text())


def test_a_file_is_patched_from_any_state(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, **TWO, measure__software=SOFTWARE, campaign__runs=3, campaign__baseline_runs=5)
    campaign = tmp_path / "campaigns" / "phases"
    assert unperturbed(tmp_path, "run", spec).returncode in (0, 4)
    tree = campaign / "builds" / "01" / "src"
    ((program, places),) = places_of(tree).items()
    program.chmod(0o555)
    before = program.stat()
    contents = []
    for metrics in ((), (0,), (0, 2), ()):
        count_at(tree, metrics)
        content = program.read_bytes()
        contents.append(content)
        for place in places:
            wanted = place.counting if place.metric in metrics else place.idle
            assert content[place.offset :][: len(wanted)] == wanted
    assert contents[0] == contents[3]
    assert len(set(contents)) == 3
    after = program.stat()
    assert (after.st_mode, after.st_mtime_ns, after.st_ino) == (before.st_mode, before.st_mtime_ns, before.st_ino)
    state = tree.parent / "patched"
    state.unlink()  # as a process leaves it that was killed
    with program.open("r+b") as file:
        os.pwrite(file.fileno(), places[0].counting, places[0].offset)
    count_at(tree, ())
    assert program.read_bytes() == contents[0]


@pytest.mark.long
def test_a_program_that_fails_under_callgrind_is_measured_without_a_profile(tmp_path: Path) -> None:
    (tmp_path / "native.sh").write_text('case "$LD_PRELOAD" in *vgpreload*) exit 3 ;; esac\nexec "$1/phases" 3000\n')
    spec = write_spec(
        tmp_path,
        **{**TWO, "analysis__totals": {}},
        measure__software=SOFTWARE,
        campaign__sham=True,
        program__run="/bin/sh {spec}/native.sh {build}",
        program__sampled="phases",
        measure__source="perf_event",
        measure__hardware=["perf::task-clock", "perf::page-faults"],
        measure__interval="2 ms",
        measure__derived={},
        analysis__align_on=["perf::task-clock"],
    )
    result = unperturbed(tmp_path, "run", spec, "--no-check")
    assert result.returncode == 0, result.stderr
    assert "under callgrind, the program fails" in result.stderr + result.stdout
    with Manifest(tmp_path / "campaigns" / "phases" / "campaign.sqlite", read_only=True) as manifest:
        assert manifest.fact("rewriting") is None
        assert {state.state for state in manifest.runs()} == {"done"}
