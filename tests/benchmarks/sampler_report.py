"""What the benchmarks of samplers and instrumentation have in common.

Their arguments, their tables, and the pages that the tables are put into.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # the experiments are not installed

from experiments.common.provenance import made_by

__all__ = ["Section", "Table", "deliver", "host_state", "parse_arguments"]

_EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence"


@dataclass(frozen=True)
class _Page:
    """A page of the evidence: its file, what stands on top, and the benchmarks whose sections it holds, in order."""

    file: Path
    head: str
    scripts: tuple[str, ...]


_PAGES = (
    _Page(
        _EVIDENCE / "samplers.md",
        """# What the samplers cost, and how evenly they sample

Both samplers of `collectors/runtime`, beside `perf stat -I`. Each section is written by the command below it;
`make bench` prints the same tables.
""",
        ("sampler_instructions", "sampler_overhead", "sampler_intervals", "simulation_slowdown", "sampler_children"),
    ),
    _Page(
        _EVIDENCE / "instrumentation.md",
        """# What instrumentation costs

Software metrics, beside peers that count the same events. Each section is written by the command below it;
`make bench` prints the same tables.
""",
        (
            "instrument_instructions",
            "instrument_builds",
            "instrument_patching",
            "instrument_interval_ends",
            "instrument_probes",
            "instrument_preload",
            "instrument_python",
        ),
    ),
    _Page(
        _EVIDENCE / "kernels.md",
        """# How fast alignment is

The kernels of `analysis/alignment`, beside other libraries. The section is written by the command below it;
`make bench` prints the same tables.
""",
        ("alignment_kernels",),
    ),
    _Page(
        _EVIDENCE / "event_distances.md",
        """# How fast event traces are compared

The distances of `analysis/diagnosis`, beside other libraries. Each section is written by the command below it;
`make bench` prints the same tables.
""",
        ("event_distances", "event_sizes"),
    ),
    _Page(
        _EVIDENCE / "causal_learning.md",
        """# How well causes are found, and how fast

`analysis/causal` on synthetic campaigns whose causes are known, beside other libraries. The section is written by the
command below it; `make bench`
prints the same tables. What real programs show is in [the paper's experiments](causal.md).

**What changed on this page, and why.** On 27 November 2026 it was measured again with the other libraries, which had
not been installed before, and by a command that needs no folder of its own. The search had changed in between, and so
had the load of the host: the page cannot tell which of them made it faster (before, 3.93 s with 7 variables). Precision
and recall changed by 0.014 at most.
""",
        ("causal_learning",),
    ),
    _Page(
        _EVIDENCE / "structure_speed.md",
        """# How fast words are found

`analysis/structure` on sequences whose words are known. The command below writes the section; `make bench` prints the
same tables. [Phases held against milestones](structure.md) shows how often the result is right.
""",
        ("structure",),
    ),
)


@dataclass(frozen=True)
class Table:
    """A table of the report; the first column holds names, the others numbers with their units in the heading."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Section:
    """One benchmark's part of the report.

    Attributes
    ----------
    script : the benchmark's name, without the ending.
    title : heading.
    method : how it was measured.
    tables : what was found.
    verdicts : what it means, one sentence each.
    data : everything, for JSON.
    """

    script: str
    title: str
    method: str
    tables: Sequence[Table]
    verdicts: Sequence[str]
    data: dict[str, Any]


def parse_arguments(description: str, **own: tuple[int, str]) -> argparse.Namespace:
    """Parse what every benchmark takes, and numbers of its own: name → (value when not given, help)."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a short run, to see that everything works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured")
    parser.add_argument("--markdown", action="store_true", help="put the tables into a page of docs/evidence")
    for name, (value, text) in own.items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"{text} ({value})")
    return parser.parse_args()


def host_state() -> dict[str, Any]:
    """Return what a reader must know of the host and of the moment."""
    return {
        "made": made_by(),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "cpus": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
    }


def deliver(section: Section, arguments: argparse.Namespace, before: dict[str, Any]) -> None:
    """Print the section, and write it where the arguments say.

    Parameters
    ----------
    before : `host_state()` from before the measurement.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table as Printed

    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(f"\n{section.title}", style="bold")
    console.print(escape(section.method), style="dim", highlight=False)
    for table in section.tables:
        printed = Printed(title=table.title, title_justify="left")
        for number, column in enumerate(table.columns):
            printed.add_column(column, justify="right" if number else "left")
        for row in table.rows:
            printed.add_row(*map(escape, row))
        console.print(printed)
    for verdict in section.verdicts:
        console.print(escape(verdict), highlight=False)
    if arguments.json:
        arguments.json.write_text(json.dumps({"host": before, **section.data}, indent=1) + "\n")
    if arguments.markdown:
        page = next(page for page in _PAGES if section.script in page.scripts)
        text = page.file.read_text() if page.file.exists() else ""
        page.file.write_text(_with_section(page, text, section, before["made"]))


def _with_section(page: _Page, text: str, section: Section, made: str) -> str:
    """Return the page with this section in its place and the others as they were."""
    parts = dict(re.findall(r"<!-- (\w+) -->\n(.*?)(?=<!-- \w+ -->|\Z)", text, re.DOTALL))
    parts[section.script] = _markdown(section, made)
    return page.head + "".join(f"\n<!-- {name} -->\n{parts[name].strip()}\n" for name in page.scripts if name in parts)


def _markdown(section: Section, made: str) -> str:
    lines = [f"## {section.title}", "", section.method, ""]
    for table in section.tables:
        lines += [f"**{table.title}**", "", "| " + " | ".join(table.columns) + " |"]
        lines += ["|---" + "|---:" * (len(table.columns) - 1) + "|"]
        lines += ["| " + " | ".join(row) + " |" for row in table.rows]
        lines += [""]
    lines += [f"- {verdict}" for verdict in section.verdicts]
    return "\n".join([*lines, "", made])
