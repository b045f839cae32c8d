"""The options of gcc and clang, and the endings of sources, sorted by what they mean to a wrapper."""

from __future__ import annotations


class Options:
    """A set of options; `*` at the end of one stands for whatever follows."""

    def __init__(self, table: str) -> None:
        self.patterns = tuple(table.split())
        self._exact = frozenset(pattern for pattern in self.patterns if not pattern.endswith("*"))
        self._beginnings = tuple(pattern[:-1] for pattern in self.patterns if pattern.endswith("*"))

    def __contains__(self, word: str) -> bool:
        return word in self._exact or word.startswith(self._beginnings)


LAUNCHERS = {"ccache", "distcc", "sccache", "icecc", "buildcache"}

_SEPARATE_TABLE = """
    -o -x -I -D -U -L -l -T -u -z -e -h -B -A -b -V -F -include -imacros -isystem -iquote -idirafter -isysroot -iprefix
    -iwithprefix -iwithprefixbefore -imultilib -imultiarch -iframework -MF -MT -MQ -MJ -Xlinker -Xpreprocessor
    -Xassembler
    -Xclang -Xanalyzer -aux-info -wrapper -target -arch -mllvm -framework --param --sysroot -dumpbase -dumpbase-ext
    -dumpdir
    -Ttext -Tdata -Tbss --serialize-diagnostics -serialize-diagnostics -include-pch
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
    "c": "cpp-output",
    "c++": "c++-cpp-output",
    "cpp-output": "cpp-output",
    "c++-cpp-output": "c++-cpp-output",
}
"""Language of a source → language of its preprocessed text."""

HEADERS = frozenset((".h", ".hh", ".H", ".hp", ".hxx", ".hpp", ".HPP", ".h++", ".tcc"))
"""Inputs that make a precompiled header, and no program."""

CXX_DRIVERS = ("g++", "c++", "clang++")


QUESTIONS = Options("""
    -E -M -MM -fsyntax-only -### -dumpversion -dumpmachine -dumpspecs -dumpfullversion -print-* --print-* -version
    --version -V -help
    --help -help=* --help=* --target-help --preprocess -Qversion -qversion -emit-ast --analyze -cc1 -cc1as
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
    --gcc-toolchain*
    -ffreestanding
""")
"""Options that may change the folders which the compiler searches by itself."""

HARMLESS = Options("""
    -O* -g* -W* -f* -std=* --std=* -ansi -pipe -pthread -w -v -s -p -pg -H -undef -pedantic* -static*
    --static -shared* --shared -rdynamic -pie -no-pie -symbolic -coverage --coverage -nostartfiles -nodefaultlibs
    -nostdlib* -nolibc -r
    -Qunused-arguments -Qn -Qy -MD -MMD -MP -MG -MF* -MT* -MQ* -MJ* -o* -l* -L* -U* -T* -u* -z -e -h -Xlinker
    -Xassembler -mllvm
    --param* -dumpbase* -dumpdir -aux-info --serialize-diagnostics -serialize-diagnostics
""")
"""Options that change neither which files are read nor what stands in them."""

HARMLESS_BUT = Options("""
    -fmodule* -fno-module* -fimplicit-module* -fprebuilt-module* -fdirectives-only -fpreprocessed -finput-charset*
    -fplugin*
    -fpass-plugin* -fpch-preprocess -fms-compat* -fsearch* -frewrite* -finclude* -fbuiltin-module* -Wp,* -gen* -Ob*
""")
"""Exceptions to `HARMLESS`: other texts, other ways to find them, or the reason why Python leaves a source alone."""

DEPENDENCIES = Options("""
    -MD -MMD -MP -MG -MF* -MT* -MQ* -MJ* -write-dependencies --write-dependencies -write-user-dependencies
    --write-user-dependencies
""")
DEBUG = Options("""
    -g -g0 -g1 -g2 -g3 -g4 -g5 -g6 -g7 -g8 -g9 -ggdb* -gdwarf* -gstabs* -gsplit-dwarf -gline-tables-only -gz*
""")
LINKING = Options("-l* -L* -Wl,* -s -static* -rdynamic -pie -no-pie -shared* -fuse-ld=* -T -u -z -e -Xlinker")
STRICT = Options("-pedantic-errors -Werror -Werror=*")
MACHINE = Options("-m* --sysroot=* --target=* --gcc-toolchain=* -B* -static -static-pie -target --sysroot -isysroot")
NO_MACHINE = Options("-masm=* -mllvm*")
