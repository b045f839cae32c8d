"""`campaign`, `programs`: how many runs of which configurations and set-ups of the program, and rules on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from unperturbed.harness.spec.model import (
    ADDED_LATER,
    AS_NUMBER,
    AS_TEXT,
    MAY_CHANGE,
    Because,
    Draft,
    Frozen,
    Section,
    SpecKey,
    empty,
    text_or_number,
)
from unperturbed.harness.spec.sections._metrics import Metrics
from unperturbed.harness.spec.sections.parameters import MOST_POINTS
from unperturbed.harness.spec.sections.program import Compilers, Program, check_placeholders, check_words
from unperturbed.harness.spec.text import FileName, PackageName, Text, Texts, VariableName, find_placeholders
from unperturbed.harness.spec.yaml import YamlPath

if TYPE_CHECKING:
    from unperturbed.harness.spec.campaign_spec import CampaignSpec

BASELINE = "baseline"
ANCHOR = "anchor"
PILOT = "pilot"
REFERENCE = "reference"
"""Names of the configurations that a campaign has beside its subsets, and of the two runs that come before its plan."""

MOST_RUNS = 60
"""Most runs of a configuration until it is decided, where the spec names no other number."""

RESERVED = (BASELINE, ANCHOR, PILOT, REFERENCE)  # Names that neither a subset nor another program can have
SHAM_PREFIX = "sham-"  # Prefix of shams' names, which subsets must not have


class Design(Section):
    """How many runs of which configurations, in which order."""

    baseline_runs: Annotated[
        int,
        MAY_CHANGE,
        Because("with fewer, the variation between runs, with which every change is compared, is almost unknown"),
    ] = Field(default=10, ge=5, le=10_000)
    """Runs of the baseline: the program without software metrics. You can increase it later."""
    runs: Annotated[
        Annotated[
            int,
            Field(ge=3, le=10_000),
            Because("with fewer, a configuration's own variation between runs is almost unknown"),
            Tag(AS_NUMBER),
        ]
        | Annotated[Literal["until decided"], Tag(AS_TEXT)],
        Discriminator(text_or_number),
        MAY_CHANGE,
    ] = Field(default=5)
    """Runs of every other configuration. The anchor has at least five, because subsets are compared with it after
    alignment. You can increase it later: the campaign then makes the further runs. `until decided`: 10 runs of every
    configuration, the baseline too, then more in steps of half as many or more, for configurations whose verdict is
    open, up to `at_most`. Each verdict uses its share of `alpha`."""
    at_most: int | None = Field(default=None, ge=10, le=1000, examples=[60])
    """Most runs of a configuration with `runs: until decided`, where it is 60 by default."""
    subsets: Annotated[Mapping[FileName, Texts], Frozen] = Field(
        default_factory=empty, examples=[{"light": ["blocks"], "heavy": ["compares", "pushes"]}]
    )
    """Groups of software metrics that are measured together, one configuration each. By default one, named `all`, with
    every software metric but the anchor."""
    sham: Annotated[bool, MAY_CHANGE] = Field(default=False)
    """Also run a sham of the anchor and of each subset: the same program with a no-op instead of every increment.
    Changes there come from layout (and instructions that do nothing), not from counting. The sham of `NAME` is the
    configuration `sham-NAME`. You can set it later: the campaign then runs the shams."""
    layouts: Annotated[Literal["fixed", "varied"], ADDED_LATER] = Field(default="fixed")
    """Layout of the code. `fixed`: one for each configuration, as its build makes it. `varied`: another one for each
    run, drawn by the seed (objects linked in another order, sections shifted). The variation between runs then includes
    the effect of layout."""
    points: Annotated[int | None, MAY_CHANGE] = Field(default=None, ge=1, le=MOST_POINTS, examples=[400])
    """Number of points of a sweep, if one of its parameters is drawn; the seed draws them. You can increase it later:
    the sweep then runs the further points."""
    repetitions: Annotated[int, MAY_CHANGE] = Field(default=1, ge=1, le=10_000)
    """How often each point of a sweep is measured. Each repetition is a row of the table. You can increase it later."""
    native_runs: Annotated[int, MAY_CHANGE] = Field(default=1, ge=1, le=100)
    """How often the program is run without a sampler and timed, for each row of a sweep, and beside each run of another
    campaign whose counters are simulated: the least time counts. Other load on a host only ever adds time, so several
    runs help where times vary. You can change it later."""
    seed: int = Field(default=1, ge=0, lt=2**63)
    """Seed of everything that is random in the campaign."""
    order: Literal["blocks", "random", "sequential"] = Field(default="blocks")
    """Order of the runs. `blocks`: every configuration is spread evenly over blocks, and the runs of a block are
    shuffled. `random`: all runs are shuffled. `sequential`: one configuration after the other, for debugging (drift of
    the host then looks like perturbation)."""
    retries: Annotated[int, MAY_CHANGE] = Field(default=1, ge=0, le=100)
    """How often a failed run is repeated."""
    max_runs: Annotated[int | None, MAY_CHANGE] = Field(default=None, ge=1)
    """Most runs that the plan may have. A campaign that needs more is refused."""
    max_hours: Annotated[float | None, MAY_CHANGE] = Field(default=None, gt=0, le=100_000)
    """Hours after which no further run starts."""

    @property
    def until_decided(self) -> bool:
        """Return whether runs are made until every configuration is decided."""
        return self.runs == "until decided"

    @property
    def most_runs(self) -> int:
        """Return the most runs that a configuration other than the baseline can have."""
        return self.runs if isinstance(self.runs, int) else self.at_most or MOST_RUNS

    @property
    def most_baseline_runs(self) -> int:
        """Return the most runs that the baseline can have."""
        return max(self.baseline_runs, self.most_runs) if self.until_decided else self.baseline_runs


def default_subsets(spec: CampaignSpec) -> Mapping[str, tuple[str, ...]]:
    """Return one subset of all software metrics but the anchor, or none; sorted, as the order of keys is no content."""
    everything = tuple(sorted(name for name in spec.measure.software if name != spec.analysis.anchor))
    return {"all": everything} if everything else {}


def _check(draft: Draft) -> None:
    metrics = Metrics.named_in(draft)
    subsets = draft.keys("campaign", "subsets")
    used = {draft.text("analysis", "anchor")}
    for subset, path in subsets.items():
        _check_name(draft, subset, path)
        if draft.value(*path) == []:
            draft.report(path, f"the subset `{subset}` is empty: name software metrics, or remove it")
        for place, metric in draft.distinct_texts(*path):
            if metrics.measured.get(metric) != "software":
                draft.report(place, metrics.not_software(draft, metric))
            used.add(metric)
    for metric in metrics.software if subsets else ():
        if metric not in used:
            path = ("measure", "software", metric)
            draft.report_key(path, f"`{metric}` is in no subset, so no run would measure it")
    _check_layouts(draft)
    until_decided = draft.value("campaign", "runs") == "until decided"
    if draft.has("campaign", "at_most") and not until_decided:
        draft.report_key(("campaign", "at_most"), "`at_most` needs `runs: until decided`")
    for key in ("nodes", "parameters") if until_decided else ():
        if draft.has(key):
            draft.report(
                ("campaign", "runs"), f"`until decided` works on one host and not in a sweep: remove it, or `{key}`"
            )


def _check_name(draft: Draft, subset: str, path: YamlPath) -> None:
    if subset in RESERVED:
        what = "is a reserved name of a configuration: choose another"
        draft.report_key(path, f"`{subset}` {what}")
    elif subset.startswith(SHAM_PREFIX):
        what = f"names that begin with `{SHAM_PREFIX}` belong to the shams of subsets: choose another"
        draft.report_key(path, f"`{subset}`: {what}")


def _check_layouts(draft: Draft) -> None:
    """Layouts vary by linking, and what is not linked by `{cc}` or `{cxx}` cannot vary."""
    if draft.value("campaign", "layouts") != "varied":
        return
    build = draft.text("program", "build")
    if not draft.has("program", "build"):
        draft.report(
            ("campaign", "layouts"),
            "`varied`: a program that is not built here has one layout, as `program:` has no `build`; only the size of "
            "the environment varies from run to run, which it always does",
        )
    elif build is not None and not {"cc", "cxx"} & set(find_placeholders(build)):
        draft.report(
            ("program", "build"),
            "varied layouts need the compiler that links in them: write `{cc}` or `{cxx}` where this command names its "
            "compiler, as in `make CC={cc}`",
        )


CAMPAIGN = SpecKey("campaign", Design, "How many runs of which configurations.", _check, default=Design)


class OtherProgram(Section):
    """How this program differs from `program`. Keys that are not given are the same."""

    source: Text | None = Field(default=None, examples=["sorter-2.0"])
    """Folder of its source."""
    debian: PackageName | None = Field(default=None)
    """Debian source package to build."""
    build: Text | None = Field(default=None, examples=["make CC={cc} CFLAGS='-O2 -fno-plt'"])
    """Command that builds it."""
    compilers: Compilers | None = Field(default=None)
    """The compilers that its build calls."""
    run: Text | None = Field(default=None, examples=["perf record -o perf.data {build}/sorter"])
    """Command that runs it: with other arguments, or started by another tool."""
    sampled: Text | None = Field(default=None, examples=["sorter"])
    """Name of the program to sample, if `run` starts it by another one and nothing is built."""
    shell: bool | None = Field(default=None)
    """Have `/bin/sh` run its `build` and `run`."""
    stdin: Text | None = Field(default=None)
    """File that it reads as its standard input."""
    environment: Annotated[Mapping[VariableName, str], Frozen] = Field(
        default_factory=empty, examples=[{"MALLOC_ARENA_MAX": "1"}]
    )
    """Environment variables in addition to those of `program`, or with another value."""
    working_folder: Text | None = Field(default=None)
    """Folder in which it runs."""
    exit_code: int | None = Field(default=None, ge=0, le=255)
    """Exit code of a correct run."""
    result: Literal["same", "any"] | None = Field(default=None)
    """`same`: all its runs must give the result of its own first, unmeasured run. `any`: only the exit code must be
    correct."""

    def difference(self) -> str:
        """Return what is otherwise in it, key by key, in the order of this section."""
        parts = []
        for key in sorted(self.model_fields_set, key=list(type(self).model_fields).index):
            value = getattr(self, key)
            shown = ", ".join(f"{name}={one}" for name, one in value.items()) if isinstance(value, Mapping) else value
            parts.append(f"{key}: {shown}")
        return "; ".join(parts)

    def of(self, program: Program) -> Program:
        """Return the whole program: that of `program:` with these changes."""
        given: dict[str, Any] = {
            name: value for name in type(self).model_fields if (value := getattr(self, name)) is not None
        }
        given["environment"] = {**program.environment, **self.environment}
        given["output_digest"] = None
        if "source" in given or "debian" in given:
            given = {"source": None, "debian": None, **given}
        return program.model_copy(update=given)


Programs = Annotated[Mapping[FileName, OtherProgram], Frozen, ADDED_LATER]


def _check_programs(draft: Draft) -> None:
    programs = draft.keys("programs")
    if programs and draft.has("parameters"):
        draft.report_key(
            ("programs",), "`programs` has no meaning in a sweep (`parameters:`): a sweep gives no verdict"
        )
    for name, path in programs.items():
        if name in RESERVED or name in draft.keys("campaign", "subsets"):
            draft.report_key(path, f"`{name}` is the name of another configuration: choose another")
        elif name.startswith(SHAM_PREFIX):
            draft.report_key(path, f"`{name}`: names that begin with `{SHAM_PREFIX}` belong to shams: choose another")
        if draft.value(*path) == {}:
            draft.report_key(path, f"`{name}` is the same as `program`: give what is otherwise in it, or remove it")
        for field in ("build", "run", "stdin", "working_folder"):
            text = draft.text(*path, field)
            if text is not None and not draft.recorded:
                check_placeholders(draft, (*path, field), field, text)
        if draft.recorded:
            continue
        for field in ("build", "run"):
            check_words(draft, (*path, field))
        build = draft.text(*path, "build")
        if build is not None and not {"cc", "cxx"} & set(find_placeholders(build)) and draft.has("program", "build"):
            draft.report(
                (*path, "build"),
                "programs are compared alike, so this build needs the sampler's compiler too: write `{cc}` or `{cxx}` "
                "where it names its compiler",
            )
        if (build is None) != (not draft.has("program", "build")) and build is not None:
            draft.report_key(
                (*path, "build"), "`program:` is not built, and both are to be measured alike: build both, or neither"
            )


PROGRAMS = SpecKey(
    "programs",
    Programs,
    "Other builds, inputs or set-ups of the program. Each is a configuration without software metrics, which is run as "
    "often as the baseline and compared with it.",
    _check_programs,
    default=empty,
    examples=({"clang": {"compilers": {"cc": "clang"}}},),
)
