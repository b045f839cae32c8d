"""How often runs in which nothing was counted are called perturbed, on a real program: written to
`docs/evidence/held_back.md`.

    python docs/evidence/held_back.py [--draws 10] [--seed 1] [--campaigns FOLDER]

Two campaigns, one with a layout for each configuration, one with a layout for each run; then many draws of baseline
runs and of runs that should look like them. With `--campaigns` they are kept in that folder, and gone on with when they
are there.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the experiments are not installed

from experiments.common.provenance import made_by
from unperturbed.analysis.perturbation import Baseline, Verdict, combine_checks
from unperturbed.collectors.data import Trace
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.results.check import hardware_metrics
from unperturbed.harness.results.recorded import read_traces, recorded_campaign
from unperturbed.harness.spec.campaign_spec import CampaignSpec

ROOT = Path(__file__).resolve().parents[2]

LAYOUTS = ("fixed", "varied")
SPEC = """
name: held-back
program:
  source: blocksort
  prepare: "{{python}} make_corpus.py --size 200000 {{inputs}}/corpus.txt"
  build: make CC={{cc}}
  run: "{{build}}/blocksort -c -b 40 {{inputs}}/corpus.txt"
  timeout: 2 min
measure:
  interval: {{records: 150}}
  clock: process-cpu  # by work, runs differ by their rounds alone, and draws from them would not be independent
  source: auto
  hardware: [PAPI_TOT_INS, PAPI_L1_DCM, PAPI_L2_TCM, PAPI_BR_MSP, PAPI_LD_INS, PAPI_SR_INS]
  software:
    steps: {{write: Progress.steps}}
    blocks: {{enter: compress_block}}
    buckets: {{call: multikey_quicksort, in: sort_buckets}}
    output: {{enter: put_byte}}
  simulator: {{I1: 32 KiB 8-way 64 B, D1: 32 KiB 8-way 64 B, LL: 256 KiB 8-way 64 B}}
campaign:
  baseline_runs: 40
  runs: 30
  subsets: {{rare: [blocks, buckets, output]}}
  builds: separate
  sham: true
  layouts: {layouts}
  seed: {seed}
analysis:
  align_on: [PAPI_L1_DCM, PAPI_BR_MSP]
  anchor: steps
"""
"""The quickstart's program on a smaller input, and only its rare events."""

BASELINE_RUNS, CHECKED_RUNS = 10, (3, 5)
"""Drawn from a pool for each check."""
SPLITS = 8
"""Times that the pools are split into halves: the draws from one half share no run with those from the other."""

_RUNS_FAILED = 1


def run_campaign(folder: Path, layouts: str, seed: int) -> Path:
    """Run a campaign, or what is still to be run of it; return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    spec, campaign = folder / f"{layouts}.yaml", folder / layouts
    spec.write_text(SPEC.format(layouts=layouts, seed=seed), encoding="utf-8")
    program = folder / "blocksort"
    if not program.is_symlink():
        program.symlink_to(ROOT / "experiments" / "quickstart" / "blocksort")
    command = [
        sys.executable,
        "-m",
        "unperturbed.harness.cli",
        "run",
        str(spec),
        "--campaign",
        str(campaign),
        "--json",
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode == _RUNS_FAILED or not done.stdout:
        raise SystemExit(f"the campaign of {spec} failed")
    return campaign


@dataclass(frozen=True)
class Null:
    """Runs that are held against runs which should look like them.

    Attributes
    ----------
    layouts : str
        campaign.
    checked : str
        Configuration of the checked runs, as a reader would say it in `what`.
    inner, outer : str
        Configurations against which they are held within a run and after alignment.
    anchored : bool
        Whether runs are aligned through the anchor.
    """

    layouts: str
    what: str
    checked: str
    inner: str = "baseline"
    outer: str = "baseline"
    anchored: bool = False


NULLS = tuple(
    Null(layouts, *rest)
    for layouts in LAYOUTS
    for rest in (
        ("baseline runs held back", "baseline"),
        ("runs of the anchor alone held back", "anchor", "anchor", "anchor", True),
        ("sham of the anchor", "sham-anchor"),
        ("sham of the rare events", "sham-rare"),
        ("rare events, counted", "rare", "baseline", "anchor", True),
    )
)
"""What is held against what, as `unperturbed check` does it: a sham, which counts no milestones, without the anchor."""


@dataclass
class Row:
    """The verdicts of all draws of one kind: by split and half."""

    alarms: dict[str, list[list[bool]]] = field(default_factory=lambda: defaultdict(list))
    significant: list[list[bool]] = field(default_factory=list)
    unperturbed: list[list[bool]] = field(default_factory=list)
    called: Counter[str] = field(default_factory=Counter)
    visible: list[float] = field(default_factory=list)

    def begin(self) -> None:
        """Begin a half: what is added from now on stands together."""
        for each in (*(self.alarms[name] for name in ("inner", "outer", "both")), self.significant, self.unperturbed):
            each.append([])

    def add(self, inner: Verdict, outer: Verdict) -> None:
        """Add a draw."""
        both = combine_checks(inner.configuration, inner, outer)
        for name, verdict in (("inner", inner), ("outer", outer), ("both", both)):
            self.alarms[name][-1].append(verdict.verdict == "perturbed")
        self.significant[-1].append(any(change.p_corrected <= both.alpha for change in both.changes))
        self.unperturbed[-1].append(both.verdict == "unperturbed")
        self.called.update(f"{each.check} {each.label}" for each in both.changes if each.verdict == "perturbed")
        self.visible.append(float(np.median([each.smallest_visible for each in both.changes])))


def share(halves: Sequence[Sequence[bool]]) -> str:
    """Write a share of draws with its standard error, from halves that stand in pairs.

    Draws from one half of a pool depend on one another, those from the other half share no run with them. By how much
    the two halves of a split differ beyond what so few draws differ by chance is the variance of a half; the whole pool
    has half of that.
    """
    found = np.asarray(halves, np.float64)
    shares, draws = found.mean(axis=1), found.shape[1]
    by_chance = (shares * (1 - shares)).mean() / (draws - 1)
    of_a_half = max(0.0, float(((shares[::2] - shares[1::2]) ** 2).mean() / 2 - by_chance))
    within = max(float(found.var()), 1 / found.size) / found.size
    return f"{found.mean():.3f} ± {np.sqrt(of_a_half / 2 + within):.3f}"


def draw(null: Null, pools: Mapping[str, Sequence[Trace]], spec: CampaignSpec, draws: int, seed: int) -> dict[int, Row]:
    """Check many draws of held-back runs against many draws of reference runs; a row for each number of checked
    runs."""
    rng = np.random.default_rng([seed, NULLS.index(null)])
    metrics = hardware_metrics(spec, pools["baseline"])
    anchor = spec.analysis.anchor if null.anchored else None
    names = tuple(dict.fromkeys((null.checked, null.inner, null.outer)))
    rows = {r: Row() for r in CHECKED_RUNS}
    most = max(CHECKED_RUNS)
    for _ in range(SPLITS):
        orders = {name: rng.permutation(len(pools[name])) for name in names}
        for half in (0, 1):
            for row in rows.values():
                row.begin()
            for _ in range(draws):
                drawn = {
                    name: [pools[name][at] for at in rng.permutation(order[half::2])] for name, order in orders.items()
                }
                checked = [drawn[null.checked].pop() for _ in range(most)]
                against = {
                    name: Baseline(
                        drawn[name][:BASELINE_RUNS],
                        metrics=metrics,
                        alpha=spec.analysis.alpha,
                        tolerance=spec.analysis.tolerance,
                        name=name,
                    )
                    for name in {null.inner, null.outer}
                }
                for r, row in rows.items():
                    inner = against[null.inner].inner(checked[:r])
                    row.add(
                        inner,
                        against[null.outer].outer(checked[:r], align_on=spec.analysis.align_on, anchor=anchor),
                    )
    return rows


def header(heads: Sequence[str]) -> Iterator[str]:
    """First two lines of a Markdown table."""
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"


def table(rows: Mapping[Null, Mapping[int, Row]]) -> Iterator[str]:
    """One row a null and number of checked runs, as Markdown."""
    heads = (
        "layouts",
        "checked",
        "r",
        "inner",
        "outer",
        "both",
        "significant",
        "unperturbed",
        "smallest visible",
        "mostly",
    )
    yield from header(heads)
    for null, by_runs in rows.items():
        for r, row in by_runs.items():
            (most, times), *_ = row.called.most_common(1) or [("–", 0)]
            mostly = f"{most} ({times} of {sum(row.called.values())})" if times else most
            shares = [share(row.alarms[name]) for name in ("inner", "outer", "both")]
            yield (
                f"| {null.layouts} | {null.what} | {r} | {shares[0]} | {shares[1]} | **{shares[2]}** | "
                f"{share(row.significant)} | "
                f"{np.mean(row.unperturbed):.2f} | {np.median(row.visible):.2f} | {mostly} |"
            )


def _baseline_first(name: str) -> tuple[bool, str]:
    return name != "baseline", name


def spread_table(pools: Mapping[str, Mapping[str, Sequence[Trace]]], spec: CampaignSpec) -> Iterator[str]:
    """How far the pools' mean correlations are apart, and how far runs are within a pool: the greatest over pairs."""
    heads = (
        "layouts",
        "runs",
        "intervals",
        "spread of ρ over runs: median pair",
        "widest pair",
        "farthest mean ρ from the baseline's",
        "pair",
    )
    yield from header(heads)
    for layouts, by_configuration in pools.items():
        metrics = hardware_metrics(spec, by_configuration["baseline"])
        made = {
            name: Baseline(by_configuration[name], metrics=metrics, name=name)
            for name in sorted(by_configuration, key=_baseline_first)
        }
        for name, each in made.items():
            deviations = each.correlations.std(axis=0, ddof=1)
            distances = np.abs(each.correlations.mean(axis=0) - made["baseline"].correlations.mean(axis=0))
            pair = " – ".join(each.pairs[int(distances.argmax())]) if name != "baseline" else "–"
            intervals = [len(trace) for trace in by_configuration[name]]
            yield (
                f"| {layouts} | {len(intervals)} of {name} | {min(intervals)}–{max(intervals)} | "
                f"{np.median(deviations):.3f} | "
                f"{deviations.max():.3f} | {distances.max():.3f} | {pair} |"
            )


def read(folder: Path) -> tuple[CampaignSpec, dict[str, tuple[Trace, ...]]]:
    """Read a campaign and the traces of its only pass, by configuration."""
    spec = recorded_campaign(folder)
    with Manifest(folder / "campaign.sqlite") as manifest:
        (by_configuration,) = read_traces(folder, manifest).values()
    return spec, dict(by_configuration)


def page(folder: Path, draws: int, seed: int) -> str:
    """Run the campaigns, draw from them and write it down."""
    made, started = made_by(), time.process_time()
    pools = {}
    for layouts in LAYOUTS:
        spec, pools[layouts] = read(run_campaign(folder, layouts, seed))
    rows = {null: draw(null, pools[null.layouts], spec, draws, seed) for null in NULLS}
    rare, anchor = pools["fixed"]["rare"][0], str(spec.analysis.anchor)
    sources = sorted(
        {
            metric.source
            for metric in pools["fixed"]["baseline"][0].metrics.values()
            if metric.kind in ("hardware", "simulated")
        }
    )
    return PAGE.format(
        made=made, source=", ".join(sources),
        runs=sum(len(traces) for by_configuration in pools.values() for traces in by_configuration.values()),
        seconds=time.process_time() - started,
        drawn=2 * SPLITS * draws, splits=SPLITS, draws=draws, k=BASELINE_RUNS, alpha=spec.analysis.alpha,
        milestones=int(rare[anchor].sum()), events=int(sum(rare[name].sum() for name in rare.names("software"))),
        tolerance=spec.analysis.tolerance, spread="\n".join(spread_table(pools, spec)),
        table="\n".join(table(rows)),
    )  # fmt: skip


PAGE = """# Runs held back, and shams: false alarms on a real program

{made} It took {runs} runs, and {seconds:.0f} s of one core to draw from them; counters: {source}.

**What changed on this page, and why.** Since November 2026 outer changes are compared on Fisher's scale, with the
spread that runs have at their level of agreement ([Calibration](calibration.md#outer-checks)).

Verdicts here are those of the commit named above; later outer checks are stricter only where the checked runs of all
metrics spread wider than the baseline's ([Outer checks](calibration.md#outer-checks)). Later inner checks are stricter
where a correlation is beyond ±0.9 ([Inner checks](calibration.md#where-checked-runs-differ-in-other-ways)).

The quickstart's program (`experiments/quickstart/blocksort`) on a smaller input, six hardware metrics (15 pairs within
a run, six metrics after alignment), intervals of CPU time: by work, runs differ by their rounds alone, and draws from
them would depend on one another. One campaign gives each configuration one layout of
its code, the other gives each run a layout of its own ([how events are
counted](../explanation/software.md#layout)). Besides the baseline there are the anchor alone ({milestones} events a
run) and *rare* (the anchor and others, {events:,} events in all), and a sham of each:
the same rewriting, with no-ops in place of the counting.

A draw takes {k} reference runs and r other runs from the pools and judges these as `unperturbed check` does: inner and
outer check in one family at α = {alpha}, tolerance {tolerance}. Baseline runs held back and shams are held against the
baseline without an anchor, which neither counts; runs of the anchor, and rare events, are aligned to runs of the anchor
through its milestones. {drawn} draws a row.

- *inner*, *outer*, *both*: share of draws in which something is called perturbed. *Significant*: the same, were nothing
  shown to lie within the tolerance. *Unperturbed*: share in which all is shown to be unperturbed.
- *smallest visible*: |Δρ| that would be found with power 80 %, median over pairs and draws.
- *mostly*: what was called perturbed most often, and in how many of all such calls.

{table}

**Most draws decide little.** In every row the smallest visible change exceeds the tolerance: few draws show that all is
unperturbed, and nearly all others are undecided. So the table shows how rare false alarms are, not that small changes
are found.

**These draws depend on one another**: all come from the 30 or 40 runs of a pool. The standard errors allow for it as
far as can be: each pool is split into halves {splits} times, {draws} draws are made within each half, and what the
halves differ beyond chance is the pool's own variance. With pools of this size that is known roughly. A share of 0 in a
row says that *this* pool gives no false alarms; it does not say that the rate is below 1 %.

**What is expected.** A baseline run held back, and any run whose layout varies as the baseline's does, is drawn as the
reference runs are: false alarms are at most {alpha}. A sham with one layout held against a baseline with one layout is
not: the two layouts are two programs, and if layout matters, the sham is called perturbed. That is no error of the
test, and the reason for `layouts: varied`. A sham has no-ops as well, which take time: a little of what it shows may be
theirs. Rare events that are counted are no null at all; they stand here for comparison.

**Why fewer than α.** Where *significant* is near {alpha} and *both* is less, a change was significant and shown to lie
within the tolerance. Where *significant* itself is less, it is the family: Holm's correction holds for whatever the
dependence of the changes is, and pairs that share a metric, and metrics that rise and fall together, depend strongly on
one another, so that false alarms come in few draws, several at a time. And a pool of 30 or 40 runs has no tails: a
single change must reach p = .0024, which hardly any draw from so few runs can.

## How far the pools are apart

The spread of a pair's ρ over the runs of a pool, and how far the pool's mean is from the baseline's: what the checks
can find is the second, measured by the first.

{spread}

Counters that are simulated count the same work in the same way in every run; only where the intervals are cut differs,
and that depends on what else the machine does. On a host whose processor counts, `source: auto` takes its counters, and
the line at the top says so.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--draws", type=int, default=10, help=f"from each half of a pool that is split {SPLITS} times")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--campaigns", type=Path, help="folder of the campaigns; a temporary one by default")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".md"))
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        made = page(chosen.campaigns or Path(temporary), chosen.draws, chosen.seed)
    chosen.output.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
