"""Write a trace, a campaign's runs or a sweep's table in a format of other tools."""

from __future__ import annotations

import argparse
from pathlib import Path


class Command:
    """`unperturbed export TRACE|CAMPAIGN -o FILE [--format NAME]`."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add what to export and where to."""
        parser.add_argument(
            "source",
            type=Path,
            metavar="TRACE|CAMPAIGN",
            help="a trace file, a run's folder, or the folder of a campaign or sweep",
        )
        parser.add_argument("-o", "--out", type=Path, required=True, metavar="FILE", help="the file to write")
        parser.add_argument(
            "--format", metavar="NAME", help="csv, parquet, or one that is installed (by FILE's suffix)"
        )

    def run(self, arguments: argparse.Namespace) -> int:
        """Read, write, print the file's path; return 0."""
        from unperturbed.collectors.data import TABLE, Trace
        from unperturbed.harness.exports import Kind, choose_format, export
        from unperturbed.harness.library import Campaign, read_trace
        from unperturbed.harness.studies import SweepTable, read_table

        source, out = arguments.source.absolute(), arguments.out.absolute()
        content: Trace | SweepTable | Campaign
        kind: Kind
        if source.is_file() or (source / "trace.parquet").is_file():
            kind, content = "trace", read_trace(source)
        elif (source / TABLE).is_file():
            kind, content = "table", read_table(source)
        else:
            kind, content = "campaign", Campaign(source)
        choose_format(kind, out, arguments.format)  # a wrong name is refused before all runs are read
        export(content, kind, out, name=arguments.format)
        print(out)
        return 0
