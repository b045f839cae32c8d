"""An engine of another distribution starts the parts of a campaign on nodes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.common.distribution import write_distribution
from tests.harness.nodes.test_here import done as done_runs
from tests.harness.nodes.test_here import quick_spec
from tests.harness.phases_campaign import unperturbed
from unperturbed.errors import HostError
from unperturbed.harness.nodes import engines
from unperturbed.harness.spec.load import load_spec
from unperturbed.harness.spec.sections.nodes import Nodes
from unperturbed.harness.spec.yaml import InvalidSpec

TOY = """
from unperturbed.harness.nodes.engines import Here

class Toy(Here):
    name = "toy"

    def submit(self, part, *, avoid):
        (self.folder / "toy").open("a").write(part.name + " ")
        return super().submit(part, avoid=avoid)
"""


def test_it_is_chosen_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "toys").mkdir()
    write_distribution(tmp_path / "toys", "unperturbed.node_engines", TOY, toy="Toy")
    path = os.pathsep.join([str(tmp_path / "toys"), *filter(None, [os.environ.get("PYTHONPATH")])])
    spec = quick_spec(tmp_path, engine="toy")
    (tmp_path / "open").touch()
    done = unperturbed(tmp_path, "run", spec, "--no-check", environment={"PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    campaign = tmp_path / "campaigns" / "quick"
    assert (campaign / "toy").read_text().split() == ["01", "02"]
    assert done_runs(campaign) == 12


LAST_FIRST = """
from typing import ClassVar
from unperturbed.harness.nodes.engines import Here, Job

class LastFirst(Here):
    name = "last-first"
    at_once: ClassVar[int | None] = None

    def __init__(self, nodes, folder, identity):
        super().__init__(nodes, folder, identity)
        self.waiting = []

    def submit(self, part, *, avoid):
        self.waiting.append(part)
        return ""

    def jobs(self, parts):
        if not super().jobs(parts) and self.waiting:
            part = self.waiting.pop()
            (self.folder / "toy").open("a").write(part.name + " ")
            super().submit(part, avoid=())
        return {**super().jobs(parts), **{part.number: Job("", "WAITING", "its turn") for part in self.waiting}}
"""


def test_one_without_a_limit_takes_all_parts_and_starts_them_in_its_own_order(tmp_path: Path) -> None:
    (tmp_path / "toys").mkdir()
    write_distribution(tmp_path / "toys", "unperturbed.node_engines", LAST_FIRST, toy="LastFirst")
    path = os.pathsep.join([str(tmp_path / "toys"), *filter(None, [os.environ.get("PYTHONPATH")])])
    spec = quick_spec(tmp_path, engine="last-first")
    (tmp_path / "open").touch()
    done = unperturbed(tmp_path, "run", spec, "--no-check", environment={"PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    campaign = tmp_path / "campaigns" / "quick"
    assert (campaign / "toy").read_text().split() == ["02", "01"]
    assert done_runs(campaign) == 12


def test_a_class_that_derives_from_here_may_have_no_limit() -> None:
    """For mypy, `at_once = 1` alone would have the type `int`."""
    assert engines.Here.__annotations__["at_once"] == engines.Engine.__annotations__["at_once"]


def test_an_unknown_one_is_refused_at_its_place(tmp_path: Path) -> None:
    spec = quick_spec(tmp_path, engine="slrm")
    with pytest.raises(InvalidSpec, match=r"spec\.yaml:\d+:\d+: unknown engine `slrm`; did you mean slurm\?"):
        load_spec(spec)
    with pytest.raises(InvalidSpec, match=r"unknown engine `cloud`; use .*here.*"):
        load_spec(quick_spec(tmp_path, engine="cloud"))


def test_one_with_the_name_of_another_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Other(engines.Here):
        """Another engine `here`."""

    monkeypatch.setattr(engines, "offered", lambda *_: [engines.Here, Other])
    with pytest.raises(HostError, match="two extensions add an engine named here: uninstall one of them"):
        engines.engine_of(Nodes(engine="here", count=2), tmp_path, "")
