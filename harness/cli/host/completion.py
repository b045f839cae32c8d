"""Print the script that completes commands and options in a shell."""

from __future__ import annotations

import argparse

_EPILOG = """\
  bash    unperturbed completion bash > ~/.local/share/bash-completion/completions/unperturbed
  zsh     unperturbed completion zsh > ~/.zfunc/_unperturbed      (with  fpath+=~/.zfunc  before compinit in ~/.zshrc)
  fish    unperturbed completion fish > ~/.config/fish/completions/unperturbed.fish

Or for one bash session: source <(unperturbed completion bash). The script is self-contained: pressing Tab does not
start Python. Write the script again after updating the tool."""

_FISH_PROGRAMS = "complete -c unperturbed -n 'contains -- -- (commandline -opc)' -F"
"""Completes files after `--`, where another program's words are; bash and zsh do so by themselves."""


class Command:
    """`unperturbed completion bash|zsh|fish`."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the `shell` argument."""
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.epilog = _EPILOG
        parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="shell to write the script for")

    def run(self, arguments: argparse.Namespace) -> int:
        """Print the script; return 0."""
        import shtab

        from unperturbed.harness.cli.parser import full_parser

        print(shtab.complete(full_parser(), shell=arguments.shell))
        if arguments.shell == "fish":
            print(_FISH_PROGRAMS)
        return 0
