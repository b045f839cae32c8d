"""The wrapper as a compiler: command lines, outputs, dependency files, diagnostics, exit codes, links."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.instrument.conftest import RUNTIME
from unperturbed.instrument.events.event import parse_event
from unperturbed.instrument.missing import missing_metrics

WORK = """\
#include <stdio.h>
#include "shared.h"
int work(int n) { return shared(n) + 1; }
"""
MAIN = """\
#include <stdio.h>
#include "shared.h"
int work(int);
int main(void) { printf("%d\\n", work(2) + shared(1)); return 0; }
"""
SHARED = """\
#ifndef SHARED
#define SHARED
static inline int shared(int n) { return n * 2; }
#endif
"""
SOFTWARE = {"work": {"enter": "work"}, "shared": {"enter": "shared"}}


@pytest.fixture
def shop(workshop, request):
    shop = workshop(SOFTWARE, served=getattr(request, "param", True))
    for name, text in (("work.c", WORK), ("main.c", MAIN), ("shared.h", SHARED)):
        shop.write(name, text)
    return shop


in_build = pytest.mark.parametrize("shop", [False], indirect=True, ids=["in a build"])
"""Of tests in which the wrapper's own process matters: it starts as in a build."""


def counts(shop):
    output, found = shop.run()
    assert output == "7\n"
    return found


@in_build
def test_several_sources_on_one_line(shop):
    shop.call("-O2", "main.c", "work.c", "-o", "prog")
    assert counts(shop) == {"work": 1, "shared": 2}


def test_sources_in_c_are_c_plus_plus_to_its_driver_with_and_without_counters(shop):
    shop.write("idle.c", "bool idle() { return true; }\n")
    shop.call("-c", "work.c", "idle.c", cxx=True)
    names = subprocess.run(["nm", "work.o", "idle.o"], cwd=shop.folder, capture_output=True, text=True, check=True)
    assert re.findall(r" T (\w+)", names.stdout) == ["_Z4worki", "_Z4idlev"]


def test_objects_named_and_not_named(shop):
    shop.call("-c", "main.c", "work.c")
    shop.call("-c", "work.c", "-o", "deep.o")
    shop.call("-S", "work.c")
    assert "incq" in (shop.folder / "work.s").read_text()
    shop.call("main.o", "deep.o", "-o", "prog")
    assert counts(shop) == {"work": 1, "shared": 2}
    assert not list(shop.folder.glob("*.i"))
    assert not list((shop.toolchain.folder / "passing").iterdir())


def test_two_sources_of_one_name(shop):
    shop.write("a/work.c", '#include "../work.c"\n')
    shop.write("b/work.c", "int work_b(void) { return 0; }\n")
    shop.call("main.c", "a/work.c", "b/work.c", "-I.", "-o", "prog")
    assert counts(shop)["work"] == 1


def test_shared_library_and_program(shop):
    shop.call("-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-o", "libempty.so", "-x", "c", "/dev/null")
    shop.call("-O2", "-fPIC", "-shared", "-o", "libwork.so", "work.c")
    symbols = subprocess.run(
        ["nm", "-D", str(shop.folder / "libwork.so")], capture_output=True, text=True, check=True
    ).stdout
    assert "w unperturbed_register" in symbols
    shop.call("-O2", "main.c", "-L.", "-lwork", "-o", "prog")
    assert counts(shop) == {"work": 1, "shared": 2}


def test_library_opened_while_running(shop):
    shop.write(
        "main.c",
        '#include <dlfcn.h>\n#include <stdio.h>\nint main(void) { void *h = dlopen("./libwork.so", RTLD_NOW);\n'
        'int (*f)(int) = (int (*)(int))dlsym(h, "work"); printf("%d\\n", f(3)); return 0; }\n',
    )
    shop.call("-fPIC", "-shared", "-o", "libwork.so", "work.c")
    shop.call("main.c", "-o", "prog")
    assert counts(shop) == {"work": 1, "shared": 1}


@pytest.mark.parametrize(
    "flags",
    [
        ("-flto", "-O2"),
        ("-static", "-O2"),
        ("-g3", "-O1"),
        ("-O2", "-Wl,--gc-sections", "-ffunction-sections"),
        ("--coverage",),
    ],
    ids=" ".join,
)
def test_flags_of_compiling_and_linking(shop, flags):
    shop.call(*flags, "-c", "work.c", "-o", "work.o")
    shop.call(*flags, "-c", "main.c", "-o", "main.o")
    shop.call(*flags, "work.o", "main.o", "-o", "prog")
    assert counts(shop) == {"work": 1, "shared": 2}


def test_odd_texts(workshop):
    shop = workshop({"work": {"enter": "work"}, "loop": {"loop": "work"}})
    lines = [
        b"\xef\xbb\xbf// \xe9t\xe9",
        b"int work(int n)",
        b'<% const char *s = "\xe9\\',
        b' t";',
        b"  while (n-- > 1) <% s++; %>",
        b"  return s[0] != 0;",
        b"%>\n",
    ]
    (shop.folder / "work.c").write_bytes(b"\r\n".join(lines))
    shop.write("main.c", "int work(int);\nint main(void) { return work(3) - 1; }\n")
    shop.call("-O2", "work.c", "main.c", "-o", "prog")
    assert shop.run()[1] == {"work": 1, "loop": 2}
    (shop.folder / "bad.c").write_bytes(b"int work(int n) { int inner(int \xe9) { return 1; } return inner(n); }\n")
    shop.call("-c", "bad.c", code=1)


def test_thirty_two_bits(shop):
    if shop_lacks_multilib():
        pytest.skip("this host has no 32-bit C library")
    shop.call("-m32", "main.c", "work.c", "-o", "prog")
    assert counts(shop) == {"work": 1, "shared": 2}


def shop_lacks_multilib() -> bool:
    probe = subprocess.run(
        ["gcc", "-m32", "-x", "c", "-", "-o", "/dev/null"],
        input="#include <stdio.h>\nint main(void){}",
        text=True,
        capture_output=True,
        check=False,
    )
    return probe.returncode != 0


def test_thirty_two_bit_code_has_volatile_increments(shop):
    shop.write("bare.c", "int work(int n) { return n; }\n")
    assembly = shop.call("-m32", "-O2", "-fno-pic", "-S", "-o", "-", "bare.c").stdout
    assert "incq" not in assembly
    assert re.search(r"\tadcl\t\$0,", assembly)


def test_language_by_option_and_preprocessed_input(shop):
    (shop.folder / "work.txt").write_text(WORK)
    shop.call("-x", "c", "work.txt", "-x", "none", "-c", "-o", "work.o")
    shop.call("-E", "main.c", "-o", "main.i")
    assert "__unperturbed" not in (shop.folder / "main.i").read_text()
    shop.call("main.i", "work.o", "-o", "prog")
    assert counts(shop) == {"work": 1, "shared": 2}


def test_preprocessed_input_without_line_markers(shop):
    shop.call("-E", "-P", "work.c", "-o", "work.i")
    shop.call("-g", "-c", "work.i")
    shop.call("work.o", "main.c", "-o", "prog")
    assert counts(shop) == {"work": 1, "shared": 2}
    assert "work.i" in debug_info(shop.folder / "work.o")


def test_forced_language_does_not_reach_the_runtime(shop):
    shop.call("-x", "c", "main.c", "work.c", "-o", "prog")
    assert counts(shop) == {"work": 1, "shared": 2}


def test_response_files(shop):
    shop.write("inner.rsp", "-DVALUE='a b' -O2\n")
    shop.write("args.rsp", '@inner.rsp -c "work.c"\n-o work\\.o')
    shop.call("@args.rsp")
    shop.write("link.rsp", "main.c work.o -o prog")
    shop.call("@link.rsp")
    assert counts(shop) == {"work": 1, "shared": 2}


@pytest.mark.parametrize(
    "arguments",
    [
        ("-MD", "-c", "work.c"),
        ("-MMD", "-c", "work.c", "-o", "out/w.o"),
        ("-MMD", "-MP", "-MF", "deps", "-MT", "target", "-c", "work.c", "-o", "out/w.o"),
        ("-MD", "-MQ", "$target", "-c", "work.c", "-o", "out/w.o"),
        ("-Wp,-MMD,deps", "-c", "work.c"),
        ("-MMD", "-S", "work.c"),
        ("-MMD", "-c", "work.c", "main.c"),
        ("-MMD", "work.c", "main.c", "-o", "prog"),
        ("-MM", "work.c"),
    ],
    ids=" ".join,
)
def test_dependency_files_are_the_compilers_own(shop, arguments):
    """Whatever dependency files gcc writes for a command, the wrapper leaves the same behind, objects beside them."""
    found = []
    for name, compiler in (("plain", "gcc"), ("wrapped", str(shop.toolchain.cc))):
        folder = shop.folder / name
        (folder / "out").mkdir(parents=True)
        for source in ("work.c", "main.c", "shared.h"):
            shutil.copy(shop.folder / source, folder)
        result = subprocess.run([compiler, *arguments], cwd=folder, capture_output=True, text=True, check=True)
        files = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
        texts = {path: file.read_text() for path, file in files.items() if path.suffix == ".d" or path.name == "deps"}
        found.append((sorted(files), texts, result.stdout))
    assert found[0] == found[1]


@in_build
def test_untouched_commands(shop):
    plain = ["gcc"]
    for arguments in (
        ["--version"],
        ["-dumpmachine"],
        ["-print-search-dirs"],
        ["-E", "work.c"],
        ["-M", "work.c"],
        ["-fsyntax-only", "work.c"],
    ):
        mine = shop.call(*arguments)
        theirs = subprocess.run([*plain, *arguments], cwd=shop.folder, capture_output=True, text=True, check=True)
        assert (mine.stdout, mine.stderr) == (theirs.stdout, theirs.stderr)
    assert shop.call("-xc", "-", "-S", "-o", "-", input="int work(void) { return 1; }").stdout.count("incq") == 0
    shop.write("start.s", ".globl started\nstarted:\n ret\n")
    shop.call("-c", "start.s")
    assert (shop.folder / "start.o").is_file()


def test_saved_temporaries_are_left_alone_and_logged(shop):
    result = shop.call("-save-temps", "-c", "work.c")
    assert "unperturbed cc: note: work.c has no counters: the compiler command uses -save-temps" in result.stderr
    assert (shop.folder / "work.i").read_text().count("__unperturbed") == 0
    assert shop.report.skipped == {"work.c": "the compiler command uses -save-temps"}


def test_a_precompiled_header_is_made_and_used(shop):
    shop.call("shared.h", "-o", "shared.h.gch")
    shop.write("main.c", MAIN.replace('#include "shared.h"\n', ""))
    shop.call("main.c", "work.c", "-include", "shared.h", "-o", "prog")
    assert counts(shop) == {"work": 1, "shared": 2}


def test_warnings_are_the_original_ones(shop):
    text = """\
#include <stdio.h>
#define TWICE(x) ((x) * 2)  /* fall through */
#define EMPTY(x) do { } while (0)
int work(int n) {
    int unused;
    switch (n) { case 1: n++; /* fall through */ case 2: n--; }
    EMPTY(n);
    printf("%s\\n", TWICE(n));
    if (n == n) ;
    return n;
}
"""
    shop.write("work.c", text)
    flags = ["-Wall", "-Wextra", "-O0", "-c", "work.c"]
    theirs = subprocess.run(["gcc", *flags], cwd=shop.folder, capture_output=True, text=True, check=True)
    assert "unused" in theirs.stderr
    assert shop.call(*flags).stderr == theirs.stderr
    refused = shop.call(*flags, "-Werror", code=1)
    assert "work.c:5:9: error: unused variable" in refused.stderr


def test_warnings_are_shown_once_whatever_becomes_of_a_source(shop):
    for name, text in (
        ("declared.c", "int work(int);\nint f(void) { int unused; return (work)(1); }\n"),
        ("unreadable.c", "int work(int n) { int unused; int in(int k) { return n; } return in(1); }\n"),
    ):
        shop.write(name, text)
        assert shop.call("-Wall", "-c", name).stderr.count("unused variable") == 1


@in_build
def test_a_terminal_gets_colours(shop):
    shop.write("work.c", "int work(int n) { int unused; return n; }\n")
    ours, theirs = os.openpty()
    try:
        environment = {**os.environ, "TERM": "xterm", "LC_ALL": "C"}
        subprocess.run(
            [str(shop.toolchain.cc), "-Wall", "-c", "work.c"],
            cwd=shop.folder,
            stderr=theirs,
            check=True,
            env=environment,
        )
        assert b"\x1b[" in os.read(ours, 10_000)
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_project_without_warnings_stays_without(shop):
    text = """\
int work(int n);
int work(int n) {
    switch (n) {
    case 1:
        n++;
        /* fall through */
    case 2:
        if (n) { if (n > 1) n++; }
    }
    return n;
}
"""
    shop.write("work.c", text)
    result = shop.call(
        "-std=c90",
        "-pedantic-errors",
        "-Wall",
        "-Wextra",
        "-Wmissing-prototypes",
        "-Wdeclaration-after-statement",
        "-Werror",
        "-O2",
        "-c",
        "work.c",
    )
    assert result.stderr == ""
    assert len(shop.report.sites["work"]) == 1


@in_build
def test_errors_are_the_compilers_own(shop):
    shop.write("work.c", "#include <stdio.h>\n\nint work(int n) {\n    return undeclared;\n}\n")
    theirs = subprocess.run(["gcc", "-c", "work.c"], cwd=shop.folder, capture_output=True, text=True, check=False)
    assert shop.call("-c", "work.c", code=1).stderr == theirs.stderr
    assert shop.report.sources == ()
    missing = shop.call("-c", "nowhere.c", code=1)
    assert "nowhere.c: No such file" in missing.stderr
    shop.write("bad.c", "#error stop here\nint work(void);\n")
    assert "bad.c:1:2: error: #error stop here" in shop.call("-c", "bad.c", code=1).stderr
    shop.write(
        "work.c", "int work(int n) { return missing(n); }\nint missing(int);\nint main(void) { return work(1); }\n"
    )
    assert "undefined reference to `missing'" in shop.call("-w", "work.c", "-o", "prog", code=1).stderr


@pytest.mark.parametrize(
    ("flags", "reads"),
    [("-w", 0), ("-w -MMD", 1), ("-w -pedantic-errors", 1), ("-w -Werror", 1), ("-w -Wp,-MD,deps", 1), ("-O2", 1)],
)
def test_without_warnings_a_source_is_read_once_less(workshop, tmp_path, flags, reads):
    compiler, log = tmp_path / "gcc", tmp_path / "log"
    compiler.write_text(f'#!/bin/sh\necho "$*" >> {log}\nexec gcc "$@"\n')
    compiler.chmod(0o755)
    shop = workshop(SOFTWARE, compilers={"cc": str(compiler)}, runtime=())
    shop.write("x.c", "int work(int n) { return n; }\n")
    shop.call(*flags.split(), "-c", "x.c")
    assert log.read_text().count("-fsyntax-only") == reads
    assert shop.lines("work") == [1]
    shop.write("wrong.c", "int work(int n) { return m; }\n")
    said = [
        subprocess.run([command, *flags.split(), "-c", "wrong.c"], cwd=shop.folder, capture_output=True, check=False)
        for command in ("gcc", str(shop.toolchain.cc))
    ]
    assert said[0].returncode == said[1].returncode == 1
    assert said[0].stderr == said[1].stderr


def test_linker_messages_are_shown_once(shop):
    shop.write("work.c", WORK + "#include <stdlib.h>\nchar *name(char *s) { return tmpnam(s); }\n")
    result = shop.call("main.c", "work.c", "-o", "prog")
    assert result.stderr.count("is dangerous") == 1


def debug_info(path: Path) -> str:
    return subprocess.run(
        ["readelf", "--debug-dump=info,decodedline", str(path)], capture_output=True, text=True, check=True
    ).stdout


def test_debug_information_names_the_original_places(shop):
    lines = {}
    for name, compiler in (("plain.o", "gcc"), ("counted.o", str(shop.toolchain.cc))):
        subprocess.run([compiler, "-g", "-O0", "-c", "work.c", "-o", name], cwd=shop.folder, check=True)
        info = debug_info(shop.folder / name)
        assert ": work.c\n" in info
        assert f": {shop.folder}\n" in info
        rows = [row.split() for row in info.splitlines()]
        lines[name] = {
            (row[0], row[1]) for row in rows if len(row) > 2 and row[0] in ("work.c", "shared.h") and row[1].isdigit()
        }
    assert lines["plain.o"] == lines["counted.o"] != set()


def test_objects_are_reproducible(shop):
    shop.call("-O2", "-g", "-c", "work.c", "-o", "one.o")
    shop.call("-O2", "-g", "-c", "work.c", "-o", "two.o")
    assert (shop.folder / "one.o").read_bytes() == (shop.folder / "two.o").read_bytes()


def test_parallel_make(workshop):
    shop = workshop({"part": {"enter": "part_*"}})
    names = [f"p{n}" for n in range(6)]
    for n, name in enumerate(names):
        shop.write(f"{name}.c", f"int part_{n}(int x) {{ return x + {n}; }}\n")
    declared = "".join(f"int part_{n}(int);" for n in range(6))
    total = " + ".join(f"part_{n}(1)" for n in range(6))
    shop.write("main.c", f'#include <stdio.h>\n{declared}\nint main(void) {{ printf("%d\\n", {total}); return 0; }}\n')
    shop.write(
        "Makefile",
        "prog: main.o "
        + " ".join(f"{name}.o" for name in names)
        + "\n\t$(CC) $^ -o $@\n\ncopy: main.o "
        + " ".join(f"{name}.o" for name in names)
        + "\n\t$(CC) $^ -o $@\n",
    )
    subprocess.run(["make", "-s", "-j2", f"CC={shop.toolchain.cc}", "prog", "copy"], cwd=shop.folder, check=True)
    assert shop.run() == ("21\n", {"part": 6})
    assert len(shop.report.sites["part"]) == 6
    assert len(list((shop.toolchain.folder / "cache").glob("runtime-*.o"))) == 1


@in_build
def test_the_build_environment_does_not_reach_the_wrapper(shop):
    shop.write("json.py", "raise SystemExit('the module of the build was imported')\n")
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": "/nowhere", "PYTHONHOME": "/nowhere", "HOME": "/nowhere"}
    shop.call("main.c", "work.c", "-o", "prog", env=environment)
    assert counts(shop) == {"work": 1, "shared": 2}


def test_no_metrics_only_links_the_runtime(workshop):
    shop = workshop({})
    shop.write("prog.c", "int main(void) { return 3; }\n")
    shop.call("prog.c", "-o", "prog")
    shop.run(code=3)
    assert not (shop.toolchain.folder / "sites").exists()


def test_no_runtime_links_nothing(workshop):
    shop = workshop(SOFTWARE, runtime=())
    for name, text in (("work.c", WORK), ("main.c", MAIN), ("shared.h", SHARED)):
        shop.write(name, text)
    shop.call("main.c", "work.c", "-o", "prog")
    result = subprocess.run([str(shop.folder / "prog")], capture_output=True, text=True, check=True)
    assert result.stdout == "7\n"


def test_text_that_libclang_cannot_read_is_compiled_untouched(shop):
    nested = """\
int work(int n) {
    int inner(int k) { return k + n; }
    return inner(2);
}
"""
    shop.write("work.c", nested)
    result = shop.call("-c", "work.c")
    assert (
        "unperturbed cc: note: work.c has no counters: work.c:2: libclang: function definition is not allowed here"
        in result.stderr
    )
    shop.write("main.c", "int work(int);\nint main(void) { return work(1); }\n")
    shop.call("main.c", "work.o", "-o", "prog")
    assert shop.run(code=3)[1] == {"work": 0, "shared": 0}


def test_unreadable_text_beside_the_sites_does_no_harm(shop):
    shop.write("work.c", WORK + "int nest(int n) { int inner(int k) { return k + n; } return inner(2); }\n")
    assert shop.call("main.c", "work.c", "-o", "prog").stderr == ""
    assert counts(shop) == {"work": 1, "shared": 2}


def test_a_rewriting_that_does_not_compile_is_said_and_taken_back(workshop):
    shop = workshop({"work": {"enter": "work", "add": "no_such_name"}})
    shop.write("work.c", "int work(int n) { return n; }\nint main(void) { return work(4); }\n")
    result = shop.call("work.c", "-o", "prog")
    assert "work.c has no counters: the instrumented source does not compile: work.c:1:" in result.stderr
    assert re.search("'no_such_name' undeclared|‘no_such_name’ undeclared", result.stderr)
    assert shop.run(code=4)[1] == {"work": 0}
    assert "no_such_name" in shop.report.skipped["work.c"]


def test_an_addition_that_does_not_compile_is_the_fault_of_its_metric_alone(workshop):
    software = {"work": {"enter": "work"}, "sizes": {"enter": "size", "add": "n*"}}
    shop = workshop(software)
    shop.write(
        "work.c", "int work(int n) { return n; }\nint size(int n) { return n; }\nint main(void) { return work(4); }\n"
    )
    shop.call("work.c", "-o", "prog")
    assert shop.report.faulty == {"sizes"}
    told = missing_metrics(shop.report, {name: parse_event(event) for name, event in software.items()})
    assert list(told) == ["sizes"], "work counts as soon as sizes is mended"
    assert re.search(
        r"for `enter: size`; work\.c:2: `add: n\*` does not compile here: expected expression", told["sizes"]
    )
    assert shop.report.skipped["work.c"].startswith("the instrumented source does not compile: work.c:2: error: ")


@pytest.mark.parametrize("what", ["driver", "compiler"])
def test_a_compiler_that_is_killed_ends_the_build_and_takes_no_counters_away(workshop, tmp_path, what):
    (tmp_path / "killed").mkdir()
    killed, compiler = tmp_path / "killed" / "cc1", tmp_path / "killing-gcc"
    killed.write_text("#!/bin/sh\nkill -9 $$\n")
    instead = str(killed) if what == "driver" else f'gcc -B {killed.parent}/ "$@"'
    compiler.write_text(f'#!/bin/sh\ncase "$*" in *" -w "*|*.i" "*|*.i) exec {instead};; esac\nexec gcc "$@"\n')
    for file in (killed, compiler):
        file.chmod(0o755)
    shop = workshop({"work": {"enter": "work"}}, compilers={"cc": str(compiler)})
    shop.write("work.c", "int work(int n) { return n; }\nint main(void) { return work(4); }\n")
    result = shop.call("work.c", "-o", "prog", code=2)
    assert "unperturbed cc: the compiler was killed" in result.stderr
    assert not (shop.folder / "prog").exists()


def test_a_loop_behind_its_pragma(workshop):
    shop = workshop({"loop": {"loop": "work"}, "line": {"line": "work.c:3"}})
    shop.write(
        "work.c",
        "int work(int n) { int k = 0;\n#pragma GCC unroll 4\nfor (int i = 0; i < n; i++) k += i;\nreturn k; "
        "}\nint main(void) { return work(4); }\n",
    )
    shop.call("-O2", "work.c", "-o", "prog")
    assert shop.run(code=6)[1] == {"loop": 4, "line": 0}
    assert shop.report.uncounted["line"][0].text == "no code can be inserted between the statement and its #pragma"


@in_build
def test_own_errors(tmp_path, shop):
    def call(*arguments: str) -> str:
        words = [sys.executable, "-m", "unperturbed.instrument.compiler.wrapper", *arguments]
        result = subprocess.run(words, capture_output=True, text=True, check=False)
        assert result.returncode == 2
        return result.stderr

    settings = shop.toolchain.folder / "settings.json"
    assert call("--help").startswith("unperturbed cc: usage:")
    assert "cannot read the settings file (No such file" in call("--settings", str(tmp_path / "none"), "--", "gcc")
    assert "cannot run the compiler no-such-compiler" in call(
        "--settings", str(settings), "--", "no-such-compiler", "-c", "x.c"
    )
    broken = tmp_path / "broken.json"
    broken.write_text("[1")
    assert "not a settings file" in call("--settings", str(broken), "--", "gcc")
    broken.write_text(json.dumps({**json.loads(settings.read_text()), "runtime": [str(tmp_path / "gone.c")]}))
    (shop.folder / "main.o").touch()
    assert "gone.c (No such file or directory)" in call(
        "--settings", str(broken), "--", "gcc", "main.o", "-o", str(tmp_path / "x")
    )
    bad = tmp_path / "bad.c"
    bad.write_text("int x = ;\n")
    broken.write_text(json.dumps({**json.loads(settings.read_text()), "runtime": [str(bad)]}))
    assert "cannot compile Unperturbed's runtime" in call(
        "--settings", str(broken), "--", "gcc", "main.o", "-o", str(tmp_path / "x")
    )


def test_a_killed_compiler_is_told_as_the_shell_would(workshop, tmp_path):
    compiler = tmp_path / "fake"
    compiler.write_text('#!/bin/sh\ncase " $* " in *" -c "*) kill -9 $$;; esac\nexec gcc "$@"\n')
    compiler.chmod(0o755)
    for name, software, code in (("launched", {}, -9), ("wrapped", SOFTWARE, 137)):
        shop = workshop(software, compilers={"cc": str(compiler)}, runtime=(), name=name)
        shop.write("x.c", "int other(int n) { return n; }\n")
        shop.call("-c", "x.c", code=code)


def test_the_runtime_is_compiled_anew_when_it_or_its_headers_change(workshop, tmp_path):
    source = tmp_path / "own" / "runtime.c"
    source.parent.mkdir()
    shutil.copy(RUNTIME, source)
    shop = workshop(SOFTWARE, runtime=(source,))
    shop.write("main.c", "int main(void) { return 0; }\n")
    for change in ("", "header", "source"):
        if change == "header":
            (source.parent / "extra.h").write_text("")
        elif change == "source":
            source.write_text(source.read_text() + "\n")
        shop.call("main.c", "-o", "prog")
    assert len(list((shop.toolchain.folder / "cache").glob("runtime-*.o"))) == 3


def test_launchers_stay_in_front(workshop, tmp_path):
    launcher = tmp_path / "ccache"
    launcher.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/launched\nexec "$@"\n')
    launcher.chmod(0o755)
    shop = workshop(SOFTWARE, compilers={"cc": f"{launcher} gcc"})
    for name, text in (("work.c", WORK), ("main.c", MAIN), ("shared.h", SHARED)):
        shop.write(name, text)
    shop.call("main.c", "work.c", "-o", "prog")
    assert counts(shop) == {"work": 1, "shared": 2}
    assert set((tmp_path / "launched").read_text().split()) == {"gcc"}
