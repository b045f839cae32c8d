"""The command line: one class a command, and the one place that turns errors into exit codes."""

from unperturbed.harness.cli.dispatch import main

__all__ = ["main"]
