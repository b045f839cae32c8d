"""List of packages, and the description for a package index. Everything else is in pyproject.toml.

All folders below a part that contain an `__init__.py` are packages, so a new package needs no line here. The
description is the README without relative links, which do not work on an index. If pyproject.toml declares the
repository's address (`Source` in `[project.urls]`), links lead to this version's files there; otherwise the
description gives the files' names.
"""

import re
import tomllib
from pathlib import Path

from setuptools import find_packages, setup

PARTS = ("common", "errors", "collectors", "instrument", "analysis", "harness")
_PICTURE = re.compile(r"^!\[([^\]]*)\]\((?!https?:)([^)]*)\)\n\n", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|#)([^)]+)\)")
_NAMED = re.compile(r"\[([^\]]+)\]\(\1\)")
_READ_ON = "## Read on\n\n"
_PLACE = "An installation has these files below `share/doc/unperturbed`; the source distribution has them too.\n\n"


def description(readme: str, project: dict) -> str:
    """Return the README for readers without a checkout: relative links become repository links or file names."""
    source = project.get("urls", {}).get("Source", "").rstrip("/")
    if source:  # addresses as on GitHub; GitLab accepts them too
        tag = f"v{project['version']}"
        text = _PICTURE.sub(rf"![\1]({source}/raw/{tag}/\2)\n\n", readme)
        return _LINK.sub(rf"[\1]({source}/blob/{tag}/\2)", text)
    text = _LINK.sub(r"\1 (`\2`)", _NAMED.sub(r"`\1`", _PICTURE.sub("", readme)))
    return text.replace(_READ_ON, f"{_READ_ON}{_PLACE}")


if __name__ == "__main__":  # builds run this file; tests import it
    here = Path(__file__).parent
    rooms = [f"{part}.{room}" for part in PARTS for room in find_packages(part)]
    setup(
        packages=["unperturbed", *(f"unperturbed.{name}" for name in (*PARTS, *rooms))],
        long_description=description(
            (here / "README.md").read_text(encoding="utf-8"),
            tomllib.loads((here / "pyproject.toml").read_text(encoding="utf-8"))["project"],
        ),
        long_description_content_type="text/markdown",
    )
