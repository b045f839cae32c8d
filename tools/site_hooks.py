"""Pages that are made from the code when the site is built: the library, a page a package, and the glossary.

mkdocs loads this module (`hooks:` in mkdocs.yml). The pages are made when the site is built and lie nowhere else, so
that a name which a package offers is on its page the same day. The notebook tutorial is executed at the same time.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from unperturbed.analysis.pages.glossary import GLOSSARY, VERBS

sys.path.insert(0, str(Path(__file__).parents[1]))  # mkdocs loads this file by its path

from tools.public import PACKAGES, public_names


def on_pre_build(*, config: MkDocsConfig) -> None:  # noqa: ARG001  mkdocs passes it
    """Execute the notebook tutorial; the build fails if a cell fails, or shows another text than the page."""
    from tools.notebook import execute  # noqa: PLC0415  sys.path above finds it

    try:
        execute()
    except AssertionError as error:
        raise PluginError(f"the notebook tutorial: {error}") from error


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages of the library, and the glossary."""
    for package in PACKAGES:
        files.append(File.generated(config, f"reference/api/{package}.md", content=page(package)))
    files.append(File.generated(config, "reference/api/index.md", content=index()))
    files.append(File.generated(config, "reference/glossary.md", content=glossary()))
    return files


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:  # noqa: ARG001  mkdocs passes all three
    """Name the search dialog, which the theme leaves without a name for screen readers."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"', 1)


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
