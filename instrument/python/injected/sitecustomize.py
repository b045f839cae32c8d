"""Start-up module that Python finds first: it installs the hook, then runs the program's own sitecustomize.

Afterwards the program sees neither this module, nor its folder in sys.path, nor its change to the environment.

The compiled module runs from a folder that `lookup.py` has written. All files of the hook are read from this folder;
nothing is searched for or written.
"""

from __future__ import annotations

import _frozen_importlib as bootstrap
import _frozen_importlib_external as external
import sys
from marshal import loads

TYPE_CHECKING = False
"""Always False, as in `hook.py`."""
if TYPE_CHECKING:
    from collections.abc import Callable


def _set_up(folder: str) -> Callable[[], None]:
    with open(f"{folder}/hook.code", "rb") as file:  # noqa: PTH123  pathlib is not loaded when Python starts
        code = loads(file.read())
    hook = type(sys)("unperturbed_hook")
    exec(code, hook.__dict__)
    watch_main: Callable[[], None] = hook.install(folder)
    return watch_main


def _hand_on(folder: str) -> None:
    sys.path[:] = [entry for entry in sys.path if entry != folder]
    sys.path_importer_cache.pop(folder, None)
    spec = external.PathFinder.find_spec("sitecustomize")
    if spec is None or spec.loader is None:
        raise ImportError("No module named 'sitecustomize'", name="sitecustomize")  # site ignores this error
    module = bootstrap.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _start(folder: str) -> None:
    watch_main = None
    try:
        watch_main = _set_up(folder)
    finally:
        try:
            _hand_on(folder)
        finally:
            if watch_main is not None:
                watch_main()


_start(__file__.rpartition("/")[0])
