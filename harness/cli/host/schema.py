"""Print the JSON Schema of a spec, of verdicts.json or of plan.json."""

from __future__ import annotations

import argparse

from unperturbed.harness.cli.streams import print_json


class Command:
    """Print a JSON Schema: of a spec, for editors that complete and check YAML, or of a result file."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the `file` argument."""
        parser.add_argument(
            "file",
            nargs="?",
            choices=("spec", "verdicts", "plan"),
            default="spec",
            help="spec (default): input of a campaign; verdicts: verdicts.json of a campaign; plan: plan.json of a "
            "partition",
        )

    def run(self, arguments: argparse.Namespace) -> int:
        """Print the schema."""
        from unperturbed.harness.results import result_schema
        from unperturbed.harness.spec.validation import json_schema

        schema = json_schema() if arguments.file == "spec" else result_schema(arguments.file)
        print_json(schema)
        return 0
