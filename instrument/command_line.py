"""Parser for the command lines of gcc and clang, and the command lines that instrumentation derives from them.

The tables at the beginning group options and file extensions by their meaning for the wrapper. Response files are
parsed as gcc parses them.
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
    """Set of options; `*` at the end of an option matches any text, and `but` lists exceptions."""

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
"""Extension of sources that gcc or clang compiles but that cannot be instrumented → language."""

UNCOUNTED_FORCED = {"assembler": "assembly", "assembler-with-cpp": "assembly", "f77": "Fortran", "f95": "Fortran"}
PREPROCESSED = {
    **{"c": "cpp-output", "c++": "c++-cpp-output"},
    **{"cpp-output": "cpp-output", "c++-cpp-output": "c++-cpp-output"},
}
"""Language of a source → language of its preprocessed text."""

HEADERS = frozenset((".h", ".hh", ".H", ".hp", ".hxx", ".hpp", ".HPP", ".h++", ".tcc"))
"""Extensions of inputs that are compiled into a precompiled header, not into a program."""

CXX_DRIVERS = ("g++", "c++", "clang++")


QUESTIONS = Options("""
    -E -M -MM -fsyntax-only -### -dumpversion -dumpmachine -dumpspecs -dumpfullversion -print-* --print-* -version
    --version -V -help --help -help=* --help=* --target-help --preprocess -Qversion -qversion -emit-ast --analyze
    -cc1 -cc1as
""")
"""Options of commands that compile nothing."""

COMPILING = Options("-c -S --compile --assemble")
"""Options of commands that link nothing."""

UNTOUCHED = Options(
    "-save-temps -save-temps=* --save-temps -fmodules* -fdirectives-only -emit-llvm -traditional -traditional-cpp"
)
"""Options whose output files or preprocessed text instrumentation would change."""

BARE = Options("-r -nostdlib -nodefaultlibs -nolibc -nostartfiles -ffreestanding -dynamiclib -bundle")
LINKER_RELOCATABLE = {"-r", "-i", "--relocatable"}
LIBRARY = {"-shared", "--shared"}
LINKER_LIBRARY = {"-shared", "--shared", "-Bshareable"}

FOLDER_FLAGS = Options("""
    -m* --sysroot* -isysroot* -target --target* -target=* -stdlib=* -nostdinc* -nostdlibinc -nobuiltininc -B*
    --gcc-toolchain* -ffreestanding
""")
"""Options that may change the compiler's built-in search folders."""

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
    """Replace each response file `@file` with its words, as gcc does; keep the argument if no such file exists."""
    result: list[str] = []
    for word in words:
        if word.startswith("@") and depth < 16 and os.path.isfile(word[1:]):
            with open(word[1:], encoding="utf-8", errors="surrogateescape") as file:
                result += expanded(tuple(_response_words(file.read())), depth + 1)
        else:
            result.append(word)
    return tuple(result)


def response_text(words: Sequence[str]) -> str:
    """Return the text of a response file that contains the words."""
    return "".join((re.sub(r"([\s\"'\\])", r"\\\1", word) or '""') + "\n" for word in words)


def _response_words(text: str) -> list[str]:
    """Split a response file: whitespace separates words, quotes join them, a backslash escapes the next character."""
    words: list[str] = []
    for word in re.finditer(r"""(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\\.|[^\s"'\\])+""", text, re.DOTALL):
        pieces = re.finditer(r"""\\(.)|["']((?:\\.|[^\\])*?)["']|(.)""", word[0], re.DOTALL)
        words.append("".join(_unescape(piece) for piece in pieces))
    return words


def _unescape(piece: re.Match[str]) -> str:
    escaped, quoted, plain = piece.groups()
    if quoted is not None:
        return re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
    return escaped if escaped is not None else plain


class CommandSource(NamedTuple):
    """Source file of a compiler command."""

    position: int  # Index among the arguments
    path: str
    language: str  # `c` or `c++`
    forced: str  # Language that `-x` sets here; '' if none

    @property
    def driver_decides(self) -> bool:
        """Whether the compiler's name, not the file's extension, determines the language."""
        return not self.forced and LANGUAGES.get(os.path.splitext(self.path)[1]) != self.language


class CompilerCommand(NamedTuple):
    """Parsed compiler command."""

    words: tuple[str, ...]  # Whole command, the compiler or its launcher first
    compiler: tuple[str, ...]  # Compiler, after its launcher if any (`ccache gcc`: two words)
    arguments: tuple[str, ...]  # Arguments of the compiler, response files expanded
    # C and C++ sources that can be instrumented; empty if the command compiles nothing.
    sources: tuple[CommandSource, ...] = ()
    # Other sources that the command compiles, such as assembly; `language` is the language's display name.
    uncounted: tuple[CommandSource, ...] = ()
    output: str = ""  # Value of -o; '' if absent
    executable: bool = False  # The command links a program with the C library
    library: bool = False  # The command links a shared library with the C library
    static: bool = False  # The command links statically, so the output has no dynamic linker
    reason: str = ""  # Why the sources must not be instrumented; '' if they may be


class Added(NamedTuple):
    """Arguments that instrumentation adds to a link."""

    before: tuple[str, ...] = ()  # Words before the link's own arguments
    after: tuple[str, ...] = ()  # Words after the link's own arguments
    layout: LinkLayout | None = None  # Random layout, which may reorder the inputs

    def to(self, compiler: Sequence[str], arguments: Sequence[str]) -> list[str]:
        """Return the complete command line."""
        if self.layout is not None:
            arguments = self.layout.arranged(arguments)
        return [*compiler, *self.before, *arguments, *self.after]


class Argument(NamedTuple):
    """Argument of a command line."""

    position: int  # Index of its first word
    words: tuple[str, ...]  # The option, with its separate value, or the input
    is_input: bool  # Whether the argument is an input file

    @property
    def name(self) -> str:
        """Return the first word: the option, or the input file."""
        return self.words[0]


def parse_command(words: tuple[str, ...]) -> CompilerCommand:
    """Parse a command line; the compiler is the first word, or the second if the first is a launcher such as ccache."""
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
        return command  # stdin can be read only once, and the compiler reads it
    sources, uncounted = _sources(parsed, cxx_driver=is_cxx_driver(compiler[-1]))
    untouched = next((argument.name for argument in parsed if argument.name in UNTOUCHED), "")
    reason = f"the compiler command uses {untouched}" if untouched else ""
    if any(argument.name == "-include-pch" and not _header_of(argument) for argument in parsed):
        reason = "the compiler command uses -include-pch, but the header is not next to its .pch file"
    return command._replace(sources=sources, uncounted=uncounted, reason=reason)


def is_cxx_driver(compiler: str) -> bool:
    """Return whether a compiler with this name compiles C sources as C++."""
    name = os.path.basename(compiler)
    before, _, version = name.rpartition("-")
    if before and version.replace(".", "").isdigit():
        name = before
    beginnings = [name.removesuffix(driver) for driver in CXX_DRIVERS if name.endswith(driver)]
    return any(not beginning or beginning.endswith(("-", "_")) for beginning in beginnings)


def options_among(command: CompilerCommand, table: Options) -> list[str]:
    """Return a command's options that a table contains, each with its value."""
    parsed = split_arguments(command.arguments)
    return _joined([argument for argument in parsed if not argument.is_input and argument.name in table])


def include_folders(command: CompilerCommand) -> list[str]:
    """Return the folders of -I and -iquote, which contain a build's own headers."""
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
    """Return the arguments that make the compiler check the original sources without compiling them.

    The diagnostics, exit code and dependency files equal the original command's. With -fsyntax-only, gcc and clang
    give dependency files and their targets the same names, so every -M option is kept.

    `color`: The wrapper passes the diagnostics on to a terminal, which the compiler cannot detect.
    """
    sources = {source.position for source in command.sources}
    parsed = split_arguments(command.arguments)
    kept = [arg for arg in parsed if (arg.position in sources if arg.is_input else _is_read(arg))]
    # An option of the user follows and takes precedence.
    return [*(["-fdiagnostics-color=always"] if color else []), *_joined(kept), "-fsyntax-only"]


def compiling_arguments(command: CompilerCommand, texts: dict[int, str]) -> list[str]:
    """Return the arguments that compile rewritten texts in place of their sources, and other sources unchanged.

    The texts lack comments and the origins of macros, which could cause new warnings: -w turns warnings off. The
    command from `checking_arguments` has already printed the correct warnings and written the dependency files. After
    the first -x, g++ would compile `x.c` as C: -x c++ keeps it C++.

    `texts`: Index of a source among the arguments → path of its rewritten text.
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
    """Return the options that select the target machine, which all linked objects must share."""
    return options_among(command, MACHINE)


def split_arguments(arguments: tuple[str, ...]) -> list[Argument]:
    """Group words into options (each with its separate value) and inputs; response files must be expanded already."""
    result: list[Argument] = []
    index = 0
    while index < len(arguments):
        word = arguments[index]
        width = 2 if word in SEPARATE and index + 1 < len(arguments) else 1
        result.append(Argument(index, arguments[index : index + width], word == "-" or not word.startswith("-")))
        index += width
    return result


def _header_of(argument: Argument) -> str:
    """Return the header `x.h` of `-include-pch x.h.pch`; '' if it is not next to the .pch file."""
    header = os.path.splitext(argument.words[-1])[0]
    return header if os.path.isfile(header) else ""


def _with_plain_headers(arguments: list[Argument]) -> list[Argument]:
    """Replace clang's precompiled headers with the headers themselves: only their text can be rewritten."""
    result: list[Argument] = []
    rest = iter(arguments)
    for argument in rest:
        if argument.words == ("-Xclang", "-include-pch"):
            next(rest, None)  # as CMake writes it; the header's own -Xclang -include follows
        elif argument.name == "-include-pch":
            result.append(argument._replace(words=("-include", _header_of(argument))))
        else:
            result.append(argument)
    return result


def _without_forced_headers(arguments: list[Argument]) -> list[Argument]:
    """Remove forced headers: the preprocessed text contains them, and clang would read them again."""
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
    """Return an option's value: the rest of its first word, or its second word."""
    return argument.words[1] if argument.name == option and len(argument.words) > 1 else argument.name[len(option) :]


def _sources(
    parsed: list[Argument], *, cxx_driver: bool
) -> tuple[tuple[CommandSource, ...], tuple[CommandSource, ...]]:
    """Return the sources that can be instrumented, and the compiled sources that cannot."""
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
    """Return `executable` or `library` if the command links one with the C library; '' otherwise."""
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
    """Return whether an option affects how the compiler reads sources: it is neither a linker option nor -v."""
    return argument.name not in LINKING and argument.name != "-v"


def _is_strict(argument: Argument) -> bool:
    """Return whether an option turns warnings into errors, or writes dependency files with -Wp."""
    return argument.name in STRICT or (argument.name.startswith("-Wp,") and "-M" in argument.name)
