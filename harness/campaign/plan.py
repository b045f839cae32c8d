"""The plan of a campaign: the order of the runs, and the environment and code layout of each run.

Configurations × passes × repetitions are spread over blocks, so that slow drift of the host affects all equally, and
shuffled within a block by the seed. The size of the environment differs between blocks, because the size moves the
stack ("Producing wrong data without doing anything obviously wrong", ASPLOS 2009). If the spec requests varied layouts,
the code layout differs between repetitions. With one build it differs between blocks, and configurations with equally
many runs have them in the same blocks: then runs are compared within a block and its layout.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections.campaign import (
    ANCHOR,
    BASELINE,
    DEFAULT_RUNS,
    MULTIPLEXED,
    READY,
    READY_PREFIX,
    SHAM_PREFIX,
)

PAD_BYTES = 4096  # The environment grows by up to a page, to reach every offset of the stack within a page

NATIVE = "native"
"""Pass of a sweep's first native run at a point; all other runs at this point must reproduce its result."""

FURTHER_NATIVE = f"{NATIVE}-"
"""Prefix of passes that only time the untouched program again; a row is complete without them."""

_MINIMUM_ANCHOR_RUNS = 5
"""The anchor's runs are the baseline of every subset's outer check, and a baseline needs at least five runs."""


@dataclass(frozen=True)
class Configuration:
    """A set of software metrics to collect together, and the number of runs."""

    name: str
    software: tuple[str, ...]  # The software metrics that it counts, the anchor first
    runs: int  # Number of runs per pass
    # For a sham: the configuration with the same layout that does count, or ALL; None otherwise.
    sham_of: str | None = None
    # For a sham: the metrics with no-ops instead of increments at their sites.
    inert: tuple[str, ...] = ()
    program: str = ""  # Name of the other program that it runs (`programs:` of the spec); '' for `program:`
    family: str = ""  # Name of the shared build that it runs; '' for the first one that has all its metrics
    dose: int = 1  # Number of increments at each of its places (`doses:` of the spec); one of them counts
    dose_of: str = ""  # With several: the configuration with one increment; '' otherwise


ALL = "*"
"""`sham_of` of a build without any counting, the sham of all configurations that run this build."""


@dataclass(frozen=True)
class PlannedRun:
    """One run of the plan."""

    id: str  # The run's number, of fixed width so that the run's path does not change the size of the environment
    # configuration, pass_name: The configuration to run, and the counters to read.
    configuration: str
    pass_name: str
    repetition: int  # Number of the repetition, from 1
    block: int  # Number of the block, from 0
    pad_bytes: int  # Bytes added to the environment
    layout: int = 0  # Number of the code layout, the same for all passes; 0 is the original build
    point: int = 0  # Number of the sweep's point, from 1; 0 in other campaigns


def counted_in(spec: CampaignSpec, item: Configuration) -> tuple[str, ...]:
    """Return the software metrics in a configuration's build, in the order of their numbers.

    The metric whose events end intervals is in all builds, the first: it counts in every configuration.
    """
    names = item.inert or item.software
    ending = spec.measure.interval_metric
    return (ending, *(name for name in names if name != ending)) if ending else names


def configurations(spec: CampaignSpec) -> tuple[Configuration, ...]:
    """Return a campaign's configurations: baseline, others, anchor, each subset with the anchor, its doses, shams.

    Of these, `multiplexed` has passes of its own, in which metrics take turns (`passes_of`).
    """
    if spec.imported is not None:
        return tuple(Configuration(name, (), runs) for name, runs in spec.imported.configurations.items())
    design, anchor = spec.campaign, spec.analysis.anchor
    planned = [Configuration(BASELINE, (), design.most_baseline_runs)]
    planned += [Configuration(name, (), design.most_baseline_runs, program=name) for name in spec.programs]
    if design.multiplexed:
        planned.append(Configuration(MULTIPLEXED, (), design.most_runs))
    if anchor is not None:
        planned.append(Configuration(ANCHOR, (anchor,), max(_MINIMUM_ANCHOR_RUNS, design.most_runs)))
    carried = () if anchor is None else (anchor,)
    for name, subset in design.subsets.items():
        metrics = (*carried, *(metric for metric in subset if metric != anchor))
        planned.append(Configuration(name, metrics, design.most_runs))
        planned += _doses_of(spec, planned[-1])
    if spec.runs_ready and (ready := ready_builds(spec)):
        planned[1:1] = ready
    elif design.sham:
        planned += [sham for item in planned[1:] if (sham := sham_of(spec, item)) is not None]
    if len(planned) == 1:  # nothing to decide
        planned = [replace(planned[0], runs=design.baseline_runs)]
    return tuple(planned)


def passes_of(configuration: str, passes: Sequence[str]) -> list[str]:
    """Return the passes in which a configuration runs; those in which metrics take turns have one of their own."""
    return [name for name in passes if name.startswith(MULTIPLEXED) == (configuration == MULTIPLEXED)]


def _doses_of(spec: CampaignSpec, item: Configuration) -> Iterator[Configuration]:
    """Yield the configurations that count as a subset does, at a higher cost; none if no metric has places."""
    known = spec.measure.software
    events = [known[name] for name in item.software if name != spec.measure.interval_metric]  # it has no place
    if any(event.means == "compiled" and event.semantics == "counter" for event in events):
        for dose in sorted(spec.campaign.doses):
            if dose > 1:
                yield replace(item, name=f"{item.name}-x{dose}", dose=dose, dose_of=item.name)


def judged_configurations(spec: CampaignSpec) -> tuple[Configuration, ...]:
    """Return a campaign's configurations without those of several increments, which only show a response."""
    return tuple(item for item in configurations(spec) if not item.dose_of)


def baselines_alone(spec: CampaignSpec) -> CampaignSpec:
    """Return the campaign with only its baseline and its anchor, from which a search for a partition starts.

    With one build there is also `ready`, with which the search compares its candidates; on nodes there is not.
    """
    ready = spec.builds == "one" and spec.nodes is None
    alone: dict[str, Any] = {"subsets": {}, "families": {}, "sham": ready, "doses": (), "multiplexed": False}
    alone |= {"max_runs": None, "max_hours": None}
    if spec.campaign.until_decided:
        alone |= {"runs": DEFAULT_RUNS, "at_most": None}
    return spec.model_copy(update={"programs": {}, "campaign": spec.campaign.model_copy(update=alone)})


def sham_of(spec: CampaignSpec, configuration: Configuration) -> Configuration | None:
    """Return a configuration's sham: the same rewritten code without counting; None if nothing is compiled in."""
    compiled = tuple(name for name in configuration.software if spec.measure.software[name].means == "compiled")
    if not compiled:
        return None
    return Configuration(f"{SHAM_PREFIX}{configuration.name}", (), configuration.runs, configuration.name, compiled)


def carried_metrics(spec: CampaignSpec) -> tuple[str, ...]:
    """Return the software metrics whose sites every build has: the anchor, and the metric that ends intervals."""
    return tuple(dict.fromkeys(filter(None, (spec.analysis.anchor, spec.measure.interval_metric))))


def ready_builds(spec: CampaignSpec) -> tuple[Configuration, ...]:
    """Return the builds that configurations share, with every counter idle: one, or one for each of `families`."""
    compiled = sorted(name for name, event in spec.measure.software.items() if event.means == "compiled")
    carried = set(carried_metrics(spec))
    families = {
        f"{READY_PREFIX}{name}": tuple(sorted(carried.union(metrics).intersection(compiled)))
        for name, metrics in spec.campaign.families.items()
    }
    each = families or {READY: tuple(compiled)}
    return tuple(ready_build(spec, name, metrics) for name, metrics in each.items() if metrics)


def with_families(spec: CampaignSpec, families: Mapping[str, Sequence[str]]) -> CampaignSpec:
    """Return the campaign with `families` that the spec does not name."""
    chosen = MappingProxyType({name: tuple(metrics) for name, metrics in families.items()})
    return spec.model_copy(update={"campaign": spec.campaign.model_copy(update={"families": chosen})})


def ready_build(spec: CampaignSpec, name: str, metrics: Sequence[str]) -> Configuration:
    """Return the build without counting that has these metrics' sites, in the order of their numbers."""
    item = Configuration(name, (), max(_MINIMUM_ANCHOR_RUNS, spec.campaign.most_runs), ALL, tuple(metrics))
    return replace(item, inert=counted_in(spec, item))


def find_sham(planned: Sequence[Configuration], item: Configuration) -> str:
    """Return the name of a configuration's sham, or of the first build without counting that has its metrics, or ''."""
    if not item.software:
        return ""
    compiled = {metric for other in planned for metric in other.inert}
    of_all = [
        other for other in planned if other.sham_of == ALL and compiled.intersection(item.software) <= {*other.inert}
    ]
    return next((other.name for other in planned if other.sham_of == item.name or other in of_all), "")


def configurations_without_sham(spec: CampaignSpec) -> tuple[str, ...]:
    """Return the configurations that cannot have a requested sham, because none of their metrics is compiled in."""
    planned = configurations(spec) if spec.campaign.sham else ()
    compiled = {name for name, event in spec.measure.software.items() if event.means == "compiled"}
    return tuple(item.name for item in planned if item.software and not compiled.intersection(item.software))


def configurations_without_doses(spec: CampaignSpec) -> tuple[str, ...]:
    """Return the subsets that cannot have requested doses, because none of their counters is compiled in."""
    planned = configurations(spec) if spec.campaign.doses else ()
    with_doses = {item.dose_of for item in planned}
    return tuple(item.name for item in planned if item.name in spec.campaign.subsets and item.name not in with_doses)


def plan_runs(
    configurations: Sequence[Configuration],
    passes: Sequence[str],
    *,
    seed: int,
    order: Literal["blocks", "random", "sequential"] = "blocks",
    before: Sequence[PlannedRun] = (),
    layouts: Literal["fixed", "varied"] = "fixed",
    builds: Literal["one", "separate"] = "separate",
    first_layout: int = 1,
) -> tuple[PlannedRun, ...]:
    """Plan every run of a campaign; ids ascend in the order of execution.

    `order`: `blocks` spreads each configuration's runs evenly over as many blocks as the largest configuration has
    runs, and shuffles within a block; `random` shuffles all runs; `sequential` is for debugging.
    `before`: Runs that were planned earlier. Only additional runs are planned, in new blocks.
    `layouts`: `varied` gives every repetition of a configuration its own layout, starting at `first_layout`; nodes
    that share a build start at different layouts.
    `builds`: `one` gives all runs of a block one layout, and configurations with equally many runs the same blocks.
    """
    chance = random.Random(f"{seed}+{len(before)}" if before else seed)
    had = runs_before(before, passes)
    configurations = [
        replace(item, runs=item.runs - had[item.name]) for item in configurations if item.runs > had[item.name]
    ]
    if not configurations:
        return ()
    first_block = 1 + max((run.block for run in before), default=-1)
    blocks = max(configuration.runs for configuration in configurations)
    pads = [chance.randrange(PAD_BYTES) for _ in range(blocks)]
    slots: list[tuple[int, str, str, int]] = []
    offsets: dict[int, float] = {}
    for configuration in configurations:
        offset = chance.random()
        if builds == "one":
            offset = offsets.setdefault(configuration.runs, offset)
        for repetition in range(configuration.runs):
            block = int((repetition + offset) * blocks / configuration.runs)
            number = had[configuration.name] + repetition + 1
            slots += [(block, configuration.name, name, number) for name in passes_of(configuration.name, passes)]
    if order == "random":
        chance.shuffle(slots)
    elif order == "blocks":
        shuffled = [(chance.random(), slot) for slot in slots]
        slots = [slot for _, slot in sorted(shuffled, key=lambda item: (item[1][0], item[0]))]
    first = 1 + max((int(run.id) for run in before), default=0)
    return tuple(
        PlannedRun(
            f"{number:04d}",
            configuration,
            name,
            repetition,
            first_block + block,
            pads[block],
            0 if layouts == "fixed" else first_layout + (first_block + block if builds == "one" else repetition - 1),
        )
        for number, (block, configuration, name, repetition) in enumerate(slots, start=first)
    )


def runs_before(before: Sequence[PlannedRun], passes: Sequence[str]) -> Counter[str]:
    """Return how many runs of each configuration were planned earlier, in each of its passes."""
    firsts = {name: next(iter(passes_of(name, passes)), "") for name in {run.configuration for run in before}}
    return Counter(run.configuration for run in before if run.pass_name == firsts[run.configuration])


def plan_batch(
    more: Mapping[str, int],
    passes: Sequence[str],
    *,
    seed: int,
    before: Sequence[PlannedRun],
    order: Literal["blocks", "random", "sequential"] = "blocks",
    layouts: Literal["fixed", "varied"] = "fixed",
    builds: Literal["one", "separate"] = "separate",
) -> tuple[PlannedRun, ...]:
    """Plan additional runs per pass of the configurations in `more`, after the planned runs in `before`.

    The same earlier plan and request give the same batch, so a resumed search finds its batch already planned.
    """
    had = runs_before(before, passes)
    wanted = [Configuration(name, (), had[name] + runs) for name, runs in more.items()]
    return plan_runs(wanted, passes, seed=seed, order=order, before=before, layouts=layouts, builds=builds)
