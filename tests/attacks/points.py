"""Crash points: the steps of a campaign's life, by the functions that make them, where they are looked up.

A victim that is told a point kills itself right before or right after that function. Product code knows nothing of it.
"""

from __future__ import annotations

import functools
import importlib
import os
import signal
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

__all__ = ["POINTS", "Point", "arm"]


class Point(NamedTuple):
    """A step: what happens in it, and the function that does it."""

    what: str
    function: str
    """`module:name`, below `unperturbed` unless it begins with `/`."""


POINTS = (
    Point("a folder is locked", "harness.campaign.execution:locked"),
    Point("a manifest is opened", "harness.campaign.manifest:Manifest.__init__"),
    Point("a folder is claimed", "harness.campaign.execution:_claim"),
    Point("facts are recorded", "harness.campaign.manifest:Manifest.set_facts"),
    Point("a change of the manifest is half made", "harness.campaign.manifest:Manifest._change"),
    Point("the host is described", "harness.campaign.preparation:detect_host"),
    Point("a runtime is compiled", "collectors.runtime:_build"),
    Point("the source is copied", "harness.program.build:copy_source"),
    Point("a toolchain is written", "harness.program.build:write_toolchain"),
    Point("a program is built", "harness.program.build:compile_tree"),
    Point("a configuration is built", "harness.campaign.session:build_configuration"),
    Point("a layout is put in place", "harness.campaign.session:put_in_place"),
    Point("a layout is linked", "harness.campaign.session:make_layout"),
    Point("input is staged", "harness.campaign.preparation:_inputs"),
    Point("the untouched program runs", "harness.campaign.preparation:run_plain"),
    Point("the pilot runs", "harness.campaign.execution:pilots"),
    Point("the rehearsal runs", "harness.campaign.execution:rehearse"),
    Point("runs are planned", "harness.campaign.manifest:Manifest.plan"),
    Point("runs are opened again", "harness.campaign.manifest:Manifest.reopen"),
    Point("lost runs are looked for", "harness.campaign.execution:reopen_lost"),
    Point("a run's folder is made", "harness.campaign.execution:make_empty_folder"),
    Point("a run starts", "harness.campaign.manifest:Manifest.start"),
    Point("a record file is made", "harness.campaign.run:create_record_file"),
    Point("a process is started", "common.supervision:start"),
    Point("a program runs", "harness.campaign.run:launch"),
    Point("a program is waited for", "/os:wait4"),
    Point("what is left of a program is ended", "common.supervision:end"),
    Point("a record file is read", "harness.campaign.run:read_record_file"),
    Point("a result is checked", "harness.campaign.run:check_outcome"),
    Point("a trace is assembled", "harness.campaign.run:assemble_processes"),
    Point("a trace is written", "collectors.data.trace:Trace.write"),
    Point("a file reaches the disk", "/os:fsync"),
    Point("a file appears", "/pathlib:Path.replace"),
    Point("a run's folder is tidied", "harness.campaign.run:_tidy"),
    Point("a run is done", "harness.campaign.manifest:Manifest.finish"),
    Point("a run has failed", "harness.campaign.manifest:Manifest.fail"),
    Point("traces are read", "harness.results.judge:read_traces"),
    Point("verdicts are given", "harness.results.judge:check"),
    Point("the report is written", "harness.results.judge:write_results"),
)


def arm(point: Point, when: Literal["before", "after"], number: int, tell: Callable[[], object]) -> None:
    """Make this process kill itself the so-manieth time that it comes to a point; it tells so first."""
    module_name, _, path = point.function.partition(":")
    module = importlib.import_module(module_name[1:] if module_name[0] == "/" else f"unperturbed.{module_name}")
    *parents, name = path.split(".")
    owner: Any = functools.reduce(getattr, parents, module)
    original, seen = getattr(owner, name), 0

    @functools.wraps(original)
    def patched(*arguments: Any, **options: Any) -> Any:
        nonlocal seen
        seen += 1
        if when == "before" and seen == number:
            _die(tell)
        result = original(*arguments, **options)
        if when == "after" and seen == number:
            _die(tell)
        return result

    setattr(owner, name, patched)


def _die(tell: Callable[[], object]) -> None:
    tell()
    os.kill(os.getpid(), signal.SIGKILL)
