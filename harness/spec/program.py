"""Rules on `program:` that span several fields: source and build, commands and their placeholders, files that must exist."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from unperturbed.harness.spec.draft import Draft
from unperturbed.harness.spec.models import DEFAULT_TIMEOUT
from unperturbed.harness.spec.placeholders import PARAMETER, PLACEHOLDERS, find_placeholders
from unperturbed.harness.spec.quantities import parse_duration
from unperturbed.harness.spec.sweep import check_parameter
from unperturbed.harness.spec.yamlpos import YamlPath
from unperturbed.instrument.events import EVENT_KEYS, EVENT_KINDS

__all__ = ["PROGRAM_PATH", "check_program"]

PROGRAM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH of a measured program whose spec sets none."""

_COMMANDS = ("build", "prepare", "run")
_WORKING_FOLDER = re.compile(r"\{(scratch|build|source)\}(/.*)?")
_SHELL_WORD = re.compile(r"\|\|?|&&?|;|[0-9]?[<>].*|.*;")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_MOST_LISTED = 500
_SOURCELESS = set(EVENT_KEYS) - set(EVENT_KINDS)
_PRELOADED = {"preload", "python"}


def check_program(draft: Draft) -> None:
    """Note every fault of the program's section that no field has by itself."""
    _check_source(draft)
    for path, field, text in _templates(draft):
        _check_placeholders(draft, path, field, text)
    for field in _COMMANDS:
        _check_words(draft, field)
    _check_program_is_there(draft)
    _check_working_folder(draft)
    _check_inputs(draft)
    _check_stdin(draft)
    _check_outputs(draft)
    _check_environment(draft)
    _check_times(draft)
    _check_layouts(draft)


def _check_source(draft: Draft) -> None:
    has_build = draft.has("program", "build")
    if draft.has("program", "source") and draft.has("program", "debian"):
        draft.blame_key(("program", "debian"), "`source` and `debian` exclude each other: remove one")
    if has_build and not (draft.has("program", "source") or draft.has("program", "debian")):
        draft.blame_key(
            ("program", "build"), "`build` needs a source: name its folder by `source`, or a Debian source package by `debian`"
        )
    source = draft.text("program", "source")
    if source is not None and not _is_folder(draft.folder / source):
        draft.blame(("program", "source"), _no_such(draft, "folder", source))
    compiled = [path for path in draft.keys("measure", "software").values() if _is_compiled(draft.value(*path))]
    if compiled:
        build = draft.text("program", "build")
        if not has_build:
            everything = len(compiled) == len(draft.keys("measure", "software"))
            what = (
                f"{'software metrics are' if everything else 'this software metric is'} compiled into the program, but nothing is compiled: "
                "`program:` has no `build`"
            )
            for path in [("measure", "software")] if everything else compiled:
                draft.blame_key(path, what)
        elif build is not None and not {"cc", "cxx"} & set(find_placeholders(build)):
            draft.blame(
                ("program", "build"),
                "software metrics need the instrumenting compiler: write `{cc}` or `{cxx}` where this command names its compiler, "
                "as in `make CC={cc}`",
            )


def _software(draft: Draft) -> Iterator[object]:
    return (draft.value(*path) for path in draft.keys("measure", "software").values())


def _is_compiled(event: object) -> bool:
    """Tell whether a software metric counts in what is compiled, and not in a program as it is. Of one that says neither, nothing is known."""
    return isinstance(event, dict) and bool(EVENT_KINDS.keys() & event) and not _SOURCELESS & set(event)


def _templates(draft: Draft) -> Iterator[tuple[YamlPath, str, str]]:
    """Yield path, field and text of everything that may hold placeholders."""
    for field in (*_COMMANDS, "stdin", "working_folder"):
        text = draft.text("program", field)
        if text is not None:
            yield ("program", field), field, text
    for path in draft.keys("program", "environment").values():
        text = draft.text(*path)
        if text is not None:
            yield path, "environment", text


def _check_placeholders(draft: Draft, path: YamlPath, field: str, text: str) -> None:
    allowed = [name for name, placeholder in PLACEHOLDERS.items() if field in placeholder.fields]
    for name in find_placeholders(text):
        if name.startswith(PARAMETER):
            check_parameter(draft, path, field, name)
        elif name in draft.keys("parameters") and name not in PLACEHOLDERS:
            draft.blame(path, f"unknown placeholder `{{{name}}}`; did you mean `{{{PARAMETER}{name}}}`?")
        elif name not in allowed:
            meant = draft.nearest(name, allowed)
            hint = (
                f"did you mean `{{{meant}}}`?"
                if meant
                else f"here one may write {', '.join(f'{{{known}}}' for known in allowed)}"
            )
            what = f"`{{{name}}}` cannot stand in `{field}`" if name in PLACEHOLDERS else f"unknown placeholder `{{{name}}}`"
            draft.blame(path, f"{what}; {hint} (the text itself is written `{{{{{name}}}}}`)")
        elif name in ("build", "source") and not draft.has("program", "build"):
            draft.blame(path, f"`{{{name}}}` stands for nothing: without `build` nothing is built")
        elif (
            name == "inputs" and field != "prepare" and not (draft.has("program", "inputs") or draft.has("program", "prepare"))
        ):
            draft.blame(path, "`{inputs}` would be empty: list files under `inputs`, or make them by `prepare`")


def _check_words(draft: Draft, field: str) -> None:
    """Refuse a command that only a shell would understand, when none runs it."""
    text = draft.text("program", field)
    if text is None or (draft.value("program", "shell") is True and field != "prepare"):
        return
    path: YamlPath = ("program", field)
    way_out = "put the commands into a script" if field == "prepare" else "set `shell: true`"
    try:
        words = shlex.split(text)
        quoted = shlex.split(text, posix=False)
    except ValueError:
        draft.blame(path, f"`{field}`: a quote is opened and never closed")
        return
    if not words or not words[0].strip():
        draft.blame(path, f"`{field}`: this names no program")
    elif _ASSIGNMENT.match(words[0]):
        draft.blame(path, f"`{words[0]}` before a command means something to a shell, and none runs `{field}`: {way_out}")
    for word in quoted:
        if _SHELL_WORD.fullmatch(word):
            draft.blame(path, f"`{word}` means something to a shell, and none runs `{field}`: {way_out}")
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
    """Without a build the program must exist; with one, it must be looked for where it was built."""
    word = _first_word(draft)
    if word is None:
        return
    path: YamlPath = ("program", "run")
    working_folder = draft.text("program", "working_folder") or "{scratch}"
    if "/" in word and not word.startswith(("/", "{")) and working_folder.startswith("{scratch}"):
        start = "{build}" if draft.has("program", "build") else "{spec}"
        name = PurePosixPath(word).as_posix()
        what = f"`{word}` would be looked for in the working folder, which is empty when a run starts: write `{start}/{name}`"
        draft.blame(path, what)
    elif any(name.startswith(PARAMETER) for name in find_placeholders(word)) and _is_looked_into(draft):
        draft.blame(
            path,
            f"`{word}`: the program itself cannot be another at each point where the sampler or a metric is put into it by its name: hand the "
            "parameter over as an argument, or build all programs and count in them by what is compiled in",
        )
    elif not draft.has("program", "build") and set(find_placeholders(word)) <= {"spec"} and not _ASSIGNMENT.match(word):
        program = word.replace("{spec}", str(draft.folder))
        search = draft.text("program", "environment", "PATH") or PROGRAM_PATH
        if shutil.which(program, path=search) is None:
            where = "is no program" if "/" in word else f"is no program on the PATH ({search})"
            draft.blame(path, f"`{word}` {where}, and without `build` none is made: install it, or give its path")


def _is_looked_into(draft: Draft) -> bool:
    """Tell whether anything asks which program is run: a sampler that is preloaded, or a metric that is not compiled in."""
    return not draft.has("program", "build") or any(
        isinstance(event, dict) and _SOURCELESS & set(event) for event in _software(draft)
    )


def _check_working_folder(draft: Draft) -> None:
    text = draft.text("program", "working_folder")
    if text is not None and (not _WORKING_FOLDER.fullmatch(text) or ".." in PurePosixPath(text).parts):
        draft.blame(
            ("program", "working_folder"),
            f"`{text}`: the working folder is `{{scratch}}`, `{{build}}` or a folder below one of them, as in `{{build}}/tests`",
        )


def _check_inputs(draft: Draft) -> None:
    taken: dict[str, str] = {}
    for path, text in draft.texts("program", "inputs"):
        name = PurePosixPath(text).name
        if name in taken:
            what = f"`{text}` and `{taken[name]}` would both become `{{inputs}}/{name}`: rename one"
            draft.blame(path, f"`{text}` stands here twice" if taken[name] == text else what)
            continue
        taken[name] = text
        if not _is_file(draft.folder / text):
            draft.blame(path, _no_such(draft, "file", text))


def _check_stdin(draft: Draft) -> None:
    text = draft.text("program", "stdin")
    path: YamlPath = ("program", "stdin")
    if text is None:
        return
    if not text.startswith(("/", "{")):
        draft.blame(
            path, f"`{text}`: say where the file is: `{{inputs}}/{text}`, or `{{spec}}/{text}` for a file beside the spec"
        )
        return
    made = draft.has("program", "prepare")
    listed = {PurePosixPath(item).name for _, item in draft.texts("program", "inputs")}
    folder, _, rest = text.partition("/")
    if folder == "{inputs}" and listed and not made and rest not in listed and not find_placeholders(rest):
        draft.blame(path, f"`{rest}` is not among `inputs`, and no `prepare` makes it")
    elif folder in ("", "{spec}") and not find_placeholders(rest):
        file = Path(f"/{rest}") if folder == "" else draft.folder / rest
        if not _is_file(file):
            draft.blame(path, f"there is no file `{text}`")


def _check_outputs(draft: Draft) -> None:
    seen: set[str] = set()
    for path, text in draft.texts("program", "outputs"):
        if text.startswith(("/", "{")) or ".." in PurePosixPath(text).parts:
            draft.blame(path, f"`{text}`: an output is named relative to the working folder, and lies in it")
        if text in seen:
            draft.blame(path, f"`{text}` stands here twice")
        seen.add(text)


def _check_environment(draft: Draft) -> None:
    for name, path in draft.keys("program", "environment").items():
        if name.startswith("UNPERTURBED_"):
            draft.blame_key(path, f"`{name}`: variables that begin with UNPERTURBED_ belong to the sampler")
        elif name == "LD_PRELOAD" and not draft.has("program", "build"):
            draft.blame_key(path, "`LD_PRELOAD` belongs to the sampler, as the program is not built here")
        elif name == "LD_PRELOAD" and any(_PRELOADED & set(event) for event in _software(draft) if isinstance(event, dict)):
            draft.blame_key(path, "`LD_PRELOAD` belongs to the software metrics that are counted by a library in between")


def _check_times(draft: Draft) -> None:
    try:
        interval = parse_duration(draft.value("measure", "interval"))
        timeout = parse_duration(draft.value("program", "timeout") if draft.has("program", "timeout") else DEFAULT_TIMEOUT)
    except ValueError:
        return  # one is not given, or its own check has a message
    if interval >= timeout:
        draft.blame(("measure", "interval"), f"an interval of {interval} is not shorter than the timeout of a run, {timeout}")


def _check_layouts(draft: Draft) -> None:
    """Layouts vary by linking, and what is not linked by `{cc}` or `{cxx}` cannot vary."""
    path: YamlPath = ("campaign", "layouts")
    if draft.value(*path) != "varied":
        return
    build = draft.text("program", "build")
    if not draft.has("program", "build"):
        draft.blame(
            path,
            "`varied`: a program that is not built here has one layout, as `program:` has no `build`; only the size of the environment varies from "
            "run to run, which it always does",
        )
    elif build is not None and not {"cc", "cxx"} & set(find_placeholders(build)):
        draft.blame(
            ("program", "build"),
            "varied layouts need the compiler that links in them: write `{cc}` or `{cxx}` where this command names its compiler, as in "
            "`make CC={cc}`",
        )


def _is_folder(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112  unlike `Path.is_dir` it never raises, however long the name is


def _is_file(path: Path) -> bool:
    return os.path.isfile(path)  # noqa: PTH113  the same


def _no_such(draft: Draft, kind: str, text: str) -> str:
    parent, _, name = text.rpartition("/")
    try:
        with os.scandir(draft.folder / parent) as entries:
            present = [entry.name for entry, _ in zip(entries, range(_MOST_LISTED), strict=False)]
    except (OSError, ValueError):
        present = []
    meant = draft.nearest(name, present)
    hint = f"; did you mean `{parent}/{meant}`?" if meant and parent else f"; did you mean `{meant}`?" if meant else ""
    if meant == name:
        return f"`{text}` is not a {kind}"
    return f"there is no {kind} `{text}` (looked for from the spec's folder){hint}"
