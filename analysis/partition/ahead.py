"""Runs that are made before a search asks for them, so that several subsets are measured at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from unperturbed.analysis.partition.plan import Subset


@dataclass(frozen=True)
class Ahead:
    """Makes runs before the search asks for them: on the nodes of a cluster, for example.

    The search learns no outcome from it, and so goes the same way with and without: only the waiting is shorter.

    Attributes
    ----------
    at_once : int
        How many subsets are measured at the same time.
    request : callable
        `request([(subset, repetitions), …])` begins the runs and returns. The judge hands out these runs when the
        search asks for them.
    """

    at_once: int
    request: Callable[[Sequence[tuple[Subset, int]]], None]
