"""Section `program`: source, build and run of the program; rules on commands, placeholders and required files."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from unperturbed.common.wording import listing
from unperturbed.harness.spec.model import (
    ADDED_LATER,
    MAY_CHANGE,
    Because,
    Draft,
    Frozen,
    Section,
    SpecKey,
    empty,
    reading,
)
from unperturbed.harness.spec.quantities import TimeSpan, parse_duration
from unperturbed.harness.spec.sections._attach import Attach, check_attach
from unperturbed.harness.spec.sections._metrics import PRELOADED, means_of
from unperturbed.harness.spec.sections._service import StopSignal, check_service, is_address
from unperturbed.harness.spec.text import (
    PARAMETER,
    PLACEHOLDERS,
    PackageName,
    Sha256,
    Text,
    Texts,
    VariableName,
    find_placeholders,
    substitute,
)
from unperturbed.harness.spec.yaml import YamlPath

DEFAULT_TIMEOUT = "10 min"

PROGRAM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Default PATH of a measured program."""

_COMMANDS = ("build", "prepare", "run", "load")
_WORKING_FOLDER = re.compile(r"\{(scratch|build|source|spec)\}(/.*)?|/.*", re.DOTALL)
_SHELL_WORD = re.compile(r"\|\|?|&&?|;|[0-9]?[<>].*|.*;")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_MOST_LISTED = 500
DEFAULT_READY_TIMEOUT = "30 s"


class CompilerFields(Section):
    """The compilers that {cc} and {cxx} call after instrumenting the source."""

    cc: Text = Field(default="gcc", examples=["gcc", "clang"])
    """C compiler."""
    cxx: Text = Field(default="g++", examples=["g++", "clang++"])
    """C++ compiler."""


Compilers = Annotated[
    Mapping[str, str], reading(CompilerFields, lambda fields: MappingProxyType({"cc": fields.cc, "cxx": fields.cxx}))
]
OutputDigest = Annotated[str, reading(Sha256, lambda text: text.removeprefix("sha256:"))]


def _without_default(schema: dict[str, Any]) -> None:
    """Hide the default of a field that only a rule requires."""
    del schema["default"]


class Program(Section):
    """The program: its source, how it is built and run, and the result of a correct run."""

    source: Text | None = Field(default=None, examples=["blocksort"])
    """Folder of the program's source, relative to the spec. Each build works on a copy, never on the folder itself."""
    debian: PackageName | None = Field(default=None, examples=["bzip2"])
    """Debian source package to build instead of a folder; `upstream:NAME` is its upstream source, without Debian's
    patches."""
    build: Text | None = Field(default=None, examples=["make CC={cc}"])
    """Command that builds the program. It runs for the untouched program and for each build with
    counters (one by default, one a configuration with `builds: separate`), in a copy of the source. `{cc}` and `{cxx}`
    are the instrumenting compilers. Without `build`, nothing is built, and `run` names an existing program."""
    compilers: Compilers = Field(default_factory=lambda: MappingProxyType({"cc": "gcc", "cxx": "g++"}))
    """The compilers that `{cc}` and `{cxx}` call."""
    prepare: Text | None = Field(default=None, examples=["{python} make_corpus.py --size 600000 {inputs}/corpus.txt"])
    """Command that creates input files in `{inputs}`. It runs once in a campaign, without a shell, in the folder of the
    untouched build."""
    run: Text = Field(
        default="",
        examples=["{build}/blocksort -c {inputs}/corpus.txt"],
        json_schema_extra=_without_default,
    )
    """Command that runs the program; every program needs it, except one with `attach`. It is split into words as by a
    shell, but no shell runs it unless `shell` is true."""
    sampled: Annotated[Text | None, ADDED_LATER] = Field(default=None, examples=["sorter"])
    """Name of the program to sample, if `run` starts it through another program (`perf`, `env`) and nothing is built.
    By default, the first word of `run`."""
    shell: bool = Field(default=False)
    """Let `/bin/sh` run `build` and `run`, for pipes, redirections and lists of commands."""
    inputs: Texts = Field(default=())
    """Input files, relative to the spec. Each is copied into `{inputs}` under its file name."""
    stdin: Text | None = Field(default=None, examples=["{inputs}/corpus.txt"])
    """File that the program reads as standard input. By default, standard input is empty."""
    outputs: Texts = Field(default=())
    """Output files, relative to the working folder. Like standard output, their content is part of the result."""
    environment: Annotated[Mapping[VariableName, str], Frozen] = Field(default_factory=empty)
    """Environment variables. The program gets only these, PATH, HOME (the scratch folder) and LC_ALL (C); `srun` also
    gets SLURM_CONF and SLURM_JOB_ID."""
    working_folder: Text = Field(default="{scratch}")
    """Folder in which the program runs: `{scratch}`, `{build}`, `{spec}`, a folder below one of them, or an absolute
    path. Only `{scratch}` is fresh for each run. In other folders, a run finds the files of earlier runs."""
    timeout: Annotated[TimeSpan, MAY_CHANGE] = Field(
        default_factory=lambda: parse_duration(DEFAULT_TIMEOUT), examples=["2 min"]
    )
    """Time after which a run is stopped and counts as failed. A simulated run is 40 to 300 times slower than the
    program alone."""
    ready: Annotated[Text | None, ADDED_LATER] = Field(
        default=None, examples=["tcp://127.0.0.1:{port}", "http://127.0.0.1:{port}/health", "redis-cli -p {port} ping"]
    )
    """For a service, a program that does not end by itself: how to see that it can be used. An address
    (`http://…`, `https://…`, `tcp://HOST:PORT`) must answer, or a command must end with exit code 0."""
    ready_timeout: Annotated[TimeSpan, ADDED_LATER, MAY_CHANGE] = Field(
        default_factory=lambda: parse_duration(DEFAULT_READY_TIMEOUT), examples=["2 min"]
    )
    """Time in which a service must be ready; 50 times as long if its counters are simulated, up to `timeout`."""
    load: Annotated[Text | None, ADDED_LATER] = Field(
        default=None, examples=["redis-benchmark -p {port} -n 100000 -t set,get -q"]
    )
    """Command that uses the service once it is ready, such as a load generator. The measured run is from its start to
    its end. It runs without a shell, unmeasured, and must end with exit code 0."""
    duration: Annotated[TimeSpan | None, ADDED_LATER] = Field(default=None, examples=["30 s"])
    """Length of a service's measured run: a `load` that takes longer is stopped. Without `load`, the service is
    measured for this time as it is."""
    attach: Annotated[Attach | None, ADDED_LATER] = Field(default=None, examples=[{"pid": 1234}, {"unit": "nginx"}])
    """Instead of `run`: what runs already. It is sampled from outside for `duration`, without a restart."""
    stop: Annotated[StopSignal, ADDED_LATER] = Field(default="SIGTERM", examples=["SIGINT"])
    """Signal that ends a service after the measured run; any exit code is right then. A service that takes longer than
    10 s to end is killed."""
    exit_code: Annotated[int, Because("exit codes of processes are 0 to 255; 128 + n means killed by signal n")] = (
        Field(default=0, ge=0, le=255)
    )
    """Exit code of a correct run."""
    output_digest: OutputDigest | None = Field(default=None)
    """`sha256:` and the SHA-256 digest of standard output followed by the output files. By default, the digest of the
    untouched program's result; that program runs once before all other runs."""
    result: Annotated[Literal["same", "any"], ADDED_LATER] = Field(default="same")
    """`same`: each run must give the result of the untouched program, byte for byte, because counters must not change
    the result. `any`: only the exit code must be correct, for a program that prints times or addresses. What a service
    prints is not compared, only its `outputs`."""

    @model_validator(mode="after")
    def _name_attached(self) -> Program:
        """Show what runs already where messages and pages show the command."""
        return (
            self if self.attach is None or self.run else self.model_copy(update={"run": f"attached to {self.attach}"})
        )

    @property
    def is_service(self) -> bool:
        """Return whether the program does not end by itself: it is stopped after its load, or after a time."""
        return self.load is not None or self.duration is not None


def _check(draft: Draft) -> None:
    if draft.recorded:
        return  # the files may no longer exist
    check_attach(draft)
    _check_source(draft)
    _check_compiled(draft)
    for path, field, text in templates(draft):
        check_placeholders(draft, path, field, text)
    for field in _COMMANDS:
        check_words(draft, ("program", field))
    if not is_address(draft.text("program", "ready") or ""):
        check_words(draft, ("program", "ready"))
    check_service(draft)
    _check_program_is_there(draft)
    _check_load_is_there(draft)
    _check_working_folder(draft)
    _check_inputs(draft)
    _check_stdin(draft)
    _check_outputs(draft)
    _check_environment(draft)
    if draft.value("program", "result") == "any" and draft.has("program", "output_digest"):
        draft.report_key(
            ("program", "output_digest"), "`output_digest` has no effect with `result: any`: remove one of them"
        )


def _check_source(draft: Draft) -> None:
    has_build = draft.has("program", "build")
    if draft.has("program", "source") and draft.has("program", "debian"):
        draft.report_key(("program", "debian"), "`source` and `debian` cannot be combined: remove one of them")
    if has_build and not (draft.has("program", "source") or draft.has("program", "debian")):
        draft.report_key(
            ("program", "build"),
            "`build` needs a source: set `source` to a folder, or `debian` to a Debian source package",
        )
    source = draft.text("program", "source")
    if source is not None and not os.path.isdir(draft.folder / source):  # noqa: PTH112  like `_is_file`
        draft.report(("program", "source"), _no_such(draft, "folder", source))


def _check_compiled(draft: Draft) -> None:
    """Require a build with the instrumenting compiler if any metric is compiled in."""
    compiled = [
        path for path in draft.keys("measure", "software").values() if means_of(draft.value(*path)) == {"compiled"}
    ]
    build = draft.text("program", "build")
    if compiled and not draft.has("program", "build"):
        everything = len(compiled) == len(draft.keys("measure", "software"))
        metrics = "software metrics are" if everything else "this software metric is"
        what = "compiled in, but `program:` has no `build`: add `build`, or use `probe`, `preload`, `python` or `jvm`"
        for path in [("measure", "software")] if everything else compiled:
            draft.report_key(path, f"{metrics} {what}")
    elif compiled and build is not None and not {"cc", "cxx"} & set(find_placeholders(build)):
        draft.report(
            ("program", "build"),
            "software metrics need the instrumenting compiler: write `{cc}` or `{cxx}` in place of the compiler's "
            "name, as in `make CC={cc}`",
        )


def _means(draft: Draft) -> set[str]:
    """Return the means by which the software metrics are counted, such as `compiled` or `kernel`."""
    return {means for path in draft.keys("measure", "software").values() for means in means_of(draft.value(*path))}


def templates(draft: Draft) -> Iterator[tuple[YamlPath, str, str]]:
    """Yield the path, key and text of every value that may contain placeholders."""
    for field in (*_COMMANDS, "ready", "stdin", "working_folder"):
        text = draft.text("program", field)
        if text is not None:
            yield ("program", field), field, text
    for path in draft.keys("program", "environment").values():
        text = draft.text(*path)
        if text is not None:
            yield path, "environment", text


def check_placeholders(draft: Draft, path: YamlPath, field: str, text: str) -> None:
    """Report placeholders that are unknown, or not allowed in this key of a program."""
    allowed = [name for name, placeholder in PLACEHOLDERS.items() if field in placeholder.fields]
    parameters = draft.keys("parameters")
    for name in find_placeholders(text):
        if name.startswith(PARAMETER):
            continue  # the section of parameters checks these
        if name not in allowed and name not in PLACEHOLDERS and name in parameters:
            draft.report(path, f"unknown placeholder `{{{name}}}`; did you mean `{{{PARAMETER}{name}}}`?")
        elif name not in allowed:
            known = name in PLACEHOLDERS
            what = f"`{{{name}}}` is not allowed in `{field}`" if known else f"unknown placeholder `{{{name}}}`"
            here = f"use {listing([f'{{{allowed_name}}}' for allowed_name in allowed], 'or')}"
            hint = draft.did_you_mean(name, allowed, before="{", after="}") or here
            draft.report(path, f"{what}; {hint} (for literal text, write `{{{{{name}}}}}`)")
        elif name in ("build", "source") and not draft.has("program", "build"):
            draft.report(path, f"`{{{name}}}` is undefined: `program:` has no `build`")
        elif (
            name == "inputs"
            and field != "prepare"
            and not (draft.has("program", "inputs") or draft.has("program", "prepare"))
        ):
            draft.report(path, "`{inputs}` would be empty: list files under `inputs`, or create them with `prepare`")


def check_words(draft: Draft, path: YamlPath) -> None:
    """Reject shell syntax in a command that runs without a shell."""
    text, field = draft.text(*path), path[-1]
    by_shell = draft.value(*path[:-1], "shell")
    if by_shell is None:
        by_shell = draft.value("program", "shell")
    by_script = field in ("prepare", "ready", "load", "tool")  # `shell` is not for these
    if text is None or (by_shell is True and not by_script):
        return
    way_out = "put the commands into a script" if by_script else "set `shell: true`"
    try:
        words = shlex.split(text)
        quoted = shlex.split(text, posix=False)
    except ValueError:
        draft.report(path, f"`{field}` has a quote that is never closed: close it, or escape it with `\\`")
        return
    if not words or not words[0].strip():
        draft.report(path, f"`{field}` does not name a program: start with the program's name")
    elif _ASSIGNMENT.match(words[0]):
        draft.report(path, f"`{words[0]}` before a command needs a shell, but `{field}` runs without one: {way_out}")
    for word in quoted:
        if _SHELL_WORD.fullmatch(word):
            draft.report(path, f"`{word}` needs a shell, but `{field}` runs without one: {way_out}")
            break


def _first_word(draft: Draft) -> str | None:
    text = draft.text("program", "run")
    if text is None or draft.value("program", "shell") is True:
        return None
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    return words[0] if words and words[0].strip() else None


def _check_program_is_there(draft: Draft) -> None:
    """Check that `run` names an existing program, or a path that starts from the build folder."""
    word = _first_word(draft)
    if word is None:
        return
    path: YamlPath = ("program", "run")
    working_folder = draft.text("program", "working_folder") or "{scratch}"
    if "/" in word and not word.startswith(("/", "{")) and working_folder.startswith(("{scratch}", "{spec}", "/")):
        start = "{build}" if draft.has("program", "build") else "{spec}"
        name = PurePosixPath(word).as_posix()
        empty_there = ", which is empty when a run starts" if working_folder.startswith("{scratch}") else ""
        what = f"`{word}` is relative to the working folder{empty_there}: write `{start}/{name}`"
        draft.report(path, what)
    elif any(name.startswith(PARAMETER) for name in find_placeholders(word)) and (
        # A preloaded sampler, or a metric that is not compiled in, needs the name of the program.
        not draft.has("program", "build") or _means(draft) - {"compiled"}
    ):
        draft.report(
            path,
            f"`{word}`: the program's name cannot depend on a parameter, because the sampler or a metric finds the "
            "program by name: pass the parameter as an argument, or build the program and use only metrics that are "
            "compiled in",
        )
    elif not draft.has("program", "build") and set(find_placeholders(word)) <= {"spec"} and not _ASSIGNMENT.match(word):
        program = substitute(word, {"spec": str(draft.folder)})
        search = draft.text("program", "environment", "PATH") or PROGRAM_PATH
        if shutil.which(program, path=search) is None:
            where = "is not a program" if "/" in word else f"is not a program on the PATH ({search})"
            mend = "correct" if "/" in word else "give"
            draft.report(path, f"`{word}` {where}, and there is no `build`: install the program, or {mend} its path")


def _check_load_is_there(draft: Draft) -> None:
    """Check that `load`, and a command in `ready`, name existing programs."""
    search = draft.text("program", "environment", "PATH") or PROGRAM_PATH
    for field in ("load", "ready"):
        text = draft.text("program", field) or ""
        if is_address(text):
            continue
        try:
            word = next(iter(shlex.split(text)), "")
        except ValueError:
            continue
        if word.strip() and set(find_placeholders(word)) <= {"spec"} and not _ASSIGNMENT.match(word):
            program = substitute(word, {"spec": str(draft.folder)})
            if "/" not in word and shutil.which(program, path=search) is None:
                what = f"`{word}` is not a program on the PATH ({search}): install the program, or give its path"
                draft.report(("program", field), what)
            elif "/" in word and shutil.which(program) is None:
                draft.report(("program", field), f"`{word}` is not a program: correct its path")


def _check_working_folder(draft: Draft) -> None:
    text = draft.text("program", "working_folder")
    if text is not None and (not _WORKING_FOLDER.fullmatch(text) or ".." in PurePosixPath(text).parts):
        draft.report(
            ("program", "working_folder"),
            f"`{text}` cannot be the working folder: use `{{scratch}}`, `{{build}}`, `{{spec}}`, a folder below one of "
            f"them, such as `{{build}}/tests`, or an absolute path",
        )


def _check_inputs(draft: Draft) -> None:
    taken: dict[str, str] = {}
    for path, text in draft.texts("program", "inputs"):
        name = PurePosixPath(text).name
        if name in taken:
            what = f"`{text}` and `{taken[name]}` would both become `{{inputs}}/{name}`: rename one of them"
            twice = f"`{text}` appears twice in this list: remove the duplicate"
            draft.report(path, twice if taken[name] == text else what)
            continue
        taken[name] = text
        if not _is_file(draft.folder / text):
            draft.report(path, _no_such(draft, "file", text))


def _check_stdin(draft: Draft) -> None:
    text = draft.text("program", "stdin")
    path: YamlPath = ("program", "stdin")
    if text is None:
        return
    if not text.startswith(("/", "{")):
        draft.report(
            path,
            f"`{text}` lacks a folder: write `{{inputs}}/{text}`, or `{{spec}}/{text}` for a file beside the spec",
        )
        return
    made = draft.has("program", "prepare")
    listed = {PurePosixPath(item).name for _, item in draft.texts("program", "inputs")}
    folder, _, rest = text.partition("/")
    if folder == "{inputs}" and listed and not made and rest not in listed and not find_placeholders(rest):
        what = f"`{rest}` is not listed under `inputs`, and there is no `prepare` to create it"
        draft.report(path, f"{what}: list it, or add `prepare`")
    elif folder in ("", "{spec}") and not find_placeholders(rest):
        file = Path(f"/{rest}") if folder == "" else draft.folder / rest
        if not _is_file(file):
            draft.report(path, f"no such file: `{text}`")


def _check_outputs(draft: Draft) -> None:
    for path, text in draft.distinct_texts("program", "outputs"):
        if text.startswith(("/", "{")) or ".." in PurePosixPath(text).parts:
            draft.report(path, f"`{text}` is not inside the working folder: write a path relative to that folder")


def _check_environment(draft: Draft) -> None:
    for name, path in draft.keys("program", "environment").items():
        if name.startswith("UNPERTURBED_"):
            what = "the sampler uses the variables that start with `UNPERTURBED_`"
            draft.report_key(path, f"`{name}` is reserved: {what}")
        elif name == "LD_PRELOAD" and not draft.has("program", "build"):
            draft.report_key(
                path,
                "`LD_PRELOAD` is reserved: without `build`, the sampler is loaded into the program with `LD_PRELOAD`",
            )
        elif name == "LD_PRELOAD" and PRELOADED & _means(draft):
            draft.report_key(
                path, "`LD_PRELOAD` is reserved: software metrics with `preload`, `python` or `jvm` need it"
            )


def _is_file(path: Path) -> bool:
    return os.path.isfile(path)  # noqa: PTH113  unlike `Path.is_file`, never raises for a long name


def _no_such(draft: Draft, kind: str, text: str) -> str:
    parent, _, name = text.rpartition("/")
    try:
        with os.scandir(draft.folder / parent) as entries:
            present = [entry.name for entry, _ in zip(entries, range(_MOST_LISTED), strict=False)]
    except (OSError, ValueError):
        present = []
    if name in present:
        return f"`{text}` is not a {kind}"
    hint = draft.did_you_mean(name, present, before=f"{parent}/" if parent else "")
    return f"no such {kind}: `{text}` (relative to the spec's folder){f'; {hint}' if hint else ''}"


PROGRAM = SpecKey(
    "program", Program, "The measured program: its source, and how it is built and run.", _check, required=True
)
