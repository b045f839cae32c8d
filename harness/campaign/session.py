"""State shared by all runs of a campaign: built configurations, software metrics, input, expected result."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from unperturbed.analysis.rewriting import MOST_ADDED, Rewriting
from unperturbed.collectors.data import Trace
from unperturbed.collectors.kernel_probes import remove_probes
from unperturbed.collectors.sources import Pass
from unperturbed.common.wording import counted, listing, percent
from unperturbed.errors import HostError, RunError, SpecError
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.plan import (
    ALL,
    Configuration,
    PlannedRun,
    configurations,
    counted_in,
    ready_build,
    ready_builds,
    with_families,
)
from unperturbed.harness.campaign.progress import Progress
from unperturbed.harness.campaign.run import Sampling, execute, time_native
from unperturbed.harness.program.build import Build, build_configuration, find_source
from unperturbed.harness.program.layouts import (
    AS_BUILT,
    drop_sampler,
    layout_notes,
    link_sampler,
    make_layout,
    put_in_place,
)
from unperturbed.harness.program.patching import count_at, places_of
from unperturbed.harness.program.process import program_command
from unperturbed.harness.program.result import ProgramResult
from unperturbed.harness.program.software_metrics import SoftwareMetrics, find_software_metrics
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import metric_position
from unperturbed.harness.spec.sections.campaign import BASELINE, READY, REFERENCE
from unperturbed.harness.spec.text import find_placeholders

UNTOUCHED = Configuration(REFERENCE, (), 1)
"""The program as built by the plain compiler; all other configurations must reproduce its result."""

_WRAPPER = "unperturbed cc: "
_NO_PLACES = "the linker dropped the list of places (section unperturbed_places), as ld.gold does with --gc-sections"

_LAYOUTS_A_PART = 10_000  # More than the runs of one configuration on a node
_DECIMAL, _LETTERS = 100, "abcdefghijklmnopqrstuvwxyz"
_SIGNS = "0123456789" + _LETTERS


@dataclass(frozen=True)
class Built:
    """A configuration that is ready to run."""

    configuration: Configuration  # The configuration
    tree: Path | None  # Folder of its build; None for a program that is not built here
    software_metrics: SoftwareMetrics  # Its software metrics and their counters
    # Numbers of the metrics to patch into the one build before each run; None for a build of its own.
    patched: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Session:
    """Everything that all runs of a campaign share."""

    spec: CampaignSpec  # The spec
    folder: Path  # The campaign's folder
    passes: Mapping[str, Pass]  # The metrics of each pass
    built: Mapping[str, Built]  # The built configurations; `pilot.with_configuration` can add more
    inputs: Path  # Folder of the input files
    expected: ProgramResult  # The result of the untouched program
    host: str  # The host's fingerprint
    program: str | None  # The program's identity; None in campaigns of early versions
    # Unique identifier of the campaign; None in campaigns of early versions.
    identity: str | None = None
    # The results of the other programs (`programs:`), by name.
    others: Mapping[str, ProgramResult] = field(default_factory=dict)
    slowness: float = 1  # Duration of the slowest of these programs relative to the program's, at least 1
    # The metrics of each build that configurations share, in the order of their numbers; {} for separate builds.
    families: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def configurations(self) -> Sequence[str]:
        """Return the names of the spec's configurations and of those added to the session."""
        return list(dict.fromkeys([*(item.name for item in configurations(self.spec)), *self.built]))

    def with_build(self, configuration: Configuration, tree: Path | None) -> Session:
        """Return the session with a configuration added, or with a new number of runs for an existing configuration."""
        known = self.built.get(configuration.name)
        if known is not None and known.tree == tree:
            built = replace(known, configuration=configuration)
        else:
            patched = None
            if tree is not None and (shared := family_of(self.spec, configuration, self.families)):
                numbers = self.families[shared].index
                patched = tuple(map(numbers, compiled_metrics(self.spec, configuration.software)))
            built = Built(configuration, tree, _software_metrics(self, configuration, tree), patched)
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
    """Make one run of a configuration in one of its layouts, by `run.execute`; store `facts` with the trace."""
    built = session.built[configuration]
    if built.tree is not None:
        _put_in_place(built, layout)
    other = built.configuration.program
    spec, expected = session.spec.of_program(other), session.others[other] if other else session.expected
    times = {}
    timed = "block" in facts and not sampling.whole  # a run of the plan, not a pilot
    if timed and sampling.collected.machine is not None and sampling.software_metrics.compiled:
        times = time_native(
            spec, folder, build=built.tree, inputs=session.inputs, expected=expected, pad_bytes=pad_bytes
        )
    return execute(
        spec,
        folder,
        sampling,
        build=built.tree,
        inputs=session.inputs,
        expected=expected,
        pad_bytes=pad_bytes,
        attributes={
            **times,
            "run": run,
            "configuration": configuration,
            "sham_of": built.configuration.sham_of,
            "layout": layout,
            "host": session.host,
            "program": session.program,
            "order": order,
            "campaign": session.spec.name,
            "campaign_id": session.identity,
            **facts,
        },
    )


@contextmanager
def software_metrics_in(session: Session, run: PlannedRun) -> Iterator[SoftwareMetrics]:
    """Yield the software metrics of a planned run, with probes placed for its layout."""
    built = session.built[run.configuration]
    if built.tree is None or run.layout == AS_BUILT or not built.software_metrics.probes:
        yield built.software_metrics
        return
    _put_in_place(built, run.layout)
    software_metrics = _software_metrics(session, built.configuration, built.tree)
    try:
        yield software_metrics
    finally:
        remove_probes(software_metrics.probes)


def _put_in_place(built: Built, layout: int) -> None:
    """Put a configuration's layout into its build, and make the one build count its metrics."""
    assert built.tree is not None
    put_in_place(built.tree, layout)
    if built.patched is not None:
        count_at(built.tree, built.patched, layout=layout, dose=built.configuration.dose)


def compiled_metrics(spec: CampaignSpec, names: Iterable[str]) -> list[str]:
    """Return those of some software metrics that are compiled into the program."""
    return [name for name in names if spec.measure.software[name].means == "compiled"]


def family_of(spec: CampaignSpec, configuration: Configuration, families: Mapping[str, Collection[str]]) -> str:
    """Return the name of the shared build that a configuration runs, the first with its metrics; '' for its own build.

    `families`: The metrics of each shared build.
    """
    if configuration.program or configuration.name in families:
        return configuration.name if configuration.name in families else ""
    if configuration.family in families:
        return configuration.family
    compiled = compiled_metrics(spec, configuration.inert or configuration.software)
    fitting = (name for name, metrics in families.items() if set(metrics).issuperset(compiled))
    return next(fitting, "") if compiled else ""


def _software_metrics(session: Session, configuration: Configuration, tree: Path | None) -> SoftwareMetrics:
    spec, names = session.spec, counted_in(session.spec, replace(configuration, inert=()))
    scratch = session.folder / "runs" / "0000" / "scratch"
    command = program_command(spec, scratch=scratch, build=tree, inputs=session.inputs)
    idle: set[str] = set()
    if shared := family_of(spec, configuration, session.families):
        names = tuple(dict.fromkeys([*session.families[shared], *names]))
        idle = set(names) - {*configuration.software, spec.measure.interval_metric}
    return find_software_metrics(spec, {name: spec.measure.software[name] for name in names}, command, idle=idle)


def families_of(manifest: Manifest) -> dict[str, tuple[str, ...]]:
    """Return the metrics of each build that configurations of a campaign share, in order; {} for separate builds."""
    fact = manifest.fact("one_build")
    return {name: tuple(metrics) for name, metrics in fact["families"].items()} if fact and not fact["why_not"] else {}


def in_effect(spec: CampaignSpec, manifest: Manifest) -> CampaignSpec:
    """Return a campaign's spec as its first session read it, with the families that it chose.

    Versions that recorded no `builds_wanted` had other defaults: separate builds, and counters of the main thread.
    Those that recorded no `processes_wanted` counted the first process, unless `children` was set.
    """
    if manifest.has_done() and manifest.fact("processes_wanted") is None and not spec.measure.children:
        measure = spec.measure.model_copy(update={"processes": "first"})
        spec = spec.model_copy(update={"measure": measure})
    if manifest.has_done() and manifest.fact("builds_wanted") is None:
        builds = "separate" if manifest.fact("one_build") is None else spec.campaign.builds
        threads = "main" if spec.measure.threads == "auto" else spec.measure.threads
        campaign = spec.campaign.model_copy(update={"builds": builds})
        measure = spec.measure.model_copy(update={"threads": threads})
        spec = spec.model_copy(update={"campaign": campaign, "measure": measure})
    chosen = manifest.fact("chosen_families")
    return with_families(spec, chosen["families"]) if chosen and chosen["families"] else spec


def choose_families(spec: CampaignSpec, manifest: Manifest, progress: Progress) -> CampaignSpec:
    """Split the build of all configurations if it changes the program too much; return the spec with its families.

    The first session decides this once, by what the build executes in addition to the untouched program.
    """
    profile = (manifest.fact("rewriting") or {}).get(READY)
    shared = manifest.fact("shared") is not None
    if profile is None or shared or manifest.fact("chosen_families") is not None or manifest.has_done():
        return spec
    rewriting, totals = Rewriting.from_dict(profile), spec.analysis.totals
    share = totals.get("PAPI_TOT_INS", totals.get("default", MOST_ADDED))
    subsets = {
        name: [metric for metric in metrics if metric != spec.analysis.anchor]
        for name, metrics in spec.campaign.subsets.items()
        if rewriting.no_ops.keys() & {*metrics}
    }
    groups = rewriting.split(subsets, share)
    if len(groups) < 2:
        manifest.set_facts(chosen_families={"families": {}, "note": ""})
        return spec
    families = {group[0]: [metric for name in group for metric in subsets[name]] for group in groups}
    whole, *parts = (
        percent(rewriting.changes([metric for name in group for metric in subsets[name]]) / rewriting.before)
        for group in (subsets, *groups)
    )
    expected = (f"{listing(group)} {part.removeprefix('+')}" for group, part in zip(groups, parts, strict=True))
    note = (
        f"A build with the sites of all metrics changes {whole.removeprefix('+')} of the instructions without "
        "counting: its no-ops, and what functions with no-ops execute more or less. That is more than "
        f"{percent(share).removeprefix('+')}, so the subsets have {len(groups)} builds, expected to change less: "
        f"{'; '.join(expected)}. The compiler may generate other code for each: see how many instructions each build "
        "executes without counting."
    )
    progress.note(note)
    _forget_configurations_of(READY, manifest)
    split = with_families(spec, families)
    manifest.set_facts(
        chosen_families={"families": families, "note": note},
        one_build={"families": {item.name: list(item.inert) for item in ready_builds(split)}, "why_not": ""},
        rewriting=None,
    )
    return split


def add_family(manifest: Manifest, name: str, metrics: Sequence[str]) -> None:
    """Add a build that configurations of a campaign can share, unless there are separate builds."""
    fact = manifest.fact("one_build")
    if fact and not fact["why_not"]:
        manifest.set_facts(one_build={**fact, "families": {**fact["families"], name: list(metrics)}})


def build_configurations(
    spec: CampaignSpec, folder: Path, wanted: Sequence[Configuration], manifest: Manifest, progress: Progress
) -> dict[str, Path | None]:
    """Build configurations unless already built; return their folders by name, None for a program not built here."""
    if UNTOUCHED in wanted and len(wanted) > 1:
        # It is built first, because its build shows the faults of the source and of the build command.
        rest = [item for item in wanted if item != UNTOUCHED]
        untouched = build_configurations(spec, folder, [UNTOUCHED], manifest, progress)
        return untouched | build_configurations(spec, folder, rest, manifest, progress)
    shared = _shared_builds(spec, folder, wanted, manifest, progress)
    linked = _linked_baseline(spec, folder, wanted, manifest, progress)
    running = {
        item.name: family_of(spec, item, {name: families_of(manifest)[name] for name in shared}) for item in wanted
    }
    own = [
        item
        for item in wanted
        if spec.of_program(item.program).program.build is not None
        and not running[item.name]
        and not (linked and item.name == BASELINE)
    ]
    folders = _numbered(own, manifest)
    for name in shared:
        folders |= _numbered([item for item in wanted if running[item.name] == name], manifest, of=name)
    builds: dict[str, Path | None] = {}
    sites: dict[str, dict[str, int]] = dict(manifest.fact("sites") or {})
    skipped: dict[str, str] = dict(manifest.fact("skipped") or {})
    missing: dict[str, str] = {}
    unsourced: dict[str, list[str]] = {}  # Metrics of builds that compiled no source, by the reason
    for item in wanted:
        program = spec.of_program(item.program).program
        source = find_source(program, spec.folder)
        if source is None or program.build is None:
            builds[item.name] = None
            continue
        if running[item.name]:
            built = shared[running[item.name]]
        elif linked and item.name == BASELINE:
            built = linked
        else:
            links = item == UNTOUCHED and _links_sampler(spec, manifest)
            built = _build(spec, item, source, folder / "builds" / folders[item.name], progress, links=links)
        builds[item.name] = built.folder
        sites[item.name] = {name: built.sites[name] for name in counted_in(spec, item) if name in built.sites}
        skipped |= built.skipped
        missing |= built.missing
        if built.why_no_source:
            unsourced.setdefault(built.why_no_source, []).extend(built.missing)
    if missing:
        raise SpecError("\n".join(_without_sites(spec, missing, unsourced)))
    manifest.set_facts(sites=sites, skipped=skipped)
    return builds


def _without_sites(
    spec: CampaignSpec, missing: Mapping[str, str], unsourced: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Yield a line for each metric without a site; one line for all that a build without sources lacks."""
    told: set[str] = set()
    for why, names in unsourced.items():
        metrics = [name for name in dict.fromkeys(names) if name not in told]
        if len(metrics) > 1:
            told.update(metrics)
            yield (
                f"{metric_position(spec, metrics[0])}: the program has no site for the software metrics "
                f"{listing(metrics)}; the instrumenting compiler compiled no source: {why}"
            )
    for metric, message in missing.items():
        if metric not in told:
            yield f"{metric_position(spec, metric)}: {message}"


def _linked_baseline(
    spec: CampaignSpec, folder: Path, wanted: Sequence[Configuration], manifest: Manifest, progress: Progress
) -> Build | None:
    """Make the baseline from the untouched program's build, by its links; None if it is a build of its own."""
    source = find_source(spec.program, spec.folder)
    baseline = next((item for item in wanted if item.name == BASELINE), None)
    if baseline is None or source is None or not _links_sampler(spec, manifest):
        return None
    place = folder / "builds" / _numbered([UNTOUCHED], manifest)[REFERENCE]
    built = _build(spec, UNTOUCHED, source, place, progress, links=True)
    if why := link_sampler(built.folder, source, partial(progress.step, f"linking {BASELINE}")):
        build_baseline_alone(built.folder, manifest, progress, why)
        return None
    put_in_place(built.folder, AS_BUILT)
    _numbered([baseline], manifest, of=REFERENCE)
    return built


def build_baseline_alone(untouched: Path, manifest: Manifest, progress: Progress, why: str) -> None:
    """Make the baseline a build of its own, for a reason, and take the sampler out of the untouched program."""
    progress.note(f"The baseline is a build of its own: {why}.")
    drop_sampler(untouched)
    known = {name: each for name, each in (manifest.fact("builds") or {}).items() if name != BASELINE}
    manifest.set_facts(builds=known, own_baseline=why)


def _links_sampler(spec: CampaignSpec, manifest: Manifest) -> bool:
    """Return whether to make the baseline by linking the untouched program's objects with the sampler."""
    if manifest.fact("own_baseline"):
        return False
    known = manifest.fact("builds") or {}
    if BASELINE in known:
        return REFERENCE in known and known[BASELINE]["number"] == known[REFERENCE]["number"]
    compiled = {"cc", "cxx"} & set(find_placeholders(spec.program.build or ""))
    here = spec.builds == "one" and spec.nodes is None  # a node's copy of a build has no links
    return here and bool(compiled) and not spec.measure.interval_metric


def _build(
    spec: CampaignSpec, item: Configuration, source: Path, folder: Path, progress: Progress, *, links: bool = False
) -> Build:
    """Build a configuration unless it is built, and put the layout of its build into place.

    `links`: Record the links of the untouched program's build.
    """
    events = {metric: spec.measure.compiled_event(metric) for metric in counted_in(spec, item)}
    built = build_configuration(
        spec.of_program(item.program).program,
        source,
        folder,
        None if item == UNTOUCHED else events,
        spec_folder=spec.folder,
        announce=partial(progress.step, f"building {item.name}"),
        form="counting" if item.sham_of is None else "patchable" if item.sham_of == ALL else "sham",
        layouts=spec.campaign.layouts == "varied" and item != UNTOUCHED,
        ends_intervals=spec.measure.interval_metric,
        doses=spec.campaign.most_doses if item.sham_of == ALL else 1,
        links=links,
    )
    if item == UNTOUCHED:
        return built
    # A killed session may have left another layout in place, or a part of one.
    put_in_place(built.folder, AS_BUILT)
    if item.sham_of == ALL and not built.missing:
        count_at(built.folder, ())
    return built


def _shared_builds(
    spec: CampaignSpec, folder: Path, wanted: Sequence[Configuration], manifest: Manifest, progress: Progress
) -> dict[str, Build]:
    """Make the builds that the wanted configurations share; {} if there are separate builds, for a recorded reason."""
    source = find_source(spec.program, spec.folder)
    if spec.builds == "separate" or source is None:
        return {}
    fact = manifest.fact("one_build") or {"families": {item.name: list(item.inert) for item in ready_builds(spec)}}
    families = fact["families"]
    needed = {name for item in wanted if (name := family_of(spec, item, families))}
    if fact.get("why_not") or not needed:
        return {}
    known = manifest.fact("builds") or {}
    if not known.keys() & families.keys() and any(item["software"] or item["inert"] for item in known.values()):
        use_separate_builds(spec, manifest, progress, families, "its first session made separate builds")
        return {}
    made: dict[str, Build] = {}
    for name in (name for name in families if name in needed):
        item = ready_build(spec, name, families[name])
        try:
            built = _build(spec, item, source, folder / "builds" / _numbered([item], manifest)[name], progress)
            has_places = bool(built.missing or places_of(built.folder))
        except (HostError, RunError) as error:
            use_separate_builds(spec, manifest, progress, families, _why_no_build(error))
            return {}
        patched = [metric for metric in built.sites if metric != spec.measure.interval_metric]
        counters = [metric for metric in patched if spec.measure.software[metric].semantics == "counter"]
        if not has_places and any(built.sites[metric] for metric in counters):
            use_separate_builds(spec, manifest, progress, families, _NO_PLACES)
            return {}
        made[name] = built
    if manifest.fact("one_build") is None:
        manifest.set_facts(one_build={**fact, "why_not": ""})
    return made


def _why_no_build(error: Exception) -> str:
    """Return what the compiler wrapper said, or else the first line of an error."""
    lines = str(error).splitlines()
    return next((line.partition(_WRAPPER)[2] for line in lines if line.startswith(f"{_WRAPPER}patchable")), lines[0])


def use_separate_builds(
    spec: CampaignSpec, manifest: Manifest, progress: Progress, families: Mapping[str, Sequence[str]], why: str
) -> None:
    """Record why a campaign's configurations are separate builds, and free the names of those that shared one."""
    if spec.campaign.doses:
        raise RunError(f"`doses` needs one build for all configurations, which is not possible: {why}: remove `doses`")
    note = f"Each configuration is a build of its own, because one build for all is not possible: {why}."
    progress.note(note)
    for name in families:
        _forget_configurations_of(name, manifest, but=name)
    manifest.set_facts(one_build={"families": {name: list(each) for name, each in families.items()}, "why_not": note})


def _forget_configurations_of(build: str, manifest: Manifest, *, but: str = "") -> None:
    """Free the names of the configurations that share a build, so that they can have others."""
    known: dict[str, dict[str, Any]] = dict(manifest.fact("builds") or {})
    if build in known:
        number = known[build]["number"]
        manifest.set_facts(
            builds={name: each for name, each in known.items() if name == but or each["number"] != number}
        )


def shared_builds(home: Path, wanted: Sequence[Configuration], manifest: Manifest) -> dict[str, Path | None]:
    """Return the folders of another campaign's builds, by configuration; None for a program without a build."""
    known = manifest.fact("builds") or {}
    return {
        item.name: home / "builds" / _folder_name(known[item.name]["number"]) / "src" if item.name in known else None
        for item in wanted
    }


def first_layout_of(part: int) -> int:
    """Return the number of the first layout of a part, so that different nodes use different layouts."""
    return _LAYOUTS_A_PART * (part - 1) + 1


def make_layouts(
    spec: CampaignSpec,
    built: Mapping[str, tuple[Configuration, Path | None]],
    runs: Iterable[tuple[str, int]],
    manifest: Manifest,
    progress: Progress,
) -> None:
    """Link the layouts of all planned runs in advance, so that no linker runs between two runs."""
    wanted: dict[str, dict[int, None]] = {}
    for name, layout in runs:
        if layout != AS_BUILT:
            wanted.setdefault(name, {})[layout] = None
    notes: dict[str, list[str]] = dict(manifest.fact("layout_notes") or {})
    linked: set[Path] = set()  # Builds whose layouts are linked
    sharing: dict[Path, dict[int, None]] = {}  # Layouts of each build, which configurations may share
    for name, layouts in wanted.items():
        if name in built and (tree := built[name][1]) is not None:
            sharing.setdefault(tree, {}).update(layouts)
    for name, (configuration, tree) in built.items():
        if name not in wanted:
            continue
        program = spec.of_program(configuration.program).program
        source = find_source(program, spec.folder)
        if source is None or tree is None:
            raise SpecError(
                f"{name}: this campaign does not build the program, so there is only one layout: remove "
                "`layouts: varied`"
            )
        if tree not in linked:
            linked.add(tree)
            build = family_of(spec, configuration, families_of(manifest)) or name
            progress.step(f"linking {counted(len(sharing[tree]), 'layout')} of {build}")
            # A sham uses the layouts of the configuration that it is compared with; one build has the same for all.
            drawn_for = READY if spec.builds == "one" else configuration.sham_of or name
            for number in sharing[tree]:
                text = f"{spec.campaign.seed}/{drawn_for}/{number}"
                make_layout(program, source, tree, number, text, spec_folder=spec.folder)
        notes[name] = list(layout_notes(tree))
    if wanted:
        manifest.set_facts(layout_notes=notes)


def _numbered(wanted: Sequence[Configuration], manifest: Manifest, *, of: str = "") -> dict[str, str]:
    """Return the folder name of each build, which never changes during a campaign; `of`: the build that all share."""
    known: dict[str, dict[str, Any]] = dict(manifest.fact("builds") or {})
    for item in wanted:
        content = {"software": list(item.software), "inert": list(item.inert)}
        following = 1 + max((each["number"] for each in known.values()), default=-1)
        fact = known.setdefault(item.name, {"number": known[of]["number"] if of else following, **content})
        if {key: fact[key] for key in content} != content:
            raise SpecError(
                f"this campaign already built the configuration {item.name} with different metrics "
                f"({', '.join(fact['software'])}); rename the new configuration"
            )
    manifest.set_facts(builds=known)
    return {item.name: _folder_name(known[item.name]["number"]) for item in wanted}


def _folder_name(number: int) -> str:
    """Return a two-character folder name (00 … 99, then a0 … zz), so that all builds have paths of equal length."""
    if number < _DECIMAL:
        return f"{number:02d}"
    letter, sign = divmod(number - _DECIMAL, len(_SIGNS))
    if letter >= len(_LETTERS):
        raise SpecError(
            f"a campaign can have at most {_DECIMAL + len(_LETTERS) * len(_SIGNS)} builds; start a new campaign"
        )
    return _LETTERS[letter] + _SIGNS[sign]
