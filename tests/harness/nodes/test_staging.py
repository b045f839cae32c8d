"""Builds and inputs on each node's own disk: copied before the runs, the same program, gone after them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from tests.harness.campaign.test_software_campaign import NATIVE
from tests.harness.nodes.forked import Forked
from tests.harness.nodes.slurm import can_mount, cluster, lacking
from tests.harness.nodes.test_here import done, start, states, wait_for
from tests.harness.phases_campaign import unperturbed, write_spec
from tests.harness.program.test_layouts import symbols
from unperturbed.errors import HostError, SpecError
from unperturbed.harness.campaign.preparation import Workspace
from unperturbed.harness.nodes.staging import staged
from unperturbed.harness.spec.load import load_spec

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int part(void);
int main(int count, char **words) {
    (void)words;
    char gate[4096];
    snprintf(gate, sizeof gate, "%s/open", getenv("GATE"));
    while (access(gate, F_OK)) usleep(20000);
    usleep(250000);
    return puts("done") < 0 || count < part();
}
"""
MAKEFILE = """
tool: tool.c part.c
\t$(CC) -shared -fPIC part.c -o libpart.so
\t$(CC) tool.c -L. -lpart -Wl,-rpath,'$(RUN_PATH)' -o tool
"""


def tool_spec(folder: Path, *, run_path: str = "$$ORIGIN", engine: str = "here", count: int = 2, **nodes: Any) -> Path:
    """Write a spec of a program with a library beside it and an input file; its runs wait for the file `open`."""
    source = folder / "tool"
    source.mkdir(parents=True)
    for name, text in (("tool.c", PROGRAM), ("part.c", "int part(void) { return 1; }\n"), ("Makefile", MAKEFILE)):
        (source / name).write_text(text)
    (folder / "words.txt").write_text("words\n")
    spec = {
        "name": "tool",
        "program": {
            "source": "tool",
            "build": f"make CC={{cc}} 'RUN_PATH={run_path}'",
            "run": "{build}/tool",
            "environment": {"GATE": "{spec}"},
            "stdin": "{inputs}/words.txt",
            "inputs": ["words.txt"],
        },
        "measure": {"hardware": [], "os": ["minor_faults"], "software": {}, "interval": "20 ms"},
        "campaign": {"baseline_runs": 5 * count, "retries": 0},
        "nodes": {"engine": engine, "count": count, **nodes},
    }
    (folder / "spec.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
    return folder / "spec.yaml"


def commands(campaign: Path) -> list[str]:
    """Return the program of each finished run's command."""
    return [
        next(word for word in json.loads(meta.read_text())["command"] if word.endswith("/tool"))
        for meta in sorted(campaign.glob("nodes/*/runs/*/meta.json"))
        if meta.parent.name != "0000"
    ]


def disk(folder: Path) -> Path:
    made = folder / "disk"
    made.mkdir(parents=True)
    return made


def test_the_program_runs_from_the_copy_which_is_removed(tmp_path: Path) -> None:
    place = disk(tmp_path)
    spec = tool_spec(tmp_path / "spec", stage=str(place))
    campaign = tmp_path / "spec" / "campaigns" / "tool"
    running = start(spec, "--no-check")
    wait_for((campaign / "nodes/01/owner.json").exists)
    (first,) = place.iterdir()
    assert first.stat().st_mode & 0o777 == 0o700
    assert (first / "inputs/words.txt").is_file() and (first / "builds/00/src/libpart.so").is_file()
    # A job that is killed by force cannot remove its copy; the part's next one does.
    worker = psutil.Process(json.loads((campaign / "nodes/01/job.json").read_text())["pid"])
    (first / "left").touch()
    another = unperturbed(spec.parent, "work", campaign / "nodes" / "01")
    assert another.returncode == 2 and "another process is working on this part" in another.stderr
    assert (first / "left").exists()
    worker.kill()
    wait_for(lambda: not (first / "left").exists() and (first / "inputs").is_dir())
    (spec.parent / "open").touch()
    _, told = running.communicate(timeout=240)
    assert running.returncode == 0, told
    assert done(campaign) == 10 and not list(place.iterdir())
    found = commands(campaign)
    assert {command.removeprefix(f"{place}/unperturbed-")[12:] for command in found} == {
        f"-{part}/builds/01/src/tool" for part in ("01", "02")
    }
    assert len({len(command) for command in found}) == 1
    facts = [json.loads((campaign / f"nodes/{part}/facts.json").read_text())["facts"] for part in ("01", "02")]
    assert facts[0]["program and libraries"] == facts[1]["program and libraries"] != "unknown"


def test_each_node_has_layouts_of_its_own(tmp_path: Path) -> None:
    spec = write_spec(
        tmp_path,
        **{**NATIVE, "campaign__runs": 4},
        campaign__baseline_runs=10,
        campaign__layouts="varied",
        analysis__anchor=None,
        measure__software={"steps": {"loop": "walk"}},
        nodes={"engine": "here", "count": 2},
    )
    shown = unperturbed(tmp_path, "run", spec, "--no-check")
    assert shown.returncode == 0, shown.stderr
    campaign = tmp_path / "campaigns" / "phases"
    assert "linking 10 layouts of baseline" in shown.stderr
    found: dict[str, list[int]] = {}
    for meta in sorted(campaign.glob("nodes/*/runs/*/meta.json")):
        run = json.loads(meta.read_text())
        if run["run"] != "pilot":
            part = meta.parents[2]
            assert any(word.startswith(f"{part}/copy/builds/") for word in run["command"])
            found.setdefault(f"{part.name} {run['configuration']}", []).append(run["layout"])
    assert {name: sorted(layouts) for name, layouts in found.items()} == {
        "01 baseline": [1, 2, 3, 4, 5],
        "02 baseline": [10_001, 10_002, 10_003, 10_004, 10_005],
        "01 steps": [1, 2],
        "02 steps": [10_001, 10_002],
    }
    for part in ("01", "02"):
        assert "linking" not in (campaign / f"nodes/{part}/job.log").read_text()
        assert not (campaign / f"nodes/{part}/copy").exists()
    one, other = (campaign / f"builds/01/layouts/{number}/0" for number in ("001", "10001"))
    assert symbols(one) != symbols(other)


def test_a_cancelled_part_removes_its_copy(tmp_path: Path) -> None:
    place = disk(tmp_path)
    spec = tool_spec(tmp_path / "spec", stage=str(place))
    running = start(spec, "--no-check")
    wait_for((tmp_path / "spec/campaigns/tool/nodes/01/owner.json").exists)
    assert list(place.iterdir())
    assert unperturbed(spec.parent, "run", spec, "--cancel").returncode == 0
    running.communicate(timeout=60)
    assert not list(place.iterdir())


def test_a_copy_that_would_load_the_original_is_refused(tmp_path: Path) -> None:
    place = disk(tmp_path)
    spec = tool_spec(tmp_path / "spec", stage=str(place), run_path="$(CURDIR)")
    (spec.parent / "open").touch()
    shown = unperturbed(spec.parent, "run", spec, "--no-check")
    told = " ".join(shown.stderr.split())
    assert shown.returncode == 1 and "still loads libpart.so from" in told and "$ORIGIN" in told
    assert not list(place.iterdir()) and done(spec.parent / "campaigns/tool") == 0


def test_a_node_without_the_folder_is_told(tmp_path: Path) -> None:
    spec = tool_spec(tmp_path / "spec", stage=str(tmp_path / "absent"))
    (spec.parent / "open").touch()
    shown = unperturbed(spec.parent, "run", spec, "--no-check")
    assert shown.returncode == 1 and "absent is not a folder on this node" in " ".join(shown.stderr.split())
    assert not (tmp_path / "absent").exists()


def test_a_stage_without_anything_to_copy_or_of_a_relative_path_is_refused(tmp_path: Path) -> None:
    spec = tool_spec(tmp_path, stage="disk")
    with pytest.raises(SpecError, match="absolute path"):
        load_spec(spec)
    text = yaml.safe_load(spec.read_text())
    text["nodes"]["stage"] = "/tmp"
    text["program"] = {"run": "sleep 0.3"}
    spec.write_text(yaml.safe_dump(text))
    with pytest.raises(SpecError, match="`stage` has nothing to copy"):
        load_spec(spec)


def _workspace(folder: Path) -> Workspace:
    """Make what a coordinator built, of a script."""
    build = folder / "builds/00/src"
    build.mkdir(parents=True)
    (build / "tool").write_text("#!/bin/sh\n" + "# padding\n" * 50_000)
    (build / "tool").chmod(0o755)
    (folder / "inputs").mkdir()
    return Workspace({"reference": build}, folder / "inputs", "x")


def test_what_is_not_ours_is_never_removed_or_used(tmp_path: Path) -> None:
    spec, home = load_spec(tool_spec(tmp_path / "spec")), tmp_path / "home"
    workspace, target, above = _workspace(home), tmp_path / "target", disk(tmp_path)
    target.mkdir()
    (target / "kept").touch()
    (above / "copy").symlink_to(target)
    with pytest.raises(HostError, match="is a symbolic link"), staged(spec, home, workspace, above / "copy"):
        pass
    assert (target / "kept").exists() and (above / "copy").is_symlink()
    if os.geteuid() == 0:
        (above / "other").mkdir()
        os.chown(above / "other", 65534, 65534)
        with (
            pytest.raises(HostError, match="belongs to another user"),
            staged(spec, home, workspace, above / "other"),
        ):
            pass
        assert (above / "other").is_dir()
    with staged(spec, home, workspace, above / "own") as copies:
        assert copies.builds["reference"] == above / "own/builds/00/src" and copies.inputs == above / "own/inputs"
    assert not (above / "own").exists()


@pytest.mark.skipif(not can_mount(), reason="this user may not mount file systems")
def test_a_full_disk_of_the_node_is_told(tmp_path: Path) -> None:
    spec = tool_spec(tmp_path / "spec")
    _workspace(tmp_path / "home")
    code = (
        "import sys; from pathlib import Path\n"
        "from unperturbed.errors import HostError\n"
        "from unperturbed.harness.campaign.preparation import Workspace\n"
        "from unperturbed.harness.nodes.staging import staged\n"
        "from unperturbed.harness.spec import load_spec\n"
        "spec, home, place = map(Path, sys.argv[1:])\n"
        "workspace = Workspace({'reference': home / 'builds/00/src'}, home / 'inputs', 'x')\n"
        "try:\n"
        "    with staged(load_spec(spec), home, workspace, place / 'copy'): pass\n"
        "except HostError as error:\n"
        "    print(error, list(place.iterdir()))\n"
    )
    place = disk(tmp_path)
    mounted = f'mount -t tmpfs -o size=128k none {place} && exec "$@"'
    shown = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mounted, "sh", sys.executable, "-c", code, spec, tmp_path / "home", place],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.strip() == f"cannot copy the builds and inputs to {place}: no space left on this node's disk []"


@pytest.mark.skipif(bool(lacking()), reason=f"not installed: {', '.join(lacking())}")
@pytest.mark.skipif(not can_mount(), reason="this user may not mount file systems")
def test_three_nodes_with_disks_of_their_own(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with cluster(tmp_path_factory.mktemp("slurm"), local_disks=True) as slurm:
        spec = tool_spec(tmp_path, engine="slurm", count=3, stage=str(slurm.disk))
        campaign = tmp_path / "campaigns" / "tool"
        running = Forked(tmp_path, "run", spec, "--no-check", environment=slurm.environment)
        parts = [campaign / f"nodes/{part}" for part in ("01", "02", "03")]
        wait_for(lambda: all((part / "owner.json").exists() for part in parts))
        seen = {}
        for part in parts:
            node = json.loads((part / "owner.json").read_text())["node"]
            seen[part.name] = [path.name[-3:] for path in slurm.seen_by(node, slurm.disk).iterdir()]
        assert seen == {part: [f"-{part}"] for part in ("01", "02", "03")}
        assert not list(slurm.disk.iterdir())  # this host has another disk there, which nothing touches
        (tmp_path / "open").touch()
        _, told = running.communicate(timeout=240)
        assert running.returncode == 0, told
        assert len(states(campaign)) == 15 and {entry[1:] for entry in states(campaign)} == {("done", 1)}
        assert all(command.startswith(f"{slurm.disk}/unperturbed-") for command in commands(campaign))
        for node in ("node1", "node2", "node3"):
            assert not list(slurm.seen_by(node, slurm.disk).iterdir())
