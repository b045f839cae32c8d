"""The host: its identity, its counters, and its sources of noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unperturbed.common.faces import lazy_names

if TYPE_CHECKING:
    from unperturbed.harness.host.doctor import Finding, Host, HostCheck, check

__all__ = ["Finding", "Host", "HostCheck", "check"]

__getattr__, __dir__ = lazy_names(__name__)
