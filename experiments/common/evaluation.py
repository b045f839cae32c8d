"""From a spec to a page of evidence: options of an evaluation, running its campaigns, filling its page."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence"
"""Where the pages are."""

GOOD, HOST_CANNOT, NEGATIVE = 0, 3, 4
"""Exit codes of `unperturbed run`: all is well, this host cannot do it, something is perturbed."""


def evaluation_parser(description: str | None, experiment: str) -> argparse.ArgumentParser:
    """Return a parser with the option that all evaluations have, `--campaigns FOLDER`.

    `description`: The evaluating module's docstring; its first line describes the command.
    `experiment`: The experiment's name: its campaigns are in `campaigns/NAME` unless the option names another folder.
    """
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    default = Path("campaigns") / experiment
    parser.add_argument("--campaigns", type=Path, default=default, help=f"folder of the campaigns ({default})")
    return parser


def run_campaign(spec: Path, campaign: Path, *, accept: Collection[int] = (GOOD, NEGATIVE)) -> int:
    """Run a campaign, or continue it.

    `accept`: Exit codes after which the evaluation goes on. A negative verdict is one by default: the papers'
    experiments look for perturbation.
    """
    command = [sys.executable, "-m", "unperturbed.harness.cli", "run", str(spec), "--campaign", str(campaign)]
    code = subprocess.run(command, check=False).returncode
    if code not in accept:
        raise SystemExit(f"{spec.stem}: the campaign ended with {code}")
    return code


def fill_page(template: Path, **parts: str | float | Iterable[str]) -> str:
    """Return a page: its template with the parts put in."""
    filled = {name: part if isinstance(part, str | float | int) else "\n".join(part) for name, part in parts.items()}
    return template.read_text(encoding="utf-8").format(**filled)


def put_section(page: Path, name: str, lines: Iterable[str]) -> None:
    """Replace one section of a page that several commands write."""
    mark = f"<!-- {name} -->\n"
    before, separator, rest = page.read_text(encoding="utf-8").partition(mark)
    if not separator:
        raise ValueError(f"{page} has no section {name}: put the line {mark.strip()} where it belongs")
    after = re.search(r"^<!-- \w+ -->$", rest, re.MULTILINE)
    text = "\n".join(lines).strip()
    page.write_text(f"{before}{mark}{text}\n{chr(10) + rest[after.start() :] if after else ''}", encoding="utf-8")
