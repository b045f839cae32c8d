"""Write the pages of the site into build/pages: those of docs/, and those that are made from the code.

    python -m tools.site

Made from the code is the library, a page a package: a name that a package offers is on its page the same day. The
glossary is made from the code too, and committed, as pages of a checkout link to it. The notebook tutorial is executed,
and an error in it is the error of this command. What then turns the pages into a site (mkdocs.yml) knows nothing of it.
"""

from __future__ import annotations

import importlib
import inspect
import shutil
import sys
from pathlib import Path

from tools.notebook import execute
from tools.public import PACKAGES, public_names
from unperturbed.analysis.pages.glossary import GLOSSARY, VERBS

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "build" / "pages"


def main() -> None:
    """Execute the notebook tutorial, then write all pages."""
    try:
        execute()
    except AssertionError as error:
        sys.exit(f"the notebook tutorial: {error}")
    write(PAGES)


def write(folder: Path) -> None:
    """Write all pages into a folder, in place of those that it had."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    reference = folder / "reference"
    (reference / "api").mkdir()
    (reference / "api" / "index.md").write_text(index(), encoding="utf-8")
    for package in PACKAGES:
        (reference / "api" / f"{package}.md").write_text(page(package), encoding="utf-8")


def index() -> str:
    """Return the page that lists the packages."""
    rows = "".join(f"| [`{name}`]({name}.md) | {subject} |\n" for name, subject in PACKAGES.items())
    return (
        "# The library, package by package\n\n"
        "Public are the names on these pages, and those of [`import unperturbed as up`](../library.md): [what that "
        f"promises](../stability.md). All else may change in any release.\n\n| package | holds |\n|---|---|\n{rows}"
    )


def glossary() -> str:
    """Return the glossary: the reports' words, and those of the other commands."""
    terms = "".join(f"**{term}**\n:   {meaning}\n\n" for term, meaning in GLOSSARY.items())
    verbs = "".join(f"| `{verb}` | {takes} | {returns} |\n" for verb, (takes, returns) in VERBS.items())
    return (
        f"# Glossary\n\nEach word has one meaning in this tool, its reports and these pages.\n\n{terms}"
        "## Verbs of the library\n\nA step of the analysis of verdicts has one verb, in the names of functions too.\n\n"
        f"| verb | takes | returns |\n|---|---|---|\n{verbs}"
    )


def page(package: str) -> str:
    """Return the page of a package: its docstring, then each name that it offers, sorted by kind and name."""
    module = importlib.import_module(package)
    names = [name for name in public_names(module) if not name.startswith("__")]
    functions, classes, values = [], [], []
    for name in sorted(names, key=str.lower):
        what = getattr(module, name)
        kind = classes if inspect.isclass(what) else functions if callable(what) else values
        kind.append(name)
    parts = [f"# {package}\n\n::: {package}\n    options: {{members: false, show_root_heading: false}}\n"]
    for heading, kind in (("Functions", functions), ("Classes", classes), ("Constants", values)):
        if kind:
            parts.append(f"## {heading}\n")
            parts.extend(f"::: {package}.{name}\n    options: {{heading_level: 3}}\n" for name in kind)
    return "\n".join(parts)


if __name__ == "__main__":
    main()
