"""Sections `campaign` and `programs`: configurations, their numbers of runs, other set-ups, and rules on them."""

from __future__ import annotations

import re
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
    ListOf,
    Section,
    SpecKey,
    empty,
    text_or_number,
)
from unperturbed.harness.spec.sections._metrics import Metrics, means_of
from unperturbed.harness.spec.sections.parameters import MOST_POINTS
from unperturbed.harness.spec.sections.program import Compilers, Program, check_placeholders, check_words
from unperturbed.harness.spec.text import FileName, PackageName, Text, Texts, VariableName, find_placeholders
from unperturbed.harness.spec.yaml import YamlPath
from unperturbed.instrument.events.event import MOST_DOSES

if TYPE_CHECKING:
    from unperturbed.harness.spec.campaign_spec import CampaignSpec

_OF_DOSE = re.compile(r"-x\d+$")  # End of the names of configurations with several increments; reserved with `doses`
_FEWEST_LARGER = 2  # With fewer doses above 1, a response that is not linear would not show

BASELINE = "baseline"
ANCHOR = "anchor"
PILOT = "pilot"
REFERENCE = "reference"
"""Names of the configurations other than subsets, and of the two runs before the plan (pilot and reference)."""

UNTIL_DECIDED = "until decided"
DEFAULT_RUNS = 5
MOST_RUNS = 60
"""Default of `at_most`: maximum number of runs of each configuration if `runs` is `until decided`."""

READY = "ready"  # The one build of all counters, with none of them patched in; reserved with `builds: one`
READY_PREFIX = "ready-"  # Prefix of the names of these builds with `families`; reserved with `builds: one`
MULTIPLEXED = "multiplexed"  # Configuration whose metrics take turns, and prefix of the names of its passes
RESERVED = (BASELINE, ANCHOR, PILOT, REFERENCE)  # Names that neither a subset nor an item of `programs` may have
SHAM_PREFIX = "sham-"  # Prefix of the names of shams; names of subsets must not start with it


class Design(Section):
    """Configurations, the number of runs of each, and the order of the runs."""

    baseline_runs: Annotated[
        int,
        MAY_CHANGE,
        Because("every change is compared with the variation between runs, which fewer runs do not show"),
    ] = Field(default=10, ge=5, le=10_000)
    """Number of runs of the baseline, the program without software metrics (except one whose events end intervals). You
    can change the number later."""
    runs: Annotated[
        Annotated[int, Field(ge=3, le=10_000), Tag(AS_NUMBER)] | Annotated[Literal["until decided"], Tag(AS_TEXT)],
        Discriminator(text_or_number),
        MAY_CHANGE,
        Because("fewer runs do not show how much the runs of a configuration vary"),
    ] = Field(default=DEFAULT_RUNS)
    """Number of runs of each configuration except the baseline and the items of `programs`. The anchor gets at least
    five, because subsets are compared with it after alignment. You can change the number later: the campaign then makes
    the additional runs, or leaves out runs that have not started. With `until decided`, every configuration, including
    the baseline, first gets 5 runs. Configurations whose verdict is open, and the baseline and anchor with which they
    are compared, then get further runs in steps, up to `at_most`. The verdicts of each step use up a share of
    `alpha`."""
    at_most: Annotated[int | None, ADDED_LATER] = Field(default=None, ge=10, le=1000, examples=[60])
    """Maximum number of runs of each configuration if `runs` is `until decided`. The default is 60. Another maximum is
    another campaign, because the share of `alpha` of each step depends on it."""
    subsets: Annotated[Mapping[FileName, Texts], Frozen] = Field(
        default_factory=empty, examples=[{"light": ["blocks"], "heavy": ["compares", "pushes"]}]
    )
    """Groups of software metrics that are measured together; each group is a configuration. By default, one group,
    named `all`, contains every software metric except the anchor."""
    sham: Annotated[bool, MAY_CHANGE] = Field(default=False)
    """Also run a sham of the anchor and of each subset: the same program with a no-op in place of every increment.
    Changes in a sham come from code layout and the no-ops, not from counting. The sham of `NAME` is the configuration
    `sham-NAME`, or with one build the configuration `ready` for all. You can set `sham` later: the campaign then
    runs the shams."""
    builds: Annotated[Literal["auto", "one", "separate"], ADDED_LATER] = Field(default="auto")
    """`one`: all configurations with software metrics run one build that has a no-op at every site of every software
    metric. Before each run, the counting instructions of the run's metrics are written over their no-ops, so that these
    configurations have the same addresses. With `sham: true`, this build without any counting is the configuration
    `ready`, the sham of all others. If a program cannot be patched, separate builds are used, and the report says why.
    `separate`: each configuration is a build that counts its metrics, with code at other addresses than in the others.
    `auto`: `one`, but `separate` in a sweep and on nodes."""
    families: Annotated[Mapping[FileName, Texts], Frozen, ADDED_LATER] = Field(
        default_factory=empty, examples=[{"light": ["blocks"], "heavy": ["compares", "pushes"]}]
    )
    """With one build: groups of software metrics that have a build together, instead of one build of all metrics. A
    configuration runs the first build that has all its metrics; every build has the anchor. Each build without counting
    is the configuration `ready-NAME`. By default, a campaign chooses families if the build of all metrics executes more
    instructions without counting than the tolerance of totals allows."""
    doses: Annotated[tuple[Annotated[int, Field(ge=0, le=MOST_DOSES)], ...], ListOf, ADDED_LATER] = Field(
        default=(), examples=[[0, 1, 2, 4]]
    )
    """With one build: numbers of increments at each place where a subset counts. Of several, the first counts the
    event; the others cost the same, and count nothing. For each number above 1, a configuration such as `NAME-x2` has
    as many runs as the subset `NAME`. From these runs, correlations and totals without counting are extrapolated, and
    a response that is not linear is shown. List 1 and at least two larger numbers, up to 8. With 0, `ready` runs too,
    as with `sham: true`, and the extrapolation is compared with it."""
    multiplexed: Annotated[bool, ADDED_LATER] = Field(default=False)
    """With `multiplex` under `measure`: metrics take turns on the counters in one further configuration alone, which is
    named `multiplexed` and counts no software metrics. All others, and the baseline with which it is compared, count in
    several passes, each metric all the time. The verdicts say which metrics may be multiplexed, for several lengths of
    an interval."""
    layouts: Annotated[Literal["fixed", "varied"], ADDED_LATER] = Field(default="fixed")
    """Layout of the code. `fixed`: each configuration has one layout, that of its build. `varied`: each run has a
    different layout, drawn at random from the seed (objects linked in a different order, sections shifted). The
    variation between runs then includes the effect of layout. With one build, runs of one round have the same
    layout, and are compared within it."""
    points: Annotated[int | None, MAY_CHANGE] = Field(default=None, ge=1, le=MOST_POINTS, examples=[400])
    """Number of points of a sweep, if at least one parameter is drawn at random. The seed determines the points. You
    can increase the number later: the sweep then runs the additional points."""
    repetitions: Annotated[int, MAY_CHANGE] = Field(default=1, ge=1, le=10_000)
    """Number of times that each point of a sweep is measured. Each repetition is a row of the table. You can increase
    the number later."""
    native_runs: Annotated[int, MAY_CHANGE] = Field(default=1, ge=1, le=100)
    """Number of timed runs without a sampler, for each row of a sweep, and for each run of any other campaign with
    simulated counters. The shortest time counts: other load on the host only adds time, so several runs help if times
    vary. You can change the number later: a sweep then makes the further runs, any other campaign only those of runs
    that it makes from then on."""
    seed: int = Field(default=1, ge=0, lt=2**63)
    """Seed of all random choices in the campaign."""
    order: Literal["blocks", "random", "sequential"] = Field(default="blocks")
    """Order of the runs. `blocks`: the runs of each configuration are spread evenly over blocks, and each block is
    shuffled. `random`: all runs are shuffled. `sequential`: one configuration after another, for debugging (drift of
    the host then looks like perturbation)."""
    retries: Annotated[int, MAY_CHANGE] = Field(default=1, ge=0, le=100)
    """Maximum number of times that a failed run is repeated."""
    max_runs: Annotated[int | None, MAY_CHANGE] = Field(default=None, ge=1)
    """Maximum number of runs in the plan. A campaign that needs more is refused."""
    max_hours: Annotated[float | None, MAY_CHANGE] = Field(default=None, gt=0, le=100_000)
    """Time limit, in hours, after which no further run starts."""

    @property
    def until_decided(self) -> bool:
        """Return whether the campaign makes further runs until every configuration is decided or has `at_most` runs."""
        return self.runs == UNTIL_DECIDED

    @property
    def most_doses(self) -> int:
        """Return the largest number of increments at a place."""
        return max(self.doses, default=1)

    @property
    def most_runs(self) -> int:
        """Return the maximum number of runs of each configuration except the baseline and the items of `programs`."""
        return self.runs if isinstance(self.runs, int) else self.at_most or MOST_RUNS

    @property
    def most_baseline_runs(self) -> int:
        """Return the maximum number of runs of the baseline and of each item of `programs`."""
        return max(self.baseline_runs, self.most_runs) if self.until_decided else self.baseline_runs


def default_subsets(spec: CampaignSpec) -> Mapping[str, tuple[str, ...]]:
    """Return one subset of all software metrics, sorted (key order has no meaning); {} without any.

    It lacks the anchor and the metric whose events end intervals, which other configurations have too.
    """
    carried = (spec.analysis.anchor, spec.measure.interval_metric)
    everything = tuple(sorted(name for name in spec.measure.software if name not in carried))
    return {"all": everything} if everything else {}


def _check(draft: Draft) -> None:
    metrics = Metrics.named_in(draft)
    subsets = draft.keys("campaign", "subsets")
    used = {draft.text("analysis", "anchor"), draft.text("measure", "interval", "of")}
    for subset, path in subsets.items():
        _check_name(draft, subset, path)
        if draft.value(*path) == []:
            draft.report(path, f"subset `{subset}` is empty: list software metrics, or remove the subset")
        for place, metric in draft.distinct_texts(*path):
            if metrics.measured.get(metric) != "software":
                draft.report(place, metrics.not_software(draft, metric))
            used.add(metric)
    for metric in metrics.software if subsets else ():
        if metric not in used:
            path = ("measure", "software", metric)
            draft.report_key(path, f"no subset contains `{metric}`, so no run would measure it: add it to a subset")
    _check_families(draft, metrics, subsets)
    _check_doses(draft, subsets)
    _check_multiplexed(draft, subsets)
    _check_layouts(draft)
    until_decided = draft.value("campaign", "runs") == UNTIL_DECIDED
    if draft.has("campaign", "at_most") and not until_decided:
        what = "`at_most` needs `runs: until decided`: change `runs`, or remove `at_most`"
        draft.report_key(("campaign", "at_most"), what)
    if until_decided and draft.has("nodes"):
        what = "`until decided` does not work with `nodes`: give a number of runs, or remove `nodes`"
        draft.report(("campaign", "runs"), what)


def _check_families(draft: Draft, metrics: Metrics, subsets: Mapping[str, YamlPath]) -> None:
    """Reject families without one build, unknown metrics, and subsets whose compiled metrics no family has."""
    families = draft.keys("campaign", "families")
    if families and not _has_one_build(draft):
        what = "`families` needs one build for all configurations: write `builds: one`, or remove `families`"
        draft.report_key(("campaign", "families"), what)
        return
    contents: list[set[str]] = []
    for path in families.values():
        listed = list(draft.distinct_texts(*path))
        for place, metric in listed:
            if metrics.measured.get(metric) != "software":
                draft.report(place, metrics.not_software(draft, metric))
        contents.append({metric for _, metric in listed})
    anchor = {draft.text("analysis", "anchor")}
    software = draft.keys("measure", "software").items()
    compiled = {name for name, path in software if "compiled" in means_of(draft.value(*path))}
    everything = compiled - anchor
    if families and not subsets and not any(everything <= content for content in contents):
        what = "no family contains all software metrics, which one subset has by default: add `subsets`, each in one"
        draft.report_key(("campaign", "families"), f"{what} family")
    for subset, path in subsets.items() if families else ():
        wanted = compiled.intersection(metric for _, metric in draft.distinct_texts(*path)) - anchor
        if not any(wanted <= content for content in contents):
            draft.report_key(
                path,
                f"no family contains all metrics of the subset `{subset}` ({', '.join(sorted(wanted))}): put them into "
                "one family, or split the subset",
            )


def _check_doses(draft: Draft, subsets: Mapping[str, YamlPath]) -> None:
    """Reject doses that show no response, in campaigns that cannot have them, and names that they reserve."""
    path, doses = ("campaign", "doses"), draft.value("campaign", "doses")
    if not isinstance(doses, list) or not all(type(dose) is int for dose in doses):  # another check reports the type
        return
    if not _has_one_build(draft) and not draft.has("nodes"):
        draft.report_key(path, "`doses` needs one build for all configurations: write `builds: one`, or remove `doses`")
    if 1 not in doses or len({dose for dose in doses if dose > 1}) < _FEWEST_LARGER:
        what = "`doses` needs 1 and at least two larger numbers, to show whether the response is linear: write"
        draft.report(path, f"{what} `doses: [0, 1, 2, 4]`")
    elif len(set(doses)) < len(doses):
        draft.report(path, "a number appears twice in `doses`: remove the duplicate")
    if draft.value("campaign", "runs") == UNTIL_DECIDED:
        draft.report_key(path, "`doses` does not work with `runs: until decided`: give a number of runs")
    if draft.has("nodes"):
        draft.report_key(path, "`doses` does not work with `nodes`: remove one of them")
    names = {**subsets, **draft.keys("programs")}
    for name in (name for name in names if _OF_DOSE.search(name)):
        what = f"names that end in `{name[name.rindex('-') :]}` are reserved for doses: choose another name"
        draft.report_key(names[name], f"`{name}`: {what}")


def _check_multiplexed(draft: Draft, subsets: Mapping[str, YamlPath]) -> None:
    """Reject a comparison of multiplexed counts without any, where there are no verdicts, and the name it reserves."""
    path = ("campaign", "multiplexed")
    if draft.value(*path) is not True:
        return
    if not draft.value("measure", "multiplex"):
        what = "metrics take turns only with `multiplex: true` under `measure`: add it, or remove `multiplexed`"
        draft.report_key(path, what)
    if draft.has("nodes"):
        draft.report_key(path, "`multiplexed` does not work with `nodes`: remove one of them")
    for name, place in {**subsets, **draft.keys("programs")}.items():
        if name == MULTIPLEXED:
            draft.report_key(
                place, f"`{name}` is the name of the configuration whose metrics take turns: choose another"
            )


def _has_one_build(draft: Draft) -> bool:
    """Return whether configurations share a build, as `CampaignSpec.builds` does."""
    asked = draft.value("campaign", "builds")
    return asked == "one" or (asked in (None, "auto") and not draft.has("nodes") and not draft.has("parameters"))


def is_ready_name(name: str) -> bool:
    """Return whether a configuration of this name may be a build without counting, where `builds` is `one`."""
    return name == READY or name.startswith(READY_PREFIX)


def _check_name(draft: Draft, subset: str, path: YamlPath) -> None:
    if subset in RESERVED or (is_ready_name(subset) and _has_one_build(draft)):
        what = "is a reserved name: choose another name for the subset"
        draft.report_key(path, f"`{subset}` {what}")
    elif subset.startswith(SHAM_PREFIX):
        what = f"names that start with `{SHAM_PREFIX}` are reserved for shams: choose another name"
        draft.report_key(path, f"`{subset}`: {what}")


def _check_layouts(draft: Draft) -> None:
    """Reject `layouts: varied` if neither `{cc}` nor `{cxx}` links the program: the linker varies the layout."""
    if draft.value("campaign", "layouts") != "varied":
        return
    build = draft.text("program", "build")
    if not draft.has("program", "build"):
        draft.report(
            ("campaign", "layouts"),
            "`varied` needs a build, because the linker varies the layout: add `build` to `program:`, or use `fixed` "
            "(the size of the environment varies between runs in any case)",
        )
    elif build is not None and not {"cc", "cxx"} & set(find_placeholders(build)):
        draft.report(
            ("program", "build"),
            "`layouts: varied` needs the instrumenting compiler: write `{cc}` or `{cxx}` in place of the compiler's "
            "name, as in `make CC={cc}`",
        )


CAMPAIGN = SpecKey("campaign", Design, "Configurations, and the number of runs of each.", _check, default=Design)


class OtherProgram(Section):
    """Differences of this program from `program`. A key that is not given has the same value as in `program`."""

    source: Text | None = Field(default=None, examples=["sorter-2.0"])
    """Folder of this program's source."""
    debian: PackageName | None = Field(default=None)
    """Debian source package to build."""
    build: Text | None = Field(default=None, examples=["make CC={cc} CFLAGS='-O2 -fno-plt'"])
    """Command that builds this program."""
    compilers: Compilers | None = Field(default=None)
    """The compilers that the build of this program calls."""
    run: Text | None = Field(default=None, examples=["perf record -o perf.data {build}/sorter"])
    """Command that runs this program, for example with other arguments, or started by another tool."""
    tool: Annotated[Text | None, ADDED_LATER] = Field(default=None, examples=["perf record -F 99 -p {pid}"])
    """For a program with `attach`: command of a tool, such as a profiler or an exporter, that runs during the runs of
    this configuration. It must not end by itself; SIGTERM ends it."""
    sampled: Text | None = Field(default=None, examples=["sorter"])
    """Name of the program to sample, if `run` starts it through another program and nothing is built."""
    shell: bool | None = Field(default=None)
    """Let `/bin/sh` run `build` and `run` of this program."""
    stdin: Text | None = Field(default=None)
    """File that this program reads as standard input."""
    environment: Annotated[Mapping[VariableName, str], Frozen] = Field(
        default_factory=empty, examples=[{"MALLOC_ARENA_MAX": "1"}]
    )
    """Environment variables, added to those of `program`; a variable that is also set there gets this value."""
    working_folder: Text | None = Field(default=None)
    """Folder in which this program runs."""
    exit_code: int | None = Field(default=None, ge=0, le=255)
    """Exit code of a correct run."""
    result: Literal["same", "any"] | None = Field(default=None)
    """`same`: every run must give the result of this program's own first, unmeasured run. `any`: only the exit code
    must be correct."""

    def difference(self) -> str:
        """Describe the differences from `program`, key by key, in the order of the fields."""
        parts = []
        for key in sorted(self.model_fields_set, key=list(type(self).model_fields).index):
            value = getattr(self, key)
            shown = (
                ", ".join(f"{name}={setting}" for name, setting in value.items())
                if isinstance(value, Mapping)
                else value
            )
            parts.append(f"{key}: {shown}")
        return "; ".join(parts)

    def of(self, program: Program) -> Program:
        """Return a copy of `program` with the differences applied."""
        given: dict[str, Any] = {
            name: value for name in type(self).model_fields if (value := getattr(self, name)) is not None
        }
        given["environment"] = {**program.environment, **self.environment}
        given["output_digest"] = None
        if (tool := given.pop("tool", None)) is not None:
            given["load"] = tool  # what runs beside the attached process
        if "source" in given or "debian" in given:
            given = {"source": None, "debian": None, **given}
        return program.model_copy(update=given)


Programs = Annotated[Mapping[FileName, OtherProgram], Frozen, ADDED_LATER]


def _check_programs(draft: Draft) -> None:
    programs = draft.keys("programs")
    if programs and draft.has("parameters"):
        draft.report_key(
            ("programs",),
            "`programs` has no meaning in a sweep (`parameters:`), which gives no verdict: remove `programs` or "
            "`parameters`",
        )
    for name, path in programs.items():
        if name in RESERVED or (is_ready_name(name) and _has_one_build(draft)):
            draft.report_key(path, f"`{name}` is a reserved name: choose another name for the program")
        elif name in draft.keys("campaign", "subsets"):
            draft.report_key(path, f"a subset is already named `{name}`: choose another name")
        elif name.startswith(SHAM_PREFIX):
            draft.report_key(
                path, f"`{name}`: names that start with `{SHAM_PREFIX}` are reserved for shams: choose another name"
            )
        if draft.value(*path) == {}:
            draft.report_key(
                path, f"`{name}` does not differ from `program`: add the keys that differ, or remove `{name}`"
            )
        for field in ("build", "run", "tool", "stdin", "working_folder"):
            text = draft.text(*path, field)
            if text is not None and not draft.recorded:
                check_placeholders(draft, (*path, field), field, text)
        if draft.recorded:
            continue
        for field in ("build", "run", "tool"):
            check_words(draft, (*path, field))
        build = draft.text(*path, "build")
        if build is not None and not {"cc", "cxx"} & set(find_placeholders(build)) and draft.has("program", "build"):
            draft.report(
                (*path, "build"),
                "all programs must be measured in the same way, so this build needs the instrumenting compiler too: "
                "write `{cc}` or `{cxx}` in place of the compiler's name",
            )
        if (build is None) != (not draft.has("program", "build")) and build is not None:
            draft.report_key(
                (*path, "build"),
                "`program:` has no `build`, but all programs must be measured in the same way: add `build` to "
                "`program:`, or remove this `build`",
            )


PROGRAMS = SpecKey(
    "programs",
    Programs,
    "Other builds, inputs or set-ups of the program. Each is a configuration without software metrics. It has as many "
    "runs as the baseline and is compared with the baseline.",
    _check_programs,
    default=empty,
    examples=({"clang": {"compilers": {"cc": "clang"}}},),
)
