"""Preparation of a campaign: host, builds, input files, and the result of the untouched program."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from unperturbed.analysis.rewriting import Rewriting
from unperturbed.collectors.passes import Passes
from unperturbed.collectors.sources.instructions import Profile, profiler_command, read_profile
from unperturbed.common import supervision
from unperturbed.errors import HostError, RunError, SpecError
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.plan import configurations, configurations_without_doses, configurations_without_sham
from unperturbed.harness.campaign.progress import Progress
from unperturbed.harness.campaign.requirements import (
    check_budget,
    check_clock,
    check_probes,
    check_processor,
    check_ranks,
    check_sampled_program,
    check_threads,
    check_verdict_possible,
    check_wrapped,
    never_computed,
    never_together,
    no_verdict,
    plan_counting,
    refuse_misspelt,
)
from unperturbed.harness.campaign.run import run_plain
from unperturbed.harness.campaign.session import (
    UNTOUCHED,
    Session,
    build_baseline_alone,
    build_configurations,
    choose_families,
    families_of,
    family_of,
    in_effect,
    shared_builds,
    use_separate_builds,
)
from unperturbed.harness.host import state as host
from unperturbed.harness.program.build import check_compilers, find_source
from unperturbed.harness.program.layouts import without_sampler
from unperturbed.harness.program.patching import count_at
from unperturbed.harness.program.result import ProgramResult
from unperturbed.harness.program.rewriting import compare_builds
from unperturbed.harness.program.service import STOPPING_S
from unperturbed.harness.program.sources import program_identity
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections.campaign import BASELINE, PILOT, READY, REFERENCE
from unperturbed.harness.spec.text import substitute

_LONGEST_PROFILED_S = 5
"""Longest duration of a program that is profiled; a profiled run takes about 50 times as long."""

Needed: TypeAlias = Callable[[CampaignSpec, Sequence[str], Manifest], Collection[str]]
"""`needed(spec, passes, manifest)` returns the configurations that a session needs; `passes` are pass names."""


def prepare(
    spec: CampaignSpec,
    folder: Path,
    manifest: Manifest,
    progress: Progress,
    *,
    judged: bool = False,
    needed: Needed | None = None,
) -> Session:
    """Prepare everything that the pilot needs, unless already done; after the first run, build only `needed`."""
    spec = in_effect(spec, manifest)
    if not manifest.has_done():
        manifest.set_facts(builds_wanted=spec.campaign.builds, processes_wanted=spec.measure.processes)
    passes, here = detect_host(spec, manifest, progress)
    if judged:
        check_verdict_possible(spec, passes)
    check_clock(spec, passes)
    check_probes(spec, passes)
    check_wrapped(spec, passes)
    check_threads(spec, passes)
    check_ranks(spec, passes)
    check_budget(spec, [item.name for item in passes.passes])
    alone = "" if judged else no_verdict(spec, passes)  # a search adds the configurations that get verdicts
    for why in filter(None, (alone, never_computed(spec, passes), never_together(spec, passes))):
        progress.note(why)
    if without := configurations_without_sham(spec):
        progress.note(f"{' and '.join(without)}: no sham is possible, because no counter is compiled into the program")
    if without := configurations_without_doses(spec):
        progress.note(
            f"{' and '.join(without)}: no doses are possible, because no counter is compiled into the program"
        )
    named = {item.name: item for item in passes.passes}
    names: set[str] | None = None
    if needed is not None and manifest.has_done():
        names = {*needed(spec, list(named), manifest), *_configurations_of_trials(spec, list(named), manifest)}
    workspace, expected = _try_builds(spec, folder, manifest, progress, needed=names)
    if (split := choose_families(spec, manifest, progress)) is not spec:
        spec = split
        workspace, expected = _try_builds(spec, folder, manifest, progress, needed=names)
    others, slowness = _other_results(spec, folder, workspace, manifest, progress)
    session = Session(
        spec,
        folder,
        named,
        {},
        workspace.inputs,
        expected,
        here,
        workspace.program,
        manifest.fact("id"),
        others,
        slowness,
        families_of(manifest),
    )
    for item in configurations(spec):
        if names is None or item.name in names:
            session = session.with_build(item, workspace.builds[item.name])
    return session


def _try_builds(
    spec: CampaignSpec, folder: Path, manifest: Manifest, progress: Progress, *, needed: set[str] | None
) -> tuple[Workspace, ProgramResult]:
    """Build and stage what a session needs, and run builds that configurations share; return the expected result."""
    workspace = build_and_stage(spec, folder, manifest, progress, needed=needed)
    expected = _reference(spec, folder, workspace, manifest, progress)
    if not _baseline_stays(spec, folder, workspace, expected, manifest, progress):
        workspace = build_and_stage(spec, folder, manifest, progress, needed=needed)
    if not _result_stays(spec, folder, workspace, expected, manifest, progress):
        workspace = build_and_stage(spec, folder, manifest, progress, needed=needed)
    _profile_rewriting(spec, folder, workspace, expected, manifest, progress)
    return workspace, expected


def _configurations_of_trials(spec: CampaignSpec, passes: Sequence[str], manifest: Manifest) -> Iterator[str]:
    """Yield the configurations that still need a trial run: for a program's result, or as the pilot."""
    if manifest.fact("expected") is None:
        yield REFERENCE
    if any(manifest.fact(f"{PILOT}:{name}") is None for name in passes):
        yield BASELINE
    yield from (name for name in spec.programs if manifest.fact(f"expected:{name}") is None)


def detect_host(spec: CampaignSpec, manifest: Manifest, progress: Progress) -> tuple[Passes, str]:
    """Detect the counters of this host; return the passes and the host's fingerprint."""
    for name in ("", *spec.programs):
        if manifest.fact("shared") is None:
            check_compilers(spec.of_program(name).program)
        check_sampled_program(spec.of_program(name))
    description = host.describe(tuple(spec.program.compilers.values()))
    here = host.fingerprint(description)
    if (known := manifest.fact("host")) not in (None, here):
        raise HostError(
            f"this campaign was started on another host or kernel ({known}; this is {here}), and counts from different "
            "hosts or kernels are not comparable: continue on that host with that kernel, or choose another folder "
            "with --campaign"
        )
    manifest.set_facts(host=here, description=description)
    progress.step("detecting the counters of this host")
    try:
        passes = plan_counting(spec, known=manifest.fact("passes") or ())
    except HostError:
        refuse_misspelt(spec)
        raise
    check_processor(spec)
    described = [
        {
            "name": item.name,
            "source": item.source,
            "metrics": [metric.name for metric in item.metrics],
            "machine": asdict(item.machine) if item.machine else None,
            "multiplexed": item.multiplexed,
            "division": item.division,
        }
        for item in passes.passes
    ]
    manifest.set_facts(reasons=dict(passes.reasons), passes=described)
    return passes, here


@dataclass(frozen=True)
class Workspace:
    """Builds and input files that all runs use."""

    # Build folder of each needed configuration and of the untouched program; None if nothing is built.
    builds: Mapping[str, Path | None]
    inputs: Path  # Folder of the input files
    program: str | None  # The program's identity


def build_and_stage(
    spec: CampaignSpec, folder: Path, manifest: Manifest, progress: Progress, *, needed: Collection[str] | None = None
) -> Workspace:
    """Build configurations and prepare the input files; keep results of an earlier session.

    `needed`: The configurations to build, all by default. If the input is missing, the untouched program is built too.
    """
    if (shared := shared_workspace(spec, manifest)) is not None:
        return shared
    identity = _identity(spec, manifest)
    wanted = [item for item in configurations(spec) if needed is None or item.name in needed]
    if needed is None or REFERENCE in needed or not _is_staged(folder, manifest):
        wanted.insert(0, UNTOUCHED)
    builds = build_configurations(spec, folder, wanted, manifest, progress)
    untouched = builds.get(REFERENCE)
    with without_sampler(untouched):
        return Workspace(builds, _inputs(spec, folder, untouched, manifest, progress), identity)


def _is_staged(folder: Path, manifest: Manifest) -> bool:
    return manifest.fact("inputs") is not None and (folder / "inputs").is_dir()


def shared_workspace(spec: CampaignSpec, manifest: Manifest, *, staged: bool = True) -> Workspace | None:
    """Return the builds and inputs that all nodes share, or the node's copy if `staged`; None on a single host."""
    if (home := manifest.fact("shared")) is None:
        return None
    identity, now = manifest.fact("program"), _identities(spec)
    if identity != now:
        raise HostError(
            f"the program on this node ({now}) is not the program that this campaign measures ({identity}): its "
            "source, its input, or a file in its command is different. Make these files the same on all nodes"
        )
    place = Path((manifest.fact("staged") if staged else None) or home)
    builds = shared_builds(place, [UNTOUCHED, *configurations(spec)], manifest)
    for folder in (place / "inputs", *filter(None, builds.values())):
        if not folder.is_dir():
            raise HostError(
                f"{folder} does not exist on this node: put the campaign's folder on a disk that all nodes share"
            )
    return Workspace(builds, place / "inputs", identity)


def _identity(spec: CampaignSpec, manifest: Manifest) -> str | None:
    """Return the program's identity; None if finished runs recorded none. It may change until a run is done."""
    known, now = manifest.fact("program"), _identities(spec)
    if known == now:
        return now
    if manifest.has_done():
        if known is None:
            return None
        raise SpecError(
            f"the program has changed since this campaign was started (it was {known}, and is now {now}): its source, "
            "its input, or a file in its command is different. Runs of two programs are not comparable: choose another "
            "folder with --campaign, or restore the program"
        )
    if known is not None:
        pilots_of = [f"{PILOT}:{item['name']}" for item in manifest.fact("passes") or []]
        rehearsals = [f"probes:{item.name}" for item in configurations(spec)]
        others = [f"expected:{name}" for name in spec.programs]
        manifest.set_facts(
            **dict.fromkeys(
                ["expected", "native", "inputs", "rewriting", "baseline_tried", *others, *pilots_of, *rehearsals]
            )
        )
    manifest.set_facts(program=now)
    return now


def _identities(spec: CampaignSpec) -> str:
    """Return the identities of the program and of the programs that it is compared with."""
    specs = (spec.of_program(name) for name in ("", *spec.programs))
    return ", ".join(program_identity(each, find_source(each.program, each.folder)) for each in specs)


def _inputs(
    spec: CampaignSpec, folder: Path, build_folder: Path | None, manifest: Manifest, progress: Progress
) -> Path:
    """Copy the spec's input files and generate the others with `prepare`; keep existing files."""
    inputs = folder / "inputs"
    if _is_staged(folder, manifest):
        return inputs
    shutil.rmtree(inputs, ignore_errors=True)
    inputs.mkdir()
    for name in spec.program.inputs:
        shutil.copy2(spec.folder / name, inputs / Path(name).name)
    if spec.program.prepare is not None:
        progress.step("preparing the input files")
        known = {"python": sys.executable, "inputs": str(inputs), "spec": str(spec.folder)}
        if build_folder is not None:
            known |= {"source": str(build_folder), "build": str(build_folder)}
        argv = [substitute(word, known) for word in shlex.split(spec.program.prepare)]
        try:
            made = supervision.run(
                argv, cwd=build_folder or spec.folder, capture_output=True, text=True, stdin=subprocess.DEVNULL
            )
        except OSError as error:
            raise RunError(f"cannot run `prepare`: {argv[0]}: {error.strerror}") from None
        if made.returncode != 0:
            raise RunError(
                f"`prepare` failed with exit code {made.returncode}: "
                f"{shlex.join(argv)}\n{(made.stderr or made.stdout).strip()[-2000:]}"
            )
    manifest.set_facts(inputs={file.name: file.stat().st_size for file in sorted(inputs.iterdir())})
    return inputs


def _reference(
    spec: CampaignSpec, folder: Path, workspace: Workspace, manifest: Manifest, progress: Progress
) -> ProgramResult:
    """Return the untouched program's result, which every measured run must reproduce; run the program if needed."""
    known = manifest.fact("expected")
    if known is not None:
        return ProgramResult(known["exit_code"], known["digest"])
    progress.step("running the untouched program")
    place = make_empty_folder(folder / "runs" / REFERENCE)
    untouched = workspace.builds[REFERENCE]
    with without_sampler(untouched):
        result, outcome = run_plain(spec, place, build=untouched, inputs=workspace.inputs)
    wanted = spec.program.output_digest
    if wanted is not None and wanted.removeprefix("sha256:") != result.digest:
        raise RunError(
            f"the untouched program's result has sha256 {result.digest}, but the spec's `output_digest` is {wanted}: "
            "the input, the compiler or the program has changed since the spec was written"
        )
    manifest.set_facts(expected=asdict(result), native=asdict(outcome))
    if outcome.service is not None and outcome.service.was_killed:
        progress.note(
            f"The service did not end within {STOPPING_S:g} s of {spec.program.stop} and was killed; `stop` chooses "
            "another signal, such as SIGINT or SIGKILL."
        )
    return result


def _baseline_stays(
    spec: CampaignSpec,
    folder: Path,
    workspace: Workspace,
    expected: ProgramResult,
    manifest: Manifest,
    progress: Progress,
) -> bool:
    """Return whether the untouched program gives the same result with the sampler linked in; if not, give that up."""
    tree = workspace.builds.get(BASELINE)
    if tree is None or tree != workspace.builds.get(REFERENCE) or manifest.fact("baseline_tried"):
        return True
    progress.step(f"running {BASELINE} unmeasured")
    stays = _plain_result(spec, folder, tree, workspace.inputs) == expected
    if not stays:
        build_baseline_alone(tree, manifest, progress, "the program's result changes if it is linked again")
    manifest.set_facts(baseline_tried=True)
    return stays


def _result_stays(
    spec: CampaignSpec,
    folder: Path,
    workspace: Workspace,
    expected: ProgramResult,
    manifest: Manifest,
    progress: Progress,
) -> bool:
    """Return whether the one build gives the expected result with all its counters; if not, choose separate builds."""
    families, fact = families_of(manifest), manifest.fact("one_build")
    if not families or fact.get("tried") or manifest.fact("shared") is not None:
        return True
    trees = _shared_trees(spec, workspace, families)

    def result(tree: Path, numbers: Iterable[int]) -> ProgramResult | None:
        count_at(tree, tuple(numbers), dose=spec.campaign.most_doses)
        return _plain_result(spec, folder, tree, workspace.inputs)

    for name, tree in trees.items():
        progress.step(f"running the program with all counters of {name}")
        patched = result(tree, range(len(families[name])))
        count_at(tree, ())  # layouts are copied from the build as it was made
        if patched != expected and result(tree, ()) == expected:
            why = "the program's result changes if its file is patched"
            use_separate_builds(spec, manifest, progress, families, why)
            return False
    if trees.keys() == families.keys():  # a session may need only some of the configurations
        manifest.set_facts(one_build={**fact, "tried": True})
    return True


def _plain_result(spec: CampaignSpec, folder: Path, tree: Path, inputs: Path) -> ProgramResult | None:
    """Run a build unmeasured; return its result, None if it fails."""
    place = make_empty_folder(folder / "runs" / READY)
    try:
        return run_plain(spec, place, build=tree, inputs=inputs)[0]
    except RunError:
        return None
    finally:
        shutil.rmtree(place)


def _shared_trees(spec: CampaignSpec, workspace: Workspace, families: Mapping[str, Collection[str]]) -> dict[str, Path]:
    """Return the folder of each build that configurations share, without those that this session does not need."""
    return {
        name: tree
        for item in configurations(spec)
        if (name := family_of(spec, item, families)) and (tree := workspace.builds.get(item.name)) is not None
    }


def _profile_rewriting(
    spec: CampaignSpec,
    folder: Path,
    workspace: Workspace,
    expected: ProgramResult,
    manifest: Manifest,
    progress: Progress,
) -> None:
    """Record which instructions each build without counting executes in addition to the untouched program."""
    families, untouched = families_of(manifest), workspace.builds.get(REFERENCE)
    trees = _shared_trees(spec, workspace, families)
    if untouched is None or not trees or manifest.fact("shared") is not None:
        return
    if manifest.fact("rewriting") is not None or manifest.has_done():
        return
    if shutil.which("valgrind") is None or manifest.fact("native")["seconds"] > _LONGEST_PROFILED_S:
        progress.note(
            "The instructions that the rewriting adds are not counted by function: this needs valgrind, and a program "
            f"that runs for at most {_LONGEST_PROFILED_S} s."
        )
        return
    progress.step("counting the instructions that the rewriting adds, by function")
    builds = {name: (tree, families[name]) for name, tree in trees.items()}
    compared = profile_rewriting(spec, folder, untouched, builds, workspace.inputs, expected)
    if not compared:
        progress.note(
            "The instructions that the rewriting adds are not counted by function: under callgrind, the program fails, "
            "gives another result, or takes longer than its `timeout`."
        )
        return
    manifest.set_facts(rewriting={name: each.to_dict() for name, each in compared.items()})


def profile_rewriting(
    spec: CampaignSpec,
    folder: Path,
    untouched: Path,
    builds: Mapping[str, tuple[Path, Sequence[str]]],
    inputs: Path,
    expected: ProgramResult,
) -> dict[str, Rewriting]:
    """Return what builds without counting execute in addition to the untouched one, without those that fail.

    `builds`: Folder and metrics of each build.
    """
    profile = partial(_profile, spec, folder, inputs=inputs, expected=expected)
    with without_sampler(untouched):
        if (before := profile(untouched)) is None:
            return {}
        profiles = {name: profile(tree) for name, (tree, _) in builds.items()}
        again = profile(untouched)  # last, because seeds from the clock change from one second to the next
        return {
            name: compare_builds((before, untouched), (after, builds[name][0]), builds[name][1], again)
            for name, after in profiles.items()
            if after is not None
        }


def _profile(spec: CampaignSpec, folder: Path, tree: Path, *, inputs: Path, expected: ProgramResult) -> Profile | None:
    """Return which instructions a build executes, by callgrind; None if the program then fails or is too slow."""
    place = folder / "runs" / READY
    before = profiler_command(make_empty_folder(place))
    try:
        result, _ = run_plain(spec, place, build=tree, inputs=inputs, before=before)
        return read_profile(place) if result == expected else None
    except RunError:  # it fails, or takes longer than its timeout
        return None
    finally:
        make_empty_folder(place)  # profiles of long programs are large


def _other_results(
    spec: CampaignSpec, folder: Path, workspace: Workspace, manifest: Manifest, progress: Progress
) -> tuple[dict[str, ProgramResult], float]:
    """Run each other program once, unmeasured; return the results, and the slowdown of the slowest program."""
    results: dict[str, ProgramResult] = {}
    seconds = [float(manifest.fact("native")["seconds"])]
    for name in spec.programs:
        fact, run = f"expected:{name}", f"{REFERENCE}-{name}"
        if manifest.fact(fact) is None:
            progress.step(f"running {name} unmeasured")
            other, place = spec.of_program(name), make_empty_folder(folder / "runs" / run)
            result, outcome = run_plain(other, place, build=workspace.builds[name], inputs=workspace.inputs)
            manifest.set_facts(**{fact: {**asdict(replace(result, run=run)), **asdict(outcome)}})
        known = manifest.fact(fact)
        results[name] = ProgramResult(known["exit_code"], known["digest"], known["run"])
        seconds.append(float(known["seconds"]))
    return results, max(seconds) / max(seconds[0], 1e-3)


def make_empty_folder(folder: Path) -> Path:
    """Create an empty folder; first remove an existing folder, such as that of an interrupted attempt."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
