"""Found first by Python's start, as its folder leads PYTHONPATH: sets the hook up, and hands on to the program's own sitecustomize.

Afterwards neither this module, nor its folder in sys.path, nor what it changed of the environment is left for the program to see.
"""

import _frozen_importlib as bootstrap
import _frozen_importlib_external as external
import sys

_loaded_before = frozenset(sys.modules)
_OWN_MODULES = ("__future__", "_ast")
_VARIABLE = "UNPERTURBED_PYTHON"


def _set_up(folder: str) -> None:
    spec = external.spec_from_file_location("unperturbed_hook", f"{folder}/hook.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"{folder}/hook.py cannot be loaded")
    hook = bootstrap.module_from_spec(spec)
    spec.loader.exec_module(hook)
    settings = hook.read_settings(_VARIABLE)
    if settings is not None and settings.library:
        hook.install(settings, folder)


def _hand_on(folder: str) -> None:
    sys.path[:] = [entry for entry in sys.path if entry != folder]
    sys.path_importer_cache.pop(folder, None)
    spec = external.PathFinder.find_spec("sitecustomize")
    if spec is None or spec.loader is None:
        raise ImportError("No module named 'sitecustomize'", name="sitecustomize")  # site takes it for what it is
    module = bootstrap.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_folder = __file__.rpartition("/")[0]
try:
    _set_up(_folder)
finally:
    for _name in _OWN_MODULES:
        if _name not in _loaded_before:
            sys.modules.pop(_name, None)
    _hand_on(_folder)
