"""Options that several commands on campaigns have in common."""

from __future__ import annotations

import argparse


def add_fail_on(parser: argparse.ArgumentParser) -> None:
    """Add `--fail-on`, the mildest verdict for which a command exits with 4."""
    parser.add_argument(
        "--fail-on",
        choices=("perturbed", "shifted", "undecided"),
        help="exit with 4 for this verdict and more serious ones (analysis.fail_on of the spec, else perturbed)",
    )
