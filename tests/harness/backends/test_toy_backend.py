"""A back end of another distribution executes the planned runs of a campaign and of a sweep, in a thread."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.common.distribution import write_distribution
from tests.harness.phases_campaign import write_spec
from tests.harness.points_sweep import write_sweep_spec
from unperturbed.collectors import Trace
from unperturbed.errors import RunError, SpecError
from unperturbed.harness.backends import backends
from unperturbed.harness.campaign.execution import run_campaign
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.plan import PlannedRun
from unperturbed.harness.campaign.progress import Estimate
from unperturbed.harness.spec import load_spec
from unperturbed.harness.studies.sweep.runs import run_sweep

THREAD = """
import json
import threading
from unperturbed.harness.backends import Backend

class Thread(Backend):
    name = "thread"

    def __init__(self):
        self.calls, self.error = [], None

    def note(self, call):
        self.calls.append(call)
        (self.folder / "calls.json").write_text(json.dumps(self.calls))

    def prepare(self, parts):
        (part,) = parts
        self.folder = part.folder
        self.note(f"prepare {len(part.unfinished())}")

    def submit(self, parts):
        self.part = parts[0]
        self.thread = threading.Thread(target=self.work)
        self.thread.start()
        self.note("submit")

    def work(self):
        try:
            for run in self.part.pending():
                self.part.execute(run)
        except Exception as error:
            self.error = error

    def watch(self):
        self.thread.join()
        self.note(f"watch {len(self.part.unfinished())}")
        if self.error:
            raise self.error

    def cancel(self):
        self.thread.join()
        self.note("cancel")
"""


class Silent:
    """A progress that keeps the names of what began."""

    def __init__(self) -> None:
        self.started: list[str] = []

    def step(self, what: str) -> None: ...
    def note(self, what: str) -> None: ...
    def planned(self, estimate: Estimate) -> None: ...
    def failed(self, run: PlannedRun, attempt: int, error: str) -> None: ...
    def starting(self, run: PlannedRun, *, done: int, total: int, seconds_left: float) -> None:
        self.started.append(f"{run.id}: {done} of {total}")


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_distribution(tmp_path, "unperturbed.backends", THREAD, thread="Thread")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_it_executes_a_campaign(toys: Path) -> None:
    assert list(backends()) == ["here", "thread"]
    spec = load_spec(write_spec(toys, campaign__runs=3, campaign__subsets={}, analysis__anchor=None))
    folder, progress = toys / "campaign", Silent()
    run_campaign(spec, folder, progress, backend="thread")
    assert json.loads((folder / "calls.json").read_text()) == ["prepare 8", "submit", "watch 0"]
    assert progress.started == [f"{number + 1:04d}: {number} of 8" for number in range(8)]
    with Manifest(folder / "campaign.sqlite") as manifest:
        done = [state.run.id for state in manifest.runs("done")]
    assert len(done) == 8
    assert all(len(Trace.read(folder / "runs" / run / "trace.parquet")) for run in done)


def test_it_is_cancelled_when_time_is_over_and_another_goes_on(toys: Path) -> None:
    plain = {"program__source": None, "program__build": None, "measure": {}}
    path = write_sweep_spec(toys, **plain, program__run="/bin/echo {parameters.steps} {parameters.way}")
    limited = load_spec(write_sweep_spec(toys, **plain, program__run="/bin/echo {parameters.steps} {parameters.way}"))
    limited = limited.model_copy(update={"campaign": limited.campaign.model_copy(update={"max_hours": 1e-12})})
    folder = toys / "sweep"
    with pytest.raises(RunError, match=r"max_hours \(1e-12\) is reached: \d of 6 runs are done"):
        run_sweep(limited, folder, Silent(), backend="thread")
    assert json.loads((folder / "calls.json").read_text())[-1] == "cancel"
    table = run_sweep(load_spec(path), folder, Silent())
    assert table.frame.height == 6


def test_an_unknown_one_is_refused(tmp_path: Path) -> None:
    spec = load_spec(write_spec(tmp_path, campaign__subsets={}, analysis__anchor=None))
    with pytest.raises(SpecError, match="there is no back end 'heer'; did you mean here"):
        run_campaign(spec, tmp_path / "campaign", Silent(), backend="heer")
