"""A small distribution in a temporary folder that offers extensions by entry points."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def write_distribution(folder: Path, group: str, module: str, **points: str) -> None:
    """Write a distribution `toys` with one module `toys_module`.

    Parameters
    ----------
    folder : Path
        A folder of the module search path.
    group : str
        The group of the entry points.
    module : str
        The source text of the module.
    **points : str
        The entry points: name and object in the module.
    """
    (folder / "toys_module.py").write_text(module)
    # Another test's distribution may have been imported under the same name.
    sys.modules.pop("toys_module", None)
    importlib.invalidate_caches()
    information = folder / "toys-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
    lines = [f"{name} = toys_module:{target}" for name, target in points.items()]
    (information / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
