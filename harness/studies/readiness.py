"""Check of whether a spec can run on this host, with all reasons why it cannot."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from unperturbed.collectors.kernel_probes import probe_registry
from unperturbed.collectors.passes import Passes
from unperturbed.collectors.sources.catalogue import OS_GROUPS
from unperturbed.common.user_cache import user_cache
from unperturbed.errors import HostError, UnperturbedError
from unperturbed.harness.campaign.plan import Configuration, configurations, passes_of
from unperturbed.harness.campaign.requirements import (
    check_budget,
    check_clock,
    check_probes,
    check_processor,
    check_sampled_program,
    never_computed,
    never_together,
    no_verdict,
    plan_counting,
)
from unperturbed.harness.host.checks.tools import setpriv
from unperturbed.harness.host.doctor import REAL, Examination, Finding
from unperturbed.harness.program.build import check_compilers
from unperturbed.harness.program.process import cannot_preload, cannot_sample
from unperturbed.harness.program.sources import FETCHING_TOOLS
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections.parameters import count_points
from unperturbed.harness.spec.sections.program import PROGRAM_PATH, Program
from unperturbed.harness.spec.text import find_placeholders, substitute
from unperturbed.harness.studies.sweep_plan import check_sweep_budget, steps

_OS_SOURCES = {name: group.source for group in OS_GROUPS for name in group.metrics}
_OS_FILES = {"schedstat": REAL / "proc/self/schedstat", "procio": REAL / "proc/self/io"}
"""Files of metric sources that some kernels are built without."""

_MEANS = {
    "compiled": "compiled in",
    "kernel": "kernel probe",
    "preload": "interposition",
    "python": "import hook",
    "jvm": "JVM",
}


@dataclass(frozen=True)
class Problem:
    """A reason why a spec cannot run here."""

    finding: Finding  # The reason
    exit_code: int = HostError.exit_code  # 3 if the host lacks something, 2 if the spec is wrong


@dataclass(frozen=True)
class MetricSource:
    """The source of a metric."""

    metric: str  # The metric's name
    # A counter source (`papi`, …), a system source (`getrusage`, …), `compiled in`, `kernel probe`, `interposition`,
    # `import hook`, `JVM`, or `computed`.
    source: str
    passes: tuple[str, ...]  # The passes that count the metric


@dataclass(frozen=True)
class Readiness:
    """The plan of a campaign on this host, and the reasons why the campaign cannot run."""

    spec: CampaignSpec
    passes: Passes  # The passes, with the metrics that can be counted
    configurations: tuple[Configuration, ...]  # The configurations, each with its runs per pass
    problems: tuple[Problem, ...] = field(default=())  # All reasons why the campaign cannot run

    @property
    def exit_code(self) -> int:
        """Return 0 if the campaign can run here, else 3 if the host lacks something, else 2 if the spec is wrong."""
        return max((problem.exit_code for problem in self.problems), default=0)

    @property
    def no_verdict(self) -> str:
        """Return why the campaign would give traces but no verdict; empty if it would give one, and for sweeps."""
        return "" if self.spec.parameters else no_verdict(self.spec, self.passes)

    @property
    def never_computed(self) -> str:
        """Return a note on derived metrics without values; empty if all would have values."""
        return never_computed(self.spec, self.passes)

    @property
    def never_together(self) -> str:
        """Return a note on metrics that are to be seen together and cannot be; empty if all can."""
        return never_together(self.spec, self.passes)

    @property
    def planned(self) -> Mapping[str, int]:
        """Return the number of runs of each configuration or sweep step, in all passes (if there is none, in one)."""
        if self.spec.parameters:
            each = count_points(self.spec) * self.spec.campaign.repetitions
            return {step.name: each for step in steps(self.spec, self.passes)}
        names = [each.name for each in self.passes.passes]
        return {item.name: item.runs * max(1, len(passes_of(item.name, names))) for item in self.configurations}

    @property
    def runs(self) -> int:
        """Return the total number of runs in the campaign."""
        return sum(self.planned.values())

    @property
    def metrics(self) -> tuple[MetricSource, ...]:
        """Return the source and passes of each metric; for a derived metric, the passes with all its components."""
        measure = self.spec.measure
        if self.spec.parameters:
            return self._metrics_of_sweep()
        by_pass = {item.name: {metric.name for metric in item.metrics} for item in self.passes.passes}
        sources = {item.name: item.source for item in self.passes.passes}
        metric_sources = []
        for name in measure.hardware:
            passes = tuple(key for key, names in by_pass.items() if name in names)
            metric_sources.append(MetricSource(name, sources[passes[0]] if passes else "", passes))
        metric_sources += [MetricSource(name, _OS_SOURCES[name], tuple(by_pass)) for name in measure.os]
        metric_sources += [
            MetricSource(name, _MEANS[event.means], tuple(by_pass)) for name, event in measure.software.items()
        ]
        for name, expression in measure.derived.items():
            given = [set(item.passes) for item in metric_sources if item.metric in expression.names]
            whole = set.intersection(*given) if len(given) == len(expression.names) else set()
            metric_sources.append(MetricSource(name, "computed", tuple(key for key in by_pass if key in whole)))
        return tuple(item for item in metric_sources if item.passes)

    def _metrics_of_sweep(self) -> tuple[MetricSource, ...]:
        measure, metric_sources = self.spec.measure, []
        for step in steps(self.spec, self.passes):
            for name in (*step.metrics, *step.software):
                software = measure.software.get(name)
                source = _MEANS[software.means] if software else _OS_SOURCES.get(name, step.collected.source)
                metric_sources.append(MetricSource(name, source, (step.name,)))
        where = {item.metric: item.passes[0] for item in metric_sources}
        for name, expression in measure.derived.items():
            if set(expression.names) <= set(where):
                metric_sources.append(
                    MetricSource(name, "computed", tuple(dict.fromkeys(where[part] for part in expression.names)))
                )
        return tuple(metric_sources)


def check_spec(spec: CampaignSpec, host: Examination, known: Sequence[Mapping[str, Any]] = ()) -> Readiness:
    """Check whether a campaign can run on this host, without building or running the program.

    `known`: The passes that the campaign has recorded.
    """
    problems = [*_compilers(spec.program), *_needed_programs(spec), *_program_itself(spec), *_kernel(spec)]
    passes, uncounted = _plan(spec, host, known)
    has_compiler_problem = any(problem.finding.subject == "compiler" for problem in problems)
    problems += [
        problem for problem in uncounted if not (has_compiler_problem and problem.finding.subject == "counting")
    ]
    planned = configurations(spec)
    ready = Readiness(spec, passes, planned, tuple(problems))
    limits = (
        [*_refusal("runs", check_sweep_budget, spec, passes)]
        if spec.parameters
        else [
            *_refusal("clock", check_clock, spec, passes),
            *_refusal("probes", check_probes, spec, passes),
            *_refusal("runs", check_budget, spec, [item.name for item in passes.passes] or ["main"]),
        ]
    )
    return replace(ready, problems=(*problems, *limits))


def _plan(spec: CampaignSpec, host: Examination, known: Sequence[Mapping[str, Any]]) -> tuple[Passes, list[Problem]]:
    """Plan the passes of all metrics that can be counted; return a problem for each other metric."""
    measure = spec.measure
    try:
        return plan_counting(spec, known=known), []
    except HostError as error:
        what, _, rest = str(error).partition("\n")  # the loop below finds the metrics that cannot be counted
    counted: list[str] = []
    problems: list[Problem] = []
    for name in measure.hardware:
        try:
            plan_counting(spec, [*counted, name])
        except HostError as error:
            problem = _uncounted(name, str(error), _elsewhere(spec, name), host)
            problems += [problem] if problem not in problems else []
        else:
            counted.append(name)
    if not problems:  # each can be counted, but not as the spec wants
        problems.append(Problem(Finding("counting", "bad", what, rest)))
    return (plan_counting(spec, counted) if counted else Passes((), {})), problems


def _elsewhere(spec: CampaignSpec, name: str) -> str:
    """Return a hint if `source: auto` could count a metric that the spec's source cannot; else empty."""
    if spec.measure.source == "auto":
        return ""
    try:
        source = plan_counting(spec, [name], "auto").passes[0].source
    except HostError:
        return ""
    return (
        "Use `source: auto` to simulate the metric."
        if source == "simulated"
        else f"Use `source: auto` to count the metric with {source}."
    )


def _uncounted(name: str, message: str, elsewhere: str, host: Examination) -> Problem:
    what, _, rest = message.partition("\n")
    if name not in message:
        return Problem(Finding("counting", "bad", what, rest))
    known = {finding.subject: finding.mend for finding in host.counting if finding.status != "good"}
    mend = None
    if "Permission denied" in message or "Operation not permitted" in message:
        mend = known.get("container") or known.get("permission")
    elif "valgrind is not installed" in message:
        mend = known.get("valgrind")
    return Problem(Finding("metric", "bad", what, " ".join(filter(None, [*rest.splitlines(), elsewhere])), mend))


def _compilers(program: Program) -> Iterator[Problem]:
    for role, name in program.compilers.items():
        yield from _refusal("compiler", check_compilers, program.model_copy(update={"compilers": {role: name}}))


def _refusal(subject: str, check: Callable[..., object], *arguments: object) -> Iterator[Problem]:
    """Yield a problem if the check raises an UnperturbedError."""
    try:
        check(*arguments)
    except UnperturbedError as error:
        yield Problem(Finding(subject, "bad", str(error)), error.exit_code)


def _needed_programs(spec: CampaignSpec) -> Iterator[Problem]:
    """Yield a problem for each missing tool that is needed to fetch, build, prepare or run the program."""
    if (tied := setpriv(REAL)).status == "bad":
        yield Problem(tied)
    program = spec.program
    if (
        program.debian is not None
        and not (user_cache() / "sources" / program.debian.replace("/", "_") / "unpacked").is_dir()
    ):
        for tool, package in FETCHING_TOOLS.items():
            if shutil.which(tool) is None:
                why = f"Without {tool}, Debian's source of {program.debian} cannot be fetched."
                yield Problem(Finding("source", "bad", f"{tool} is missing", why, f"apt-get install {package}"))
    commands = {"prepare": program.prepare, "build": None if program.shell else program.build}
    for key, command in commands.items():
        # A command with a placeholder or a folder may be a product of the build, or part of the source.
        word = shlex.split(command)[0] if command else ""
        if word and not find_placeholders(word) and "/" not in word and shutil.which(word) is None:
            mend = f"apt-get install {word}"
            yield Problem(Finding(key, "bad", f"`{key}` calls {word!r}, which is not installed on this host", "", mend))


def _program_itself(spec: CampaignSpec) -> Iterator[Problem]:
    """Yield reasons why the sampler cannot be loaded into a program that is not built here (but exists)."""
    program = spec.program
    if program.build is not None:
        return
    yield from _refusal("program", check_sampled_program, spec)
    if spec.measure.sampler == "outside" or program.shell:
        return
    word = substitute(shlex.split(program.run)[0], {"spec": str(spec.folder)})
    file = shutil.which(word, path=program.environment.get("PATH", PROGRAM_PATH))
    if file is not None and (reason := cannot_preload(file) or cannot_sample(file)) is not None:
        why = (
            "A program that is not built here loads the sampler by LD_PRELOAD. Set `source` and `build`, or use "
            "`sampler: outside`."
        )
        yield Problem(Finding("program", "bad", f"{file} {reason}", why))


def _kernel(spec: CampaignSpec) -> Iterator[Problem]:
    """Yield problems with this kernel, except missing counters."""
    measure = spec.measure
    for source, file in _OS_FILES.items():
        wanted = [name for name in measure.os if _OS_SOURCES[name] == source]
        if wanted and not file.exists():
            yield Problem(Finding("os", "bad", f"{', '.join(wanted)} cannot be read: this kernel has no {file}"))
    if any(event.means == "kernel" for event in measure.software.values()):
        yield from _refusal("probes", probe_registry)
    yield from _refusal("observer", check_processor, spec)
