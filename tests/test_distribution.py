"""The distribution: pyproject.toml lists what the tree holds. `make check` builds it (tools/checks/distribution.py)."""

from __future__ import annotations

import re
import runpy
import sys
import tomllib
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness.phases_campaign import unperturbed
from tools.checks.distribution import dead_links, named_files
from tools.site import glossary
from unperturbed.common.extras import EXTRAS

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "pyproject.toml").read_text()
PROJECT: dict[str, Any] = tomllib.loads(TEXT)["project"]
README = (ROOT / "README.md").read_text()
description = runpy.run_path(str(ROOT / "setup.py"))["description"]
SETUPTOOLS: dict[str, Any] = tomllib.loads(TEXT)["tool"]["setuptools"]


def test_every_file_of_the_packages_is_installed() -> None:
    """A glob of package-data is taken from each package's own folder."""
    left = []
    for name, folder in SETUPTOOLS["package-dir"].items():
        globs = SETUPTOOLS["package-data"].get(name, [])
        for path in (ROOT / folder).rglob("*"):
            if path.is_dir() or path.suffix in (".py", ".pyc"):
                continue
            own = path.relative_to(ROOT / folder)
            in_package = (path.parent / "__init__.py").exists() or not own.parent.name
            anywhere = in_package and any(fnmatch(path.name, glob) for glob in SETUPTOOLS["package-data"]["*"])
            if not anywhere and not any(own.match(glob) and len(own.parts) == glob.count("/") + 1 for glob in globs):
                left.append(str(path.relative_to(ROOT)))
    assert left == []


def test_the_extras_are_those_that_messages_name() -> None:
    for extra, libraries in EXTRAS.items():
        listed = [re.split(r"[<>=\[; ]", one)[0] for one in PROJECT["optional-dependencies"][extra]]
        assert sorted(listed) == sorted(libraries)
        assert not {one.partition(">")[0] for one in PROJECT["dependencies"]} & set(libraries)


def test_a_bound_from_above_has_its_reason() -> None:
    """Those of the peers are the versions that published figures were measured with."""
    text = TEXT.partition("\npeers = [")[0] + TEXT.partition("\ndev = [")[2].partition("]\n\n")[0]
    bounded = [line for line in text.splitlines() if re.match(r' {4}"[^";]*(<\d|==)', line)]
    assert bounded
    assert [line for line in bounded if "  # " not in line] == []


def test_there_is_one_version() -> None:
    assert metadata.version("unperturbed") == PROJECT["version"]
    for file, pattern in (
        ("CITATION.cff", r"^version: (.+)$"),
        ("CHANGELOG.md", r"^## (\d\S+)"),
        ("recipe/recipe.yaml", r'^  version: "(.+)"'),
        ("docs/unperturbed.1", r'"unperturbed (.+?)"'),
    ):
        found = re.search(pattern, (ROOT / file).read_text(), re.MULTILINE)
        assert found is not None and found[1] == PROJECT["version"], file


@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="argparse of other versions wraps usage lines in other places"
)
def test_the_manual_page_is_up_to_date(tmp_path: Path) -> None:
    shown = unperturbed(tmp_path, "manual").stdout
    assert (ROOT / "docs" / "unperturbed.1").read_text() == shown, (
        "docs/unperturbed.1 is stale; write it again: unperturbed manual > docs/unperturbed.1"
    )


def test_the_glossary_is_up_to_date() -> None:
    assert (ROOT / "docs" / "reference" / "glossary.md").read_text() == glossary(), (
        "docs/reference/glossary.md is stale: CONTRIBUTING.md has the command that writes it again"
    )


def test_classifiers_name_the_versions_that_are_tried() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    tried = re.findall(r'"(3\.\d+)"', workflow)
    named = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["classifiers"]), re.MULTILINE)
    assert tried == named
    assert PROJECT["requires-python"] == f">={named[0]}"


def test_the_description_on_an_index_has_no_relative_link() -> None:
    """What is installed here, and what `make check` says of a wheel with such links."""
    # The file's text: importlib_metadata, which dask loads, makes messages without the description.
    distribution = metadata.distribution("unperturbed")
    installed = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    assert list(dead_links(installed)) == []
    assert len(list(dead_links(f"Name: unperturbed\n\n{README}"))) == len(re.findall(r"\]\((?!http)", README)) > 5
    assert list(dead_links("Name: unperturbed\n\n")) == ["the wheel has no description; see setup.py"]
    if "urls" not in PROJECT:
        assert "An installation has these files below `share/doc/unperturbed`" in installed
        assert "What the verdicts mean (`docs/explanation/verdicts.md`)" in installed


def test_every_file_that_the_description_names_is_installed() -> None:
    """Below share/doc/unperturbed, as in the wheel, where `make check` looks for them."""
    linked = {target.partition("#")[0] for target in re.findall(r"(?<!!)\[[^\]]+\]\((?!http)([^)#]+)", README)}
    assert set(named_files(f"Name: unperturbed\n\n{description(README, {})}")) == linked
    folder = "share/doc/unperturbed"
    globs = SETUPTOOLS["data-files"]
    chosen = {path: place for place, patterns in globs.items() for one in patterns for path in ROOT.glob(one)}
    for name in linked:
        assert chosen[ROOT / name] == str(Path(folder, name).parent), name


def test_links_lead_to_the_repository_where_it_is_declared() -> None:
    project = {"version": "1.2.3", "urls": {"Source": "https://example.org/unperturbed/"}}
    text = description(README, project)
    assert list(dead_links(f"Name: unperturbed\n\n{text}")) == []
    assert "[What the verdicts mean](https://example.org/unperturbed/blob/v1.2.3/docs/explanation/verdicts.md)" in text
    assert "](https://example.org/unperturbed/raw/v1.2.3/docs/assets/pictures/trust.png)\n\n" in text
    assert description("[a](#b) [c](https://d.org/e)", project) == "[a](#b) [c](https://d.org/e)"


def test_the_conda_recipe_needs_what_pip_installs() -> None:
    """Host, commands and dependencies with their bounds; libclang's wheel is two packages there."""
    recipe = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text())
    listed = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["analysis"]]
    wanted = {name.partition(";")[0].strip().lower() for name in listed}
    wanted |= {name.replace("libclang", "python-clang") for name in wanted if name.startswith("libclang")}
    python = f"python{PROJECT['requires-python']}"
    requirements = {place: [one.replace(" ", "") for one in names] for place, names in recipe["requirements"].items()}
    assert sorted(requirements["run"]) == sorted({"__linux", python, *wanted})
    assert sorted(requirements["host"]) == sorted(["pip", python, *tomllib.loads(TEXT)["build-system"]["requires"]])
    commands = [f"{name} = {target}" for name, target in PROJECT["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == commands
    assert recipe["about"]["summary"] == PROJECT["description"].partition(":")[0]
    assert recipe["about"]["license"] == PROJECT["license"]
