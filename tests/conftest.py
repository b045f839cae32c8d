"""Shared by all tests: examples are found afresh but reproducibly, and a busy machine fails nothing."""

from hypothesis import settings

settings.register_profile("steady", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("steady")
