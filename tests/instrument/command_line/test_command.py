from __future__ import annotations

import pytest

from unperturbed.instrument.command_line import (
    checking_arguments,
    compiling_arguments,
    machine_flags,
    parse_command,
    preprocessing_arguments,
)


def command(line: str):
    return parse_command(tuple(line.split()))


@pytest.mark.parametrize(
    ("line", "sources", "executable"),
    [
        ("gcc -c a.c", [("a.c", "c")], False),
        ("gcc a.c b.cc c.o -lm -o prog", [("a.c", "c"), ("b.cc", "c++")], True),
        ("gcc -I inc -D X=1 -MF d a.c", [("a.c", "c")], True),
        ("g++ a.c b.C x.i", [("a.c", "c++"), ("b.C", "c++"), ("x.i", "c++-cpp-output")], True),
        ("x86_64-linux-gnu-g++-12 a.c", [("a.c", "c++")], True),
        ("clang++-16 -x c a.c -x none b.c", [("a.c", "c"), ("b.c", "c++")], True),
        ("gcc -xc++ a.txt", [("a.txt", "c++")], True),
        ("gcc -shared a.o -o liba.so", [], False),
        ("gcc -Wl,-soname,x -Wl,-shared a.o", [], False),
        ("gcc -Xlinker -r a.o", [], False),
        ("gcc -r a.o b.o", [], False),
        ("gcc -nostdlib start.o", [], False),
        ("gcc a.o", [], True),
        ("gcc -S a.c", [("a.c", "c")], False),
        ("gcc -c start.S", [], False),
        ("gcc -E a.c", [], False),
        ("gcc -MM a.c", [], False),
        ("gcc --version", [], False),
        ("gcc -print-file-name=libc.a", [], False),
        ("gcc -v", [], False),
        ("gcc -xc -", [], True),
        ("gcc shared.h -o shared.h.gch", [], False),
        ("gcc -x c++-header shared.hpp", [], False),
        ("ccache gcc -c a.c", [("a.c", "c")], False),
    ],
)
def test_what_a_command_does(line, sources, executable):
    read = command(line)
    assert [(source.path, source.language) for source in read.sources] == sources
    assert read.executable is executable


def test_launchers_belong_to_the_compiler():
    assert command("ccache gcc -c a.c").compiler == ("ccache", "gcc")
    assert command("gcc -c a.c").compiler == ("gcc",)


@pytest.mark.parametrize("flag", ["-save-temps", "-save-temps=obj", "-fmodules-ts", "-fdirectives-only"])
def test_commands_that_must_not_be_changed_say_why(flag):
    assert command(f"gcc {flag} -c a.c").reason == f"the compiler command uses {flag}"


def test_preprocessing():
    read = command("gcc -c -O2 -DX -I inc -MMD -MF d -MT t -Wp,-MD,e -g3 -Werror -x c a.txt -o a.o -Wall -lm -L. -P")
    assert preprocessing_arguments(read, read.sources[0]) == [
        "-O2",
        "-DX",
        "-I",
        "inc",
        "-Wall",
        "-E",
        "-x",
        "c",
        "a.txt",
    ]


def test_checking_keeps_dependencies_and_drops_what_links():
    read = command("gcc -O2 -MMD -MF d a.c b.o -o prog -lm -L. -Wl,-z,now -static -v -Werror")
    expected = ["-O2", "-MMD", "-MF", "d", "a.c", "-o", "prog", "-Werror", "-fsyntax-only"]
    assert checking_arguments(read, color=False) == expected
    assert checking_arguments(read, color=True) == ["-fdiagnostics-color=always", *expected]


def test_compiling_puts_texts_in_the_place_of_sources():
    read = command("gcc -O2 -MMD -MF d -x c a.txt -x none b.c c.o -o prog -Werror=all -pedantic-errors -lm")
    texts = {source.position: f"/t/{source.path}.i" for source in read.sources[:1]}
    assert compiling_arguments(read, texts) == [
        *(
            "-O2",
            "-x",
            "c",
            "-x",
            "cpp-output",
            "/t/a.txt.i",
            "-x",
            "c",
            "-x",
            "none",
            "b.c",
            "c.o",
            "-o",
            "prog",
            "-lm",
            "-w",
        )
    ]


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("g++ -c a.c b.c c.cc", "-c -x c++-cpp-output /t -x none -x c++ b.c -x none c.cc -w"),
        ("gcc -c a.c b.c c.cc", "-c -x cpp-output /t -x none b.c c.cc -w"),
        ("g++ -c a.cc -x none b.c", "-c -x c++-cpp-output /t -x none -x none b.c -w"),  # C, by the command's own -x
    ],
)
def test_a_source_that_is_compiled_as_it_is_keeps_its_language(line, arguments):
    read = command(line)
    assert compiling_arguments(read, {read.sources[0].position: "/t"}) == arguments.split()


def test_machine_flags():
    read = command("gcc -m32 -march=native -masm=intel -O2 --sysroot=/s -static -isysroot /i -mllvm -x a.c")
    assert machine_flags(read) == ["-m32", "-march=native", "--sysroot=/s", "-static", "-isysroot", "/i"]


def test_response_files_are_read_as_gcc_reads_them(tmp_path):
    inner = tmp_path / "inner"
    inner.write_text("'-DB=x y' \"c d.c\"")
    outer = tmp_path / "outer"
    outer.write_text(f'-c a\\ b.c\n-DA="\\"q\\"" @{inner} @missing \'\'')
    assert command(f"gcc @{outer}").arguments == ("-c", "a b.c", '-DA="q"', "-DB=x y", "c d.c", "@missing", "")
