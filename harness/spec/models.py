"""The spec as data: what a campaign measures, of which program, how often, and how it is judged.

Every field says here what it means; the JSON Schema and the reference for users are made from these words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, PrivateAttr

from unperturbed.collectors.simulated import Machine
from unperturbed.harness.spec.fields import (
    CacheFields,
    CompilerFields,
    Compilers,
    Derived,
    Digest,
    EventFields,
    FileName,
    Frozen,
    HardwareMetric,
    IntervalValue,
    ListOf,
    MachineFields,
    MetricName,
    OsMetric,
    PackageName,
    ProbeFields,
    PythonFields,
    Records,
    Section,
    Simulator,
    Software,
    Text,
    TimeSpan,
    VariableName,
)
from unperturbed.harness.spec.parameters import MOST_POINTS, Parameter, ParameterFields, ParameterName, Value
from unperturbed.harness.spec.placeholders import PARAMETER
from unperturbed.harness.spec.quantities import parse_duration

__all__ = ["DEFAULT_TIMEOUT", "MAPPINGS", "REASONS", "Analysis", "Campaign", "Design", "Measure", "Program", "model_at"]

DEFAULT_TIMEOUT = "10 min"

BASELINE = "baseline"
ANCHOR = "anchor"
PILOT = "pilot"
REFERENCE = "reference"
"""Names of the configurations that a campaign has beside its subsets, and of the two runs that come before its plan."""

SHAM_PREFIX = "sham-"
"""What the names of shams begin with, and those of subsets do not."""

_T = TypeVar("_T")

Texts = Annotated[tuple[Text, ...], ListOf]


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


def _default(text: str, read: Callable[[Any], _T], description: str, example: str) -> _T:
    """Declare a field whose default is written as a spec would write it."""
    made: _T = Field(
        default_factory=partial(read, text), description=description, examples=[example], json_schema_extra={"default": text}
    )
    return made


class Program(Section):
    """The program: where its source is, how it is built and run, and what a right run gives."""

    source: Text | None = Field(
        default=None,
        description="Folder of the program's source, relative to the spec. It is copied for each build and never written to.",
        examples=["blocksort"],
    )
    debian: PackageName | None = Field(
        default=None,
        description="Debian source package to build instead of a folder; `upstream:NAME` for its upstream source without Debian's patches.",
        examples=["bzip2"],
    )
    build: Text | None = Field(
        default=None,
        description="Command that builds the program, run in a copy of its source, once for each configuration. `{cc}` and `{cxx}` "
        "are the instrumenting compilers. Without it nothing is built, and `run` names a program that is there already.",
        examples=["make CC={cc}"],
    )
    compilers: Compilers = Field(
        default_factory=lambda: MappingProxyType({"cc": "gcc", "cxx": "g++"}),
        description="The compilers that the instrumenting ones call.",
        json_schema_extra={"default": {"cc": "gcc", "cxx": "g++"}},
    )
    prepare: Text | None = Field(
        default=None,
        description="Command that makes input files in `{inputs}`. Run once in a campaign, without a shell, in the folder of the "
        "untouched build.",
        examples=["{python} make_corpus.py --size 600000 {inputs}/corpus.txt"],
    )
    run: Text = Field(
        description="Command that runs the program. It is split into words as a shell would, but no shell runs it unless `shell: true`.",
        examples=["{build}/blocksort -c {inputs}/corpus.txt"],
    )
    shell: bool = Field(
        default=False, description="Have `/bin/sh` run `build` and `run`, for pipes, redirections and lists of commands."
    )
    inputs: Texts = Field(
        default=(), description="Input files, relative to the spec. They are copied into `{inputs}` under their last name."
    )
    stdin: Text | None = Field(
        default=None,
        description="File that the program reads as its standard input; nothing by default.",
        examples=["{inputs}/corpus.txt"],
    )
    outputs: Texts = Field(
        default=(),
        description="Files, relative to the working folder, whose content is part of the result beside standard output.",
    )
    environment: Annotated[Mapping[VariableName, str], Frozen] = Field(
        default_factory=_nothing,
        description="Environment variables. The program gets these, PATH, HOME (the scratch folder) and LC_ALL (C), and no others.",
        json_schema_extra={"default": {}},
    )
    working_folder: Text = Field(
        default="{scratch}",
        description="Folder in which the program runs: `{scratch}`, `{build}`, or a folder below one of them.",
    )
    timeout: TimeSpan = _default(
        DEFAULT_TIMEOUT,
        parse_duration,
        "Time after which a run is stopped and counts as failed. A simulated run is 25 to 60 times slower than the program alone.",
        "2 min",
    )
    exit_code: int = Field(default=0, ge=0, le=255, description="Exit code of a right run.")
    output_digest: Digest | None = Field(
        default=None,
        description="`sha256:` and the SHA-256 of standard output followed by the outputs. By default, whatever the untouched program "
        "gives, run once before all others.",
    )


class Measure(Section):
    """What is measured, how often, and by which means."""

    interval: IntervalValue | None = Field(
        default=None,
        description="Length of an interval, from 1 ms, or `{records: N}`: as long as gives N intervals a run, found by a pilot run. Required, "
        "but in a sweep, which counts whole runs.",
        examples=["20 ms", {"records": 3000}],
    )
    clock: Literal["auto", "monotonic", "process-cpu", "thread-cpu", "work"] = Field(
        default="auto",
        description="Clock of the interval timer: wall-clock time (`monotonic`), processor time of the process or of the sampled thread "
        "(`process-cpu`, `thread-cpu`: they tick with the kernel's jiffy, 1 to 10 ms), or work done (`work`: quanta of 100,000 basic blocks "
        "of the simulator, the same in every run). `auto` takes processor time when counts are simulated, wall-clock time else.",
    )
    sampler: Literal["inside", "outside"] = Field(
        default="inside",
        description="Where samples are taken: by a timer signal inside the program, or by an observer process beside it, for which the "
        "program executes no instruction at a sample.",
    )
    threads: Literal["main", "all"] = Field(
        default="main",
        description="Inside: whose hardware counters are read, the main thread's or, by a sampler in each, those of all threads. The "
        "observer outside always counts all threads.",
    )
    children: bool = Field(
        default=False,
        description="Outside: count hardware events of the program's child processes too; `os` counters stay the program's own.",
    )
    reading: Literal["read", "reset"] = Field(
        default="read",
        description="How the inside sampler takes its counts: reading counters that run on, or stopping, reading, resetting and starting "
        "them at each sample, as the paper does.",
    )
    multiplex: bool = Field(
        default=False,
        description="Let metrics that do not fit the counters together take turns in one run. Their counts are then scaled, and the trace "
        "says from which share of the time. By default they go to several passes.",
    )
    signal: int | None = Field(
        default=None, ge=1, le=64, description="Number of the inside sampler's signal; a real-time signal by default."
    )
    alternate_stack: bool = Field(
        default=False, description="Inside: handle the signal on the program's alternate signal stack, if it has one."
    )
    observer_cpu: int | None = Field(
        default=None,
        ge=0,
        le=4095,
        description="Outside: processor for the observer; the program gets the others. By default the last one.",
    )
    pin: bool = Field(
        default=True,
        description="Outside: keep observer and program on processors of their own, where there are two at least.",
    )
    source: Literal["auto", "papi", "perf_event", "simulated"] = Field(
        default="auto",
        description="Where hardware metrics come from. `auto` takes for each metric the first source that can count it on this host, and "
        "says which and why.",
    )
    hardware: Annotated[tuple[HardwareMetric, ...], ListOf] = Field(
        default=(),
        description="Hardware metrics: PAPI presets, or names of a source's own (`perf::page-faults`). The baseline runs measure these "
        "and `os` alone.",
        examples=[["PAPI_TOT_INS", "PAPI_TOT_CYC", "PAPI_L1_DCM"]],
    )
    os: Annotated[tuple[OsMetric, ...], ListOf] = Field(
        default=(), description="Counters that the operating system keeps for the program."
    )
    software: Annotated[Mapping[MetricName, Software], Frozen] = Field(
        default_factory=_nothing,
        description="Software metrics: a name, and the event that it counts. Most are compiled into the program; `probe`, `preload` and "
        "`python` count in a program as it is.",
        examples=[{"blocks": {"enter": "compress_block"}}],
        json_schema_extra={"default": {}},
    )
    derived: Annotated[Mapping[MetricName, Derived], Frozen] = Field(
        default_factory=_nothing,
        description="Metrics computed from others interval by interval, with + - * / and parentheses. Division by zero gives no value "
        "in that interval. A name that is no identifier stands in single quotes.",
        examples=[{"IPC": "PAPI_TOT_INS / PAPI_TOT_CYC"}],
        json_schema_extra={"default": {}},
    )
    simulator: Simulator = Field(
        default_factory=Machine, description="Caches of the simulated source.", json_schema_extra={"default": {}}
    )


class Design(Section):
    """How many runs of which configurations, in which order."""

    baseline_runs: int = Field(
        default=10, ge=5, le=10_000, description="Runs of the baseline: the program without software metrics."
    )
    runs: int = Field(
        default=5,
        ge=3,
        le=10_000,
        description="Runs of every other configuration; the anchor has five at least, being the reference of the subsets' "
        "alignment. More may be asked for later: the campaign goes on with the further runs.",
    )
    subsets: Annotated[Mapping[FileName, Texts], Frozen] = Field(
        default_factory=_nothing,
        description="Groups of software metrics that are measured together, a configuration each. By default one, named `all`, with "
        "every software metric but the anchor.",
        examples=[{"light": ["blocks"], "heavy": ["compares", "pushes"]}],
        json_schema_extra={"default": {}},
    )
    sham: bool = Field(
        default=False,
        description="Run a sham of the anchor and of each subset too: the same program with a no-op in the place of every increment. What changes "
        "there is layout (and instructions that do nothing), not counting. Its configuration is named `sham-` and the other's name. May be set "
        "later: the campaign goes on with the shams.",
    )
    layouts: Literal["fixed", "varied"] = Field(
        default="fixed",
        description="Layout of the code: one for each configuration, as its build makes it, or another one for each of its runs, drawn by the seed: "
        "the objects linked in another order, the sections shifted. With `varied` the spread between runs holds what layout does.",
    )
    points: int | None = Field(
        default=None,
        ge=1,
        le=MOST_POINTS,
        description="Points of a sweep, drawn at random by the seed, where one of its parameters is drawn. More may be asked for later: the sweep "
        "goes on with the further points.",
        examples=[400],
    )
    repetitions: int = Field(
        default=1,
        ge=1,
        le=10_000,
        description="Times that each point of a sweep is measured; each is a row of its table. More may be asked for later.",
    )
    seed: int = Field(default=1, ge=0, lt=2**63, description="Seed of everything that is random in the campaign.")
    order: Literal["blocks", "random", "sequential"] = Field(
        default="blocks",
        description="Order of the runs: shuffled within blocks over which every configuration is spread evenly, all shuffled, or one "
        "configuration after the other (for debugging: drift of the host then looks like perturbation).",
    )
    retries: int = Field(default=1, ge=0, le=100, description="Times that a failed run is tried again.")
    max_runs: int | None = Field(
        default=None, ge=1, description="Most runs that the plan may have; the campaign is refused otherwise."
    )
    max_hours: float | None = Field(default=None, gt=0, le=100_000, description="Hours after which no further run is begun.")


class Analysis(Section):
    """How runs are aligned and perturbation is judged."""

    align_on: Texts = Field(
        default=(),
        description="Metrics by which runs are aligned; every configuration must measure them. By default IPC if it is derived, else "
        "PAPI_TOT_INS, else the first hardware metric, else the first operating-system metric.",
        examples=[["IPC"]],
    )
    anchor: Text | None = Field(
        default=None,
        description="A cheap software metric that is put into every configuration but the baseline, so that all can be aligned by it. Alone "
        "with the baseline's metrics it is a configuration of its own, which is checked first.",
        examples=["blocks"],
    )
    alpha: float = Field(
        default=0.05, gt=0, lt=0.5, description="Level of the tests: the share of false alarms that is accepted."
    )
    tolerance: float = Field(
        default=0.1, gt=0, lt=1, description="Change of a correlation, up to which a metric counts as unperturbed."
    )


class Campaign(Section):
    """A validated spec, with every default filled in.

    Attributes
    ----------
    path, folder : of the spec's file, absolute.
    text : the spec as it was read.
    digest : SHA-256 of the content, defaults filled in; comments, order of keys, units, the number of runs,
        of points and repetitions, limits (timeout, retries, max_runs, max_hours) and settings of the analysis (align_on, alpha, tolerance)
        do not change it.
    point : what the placeholders of a sweep's parameters stand for; empty but in what `at_point` returns.
    """

    name: FileName = Field(description="Name of the campaign, and of its folder.", examples=["quickstart"])
    program: Program = Field(description="Which program: its source, how it is built and run.")
    measure: Measure = Field(description="What is measured of it, and how often.")
    campaign: Design = Field(
        default_factory=Design, description="How many runs of which configurations.", json_schema_extra={"default": {}}
    )
    analysis: Analysis = Field(
        default_factory=Analysis, description="How runs are aligned and judged.", json_schema_extra={"default": {}}
    )
    parameters: Annotated[Mapping[ParameterName, Parameter], Frozen] = Field(
        default_factory=_nothing,
        description="Parameters of a sweep: the campaign then runs the program at points of these, natively and counted, and ends in a table of "
        "whole runs instead of verdicts. A name, and a list of values, a range, or a random draw. `{parameters.NAME}` stands for the value.",
        examples=[{"n": {"uniform": [5, 300]}, "datatype": ["float", "double"]}],
        json_schema_extra={"default": {}},
    )

    _path: Path = PrivateAttr(default=Path())
    _folder: Path = PrivateAttr(default=Path())
    _text: str = PrivateAttr(default="")
    _digest: str = PrivateAttr(default="")
    _point: Mapping[str, str] = PrivateAttr(default_factory=_nothing)

    @property
    def path(self) -> Path:
        """Return the absolute path of the spec's file."""
        return self._path

    @property
    def folder(self) -> Path:
        """Return the absolute path of the folder that relative paths in the spec start from."""
        return self._folder

    @property
    def text(self) -> str:
        """Return the spec as it was read."""
        return self._text

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the content, as 64 hexadecimal digits."""
        return self._digest

    @property
    def point(self) -> Mapping[str, str]:
        """Return the placeholders of the sweep's parameters and what they stand for here."""
        return self._point

    def at_point(self, values: Mapping[str, Value]) -> Campaign:
        """Return the campaign at one point of its sweep, where each parameter has a value."""
        here = self.model_copy()
        here._point = MappingProxyType({f"{PARAMETER}{name}": str(value) for name, value in values.items()})
        return here


REASONS: Mapping[tuple[str, ...], str] = MappingProxyType(
    {
        ("measure", "interval", "records"): "a rank correlation over fewer intervals says next to nothing",
        (
            "campaign",
            "baseline_runs",
        ): "with fewer, the spread between runs, which every change is held against, is all but unknown",
        ("measure", "signal"): "Linux numbers its signals so",
        ("campaign", "runs"): "with fewer, a configuration's own spread between runs is all but unknown",
        ("analysis", "alpha"): "from one half on, a coin would judge as well",
        ("analysis", "tolerance"): "it is a difference of correlations, 0.1 as a rule",
        ("program", "exit_code"): "a process cannot end with another; 128 + n means killed by signal n",
    }
)
"""Why a number has its bounds, for messages."""

MAPPINGS: Mapping[tuple[str, ...], type[Section]] = MappingProxyType(
    {
        (): Campaign,
        ("program",): Program,
        ("program", "compilers"): CompilerFields,
        ("measure",): Measure,
        ("measure", "interval"): Records,
        ("measure", "software", "*"): EventFields,
        ("measure", "software", "*", "probe"): ProbeFields,
        ("measure", "software", "*", "python"): PythonFields,
        ("measure", "simulator"): MachineFields,
        ("measure", "simulator", "*"): CacheFields,
        ("campaign",): Design,
        ("analysis",): Analysis,
        ("parameters", "*"): ParameterFields,
    }
)
"""Every mapping of a spec whose keys are fixed, by its path; `*` is any key."""


def model_at(path: tuple[str | int, ...]) -> type[Section] | None:
    """Return the model of the mapping at a path; None where keys are free or nothing is a mapping."""
    for pattern, model in MAPPINGS.items():
        if len(pattern) == len(path) and all(want in ("*", have) for want, have in zip(pattern, path, strict=True)):
            return model
    return None
