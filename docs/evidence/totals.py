"""How often verdicts on totals are wrong, and what they find: recorded times, made-up families, real programs.

    python docs/evidence/totals.py [--campaigns 4000] [--seed 1] [--runs 10] [--folder FOLDER]
    python docs/evidence/totals.py --only floor [--campaigns 4000] [--seed 1]

Writes docs/evidence/totals.md beside itself. Comparisons of real programs that the folder holds already are judged
again. The second command writes only the sections of the tables that are named.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # the experiments are not installed

from experiments.calibration import advice, looks, looks_compared, totals  # noqa: E402  after the path is set
from experiments.calibration.common import header  # noqa: E402
from experiments.common.provenance import made_by  # noqa: E402
from experiments.common.sections import sections_of, write_section  # noqa: E402

HERE = Path(__file__).parent
PAGE = (ROOT / "experiments/calibration/totals.md").read_text(encoding="utf-8")
LOOP = """#include <stdlib.h>
int main(int count, char **words)
{
    static int cells[1 << 18];
    volatile long sum = 0;
    const long steps = atol(words[count - 1]); // once: how long it takes depends on the digits
    for (long i = 0; i < steps; i++) {
        sum += cells[(i * 97) & ((1 << 18) - 1)]++;
        if (i % 3)
            sum ^= i;
    }
    return 0;
}
"""
_TABLES = ("times", "families", "floor", "advice", "beyond", "looks", "ways")
STEPS = 3_000_000
SHOWN = ("PAPI_TOT_INS", "PAPI_L1_DCM", "PAPI_L2_TCM", "PAPI_BR_MSP", "PAPI_LD_INS", "time_s", "cpu_s")


def main() -> None:
    """Make the tables and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--campaigns", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--folder", type=Path, help="where comparisons are kept (a temporary one)")
    parser.add_argument("--only", nargs="+", choices=_TABLES)
    arguments, made = parser.parse_args(), made_by()
    some = max(2, arguments.campaigns // 10)
    numbers = {
        "tried": f"{some:,}",
        "campaigns": f"{arguments.campaigns:,}",
        "planned": looks.planned_looks(),
        "runs": arguments.runs,
    }
    if arguments.only:
        for name in arguments.only:
            (section,) = (part for part in sections_of(PAGE) if f"{{{name}}}" in part)
            table = {name: "\n".join(table_of(name, arguments.campaigns, arguments.seed))}
            text = section.replace("{made}", "").rstrip().format(**table, **numbers)
            write_section(HERE / "totals.md", f"{text}\n\n{made}\n\n")
        return
    with tempfile.TemporaryDirectory() as name:
        compared = "\n".join(real_rows((arguments.folder or Path(name)).resolve(), arguments.runs))
    tables = {name: "\n".join(table_of(name, arguments.campaigns, arguments.seed)) for name in _TABLES}
    text = PAGE.format(**tables, real="\n".join([*header(["compared", *SHOWN]), compared]), made=made, **numbers)
    (HERE / "totals.md").write_text(text, encoding="utf-8")


def table_of(name: str, campaigns: int, seed: int) -> list[str]:
    """Return the rows of a table, with its header."""
    some = max(2, campaigns // 10)
    made: dict[str, Callable[[], Sequence[Iterator[str]]]] = {
        "times": lambda: (totals.times_header(), totals.times_rows(campaigns, seed)),
        "families": lambda: (totals.families_header(), totals.families_rows(campaigns, seed)),
        "floor": lambda: (totals.floor_header(), totals.floor_rows(some, seed)),
        "advice": lambda: (advice.advice_header(), advice.advice_rows(some, seed)),
        "beyond": lambda: (advice.beyond_header(), advice.beyond_rows(some, seed)),
        "looks": lambda: (looks.looks_header(), looks.looks_rows(min(1000, campaigns), seed)),
        "ways": lambda: (looks_compared.compared_header(), looks_compared.compared_rows(campaigns, seed)),
    }
    return [*chain(*made[name]())]


def real_rows(folder: Path, runs: int) -> Iterator[str]:
    """Compare each program with itself, then a loop with itself and with more work."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "loop.c").write_text(LOOP)
    subprocess.run(["gcc", "-O1", "-o", "loop", "loop.c"], cwd=folder, check=True)
    text = b"".join(path.read_bytes() for path in sorted((ROOT / "analysis").rglob("*.py")))[:400_000]
    (folder / "text").write_bytes(text)
    (folder / "lines").write_bytes(text * 4)
    (folder / "text.gz").write_bytes(gzip.compress(text * 8, mtime=0))
    pairs: dict[str, tuple[Sequence[str], Sequence[str]]] = {
        "gzip with itself": (["gzip", "-6", "-c", "text"],) * 2,
        "gunzip with itself": (["gzip", "-d", "-c", "text.gz"],) * 2,
        "sort with itself": (["sort", "lines"],) * 2,
        "a loop with itself": (["./loop", str(STEPS)],) * 2,
        "a loop with 0.5 % more steps": (["./loop", str(STEPS)], ["./loop", str(STEPS * 1005 // 1000)]),
        "a loop with 2 % more steps": (["./loop", str(STEPS)], ["./loop", str(STEPS * 102 // 100)]),
    }
    for number, (name, (one, other)) in enumerate(pairs.items()):
        changes = {change["metric"]: change for change in compare(folder, f"pair-{number}", one, other, runs)}
        yield f"| {name} | {' | '.join(_cell(changes.get(metric)) for metric in SHOWN)} |"
        print(name, file=sys.stderr)


def compare(folder: Path, name: str, one: Sequence[str], other: Sequence[str], runs: int) -> list[dict[str, Any]]:
    """Return the changes of totals between two commands, by `unperturbed compare`."""
    program = [sys.executable, "-m", "unperturbed.harness.cli"]
    words = [*program, "compare", "--json", "--runs", str(runs), "--campaign", str(folder / name)]
    done = subprocess.run([*words, "--", *one, "--", *other], cwd=folder, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise SystemExit(done.stderr)
    found: list[dict[str, Any]] = json.loads(done.stdout)["totals"]["B"]
    return found


def _cell(change: dict[str, Any] | None) -> str:
    if change is None:
        return "–"
    if change["equal"]:
        return "✓ equal"
    sign = {"unperturbed": "✓", "perturbed": "✗", "shifted": "~", "undecided": "?"}[change["verdict"]]
    low, high = (f"{100 * change[end]:+.2g}" for end in ("low", "high"))
    return f"{sign} {low} … {high} %"


if __name__ == "__main__":
    main()
