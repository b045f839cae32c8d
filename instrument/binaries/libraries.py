"""Which file a binary's name stands for: the program, a library that it loads, a program that it may start."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from unperturbed.common import supervision
from unperturbed.common.wording import nearest
from unperturbed.errors import SpecError
from unperturbed.instrument.binaries.elf import Binary, read_binary

_LOADED = re.compile(r"^\s+(?:(?P<name>\S+) => )?(?P<path>/.*?)(?: \(0x[0-9a-f]+\))?$", re.MULTILINE)
_MISSING = re.compile(r"^\s+(\S+) => not found$|shared librar\w+:? (\S+?):", re.MULTILINE)


def needed_libraries(program: Path, library_path: Sequence[Path] = ()) -> Mapping[str, Path]:
    """Return the libraries that the dynamic linker loads for a program or library before it runs.

    Notes
    -----
    The program's own dynamic linker is asked (`ld.so --list`, as ldd(1) does): run paths, `$ORIGIN`, the cache and the
    variants for this processor are its business. Nothing of the program is executed. What a program opens itself
    (dlopen) is not known before it does.
    """
    binary = read_binary(program)
    if not binary.needed:
        return {}
    linker = binary.interpreter or _linker_of_this_host(binary)
    environment = {"LD_LIBRARY_PATH": ":".join(map(str, library_path)), "LC_ALL": "C"}
    try:
        listed = supervision.run(
            [linker, "--list", str(program.absolute())], env=environment, capture_output=True, text=True
        )
    except OSError as error:
        raise SpecError(f"{program}: its dynamic linker {linker} does not run here ({error.strerror})") from None
    missing = [name for names in _MISSING.findall(listed.stdout + listed.stderr) for name in names if name]
    if missing:
        raise SpecError(
            f"{program}: it needs {', '.join(dict.fromkeys(missing))}, which the dynamic linker does not "
            f"find; set LD_LIBRARY_PATH in the "
            "spec's environment to the folder that has it"
        )
    if listed.returncode != 0:
        raise SpecError(f"{program}: the dynamic linker cannot load it: {listed.stderr.strip()}")
    return {found["name"] or Path(found["path"]).name: Path(found["path"]) for found in _LOADED.finditer(listed.stdout)}


def _linker_of_this_host(library: Binary) -> str:
    """Return the dynamic linker that runs this host's own programs, for a library that names none."""
    host = read_binary(Path("/proc/self/exe").resolve())
    if host.machine != library.machine or not host.interpreter:
        raise SpecError(f"{library.path}: a library for another machine ({library.machine}) than this ({host.machine})")
    return host.interpreter


def find_binary(
    name: str, *, program: Path, search_path: Sequence[Path] = (), library_path: Sequence[Path] = ()
) -> Path:
    """Return the file that a name in a target stands for.

    `name`: A path, absolute or from the program's folder; the program's own name; the name of a library that it loads,
    as it asks for it or as its file is called; or the name of another program, in the program's folder or the search
    path.
    """
    if "/" in name:
        return read_binary(program.absolute().parent / name).path
    if name == program.name:
        return read_binary(program).path
    libraries: Mapping[str, Path] = {}
    script = ""
    try:
        libraries = needed_libraries(program, library_path)
    except SpecError as error:
        script = f"; its libraries are not known: {error}"
    for known, path in libraries.items():
        if name in (known, path.name, path.resolve().name):
            return path
    for folder in (program.absolute().parent, *search_path):
        path = folder / name
        if path.is_file() and os.access(path, os.X_OK):
            return read_binary(path).path
    raise SpecError(_missing(name, program, libraries) + script)


def _missing(name: str, program: Path, libraries: Mapping[str, Path]) -> str:
    near = nearest(name, libraries)
    message = (
        f"{name}: neither the program {program.name}, nor a library that it loads when it starts, nor a program in PATH"
    )
    message += f"; nearest: {', '.join(near)}" if near else ""
    return f"{message}; a library that it opens later, and any other file, is named by its path"
