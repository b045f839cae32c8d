"""This host: runs are made one after another in this process."""

from __future__ import annotations

from collections.abc import Sequence

from unperturbed.harness.backends import Backend, Part, execute_part


class Here(Backend):
    """Executes everything in this process while it is watched."""

    name = "here"

    def __init__(self) -> None:
        self._parts: Sequence[Part] = ()

    def submit(self, parts: Sequence[Part]) -> None:
        """Remember the parts."""
        self._parts = parts

    def watch(self) -> None:
        """Execute the parts."""
        for part in self._parts:
            execute_part(part)

    def cancel(self) -> None:
        """Do nothing: a run ends with the process that waits for it."""
