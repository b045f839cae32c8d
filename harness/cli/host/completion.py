"""Print the script that completes commands and options in a shell."""

from __future__ import annotations

import argparse

_EPILOG = """\
  bash    unperturbed completion bash > ~/.local/share/bash-completion/completions/unperturbed
  zsh     unperturbed completion zsh > ~/.zfunc/_unperturbed      (with  fpath+=~/.zfunc  before compinit in ~/.zshrc)
  fish    unperturbed completion fish > ~/.config/fish/completions/unperturbed.fish

Or for one session of bash: source <(unperturbed completion bash). The script is self-contained: a key press starts no
Python. Write it again after an update of the tool."""

_FISH_PROGRAMS = "complete -c unperturbed -n 'contains -- -- (commandline -opc)' -F"
"""The words behind `--` are another program's: files, which the other two shells offer there by themselves."""


class Command:
    """`unperturbed completion bash|zsh|fish`."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the shell."""
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.epilog = _EPILOG
        parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="shell to complete in")

    def run(self, arguments: argparse.Namespace) -> int:
        """Print the script; return 0."""
        import shtab

        from unperturbed.harness.cli.parser import full_parser

        print(shtab.complete(full_parser(), shell=arguments.shell))
        if arguments.shell == "fish":
            print(_FISH_PROGRAMS)
        return 0
