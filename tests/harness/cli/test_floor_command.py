"""`unperturbed floor`: a program measured against itself, floors of recorded campaigns, plans that use them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import unperturbed as up
from tests.benchmarks.large_campaign import make
from tests.harness.cli.test_compare_command import FEW, SLOW
from tests.harness.phases_campaign import PHASES, unperturbed, verdicts
from unperturbed.analysis.floor.resolution import RUNS
from unperturbed.errors import SpecError
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.cli.campaigns import floor
from unperturbed.harness.cli.parser import full_parser
from unperturbed.harness.host.checks.load import disturbing_load
from unperturbed.harness.host.doctor import Finding
from unperturbed.harness.results.floor import causes_of, floor_of_baseline
from unperturbed.harness.results.recorded import read_traces, recorded_campaign

METRICS = FEW[2:]  # The same metrics and intervals


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program and the campaign that measured it against itself."""
    folder = tmp_path_factory.mktemp("floor")
    (folder / "one.c").write_text((PHASES / "phases.c").read_text() + SLOW)
    subprocess.run(["gcc", "-O1", "-o", "one", "one.c"], cwd=folder, check=True)
    done = unperturbed(folder, "floor", *FEW, "--", "./one", "25")
    assert done.returncode == 0, done.stderr
    (folder / "printed").write_text(done.stdout)
    return folder


def test_the_floor_of_a_program(measured: Path) -> None:
    printed = (measured / "printed").read_text()
    assert "Smallest change that n runs in each group show with power 80 % (α = 0.05); counts are" in " ".join(
        printed.split()
    )
    assert "s) probably suffice for every tolerance, except those for times" in printed
    assert "The floor comes from 5 runs in each group" in printed
    assert "only times show this host's noise" in " ".join(printed.split())
    campaign = measured / "campaigns" / "one-floor"
    floor = verdicts(campaign)["floor"]
    assert floor["runs"] == list(RUNS)
    kinds = {found["kind"] for found in floor["resolutions"]}
    assert kinds == {"total", "inner", "outer"}
    # Simulated counts of equal work do not vary by chance.
    instructions = next(found for found in floor["resolutions"] if found["metrics"] == ["PAPI_TOT_INS"])
    assert instructions["smallest"][RUNS.index(5)] < 0.01
    assert 'id="floor-lines"' in (campaign / "report.html").read_text()


def test_a_recorded_campaign_has_the_same_floor(measured: Path) -> None:
    campaign = measured / "campaigns" / "one-floor"
    done = unperturbed(measured, "floor", "campaigns/one-floor", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["campaign"] == str(campaign)
    assert isinstance(found.pop("causes"), list)
    assert {name: value for name, value in found.items() if name != "campaign"} == verdicts(campaign)["floor"]
    assert len(up.Campaign(campaign).floor().resolutions) == len(found["resolutions"])


def test_a_plan_uses_the_floor_of_the_same_command(measured: Path) -> None:
    same = unperturbed(measured, "run", "--dry-run", "--json", *METRICS, "--", "./one", "25")
    plan = json.loads(same.stdout)
    assert plan["floor"]["campaign"].endswith("campaigns/one-floor")
    assert plan["seconds"] == pytest.approx(plan["runs"] * plan["floor"]["seconds"])
    newer = measured / "campaigns" / "one-and-other"  # a comparison of two programs, made later
    newer.mkdir()
    for name in ("campaign.sqlite", "verdicts.json"):
        shutil.copy(measured / "campaigns" / "one-floor" / name, newer)
    with Manifest(newer / "campaign.sqlite") as manifest:
        first, programs, second = manifest.fact("spec_text").partition("\nprograms:")
        assert "one 25" in second
        manifest.set_facts(spec_text=f"{first}{programs}{second.replace('one 25', 'one 26', 1)}")
    again = unperturbed(measured, "run", "--dry-run", "--json", *METRICS, "--", "./one", "25")
    shutil.rmtree(newer)
    assert json.loads(again.stdout)["floor"] == json.loads(same.stdout)["floor"]
    shown = unperturbed(measured, "run", "--dry-run", *METRICS, "--", "./one", "25").stdout
    assert "noise floor, from" in shown
    for words in ((*METRICS, "--", "./one", "26"), ("--", "./one", "25")):  # other work, or other metrics
        other = unperturbed(measured, "run", "--dry-run", "--json", *words)
        assert json.loads(other.stdout)["floor"] is None


def test_a_plan_uses_a_floor_that_was_measured_with_another_path(
    measured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{measured}:{os.environ['PATH']}")
    same = unperturbed(measured, "run", "--dry-run", "--json", *METRICS, "--", "./one", "25")
    assert json.loads(same.stdout)["floor"]["campaign"].endswith("campaigns/one-floor")


def test_a_baseline_alone_is_divided_in_halves(tmp_path: Path) -> None:
    campaign = tmp_path / "generated"
    make(campaign, 30, 3, 3, intervals=60)
    spec = recorded_campaign(campaign)
    with Manifest(campaign / "campaign.sqlite", read_only=True) as manifest:
        traces, states = read_traces(campaign, manifest), manifest.runs()
    floor = floor_of_baseline(spec, traces, states)
    assert {found.compared for found in floor.resolutions} == {5}
    assert {"inner", "outer", "total"} == {found.kind for found in floor.resolutions}
    assert causes_of(spec, traces, states) == ()
    few = {name: {kind: runs[:5] for kind, runs in each.items()} for name, each in traces.items()}
    with pytest.raises(SpecError, match="the baseline has 5 runs, but a noise floor needs 10 or more"):
        floor_of_baseline(spec, few, states)


def test_options_of_a_program_and_unfinished_campaigns_are_refused(measured: Path, tmp_path: Path) -> None:
    refused = unperturbed(measured, "floor", "campaigns/one-floor", "--name", "x")
    assert (refused.returncode, "--name can be used only with a program after --" in refused.stderr) == (2, True)
    campaign = tmp_path / "part"
    shutil.copytree(measured / "campaigns" / "one-floor", campaign)
    with Manifest(campaign / "campaign.sqlite") as manifest:
        manifest.redo([state.run.id for state in manifest.runs("done")][4:])
    refused = unperturbed(tmp_path, "floor", "part")
    assert (refused.returncode, "missing: repeat the command" in refused.stderr) == (2, True), refused.stderr


@pytest.mark.parametrize(("average", "named"), [("0.96", False), ("1.00", False), ("1.04", True), ("2.15", True)])
def test_only_a_load_that_leaves_no_processor_idle_is_named(tmp_path: Path, average: str, named: bool) -> None:
    for name, content in (("proc/loadavg", f"{average} 0.5 0.4 1/99 7"), ("sys/devices/system/cpu/online", "0-1")):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(content)
    found = disturbing_load(tmp_path)
    assert (found.what if found else "") == f"the load of the last minute is {average} on 2 CPUs" * named
    if found:
        assert found.mend is None  # a list of processes ends none
        assert "See what runs: ps -eo pcpu,pid,user,comm" in found.why


def test_the_load_is_that_before_the_campaign_and_simulated_counts_have_less_noise() -> None:
    own = Finding("load", "bad", "the load of the last minute is 2.15 on 2 CPUs", "", "ps")
    before = Finding("load", "bad", "the load of the last minute is 1.50 on 2 CPUs", "", "ps")
    sampling = Finding("pyperf", "note", "Perf event: Set max sample rate to 1", "", "sysctl")
    turbo = Finding("turbo", "bad", "turbo is on", "")
    good = Finding("swap", "good", "no swap")
    assert floor.noisiest([own, sampling, turbo, good], None, simulated=True) == [turbo]
    assert floor.noisiest([own, sampling, turbo, good], before, simulated=True) == [before, turbo]
    assert floor.noisiest([own, sampling, turbo, good], None, simulated=False) == [turbo, sampling]


def test_a_recorded_campaign_names_nothing_that_is_busy_now() -> None:
    busy = Finding("processes", "bad", "other processes use 1.0 CPUs: mine [70] 100%", "", "kill -STOP 70")
    turbo = Finding("turbo", "bad", "turbo is on", "")
    assert floor.noisiest([busy, turbo], None, simulated=False) == [busy, turbo]
    assert floor.noisiest([busy, turbo], None, simulated=False, recorded=True) == [turbo]


def test_a_campaign_on_an_idle_host_names_no_load_of_its_own(monkeypatch: pytest.MonkeyPatch, measured: Path) -> None:
    """The command takes the load before it judges."""
    taken = []
    monkeypatch.setattr("unperturbed.harness.host.checks.load.disturbing_load", lambda: taken.append("load"))
    monkeypatch.setattr(floor, "_show", lambda *given: taken.append(given[-1]) or 0)
    monkeypatch.setattr(floor, "run_and_judge", lambda *_: taken.append("run"))
    monkeypatch.chdir(measured)
    arguments = full_parser().parse_args(["floor", *FEW])
    arguments.program = ["./one", "25"]
    assert floor.Command().run(arguments) == 0
    assert taken == ["load", "run", None]


@pytest.mark.parametrize("words", [(), ("campaigns/one-floor", "--", "./one", "25")])
def test_a_campaign_or_a_program_is_needed(measured: Path, words: tuple[str, ...]) -> None:
    done = unperturbed(measured, "floor", *words)
    assert done.returncode == 2
    assert "unperturbed floor CAMPAIGN, or unperturbed floor -- ./program" in " ".join(done.stderr.split())
