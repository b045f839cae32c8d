"""How stable the quickstart's verdicts are: the same campaign several times, each with another seed.

    python docs/evidence/quickstart.py [--campaigns 5] [--seed 1] [--busy 4] [--folder FOLDER]

Writes docs/evidence/quickstart.md beside itself. With `--busy`, as many campaigns more are made beside so many
processes that never wait. Campaigns that the folder holds already are only judged again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # the experiments are not installed

from experiments.common.load import busy_beside
from experiments.common.provenance import made_by

HERE = Path(__file__).parent
SPEC = HERE.parents[1] / "experiments" / "quickstart" / "quickstart.yaml"
_RUNS_FAILED = 1
_WORK, _TIMES = "PAPI_TOT_INS", ("time_s", "cpu_s")


def main() -> None:
    """Run the campaigns and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--campaigns", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--busy", type=int, default=0, help="processes beside a second set of campaigns")
    parser.add_argument("--busy-campaigns", type=int, help="campaigns of the second set (as many as of the first)")
    parser.add_argument("--folder", type=Path, help="where campaigns are kept (a temporary one)")
    arguments, made = parser.parse_args(), made_by()
    found = []
    with tempfile.TemporaryDirectory() as name:
        for busy in dict.fromkeys((0, arguments.busy)):
            count = (arguments.busy_campaigns if busy else None) or arguments.campaigns
            for seed in range(arguments.seed, arguments.seed + count):
                with busy_beside(busy):
                    made_one = _campaign((arguments.folder or Path(name)) / f"seed-{seed}-beside-{busy}", seed)
                found.append({**made_one, "busy": busy})
                print(f"seed {seed} beside {busy}: {made_one['seconds']:.0f} s", file=sys.stderr)
    (HERE / "quickstart.md").write_text(_page(found, made))


def _campaign(folder: Path, seed: int) -> dict[str, Any]:
    text = SPEC.read_text()
    changed = text.replace("\n  seed: 1\n", f"\n  seed: {seed}\n")
    if seed != 1 and changed == text:
        raise SystemExit(f"{SPEC} has no line `  seed: 1` to change")
    folder.mkdir(parents=True, exist_ok=True)
    spec = folder / "quickstart.yaml"
    spec.write_text(changed)
    if not (folder / "blocksort").exists():
        (folder / "blocksort").symlink_to(SPEC.parent / "blocksort")
    begun = time.monotonic()
    command = [
        sys.executable,
        "-m",
        "unperturbed.harness.cli",
        "run",
        str(spec),
        "--campaign",
        str(folder / "campaign"),
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == _RUNS_FAILED or not done.stdout:
        raise SystemExit(done.stderr)
    result: dict[str, Any] = json.loads(done.stdout)
    return {**result, "seed": seed, "seconds": time.monotonic() - begun, "exit_code": done.returncode}


def _page(found: list[dict[str, Any]], made: str) -> str:
    names = [verdict["configuration"] for verdict in found[0]["verdicts"]]
    alike: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for result in found:
        cells = (_cell(verdict) for verdict in result["verdicts"])
        key = (str(result["busy"] or "–"), _intervals(result), *cells, str(result["exit_code"]))
        alike.setdefault(key, []).append(result)
    rows = [
        f"| {len(group)} | {_seeds(group)} | {busy} | {_load(group)} | {' | '.join(same)} |"
        for (busy, *same), group in alike.items()
    ]
    changes: dict[str, list[float]] = {}
    for result in found:
        for verdict in result["verdicts"]:
            for change in verdict["changes"]:
                if change["verdict"] == "perturbed":
                    name = f"{verdict['configuration']}: {change['check']} {change['first']} – {change['second']}"
                    changes.setdefault(name, []).append(change["effect"])
    lines = [
        "# The quickstart, again and again",
        "",
        f"The campaign of `experiments/quickstart/quickstart.yaml`, {len(found)} times, with several seeds: "
        f"other order, other sizes of the",
        "environment. Counters are simulated by callgrind. ✓ unperturbed, ✗ perturbed, ~ shifted, ? undecided, "
        "counts of pairs and metrics.",
        "",
        "**What changed on this page, and why.** Since 27 November 2026 simulated runs are cut at equal work and "
        "compared within rounds, and the tolerance is 0.1 in place of 0.25. Intervals of CPU time, cut by ticks of 4 "
        "ms, had numbered 150 to 209 and left comparisons of `front` undecided beside other work. The handling of the "
        "sampler's signals takes no work from an interval, however many a busy host brings. Since 29 November all "
        "configurations run patched builds, here one for each of three families, so `anchor` executes the no-ops of "
        "`output`'s metrics. "
        "The campaigns were recorded at commit e97ab3f5, and judged at the commit named below.",
        "",
        f"**{_agreement(found)}**",
        "",
        "| campaigns | seeds | busy processes beside them | load average of the host, medians of the campaigns | "
        f"intervals a baseline run | {' | '.join(names)} | exit code |",
        f"|---|---|---|---|---|{'---|' * len(names)}---|",
        *rows,
        "",
        "Instructions that each configuration adds, and the verdict on totals:",
        "",
        "| configuration | instructions | totals |",
        "|---|---|---|",
        *(_totals_row(name, [result["totals"][name] for result in found]) for name in names),
        "",
        "Changes that were called perturbed, in how many of the campaigns, and by how much ρ changed:",
        "",
        *(
            f"- {name}: {len(effects)}, {min(effects):+.3f} to {max(effects):+.3f}"
            for name, effects in sorted(changes.items(), key=lambda item: (-len(item[1]), names.index(_of(item[0]))))
        ),
        "",
        made,
        "",
    ]
    return "\n".join(lines)


def _of(change: str) -> str:
    return change.partition(":")[0]


def _totals_row(name: str, changes: list[list[dict[str, Any]]]) -> str:
    """Return a row: the range of the instructions added, and how often totals got each verdict."""
    instructions = [100 * change["change"] for of_run in changes for change in of_run if change["metric"] == _WORK]
    verdicts = Counter(_totals_verdict(of_run) for of_run in changes)
    said = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    return f"| {name} | {min(instructions):+.3f} % to {max(instructions):+.3f} % | {said} |"


def _totals_verdict(changes: list[dict[str, Any]]) -> str:
    """Return the most serious verdict, as `run` prints it, and whose it is if times alone have it.

    Times count only if they are decided.
    """
    given: dict[str, list[str]] = {}
    for change in changes:
        if change["metric"] not in _TIMES or change["verdict"] != "undecided":
            given.setdefault(change["verdict"], []).append(change["metric"])
    worst = next(verdict for verdict in ("perturbed", "shifted", "undecided", "unperturbed") if verdict in given)
    return f"{worst} ({', '.join(given[worst])})" if set(given[worst]) <= set(_TIMES) else worst


def _agreement(found: list[dict[str, Any]]) -> str:
    """How many campaigns gave the verdicts that most gave."""
    given = Counter(tuple((each["configuration"], _cell(each)) for each in result["verdicts"]) for result in found)
    verdicts, count = given.most_common(1)[0]
    said = ", ".join(f"{configuration} {cell}" for configuration, cell in verdicts)
    return f"The same verdicts and counts in {count} of {len(found)} campaigns: {said}."


def _seeds(results: list[dict[str, Any]]) -> str:
    """Return the seeds of campaigns: their range where none between is missing."""
    seeds = [result["seed"] for result in results]
    whole = len(seeds) > 1 and seeds == list(range(seeds[0], seeds[-1] + 1))
    return f"{seeds[0]} to {seeds[-1]}" if whole else ", ".join(map(str, seeds))


def _load(results: list[dict[str, Any]]) -> str:
    """Return the medians and the most of the load averages before the runs, whatever else caused them."""
    loads = [[row["load_before"] for row in each["runs"] if row["load_before"] is not None] for each in results]
    medians = [statistics.median(each) for each in loads]
    return f"{min(medians):.1f} to {max(medians):.1f}, at most {max(map(max, loads)):.1f}"


def _intervals(result: dict[str, Any]) -> str:
    baseline = (row for row in result["runs"] if row["configuration"] == "baseline")
    counts = [row["intervals"] for row in baseline if row["intervals"] is not None]  # an interrupted attempt has none
    return f"{min(counts)}–{max(counts)}, median {statistics.median(counts):g}"


def _cell(verdict: dict[str, Any]) -> str:
    counts = Counter(change["verdict"] for change in verdict["changes"])
    signs = {"unperturbed": "✓", "perturbed": "✗", "shifted": "~", "undecided": "?"}
    return (
        f"{verdict['verdict']} ({', '.join(f'{counts[name]} {sign}' for name, sign in signs.items() if counts[name])})"
    )


if __name__ == "__main__":
    main()
