"""Campaigns in the Python library: a recorded campaign as an object, and functions of `import unperturbed as up`."""

from unperturbed.common.faces import lazy_names
from unperturbed.harness.library.campaign import Campaign, Runs
from unperturbed.harness.library.functions import check, load, read_trace

__all__ = ["Campaign", "Runs", "check", "load", "read_trace"]

__getattr__, __dir__ = lazy_names(__name__, former={"unperturbed": "structure"})
