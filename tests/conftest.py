"""Shared by all tests: examples are found afresh but reproducibly, and a busy machine fails nothing."""

import os

from hypothesis import settings

settings.register_profile("steady", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("steady")

# Tests start hundreds of commands: what these load is compiled once, whatever the host prefers.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
