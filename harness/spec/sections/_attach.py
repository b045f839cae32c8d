"""Key `attach` of the section `program`: what runs already, and rules on measuring it from outside."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from unperturbed.common.wording import listing
from unperturbed.harness.spec.model import Because, Draft, Section
from unperturbed.harness.spec.text import Text


class Attach(Section):
    """What runs already and is measured from outside, without a restart: exactly one of these."""

    pid: Annotated[int | None, Because("Linux numbers its processes from 1 to 4194304")] = Field(
        default=None, ge=1, le=4194304, examples=[1234]
    )
    """A process with its threads, by its number."""
    cgroup: Text | None = Field(default=None, examples=["system.slice/redis.service"])
    """All processes of a cgroup: a path below `/sys/fs/cgroup`, or an absolute one."""
    unit: Text | None = Field(default=None, examples=["redis-server.service"])
    """All processes of a systemd unit, by the unit's name."""
    container: Text | None = Field(default=None, examples=["web"])
    """All processes of a Docker container, by its name or identifier."""

    def __str__(self) -> str:
        """Return the kind and the name: `pid 1234`."""
        return next(
            (f"{name} {value}" for name in type(self).model_fields if (value := getattr(self, name)) is not None), ""
        )


KINDS = tuple(Attach.model_fields)
_NO_EFFECT = {
    **dict.fromkeys(("run", "sampled", "shell", "ready", "ready_timeout", "load"), "it is not started here"),
    **dict.fromkeys(("source", "debian", "build", "prepare", "inputs"), "it is not built here"),
    **dict.fromkeys(("stdin", "environment", "exit_code", "timeout"), "it was started elsewhere and goes on"),
    **dict.fromkeys(("outputs", "output_digest", "result"), "its result is not seen"),
}
_CLOCKS = ("perf::task-clock", "perf::cpu-clock")
_SAMPLER = "a process that runs already can only be sampled from outside: write `sampler: outside` under `measure`"


def check_attach(draft: Draft) -> None:
    """Report a program without `run` and `attach`, and what an attached process cannot give."""
    if not draft.has("program", "attach"):
        if isinstance(draft.value("program"), dict) and not draft.has("program", "run"):
            draft.report_key(("program",), "`run` is missing from `program` (command that runs the program)")
        for path in draft.keys("programs").values():
            if draft.has(*path, "tool"):
                draft.report_key((*path, "tool"), "`tool` is for a program with `attach`: use `run`")
        return
    given = [name for name in KINDS if draft.value("program", "attach", name) is not None]
    if isinstance(draft.value("program", "attach"), dict) and len(given) != 1:
        draft.report_key(("program", "attach"), f"`attach` needs exactly one of {listing([f'`{k}`' for k in KINDS])}")
    for field, why in _NO_EFFECT.items():
        if draft.has("program", field):
            draft.report_key(("program", field), f"`{field}` has no effect with `attach`, because {why}: remove it")
    if not draft.has("program", "duration"):
        draft.report_key(("program", "attach"), "`attach` needs `duration`, the length of a run: add `duration: 5 s`")
    _check_measure(draft, given)
    _check_others(draft)


def _check_measure(draft: Draft, given: list[str]) -> None:
    if draft.value("measure", "source") == "simulated":
        draft.report_key(
            ("measure", "source"),
            "a process that runs already cannot be simulated, because the simulator starts its program: remove "
            "`source: simulated`",
        )
    elif draft.value("measure", "sampler") != "outside":
        draft.report_key(("measure",) if not draft.has("measure", "sampler") else ("measure", "sampler"), _SAMPLER)
    if draft.has("measure", "software"):
        draft.report_key(
            ("measure", "software"),
            "software metrics cannot be counted in a process that runs already, because nothing is put into it: remove "
            "`software`",
        )
    for field in ("multiplex", "children", "observer_cpu"):
        if draft.value("measure", field):
            draft.report_key(("measure", field), f"`{field}` is not possible with `attach`: remove it")
    if draft.value("measure", "os") and given and given != ["pid"]:
        draft.report_key(
            ("measure", "os"),
            f"counters under `os` are those of one process, not of a {given[0]}: use `hardware` "
            "(such as perf::context-switches), or `pid`",
        )
    for path, name in draft.texts("measure", "hardware"):
        if given and given != ["pid"] and name in _CLOCKS:
            draft.report(
                path,
                f"`{name}` of a {given[0]} is wrong while a profiler is attached, by the kernel's account of time: "
                "remove it; CPU time is a total of every run",
            )
    interval = draft.value("measure", "interval")
    if draft.spec is not None and (
        draft.spec.measure.interval_event or (isinstance(interval, dict) and "every" in interval)
    ):
        draft.report(("measure", "interval"), "with `attach`, an interval is a time: write one such as `10 ms`")


def _check_others(draft: Draft) -> None:
    for section in ("parameters", "nodes"):
        if draft.has(section):
            draft.report_key((section,), f"`{section}` is not possible with `attach`: remove it")
    for name, path in draft.keys("programs").items():
        for field in draft.keys(*path):
            if field != "tool":
                draft.report_key(
                    (*path, field),
                    f"`{field}` has no effect with `attach`, because the process of {name} runs already: use `tool`",
                )
