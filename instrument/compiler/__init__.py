"""The compilers of an instrumented build: they put the counters of software metrics into what they compile.

::

    toolchain    writes `cc` and `cxx` for a build          launchers   the executables behind them
    wrapper      one compiler command, with counters        cc          the same by hand: `unperturbed cc`
    settings     what a wrapper has to know                 facts       what the compiler itself answers
    processes    runs compilers, with little of Python      include_dirs   where the compiler searches headers
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unperturbed.instrument.compiler.cc import TOTALS, read_metrics, run_compiler, totals_source
    from unperturbed.instrument.compiler.toolchain import Toolchain, in_layout, relink, write_toolchain
    from unperturbed.instrument.finding.site_log import LoggedSite, SiteReport, is_check_folder, read_sites
    from unperturbed.instrument.layout.link_log import Link, file_digest, read_links
    from unperturbed.instrument.missing.without_site import missing_metrics

__all__ = [
    "TOTALS",
    "Link",
    "LoggedSite",
    "SiteReport",
    "Toolchain",
    "file_digest",
    "in_layout",
    "is_check_folder",
    "missing_metrics",
    "read_links",
    "read_metrics",
    "read_sites",
    "relink",
    "run_compiler",
    "totals_source",
    "write_toolchain",
]

_MODULES = {
    "unperturbed.instrument.compiler.cc": (
        "TOTALS",
        "read_metrics",
        "run_compiler",
        "totals_source",
    ),
    "unperturbed.instrument.compiler.toolchain": (
        "Toolchain",
        "in_layout",
        "relink",
        "write_toolchain",
    ),
    "unperturbed.instrument.finding.site_log": (
        "LoggedSite",
        "SiteReport",
        "is_check_folder",
        "read_sites",
    ),
    "unperturbed.instrument.layout.link_log": (
        "Link",
        "file_digest",
        "read_links",
    ),
    "unperturbed.instrument.missing.without_site": ("missing_metrics",),
}


def __getattr__(name: str) -> Any:
    """Load the module that defines a name: commands of a build pass by here and need few of them."""
    from importlib import import_module  # noqa: PLC0415  0.4 ms, which most commands of a build do without

    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
