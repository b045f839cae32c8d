"""The library's view of campaigns: a recorded campaign as an object, and the verbs of `import unperturbed as up`."""

from unperturbed.harness.library.campaign import Campaign, Runs
from unperturbed.harness.library.functions import check, load, read_trace, structure

__all__ = ["Campaign", "Runs", "check", "load", "read_trace", "structure"]
