"""Evaluations of the experiment's programs: the options, a campaign for each program, and the page."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from experiments.common.evaluation import EVIDENCE, evaluation_parser, fill_page, run_campaign
from experiments.common.provenance import made_by, recorded
from experiments.perturbation.series import HERE, PROGRAMS, Program
from experiments.perturbation.variants import write_variant

NAMES = tuple(program.name for program in PROGRAMS)


def programs_parser(
    description: str | None, experiment: str, names: Sequence[str] = NAMES, others: Sequence[str] = ()
) -> argparse.ArgumentParser:
    """Return a parser with the options that all evaluations of programs have, `--campaigns` and `--programs`.

    `description`, `experiment`: As for `evaluation_parser`.
    `names`: Programs that are evaluated by default. `others`: Further ones to choose from.
    """
    parser = evaluation_parser(description, experiment)
    what = f"the programs to take ({', '.join(names)})"
    parser.add_argument("--programs", nargs="+", choices=[*names, *others], default=[*names], help=what)
    return parser


@dataclass(frozen=True)
class Evaluation:
    """An evaluation that a command line requests."""

    options: argparse.Namespace
    campaigns: Path  # Folder of the campaigns
    made: str  # Sentence that says how the page is made

    @classmethod
    def of(cls, parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> Evaluation:
        """Read a command line, before anything is measured."""
        options = parser.parse_args(arguments)
        return cls(options, options.campaigns.resolve(), made_by())

    @property
    def programs(self) -> tuple[Program, ...]:
        """Return the programs of the experiment to evaluate."""
        return tuple(program for program in PROGRAMS if program.name in self.options.programs)

    def run(
        self, change: Callable[[dict[str, Any]], None], *, layouts: bool, under: str = ""
    ) -> Iterator[tuple[Program, Path, Path]]:
        """Run each program's campaign with a changed spec, or continue it; yield program, spec and campaign.

        `change`: Changes the spec's keys in place.
        `layouts`: As for `write_variant`.
        `under`: Folder below `campaigns` for the specs and campaigns.
        """
        for program in self.programs:
            spec = write_variant(self.campaigns / under / "specs", program, layouts=layouts)
            settings = yaml.safe_load(spec.read_text())
            change(settings)
            spec.write_text(yaml.safe_dump(settings, sort_keys=False))
            campaign = self.campaigns / under / program.name
            run_campaign(spec, campaign)
            yield program, spec, campaign
            print(f"{program.name}: evaluated", file=sys.stderr)

    def fill(
        self, template: str, campaigns: Iterable[Path] = (), under: str = "", **parts: str | float | Iterable[str]
    ) -> str:
        """Return a page or a section of one: a template of this folder with the parts, and with what all pages say.

        `campaigns`: Folders of the campaigns behind the page; by default, those of `run` with this `under`.
        """
        own = [self.campaigns / under / program.name for program in self.programs]
        return fill_page(
            HERE / template,
            programs=", ".join(program.name for program in self.programs),
            missing=missing_sentence(self.options.programs),
            recorded=recorded(campaigns or own),
            made=self.made,
            **parts,
        )

    def write(self, name: str, campaigns: Iterable[Path] = (), **parts: str | float | Iterable[str]) -> None:
        """Write the page of evidence `NAME.md` from the template `page_NAME.md`; arguments as for `fill`."""
        (EVIDENCE / f"{name}.md").write_text(self.fill(f"page_{name}.md", campaigns, "", **parts))


def missing_sentence(names: Iterable[str]) -> str:
    """Return which programs of the experiment are not among these, behind a space; empty if all are."""
    missing = [name for name in NAMES if name not in set(names)]
    return f" Not recorded yet: {', '.join(missing)}." if missing else ""
