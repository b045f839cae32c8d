"""Threads one by one: what a counter of each thread costs, and whether threads of a pool are matched by their work.

    python docs/evidence/threads.py

Builds pbzip2 with bzip2's library from Debian's sources, and runs two campaigns of 13 simulated runs, 10 minutes of
processor time in all. Writes `threads.md` beside this file.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

sys.path.insert(0, str(Path(__file__).parents[2]))

from experiments.common.provenance import made_by
from unperturbed.analysis.alignment.threads import ThreadAlignment, align_threads
from unperturbed.collectors.data import Trace
from unperturbed.common.user_cache import user_cache
from unperturbed.harness.program.sources import debian_source

HERE = Path(__file__).parent
PAGE = """\
# Threads one by one: costs, and threads of a pool

How threads are counted one by one: [Threads one by one](../explanation/collection.md#threads-one-by-one).

## Cost of an event

Increments at one place by threads that do nothing else, the least of 5 runs, without the loop around them. `each` is
what `measure: {{threads: each}}` compiles in. *Lost*: of the events, in that run. A plain increment is lost where two
threads make one at the same moment; none was lost here. Why `each` takes less than *plain* with one thread, too, was
not examined.

| counter | threads | ns an event | lost |
|---|---:|---:|---:|
{costs}

## Which thread of the one run did the work of which of the other?

pbzip2 compresses the blocks of a file by threads that take them from a queue. Its blocks are of five kinds: text, lines
of numbers, noise, a picture, zeros. A software metric adds two to the power of the block's number where a thread
compresses a block, so that each run tells which thread took which blocks. For all pairs of {runs} runs, threads are
paired in the order of their creation (`role`), and by the work that they took (`work`), for which only simulated
hardware counts are used.

- *same thread*: of the blocks, the share that paired threads both compressed. *best* is the most that any pairing could
  give.
- *events*: of the events of bzip2's library, the share that paired threads both had.
- *aligned*: the share that the warp paths of the pairs align within one interval.

| threads and blocks | pairing | same thread | {heads} |
|---|---|---:|{rule}
{pool}

{made}
"""
KINDS = 5
RUNS = 8
CASES = ((4, 4), (3, 5))
SOFTWARE: Mapping[str, Mapping[str, Any]] = {
    "taken": {"call": "BZ2_bzBuffToBuffCompress", "in": "consumer", "add": "1ul << fileData->blockNumber"},
    "rows": {"loop": "mainSort#13"},
    "coded": {"loop": "generateMTFValues"},
    "sorted": {"enter": "mainSimpleSort"},
}
EVENTS = ("rows", "coded", "sorted")
BLOCK_BYTES = 100_000


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--folder", type=Path, help="where campaigns are kept (a temporary one)")
    arguments, made = parser.parse_args(), made_by()
    costs = "\n".join(cost_rows())
    with tempfile.TemporaryDirectory() as name:
        folder = (arguments.folder or Path(name)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        fetch_sources(folder / "src")
        pool = "\n".join(row for case in CASES for row in pool_rows(folder, *case))
    heads = " | ".join(f"{name}: events | aligned" for name in EVENTS)
    rule = "---:|" * (2 * len(EVENTS))
    (HERE / "threads.md").write_text(PAGE.format(costs=costs, pool=pool, heads=heads, rule=rule, runs=RUNS, made=made))


def cost_rows() -> Iterator[str]:
    """Yield the rows of the table of costs, from the script beside the tests of the compiler."""
    script = HERE.parents[1] / "tests" / "instrument" / "compiler" / "measure_threads.py"
    shown = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True).stdout
    for line in shown.splitlines():
        threads, _, rest = line.partition(" thread(s), ")
        kind, _, figures = rest.partition(": ")
        each, _, lost = figures.partition(" ns an event of each thread")
        yield f"| {kind} | {threads} | {each} | {lost.removeprefix(', ').removesuffix(' lost') or '–'} |"


def fetch_sources(folder: Path) -> None:
    """Copy Debian's sources of both programs into one folder."""
    for package in ("bzip2", "pbzip2"):
        if not (folder / package).is_dir():
            shutil.copytree(debian_source(package, user_cache()), folder / package, symlinks=True)


def pool_rows(folder: Path, threads: int, blocks: int) -> Iterator[str]:
    """Run pbzip2 with some threads on some blocks; yield a row for each way of pairing its threads."""
    name = f"pool{threads}"
    (folder / f"{name}.input").write_bytes(content(blocks))
    (folder / f"{name}.yaml").write_text(json.dumps(spec(folder, name, threads)))
    command = [sys.executable, "-m", "unperturbed.harness.cli", "run", f"{name}.yaml", "--no-check"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    runs = [
        [Trace.read(file) for file in sorted((run / "threads").iterdir())]
        for run in sorted((folder / "campaigns" / name / "runs").glob("0*"))
        if run.name != "0000" and Trace.read(run).attributes["configuration"] == "work"
    ]
    assert len(runs) == RUNS
    for by in ("role", "work"):
        found = [align_threads(a, b, by=by) for a, b in combinations(runs, 2)]  # type: ignore[arg-type]
        same = np.mean([shared_blocks(one, blocks) for one in found])
        figures = [f"{np.mean([scores[name] for scores in each]):.1%}" for name in EVENTS
                   for each in ([one.shared for one in found], [one.near for one in found])]  # fmt: skip
        yield f"| {threads} threads, {blocks} blocks | `{by}` | {same:.1%} | {' | '.join(figures)} |"
    best = np.mean([most_shared(a, b, blocks) for a, b in combinations(runs, 2)])
    yield f"| {threads} threads, {blocks} blocks | *best* | {best:.1%} |{' – |' * (2 * len(EVENTS))}"


def content(blocks: int) -> bytes:
    """Return the bytes to compress."""
    state = random.Random(1)
    words = ("the", "of", "and", "to", "in", "is", "that", "for", "it", "was", "on", "are", "as", "with", "his", "they")
    made = (
        lambda: " ".join(state.choices(words, k=BLOCK_BYTES // 3)).encode(),
        lambda: "\n".join(f"{number},{number * number % 9973}" for number in range(BLOCK_BYTES // 5)).encode(),
        lambda: state.randbytes(BLOCK_BYTES),
        lambda: bytes((x * y >> 6) & 255 for y in range(300) for x in range(BLOCK_BYTES // 300 + 1)),
        lambda: b"\0" * BLOCK_BYTES,
    )
    texts = [made[number % KINDS]() for number in range(blocks)]
    return b"".join((text * (BLOCK_BYTES // len(text) + 1))[:BLOCK_BYTES] for text in texts)


def spec(folder: Path, name: str, threads: int) -> dict[str, Any]:
    """Return the spec of a campaign."""
    build = (
        "make -C bzip2 CC={cc} CFLAGS=-O2 libbz2.a && {cxx} -O2 -w -pthread -DUSE_STACKSIZE_CUSTOMIZATION -Ibzip2 "
        "pbzip2/pbzip2.cpp pbzip2/BZ2StreamScanner.cpp pbzip2/ErrorContext.cpp bzip2/libbz2.a -o pool"
    )
    return {
        "name": name,
        "program": {
            "source": "src",
            "build": build,
            "shell": True,
            "run": f'exec "{{build}}/pool" -1 -b1 -p{threads} -c "{folder}/{name}.input"',
            "timeout": "2 min",
        },
        "measure": {
            "threads": "each",
            "source": "simulated",
            "interval": {"records": 300},
            "hardware": ["PAPI_TOT_INS", "PAPI_L1_DCM", "PAPI_BR_MSP"],
            "software": SOFTWARE,
        },
        "campaign": {"baseline_runs": 5, "runs": RUNS, "subsets": {"work": list(SOFTWARE)}, "seed": 1},
    }


def blocks_of(trace: Trace) -> frozenset[int]:
    """Return the numbers of the blocks that a thread compressed."""
    taken = int(trace["taken"].sum())
    return frozenset(number for number in range(taken.bit_length()) if taken >> number & 1)


def shared_blocks(found: ThreadAlignment, blocks: int) -> float:
    """Return the share of blocks that paired threads both compressed."""
    a, b = found.traces
    return sum(len(blocks_of(a[pair.first]) & blocks_of(b[pair.second])) for pair in found.pairs) / blocks


def most_shared(a: Sequence[Trace], b: Sequence[Trace], blocks: int) -> float:
    """Return the largest share of blocks that any pairing gives to the same thread."""
    table = [[len(blocks_of(one) & blocks_of(other)) for other in b] for one in a]
    rows, columns = linear_sum_assignment(table, maximize=True)
    return sum(table[row][column] for row, column in zip(rows, columns, strict=True)) / blocks


if __name__ == "__main__":
    main()
