"""Families of a partition: as few builds without counting as leave the program alone, found by trial builds.

With one build, every configuration executes a no-op at each site of all metrics, with the code that the compiler
generates around them. If this build is perturbed, the metrics are partitioned by the search that also partitions them
into subsets; here, a candidate is a build with the sites of some metrics that counts nothing, and is compared with the
untouched program. Halving finds the metrics whose sites change the program, the most executed no-ops first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from unperturbed.analysis.partition import (
    Measurement,
    Plan,
    SearchSettings,
    TraceJudge,
    UndecidedMetrics,
    UnmeasurableMetric,
    search,
)
from unperturbed.analysis.partition.evaluation import Limits
from unperturbed.analysis.perturbation import ranked_changes
from unperturbed.analysis.rewriting import Rewriting
from unperturbed.collectors.data import Trace
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.preparation import profile_rewriting
from unperturbed.harness.campaign.progress import Progress
from unperturbed.harness.campaign.session import UNTOUCHED, build_configurations
from unperturbed.harness.spec.sections.campaign import READY, REFERENCE
from unperturbed.harness.studies.partition.runs import RunsHere

_MOST_NAMED = 3
"""Number of changed correlations in the reason why a metric is left out."""

ADVICE = "count a rarer event with the same information, or use a longer interval"
"""Advice on a metric that perturbs one build, whose code does not move."""

_UNREACHED = "the build leaves the program alone without counting, but the search ended before its subsets"


def find_families(
    runs: RunsHere,
    ready: Sequence[Trace],
    metrics: Sequence[str],
    settings: SearchSettings,
    limits: Limits,
    observer: Callable[[Measurement], None],
) -> Plan:
    """Partition metrics into as few builds without counting as leave the untouched program unperturbed.

    `ready`: Runs of the build of all metrics, which the search need not make again.
    """
    no_ops = _no_ops(runs.manifest)
    ordered = sorted(metrics, key=lambda metric: -no_ops.get(metric, 0))
    judge = TraceJudge(
        runs.measure_idle,
        dict(runs.untouched),
        alpha=settings.alpha,
        fresh_baseline=runs.untouched_references,
        explored={tuple(ordered): ready},
    )
    return search(
        ordered,
        judge,
        settings,
        strategy="halving",
        tolerance=judge.tolerance,
        observer=observer,
        limits=limits,
        explored=[tuple(ordered)],
    )


def left_out(
    builds: Plan, added: Mapping[str, Rewriting]
) -> tuple[tuple[UnmeasurableMetric, ...], tuple[UndecidedMetrics, ...]]:
    """Return the metrics that are in no family, with what their sites change and what they add to the program.

    `added`: What the build with the sites of one metric adds to the untouched program, by metric.
    """
    perturbed = tuple(
        replace(each, reason=_reason(each, added.get(each.metric)), advice=ADVICE) for each in builds.unmeasurable
    )
    undecided = tuple(replace(each, reason=_without_build(each)) for each in builds.undecided)
    return perturbed, undecided


def _without_build(undecided: UndecidedMetrics) -> str:
    """Return why metrics are in no family: nothing was counted in what the search compared."""
    whose = "its" if len(undecided.metrics) == 1 else "their"
    why = undecided.reason.replace("in no certified subset; measured alone,", f"a build with {whose} sites alone is")
    return f"no build with {whose} sites is certified to leave the program alone without counting: {why}"


def profile_alone(runs: RunsHere, metrics: Sequence[str], progress: Progress) -> dict[str, Rewriting]:
    """Return what the sites of each metric alone add to the program; {} where a build cannot be profiled."""
    manifest = runs.manifest
    known = dict(manifest.fact("rewriting") or {})
    names = {metric: runs.idle_name((metric,)) for metric in metrics}
    missing = [name for name in names.values() if name not in known]
    if known and missing:  # if the first build could not be profiled, neither can the others
        for name in missing:
            runs.build(name)  # a resumed session has not loaded the builds whose runs are done
        session = runs.session
        progress.step("counting the instructions that the sites add, by function")
        untouched = build_configurations(session.spec, session.folder, [UNTOUCHED], manifest, progress)[REFERENCE]
        trees = {name: session.built[name].tree for name in missing}
        builds = {name: (tree, session.families[name]) for name, tree in trees.items() if tree is not None}
        assert untouched is not None  # there are other builds
        made = profile_rewriting(session.spec, session.folder, untouched, builds, session.inputs, session.expected)
        known |= {name: each.to_dict() for name, each in made.items()}
        manifest.set_facts(rewriting=known)
    return {metric: Rewriting.from_dict(known[name]) for metric, name in names.items() if name in known}


def merge(
    builds: Plan,
    plans: Sequence[Plan],
    history: Sequence[Measurement],
    added: Mapping[str, Rewriting],
    stopped: str,
    strategy: str,
) -> Plan:
    """Return the plans of all families as one, with the builds of the families and the metrics that have none.

    `builds`: Result of `find_families`.
    `plans`: The plan of each family, in the order of the families; those that the search did not reach are missing.
    `history`: The measurements of all of them, with runs counted from the first.
    `added`: What the sites of a metric alone add to the program, for metrics without a family.
    `stopped`: Why the search did not finish; empty if it did.
    `strategy`: That of the search for each family's subsets.
    """
    is_whole = len(builds.subsets) == 1 and not builds.unmeasurable and not builds.undecided
    largest_first = sorted((subset for plan in plans for subset in plan.subsets), key=lambda each: -len(each.metrics))
    unreached = builds.subsets[len(plans) :]
    perturbed, undecided = left_out(builds, added)
    undecided += tuple(UndecidedMetrics(each.metrics, f"{_UNREACHED}: {stopped}") for each in unreached)
    return replace(
        builds,
        subsets=tuple(replace(each, name=f"subset-{number}") for number, each in enumerate(largest_first, 1)),
        unmeasurable=(*(each for plan in plans for each in plan.unmeasurable), *perturbed),
        undecided=(*(each for plan in plans for each in plan.undecided), *undecided),
        complete=not stopped,
        stopped=stopped,
        runs_used=history[-1].runs_used if history else 0,
        hours=(builds, *plans)[-1].hours,
        history=tuple(history),
        strategy=plans[0].strategy if plans else strategy,
        families=()
        if is_whole
        else tuple(replace(each, name=f"family-{number}") for number, each in enumerate(builds.subsets, 1)),
    )


def _reason(metric: UnmeasurableMetric, added: Rewriting | None) -> str:
    """Return what the sites of a metric change without counting, and the instructions that they add by function."""
    changes = metric.verdict.changes if metric.verdict is not None else ()
    worst = ranked_changes(change for change in changes if change.verdict != "unperturbed")[:_MOST_NAMED]
    shown = "; ".join(f"{each.check} {each.label} {each.effect:+.2f}" for each in worst)
    what = f"perturbs the program by its sites alone, without counting, in {metric.repetitions} repetitions"
    sentences = added.sentences("the build") if added is not None else ()
    return " ".join([f"{what}: {shown}." if shown else f"{what}.", *sentences]).removesuffix(".")


def _no_ops(manifest: Manifest) -> Mapping[str, int]:
    """Return the no-ops that each metric executes in the build of all metrics; {} if it could not be profiled."""
    ready = (manifest.fact("rewriting") or {}).get(READY)
    return Rewriting.from_dict(ready).no_ops if ready else {}
