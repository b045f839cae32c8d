"""`unperturbed cc`."""

from __future__ import annotations

import argparse
from pathlib import Path

from unperturbed.errors import SpecError


class Command:
    """Compile with software counters, in any build system: `unperturbed cc --metrics FILE -- gcc -O2 -c x.c`."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the metrics file and the compiler's command line."""
        parser.add_argument(
            "--metrics", type=Path, required=True, metavar="FILE", help="YAML with the `software:` mapping of a spec"
        )
        parser.add_argument(
            "--sham",
            action="store_true",
            help="put a no-op of the same length in the place of every increment: the layout without the counting",
        )
        parser.add_argument("compiler", nargs=argparse.REMAINDER, metavar="-- CC ARGS…", help="the compiler and its arguments")

    def run(self, arguments: argparse.Namespace) -> int:
        """Run the compiler; return its exit code."""
        from unperturbed.collectors.runtime_build import BOUNDS, SOURCES
        from unperturbed.instrument.toolchain import run_compiler

        command = arguments.compiler[1:] if arguments.compiler[:1] == ["--"] else arguments.compiler
        if not command:
            raise SpecError(
                "unperturbed cc: no compiler given; for example: unperturbed cc --metrics metrics.yaml -- gcc -O2 -c x.c"
            )
        return run_compiler(arguments.metrics, command, runtime=SOURCES, bounds=BOUNDS, sham=arguments.sham)
