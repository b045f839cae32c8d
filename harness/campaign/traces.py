"""The traces of finished runs: each is whole, and of the run and the campaign that it lies in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unperturbed.collectors.data import Trace
from unperturbed.collectors.data.parquet import is_whole_parquet
from unperturbed.common.wording import counted, listing
from unperturbed.errors import DataError, SpecError
from unperturbed.harness.campaign.manifest import Manifest, RunState

_NAMED = 5


class DamagedRunsError(SpecError):
    """Finished runs whose traces are gone, damaged or of other runs.

    Attributes
    ----------
    runs : tuple of str
        Their ids.
    """

    def __init__(self, folder: Path, faults: Mapping[str, str], *, imported: bool) -> None:
        self.runs = tuple(faults)
        lines = list(faults.values())
        if len(lines) > _NAMED:
            lines[_NAMED:] = [f"and {len(lines) - _NAMED} more"]
        again = "import it again" if imported else f"`unperturbed run` of its spec makes {_these(self.runs)} again"
        advice = f"{again}, `unperturbed check {folder} {' '.join(f'--without {run}' for run in self.runs[:_NAMED])}"
        super().__init__("\n".join([*lines, f"{advice}` goes on without; nothing else is lost"]))


def _these(runs: tuple[str, ...]) -> str:
    return "this run" if len(runs) == 1 else "these runs"


def trace_file(folder: Path, run: str) -> Path:
    """Return the file of a run's trace in a campaign's folder."""
    return folder / "runs" / run / "trace.parquet"


def read_run(folder: Path, state: RunState, *, campaign: str | None = None) -> Trace:
    """Read the trace of a finished run.

    `campaign`: The campaign's identity, as its manifest has it (fact `id`); campaigns of early versions have none.
    """
    path = trace_file(folder, state.run.id)
    if not path.is_file():
        raise DataError(f"{path} is gone, though its run is done")
    trace = Trace.read(path)
    require_own(trace.attributes, state, campaign, path)
    return trace


def require_own(attributes: Mapping[str, Any], state: RunState, campaign: str | None, path: Path) -> None:
    """Refuse the trace of another run, configuration or campaign than the one whose folder it lies in."""
    expected = {"run": state.run.id, "configuration": state.run.configuration, "campaign_id": campaign}
    for name, value in expected.items():
        found = attributes.get(name)
        if None not in (found, value) and found != value:
            recorded = " of ".join(
                f"{what} {attributes.get(key)}"
                for key, what in (("run", "run"), ("configuration", "configuration"), ("campaign", "a campaign named"))
            )
            raise DataError(f"{path} is the trace of {recorded}, which is not what this folder's manifest planned here")


def reopen_lost(folder: Path, manifest: Manifest) -> tuple[str, ...]:
    """Plan finished runs again whose traces are gone or cut off; return their ids.

    Only the ends of the files are read, so that a campaign of many runs goes on at once.
    """
    lost = tuple(state.run.id for state in manifest.runs("done", hosts=False) if is_lost(folder, state))
    manifest.redo(lost)
    return lost


def is_lost(folder: Path, state: RunState) -> bool:
    """Return whether the trace of a finished run is gone or cut off."""
    return not is_whole_parquet(trace_file(folder, state.run.id))


def lost_note(runs: tuple[str, ...]) -> str:
    """Return the note on runs that are made again."""
    return f"the traces of {counted(len(runs), 'run')} are lost and measured again: {listing(runs)}"
