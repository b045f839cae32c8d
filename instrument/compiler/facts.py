"""Facts that the compiler reports about itself, and the runtime's objects that it compiles; cached by toolchain.

The facts are its predefined macros, whether its linker exports single symbols, and its folders of headers.
"""

# pathlib, shutil and subprocess would cost every command that is instrumented 16 ms.
# ruff: noqa: PTH103, PTH105, PTH108, PTH110, PTH116, PTH118, PTH119, PTH120, PTH123, PTH208

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

from unperturbed.errors import HostError
from unperturbed.instrument.command_line import FOLDER_FLAGS, Added, CompilerCommand, machine_flags, options_among
from unperturbed.instrument.compiler.processes import captured, first_error, found_on_path
from unperturbed.instrument.compiler.settings import ToolchainSettings
from unperturbed.instrument.files import write_whole
from unperturbed.instrument.finding.preprocessed import Facts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unperturbed.instrument.layout import LinkLayout

_STANDARDS = {
    "c": ((0, "89"), (199901, "99"), (201112, "11"), (201710, "17"), (202000, "2x")),
    "c++": ((0, "98"), (201103, "11"), (201402, "14"), (201703, "17"), (202002, "20"), (202100, "23"), (202400, "26")),
}
_TARGETS = {
    "__x86_64__": "x86_64-linux-gnu",
    "__i386__": "i686-linux-gnu",
    "__aarch64__": "aarch64-linux-gnu",
    "__arm__": "arm-linux-gnueabihf",
}
_DIALECT = {
    "-fplan9-extensions": "-fms-extensions",
    **{flag: flag for flag in ("-fms-extensions", "-fchar8_t", "-fno-char8_t", "-fno-operator-names")},
    **{flag: flag for flag in ("-fshort-enums", "-fno-short-enums", "-mms-bitfields", "-fshort-wchar")},
    **{flag: flag for flag in ("-funsigned-char", "-fsigned-char", "-fpack-struct")},
    **{flag: flag for flag in (f"-fpack-struct={width}" for width in (1, 2, 4, 8, 16))},
}
"""Options that change the language itself or the layout of its types → clang's equivalents."""

_MACROS = {
    *("__clang__", "__STDC_VERSION__", "__cplusplus", "__STRICT_ANSI__", "__ILP32__", "__ARM_FEATURE_ATOMICS"),
    *_TARGETS,
}
_EXPORTS = tuple(
    f"-Wl,--export-dynamic-symbol={name}"
    for name in (
        *("unperturbed_register", "unperturbed_register_module"),
        *("unperturbed_register_countdown", "unperturbed_interval_ends", "unperturbed_remaining", "unperturbed_apart"),
        "unperturbed_region_entry",
    )
)


def ask_compiler(settings: ToolchainSettings, command: CompilerCommand, language: str) -> Facts:
    """Return facts from the compiler's predefined macros, cached for each set of flags that can change the macros."""
    flags = [*machine_flags(command), *(word for word in command.arguments if re.fullmatch(r"-std=.*|-ansi", word))]
    path = _cache_path(settings, "facts", command, [language, *flags])
    if os.path.exists(path):
        macros: dict[str, str] = json.loads(_content(path))
    else:
        code, output, stderr = captured([*command.compiler, *flags, "-dM", "-E", "-x", language, os.devnull])
        if code:
            raise HostError(f"{command.compiler[-1]} does not print its predefined macros: {first_error(stderr)}")
        definitions = re.findall(r"^#define (\w+) ?(.*)$", output.decode(errors="replace"), re.MULTILINE)
        macros = {name: value for name, value in definitions if name in _MACROS}
        write_whole(path, json.dumps(macros).encode())
    value = macros.get("__cplusplus" if language == "c++" else "__STDC_VERSION__", "0")
    version = int(value.rstrip("L"))
    number = [name for least, name in _STANDARDS[language] if least <= version][-1]
    clang = "__clang__" in macros
    return Facts(
        clang=clang,
        machine=_machine(settings, macros, reads_att=not (clang and "-masm=intel" in command.arguments)),
        standard=("c" if "__STRICT_ANSI__" in macros else "gnu") + language[1:] + number,
        target=next((target for macro, target in _TARGETS.items() if macro in macros), ""),
        dialect=tuple(_DIALECT[word] for word in command.arguments if word in _DIALECT),
    )


def _machine(settings: ToolchainSettings, macros: Mapping[str, str], *, reads_att: bool) -> str:
    if "__x86_64__" in macros and reads_att:
        return "x86-64"
    if "__aarch64__" in macros:
        return "aarch64+lse" if "__ARM_FEATURE_ATOMICS" in macros else "aarch64"
    if settings.form != "counting" and "__x86_64__" in macros:
        syntax = "with clang need AT&T assembly syntax: remove -masm=intel from the build's flags"
        raise HostError(f"{settings.form} builds {syntax}")
    if settings.form != "counting":
        unknown = "on other processors, the length of the instructions that count an event is not known"
        raise HostError(f"{settings.form} builds need x86-64 or AArch64: {unknown}")
    return ""


def link_arguments(settings: ToolchainSettings, command: CompilerCommand) -> Added:
    """Return the arguments added to a link command: a program's runtime, and the bounds of the counters' pages."""
    if not (command.executable or command.library):
        return Added()
    flags = [*machine_flags(command), *(["-DUNPERTURBED_STATIC"] if command.static else [])]
    before, after = [], []
    if command.executable and settings.runtime:
        after += [_runtime_object(settings, command, flags, source) for source in settings.runtime]
    if settings.bounds:
        first, last = settings.bounds
        kind = ["-DUNPERTURBED_EXECUTABLE"] if command.executable else []
        # lld places code from LLVM's own objects last: it is between the bounds only if these are such objects too.
        if "clang" in os.path.realpath(found_on_path(command.compiler[-1])).rpartition("/")[2]:
            flags = [*flags, *(word for word in command.arguments if word.startswith("-flto"))]
        before.append(_runtime_object(settings, command, [*flags, *kind], first))
        after.append(_runtime_object(settings, command, flags, last))
    if command.executable and settings.runtime:
        after += [*(_EXPORTS if _takes_export(settings, command, flags) else ()), "-ldl", "-lrt"]
    layout: LinkLayout | None = None
    if settings.layout:
        from unperturbed.instrument.layout import draw_layout  # noqa: PLC0415  only builds in several layouts need it

        layout = draw_layout(command, settings.layout, settings.place("passing"))
    # An earlier -x would also apply to the objects.
    return Added(tuple(before), ("-x", "none", *after) if after else (), layout)


def _runtime_object(settings: ToolchainSettings, command: CompilerCommand, flags: list[str], source: str) -> str:
    folders = {os.path.dirname(path) for path in (*settings.runtime, *settings.bounds)}
    try:
        headers = sorted(
            os.path.join(folder, name) for folder in folders for name in os.listdir(folder) if name.endswith(".h")
        )
        contents = [_digest(_content(path)) for path in (source, *headers)]
    except OSError as error:
        raise HostError(
            f"cannot read a source file of Unperturbed's runtime: {error.filename} ({error.strerror})"
        ) from None
    path = _cache_path(settings, "runtime", command, [source, *contents, *flags]) + ".o"
    # What `native` means differs between hosts that share a home folder.
    shared = settings.objects and not any(flag.endswith("=native") for flag in flags)
    kept = os.path.join(settings.objects, os.path.basename(path)) if shared else path
    if not os.path.exists(path) and os.path.exists(kept):
        write_whole(path, _content(kept))
    elif not os.path.exists(path):
        aside = _aside(path)
        # DWARF 4, for simulated counters: valgrind before 3.20 cannot run programs that have clang's DWARF 5.
        words = ["-fno-lto", *flags, "-O2", "-fPIC", "-gdwarf-4", "-x", "c", "-c", source, "-o", aside]
        code, _, stderr = captured([command.compiler[-1], *words])
        if code:
            raise HostError(
                f"{command.compiler[-1]} cannot compile Unperturbed's runtime {source}: {first_error(stderr)}"
            )
        os.replace(aside, path)
        if shared:
            write_whole(kept, _content(path))
    return path


def _takes_export(settings: ToolchainSettings, command: CompilerCommand, flags: list[str]) -> bool:
    """Return whether the linker can export single symbols of a program, which libraries opened later need."""
    linker = [word for word in command.arguments if word.startswith("-fuse-ld=")]
    path = _cache_path(settings, "export", command, [*flags, *linker])
    if not os.path.exists(path):
        program = _aside(path)
        words = [command.compiler[-1], *flags, *linker, *_EXPORTS, "-x", "c", "-", "-o", program]
        code, _, _ = captured(words, text=b"int main(void){return 0;}\n")
        if os.path.exists(program):
            os.unlink(program)
        write_whole(path, b"no" if code else b"yes")
    return _content(path) == b"yes"


def _cache_path(settings: ToolchainSettings, subject: str, command: CompilerCommand, words: list[str]) -> str:
    """Return a cache file's path, derived from the words and the compiler's file: a new compiler gets a new path."""
    program = found_on_path(command.compiler[-1])
    identity = [program, os.path.realpath(program)]
    if os.path.exists(program):
        status = os.stat(program)
        identity += [str(status.st_mtime_ns), str(status.st_size)]
    return settings.place("cache", f"{subject}-{_digest(json.dumps([*identity, *words]).encode())}")


def _aside(path: str) -> str:
    """Return a path beside a cache file, to which only this process writes."""
    folder, name = os.path.split(path)
    os.makedirs(folder, exist_ok=True)
    return os.path.join(folder, f"{os.getpid()}.{os.urandom(4).hex()}.{name}")


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _digest(content: bytes) -> str:
    import hashlib  # noqa: PLC0415  sources without a site do not need it

    return hashlib.blake2b(content, digest_size=12).hexdigest()


# -v prints the compiler proper's command line, with everything that a driver or a script passes on to it.
_FOLLOWED = re.compile(
    r"-internal-.*|-i(?:multiarch|multilib|prefix|sysroot|withprefix)|-isysroot.*|-include-pch-.*|-(?:no-)?integrated-.*"
)
_CHANGING = re.compile(
    r"-I.*|-i(?:quote|system|dirafter|nclude|macros).*|-fmodule.*|-ivfsoverlay.*|-fplugin.*|-include-pch.*"
)
_SEARCH_LISTS = (
    r'^#include "\.\.\." search starts here:\n((?: .*\n)*)'
    r"#include <\.\.\.> search starts here:\n((?: .*\n)*)End of search list"
)
_OWN_VARIABLES = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")


def record_include_dirs(settings: ToolchainSettings, command: CompilerCommand, language: str) -> None:
    """Record the compiler's own header folders for the launcher, unless they are already recorded.

    A record is a list of fields, each ended by a zero: T, the compiler's modification time and size; K, a flag; d, a
    folder; D, a definition that the driver adds; U, the search for headers is unknown: every source needs Python.
    """
    flags = options_among(command, FOLDER_FLAGS)
    program = command.compiler[-1]
    path = settings.place("cache", f"folders-{language}-{_mixed([program, *flags]):016x}")
    executable = found_on_path(program)
    if not os.path.exists(executable):
        return
    status = os.stat(executable)
    stamp = f"T{status.st_mtime_ns} {status.st_size}"
    if os.path.exists(path) and _content(path).startswith(stamp.encode() + b"\0"):
        return
    asked = _asked([program, *flags, "-E", "-v", "-x", language, os.devnull])
    fields = [stamp, *(f"K{flag}" for flag in flags), *asked]
    write_whole(path, "".join(f"{field}\0" for field in fields).encode("utf-8", "surrogateescape"))


def _asked(words: list[str]) -> list[str]:
    environment = {name: value for name, value in os.environ.items() if name not in _OWN_VARIABLES}
    code, _, stderr = captured(words, environment={**environment, "LC_ALL": "C"})
    text = stderr.decode("utf-8", "surrogateescape")
    lists = re.search(_SEARCH_LISTS, text, re.M)
    called = re.findall(r"^ .*[/\"]?(?:cc1(?:plus)?\"? |-cc1\"? ).*$", text, re.M)
    if code or lists is None or len(called) != 1 or lists[1] or "(framework directory)" in lists[2]:
        return ["U"]
    if re.search(r"^(?:Reading specs from|Configuration file:)", text, re.M):
        return ["U"]
    handed = re.findall(r'"(?:[^"\\]|\\.)*"|\S+', called[0])
    handed = [word[1:-1] if word.startswith('"') else word for word in handed]
    if any(_CHANGING.fullmatch(word) and not _FOLLOWED.fullmatch(word) for word in handed):
        return ["U"]
    definitions = [word[2:] or handed[index + 1] for index, word in enumerate(handed[:-1]) if word.startswith("-D")]
    return [*(f"D{word}" for word in definitions), *(f"d{line[1:]}" for line in lists[2].splitlines())]


def _mixed(words: list[str]) -> int:
    """Return the hash by which the launcher finds a record: FNV-1a of the words, each followed by a zero byte."""
    value = 0xCBF29CE484222325
    for byte in "".join(f"{word}\0" for word in words).encode("utf-8", "surrogateescape"):
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value
