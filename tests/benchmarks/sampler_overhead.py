"""What sampling costs the program in time: both samplers beside `perf stat -I`, at 10 ms and 1 ms.

    python tests/benchmarks/sampler_overhead.py [--blocks 60] [--seed 1] [--quick] [--json FILE] [--markdown]

In each block every variant runs once, in random order, and the program alone twice.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

import numpy as np
from counting_cost import median_interval
from numpy.typing import NDArray
from sampler_program import METRICS, THREE_EVENTS, build_program
from sampler_report import Section, Table, deliver, host_state, parse_arguments
from sampler_runs import Sampler, calibrate, measure, processors, require_tools, wait_until_quiet

SECONDS = 0.3
"""Short, so that the runs of a block lie close together: the speed of a shared machine drifts."""
_INTERVALS_MS = (10, 1)
_PATIENCE = 20.0
_MARGIN = 0.01
"""Fixed beforehand: a margin from the noise of the host would show most where the noise is largest."""

Variant = tuple[Sampler, int]
"""A sampler and its interval in ms; for `none` the number of the run."""
_SAMPLERS: tuple[Sampler, ...] = ("inside", "outside", "perf")
_NONE: Variant = ("none", 0)
_AGAIN: Variant = ("none", 1)


def _name(variant: Variant) -> str:
    sampler, interval_ms = variant
    if sampler == "none":
        return "none again"
    return f"{'perf stat -I' if sampler == 'perf' else sampler}, {interval_ms} ms"


def _variants() -> list[Variant]:
    return [_NONE, _AGAIN, *((sampler, interval_ms) for interval_ms in _INTERVALS_MS for sampler in _SAMPLERS)]


def _percent(found: tuple[float, float, float]) -> str:
    middle, low, high = (100 * value for value in found)
    return f"{middle:+.2f} % [{low:+.2f}, {high:+.2f}]"


def _blocks(program: Path, turns: int, blocks: int, seed: int) -> tuple[dict[Variant, NDArray[np.int64]], int]:
    """Return own time, own CPU time and whole duration of each variant [ns], shape (blocks, 3).

    And how many runs did not begin in quiet.
    """
    chance = random.Random(seed)
    took: dict[Variant, list[tuple[int, int, int]]] = {variant: [] for variant in _variants()}
    disturbed = 0
    with tempfile.TemporaryDirectory() as name:
        for block in range(blocks):
            order = _variants()
            chance.shuffle(order)
            for variant in order:
                disturbed += not wait_until_quiet(_PATIENCE)
                run = measure(program, turns, variant[0], variant[1] * 1_000_000, Path(name))
                took[variant].append((run.own_ns, run.cpu_ns, run.wall_ns))
            print(f"\rblock {block + 1} of {blocks}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return {variant: np.array(times) for variant, times in took.items()}, disturbed


def main() -> None:
    """Measure and report."""
    description = __doc__.splitlines()[0] if __doc__ else ""
    arguments = parse_arguments(description, blocks=(60, "blocks"), seed=(1, "of the order and the bootstrap"))
    require_tools()
    before = host_state()
    blocks = 5 if arguments.quick else arguments.blocks
    with tempfile.TemporaryDirectory() as name:
        program = build_program(Path(name))
        turns = calibrate(program, SECONDS)
        took, disturbed = _blocks(program, turns, blocks, arguments.seed)
    deliver(_section(took, turns, arguments.seed, disturbed), arguments, before)


def _section(took: dict[Variant, NDArray[np.int64]], turns: int, seed: int, disturbed: int) -> Section:
    blocks = len(took[_NONE])
    alone = took[_NONE].astype(np.float64)
    share = {variant: times / alone for variant, times in took.items()}
    rows, data = [], []
    for variant in _variants()[1:]:
        own, cpu, whole = (median_interval(share[variant][:, column] - 1, seed) for column in range(3))
        quartiles = np.percentile(100 * (share[variant][:, 0] - 1), [25, 75])
        rows.append(
            [
                _name(variant),
                _percent(own),
                f"{quartiles[0]:+.2f} … {quartiles[1]:+.2f}",
                _percent(cpu),
                _percent(whole),
            ]
        )
        data.append(
            {"variant": _name(variant), "own": own, "cpu": cpu, "whole": whole, "times_ns": took[variant].tolist()}
        )
    verdicts = []
    for interval_ms in _INTERVALS_MS:
        judged = []
        for column, words in enumerate(("own time", "own CPU time", "whole command")):
            difference = share["outside", interval_ms][:, column] - share["perf", interval_ms][:, column]
            found = median_interval(difference, seed)
            judged.append(f"{words} {_percent(found)}: {_judge(found)}")
            data.append({"variant": f"outside less perf, {interval_ms} ms, {words}", "difference": found})
        verdicts.append(f"The observer less perf at {interval_ms} ms, in pairs: {'; '.join(judged)}.")
    mine, others = processors()
    return Section(
        script="sampler_overhead",
        title="Time that sampling takes",
        method=(
            f"One program of {np.median(alone[:, 0]) / 1e9:.2f} s ({turns} turns, one thread), {blocks} blocks; in "
            "each every variant once in random "
            "order, and the program alone twice. Shares are of the block's own run alone; medians with 95 % "
            "bootstrap intervals over blocks. Every "
            f"sampler reads {', '.join(event.name.removeprefix('perf::') for event in THREE_EVENTS)} as one group, "
            f"ours also {METRICS} software "
            f"counters. The program runs on CPU {mine} in every variant; the observer, and perf's own process, on "
            f"CPU {others}. Own time is what the "
            "program's clock tells of its work; the whole command includes starting the sampler. Each run waits "
            "until the machine is idle but for a "
            f"tenth; {disturbed} of {len(_variants()) * blocks} runs began without."
        ),
        tables=[
            Table(
                f"Time above the program alone: median of {blocks} pairs [95 %]",
                ["variant", "own time", "quartiles of pairs", "own CPU time", "whole command"],
                rows,
            )
        ],
        verdicts=verdicts,
        data={
            "turns": turns,
            "blocks": blocks,
            "disturbed": disturbed,
            "alone_ns": took[_NONE].tolist(),
            "variants": data,
        },
    )


def _judge(found: tuple[float, float, float]) -> str:
    """Tell what a difference means, given its interval."""
    _, low, high = found
    if high <= 0:
        return "the observer costs less"
    if low > 0:
        return "the observer costs more"
    return f"at most {100 * _MARGIN:g} % more" if high <= _MARGIN else f"undecided, by a margin of {100 * _MARGIN:g} %"


if __name__ == "__main__":
    main()
