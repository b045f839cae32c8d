"""One node's part of a search for a partition: the runs that are requested of it, one batch after another."""

from __future__ import annotations

import time
from pathlib import Path

from unperturbed.harness.campaign.execution import SEARCH, execute_plan, prepare_campaign
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.pilot import with_configuration
from unperturbed.harness.campaign.plan import Configuration, plan_batch
from unperturbed.harness.campaign.progress import Progress
from unperturbed.harness.campaign.traces import lost_note, reopen_lost
from unperturbed.harness.nodes.engines import engine_of
from unperturbed.harness.nodes.kinds import SEARCHES
from unperturbed.harness.nodes.requests import Requests, read_requests
from unperturbed.harness.nodes.shares import NodePart
from unperturbed.harness.spec.campaign_spec import CampaignSpec

_PAUSE_S = 0.1
"""Between two looks for requests: nothing is measured meanwhile."""


def make_part(spec: CampaignSpec, part: NodePart, progress: Progress) -> None:
    """Make the runs that are requested of a part, and wait for further requests while there may be any.

    It ends when the search is over, and when no request came for as long as `patience`: whoever coordinated was killed
    then. Where parts are executed one after another, it ends as soon as nothing is left to be made.
    """
    share = SEARCHES.share(spec, part.number)
    with prepare_campaign(share, part.folder, progress, purpose=SEARCH, judged=True) as (prepared, samplings, manifest):
        session = prepared
        patience = _patience(spec, part)
        waiting_since = time.monotonic()
        while True:
            requests = read_requests(part)
            if requests.session != manifest.fact("session"):
                _begin_session(part.folder, manifest, progress, requests.session)
            for name in requests.totals:
                if name not in session.built:
                    item = _candidate(requests, name, manifest)
                    session = with_configuration(session, item, samplings, manifest, progress)
            _plan(share, list(samplings), requests, manifest)
            if manifest.counts().get("planned", 0):
                execute_plan(session, samplings, manifest, progress)
                waiting_since = time.monotonic()
            elif not requests.session or time.monotonic() - waiting_since > patience:
                return
            else:
                time.sleep(_PAUSE_S)


def _patience(spec: CampaignSpec, part: NodePart) -> float:
    """Return for how many seconds a part waits for requests."""
    if spec.nodes is None:
        return 0.0
    engine = engine_of(spec.nodes, part.folder.parent.parent, "")
    return spec.nodes.patience.seconds if engine.at_once is None else 0.0


def _begin_session(folder: Path, manifest: Manifest, progress: Progress, session: str) -> None:
    """Try again what failed or was lost, as another coordinator is here."""
    if session:
        manifest.reopen()
        if lost := reopen_lost(folder, manifest):
            progress.note(lost_note(lost))
    manifest.set_facts(session=session)


def _candidate(requests: Requests, name: str, manifest: Manifest) -> Configuration:
    """Return the configuration of a candidate, whose build the coordinator has made."""
    known = requests.configurations[name]
    if known["build"] is not None:
        manifest.set_facts(builds={**(manifest.fact("builds") or {}), name: known["build"]})
    return Configuration(name, tuple(known["software"]), 1)


def _plan(share: CampaignSpec, passes: list[str], requests: Requests, manifest: Manifest) -> None:
    """Plan what is requested and not planned, a batch behind the other."""
    design, wanted = share.campaign, dict[str, int]()
    before = [state.run for state in manifest.runs(hosts=False)]
    for batch in requests.batches:
        missing = {}
        for name, runs in batch.items():
            wanted[name] = wanted.get(name, 0) + runs
            planned = sum(run.configuration == name and run.pass_name == passes[0] for run in before)
            if wanted[name] > planned:
                missing[name] = wanted[name] - planned
        if missing:
            more = plan_batch(missing, passes, seed=design.seed, before=before, order=design.order)
            manifest.plan(more)
            before += more
