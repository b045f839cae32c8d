"""Print the JSON Schema of the spec."""

from __future__ import annotations

import argparse
import json


class Command:
    """Print the JSON Schema of the spec, for editors that complete and check YAML."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add no arguments."""

    def run(self, _arguments: argparse.Namespace) -> int:
        """Print the schema."""
        from unperturbed.harness.spec import json_schema

        print(json.dumps(json_schema(), indent=2, ensure_ascii=False))
        return 0
