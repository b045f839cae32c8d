"""The command line of gcc and clang: what it requests, and the command lines that instrumentation derives from it.

First the options and the endings of sources, sorted by what they mean to a wrapper. Response files are read as gcc
reads them.
"""

# pathlib would cost every command of a build 5 ms.
# ruff: noqa: PTH113, PTH119, PTH122, PTH123

from __future__ import annotations

import os.path
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from unperturbed.instrument.layout import LinkLayout


class Options:
    """A set of options; `*` at the end of one stands for whatever follows; `but` are exceptions."""

    def __init__(self, table: str, but: str = "") -> None:
        self.patterns = tuple(table.split())
        self._exact = frozenset(pattern for pattern in self.patterns if not pattern.endswith("*"))
        self._beginnings = tuple(pattern[:-1] for pattern in self.patterns if pattern.endswith("*"))
        self._but: Options | tuple[()] = Options(but) if but else ()

    def __contains__(self, word: str) -> bool:
        return (word in self._exact or word.startswith(self._beginnings)) and word not in self._but


LAUNCHERS = {"ccache", "distcc", "sccache", "icecc", "buildcache"}

_SEPARATE_TABLE = """
    -o -x -I -D -U -L -l -T -u -z -e -h -B -A -b -V -F -include -imacros -isystem -iquote -idirafter -isysroot
    -iprefix -iwithprefix -iwithprefixbefore -imultilib -imultiarch -iframework -MF -MT -MQ -MJ -Xlinker
    -Xpreprocessor -Xassembler -Xclang -Xanalyzer -aux-info -wrapper -target -arch -mllvm -framework --param
    --sysroot -dumpbase -dumpbase-ext -dumpdir -Ttext -Tdata -Tbss --serialize-diagnostics -serialize-diagnostics
    -include-pch
"""
SEPARATE = frozenset(_SEPARATE_TABLE.split())
"""Options whose value is the next argument."""

LANGUAGES = {
    **dict.fromkeys((".c",), "c"),
    **dict.fromkeys((".cc", ".cp", ".cxx", ".cpp", ".CPP", ".c++", ".C"), "c++"),
    ".i": "cpp-output",
    ".ii": "c++-cpp-output",
}
UNCOUNTED = {
    **dict.fromkeys((".s", ".S", ".sx"), "assembly"),
    **dict.fromkeys((".f", ".for", ".ftn", ".F", ".FOR", ".fpp", ".FPP", ".FTN"), "Fortran"),
    **dict.fromkeys((".f90", ".f95", ".f03", ".f08", ".F90", ".F95", ".F03", ".F08"), "Fortran"),
    **dict.fromkeys((".m", ".mi", ".mm", ".M", ".mii"), "Objective-C"),
    **dict.fromkeys((".adb", ".ads"), "Ada"),
    ".d": "D",
    ".go": "Go",
}
"""Ending of a source that gcc or clang compiles and nobody here can put counters into → its language."""

UNCOUNTED_FORCED = {"assembler": "assembly", "assembler-with-cpp": "assembly", "f77": "Fortran", "f95": "Fortran"}
PREPROCESSED = {
    **{"c": "cpp-output", "c++": "c++-cpp-output"},
    **{"cpp-output": "cpp-output", "c++-cpp-output": "c++-cpp-output"},
}
"""Language of a source → language of its preprocessed text."""

HEADERS = frozenset((".h", ".hh", ".H", ".hp", ".hxx", ".hpp", ".HPP", ".h++", ".tcc"))
"""Inputs that make a precompiled header, and no program."""

CXX_DRIVERS = ("g++", "c++", "clang++")


QUESTIONS = Options("""
    -E -M -MM -fsyntax-only -### -dumpversion -dumpmachine -dumpspecs -dumpfullversion -print-* --print-* -version
    --version -V -help --help -help=* --help=* --target-help --preprocess -Qversion -qversion -emit-ast --analyze
    -cc1 -cc1as
""")
"""Options that make a command one that compiles nothing."""

COMPILING = Options("-c -S --compile --assemble")
"""Options of commands that link nothing."""

UNTOUCHED = Options(
    "-save-temps -save-temps=* --save-temps -fmodules* -fdirectives-only -emit-llvm -traditional -traditional-cpp"
)
"""Options whose files or text would not be what they are without us."""

BARE = Options("-r -nostdlib -nodefaultlibs -nolibc -nostartfiles -ffreestanding -dynamiclib -bundle")
LINKER_RELOCATABLE = {"-r", "-i", "--relocatable"}
LIBRARY = {"-shared", "--shared"}
LINKER_LIBRARY = {"-shared", "--shared", "-Bshareable"}

FOLDER_FLAGS = Options("""
    -m* --sysroot* -isysroot* -target --target* -target=* -stdlib=* -nostdinc* -nostdlibinc -nobuiltininc -B*
    --gcc-toolchain* -ffreestanding
""")
"""Options that may change the folders which the compiler searches by itself."""

DEPENDENCIES = Options("""
    -MD -MMD -MP -MG -MF* -MT* -MQ* -MJ* -write-dependencies --write-dependencies -write-user-dependencies
    --write-user-dependencies
""")
DEBUG = Options("""
    -g -g0 -g1 -g2 -g3 -g4 -g5 -g6 -g7 -g8 -g9 -ggdb* -gdwarf* -gstabs* -gsplit-dwarf -gline-tables-only -gz*
""")
LINKING = Options("-l* -L* -Wl,* -s -static* -rdynamic -pie -no-pie -shared* -fuse-ld=* -T -u -z -e -Xlinker")
STRICT = Options("-pedantic-errors -Werror -Werror=*")
MACHINE = Options(
    "-m* --sysroot=* --target=* --gcc-toolchain=* -B* -static -static-pie -target --sysroot -isysroot",
    but="-masm=* -mllvm*",
)


def expanded(words: tuple[str, ...], depth: int = 0) -> tuple[str, ...]:
    """Put the content of response files in their place, as gcc does; a file that cannot be read stays a word."""
    result: list[str] = []
    for word in words:
        if word.startswith("@") and depth < 16 and os.path.isfile(word[1:]):
            with open(word[1:], encoding="utf-8", errors="surrogateescape") as file:
                result += expanded(tuple(_response_words(file.read())), depth + 1)
        else:
            result.append(word)
    return tuple(result)


def response_text(words: Sequence[str]) -> str:
    """Return a response file's text that holds these words."""
    return "".join((re.sub(r"([\s\"'\\])", r"\\\1", word) or '""') + "\n" for word in words)


def _response_words(text: str) -> list[str]:
    """Split a response file: white space separates, quotes join, a backslash takes the next sign as it is."""
    words: list[str] = []
    for found in re.finditer(r"""(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\\.|[^\s"'\\])+""", text, re.DOTALL):
        pieces = re.finditer(r"""\\(.)|["']((?:\\.|[^\\])*?)["']|(.)""", found[0], re.DOTALL)
        words.append("".join(_unescape(piece) for piece in pieces))
    return words


def _unescape(piece: re.Match[str]) -> str:
    escaped, quoted, plain = piece.groups()
    if quoted is not None:
        return re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
    return escaped if escaped is not None else plain


class CommandSource(NamedTuple):
    """A source file of a command."""

    position: int  # Among the arguments
    path: str
    language: str  # `c` or `c++`
    forced: str  # The `-x` in force there; '' when there is none

    @property
    def driver_decides(self) -> bool:
        """Whether the compiler's name, not the source's, sets the language."""
        return not self.forced and LANGUAGES.get(os.path.splitext(self.path)[1]) != self.language


class CompilerCommand(NamedTuple):
    """A compiler command, read."""

    words: tuple[str, ...]  # As given, the compiler first
    compiler: tuple[str, ...]  # Compiler with its launcher (`ccache gcc` are two words)
    arguments: tuple[str, ...]  # What follows, response files expanded
    # C and C++ sources that could be instrumented; empty when nothing is compiled.
    sources: tuple[CommandSource, ...] = ()
    # Other sources that it compiles, such as assembly; `language` is its name for people.
    uncounted: tuple[CommandSource, ...] = ()
    output: str = ""  # Value of -o, '' when there is none
    executable: bool = False  # The command links a program with the C library
    library: bool = False  # It links a shared library with the C library
    static: bool = False  # What it links has no dynamic linker
    reason: str = ""  # Why the sources must be left alone, '' when they need not


class Added(NamedTuple):
    """Arguments that a link gets beside its own inputs."""

    before: tuple[str, ...] = ()  # Words before all others
    after: tuple[str, ...] = ()  # Words after them
    layout: LinkLayout | None = None  # Another order of the inputs

    def to(self, compiler: Sequence[str], arguments: Sequence[str]) -> list[str]:
        """Return the whole command."""
        if self.layout is not None:
            arguments = self.layout.arranged(arguments)
        return [*compiler, *self.before, *arguments, *self.after]


class Argument(NamedTuple):
    """An argument of the command line."""

    position: int  # Position of its first word
    words: tuple[str, ...]  # The option, with its separate value, or the input
    is_input: bool  # It is an input

    @property
    def name(self) -> str:
        """Return the option, as it begins, or the input."""
        return self.words[0]


def parse_command(words: tuple[str, ...]) -> CompilerCommand:
    """Read a command line; the compiler is its first word, or its second behind a launcher such as ccache."""
    launched = len(words) > 1 and os.path.basename(words[0]) in LAUNCHERS and not words[1].startswith("-")
    compiler = words[: 2 if launched else 1]
    arguments = expanded(words[len(compiler) :])
    parsed = split_arguments(arguments)
    plain = CompilerCommand(words, compiler, arguments)
    if any(argument.name in QUESTIONS for argument in parsed):
        return plain
    inputs = [argument for argument in parsed if argument.is_input]
    stops = any(argument.name in COMPILING for argument in parsed)
    outputs = [joined_value(option, "-o") for option in parsed if option.name.startswith("-o") and not option.is_input]
    linked = _linked(parsed) if inputs and not stops else ""
    command = plain._replace(
        output=outputs[-1] if outputs else "",
        executable=linked == "executable",
        library=linked == "library",
        static=any(argument.name in {"-static", "--static", "-static-pie"} for argument in parsed),
    )
    if any(argument.name == "-" for argument in inputs):
        return command  # the text comes once, and is read by the compiler
    sources, uncounted = _sources(parsed, cxx_driver=is_cxx_driver(compiler[-1]))
    untouched = next((argument.name for argument in parsed if argument.name in UNTOUCHED), "")
    reason = f"the command has {untouched}" if untouched else ""
    if any(argument.name == "-include-pch" and not _header_of(argument) for argument in parsed):
        reason = "the command has -include-pch, and the header is not beside it"
    return command._replace(sources=sources, uncounted=uncounted, reason=reason)


def is_cxx_driver(compiler: str) -> bool:
    """Return whether a compiler of this name takes C sources for C++."""
    name = os.path.basename(compiler)
    before, _, version = name.rpartition("-")
    if before and version.replace(".", "").isdigit():
        name = before
    beginnings = [name.removesuffix(driver) for driver in CXX_DRIVERS if name.endswith(driver)]
    return any(not beginning or beginning.endswith(("-", "_")) for beginning in beginnings)


def options_among(command: CompilerCommand, table: Options) -> list[str]:
    """Return the options of a command that a table has, each with its value."""
    parsed = split_arguments(command.arguments)
    return _joined([argument for argument in parsed if not argument.is_input and argument.name in table])


def include_folders(command: CompilerCommand) -> list[str]:
    """Return the folders of -I and -iquote: where a build keeps its own headers."""
    options = [argument for argument in split_arguments(command.arguments) if not argument.is_input]
    return [joined_value(each, name) for each in options for name in ("-iquote", "-I") if each.name.startswith(name)]


def preprocessing_arguments(command: CompilerCommand, source: CommandSource) -> list[str]:
    """Return the arguments that write one source's preprocessed text to standard output, with line markers."""
    kept = [
        argument
        for argument in _with_plain_headers(split_arguments(command.arguments))
        if not argument.is_input
        and argument.name not in DEPENDENCIES
        and argument.name not in DEBUG
        and argument.name not in LINKING
        and not _is_strict(argument)
        and argument.name not in {"-c", "-S", "-P", "-C", "-CC", "-v", "-x", "-pipe"}
        and not argument.name.startswith(("-o", "-x"))
    ]
    return [*_joined(kept), "-E", "-x", source.language, source.path]


def checking_arguments(command: CompilerCommand, *, color: bool) -> list[str]:
    """Return the arguments with which the compiler only reads the original sources.

    Its diagnostics, exit code and dependency files are then those of the original command: gcc and clang name
    dependency files and their targets alike with -fsyntax-only, so that every -M option stays.

    `color`: The diagnostics go through us to a terminal, which the compiler cannot see.
    """
    sources = {source.position for source in command.sources}
    parsed = split_arguments(command.arguments)
    kept = [arg for arg in parsed if (arg.position in sources if arg.is_input else _is_read(arg))]
    # The user's own choice comes later, and wins.
    return [*(["-fdiagnostics-color=always"] if color else []), *_joined(kept), "-fsyntax-only"]


def compiling_arguments(command: CompilerCommand, texts: dict[int, str]) -> list[str]:
    """Return the arguments that compile rewritten texts in place of sources; the others are compiled as they are.

    Comments and the origins of macros are gone from the text, so warnings could be new and are off (-w);
    `checking_arguments` has shown the right ones. The dependency files are written already. After the first -x, g++
    compiles `x.c` as C: -x c++ keeps it C++.

    `texts`: Position of a source among the arguments → path of its rewritten text.
    """
    sources = {source.position: source for source in command.sources}
    result: list[str] = []
    has_own = False
    for argument in _without_forced_headers(split_arguments(command.arguments)):
        if argument.is_input and argument.position in texts:
            source = sources[argument.position]
            result += ["-x", PREPROCESSED[source.language], texts[argument.position], "-x", source.forced or "none"]
        elif argument.position in sources and not has_own and sources[argument.position].driver_decides:
            result += ["-x", sources[argument.position].language, *argument.words, "-x", "none"]
        elif argument.is_input or not (argument.name in DEPENDENCIES or _is_strict(argument)):
            result += argument.words
            has_own |= argument.name.startswith("-x")
    return [*result, "-w"]


def machine_flags(command: CompilerCommand) -> list[str]:
    """Return the options that choose the machine, which an object must share to be linked in."""
    return options_among(command, MACHINE)


def split_arguments(arguments: tuple[str, ...]) -> list[Argument]:
    """Return options, with their separate values, and inputs; response files are expanded already."""
    result: list[Argument] = []
    index = 0
    while index < len(arguments):
        word = arguments[index]
        width = 2 if word in SEPARATE and index + 1 < len(arguments) else 1
        result.append(Argument(index, arguments[index : index + width], word == "-" or not word.startswith("-")))
        index += width
    return result


def _header_of(argument: Argument) -> str:
    """Return the header that was compiled into the file of `-include-pch x.h.pch`; '' when it is not beside it."""
    header = os.path.splitext(argument.words[-1])[0]
    return header if os.path.isfile(header) else ""


def _with_plain_headers(arguments: list[Argument]) -> list[Argument]:
    """Put headers in the place of those that clang has compiled before: only their text can be rewritten."""
    result: list[Argument] = []
    rest = iter(arguments)
    for argument in rest:
        if argument.words == ("-Xclang", "-include-pch"):
            next(rest, None)  # as CMake writes it, with the header's own -Xclang -include behind it
        elif argument.name == "-include-pch":
            result.append(argument._replace(words=("-include", _header_of(argument))))
        else:
            result.append(argument)
    return result


def _without_forced_headers(arguments: list[Argument]) -> list[Argument]:
    """Leave out headers that clang would read once more, though the text has them."""
    result: list[Argument] = []
    rest = iter(arguments)
    for argument in rest:
        if argument.words in (("-Xclang", "-include-pch"), ("-Xclang", "-include")):
            next(rest, None)
        elif argument.name != "-include-pch":
            result.append(argument)
    return result


def _joined(arguments: list[Argument]) -> list[str]:
    return [word for argument in arguments for word in argument.words]


def joined_value(argument: Argument, option: str) -> str:
    """Return an option's value, joined to the option or in the next argument."""
    return argument.words[1] if argument.name == option and len(argument.words) > 1 else argument.name[len(option) :]


def _sources(
    parsed: list[Argument], *, cxx_driver: bool
) -> tuple[tuple[CommandSource, ...], tuple[CommandSource, ...]]:
    """Return the sources that could be instrumented, and those that are compiled and could not."""
    forced = ""
    sources, uncounted = [], []
    for argument in parsed:
        if not argument.is_input:
            if argument.name.startswith("-x"):
                forced = joined_value(argument, "-x")
                forced = "" if forced == "none" else forced
            continue
        ending = os.path.splitext(argument.name)[1]
        language = forced or LANGUAGES.get(ending, "")
        if cxx_driver and not forced and language in {"c", "cpp-output"}:
            language = {"c": "c++", "cpp-output": "c++-cpp-output"}[language]
        if language in PREPROCESSED:
            sources.append(CommandSource(argument.position, argument.name, language, forced))
        elif other := UNCOUNTED_FORCED.get(forced, "") if forced else UNCOUNTED.get(ending, ""):
            uncounted.append(CommandSource(argument.position, argument.name, other, forced))
    return tuple(sources), tuple(uncounted)


def _linked(parsed: list[Argument]) -> str:
    """Return `executable` or `library` for what a command links together with the C library, else ''."""
    linked = "executable"
    for argument in parsed:
        if argument.is_input:
            if os.path.splitext(argument.name)[1] in HEADERS:
                return ""
            continue
        if argument.name in BARE or (argument.name.startswith("-x") and argument.words[-1].endswith("-header")):
            return ""
        passed = argument.name.split(",")[1:] if argument.name.startswith("-Wl,") else []
        passed += argument.words[1:] if argument.name == "-Xlinker" else []
        if LINKER_RELOCATABLE & set(passed):
            return ""
        if argument.name in LIBRARY or LINKER_LIBRARY & set(passed):
            linked = "library"
    return linked


def _is_read(argument: Argument) -> bool:
    """Return whether an option decides what the compiler reads: it does not belong to the linker."""
    return argument.name not in LINKING and argument.name != "-v"


def _is_strict(argument: Argument) -> bool:
    """Return whether an option turns warnings into errors, or writes dependency files past the driver."""
    return argument.name in STRICT or (argument.name.startswith("-Wp,") and "-M" in argument.name)
