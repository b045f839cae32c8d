"""The packages: each folder below a part that holds an `__init__.py`, so that a new room needs no line here.

All else is in pyproject.toml.
"""

from setuptools import find_packages, setup

PARTS = ("common", "errors", "collectors", "instrument", "analysis", "harness")

rooms = [f"{part}.{room}" for part in PARTS for room in find_packages(part)]
setup(packages=["unperturbed", *(f"unperturbed.{name}" for name in (*PARTS, *rooms))])
