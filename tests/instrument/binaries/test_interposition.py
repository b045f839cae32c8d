"""Calls of library functions, counted by functions that come between.

In real programs, under both samplers, whatever is passed and returned.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.collectors.runtime.programs import BUSY, COUNTED, compile_program
from tests.instrument.binaries.calls import ALLOCATED, ALLOCATING, CALLED, COLLIDING, COUNTER, LIBRARY, TORTURE
from tests.instrument.python.sampled import counts, run_sampled
from unperturbed.collectors.records.file import NO_PINNING, Records, Setup
from unperturbed.collectors.runtime import build_interposer, build_preload
from unperturbed.collectors.sources.callgrind import Machine, valgrind_command
from unperturbed.errors import SpecError
from unperturbed.instrument.binaries.interposition import Interposed, find_function, interposer_source
from unperturbed.instrument.events import parse_event

SAMPLERS = ("inside", "outside")


def compiled(folder: Path, text: str, *flags: str, name: str = "plain", compiler: str = "gcc") -> Path:
    """Compile a program or library as anybody would, without us."""
    source = folder / f"{name}.{'cc' if compiler.endswith('++') else 'c'}"
    source.write_text(text)
    shared = ["-shared", "-fPIC"] if name.endswith(".so") else []
    subprocess.run(
        [compiler, "-O1", "-Wall", "-Werror", *shared, str(source), *flags, "-o", str(folder / name), "-ldl"],
        check=True,
    )
    return folder / name


def interposer(*functions: str | Interposed, compiler: str = "gcc") -> Path:
    found = [item if isinstance(item, Interposed) else Interposed(item) for item in functions]
    return build_interposer(compiler, interposer_source(dict(enumerate(found))))


def metric(function: str, program: Path, *folders: Path) -> Interposed:
    return find_function(parse_event({"preload": function}), program=program, library_path=folders)


def run(
    folder: Path, command: list[str], libraries: list[Path], setup: Setup, **environment: str
) -> tuple[Records, subprocess.CompletedProcess[str]]:
    return run_sampled(folder, command, libraries, setup, {"PATH": os.environ["PATH"], **environment})


def setup(sampler: str, software: int, interval_ns: int = 1_000_000, program: str = "", **more: object) -> Setup:
    return Setup("none", interval_ns, "monotonic", software=software, sampler=sampler, program=program, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_an_unbuilt_program_is_counted_as_it_runs(tmp_path: Path, sampler: str) -> None:
    program = compiled(tmp_path, ALLOCATING, "-fno-builtin")
    alone = subprocess.run([program], capture_output=True, text=True, check=False)
    found = [metric(name, program) for name in ALLOCATED]
    assert {item.library.name for item in found} == {"libc.so.6"}
    libraries = [build_preload("gcc"), interposer(*found)]
    records, done = run(tmp_path, [str(program)], libraries, setup(sampler, 5, program="plain"))
    assert (done.returncode, done.stdout, done.stderr) == (alone.returncode, alone.stdout, alone.stderr)
    assert counts(records) == list(ALLOCATED.values())
    seen = records.rows["software"]
    assert (np.diff(seen, axis=0) >= 0).all()
    assert len(np.unique(seen[:, 0])) > 10, "seen while it grows"


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_samplers_own_calls_are_not_counted(tmp_path: Path, sampler: str) -> None:
    text = (
        BUSY
        + """
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
int main(void) {
    char c;
    struct timespec t;
    int fd = open("/dev/zero", O_RDONLY);
    for (int i = 0; i < 70; i++) { if (read(fd, &c, 1) != 1) return 1; clock_gettime(CLOCK_MONOTONIC, &t); busy(600000); }
    return 0;
}
"""
    )
    names = ("read", "clock_gettime", "open", "strcmp", "dlerror", "dladdr", "mmap", "sysconf", "getrusage")
    program = compiled(tmp_path, text)
    libraries = [build_preload("gcc"), interposer(*names)]
    asked = setup(sampler, len(names), program="plain", os_metrics=("minor_faults", "chars_read"))
    records, done = run(tmp_path, [str(program)], libraries, asked)
    assert done.returncode == 0
    assert len(records.rows) > 5
    assert dict(zip(names, counts(records), strict=True)) == dict.fromkeys(names, 0) | {
        "read": 70,
        "clock_gettime": 70,
        "open": 1,
    }


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_program_built_here_needs_the_interposer_alone(tmp_path: Path, sampler: str) -> None:
    text = (
        COUNTED
        + BUSY
        + "#include <pthread.h>\n#include <stdlib.h>\nstatic void *nothing(void *p) { return p; }\n"
        + "int main(void) { pthread_t t; pthread_create(&t, 0, nothing, 0); pthread_join(t, 0);\n"
        + 'for (int i = 0; i < 50; i++) { COUNT(0); if (!getenv("PATH")) return 1; busy(300000); } return 0; }'
    )
    program = compile_program(tmp_path, text, "-pthread", "-Wl,--export-dynamic-symbol=unperturbed_register*")
    found = {3: metric("getenv", program), 2: metric("pthread_create", program)}
    library = build_interposer("gcc", interposer_source(found))
    records, done = run(tmp_path, [str(program)], [library], setup(sampler, 4))
    assert done.returncode == 0
    assert counts(records) == [50, 0, 1, 50]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_calls_of_a_sampler_that_is_built_in_are_not_counted(tmp_path: Path, sampler: str) -> None:
    text = BUSY + "int main(void) { for (int i = 0; i < 50; i++) busy(1000000); return 0; }"
    flags = [f"-Wl,--export-dynamic-symbol=unperturbed_{name}" for name in ("register*", "apart")]
    program = compile_program(tmp_path, text, "-pthread", *flags)
    names = ("clock_gettime", "malloc", "calloc", "free", "open", "close", "mmap", "memset", "getpid")
    records, done = run(tmp_path, [str(program)], [interposer(*names)], setup(sampler, len(names)))
    assert done.returncode == 0
    assert len(records.rows) > 5
    assert dict(zip(names, counts(records), strict=True)) == dict.fromkeys(names, 0)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="vector arguments of x86-64")
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("early", [False, True])
def test_whatever_is_passed_and_returned_passes_by(tmp_path: Path, early: bool, compiler: str) -> None:
    if not shutil.which(compiler):
        pytest.skip(f"there is no {compiler} here")
    library = compiled(tmp_path, LIBRARY, "-Wno-psabi", name="libmany.so")
    flags = [str(library), f"-Wl,-rpath,{tmp_path}", "-Wno-psabi", *["-DEARLY"] * early]
    program = compiled(tmp_path, TORTURE, *flags)
    alone = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    assert "times 3, callback 42\nvfork 9\n" in alone
    names = [*CALLED, "twice", "call_back", "_setjmp", "vfork", "snprintf", "fwrite"]
    libraries = [build_preload("gcc"), interposer(*names, compiler=compiler)]
    records, done = run(tmp_path, [str(program)], libraries, setup("inside", len(names), program="plain"))
    assert (done.stdout, done.stderr, done.returncode) == (alone, "", 0)
    turns = 1 + early
    expected = {name: count * turns for name, count in CALLED.items()}
    expected |= {"twice": 3, "call_back": 1, "_setjmp": 1, "vfork": 1, "fwrite": 1, "snprintf": 7 * turns + 2}
    if "add4 " not in alone:
        expected |= {"add4": 0, "snprintf": 6 * turns + 2}
    assert dict(zip(names, counts(records), strict=True)) == expected


def test_an_early_call_keeps_vectors_where_the_processor_has_no_xsave(tmp_path: Path) -> None:
    """An emulated processor without AVX takes the older way of saving registers."""
    if os.uname().machine != "x86_64" or not shutil.which("valgrind"):
        pytest.skip("needs valgrind on x86-64")
    library = compiled(tmp_path, LIBRARY, "-Wno-psabi", name="libmany.so")
    program = compiled(tmp_path, TORTURE, str(library), f"-Wl,-rpath,{tmp_path}", "-Wno-psabi", "-DEARLY")
    text = interposer_source({number: Interposed(name) for number, name in enumerate(CALLED)})
    plain = build_interposer("gcc", text.replace("$0x8000000,%r12d", "$0,%r12d"))
    alone = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    done = subprocess.run([program], env={"LD_PRELOAD": str(plain)}, capture_output=True, text=True, check=True)
    assert done.stdout.partition("\n")[2] == alone.partition("\n")[2], "all but the upper halves"


CXX_LIBRARY = """
#include <execinfo.h>
#include <stdexcept>
#include <string>
namespace store { struct Box { int n; int fill(const std::string &s); }; int Box::fill(const std::string &s) {
    if (s.empty()) { throw std::runtime_error("empty"); }
    return n + static_cast<int>(s.size()); } }
int through(int (*f)(int)) { return f(1) + 1; }
int depth() { void *frames[50]; return backtrace(frames, 50); }
"""
CXX = """
#include <cstdio>
#include <stdexcept>
#include <string>
namespace store { struct Box { int n; int fill(const std::string &s); }; }
int through(int (*f)(int));
int depth();
int thrower(int n) { throw n; }
int main() {
    store::Box box{5};
    int sum = box.fill("abc");
    try { box.fill(""); } catch (const std::runtime_error &e) { std::printf("caught %s\\n", e.what()); }
    try { through(thrower); } catch (int n) { sum += n; }
    std::printf("%d, %d frames\\n", sum, depth());
}
"""


def test_cxx_names_exceptions_and_the_stack(tmp_path: Path) -> None:
    library = compiled(tmp_path, CXX_LIBRARY, name="libbox.so", compiler="g++")
    program = compiled(tmp_path, CXX, str(library), f"-Wl,-rpath,{tmp_path}", compiler="g++")
    alone = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    fill = next(
        name
        for name in subprocess.run(["nm", "-D", library], capture_output=True, text=True, check=True).stdout.split()
        if "fill" in name
    )
    names = [fill, "_Z7throughPFiiE", "_Z5depthv", "__cxa_throw", "_Unwind_RaiseException"]
    found = [metric(name, program) for name in names]
    libraries = [build_preload("gcc"), interposer(*found)]
    records, done = run(tmp_path, [str(program)], libraries, setup("inside", 5, program="plain"))
    assert (done.stdout, done.stderr) == (alone, "")
    assert counts(records) == [2, 1, 1, 2, 2]
    with pytest.raises(SpecError, match="by its mangled name"):
        interposer_source({0: Interposed("store::Box::fill")})


VERSIONED = """
__asm__(".symver old_f,f@V1"); __asm__(".symver new_f,f@@V2");
int old_f(void) { return 1; } int new_f(void) { return 2; } int g(void) { return 3; }
"""


def test_an_old_version_of_a_function_is_refused(tmp_path: Path) -> None:
    (tmp_path / "map").write_text("V1 { global: f; g; local: *; }; V2 { global: f; } V1;")
    (tmp_path / "map1").write_text("V1 { global: f; g; local: *; };")
    compiled(
        tmp_path,
        "int f(void) { return 1; } int g(void) { return 3; }",
        f"-Wl,--version-script={tmp_path}/map1",
        name="libv.so",
    )
    link = [str(tmp_path / "libv.so"), f"-Wl,-rpath,{tmp_path}"]
    program = "int f(void), g(void); int main(void) { return f() * 10 + g(); }"
    old = compiled(tmp_path, program, *link, name="old")
    compiled(tmp_path, VERSIONED, f"-Wl,--version-script={tmp_path}/map", "-fno-toplevel-reorder", name="libv.so")
    new = compiled(tmp_path, program, *link, name="new")
    with pytest.raises(
        SpecError,
        match=r"old uses the old version V1 of `f`, but `preload` can forward the calls only to the newer version .* in libv\.so",
    ):
        metric("f", old)
    assert metric("g", old).library == tmp_path / "libv.so"
    libraries = [build_preload("gcc"), interposer(metric("f", new), metric("g", new))]
    records, done = run(tmp_path, [str(new)], libraries, setup("inside", 2, program="new"))
    assert done.returncode == 23
    assert counts(records) == [1, 1]


@pytest.mark.parametrize("symbolic", [False, True])
def test_what_a_library_calls_within_itself_is_said_before(tmp_path: Path, symbolic: bool) -> None:
    text = 'int inner(int n) { __asm__(""); return n + 1; } int outer(int n) { return inner(n) + inner(n); }'
    flags = ["-Wl,-Bsymbolic"] * symbolic
    library = compiled(
        tmp_path, text, "-fsemantic-interposition", "-fno-ipa-pure-const", "-fno-ipa-icf", *flags, name="libin.so"
    )
    program = compiled(
        tmp_path,
        "int inner(int), outer(int); int main(void) { return inner(1) + outer(2); }",
        str(library),
        f"-Wl,-rpath,{tmp_path}",
    )
    found = metric("inner", program)
    assert any("within libin.so itself" in text for text in found.uncounted) == symbolic
    assert ("libin.so itself" in found.notes[0]) != symbolic
    records, done = run(
        tmp_path, [str(program)], [build_preload("gcc"), interposer(found)], setup("inside", 1, program="plain")
    )
    assert done.returncode == 8
    assert counts(records) == [1 if symbolic else 3]


def test_other_names_of_a_function_are_told(tmp_path: Path) -> None:
    text = '#include <stdio.h>\nint main(int n, char **v) { printf("%d %s\\n", n, v[0]); return 0; }'
    program = compiled(tmp_path, text, "-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2")
    found = metric("printf", program)
    assert any("__printf_chk" in text for text in found.uncounted)
    assert any("nothing that plain loads at startup calls printf" in text for text in found.uncounted)
    assert any("compilers treat printf as built-in" in text for text in found.uncounted)
    assert any("chooses one for this processor" in note for note in metric("strlen", program).notes)


@pytest.mark.parametrize(
    ("function", "program", "message"),
    [
        (
            "lzma_cod",
            "/usr/bin/xz",
            r"no library that /usr/bin/xz loads at startup has a function `lzma_cod`; nearest names: lzma_code",
        ),
        ("environ", "/usr/bin/xz", r"`environ` is a variable of .*libc\.so\.6, not a function"),
        ("malloc", "{static}", r"static: this file is statically linked"),
        ("work", "{own}", r"own defines `work` itself, so calls to `work` do not reach a library"),
        ("malloc", "{script}", r"script: this is a script for /bin/sh -e, not a binary"),
        ("malloc", "{nothing}", r"nothing: cannot read the binary"),
    ],
)
def test_what_cannot_be_counted_is_refused(tmp_path: Path, function: str, program: str, message: str) -> None:
    if program.startswith("/") and not Path(program).exists():
        pytest.skip(f"there is no {program} here")
    compiled(tmp_path, "int main(void) { return 0; }", "-static", name="static")
    compiled(tmp_path, "void work(void) {} int main(void) { work(); return 0; }", "-rdynamic", name="own")
    (tmp_path / "script").write_text("#!/bin/sh -e\n")
    files = {name: str(tmp_path / name) for name in ("static", "own", "script", "nothing")}
    with pytest.raises(SpecError, match=message):
        metric(function, Path(program.format(**files)))


def test_a_library_that_another_opens_for_itself_is_found(tmp_path: Path) -> None:
    compiled(tmp_path, "int deep(int n) { return n * 7; }", name="libdeep.so")
    compiled(
        tmp_path,
        "int deep(int); int shallow(int n) { return deep(n); }",
        "-L.",
        str(tmp_path / "libdeep.so"),
        f"-Wl,-rpath,{tmp_path}",
        name="libshallow.so",
    )
    text = f"""
#include <dlfcn.h>
int main(void) {{
    void *library = dlopen("{tmp_path}/libshallow.so", RTLD_NOW | RTLD_LOCAL);
    int (*f)(int);
    *(void **)&f = library ? dlsym(library, "shallow") : 0;
    return f ? f(1) + f(2) + !!dlerror() : 1;
}}
"""
    program = compiled(tmp_path, text)
    records, done = run(
        tmp_path, [str(program)], [build_preload("gcc"), interposer("deep")], setup("outside", 1, program="plain")
    )
    assert done.returncode == 21
    assert counts(records) == [2]


def test_exact_counts_of_threads_that_collide(tmp_path: Path) -> None:
    compiled(tmp_path, "void poke(void) {}", name="libpoke.so")
    program = compiled(tmp_path, COLLIDING, "-pthread", str(tmp_path / "libpoke.so"), f"-Wl,-rpath,{tmp_path}")
    library = interposer(Interposed("poke", exact=True), Interposed("poke"), Interposed("pthread_create"))
    asked = setup("outside", 3, program="plain", observer_cpu=NO_PINNING)
    records, _ = run(tmp_path, [str(program)], [build_preload("gcc"), library], asked)
    exact, plain, started = counts(records)
    assert (exact, started) == (6_000_000, 2)
    assert 3_000_000 <= plain <= exact


# Programs of the distribution, against a count made in another way: a hand-written function that counts and prints at
# the end.


def counted_by_hand(folder: Path, function: str, command: list[str], **more: str) -> tuple[int, bytes]:
    library = compiled(folder, COUNTER, f'-DNAME="{function}"', name="hand.so")
    environment = {"PATH": os.environ["PATH"], "LD_PRELOAD": str(library), "COUNT_FILE": str(folder / "own"), **more}
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    return int((folder / "own").read_text()), done.stdout


def distribution(name: str) -> Path:
    found = shutil.which(name, path="/usr/bin:/bin")
    if not found or Path(found).read_bytes()[:4] != b"\x7fELF":
        pytest.skip(f"there is no {name} here")
    return Path(found)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_xz_through_liblzma(tmp_path: Path, sampler: str) -> None:
    xz = distribution("xz")
    (tmp_path / "data").write_bytes(random.Random(1).randbytes(400_000) + bytes(2_000_000))
    command = [str(xz), "-1", "-T1", "--stdout", str(tmp_path / "data")]
    own, output = counted_by_hand(tmp_path, "lzma_code", command)
    assert own > 50
    events = map(parse_event, ({"preload": "lzma_code"}, {"preload": "read"}))
    found = {number: find_function(event, program=xz) for number, event in enumerate(events)}
    assert found[0].library.name.startswith("liblzma.so")
    library = build_interposer("gcc", interposer_source(found))
    records, _ = run(
        tmp_path,
        ["/bin/sh", "-c", f"{' '.join(command)} > {tmp_path}/out"],
        [build_preload("gcc"), library],
        setup(sampler, 2, program="xz"),
    )
    assert (tmp_path / "out").read_bytes() == output
    assert counts(records)[0] == own
    assert counts(records)[1] == counted_by_hand(tmp_path, "read", command)[0]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("sort", ["-n", "/etc/services"]),
        ("ls", ["-la", "/usr/bin"]),
        ("awk", ["{n[$1]++} END {print length(n)}", "/etc/services"]),
    ],
)
def test_malloc_of_programs_of_the_distribution(tmp_path: Path, name: str, arguments: list[str]) -> None:
    program = distribution(name)
    if "/etc/services" in arguments and not Path("/etc/services").exists():
        pytest.skip("there is no /etc/services here")
    own, output = counted_by_hand(tmp_path, "malloc", [str(program), *arguments])
    assert own > 5
    libraries = [
        build_preload("gcc"),
        interposer(*(metric(function, program) for function in ("malloc", "free", "calloc", "realloc"))),
    ]
    for sampler in SAMPLERS:
        records, done = run(tmp_path, [str(program), *arguments], libraries, setup(sampler, 4, program=name))
        assert done.stdout.encode() == output
        assert counts(records)[0] == own


def test_under_the_simulator(tmp_path: Path) -> None:
    if not shutil.which("valgrind"):
        pytest.skip("there is no valgrind here")
    program = compiled(tmp_path, ALLOCATING, "-fno-builtin", "-DTURNS=2500")  # about 20 intervals
    asked = Setup("simulated", 20_000_000, "process-cpu", software=2, program="plain")
    found = [metric(name, program) for name in ("malloc", "free")]
    command = [*valgrind_command(Machine(), tmp_path / "dumps"), str(program)]
    records, done = run(tmp_path, command, [build_preload("gcc"), interposer(*found)], asked)
    assert (done.returncode, done.stdout) == (3, "1 done\n"), done.stderr
    assert counts(records) == [3001, 3300]
    assert len(np.unique(records.rows["software"][:, 0])) > 3


def test_the_observer_does_not_load_what_it_passes_on(tmp_path: Path) -> None:
    """Preloaded into the observer, the runtime would share its symbols.

    And a program's own preloaded library stays behind ours.
    """
    own = compiled(tmp_path, "int other(void) { return 5; }", name="own.so")
    text = (
        "#include <stdio.h>\n#include <stdlib.h>\n"
        'int main(void) { printf("%s|%s\\n", getenv("LD_PRELOAD"), getenv("UNPERTURBED_PRELOAD") ? "left" : ""); '
        "return 0; }"
    )
    program = compiled(tmp_path, text)
    libraries = [build_preload("gcc"), interposer("getenv")]
    records, done = run(tmp_path, [str(program)], libraries, setup("outside", 1, program="plain"), LD_PRELOAD=str(own))
    assert done.stdout == f"{libraries[0]}:{libraries[1]}:{own}|\n"
    assert counts(records) == [2]


def test_the_library_is_built_once_and_for_another_machine(tmp_path: Path) -> None:
    first, again = interposer("malloc"), interposer("malloc")
    assert first == again != interposer("free")
    if shutil.which("aarch64-linux-gnu-gcc"):
        assert build_interposer(
            "aarch64-linux-gnu-gcc -Wall -Wextra -Werror", interposer_source({0: Interposed("malloc", exact=True)})
        ).exists()
