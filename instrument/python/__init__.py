"""Functions of Python programs: where they are, and the import hook that counts their entries."""

from unperturbed.instrument.python.metrics import (
    PythonSite,
    PythonSites,
    find_python_sites,
    prepare_python_hook,
    python_environment,
)

__all__ = ["PythonSite", "PythonSites", "find_python_sites", "prepare_python_hook", "python_environment"]
