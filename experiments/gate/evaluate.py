"""The gate for pull requests on three real commits: each against its parent, or the other way round.

    python -m experiments.gate.evaluate --repository ZLIB [--campaigns FOLDER]

ZLIB is a clone of github.com/madler/zlib. Each pull request is a clone of its own, on which the gate's script runs as
in a pipeline. Writes docs/evidence/gate.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.common.evaluation import EVIDENCE, GOOD, NEGATIVE, evaluation_parser, fill_page
from experiments.common.provenance import made_by, recorded
from experiments.common.tables import markdown_table, right
from unperturbed.analysis.perturbation import VERDICT_SIGNS
from unperturbed.common.wording import percent

HERE = Path(__file__).parent
SCRIPT = HERE.parents[1] / "tools" / "gate.sh"
SPEC = """\
name: gate
program:
  source: base
  shell: true
  build: CC={cc} ./configure --static && make minigzip
  prepare: sh -c "cat {build}/*.c {build}/ChangeLog > {inputs}/text"
  run: "{build}/minigzip -c < {inputs}/text"
programs:
  change: {source: change}
measure:
  hardware: [PAPI_TOT_INS, PAPI_L1_DCM, PAPI_BR_MSP]
campaign: {baseline_runs: 5, runs: 5}
analysis:
  totals: {PAPI_TOT_INS: 0.5 %, default: 5 %}
  fail_on: {totals: perturbed, correlations: never}
"""
METRICS = ("PAPI_TOT_INS", "PAPI_L1_DCM", "PAPI_BR_MSP")


class PullRequest(NamedTuple):
    """A commit against its parent."""

    commit: str
    undoes: bool = False  # The pull request is the parent, and its base the commit


PULL_REQUESTS = (
    PullRequest("f8719f5ae5acdc31d3794ddfea8ac963359de41e", undoes=True),
    PullRequest("5c44459c3b28a9bd3283aaceab7c615f8020c531"),
    PullRequest("8a76f02e0e05860f72a269d305a0e11af224f609"),
)


class Answer(NamedTuple):
    """What the gate said of a pull request."""

    title: str
    exit_code: int
    totals: dict[str, dict[str, Any]]  # The change of each total, by metric
    campaign: Path


def ask(repository: Path, request: PullRequest, folder: Path) -> Answer:
    """Run the gate on a pull request, or read what it said."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    told = folder / "exit_code"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "clone", "--quiet", "--no-checkout", str(repository), str(folder)], check=True)
    head, base = (f"{request.commit}^", request.commit) if request.undoes else (request.commit, f"{request.commit}^")
    if not told.is_file():
        git("checkout", "--quiet", "--detach", head)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        spec = folder.parent / "gate.yaml"
        spec.write_text(SPEC)
        words = [str(SCRIPT), str(spec), base]
        done = subprocess.run(words, cwd=folder, env={**os.environ, "PATH": path}, check=False)
        if done.returncode not in (GOOD, NEGATIVE):
            raise SystemExit(f"{request.commit}: the gate ended with {done.returncode}")
        told.write_text(str(done.returncode))
    verdicts = json.loads((folder / "gate/campaign/verdicts.json").read_text())
    totals = {each["metric"]: each for each in verdicts["totals"]["change"]}
    title = git("log", "-1", "--format=%h %s", request.commit)
    return Answer(
        f"undoing {title}" if request.undoes else title, int(told.read_text()), totals, folder / "gate/campaign"
    )


def table(answers: Sequence[Answer]) -> list[str]:
    """Return the answers, one row each."""
    rows = [
        [answer.title, answer.exit_code, *(_cell(answer.totals[metric]) for metric in METRICS)] for answer in answers
    ]
    return markdown_table(["pull request", *right("exit code", *METRICS)], rows)


def _cell(change: dict[str, Any]) -> str:
    said = "equal" if change["equal"] else percent(change["change"])
    return f"{said} {VERDICT_SIGNS[change['verdict']]}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask the gate about each pull request, write the page."""
    parser = evaluation_parser(__doc__, "gate")
    parser.add_argument("--repository", type=Path, required=True, help="clone of zlib's repository")
    options = parser.parse_args(arguments)
    made, repository = made_by(), options.repository.resolve()
    answers = [
        ask(repository, request, options.campaigns.resolve() / f"pull-{number}")
        for number, request in enumerate(PULL_REQUESTS, 1)
    ]
    page = fill_page(
        HERE / "page.md",
        table=table(answers),
        spec=SPEC.strip(),
        recorded=recorded([answer.campaign for answer in answers]),
        made=made,
    )
    (EVIDENCE / "gate.md").write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
