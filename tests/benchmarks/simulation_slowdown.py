"""How many times as long real programs take under the simulator as alone.

python tests/benchmarks/simulation_slowdown.py [--runs 5] [--quick] [--json FILE] [--markdown]
"""

from __future__ import annotations

import gzip
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from sampler_report import Section, Table, deliver, host_state, parse_arguments

from unperturbed.collectors.sources.callgrind import Machine, valgrind_command

ROOT = Path(__file__).parents[2]

QUERIES = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 240000)
SELECT count(*), sum(i % 7), group_concat(DISTINCT i % 11) FROM n;
CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120000)
INSERT INTO t SELECT i, 'name ' || (i * 7919 % 120011), i * 0.5 FROM n;
CREATE INDEX b ON t(b);
SELECT sum(x.c) FROM t x JOIN t y ON x.b = y.b WHERE x.a % 3 = 0;
"""
LOOP = """#include <stdio.h>
int main(void)
{
    volatile unsigned long sum = 0;
    for (unsigned long i = 0; i < 240000000; i++)
        sum += i ^ (i >> 3);
    printf("%lu\\n", sum);
    return 0;
}
"""


def _programs(folder: Path) -> dict[str, tuple[Sequence[str], bytes]]:
    """Return a command and its standard input for each program."""
    text = b"".join(path.read_bytes() for path in sorted((ROOT / "analysis").rglob("*.py")))[:2_000_000]
    (folder / "text").write_bytes(text)
    (folder / "lines").write_bytes(text * 8)
    (folder / "text.gz").write_bytes(gzip.compress(text * 12, mtime=0))
    (folder / "loop.c").write_text(LOOP)
    subprocess.run(["gcc", "-O1", "-o", "loop", "loop.c"], cwd=folder, check=True)
    source = ROOT / "experiments/quickstart/blocksort"
    subprocess.run(["make", "-s", "-C", str(shutil.copytree(source, folder / "blocksort"))], check=True)
    interpreted = "sum(len(str(i)) * (i % 7) for i in range(1_600_000))"
    commands: dict[str, tuple[Sequence[str], bytes]] = {
        "blocksort -c (the quickstart)": (["blocksort/blocksort", "-c", "-b", "136", "text"], b""),
        "a loop of integers": (["./loop"], b""),
        "gzip -9": (["gzip", "-9", "-c", "text"], b""),
        "gunzip": (["gzip", "-d", "-c", "text.gz"], b""),
        "bzip2 -9": (["bzip2", "-9", "-c", "text"], b""),
        "sort": (["sort", "lines"], b""),
        "sqlite3": (["sqlite3", ":memory:"], QUERIES.encode()),
        "perl": (["perl", "-e", "$n += length($_ * 7) for 1 .. 4_500_000; print $n"], b""),
        "python3": ([str(Path(sys.executable).resolve()), "-I", "-S", "-c", interpreted], b""),
    }
    return {name: ways for name, ways in commands.items() if (folder / ways[0][0]).exists() or shutil.which(ways[0][0])}


def _seconds(command: Sequence[str], data: bytes, folder: Path) -> float:
    """Return the CPU time of a run, that of its processes included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, input=data, cwd=folder, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure, and report."""
    arguments = parse_arguments(__doc__.splitlines()[0] if __doc__ else "", runs=(5, "runs of each program alone"))
    before = host_state()
    rows, ratios = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        simulator = valgrind_command(Machine(), folder / "dumps")
        for program, (command, data) in _programs(folder).items():
            alone = statistics.median(
                _seconds(command, data, folder) for _ in range(1 if arguments.quick else arguments.runs)
            )
            simulated = _seconds([*simulator, *command], data, folder)
            ratios.append(simulated / alone)
            rows.append([program, f"{alone:.3f}", f"{simulated:.1f}", f"{ratios[-1]:.0f}"])
            print(*rows[-1], file=sys.stderr)
    section = Section(
        script="simulation_slowdown",
        title="How long simulated runs take",
        method=(
            "CPU time of a program alone (median of several runs) and of one run under callgrind with the options of a "
            "campaign: caches and branches are simulated, all code is. The sampler is not loaded; it adds little."
        ),
        tables=[Table("CPU time, in seconds", ["program", "alone", "simulated", "times as long"], rows)],
        verdicts=[f"Between {min(ratios):.0f} and {max(ratios):.0f} times as long; pages and messages say 40 to 300."],
        data={"rows": rows},
    )
    deliver(section, arguments, before)


if __name__ == "__main__":
    main()
