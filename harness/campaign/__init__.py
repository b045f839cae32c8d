"""One campaign from its plan to its last trace: manifest, session, preparation, runs and attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unperturbed.common.faces import lazy_names

if TYPE_CHECKING:
    from unperturbed.harness.campaign.attempts import Attempt, RunQueue, RunResult
    from unperturbed.harness.campaign.execution import (
        CAMPAIGN,
        SEARCH,
        SWEEP,
        check_owner,
        execute_plan,
        lock_campaign,
        prepare_campaign,
        run_campaign,
    )
    from unperturbed.harness.campaign.manifest import Manifest, RunState, State
    from unperturbed.harness.campaign.pilot import with_configuration
    from unperturbed.harness.campaign.plan import (
        FURTHER_NATIVE,
        NATIVE,
        PAD_BYTES,
        Configuration,
        PlannedRun,
        baselines_alone,
        configurations,
        plan_batch,
    )
    from unperturbed.harness.campaign.preparation import (
        Workspace,
        build_and_stage,
        detect_host,
        make_empty_folder,
        shared_workspace,
    )
    from unperturbed.harness.campaign.progress import Durations, Estimate, Progress, Watch, describe_interval, unwatched
    from unperturbed.harness.campaign.requirements import (
        check_budget,
        check_clock,
        check_probes,
        check_processor,
        check_sampled_program,
        never_computed,
        no_verdict,
        plan_counting,
    )
    from unperturbed.harness.campaign.run import ProgramResult, Sampling, run_plain
    from unperturbed.harness.campaign.session import (
        Session,
        build_configurations,
        execute_in,
        first_layout_of,
        make_layouts,
    )
    from unperturbed.harness.campaign.summary import (
        HOME,
        CampaignSummary,
        Phase,
        find_campaigns,
        is_locked,
        phase_of,
        read_summary,
    )
    from unperturbed.harness.campaign.traces import DamagedRunsError, lost_note, read_run, reopen_lost

__all__ = [
    "CAMPAIGN",
    "FURTHER_NATIVE",
    "HOME",
    "NATIVE",
    "PAD_BYTES",
    "SEARCH",
    "SWEEP",
    "Attempt",
    "CampaignSummary",
    "Configuration",
    "DamagedRunsError",
    "Durations",
    "Estimate",
    "Manifest",
    "Phase",
    "PlannedRun",
    "ProgramResult",
    "Progress",
    "RunQueue",
    "RunResult",
    "RunState",
    "Sampling",
    "Session",
    "State",
    "Watch",
    "Workspace",
    "baselines_alone",
    "build_and_stage",
    "build_configurations",
    "check_budget",
    "check_clock",
    "check_owner",
    "check_probes",
    "check_processor",
    "check_sampled_program",
    "configurations",
    "describe_interval",
    "detect_host",
    "execute_in",
    "execute_plan",
    "find_campaigns",
    "first_layout_of",
    "is_locked",
    "lock_campaign",
    "lost_note",
    "make_empty_folder",
    "make_layouts",
    "never_computed",
    "no_verdict",
    "phase_of",
    "plan_batch",
    "plan_counting",
    "prepare_campaign",
    "read_run",
    "read_summary",
    "reopen_lost",
    "run_campaign",
    "run_plain",
    "shared_workspace",
    "unwatched",
    "with_configuration",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "attempts": ("Attempt", "RunQueue", "RunResult"),
        "execution": (
            "CAMPAIGN",
            "SEARCH",
            "SWEEP",
            "check_owner",
            "execute_plan",
            "lock_campaign",
            "prepare_campaign",
            "run_campaign",
        ),
        "manifest": ("Manifest", "RunState", "State"),
        "plan": (
            "Configuration",
            "FURTHER_NATIVE",
            "NATIVE",
            "PAD_BYTES",
            "PlannedRun",
            "baselines_alone",
            "configurations",
            "plan_batch",
        ),
        "pilot": ("with_configuration",),
        "preparation": ("Workspace", "build_and_stage", "detect_host", "make_empty_folder", "shared_workspace"),
        "progress": ("Durations", "Estimate", "Progress", "Watch", "describe_interval", "unwatched"),
        "requirements": (
            "check_budget",
            "check_clock",
            "check_probes",
            "check_processor",
            "check_sampled_program",
            "never_computed",
            "no_verdict",
            "plan_counting",
        ),
        "run": ("ProgramResult", "Sampling", "run_plain"),
        "session": ("Session", "build_configurations", "execute_in", "first_layout_of", "make_layouts"),
        "traces": ("DamagedRunsError", "lost_note", "read_run", "reopen_lost"),
        "summary": ("CampaignSummary", "HOME", "Phase", "find_campaigns", "is_locked", "phase_of", "read_summary"),
    },
)
