"""The packages, and the description on a package index. All else is in pyproject.toml.

Packages are all folders below a part that hold an `__init__.py`, so that a new room needs no line here. The description
is the README without relative links: they lead nowhere on an index, so it names the files instead.
"""

import re
from pathlib import Path

from setuptools import find_packages, setup

PARTS = ("common", "errors", "collectors", "instrument", "analysis", "harness")
_PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https?:)[^)]*\)\n\n", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)([^)]+)\)")
_NAMED = re.compile(r"\[([^\]]+)\]\(\1\)")
_READ_ON = "## Read on\n\n"


def description(readme: str) -> str:
    """Return the README for readers without the checkout: no picture from a file, a file's name for each link to it."""
    text = _LINK.sub(r"\1 (`\2`)", _NAMED.sub(r"`\1`", _PICTURE.sub("", readme)))
    return text.replace(_READ_ON, f"{_READ_ON}The source distribution holds these files.\n\n")


rooms = [f"{part}.{room}" for part in PARTS for room in find_packages(part)]
setup(
    packages=["unperturbed", *(f"unperturbed.{name}" for name in (*PARTS, *rooms))],
    long_description=description(Path(__file__).with_name("README.md").read_text(encoding="utf-8")),
    long_description_content_type="text/markdown",
)
