"""Metrics of the Java virtual machine: its development kit, search for methods, and the option that loads the counters.

A library (JVMTI) in the machine counts its events, and inserts a counting call into named methods as their classes are
loaded. No file of the program is built or changed.
"""

from __future__ import annotations

import mmap
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from unperturbed.common import supervision
from unperturbed.common.wording import nearest
from unperturbed.errors import HostError, SpecError
from unperturbed.instrument.events.event import Event
from unperturbed.instrument.java.class_file import ClassFile, Method, read_class_file
from unperturbed.instrument.java.command_line import JavaCommand, classes_on, read_java_command

_OLDEST = 11
_MOST_METRICS = 256
_PATIENCE_S = 60
_SHOWN = 3
_NEAR_CLASSES = 20
"""Classes whose methods are read to suggest a name."""

_NEVER_COUNTED = ("jdk.internal.misc.Unsafe", "java.lang.UnperturbedCounts")
"""The class that counts, and what it uses."""

_COMMAND = "metrics of a Java virtual machine need a command such as `java -cp classes Main`"
_KIT = "on Debian: apt-get install default-jdk-headless"


@dataclass(frozen=True)
class JavaSite:
    """Method that a metric counts: its archive, folder or source file, its line (0 for unknown), and its signature."""

    file: str
    line: int
    text: str


@dataclass(frozen=True)
class JavaSites:
    """Sites of a metric of a Java virtual machine."""

    sites: tuple[JavaSite, ...]  # Methods that count; for an event, the machine
    uncounted: tuple[str, ...]  # Which entries are not counted, and why
    version: str  # Version of the machine, such as `17.0.15`


@dataclass(frozen=True)
class JavaMachine:
    """The Java virtual machine that a command starts, and what it runs there."""

    home: Path  # Folder of the development kit
    include: Path  # Folder of its C headers
    version: str
    command: JavaCommand
    folder: Path  # Working folder


def java_machine(command: Sequence[str], *, environment: Mapping[str, str], folder: Path) -> JavaMachine:
    """Return the Java virtual machine that a command starts.

    Raises SpecError if the command does not start one by itself, and HostError if its version or its development kit
    cannot be used.
    """
    path = _launcher(command[0], environment, folder)
    home = path.resolve().parent.parent
    if (home.parent / "release").is_file():  # Java 8: jre/bin/java
        home = home.parent
    version = _version(home)
    if int(version.partition(".")[0]) < _OLDEST:
        raise HostError(f"{path}: Java {version} is not supported; use version {_OLDEST} or later")
    own = environment.get("JAVA_HOME")
    places = [home / "include", *([Path(own) / "include"] if own else [])]
    include = next((place for place in places if (place / "jvmti.h").is_file()), None)
    if include is None:
        raise HostError(
            f"{path}: this installation of Java {version} has no C headers ({places[0]}/jvmti.h), which the counting "
            f"library needs: install the development kit of the same version ({_KIT})"
        )
    read = read_java_command(command[1:], folder, environment.get("CLASSPATH"))
    if read.disables or read.kind == "nothing":
        what = f"`{read.disables}` runs no program" if read.disables else "`java` without a class, `-jar` or `-m`"
        raise SpecError(f"{path}: {what}; {_COMMAND}")
    return JavaMachine(home, include, version, read, folder)


def load_option(library: Path, software: Mapping[str, Event]) -> str:
    """Return the option of `java` that loads the library and names what to count.

    `software`: All software metrics, in the order of their numbers.
    """
    counted = [(number, event) for number, event in enumerate(software.values()) if event.means == "jvm"]
    if len(counted) > _MOST_METRICS:
        raise SpecError(f"{len(counted)} metrics of a Java virtual machine exceed the limit of {_MOST_METRICS} per run")
    kinds = {"jvm_event": "event"}
    texts = [f"{number}:{kinds.get(event.kind, event.threads)}:{event.target}" for number, event in counted]
    return f"-agentpath:{library}={';'.join(texts)}"


def counts_methods(software: Mapping[str, Event]) -> bool:
    """Tell whether any metric counts methods, for which classes are changed as they are loaded."""
    return any(event.kind == "jvm" for event in software.values())


def find_java_sites(
    command: Sequence[str], metric: str, event: Event, *, environment: Mapping[str, str], folder: Path
) -> JavaSites:
    """Find what a metric counts, on the class path of the command. No part of the program is loaded or run."""
    machine = java_machine(command, environment=environment, folder=folder)
    if event.kind == "jvm_event":
        site = JavaSite(str(machine.home / "bin/java"), 0, f"{event.target} of Java {machine.version}")
        return JavaSites((site,), (), machine.version)
    class_name, _, method = event.target.rpartition(".")
    if class_name in _NEVER_COUNTED:
        raise SpecError(f"software metric {metric!r}: {class_name} is what the counters themselves use")
    if machine.command.kind == "source":
        compiled = "methods are searched in class files: compile it with javac, and run the class"
        raise SpecError(f"software metric {metric!r}: {machine.command.value} is source code; {compiled}")
    known: dict[str, tuple[Path, Path | None]] = {}
    for place, name, file in classes_on(machine.command.class_path, folder):
        known.setdefault(name, (place, file))
    matching = [name for name in known if fnmatchcase(name, class_name)]
    classes = [(known[name][0], found) for name in matching if (found := _read(name, *known[name])) is not None]
    if not classes and (of_kit := _of_the_kit(machine, class_name)) is not None:
        classes = [(machine.home, of_kit)]
    methods = [
        (place, found, own) for place, found in classes for own in found.methods if fnmatchcase(own.name, method)
    ]
    counted = [item for item in methods if not item[2].uncounted]
    if not counted:
        raise SpecError(f"software metric {metric!r}: {_missing(event.target, machine, known, classes, methods)}")
    sites = tuple(
        JavaSite(found.source or str(place), own.line, f"{found.name}.{own.name}({own.parameters})")
        for place, found, own in counted
    )
    return JavaSites(sites, tuple(_uncounted(methods, machine)), machine.version)


def _launcher(word: str, environment: Mapping[str, str], folder: Path) -> Path:
    """Return the file of the `java` launcher that a word of a command names."""
    found = shutil.which(word if "/" not in word else str(folder / word), path=environment.get("PATH", ""))
    if found is None:
        raise SpecError(f"{word}: no such program" + (f" ({_KIT})" if word == "java" else ""))
    path = Path(found)
    with path.open("rb") as file:
        begin = file.read(256)
        is_image = begin.startswith(b"\x7fELF") and _is_native_image(file.fileno())
    if begin.startswith(b"#!"):
        shell = begin[2:].split(b"\n")[0].decode(errors="replace").strip()
        raise SpecError(f"{path}: this is a script for {shell}; write the `java` command that it executes in `run`")
    if is_image:
        why = "GraalVM compiled this program into a native image, which has no Java virtual machine"
        raise SpecError(f"{path}: {why}: count its functions with `{{probe: {{uprobe: …}}}}`, or run its classes")
    if not begin.startswith(b"\x7fELF") or path.name != "java":
        raise SpecError(f"{path}: this is not the launcher of a Java virtual machine; {_COMMAND}")
    return path


def _is_native_image(descriptor: int) -> bool:
    with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as content:
        return content.find(b".svm_heap") >= 0


def _version(home: Path) -> str:
    """Return the version in the file `release` of an installation."""
    try:
        text = (home / "release").read_text(errors="replace")
    except OSError:
        raise HostError(f"{home}: this is not an installation of Java: it has no file `release`") from None
    match = re.search(r'^JAVA_VERSION="?(\d[\d.]*)', text, re.MULTILINE)
    if match is None:
        raise HostError(f"{home}/release: no JAVA_VERSION in this file")
    return match[1].rstrip(".").removeprefix("1.")


def _read(name: str, place: Path, file: Path | None) -> ClassFile | None:
    try:
        if file is not None:
            return read_class_file(file.read_bytes())
        with zipfile.ZipFile(place) as archive:
            return read_class_file(archive.read(f"{name.replace('.', '/')}.class"))
    except (OSError, KeyError, ValueError, zipfile.BadZipFile):
        return None


def _of_the_kit(machine: JavaMachine, name: str) -> ClassFile | None:
    """Return the methods of a class of the Java library, as the kit's javap shows them; None if there is none."""
    if not re.fullmatch(r"[\w$.]+", name):
        return None
    try:
        done = supervision.run(
            [str(machine.home / "bin/javap"), "-p", name], capture_output=True, text=True, timeout=_PATIENCE_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    methods = []
    is_interface = re.search(r"^(?:[\w@]+ )*interface ", done.stdout, re.MULTILINE) is not None
    for line in done.stdout.splitlines():
        match = re.match(r"  (?P<before>[^()]*?)(?P<name>[\w$.]+)\((?P<parameters>.*?)\)", line)
        if match is None:
            continue
        words = set(match["before"].split())
        has_code = not is_interface or words & {"default", "static", "private"}
        why = "native" if "native" in words else "" if "abstract" not in words and has_code else "abstract"
        own = "<init>" if match["name"] == name else match["name"]
        methods.append(Method(own, match["parameters"].replace(",", ", "), 0, why))
    return ClassFile(name, "", tuple(methods))


def _missing(
    target: str,
    machine: JavaMachine,
    known: Mapping[str, tuple[Path, Path | None]],
    classes: Sequence[tuple[Path, ClassFile]],
    methods: Sequence[tuple[Path, ClassFile, Method]],
) -> str:
    """Explain why no method matches a target."""
    class_name, _, method = target.rpartition(".")
    if methods:
        why = methods[0][2].uncounted
        instead = (
            "count the C function that implements it with `{probe: {uprobe: …}}`"
            if why == "native"
            else "name the method in the classes that implement it"
        )
        return f"{target} is {why} and has no code to count in: {instead}"
    if classes:
        names = list(dict.fromkeys(own.name for _, found in classes for own in found.methods))
        near = [f"{class_name}.{name}" for name in nearest(method, names, limit=_SHOWN)]
        return f"{class_name} has no method {method}{_list(near)}"
    close = [name for name in known if name.rpartition(".")[2].rpartition("$")[2] == re.split(r"[.$]", class_name)[-1]]
    near_classes = list(dict.fromkeys([*close, *nearest(class_name, known, limit=_NEAR_CLASSES)]))
    near = []
    for name in near_classes:
        found = _read(name, *known[name])
        near += [f"{name}.{own.name}" for own in (found.methods if found else ()) if own.name == method]
    shown = ":".join(machine.command.class_path)
    return (
        f"no class {class_name} on the class path ({shown}) or in Java {machine.version}{_list(near or near_classes)}"
    )


def _list(names: Sequence[str]) -> str:
    return f"; nearest names: {', '.join(names[:_SHOWN])}" if names else "; no similar name"


def _uncounted(methods: Sequence[tuple[Path, ClassFile, Method]], machine: JavaMachine) -> Iterator[str]:
    for why in ("native", "abstract"):
        names = [f"{found.name}.{own.name}" for _, found, own in methods if own.uncounted == why]
        if names:
            more = f" and {len(names) - _SHOWN} others" if len(names) > _SHOWN else ""
            yield f"{', '.join(names[:_SHOWN])}{more}: {why}, without code to count in"
    if any(place == machine.home for place, _, _ in methods):
        yield "where the compilers replace a method of the Java library by code of their own (intrinsics)"
