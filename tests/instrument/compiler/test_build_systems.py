"""The toolchain in real build systems.

CMake, configure scripts, make, ccache, distcc, link-time optimisation, precompiled headers.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import clang
import pytest

import unperturbed.instrument
from tests.instrument.conftest import RUNTIME
from tests.instrument.wrapper_server import serve_wrapper
from unperturbed.collectors.runtime import BOUNDS, runtime_files
from unperturbed.instrument.compiler import toolchain
from unperturbed.instrument.compiler.cc import run_compiler
from unperturbed.instrument.compiler.toolchain import write_toolchain
from unperturbed.instrument.events import parse_event
from unperturbed.instrument.finding.site_log import read_sites

SOFTWARE = {"work": {"enter": "work"}, "shared": {"enter": "shared"}}
FILES = {
    "shared.h": "#ifndef SHARED\n#define SHARED\nstatic inline int shared(int n) { return n * 2; }\nint "
    "work(int);\nint idle(int);\n#endif\n",
    "work.c": '#include "shared.h"\nint work(int n) { return shared(n) + 1; }\n',
    "idle.c": "#include <string.h>\nint idle(int n) { return n + (int)strlen(TEXT); }\n",
    "main.c": '#include <stdio.h>\n#include "shared.h"\nint main(void) { printf("%d\\n", work(2) + shared(1) + idle(0)); return 0; }\n',
}
COUNTS = {"work": 1, "shared": 2}
TEXT = '-DTEXT="two words"'


def needs(*tools: str) -> pytest.MarkDecorator:
    """Skip a test where a tool is not installed."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not installed")


@pytest.fixture
def project(workshop):
    def make(software=SOFTWARE, **options):
        shop = workshop(software, **options)
        for name, text in FILES.items():
            shop.write(name, text)
        return shop

    return make


def counts(shop, program: str = "prog") -> dict[str, int]:
    """Return what a run of the built program counts; its output must be right."""
    output, found = shop.run(program)
    assert output == "16\n"
    return found


def run(shop, *words: str, **options) -> subprocess.CompletedProcess[str]:
    """Run a command of the build; it must succeed."""
    result = subprocess.run(words, cwd=shop.folder, capture_output=True, text=True, check=False, timeout=120, **options)
    assert result.returncode == 0, result.stdout + result.stderr
    return result


def passed(shop) -> list[str]:
    """Return the names of the sources that the launcher has passed over by itself."""
    log = shop.toolchain.folder / "sites" / "passed"
    return (
        [Path(field[1:].decode()).name for field in log.read_bytes().split(b"\0") if field[:1] == b"s"]
        if log.exists()
        else []
    )


CMAKE = """\
cmake_minimum_required(VERSION 3.10)
project(work {languages})
include(CheckCSourceCompiles)
check_c_source_compiles("int main(void) {{ return 0; }}" COMPILES)
check_c_source_compiles("int main(void) {{ return no_such_function(); }}" DOES_NOT_COMPILE)
if(NOT COMPILES OR DOES_NOT_COMPILE)
  message(FATAL_ERROR "the compiler's checks are wrong")
endif()
message(STATUS "compiler is ${{CMAKE_C_COMPILER_ID}}")
add_compile_definitions("TEXT=\\"two words\\"")
add_library(idle SHARED idle.c)
add_executable(prog main.c work.c)
target_link_libraries(prog idle)
{more}
"""


@needs("cmake", "ninja")
@pytest.mark.parametrize("lto", [False, True])
def test_cmake_and_ninja_with_the_compiler(project, lto):
    shop = project()
    shop.write(
        "CMakeLists.txt",
        CMAKE.format(
            languages="C CXX", more="set_property(TARGET prog PROPERTY INTERPROCEDURAL_OPTIMIZATION ON)" * lto
        ),
    )
    compilers = [
        f"-DCMAKE_C_COMPILER={shop.toolchain.cc}",
        f"-DCMAKE_CXX_COMPILER={shop.toolchain.cxx}",
        "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
    ]
    assert "compiler is GNU" in run(shop, "cmake", "-S", ".", "-B", "build", "-G", "Ninja", *compilers).stdout
    assert "warning" not in run(shop, "cmake", "--build", "build").stdout
    assert counts(shop, "build/prog") == COUNTS
    assert {site.file.rpartition("/")[2] for site in shop.report.sites["shared"]} == {"shared.h"}
    (shop.folder / "shared.h").touch()
    rebuilt = run(shop, "cmake", "--build", "build", "--verbose").stdout
    assert rebuilt.count(" -c ") == 2, "the dependencies are those of the sources"


@needs("cmake", "ninja")
def test_cmake_with_the_command_line_as_launcher(project):
    shop = project(runtime=())
    shop.write("CMakeLists.txt", CMAKE.format(languages="C", more=""))
    shop.write("metrics.yaml", "software:\n  work: {enter: work}\n  shared: {enter: shared}\n")
    command = f"{sys.executable};-m;unperturbed.harness.cli;cc;--metrics;{shop.folder}/metrics.yaml;--"
    flags = [f"-DCMAKE_C_COMPILER_LAUNCHER={command}", f"-DCMAKE_C_LINKER_LAUNCHER={command}"]
    run(shop, "cmake", "-S", ".", "-B", "build", "-G", "Ninja", *flags)
    run(shop, "cmake", "--build", "build", "-j4")
    report = read_sites(shop.folder / "metrics.yaml.toolchain")
    assert {metric: len(sites) for metric, sites in report.sites.items()} == {"work": 1, "shared": 1}
    assert report.skipped == {}
    assert run(shop, "build/prog").stdout == "16\n"
    assert "unperturbed_register" in run(shop, "nm", "build/prog").stdout


@needs("cmake", "ninja")
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_cmake_with_precompiled_headers(project, compiler):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} not installed")
    shop = project(compilers={"cc": compiler})
    shop.write("CMakeLists.txt", CMAKE.format(languages="C", more="target_precompile_headers(prog PRIVATE shared.h)"))
    shop.write("work.c", "int work(int n) { return shared(n) + 1; }\n")
    run(shop, "cmake", "-S", ".", "-B", "build", "-G", "Ninja", f"-DCMAKE_C_COMPILER={shop.toolchain.cc}")
    output = run(shop, "cmake", "--build", "build").stdout
    assert counts(shop, "build/prog") == COUNTS
    assert "has no counters" not in output


CONFIGURE = r"""#! /bin/sh
# Guess values for system-dependent variables and create Makefiles.
ac_ext=c
ac_compile='$CC -c $CFLAGS $CPPFLAGS conftest.$ac_ext >&5'
ac_link='$CC -o conftest $CFLAGS $CPPFLAGS $LDFLAGS conftest.$ac_ext $LIBS >&5'
: "${CC=cc}" "${CFLAGS=-g -O2}"
exec 5>config.log
fail() { echo "configure: error: $1" >&2; exit 1; }
printf 'int main (void)\n{\n  return 0;\n}\n' > conftest.c
eval "$ac_link" 2>&5 || fail "C compiler cannot create executables"
./conftest || fail "cannot run C compiled programs"
rm -f conftest conftest.o
eval "$ac_compile" 2>&5 && test -f conftest.o || fail "cannot compute suffix of object files"
printf 'choke me\n' > conftest.c
eval "$ac_compile" 2>&5 && fail "the compiler takes anything"
for ac_func in strlen no_such_function printf; do
  printf 'char %s (void);\nint main (void) { return %s (); }\n' $ac_func $ac_func > conftest.c
  if eval "$ac_link" 2>&5; then echo "#define HAVE_$ac_func 1"; fi
done > config.h
for ac_flag in -Wall -no-such-flag; do
  printf 'int main (void) { return 0; }\n' > conftest.c
  ac_warnings=`$CC $ac_flag -c conftest.c 2>&1` && test -z "$ac_warnings" && CFLAGS="$CFLAGS $ac_flag"
done
printf '#include <stdio.h>\nac_nonexistent\n' > conftest.c
$CC -E conftest.c > conftest.i 2>&5 && grep ac_nonexistent conftest.i > /dev/null || fail "C preprocessor fails sanity check"
$CC -dumpmachine >&5 && $CC --version >&5 && $CC -v >&5 2>&5 || fail "the compiler does not say what it is"
case " $CFLAGS " in *" -no-such-flag "*|*" -g -O2 -Wall "*) ;; *) fail "flags: $CFLAGS";; esac
rm -f conftest*
printf 'CC = %s\nCFLAGS = %s %s\nprog: main.o work.o idle.o\n\t$(CC) $(CFLAGS) -o $@ $^\n' "$CC" "$CFLAGS" "'-DTEXT=\"two words\"'" > Makefile
"""


@needs("make")
def test_a_configure_script(project):
    shop = project()
    shop.write("configure", CONFIGURE)
    run(shop, "sh", "./configure", env={**os.environ, "CC": str(shop.toolchain.cc)})
    assert (shop.folder / "config.h").read_text() == "#define HAVE_strlen 1\n#define HAVE_printf 1\n"
    assert "-Wall" in (shop.folder / "Makefile").read_text()
    run(shop, "make")
    assert counts(shop) == COUNTS


MAKEFILE = """\
override CFLAGS += -DTEXT='"two words"'
all: prog
prog: main.o work.o idle.o sub
\t$(CC) $(CFLAGS) -o $@ main.o work.o idle.o
sub:
\t+$(MAKE) -C deep
.PHONY: sub
"""


@needs("make")
def test_make_with_a_job_server_from_other_folders(project):
    shop = project()
    shop.write("Makefile", MAKEFILE)
    names = " ".join(f"part{number}.o" for number in range(12))
    for number in range(12):
        shop.write(f"deep/part{number}.c", f'#include "../shared.h"\nint part{number}(int n) {{ return shared(n); }}\n')
    shop.write("deep/Makefile", f"libparts.a: {names}\n\tar rc $@ $^\n")
    output = run(shop, "make", "-j8", f"CC={shop.toolchain.cc}", "CFLAGS=-O2 -flto=jobserver -ffat-lto-objects")
    assert "jobserver" not in output.stderr, output.stderr
    assert counts(shop) == COUNTS
    assert len([source for source in shop.report.sources if source.startswith("part")]) == 12
    assert (shop.toolchain.folder / "passing").is_dir()
    assert list((shop.toolchain.folder / "passing").iterdir()) == []


@needs("make", "ccache")
def test_ccache_behind(project, tmp_path):
    shop = project(compilers={"cc": "ccache gcc"})
    shop.write("Makefile", MAKEFILE)
    shop.write("deep/Makefile", "all:\n")
    environment = {**os.environ, "CCACHE_DIR": str(tmp_path / "ccache"), "CCACHE_SLOPPINESS": ""}
    for _ in range(2):
        run(shop, "make", f"CC={shop.toolchain.cc}", env=environment)
        assert counts(shop) == COUNTS
        assert "idle.c" in shop.report.sources
        for object_file in shop.folder.glob("*.o"):
            object_file.unlink()
    statistics = run(shop, "ccache", "--print-stats", env=environment).stdout
    hits = {line.split()[0]: int(line.split()[1]) for line in statistics.splitlines()}
    assert hits["direct_cache_hit"] + hits["preprocessed_cache_hit"] >= 1, (
        "sources that hold no site go through ccache as they are"
    )


@needs("ccache")
def test_ccache_in_front_never_gives_what_other_settings_made(workshop, tmp_path):
    """One cache for many toolchains, in one folder and in others; the counts are always those of the settings."""
    environment = {**os.environ, "CCACHE_DIR": str(tmp_path / "ccache")}
    runs = 0
    for compiler_check in ("mtime", "content"):
        for software, expected in (
            ({"m": {"enter": "work"}}, 1),
            ({"m": {"enter": "shared"}}, 2),
            ({"m": {"enter": "work", "add": "5"}}, 5),
        ):
            for folder in ("one", "one", "two"):
                runs += 1
                if runs % 4 == 0:
                    shutil.rmtree(tmp_path / folder, ignore_errors=True)
                events = {name: parse_event(event) for name, event in software.items()}
                chain = write_toolchain(tmp_path / folder, events, compilers={}, runtime=(RUNTIME,))
                serve_wrapper(chain)
                build = tmp_path / "build"
                shutil.rmtree(build, ignore_errors=True)
                build.mkdir()
                for name, text in FILES.items():
                    (build / name).write_text(text)
                for name in ("work", "idle", "main"):
                    words = ["ccache", str(chain.cc), TEXT, "-c", f"{name}.c"]
                    subprocess.run(
                        words, cwd=build, check=True, env={**environment, "CCACHE_COMPILERCHECK": compiler_check}
                    )
                subprocess.run([str(chain.cc), "work.o", "idle.o", "main.o", "-o", "prog"], cwd=build, check=True)
                subprocess.run(
                    ["./prog"], cwd=build, check=True, capture_output=True, env={**os.environ, "COUNTS_FILE": "counts"}
                )
                assert (build / "counts").read_text().split()[0] == str(expected)
                assert len(read_sites(chain.folder).sites["m"]) == 1
    hits = subprocess.run(
        ["ccache", "--print-stats"], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert "direct_cache_hit\t0" not in hits, "within one toolchain ccache works"


class DistccServer:
    """A distcc server on this host. It refuses to run as root: then what it runs must be open to nobody."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "distccd.log"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        words = [
            "distccd",
            "--no-detach",
            "--daemon",
            "--listen",
            "127.0.0.1",
            "--allow",
            "127.0.0.1",
            "--port",
            str(self._port),
        ]
        words += ["--jobs", "2", "--log-stderr", "--log-level", "info", "--enable-tcp-insecure"]
        words += ["--user", "nobody"] if os.geteuid() == 0 else []
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log, cwd="/", start_new_session=True)

    def wait_for_start(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            assert self._process.poll() is None, self.log.read_text()
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", self._port)) == 0:
                    return
            time.sleep(0.02)
        raise AssertionError("distccd does not answer")

    def stop(self) -> None:
        os.killpg(self._process.pid, signal.SIGTERM)
        self._process.wait(timeout=60)

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "DISTCC_HOSTS": f"127.0.0.1:{self._port}",
            "DISTCC_FALLBACK": "0",
            "DISTCC_IO_TIMEOUT": "60",
        }

    @property
    def compiled(self) -> int:
        return self.log.read_text().count("COMPILE_OK")


@pytest.fixture
def distcc(tmp_path):
    if shutil.which("distcc") is None or shutil.which("distccd") is None:
        pytest.skip("distcc not installed")
    server = DistccServer(tmp_path)
    try:
        server.wait_for_start()
        yield server
    finally:
        server.stop()


def test_distcc_behind(project, distcc):
    shop = project(compilers={"cc": "distcc gcc"})
    for name in ("work", "main", "idle", "idle"):
        shop.call(TEXT, "-O2", "-c", f"{name}.c", env=distcc.environment)
    shop.call("work.o", "main.o", "idle.o", "-o", "prog", env=distcc.environment)
    assert counts(shop) == COUNTS
    assert distcc.compiled == 4


def python_of_the_server() -> str:
    """Return a Python that may run on the server and load libclang there; skip when there is none."""
    # setpriv itself still opens what root may open; so a shell starts the program.
    drop = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "sh", "-c", 'exec "$@"', "sh"]
    as_server = drop if os.geteuid() == 0 else []
    places = [str(Path(next(iter(module.__path__))).parent) for module in (clang, unperturbed.instrument)]
    program = f"import sys; sys.path += {places!r}; from clang import cindex; cindex.Index.create(); import encodings"
    for python in (sys.executable, "/usr/bin/python3"):
        result = subprocess.run(
            [*as_server, python, "-I", "-S", "-c", program], capture_output=True, check=False, cwd="/"
        )
        if result.returncode == 0:
            return python
    pytest.skip("no Python that loads libclang is open to the distcc server's user")


def test_distcc_in_front(project, distcc, monkeypatch):
    """What distcc sends is preprocessed text; the toolchain is its compiler on the server."""
    monkeypatch.setattr(toolchain.sys, "executable", python_of_the_server())
    shop = project()
    folder = shop.toolchain.folder
    of_this_user = [place for place in folder.parents if Path(tempfile.gettempdir()) in place.parents]
    for place in of_this_user:  # the server is another user's
        place.chmod(0o755)
    folder.chmod(0o777)
    for name in ("work", "idle", "main"):
        words = ("distcc", str(shop.toolchain.cc), TEXT, "-O2", "-c", f"{name}.c", "-o", f"{name}.o")
        run(shop, *words, env=distcc.environment)
    shop.call("work.o", "idle.o", "main.o", "-o", "prog")
    assert counts(shop) == COUNTS
    assert distcc.compiled == 3
    assert {site.file for site in shop.report.sites["work"]} == {"work.c"}


LINK_TIME = [
    ("gcc", ("-flto",)),
    ("gcc", ("-flto", "-fuse-ld=gold")),
    ("gcc", ("-flto", "-ffat-lto-objects", "-fno-use-linker-plugin")),
    ("gcc", ("-fuse-ld=lld",)),
    ("clang", ("-flto=thin", "-fuse-ld=lld")),
    ("clang", ("-flto", "-fuse-ld=lld", "-Wl,--gc-sections", "-ffunction-sections")),
]
WITH_BOUNDS = [LINK_TIME[0], LINK_TIME[3], LINK_TIME[5]]
"""A link-time optimiser and a linker of each kind: what `make test` links with the runtime; `make validate` links all."""


@pytest.mark.parametrize(
    ("bounds", "compiler", "flags"),
    [
        pytest.param(
            bounds,
            compiler,
            flags,
            id=" ".join((str(bounds), compiler, *flags)),
            marks=[pytest.mark.long] if bounds and (compiler, flags) not in WITH_BOUNDS else [],
        )
        for bounds in (False, True)
        for compiler, flags in LINK_TIME
    ],
)
def test_link_time_optimisation_and_linkers(project, tmp_path, compiler, flags, bounds):
    probe = (
        subprocess.run(
            [compiler, *flags, "-x", "c", "-", "-o", tmp_path / "probe"],
            input="int main(void){return 0;}",
            text=True,
            capture_output=True,
            check=False,
        )
        if shutil.which(compiler)
        else None
    )
    if probe is None or probe.returncode:
        pytest.skip(f"{compiler} {' '.join(flags)} does not link here")
    linked = {"runtime": runtime_files(), "bounds": BOUNDS} if bounds else {}
    shop = project(compilers={"cc": compiler}, served=True, **linked)
    for name in ("work", "main", "idle"):
        shop.call(TEXT, "-O2", *flags, "-c", f"{name}.c")
    shop.call("-O2", *flags, "work.o", "main.o", "idle.o", "-o", "prog")
    if bounds:
        assert run(shop, "./prog").stdout == "16\n"
        symbols = run(shop, "nm", "prog").stdout
        assert "unperturbed_register" in symbols
    else:
        assert counts(shop) == COUNTS


@pytest.mark.parametrize("how", ["-include", "#include"])
def test_precompiled_headers_of_gcc(project, how):
    shop = project(served=True)
    shop.call("-O2", "shared.h", "-o", "shared.h.gch")
    if how == "-include":
        for name in ("work.c", "main.c"):
            shop.write(name, FILES[name].replace('#include "shared.h"\n', ""))
    forced = ["-include", "shared.h"] if how == "-include" else []
    stderr = "".join(
        shop.call("-O2", "-Winvalid-pch", TEXT, *forced, "-c", f"{name}.c").stderr for name in ("work", "main", "idle")
    )
    assert stderr == ""
    shop.call("work.o", "main.o", "idle.o", "-o", "prog")
    assert counts(shop) == COUNTS
    assert set(passed(shop)) <= {"idle.c"}, "the launcher does not know what is in the others"


@needs("clang")
def test_precompiled_headers_of_clang(project):
    shop = project(compilers={"cc": "clang"}, served=True)
    shop.call("-x", "c-header", "shared.h", "-o", "shared.h.pch")
    shop.write("work.c", FILES["work.c"].replace('#include "shared.h"\n', ""))
    for name in ("work", "main"):
        assert shop.call("-include-pch", "shared.h.pch", "-c", f"{name}.c").stderr == ""
    shop.call(TEXT, "-c", "idle.c")
    shop.call("work.o", "main.o", "idle.o", "-o", "prog")
    assert counts(shop) == COUNTS
    (shop.folder / "shared.h").rename(shop.folder / "gone.h")
    shop.write("moved/shared.h.pch", "")
    shutil.copy(shop.folder / "shared.h.pch", shop.folder / "moved")
    stderr = ""
    for name in ("one", "two"):
        shop.write(f"{name}.c", "int other(int n) { return n; }\n")
        result = subprocess.run(
            [str(shop.toolchain.cc), "-include-pch", "moved/shared.h.pch", "-c", f"{name}.c"],
            cwd=shop.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        stderr += result.stderr
    assert stderr.count("unperturbed cc: note:") <= 1


@needs("make")
def test_a_project_of_errors_for_warnings(workshop):
    shop = workshop({"all": {"enter": "*"}, "loops": {"loop": "*"}, "writes": {"write": "*"}, "calls": {"call": "*"}})
    flags = "-std=c11 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wmissing-prototypes -Wstrict-prototypes -Werror -O2 -g -DTEXT='\"two words\"'"
    shop.write("Makefile", f"CFLAGS = {flags}\nprog: main.o work.o idle.o\n\t$(CC) $(CFLAGS) -o $@ $^\n")
    for name, text in FILES.items():
        shop.write(name, text)
    shop.write("idle.c", f'#include "shared.h"\n{FILES["idle.c"]}')
    run(shop, "make", f"CC={shop.toolchain.cc}")
    output, found = shop.run()
    assert output == "16\n"
    assert found["all"] == 5
    shop.write("idle.c", "int idle(int n) { int unused; return n; }\n")
    assert "unused variable" in shop.call("-Wall", "-Werror", "-c", "idle.c", code=1).stderr


DEPENDENCIES = [
    ("-MD", "-c", "{}.c"),
    ("-MMD", "-MP", "-c", "{}.c", "-o", "out dir/o b.o"),
    ("-MD", "-MF", "deps of", "-MT", "a target", "-c", "{}.c"),
    ("-Wp,-MMD,deps", "-c", "{}.c"),
    ("-MMD", "-S", "{}.c"),
]


@pytest.mark.parametrize("source", ["work", "idle"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_dependency_files_are_the_compilers_own_however_a_source_is_compiled(project, source, compiler):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} not installed")
    shop = project(compilers={"cc": compiler}, served=True)
    shop.call(TEXT, "-c", "idle.c")  # from here on the launcher knows the compiler's folders
    for number, arguments in enumerate(DEPENDENCIES):
        words = [argument.format(source) for argument in arguments]
        found = []
        for name, command in (("plain", compiler), ("wrapped", str(shop.toolchain.cc))):
            folder = shop.folder / f"{name}{number}"
            (folder / "out dir").mkdir(parents=True)
            for file in FILES:
                shutil.copy(shop.folder / file, folder)
            subprocess.run([command, TEXT, *words], cwd=folder, check=True)
            files = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
            texts = {
                path: file.read_text()
                for path, file in files.items()
                if path.suffix == ".d" or path.name.startswith("deps")
            }
            assert texts, arguments
            found.append((sorted(files), texts))
        assert found[0] == found[1], arguments
        assert passed(shop).count("idle.c") == (number + 1 if source == "idle" else 0), arguments


def test_outputs_through_the_launcher(project):
    shop = project()
    shop.call(TEXT, "-c", "idle.c")
    shop.write("a b/idle two.c", FILES["idle.c"].replace("idle", "idle_two"))
    shop.call(TEXT, "-c", "a b/idle two.c", "-o", "a b/o b j.o")
    shop.call(TEXT, "-c", "idle.c", "a b/idle two.c")
    shop.call(TEXT, "-S", "idle.c", "-o", "idle.s")
    shop.write("args", f"'{TEXT}' -c \"a b/idle two.c\" -o from\\ file.o")
    shop.call("@args")
    for name in ("a b/o b j.o", "idle two.o", "from file.o"):
        assert "idle_two" in run(shop, "nm", name).stdout
    assert "idle:" in (shop.folder / "idle.s").read_text()
    assert "strlen" in shop.call(TEXT, "-E", "idle.c").stdout
    assert passed(shop) == ["idle two.c", "idle.c", "idle two.c", "idle.c"]
    assert set(shop.report.sources) == {"idle.c", "a b/idle two.c"}


def test_assembly_beside_an_instrumented_source_is_in_the_report(workshop):
    shop = workshop({"work": {"enter": "work"}})
    shop.write("start.s", ".globl start\nstart:\n ret\n.section .note.GNU-stack\n")
    shop.write("main.c", "int work(int n) { return n; }\nint main(void) { return work(3); }\n")
    assert "start.s has no counters: assembly source" in shop.call("main.c", "start.s", "-o", "prog").stderr
    assert shop.report.skipped == {"start.s": "assembly source"}
    assert shop.lines("work") == [1]


def test_sources_that_nobody_can_instrument_are_said_once(workshop):
    shop = workshop({"work": {"enter": "work"}})
    shop.write("start.s", ".globl start\nstart:\n ret\n.section .note.GNU-stack\n")
    shop.write("other.S", "#define NAME other\n.globl NAME\nNAME:\n ret\n.section .note.GNU-stack\n")
    shop.write("main.c", "int work(int n) { return n; }\nint main(void) { return work(3); }\n")
    notes = [
        shop.call(*words).stderr
        for words in (
            ("-c", "start.s"),
            ("-c", "other.S"),
            ("-c", "start.s"),
            ("main.c", "start.s", "other.S", "-o", "prog"),
        )
    ]
    assert [note.count("unperturbed cc: note: ") for note in notes] == [1, 0, 0, 0]
    assert "start.s has no counters: assembly source" in notes[0]
    assert shop.report.skipped == {"start.s": "assembly source", "other.S": "assembly source"}
    assert shop.run(code=3)[1] == {"work": 1}
    silent = workshop({}, name="silent")
    silent.write("start.s", ".globl start\nstart:\n ret\n")
    assert silent.call("-c", "start.s").stderr == ""


def test_each_source_that_cannot_be_read_is_said_once(workshop):
    shop = workshop({"work": {"enter": "work"}})
    nested = "int work(int n) { int inner(int k) { return k + n; } return inner(2); }\n"
    for name in ("one.c", "two.c"):
        shop.write(name, nested)
    notes = [shop.call("-c", name).stderr.count("note:") for name in ("one.c", "two.c", "one.c", "two.c")]
    assert notes == [1, 1, 0, 0]


def test_a_sham_has_settings_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    metrics = tmp_path / "metrics.yaml"
    metrics.write_text("software:\n  work: {enter: work}\n")
    Path("x.c").write_text("int work(int n) { return n; }\n")
    code = []
    for sham in (False, True, False):
        assert run_compiler(metrics, ["gcc", "-O2", "-c", "x.c"], sham=sham) == 0
        code.append(subprocess.run(["objdump", "-d", "x.o"], capture_output=True, text=True, check=True).stdout)
    assert code[0] == code[2]
    assert [text.count("incq") for text in code] == [1, 0, 1]
    for name in ("metrics.yaml.toolchain", "metrics.yaml.sham.toolchain"):
        assert set(read_sites(tmp_path / name).sites) == {"work"}
