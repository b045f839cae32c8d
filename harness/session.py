"""What all runs of a campaign share: the configurations that are built, what counts in each, input, the expected result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from unperturbed.collectors.kernel_probes import remove_probes
from unperturbed.collectors.passes import Pass
from unperturbed.collectors.trace import Trace
from unperturbed.errors import SpecError
from unperturbed.harness.build import build, find_source
from unperturbed.harness.layouts import AS_BUILT, layout_notes, make_layout, put_in_place
from unperturbed.harness.manifest import Manifest
from unperturbed.harness.milestones import Milestones, find_milestones
from unperturbed.harness.plan import Configuration, PlannedRun
from unperturbed.harness.program_command import program_command
from unperturbed.harness.progress import Progress
from unperturbed.harness.run import Result, Sampling, execute
from unperturbed.harness.spec import Campaign
from unperturbed.harness.spec.models import REFERENCE
from unperturbed.harness.spec.where import at_metric

__all__ = ["UNTOUCHED", "Built", "Session", "build_configurations", "execute_in", "make_layouts", "milestones_in"]

UNTOUCHED = Configuration(REFERENCE, (), 1)
"""The program as the plain compiler makes it, which gives the result that all others must give."""

_DECIMAL, _LETTERS = 100, "abcdefghijklmnopqrstuvwxyz"
_SIGNS = "0123456789" + _LETTERS


@dataclass(frozen=True)
class Built:
    """A configuration that is ready to run: where it was built (None: the program is not built here), and what counts in it."""

    configuration: Configuration
    tree: Path | None
    milestones: Milestones


@dataclass(frozen=True)
class Session:
    """What all runs share; `built` maps the names of configurations. Others may be added, see `prepare.with_configuration`.

    `program` is `identity.program_identity`, None in a campaign that was begun before programs were identified.
    """

    campaign: Campaign
    folder: Path
    passes: Mapping[str, Pass]
    built: Mapping[str, Built]
    inputs: Path
    expected: Result
    host: str
    program: str | None

    def holding(self, configuration: Configuration, tree: Path | None) -> Session:
        """Return the session with one more configuration in it, or another number of runs of one that it has.

        Raises
        ------
        SpecError, HostError
            What shall count cannot be found, see `find_milestones`.
        """
        known = self.built.get(configuration.name)
        if known is not None and known.tree == tree:
            built = replace(known, configuration=configuration)
        else:
            built = Built(configuration, tree, _milestones(self, configuration, tree))
        return replace(self, built={**self.built, configuration.name: built})


def execute_in(
    session: Session,
    sampling: Sampling,
    configuration: str,
    folder: Path,
    *,
    pad_bytes: int,
    run: str,
    order: int,
    layout: int = AS_BUILT,
    **facts: Any,
) -> Trace:
    """Make one run of a configuration in one of its layouts; what `run.execute` says holds. `facts` are kept with the trace."""
    built = session.built[configuration]
    if built.tree is not None:
        put_in_place(built.tree, layout)
    return execute(
        session.campaign,
        folder,
        sampling,
        build=built.tree,
        inputs=session.inputs,
        expected=session.expected,
        pad_bytes=pad_bytes,
        attributes={
            "run": run,
            "configuration": configuration,
            "sham_of": built.configuration.sham_of,
            "layout": layout,
            "host": session.host,
            "program": session.program,
            "order": order,
            "campaign": session.campaign.name,
            **facts,
        },
    )


@contextmanager
def milestones_in(session: Session, run: PlannedRun) -> Iterator[Milestones]:
    """Yield what counts in a planned run.

    Probes of the kernel stand at places in the binary, which are others in each layout: they are set for that run alone.
    """
    built = session.built[run.configuration]
    if built.tree is None or run.layout == AS_BUILT or not built.milestones.probes:
        yield built.milestones
        return
    put_in_place(built.tree, run.layout)
    milestones = _milestones(session, built.configuration, built.tree)
    try:
        yield milestones
    finally:
        remove_probes(milestones.probes)


def _milestones(session: Session, configuration: Configuration, tree: Path | None) -> Milestones:
    campaign = session.campaign
    scratch = session.folder / "runs" / "0000" / "scratch"
    command = program_command(campaign, scratch=scratch, build=tree, inputs=session.inputs)
    return find_milestones(campaign, {name: campaign.measure.software[name] for name in configuration.software}, command)


def build_configurations(
    campaign: Campaign, folder: Path, wanted: Sequence[Configuration], manifest: Manifest, progress: Progress
) -> dict[str, Path | None]:
    """Build configurations, each in a folder of its own that it keeps; what is built already stays.

    Returns
    -------
    Name → folder of the build; None for a program that is not built here.

    Raises
    ------
    SpecError
        Metrics that match no place in the source, all of them; or a name that was given to other metrics before.
    HostError, RunError
        As `build`.
    """
    source = find_source(campaign.program, campaign.folder)
    if source is None or campaign.program.build is None:
        return {item.name: None for item in wanted}
    folders = _numbered(wanted, manifest)
    builds: dict[str, Path | None] = {}
    sites: dict[str, dict[str, int]] = dict(manifest.fact("sites") or {})
    skipped: dict[str, str] = dict(manifest.fact("skipped") or {})
    missing: dict[str, str] = {}
    for item in wanted:
        events = {metric: campaign.measure.software[metric] for metric in item.inert or item.software}
        built = build(
            campaign.program,
            source,
            folder / "builds" / folders[item.name],
            None if item == UNTOUCHED else events,
            spec_folder=campaign.folder,
            announce=partial(progress.step, f"building {item.name}"),
            sham=item.sham_of is not None,
            layouts=campaign.campaign.layouts == "varied" and item != UNTOUCHED,
        )
        # A session that was killed may have left another layout there, or a part of one.
        put_in_place(built.folder, AS_BUILT)
        builds[item.name] = built.folder
        sites[item.name] = dict(built.sites)
        skipped |= built.skipped
        missing |= built.missing
    if missing:
        raise SpecError("\n".join(f"{at_metric(campaign, metric)}: {message}" for metric, message in missing.items()))
    manifest.set_facts(sites=sites, skipped=skipped)
    return builds


def make_layouts(session: Session, runs: Iterable[PlannedRun], manifest: Manifest, progress: Progress) -> None:
    """Make the layouts that planned runs have, so that nothing is linked between two runs.

    Raises
    ------
    RunError
        A program can neither be linked nor built again.
    """
    campaign = session.campaign
    wanted: dict[str, dict[int, None]] = {}
    for run in runs:
        if run.layout != AS_BUILT:
            wanted.setdefault(run.configuration, {})[run.layout] = None
    source = find_source(campaign.program, campaign.folder) if wanted else None
    notes: dict[str, list[str]] = dict(manifest.fact("layout_notes") or {})
    for name, built in session.built.items():
        layouts = wanted.get(name)
        if layouts is None:
            continue
        if source is None or built.tree is None:
            raise SpecError(f"{name}: a program that is not built here has one layout")
        progress.step(f"linking {len(layouts)} {'layout' if len(layouts) == 1 else 'layouts'} of {name}")
        # A sham has the layouts of what it is held against.
        drawn_for = built.configuration.sham_of or name
        for number in layouts:
            text = f"{campaign.campaign.seed}/{drawn_for}/{number}"
            make_layout(campaign.program, source, built.tree, number, text, spec_folder=campaign.folder)
        notes[name] = list(layout_notes(built.tree))
    if wanted:
        manifest.set_facts(layout_notes=notes)


def _numbered(wanted: Sequence[Configuration], manifest: Manifest) -> dict[str, str]:
    """Return the folder's name of each build; it never changes, whatever is built beside it."""
    known: dict[str, dict[str, Any]] = dict(manifest.fact("builds") or {})
    for item in wanted:
        content = {"software": list(item.software), "inert": list(item.inert)}
        fact = known.setdefault(item.name, {"number": len(known), **content})
        if {key: fact[key] for key in content} != content:
            raise SpecError(
                f"the configuration {item.name} was built with other metrics in this campaign ({', '.join(fact['software'])}); give it another name"
            )
    manifest.set_facts(builds=known)
    return {item.name: _folder_name(known[item.name]["number"]) for item in wanted}


def _folder_name(number: int) -> str:
    """Return two signs, so that no path differs in size between binaries: 00 … 99, then a0 … zz.

    Raises
    ------
    SpecError
        There are too many builds.
    """
    if number < _DECIMAL:
        return f"{number:02d}"
    letter, sign = divmod(number - _DECIMAL, len(_SIGNS))
    if letter >= len(_LETTERS):
        raise SpecError(f"a campaign has {_DECIMAL + len(_LETTERS) * len(_SIGNS)} builds at most; begin another")
    return _LETTERS[letter] + _SIGNS[sign]
