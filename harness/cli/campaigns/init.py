"""Write a commented spec to start from: for a command, a folder of source code, or an example program."""

from __future__ import annotations

import argparse
from pathlib import Path

from unperturbed.errors import SpecError
from unperturbed.harness.cli.paths import require_writable_path


class Command:
    """`unperturbed init -- CMD | SOURCE-FOLDER | --example NAME`."""

    takes_program = True

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments: what to write a spec for, and options."""
        parser.usage = "unperturbed init [options] (SOURCE-FOLDER | --example NAME | -- ./program its arguments)"
        add = parser.add_argument
        add("source", type=Path, nargs="?", metavar="SOURCE-FOLDER", help="folder with C or C++ source to build")
        add(
            "--example",
            metavar="NAME",
            help="write an example spec and its program; NAME is verdicts, sweep or python (`--example list` describes "
            "them)",
        )
        add(
            "--name",
            default="",
            metavar="NAME",
            help="name of the campaign (default: the name of the program or folder)",
        )
        add(
            "-o",
            "--out",
            type=Path,
            metavar="PATH",
            help="file to write (default: NAME.yaml in the current folder); with --example, the folder to write the "
            "example into (default: the current folder)",
        )

    def run(self, arguments: argparse.Namespace) -> int:
        """Write the spec and print its path; return 0."""
        forms = [arguments.source is not None, arguments.example is not None, bool(arguments.program)]
        if sum(forms) != 1:
            raise SpecError(
                "give exactly one of these: a folder of source code, --example NAME, or a command after -- "
                "(unperturbed init -- ./program its arguments)"
            )
        if arguments.example is not None:
            return _example(arguments.example, arguments.out or Path())
        spec = _of_command(arguments) if arguments.program else _of_source(arguments)
        print(f"{spec}   (edit it, then: unperturbed run {spec})")
        return 0


def _example(name: str, folder: Path) -> int:
    from unperturbed.harness.drafts.starters import EXAMPLES, write_example

    if name == "list":
        for known, example in EXAMPLES.items():
            print(f"{known:10} {example.help}")
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    spec = write_example(name, folder)
    print(f"{spec}   (unperturbed run {spec})")
    return 0


def _of_command(arguments: argparse.Namespace) -> Path:
    from unperturbed.harness.drafts.command import Choices, describe_command

    drafted = describe_command(arguments.program, Choices(name=arguments.name))
    spec: Path = arguments.out or Path(f"{drafted.name}.yaml")
    typed = " ".join(arguments.program)
    several = "All calls that the program may make are listed below: keep a few, under `software` and in `subsets`.\n"
    head = (
        f"A spec for `{typed}`, written without running it.\n"
        f"`unperturbed run -- {typed}` first runs the program unmeasured:\n"
        "its spec keeps at most three calls that the program makes, and knows the exit code and whether the output "
        f"repeats.\n{several if len(drafted.calls) > 1 else ''}Edit it, then type\n\n    "
        f"unperturbed run {spec}\n\n`unperturbed schema` prints a JSON Schema for editors; docs/reference/spec.md "
        "describes every key."
    )
    return _write(spec, drafted.text(head))


def _of_source(arguments: argparse.Namespace) -> Path:
    from unperturbed.harness.drafts.saving import campaign_name
    from unperturbed.harness.drafts.starters import describe_source

    name = campaign_name(arguments.name or arguments.source.resolve().name)
    spec: Path = arguments.out or Path(f"{name}.yaml")
    return _write(spec, describe_source(arguments.source, spec, name))


def _write(spec: Path, text: str) -> Path:
    require_writable_path(spec)
    try:
        with spec.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise SpecError(f"{spec} already exists: remove it, or give a different path with --out") from None
    return spec
