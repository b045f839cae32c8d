"""What the doctor says: one finding a subject, with the command that mends it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Finding", "Status"]

Status = Literal["good", "note", "bad"]
"""`good`: as it should be. `note`: it costs something, or is worth knowing. `bad`: it keeps counters away, or spoils what is measured."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes
    ----------
    subject : what was looked at: a short name that stays the same between versions of this tool (`PMU`, `governor`, …).
    status : how it is.
    what : what was found, one sentence.
    why : what that means for a measurement.
    mend : the command that mends it; None when nothing needs mending, or no command can.
    """

    subject: str
    status: Status
    what: str
    why: str = ""
    mend: str | None = None
