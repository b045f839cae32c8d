"""Section `nodes`: nodes of a cluster that share the runs of a campaign, and rules on them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from unperturbed.common.extensions import offered
from unperturbed.common.wording import counted, did_you_mean, listing
from unperturbed.harness.spec.model import ADDED_LATER, MAY_CHANGE, Because, Draft, Section, SpecKey
from unperturbed.harness.spec.quantities import TimeSpan, parse_duration
from unperturbed.harness.spec.sections.parameters import count_points
from unperturbed.harness.spec.text import SLURM_TIME, AbsoluteFolder, Text, Texts

LEAST_BASELINE_RUNS, LEAST_RUNS = 5, 2
"""Minimum number of runs on each node, of the baseline and of each other configuration."""

ENGINE_GROUP = "unperturbed.node_engines"  # Group of the entry points of engines, including this distribution's


class Nodes(Section):
    """Nodes that share the runs."""

    engine: Annotated[Text, MAY_CHANGE] = Field(examples=["slurm", "here"])
    """What starts the part of each node. `slurm`: Slurm, one job for each node. `here`: this host, one part after
    another, to try `nodes` without a cluster. Another distribution can add an engine."""
    count: Annotated[int, Because("the parts are numbered 01 to 99")] = Field(ge=1, le=99)
    """Number of nodes that share the runs. Each node makes its share of the runs of the baseline and of every other
    configuration, and is compared with its own baseline. In a sweep, each node measures its share of the points."""
    constraint: Annotated[Text | None, MAY_CHANGE] = Field(default=None, examples=["typea"])
    """Features that a node must have, as in `sbatch --constraint`."""
    partition: Annotated[Text | None, MAY_CHANGE] = Field(default=None, examples=["main"])
    """Slurm partition for the jobs."""
    account: Annotated[Text | None, MAY_CHANGE] = Field(default=None)
    """Slurm account for the jobs."""
    time: Annotated[Annotated[str, StringConstraints(pattern=SLURM_TIME)] | None, MAY_CHANGE] = Field(
        default=None, examples=["2:00:00"]
    )
    """Time limit of a job, as in `sbatch --time`. If a job reaches the limit, its part is submitted again."""
    patience: Annotated[TimeSpan, MAY_CHANGE] = Field(
        default_factory=lambda: parse_duration("10 min"), examples=["2 h"]
    )
    """How long the campaign waits, once all other parts have ended, for a node that is down or drained. Then the
    campaign ends without that node's part, and the report names the part. In a search for a partition, also how long a
    node waits for another candidate."""
    stage: Annotated[AbsoluteFolder | None, ADDED_LATER] = Field(default=None, examples=["/tmp"])
    """Absolute path of an existing folder on each node's local disk. Before a node's first run, the builds and input
    files are copied there, and the program runs from the copy; after the last run, the copy is removed. Without
    `stage`, the program runs from the campaign's folder."""
    extra: Annotated[Texts, MAY_CHANGE] = Field(default=(), examples=[["--qos=long"]])
    """Further options for `sbatch`, one per item."""


_OF_ENGINES = tuple(name for name in Nodes.model_fields if name not in ("engine", "count", "stage"))


def _check(draft: Draft) -> None:
    if not draft.has("nodes"):
        return
    _check_engine(draft, str(draft.value("nodes", "engine")))
    spec = draft.spec
    if spec is None or spec.nodes is None:
        return
    design, count = spec.campaign, spec.nodes.count
    programs = [spec.of_program(name).program for name in ("", *spec.programs)]
    if draft.has("nodes", "stage") and not any(
        program.build or program.inputs or program.prepare for program in programs
    ):
        draft.report_key(
            ("nodes", "stage"),
            "`stage` has nothing to copy, because the program has neither `build` nor input files: remove `stage`",
        )
    if spec.parameters:
        if (points := count_points(spec)) < count:
            draft.report(
                ("nodes", "count"),
                f"`count` is {count}, but the sweep has only {counted(points, 'point')}, and each node needs at least "
                f"one: set `count` to {points} or less, or give the sweep more points",
            )
        return
    for key, runs, least in (
        ("baseline_runs", design.baseline_runs, LEAST_BASELINE_RUNS),
        ("runs", design.most_runs, LEAST_RUNS),
    ):
        if key == "runs" and not (spec.measure.software or spec.programs):
            continue  # the baseline alone
        if runs // count < least:
            draft.report(
                ("campaign", key) if draft.has("campaign", key) else ("nodes", "count"),
                f"`{key}: {runs}` gives each node only {counted(runs // count, 'run')}, but a node needs at least "
                f"{least}: set `{key}` to {least * count} or more, or reduce `count`",
            )


def _check_engine(draft: Draft, engine: str) -> None:
    """Reject an unknown engine, and options that the engine does not use."""
    known = {str(getattr(engine_class, "name", "")): engine_class for engine_class in offered(ENGINE_GROUP, type)}
    if engine not in known:
        meant = did_you_mean(engine, known) or f"use {listing(known, 'or')}"
        draft.report(("nodes", "engine"), f"unknown engine `{engine}`; {meant}")
        return
    options = getattr(known[engine], "options", None)
    for key in _OF_ENGINES:
        if options is not None and key not in options and draft.has("nodes", key):
            draft.report_key(("nodes", key), f"`{key}` has no meaning with `engine: {engine}`: remove `{key}`")


NODES = SpecKey(
    "nodes",
    Annotated[Nodes | None, ADDED_LATER],
    "Nodes of a cluster that share the runs. Without `nodes`, this host makes all runs.",
    _check,
    examples=({"engine": "slurm", "count": 4, "constraint": "typea", "time": "2:00:00"},),
)
