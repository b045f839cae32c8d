"""The launcher: what it passes over, what it leaves to Python, and how it is written into a toolchain."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.instrument.compiler.launcher_projects import EVENTS, garbled, random_project
from unperturbed.instrument.command_line import parse_command
from unperturbed.instrument.compiler import toolchain as launching
from unperturbed.instrument.compiler.toolchain import Toolchain, write_toolchain
from unperturbed.instrument.events import Event, parse_event
from unperturbed.instrument.events.event import select
from unperturbed.instrument.events.targets import Need
from unperturbed.instrument.finding.prefilter import can_hold_site
from unperturbed.instrument.finding.preprocessed import PreprocessedText
from unperturbed.instrument.finding.site_log import read_sites
from unperturbed.instrument.missing import missing_metrics

PASSED = 0
ASKED_PYTHON = 77


def _need_of(event: Event) -> Need:
    return select("", 0, event).need


def without_python(toolchain: Toolchain, name: str = "cc") -> None:
    """Put a program that fails in the place of Python: whatever succeeds then is the launcher's own work."""
    stub = toolchain.folder / "stub"
    stub.write_text(f"#!/bin/sh\nexit {ASKED_PYTHON}\n")
    stub.chmod(0o755)
    configuration = toolchain.folder / f"{name}.launch"
    fields = [field for field in configuration.read_bytes().split(b"\0") if not field.startswith(b"P")]
    configuration.write_bytes(b"\0".join([b"P" + os.fsencode(stub), *fields]))


@pytest.fixture
def launcher(workshop):
    """Return a function that makes a workshop whose launcher knows the compiler's folders and has no Python to ask."""

    def make(software, *, warm=(("warm.c",),), compilers=None, name="work"):
        shop = workshop(software, compilers=compilers or {}, runtime=(), name=name, served=True)
        for arguments in warm:
            source = shop.write(arguments[-1], "int warm;\n")
            shop.call("-c", *arguments, "-o", os.devnull)
            source.unlink()
        shutil.rmtree(shop.toolchain.folder / "sites", ignore_errors=True)
        without_python(shop.toolchain)
        return shop

    return make


def passed(shop) -> list[str]:
    """Return the sources that the launcher has noted."""
    log = shop.toolchain.folder / "sites" / "passed"
    return [field[1:].decode() for field in log.read_bytes().split(b"\0") if field[:1] == b"s"] if log.exists() else []


def text_without_literals(output: bytes) -> bytes:
    """Return preprocessed text with its strings emptied.

    The wrapper's prefilter looks into them, and no site lies there.
    """
    return re.sub(rb"(?m)^(?!#).*$", lambda line: re.sub(rb'"[^"]*"', b'""', line[0]), output)


PROJECTS = max(20, int(os.environ.get("UNPERTURBED_EXAMPLES", "0")))


@pytest.mark.parametrize("number", range(len(EVENTS)))
def test_what_the_launcher_passes_over_holds_no_site_for_the_wrapper_either(launcher, number):
    event = parse_event(EVENTS[number])
    shop = launcher({"m": EVENTS[number]}, warm=(("warm.c",), ("warm.cc",)))
    verdicts = []
    for seed in range(number * 1000, number * 1000 + PROJECTS):
        folder = shop.folder / str(seed)
        project = random_project(seed)
        source = project.write(folder)
        output = subprocess.run(["gcc", *project.flags, "-E", source], cwd=folder, capture_output=True, check=False)
        if output.returncode == 0:
            before = len(passed(shop))
            words = [str(shop.toolchain.cc), *project.flags, "-S", source, "-o", os.devnull]
            subprocess.run(words, cwd=folder, capture_output=True, check=False)
            precise = can_hold_site(PreprocessedText(text_without_literals(output.stdout)), [_need_of(event)])
            verdicts.append((len(passed(shop)) > before, precise))
    assert (True, True) not in verdicts
    assert len(verdicts) > PROJECTS / 2


def test_most_of_what_holds_no_site_is_passed_over(launcher):
    shop = launcher({"m": {"enter": "alpha"}})
    shop.write(
        "alpha.h",
        "/* alpha(1) { */\nextern int alpha(int);\nchar *alpha_beta(void);\nint alpha(int n) __attribute__((pure));\n",
    )
    text = '#include <stdio.h>\n#include "alpha.h"\nint f%d(int n) { printf("alpha {"); if (alpha(n)) return alpha(2) + n; return (n); }\n'
    for number in range(20):
        shop.write(f"f{number}.c", text % number)
        shop.call("-O2", "-Wall", "-g", "-c", f"f{number}.c")
    assert passed(shop) == [f"f{number}.c" for number in range(20)]


ODD = {
    "pasted": "#define F(x) int alp##x(int n) { return n; }\nF(ha)\n",
    "pasted by the system's macro": "#include <sys/cdefs.h>\nint __CONCAT(alp, ha)(int n) { return n; }\n",
    "pasted across lines": "#define F(x) int alp ## \\\n x(int n) { return n; }\nF(ha)\n",
    "pasted behind a name that a line break ends": "#define F\\\n(x) int alp##x(int n) { return n; }\nF(ha)\n",
    "pasted by two": "#define F(x) int alp## ## x(int n) { return n; }\nF(ha)\n",
    "pasted behind a comment": "#define F(x) int /* a\n b */ alp##x(int n) { return n; }\nF(ha)\n",
    "split": "int al\\\npha(int n) { return n; }\n",
    "digraph": "%:define G alpha\nint G(int n) { return n; }\n",
    "computed include": '#define H "body.h"\n#include H\n',
    "a macro for a parenthesis": "#define L (\nint alpha L int n) { return n; }\n",
    "a body by macro": "#define B { return 1; }\nint alpha(int n) B\n",
    "a macro's argument": "#define B(p) p { return 1; }\nB(int alpha(int n))\n",
    "in parentheses": "int (alpha)(int n) { return n; }\n",
    "old style": "int alpha(n) int n; { return n; }\n",
    "half of it conditional": "int alpha(int n)\n#if 0\n;\n#else\n{ return n; }\n#endif\n",
    "in another file": '#include "body.h"\n',
}


@pytest.mark.parametrize("name", ODD)
def test_hidden_definitions_are_found(launcher, name):
    shop = launcher({"m": {"enter": "alpha"}})
    shop.write("body.h", "int alpha(int n) { return n; }\n")
    shop.write("x.c", ODD[name])
    assert can_hold_site(
        PreprocessedText(subprocess.run(["gcc", "-E", "x.c"], cwd=shop.folder, capture_output=True, check=True).stdout),
        [_need_of(parse_event({"enter": "alpha"}))],
    ), "the example is one"
    shop.call("-c", "x.c", code=ASKED_PYTHON)


def test_the_beginning_of_a_raw_literal_may_be_a_macros_name(launcher):
    shop = launcher({"m": {"enter": "alpha"}})
    shop.write("x.c", '#define R"alpha"\nint x;\n')
    shop.call("-std=c11", "-c", "x.c")
    assert passed(shop) == ["x.c"]


def test_no_text_leads_the_launcher_out_of_its_memory(launcher, tmp_path, monkeypatch):
    """A launcher that checks its own memory and arithmetic reads projects with signs inserted, left out and repeated."""
    sanitisers = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    monkeypatch.setattr(launching, "_FLAGS", (*launching._FLAGS, "-O1", *sanitisers))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "sanitised"))
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0")
    if launching.launcher_program(("gcc",), tmp_path) is None:
        pytest.skip("the compiler has no sanitisers")
    need = _need_of(parse_event({"enter": "alpha"}))
    shop = launcher({"m": {"enter": "alpha"}}, warm=(("warm.c",), ("warm.cc",)))
    assert b"__asan_init" in shop.toolchain.cc.read_bytes()
    for seed in range(30):
        folder = shop.folder / str(seed)
        project = garbled(random_project(seed), seed)
        source = project.write(folder)
        before = len(passed(shop))
        words = [str(shop.toolchain.cc), *project.flags, "-S", source, "-o", os.devnull]
        result = subprocess.run(words, cwd=folder, capture_output=True, check=False)
        assert result.returncode >= 0
        assert b"Sanitizer" not in result.stderr
        assert b"runtime error" not in result.stderr
        text = subprocess.run(["gcc", *project.flags, "-E", source], cwd=folder, capture_output=True, check=False)
        if text.returncode == 0 and len(passed(shop)) > before:
            assert not can_hold_site(PreprocessedText(text_without_literals(text.stdout)), [need])


def test_definitions_from_the_command_line_and_forced_headers(launcher):
    shop = launcher({"m": {"enter": "alpha"}})
    shop.write("x.c", "int NAME(int n) { return n; }\n")
    shop.write("inc/forced.h", "#define NAME alpha\n")
    shop.call("-DNAME=other", "-c", "x.c")
    shop.call("-Iinc", "-include", "forced.h", "-c", "x.c", code=ASKED_PYTHON)
    shop.call("-imacrosinc/forced.h", "-c", "x.c", code=ASKED_PYTHON)
    shop.call("-DNAME=alpha", "-c", "x.c", code=ASKED_PYTHON)
    shop.call("-D", "NAME=alpha", "-c", "x.c", code=ASKED_PYTHON)
    shop.call("-Wp,-DNAME=alpha", "-c", "x.c", code=ASKED_PYTHON)
    shop.call("-Wp,-D_FORTIFY_SOURCE=2", "-O2", "-DNAME=other", "-c", "x.c")
    shop.call("-DNAME=alp##ha", "-c", "x.c", code=ASKED_PYTHON)


@pytest.mark.parametrize("seed", range(12))
def test_includes_are_found_as_the_compiler_finds_them(launcher, seed):
    """Headers of one name lie in many folders, each with a word of its own.

    The one that the compiler reads must be seen.
    """
    choose = random.Random(seed)
    compiler = "clang" if seed % 3 == 2 and shutil.which("clang") else "gcc"
    folders = ["a", "a/b", "c", "d e", "link", "."]
    inside = [
        '#include "two.h"',
        "#include <two.h>",
        "#include_next <string.h>",
        '#include "../one.h"',
        '#include "sub/three.h"',
        "",
    ]
    shop = launcher({"m": {"enter": "word_x"}}, compilers={"cc": compiler})
    shop.write("a/b/unused.h", "")
    (shop.folder / "link").symlink_to("a")
    headers = [f"{folder}/{name}" for folder in folders for name in ("one.h", "two.h", "string.h", "sub/three.h")]
    headers = [header for header in headers if choose.random() < 0.45]
    for number, header in enumerate(headers):
        shop.write(header, f"#pragma once\nint word_{number}x(int n) {{ return n; }}\n{choose.choice(inside)}\n")
    shop.write("src/x.c", '#include "one.h"\n#include <string.h>\n#include "two.h"\n#include <sub/three.h>\nint x;\n')
    flags = []
    for _ in range(choose.randrange(1, 6)):
        flags.append(choose.choice(["-I", "-iquote", "-isystem", "-idirafter"]))
        flags.append(choose.choice([*folders, "missing", "/usr/include", "src"]))
    environment = {
        **os.environ,
        choose.choice(["CPATH", "C_INCLUDE_PATH", "UNUSED"]): choose.choice(["a/b", "c:", ":a"]),
    }
    text = subprocess.run(
        [compiler, *flags, "-E", "src/x.c"], cwd=shop.folder, capture_output=True, check=False, env=environment
    )
    seen = {int(number) for number in re.findall(rb"word_(\d+)x", text.stdout)}
    if compiler == "clang" and text.returncode:
        seen = set()  # it goes on behind a header that is not there, with one that an error tells to include otherwise
    configuration = shop.toolchain.folder / "cc.launch"
    fields = configuration.read_bytes()
    for number in range(len(headers)):
        word = b"word_%dx" % number
        configuration.write_bytes(fields.replace(b"word_x", word))
        words = [str(shop.toolchain.cc), *flags, "-S", "src/x.c", "-o", os.devnull]
        code = subprocess.run(words, cwd=shop.folder, capture_output=True, check=False, env=environment).returncode
        assert code == ASKED_PYTHON or number not in seen, (headers[number], flags)


QUESTIONS = (
    *(("--version",), ("-dumpmachine",), ("-E", "x.c"), ("-M", "x.c"), ("-fsyntax-only", "x.c"), ("-print-prog-name=ld",), ("-v",)),
    *(("-###", "-c", "x.c"), ("-dumpversion",), ("--help",), ("-c", "x.c", "-E")),
)  # fmt: skip


@pytest.mark.parametrize("arguments", QUESTIONS, ids=" ".join)
def test_questions_are_the_compilers_own(launcher, arguments):
    shop = launcher({"m": {"enter": "work"}})
    shop.write("x.c", "int work(void) { return 1; }\n")
    result = shop.call(*arguments)
    theirs = subprocess.run(["gcc", *arguments], cwd=shop.folder, capture_output=True, text=True, check=True)
    assert result.stdout == theirs.stdout
    assert passed(shop) == []
    assert parse_command(("gcc", *arguments)).sources == ()


@pytest.mark.parametrize(
    "arguments",
    [
        *(("-x", "c", "-c", "x.c"), ("-xc", "-c", "x.c"), ("@args",), ("-c", "-"), ("-save-temps", "-c", "x.c"), ("-c", "x.S")),
        *(("-fdirectives-only", "-c", "x.c"), ("-Wp,-Iinc", "-c", "x.c"), ("-Xpreprocessor", "-DX", "-c", "x.c"), ("-I-", "-c", "x.c")),
        *(("-finput-charset=latin1", "-c", "x.c"), ("-fplugin=none", "-c", "x.c"), ("-include-pch", "x.pch", "-c", "x.c")),
        *(("-traditional-cpp", "-c", "x.c"), ("-specs=none", "-c", "x.c"), ("-I=inc", "-c", "x.c"), ("--unknown-option", "-c", "x.c")),
        *(("-c", "x.c", "y.cc"), ("-m32", "-c", "x.c"), ("-c", "missing.c"), ("-fmodules", "-c", "x.c"), ("-P", "-c", "x.c")),
        *(("-c", "pch.c"), ("-include", "pch.h", "-c", "x.c"), ("-c", "line.c"), ("-include", "missing.h", "-c", "x.c")),
    ],
    ids=" ".join,
)  # fmt: skip
def test_what_the_launcher_is_not_sure_of_is_left_to_python(launcher, arguments):
    shop = launcher({"m": {"enter": "work", "file": "other.c"}})
    shop.write("x.c", "int x(void) { return 1; }\n")
    shop.write("x.S", "\n")
    shop.write("y.cc", "int y;\n")
    shop.write("args", "-c x.c")
    shop.write("pch.h", "int z;\n")
    shop.write("pch.h.gch", "")
    shop.write("pch.c", '#include "pch.h"\n')
    shop.write("line.c", '#line 7 "other.c"\nint work(void) { return 1; }\n')
    shop.call(*arguments, code=ASKED_PYTHON, input="")
    assert passed(shop) == []


def test_a_pipe_is_not_read(launcher):
    shop = launcher({"m": {"enter": "work"}})
    os.mkfifo(shop.folder / "x.c")
    shop.call("-c", "x.c", code=ASKED_PYTHON)
    shop.write("y.c", '#include "x.c"\n')
    shop.call("-c", "y.c", code=ASKED_PYTHON)


def test_file_filters(launcher):
    shop = launcher({"m": {"enter": "work", "file": "inc/own*.h"}})
    shop.write("x.c", '#include "inc/other.h"\n')
    shop.write("y.c", '#include "inc/own_1.h"\n')
    for name in ("other", "own_1"):
        shop.write(f"inc/{name}.h", "static inline int work(int n) { return n; }\n")
    shop.write("z.c", "int f(void) { return 1; }\n")
    shop.call("-c", "z.c")
    shop.call("-c", "y.c", code=ASKED_PYTHON)
    exact = launcher({"m": {"line": "inc/own_1.h:1"}}, name="exact")
    shutil.copytree(shop.folder, exact.folder, dirs_exist_ok=True)
    exact.call("-c", "x.c")
    exact.call("-c", "z.c")
    exact.call("-c", "y.c", code=ASKED_PYTHON)


def test_flags_that_change_the_compilers_folders_are_asked_once_each(workshop):
    shop = workshop({"m": {"enter": "work"}}, runtime=())
    shop.write("x.c", "#include <stdio.h>\nint x;\n")
    for flags in (("-march=x86-64",), ("-march=x86-64", "-nostdinc"), ()):
        shop.call(*flags, "-c", "x.c", code=1 if "-nostdinc" in flags else 0)
    before = len(list((shop.toolchain.folder / "sites").glob("*.json")))
    without_python(shop.toolchain)
    shop.call("-march=x86-64", "-c", "x.c")
    shop.call("-c", "x.c", "-O3")
    shop.call("-march=x86-64", "-mtune=generic", "-c", "x.c", code=ASKED_PYTHON)
    assert before == 2
    assert passed(shop) == ["x.c", "x.c"]


def test_another_compiler_on_path_is_asked_anew(launcher, tmp_path):
    shop = launcher({"m": {"enter": "work"}})
    shop.write("x.c", "int x;\n")
    (tmp_path / "bin").mkdir()
    other = tmp_path / "bin" / "gcc"
    other.write_text('#!/bin/sh\nexec /usr/bin/gcc -I/elsewhere "$@"\n')
    other.chmod(0o755)
    shop.call("-c", "x.c")
    shop.call("-c", "x.c", code=ASKED_PYTHON, env={**os.environ, "PATH": f"{other.parent}:{os.environ['PATH']}"})


def test_a_driver_that_hands_more_on_is_followed_or_left_to_python(workshop, tmp_path):
    compiler = tmp_path / "driver"
    for name, more, code in (
        ("defines", "-DNAME=work", ASKED_PYTHON),
        ("harmless", "-DNAME=other", 0),
        ("folders", "-I/elsewhere", ASKED_PYTHON),
    ):
        compiler.write_text(f'#!/bin/sh\nexec gcc {more} "$@"\n')
        compiler.chmod(0o755)
        shop = workshop({"m": {"enter": "work"}}, compilers={"cc": str(compiler)}, runtime=(), name=name)
        shop.write("warm.c", "int y;\n")
        shop.call("-c", "warm.c")
        without_python(shop.toolchain)
        shop.write("x.c", "int NAME(int n) { return n; }\n")
        shop.call("-c", "x.c", code=code)


def test_the_systems_headers_are_read_once_and_their_changes_seen(workshop, tmp_path):
    system = tmp_path / "system"
    system.mkdir()
    (system / "own.h").write_text("int other(int n);\n")
    shop = workshop({"m": {"enter": "work"}}, compilers={"cc": f"gcc --sysroot={tmp_path}"}, runtime=())
    shop.write("x.c", "#include <own.h>\nint x;\n")
    include = tmp_path / "usr" / "include"
    include.mkdir(parents=True)
    shutil.copy(system / "own.h", include)
    for _ in range(2):
        shop.call("-c", "x.c")
    (index,) = (shop.toolchain.folder / "cache").glob("folders-*-headers")
    assert b" other " in index.read_bytes()
    without_python(shop.toolchain)
    shop.call("-c", "x.c")
    (include / "own.h").write_text("static int work(int n) { return n; }\n")
    shop.call("-c", "x.c", code=ASKED_PYTHON)
    (include / "own.h").write_text("int work(int n);\n")
    shop.call("-c", "x.c")
    shop.write("inc/own.h", "static int work(int n) { return n; }\n")
    shop.call("-Iinc", "-c", "x.c", code=ASKED_PYTHON)
    (include / "own.h").write_text("#include <inner.h>\n")
    (include / "inner.h").write_text("int a;\n")
    shop.call("-c", "x.c")
    shop.write("shadow/inner.h", "static int work(int n) { return n; }\n")
    shop.call("-Ishadow", "-c", "x.c", code=ASKED_PYTHON)
    shop.call("-c", "x.c")


def test_copies_links_and_other_names(workshop, tmp_path):
    shop = workshop({"m": {"enter": "work"}}, runtime=())
    shop.write("x.c", "int work(int n) { return n; }\n")
    shop.write("y.c", "int other(int n) { return n; }\n")
    folder = tmp_path / "bin"
    folder.mkdir()
    shutil.copy(shop.toolchain.cc, folder / "copy")
    (folder / "gcc").symlink_to(shop.toolchain.cc)
    (folder / "x86_64-linux-gnu-gcc-12").symlink_to("copy")
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}

    def call(name: str) -> None:
        """Compile by a name of the launcher, which must find the compiler behind itself."""
        words = [name, "-S", "x.c", "y.c", "-I."]
        subprocess.run(words, cwd=shop.folder, check=True, env=environment, timeout=20)
        assert (shop.folder / "x.s").read_text().count("incq") == 1
        subprocess.run([name, "-S", "y.c"], cwd=shop.folder, check=True, env=environment, timeout=20)

    for name in ("copy", "gcc", "x86_64-linux-gnu-gcc-12"):
        call(name)
    (folder / "gcc").unlink()
    shutil.move(folder / "copy", folder / "gcc")
    call("gcc")
    assert passed(shop) == ["y.c"] * 4


def test_the_last_run_of_a_source_counts_whoever_logged_it(workshop):
    shop = workshop({"m": {"enter": "work"}}, runtime=())
    with_site, without = "int work(int n) { return n; }\n", "int other(int n) { return n; }\n"
    sites = []
    for text in (without, without, with_site, without, with_site):
        shop.write("x.c", text)
        shop.call("-c", "x.c")
        sites.append(len(shop.report.sites.get("m", ())))
    assert sites == [0, 0, 1, 0, 1]
    assert len(passed(shop)) == 2, "the first source teaches the compiler's folders"


def test_many_launchers_write_one_log(launcher):
    shop = launcher({"m": {"enter": "work"}})
    names = [f"a long name of a source {number}.c" for number in range(60)]
    for name in names:
        shop.write(name, "int x;\n")

    def call(name: str) -> None:
        shop.call("-S", name, "-I", "inc", "-o", os.devnull)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(call, names))
    assert sorted(passed(shop)) == sorted(names)
    log = shop.toolchain.folder / "sites" / "passed"
    log.write_bytes(log.read_bytes() + b"t12\0f/cut o")
    shop.call("-c", names[0])
    report = read_sites(shop.toolchain.folder)
    assert set(report.sources) == set(names)
    (message,) = missing_metrics(report, {"m": parse_event({"enter": "work"})}).values()
    assert "and 52 more" in message


def test_a_log_that_cannot_be_written_is_pythons_to_report(launcher):
    shop = launcher({"m": {"enter": "work"}})
    shop.write("x.c", "int x;\n")
    (shop.toolchain.folder / "sites").write_text("in the way")
    shop.call("-c", "x.c", code=ASKED_PYTHON)


def test_own_errors(launcher):
    shop = launcher({"m": {"enter": "work"}}, warm=())
    configuration = shop.toolchain.folder / "cc.launch"
    fields = configuration.read_bytes()
    configuration.write_bytes(b"Zfuture\0" + fields)
    assert "written by another version" in shop.call("-c", "x.c", code=2).stderr
    configuration.write_bytes(b"Cgcc\0")
    assert "not a configuration of the launcher" in shop.call("-c", "x.c", code=2).stderr
    configuration.write_bytes(fields.replace(b"Cgcc\0", b"Cno-such-compiler\0"))
    assert "cannot run the compiler no-such-compiler (No such file" in shop.call("--version", code=2).stderr
    configuration.unlink()
    assert f"{configuration}: cannot read the toolchain's configuration" in shop.call("-c", "x.c", code=2).stderr


def test_executables_are_written_anew_when_and_only_when_settings_change(tmp_path):
    def written(name: str, folder: str = "t", **changes: object) -> tuple[float, bytes]:
        toolchain = write_toolchain(tmp_path / folder, {"m": parse_event({"enter": name})}, compilers={}, **changes)
        assert subprocess.run([str(toolchain.cc), "-dumpmachine"], capture_output=True, check=True).stdout
        return toolchain.cc.stat().st_mtime_ns, toolchain.cc.read_bytes()

    first = written("one")
    assert written("one") == first
    others = [written("two"), written("one"), written("one", form="sham"), written("one", "t2"), written("one", "t3")]
    shutil.rmtree(tmp_path / "t3")
    others.append(written("one", "t3"))
    assert len({changed for changed, _ in (first, *others)}) == len(others) + 1
    assert len({content for _, content in (first, *others)}) == len(others) + 1


def test_the_launcher_is_compiled_once(tmp_path, monkeypatch):
    monkeypatch.setattr(launching, "_FLAGS", (*launching._FLAGS, "-O0"))  # in a fourth of the time
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for number in range(3):
        write_toolchain(tmp_path / str(number), {}, compilers={"cc": "gcc"})
    assert len(list((tmp_path / "cache" / "unperturbed").iterdir())) == 1
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    toolchain = write_toolchain(tmp_path / "without", {}, compilers={"cc": "gcc"})
    assert len(list((toolchain.folder / "cache").glob("*-launcher"))) == 1


@pytest.mark.parametrize("reason", ["no compiler", "a compiler for another machine", "no sources"])
def test_without_a_host_compiler_shell_scripts_do_the_same(workshop, tmp_path, monkeypatch, reason):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(launching, "_FLAGS", (*launching._FLAGS, "-O0"))
    folder = tmp_path / "path"
    folder.mkdir()
    if reason == "a compiler for another machine":
        # What it makes has another machine's number in its header, and no kernel here runs that.
        fake = folder / "gcc"
        spoil = f'printf "\\377\\377" | {shutil.which("dd")} of="$last" bs=1 seek=18 conv=notrunc status=none'
        fake.write_text(
            f'#!/bin/sh\nfor last; do :; done\nPATH={os.environ["PATH"]} {shutil.which("gcc")} "$@" || exit\n{spoil}\n'
        )
        fake.chmod(0o755)
    if reason == "no sources":
        monkeypatch.setattr(launching, "_SOURCES", ())
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(folder))
        shop = workshop({"m": {"enter": "work"}}, runtime=())
    assert shop.toolchain.cc.read_bytes().startswith(b"#!/bin/sh")
    shop.write("x.c", "int work(int n) { return n; }\n")
    shop.write("y.c", "int other(int n) { return n; }\n")
    shop.call("-c", "x.c", "y.c")
    assert shop.call("-dumpmachine").stdout
    assert shop.lines("m") == [1]
    assert shop.report.sources == ("x.c", "y.c")
