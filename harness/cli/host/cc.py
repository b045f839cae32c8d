"""Run a compiler and add software counters to the program, in any build system."""

from __future__ import annotations

import argparse
from pathlib import Path

from unperturbed.errors import SpecError

_EPILOG = """\
Use this command to try metrics before you write a spec, or to count in a program that a spec cannot build. A campaign
does not need it: the campaign builds each configuration itself, with {cc} and {cxx} in the spec's `build:`.

  cat > metrics.yaml                     software:
                                           steps: {loop: work}
  unperturbed cc --metrics metrics.yaml -- gcc -O2 -c x.c
  unperturbed cc --metrics metrics.yaml -- gcc x.o -o x       # also link with it, to add the runtime
  UNPERTURBED_TOTALS=totals.txt ./x                           # on exit, x appends lines such as: steps 1000

--sham builds the same program without the counting. Compare both programs, and the program built without `unperturbed
cc`, with any tool. Or set `campaign: {sham: true}` in a spec: the campaign then builds and runs such programs.

With --layout TEXT, the link step shuffles the objects and shifts the sections at random; TEXT is the random seed. Link
a program with several seeds to see how much the layout changes its metrics. In a spec: `campaign: {layouts: varied}`.

As CMake's launcher: -DCMAKE_C_COMPILER_LAUNCHER="unperturbed;cc;--metrics;/absolute/metrics.yaml;--"; set
CMAKE_CXX_COMPILER_LAUNCHER, CMAKE_C_LINKER_LAUNCHER and CMAKE_CXX_LINKER_LAUNCHER likewise.

Metrics of `preload:`, `python:`, `jvm:` and `probe:` work in a campaign only; a warning lists them.

exit code: the compiler's; 2 wrong metrics file or usage; 3 the compiler cannot be run. A metric without a site in the
code causes a warning on standard error.
"""


class Command:
    """Compile with software counters, in any build system: `unperturbed cc --metrics FILE -- gcc -O2 -c x.c`."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the metrics file and the compiler's command line."""
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.epilog = _EPILOG
        add = parser.add_argument
        add(
            "--metrics",
            type=Path,
            required=True,
            metavar="FILE",
            help="YAML file with the `software:` mapping of a spec",
        )
        add(
            "--sham",
            action="store_true",
            help="replace every counter increment with a no-op of the same length: the layout stays the same, but "
            "nothing is counted",
        )
        add(
            "--layout",
            default="",
            metavar="TEXT",
            help="link the same code in a different layout, with TEXT as the random seed",
        )
        add("compiler", nargs=argparse.REMAINDER, metavar="-- CC ARGS…", help="the compiler and its arguments")

    def run(self, arguments: argparse.Namespace) -> int:
        """Run the compiler; return its exit code."""
        from unperturbed.collectors.runtime import BOUNDS, runtime_files
        from unperturbed.instrument.compiler.cc import run_compiler

        command = arguments.compiler[1:] if arguments.compiler[:1] == ["--"] else arguments.compiler
        if not command:
            raise SpecError(
                "the compiler is missing: give it and its arguments after --, for example: unperturbed cc --metrics "
                "metrics.yaml -- gcc -O2 -c x.c"
            )
        return run_compiler(
            arguments.metrics,
            command,
            runtime=runtime_files(),
            bounds=BOUNDS,
            sham=arguments.sham,
            layout=arguments.layout,
        )
