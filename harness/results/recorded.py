"""A recorded campaign: its spec, its traces, and its disturbed runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from unperturbed.analysis.alignment.threads import routine_of
from unperturbed.analysis.perturbation import MINIMUM_INTERVALS
from unperturbed.collectors.data import TABLE, Trace
from unperturbed.common.wording import first_of
from unperturbed.errors import DataError, SpecError
from unperturbed.harness.campaign.execution import CAMPAIGN, SWEEP
from unperturbed.harness.campaign.manifest import Manifest, RunState
from unperturbed.harness.campaign.progress import Watch, unwatched
from unperturbed.harness.campaign.session import in_effect
from unperturbed.harness.campaign.traces import DamagedRunsError, read_run
from unperturbed.harness.nodes.shares import NODES, SWEEPS, recorded_share
from unperturbed.harness.spec.campaign_spec import CampaignSpec, Imported, imported_spec
from unperturbed.harness.spec.load import parse_spec

Traces = Mapping[str, Mapping[str, tuple[Trace, ...]]]
"""Traces by pass and configuration, in the order of the plan; the main pass comes first."""

_STOLEN = 0.02  # Share of the demanded CPU time that other guests of the machine may take
_SWITCHES = 5.0  # A run is disturbed if its rate of context switches exceeds this multiple of the median rate …
_SWITCHES_LEAST = 500.0  # … and this number per second
_MOST = 1e300  # Larger values come from a damaged manifest, and are ignored


NODES_VERDICTS = "nodes.json"  # File with the verdicts over nodes, in the format of `check --json`


def recorded_campaign(folder: Path) -> CampaignSpec:
    """Return a campaign's spec from its manifest; raise SpecError if the folder has no campaign with verdicts."""
    manifest_path = folder / "campaign.sqlite"
    if folder.is_file():
        raise SpecError(f"{folder} is a file: give the campaign's folder, usually campaigns/<name of the spec>")
    if not manifest_path.is_file():
        raise SpecError(
            f"{folder} contains no campaign (no campaign.sqlite); start one with `unperturbed run SPEC --campaign "
            f"{folder}`"
        )
    with Manifest(manifest_path, read_only=True) as manifest:
        text, path = manifest.fact("spec_text"), manifest.fact("spec_path")
        purpose = manifest.fact("purpose") or CAMPAIGN
        imported = manifest.fact("imported")
        share = recorded_share(manifest)
    if text is None or path is None or "\0" in path:
        raise SpecError(f"{folder} contains a campaign that never started: run the spec again")
    if purpose in (SWEEP, SWEEPS.whole):
        raise SpecError(f"{folder} contains {purpose}, which has no verdicts: use its table, {folder / TABLE}")
    if purpose == NODES:
        raise SpecError(
            f"{folder} contains {purpose}: use `check` or `report` for all nodes together (`unperturbed check --json "
            f"{folder}` prints the verdicts over nodes for a script, and writes them to {folder / NODES_VERDICTS}), or "
            f"give the folder of one node's part, such as {folder / 'nodes' / '01'}"
        )
    if purpose != CAMPAIGN:
        raise SpecError(
            f"{folder} contains {purpose}, which judges its own runs: run its plan.yaml, and check the new campaign"
        )
    if share is not None:
        return share
    if imported is not None:
        return imported_spec(Imported.from_dict(imported), Path(path), text)
    spec = parse_spec(text, path, Path(path).parent, recorded=True)
    with Manifest(manifest_path, read_only=True) as manifest:
        return in_effect(spec, manifest)


def read_traces(folder: Path, manifest: Manifest, *, without: Sequence[str] = (), watch: Watch = unwatched) -> Traces:
    """Read the traces of all finished runs except those in `without`."""
    by_pass: dict[str, dict[str, list[Trace]]] = defaultdict(lambda: defaultdict(list))
    faults: dict[str, str] = {}
    identity = manifest.fact("id")
    states = manifest.runs("done")
    for done, state in enumerate(states):
        watch("reading traces", done, len(states))
        if state.run.id in without:
            continue
        try:
            trace = read_run(folder, state, campaign=identity)
        except DataError as error:
            faults[state.run.id] = str(error)
        else:
            by_pass[state.run.pass_name][state.run.configuration].append(trace)
    if faults:
        raise DamagedRunsError(folder, faults, imported=manifest.fact("imported") is not None)
    order = [item["name"] for item in manifest.fact("passes") or []]
    return {
        name: {configuration: tuple(traces) for configuration, traces in by_pass[name].items()}
        for name in order
        if name in by_pass
    }


def read_rank_traces(folder: Path, traces: Traces) -> dict[str, Traces]:
    """Read the traces of each MPI rank in the given runs, by `rank 0`, …; empty unless every run has the same ranks."""
    runs = {
        run: {f"rank {told['rank']}": at for at, told in enumerate(processes) if "rank" in told}
        for run, processes in _described(traces, "processes").items()
    }
    ranks = next(iter(runs.values()), {})
    if len(ranks) < 2 or any(files.keys() != ranks.keys() for files in runs.values()):
        return {}
    return _read_strata(folder / "runs", "processes", traces, ranks, runs)


def read_thread_traces(folder: Path, traces: Traces) -> tuple[dict[str, Traces], tuple[str, ...]]:
    """Read the traces of each thread in the given runs, by role; also return why some are left out.

    Threads are paired by role, which is a routine with the place in the order of creation: `worker#2` is one thread of
    each run. They are paired only if every run has as many threads of the routine by each creator: otherwise the same
    place may be another thread's. Threads of one routine are not added up, because each has intervals of its own. Those
    that take their work from a queue do other work under the same role from run to run. This widens the spread between
    the runs that verdicts are computed from, in the baseline too: it hides changes and feigns none.
    """
    runs = {
        run: {thread["role"]: thread for thread in threads} for run, threads in _described(traces, "threads").items()
    }
    if all(len(threads) < 2 for threads in runs.values()):
        return {}, ()
    grouped = [_by_routine(threads) for threads in runs.values()]
    kept, short, notes = list[str](), list[str](), list[str]()
    for routine in dict.fromkeys(name for groups in grouped for name in groups):
        of_runs = [groups.get(routine, []) for groups in grouped]
        if any(set(roles) != set(of_runs[0]) for roles in of_runs):
            least, most = min(map(len, of_runs)), max(map(len, of_runs))
            why = f"the runs have {least} to {most} of them" if least < most else "their creators vary from run to run"
            notes.append(f"There is no verdict on threads of {routine}: {why}.")
            continue
        for role in of_runs[0]:
            few = min(threads[role]["intervals"] for threads in runs.values()) < MINIMUM_INTERVALS
            (short if few else kept).append(role)
    if short:
        notes.append(
            f"There is no verdict on {first_of(short)}: a thread needs at least {MINIMUM_INTERVALS} intervals in each "
            "run. Shorten the interval, or make the runs longer."
        )
    files = {run: {role: thread["number"] for role, thread in threads.items()} for run, threads in runs.items()}
    return _read_strata(folder / "runs", "threads", traces, kept, files), tuple(notes)


def _described(traces: Traces, what: str) -> dict[str, Sequence[Mapping[str, Any]]]:
    """Return the processes or threads of each run, as its trace's attributes describe them."""
    return {
        trace.attributes.get("run", ""): trace.attributes.get(what, ())
        for by_configuration in traces.values()
        for of_one in by_configuration.values()
        for trace in of_one
    }


def _by_routine(roles: Iterable[str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for role in roles:
        groups.setdefault(routine_of(role), []).append(role)
    return groups


def _read_strata(
    runs: Path, kind: str, traces: Traces, strata: Iterable[str], numbers: Mapping[str, Mapping[str, int]]
) -> dict[str, Traces]:
    """Read the traces of each stratum of the given runs; `numbers` has those of their files, by run and stratum."""

    def of_stratum(trace: Trace, stratum: str) -> Trace:
        run = trace.attributes["run"]
        return Trace.read(runs / run / kind / f"{numbers[run][stratum]:03d}.parquet")

    return {
        stratum: {
            name: {item: tuple(of_stratum(trace, stratum) for trace in of_one) for item, of_one in by_item.items()}
            for name, by_item in traces.items()
        }
        for stratum in strata
    }


def disturbed_runs(manifest: Manifest) -> dict[str, str]:
    """Return the disturbed finished runs with the disturbances; simulated counts cannot be disturbed."""
    sources = {item["name"]: item["source"] for item in manifest.fact("passes") or []}
    return describe_disturbances(
        [state for state in manifest.runs("done") if sources.get(state.run.pass_name) != "simulated"]
    )


def pending_repetitions(manifest: Manifest) -> dict[str, int]:
    """Return the first repetition of each configuration whose run has not ended, neither done nor failed."""
    pending: dict[str, int] = {}
    for state in manifest.runs("planned", "running", hosts=False):
        run = state.run
        pending[run.configuration] = min(run.repetition, pending.get(run.configuration, run.repetition))
    return pending


def describe_disturbances(states: Sequence[RunState]) -> dict[str, str]:
    """Return the disturbances of each disturbed run, from the host's state before and after the run."""
    rates = {
        state.run.id: switches / state.seconds
        for state in states
        if state.seconds and (switches := _grown(state, "context_switches")) is not None
    }
    usual = median(rates.values()) if rates else 0.0
    disturbances = {}
    for state in states:
        reasons = []
        stolen = _stolen_share(state)
        if stolen is not None and stolen > _STOLEN:
            reasons.append(f"{stolen:.0%} of the demanded CPU time stolen by other guests of the machine")
        swapped = _grown(state, "swap_used_mib")
        if swapped is not None and swapped > 0:
            reasons.append(f"{swapped:.0f} MiB swapped out during the run")
        rate = rates.get(state.run.id, 0.0)
        if rate > max(_SWITCHES * usual, _SWITCHES_LEAST):
            reasons.append(f"{rate:,.0f} context switches per second (median of all runs: {usual:,.0f})")
        if reasons:
            disturbances[state.run.id] = ", ".join(reasons)
    return disturbances


def _stolen_share(state: RunState) -> float | None:
    """Return the share of the demanded CPU time that was stolen; None if unknown.

    The kernel sums both times over all processors, so stolen seconds per second of the run would grow with the number
    of processors.
    """
    stolen, busy = _grown(state, "steal_s"), _grown(state, "busy_s")
    return None if stolen is None or busy is None or stolen <= 0 else stolen / (stolen + busy)


def _grown(state: RunState, name: str) -> float | None:
    before, after = _number(state.host_before, name), _number(state.host_after, name)
    return None if before is None or after is None else after - before


def _number(host: Mapping[str, Any] | None, name: str) -> float | None:
    value = (host or {}).get(name)
    return float(value) if isinstance(value, int | float) and abs(value) < _MOST else None
