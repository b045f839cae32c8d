"""What this host is, what it can count, and what disturbs measurements on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unperturbed.common.faces import lazy_names

if TYPE_CHECKING:
    from unperturbed.harness.host.checks.tools import setpriv, versions
    from unperturbed.harness.host.doctor import Examination, Finding, HostCheck, Status, check, examine
    from unperturbed.harness.host.kernel_files import REAL, Host

__all__ = [
    "REAL",
    "Examination",
    "Finding",
    "Host",
    "HostCheck",
    "Status",
    "check",
    "examine",
    "setpriv",
    "versions",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "checks.tools": ("setpriv", "versions"),
        "doctor": ("Examination", "Finding", "HostCheck", "Status", "check", "examine"),
        "kernel_files": ("REAL", "Host"),
    },
)
