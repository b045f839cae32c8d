"""Metrics of a Java virtual machine: in real machines, with every collector, and with nothing else changed."""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import subprocess
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.instrument.python.sampled import counts, run_sampled
from unperturbed.collectors.records.file import Records, Setup
from unperturbed.collectors.runtime import build_preload
from unperturbed.collectors.runtime.jvm import build_jvm_counter
from unperturbed.errors import HostError, SpecError
from unperturbed.instrument.events import Event, parse_event
from unperturbed.instrument.java import counts_methods, find_java_sites, java_machine, load_option
from unperturbed.instrument.java.class_file import read_class_file

pytestmark = pytest.mark.skipif(
    shutil.which("javac") is None, reason="no Java development kit here (apt-get install default-jdk-headless)"
)
PROGRAM = Path(__file__).parents[3] / "collectors/runtime/program"
PATH = "/usr/local/bin:/usr/bin:/bin"

SHAPES = """
import java.util.*;
import java.util.function.*;

public class Shapes {
    static int finals;
    interface Shape { default int area(int x) { return 2 * x; } static int none() { return 0; } }
    static class Square implements Shape {
        final int side;
        Square(int side) { this.side = side > 3 ? side : side + 1; }
        int loops(int times) { for (;;) { if (times <= 0) return side; times--; } }
    }
    static int table(int x) { switch (x % 5) { case 0: return 1; case 1: return 2; case 2: return 5; default: return 0; } }
    static int lookup(int x) { switch (x) { case 1: return 1; case 1000: return 2; case 1000000: return 3; default: return 0; } }
    static int text(String s) { switch (s) { case "a": return 1; case "bb": return 2; default: return 3; } }
    static int tries(int x) {
        try {
            if (x % 3 == 0) throw new IllegalStateException();
            return x;
        } catch (IllegalStateException error) {
            return error.getStackTrace()[0].getLineNumber();
        } finally {
            finals++;
        }
    }
    static Object fresh(boolean yes) { return new StringBuilder(yes ? "yes" : "no").append(yes ? 1 : 2); }
    static synchronized long wide(long a, double b) { long c = a; double d = b; return (long) (c + d); }
    static int overloaded(int x) { return x; }
    static int overloaded(long x) { return 1; }
    static int recurses(int n) { return n == 0 ? 0 : 1 + recurses(n - 1); }
    public static void main(String[] arguments) throws Exception {
        long sum = 0;
        for (int i = 0; i < 3000; i++) {
            Square square = new Square(i % 7);
            sum += table(i) + lookup(i) + text(i % 2 == 0 ? "a" : "bb") + tries(i) + square.area(i) + square.loops(i % 9);
            sum += fresh(i % 2 == 0).toString().length() + wide(i, i / 2.0) + overloaded(i) + overloaded((long) i);
            IntUnaryOperator twice = x -> x + x;
            sum += twice.applyAsInt(i) + Shape.none();
        }
        sum += recurses(500);
        System.out.println(sum + " " + finals);
    }
}
"""

EXPECTED = {
    "Shapes.main": 1,
    "Shapes$Square.<init>": 3000,
    "Shapes$Square.loops": 3000,
    "Shapes$Shape.area": 3000,
    "Shapes$Shape.*": 6000,
    "Shapes.table": 3000,
    "Shapes.lookup": 3000,
    "Shapes.text": 3000,
    "Shapes.tries": 3000,
    "Shapes.fresh": 3000,
    "Shapes.wide": 3000,
    "Shapes.overloaded": 6000,
    "Shapes.recurses": 501,
    "Shapes.lambda$main$0": 3000,
    "*.recur?es": 501,
}


def kits() -> Iterator[str]:
    """Yield the launcher of every Java here, one for each version."""
    found = {}
    for place in [Path(shutil.which("java") or "/nowhere"), *Path("/usr/lib/jvm").glob("*/bin/java")]:
        home = place.resolve().parent.parent
        if (home / "include/jvmti.h").is_file():
            found.setdefault(home.name, str(home / "bin/java"))
    yield from found.values()


def metrics(*targets: str) -> dict[str, Event]:
    events = ("collections", "compilations", "classes")
    return {
        f"metric{number}": parse_event({"jvm": {"event" if target in events else "enter": target}, "threads": "exact"})
        if target not in events
        else parse_event({"jvm": {"event": target}})
        for number, target in enumerate(targets)
    }


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of these tests, compiled."""
    folder = tmp_path_factory.mktemp("java")
    for text in (SHAPES, EVENTS, ENDS):
        name = re.search(r"public class (\w+)", text)
        assert name
        (folder / f"{name[1]}.java").write_text(text)
    subprocess.run(["javac", "-g", *(file.name for file in folder.glob("*.java"))], cwd=folder, check=True)
    return folder


def sampled(
    folder: Path,
    words: Sequence[str],
    *targets: str,
    java: str = "java",
    software: dict[str, Event] | None = None,
    **more: str,
) -> tuple[Records, subprocess.CompletedProcess[str]]:
    """Run `java` with words under the sampler outside, as the harness does."""
    software = software or metrics(*targets)
    environment = {"PATH": PATH, "HOME": "/nonexistent", **more}
    machine = java_machine([java, *words], environment=environment, folder=folder)
    library = build_jvm_counter("gcc", machine.home, machine.include, methods=counts_methods(software))
    command = [java, load_option(library, software), *words]
    setup = Setup("none", 2_000_000, "monotonic", software=len(software), sampler="outside", program="java")
    return run_sampled(folder, command, [build_preload("gcc")], setup, environment, cwd=folder)


def alone(folder: Path, words: Sequence[str], java: str = "java") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [java, *words],
        env={"PATH": PATH, "HOME": "/nonexistent"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("java", list(kits()))
@pytest.mark.parametrize("mode", ["-Xcomp", "-Xmixed", pytest.param("-Xint", marks=pytest.mark.long)])
def test_methods_are_counted_exactly_and_nothing_else_changes(
    tmp_path: Path, classes: Path, java: str, mode: str
) -> None:
    words = [mode, "-Xverify:all", "-XX:-UsePerfData", "-cp", str(classes), "Shapes"]
    if mode == "-Xcomp":
        words[:1] = ["-XX:CompileCommand=quiet", "-XX:CompileCommand=compileonly,Shapes*::*", "-Xcomp"]
    records, done = sampled(tmp_path, words, *EXPECTED, java=java)
    assert dict(zip(EXPECTED, counts(records), strict=True)) == EXPECTED
    plain = alone(tmp_path, words, java)
    assert (done.returncode, done.stdout, done.stderr) == (0, plain.stdout, plain.stderr)


def test_every_method_of_the_library_can_be_counted(tmp_path: Path, classes: Path) -> None:
    """Thousands of class files, each verified after the insertion; plain and atomic counters see the same entries."""
    every = {"jvm": {"enter": "*.*"}}
    software = {"plain": parse_event(every), "exact": parse_event({**every, "threads": "exact"})}
    words = ["-Xverify:all", "-cp", str(classes), "Shapes"]
    records, done = sampled(tmp_path, words, software=software)
    plain, exact = counts(records)
    assert done.returncode == 0, done.stderr
    assert exact > 100_000
    assert abs(plain - exact) < 0.001 * exact


def test_damaged_class_files_are_refused_without_harm(tmp_path: Path, classes: Path) -> None:
    """The class files come from the program, and the JVM checks them only afterwards."""
    files = sorted(classes.glob("*.class"))
    flags = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{PROGRAM}"]
    sources = [str(Path(__file__).parent / "class_file_fuzz.c"), str(PROGRAM / "class_file.c")]
    subprocess.run(["gcc", *flags, *sources, "-o", str(tmp_path / "fuzz")], check=True)
    done = subprocess.run([tmp_path / "fuzz", *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rewritten, refused = map(int, done.stdout.split())
    assert min(rewritten, refused) > 1000
    random = np.random.default_rng(1)
    for file in files:
        data = np.frombuffer(file.read_bytes(), dtype=np.uint8)
        for trial in range(300):
            damaged = data[: random.integers(1, len(data)) if trial % 3 else len(data)].copy()
            damaged[random.integers(len(damaged), size=3)] = random.integers(256, size=3)
            with contextlib.suppress(ValueError):
                read_class_file(damaged.tobytes())


EVENTS = """
public class Events {
    static byte[] kept;
    public static void main(String[] arguments) {
        int collections = Integer.parseInt(arguments[0]);
        for (int i = 0; i < collections; i++) { kept = new byte[1000]; System.gc(); }
        System.out.println(kept.length);
    }
}
"""


@pytest.mark.parametrize(
    ("collector", "pauses"), [("Serial", 1), ("Parallel", 1), ("G1", 1), ("Z", 3), ("Shenandoah", None)]
)
def test_events_of_the_machine(tmp_path: Path, classes: Path, collector: str, pauses: int | None) -> None:
    """A pause for each collection of the collectors that stop the program; several for those beside it."""
    words = [f"-XX:+Use{collector}GC", "-Xmx64m", "-cp", str(classes), "Events"]
    events = ("collections", "compilations", "classes")
    found = {}
    for collections in (2, 12):
        folder = tmp_path / str(collections)
        folder.mkdir()
        records, done = sampled(folder, [*words, str(collections)], *events)
        if "Unrecognized VM option" in done.stderr:
            pytest.skip(f"this Java has no {collector} collector")
        assert done.returncode == 0, done.stderr
        found[collections] = dict(zip(events, counts(records), strict=True))
    more = found[12]["collections"] - found[2]["collections"]
    # A full collection of the parallel collector begins with one of the young objects.
    assert more >= 10 if pauses is None else more in (10 * pauses, 20 if collector == "Parallel" else 10 * pauses)
    for counted in found.values():
        assert counted["classes"] > 10


ENDS = """
public class Ends {
    static long work(long x) { return 31 * x + 7; }
    public static void main(String[] arguments) throws Exception {
        long sum = 0;
        for (int i = 0; i < 1000000; i++) sum = work(sum);
        switch (arguments[0]) {
            case "returns": break;
            case "long": for (int i = 0; i < 300000000; i++) sum = work(sum); break;
            case "exits": System.exit(3);
            case "halts": Runtime.getRuntime().halt(4);
            case "throws": throw new IllegalStateException("on purpose");
            case "daemon": {
                Thread thread = new Thread(() -> { for (;;) work(1); });
                thread.setDaemon(true);
                thread.start();
                break;
            }
            case "thread": {
                new Thread(() -> { try { Thread.sleep(30); } catch (InterruptedException error) { } work(1); }).start();
                break;
            }
            case "killed": Runtime.getRuntime().exec(new String[]{"kill", "-9", "" + ProcessHandle.current().pid()}).waitFor();
            case "java": {
                ProcessBuilder child = new ProcessBuilder("java", "-cp", System.getProperty("java.class.path"), "Ends", "returns");
                int code = child.inheritIO().start().waitFor();
                if (code != 0) System.exit(code);
                break;
            }
            case "environment":
                System.out.println(System.getenv("JAVA_TOOL_OPTIONS") + System.getenv("JDK_JAVA_OPTIONS"));
                break;
        }
        System.out.println(sum);
    }
}
"""


@pytest.mark.parametrize(
    ("how", "code", "entries"),
    [
        ("returns", 0, 1_000_000),
        ("exits", 3, 1_000_000),
        ("halts", 4, 1_000_000),
        ("throws", 1, 1_000_000),
        ("daemon", 0, None),
        ("thread", 0, 1_000_001),
        ("killed", -signal.SIGKILL, 1_000_000),
        ("java", 0, 1_000_000),
        ("environment", 0, 1_000_000),
    ],
)
def test_the_ends_of_a_program(tmp_path: Path, classes: Path, how: str, code: int, entries: int | None) -> None:
    """Counts are whole however the program ends; another Java that it starts counts nothing."""
    words = ["-cp", str(classes), "Ends", how]
    records, done = sampled(tmp_path, words, "Ends.work")
    plain = alone(tmp_path, words)
    assert (done.returncode, done.stdout, done.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    assert done.returncode == code
    (counted,) = counts(records)
    assert counted == entries if entries is not None else counted > 1_000_000


def test_a_tight_loop_is_seen_while_it_runs(tmp_path: Path, classes: Path) -> None:
    """The compilers keep every plain addition where it is: no interval is empty and none holds it all."""
    every = {"calls": parse_event({"jvm": {"enter": "Ends.work"}})}
    records, _ = sampled(tmp_path, ["-cp", str(classes), "Ends", "long"], software=every)
    (counted,) = counts(records)
    assert counted == 301_000_000
    grown = np.diff(records.rows["software"][:, 0])
    assert np.all(grown >= 0)
    assert np.max(grown) < 0.5 * counted


def sites(command: list[str], target: str, folder: Path, **environment: str) -> list[str]:
    (event,) = metrics(target).values()
    found = find_java_sites(command, "calls", event, environment={"PATH": PATH, **environment}, folder=folder)
    return [*(f"{site.file}:{site.line} {site.text}" for site in found.sites), *found.uncounted]


def test_methods_are_found_where_java_finds_them(tmp_path: Path, classes: Path) -> None:
    shown = sites(["java", "-cp", str(classes), "Shapes"], "Shapes.overloaded", tmp_path)
    assert shown == ["Shapes.java:28 Shapes.overloaded(int)", "Shapes.java:29 Shapes.overloaded(long)"]
    with zipfile.ZipFile(tmp_path / "shapes.jar", "w") as archive:
        for file in classes.glob("Shapes*.class"):
            archive.write(file, file.name)
    with zipfile.ZipFile(tmp_path / "main.jar", "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\nMain-Class: Shapes\nClass-Path: shapes.jar\n")
    (tmp_path / "arguments").write_text('-Xmx64m -cp "shapes.jar"')
    for words in (
        ["-jar", "main.jar"],
        ["-cp", "other:shapes.jar", "Shapes"],
        ["-cp", "*", "Shapes"],
        ["@arguments", "Shapes"],
        ["--class-path=shapes.jar", "-Xmx64m", "Shapes"],
    ):
        assert sites(["java", *words], "Shapes.overloaded", tmp_path) == shown, words
    assert sites(["java", "Shapes"], "Shapes.overloaded", tmp_path, CLASSPATH=str(classes)) == shown
    assert sites(["java", "-cp", str(classes), "Shapes"], "Shapes$Square.<init>", tmp_path)
    library = sites(["java", "-jar", "main.jar"], "java.util.HashMap.resize", tmp_path)
    assert "java.util.HashMap.resize()" in library[0]
    assert "intrinsics" in library[-1]


@pytest.mark.parametrize(
    ("words", "target", "expected"),
    [
        (["Shapes"], "Shapes.overload", "Shapes has no method overload; nearest names: Shapes.overloaded"),
        (["Shapes"], "Square.loops", "no class Square on the class path"),
        (["Shapes"], "Square.loops", "nearest names: Shapes$Square.loops"),
        (["Shapes"], "java.lang.Object.hashCode", "is native and has no code to count in"),
        (["Shapes"], "java.util.List.size", "is abstract and has no code to count in"),
        (["Shapes"], "jdk.internal.misc.Unsafe.getInt", "what the counters themselves use"),
        (["Shapes.java"], "Shapes.main", "is source code"),
        (["-version"], "collections", "`-version` runs no program"),
        ([], "collections", "without a class"),
    ],
)
def test_what_cannot_be_counted_is_refused_by_name(
    tmp_path: Path, classes: Path, words: list[str], target: str, expected: str
) -> None:
    with pytest.raises(SpecError) as refused:
        sites(["java", *(["-cp", str(classes)] if words else []), *words], target, tmp_path)
    assert expected in str(refused.value)


def test_commands_without_a_usable_machine_are_refused_by_name(tmp_path: Path) -> None:
    def refused(command: str, error: type[Exception]) -> str:
        with pytest.raises(error) as raised:
            sites([command, "Shapes"], "collections", tmp_path)
        return str(raised.value)

    assert "java: no such program (on Debian: apt-get install default-jdk-headless)" in refused_without_path(tmp_path)
    script = tmp_path / "start.sh"
    script.write_text("#!/bin/sh\nexec java Shapes\n")
    script.chmod(0o755)
    assert "is a script for /bin/sh; write the `java` command" in refused(str(script), SpecError)
    assert "is not the launcher of a Java virtual machine" in refused("/bin/true", SpecError)
    (tmp_path / "native.c").write_text(
        'int heap __attribute__((section(".svm_heap"))) = 1;\nint main(void) { return 0; }\n'
    )
    subprocess.run(["gcc", "native.c", "-o", "native"], cwd=tmp_path, check=True)
    assert "GraalVM compiled this program into a native image" in refused(str(tmp_path / "native"), SpecError)
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    shutil.copy(Path(shutil.which("java") or "").resolve(), home / "bin/java")
    assert "is not an installation of Java" in refused(str(home / "bin/java"), HostError)
    (home / "release").write_text('JAVA_VERSION="1.8.0_402"\n')
    assert "Java 8.0 is not supported; use version 11 or later" in refused(str(home / "bin/java"), HostError)
    (home / "release").write_text('JAVA_VERSION="17.0.15"\n')
    assert "has no C headers" in refused(str(home / "bin/java"), HostError)


def refused_without_path(folder: Path) -> str:
    (event,) = metrics("collections").values()
    with pytest.raises(SpecError) as raised:
        find_java_sites(["java", "Shapes"], "calls", event, environment={"PATH": "/nowhere"}, folder=folder)
    return str(raised.value)
