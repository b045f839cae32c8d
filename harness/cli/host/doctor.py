"""Check what this host can count, what is noisy, and what to do about it."""

from __future__ import annotations

import argparse
from pathlib import Path


class Command:
    """`unperturbed doctor [SPEC]`: with a spec, also whether it can run here."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the spec."""
        parser.add_argument(
            "spec", type=Path, nargs="?", metavar="SPEC", help="an experiment's YAML file: can it run here?"
        )
        parser.add_argument("--json", action="store_true", help="print everything as JSON")

    def run(self, arguments: argparse.Namespace) -> int:
        """Examine the host; return 3 when the spec cannot run on it, 2 when its own limits forbid it, else 0."""
        import json

        from unperturbed.harness.cli.terminal.host import show, to_json
        from unperturbed.harness.host.doctor import examine
        from unperturbed.harness.spec.load import load_spec
        from unperturbed.harness.studies.readiness import check_spec

        campaign = None if arguments.spec is None else load_spec(arguments.spec)
        host = examine()
        spec = None if campaign is None else check_spec(campaign, host)
        if arguments.json:
            print(json.dumps(to_json(host, spec), indent=2, ensure_ascii=False))
        else:
            show(host, spec)
        return 0 if spec is None else spec.exit_code
