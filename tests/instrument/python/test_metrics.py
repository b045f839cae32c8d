"""Functions of Python programs, counted by the import hook.

In real interpreters, under both samplers, and with nothing else changed.
"""

from __future__ import annotations

import ast
import functools
import json
import re
import shutil
import subprocess
import sys
import sysconfig
import zipapp
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.instrument.python.sampled import counts, run_sampled
from unperturbed.collectors.records.file import Records, Setup
from unperturbed.collectors.runtime import build_interposer, build_preload, build_python_counter
from unperturbed.errors import HostError, SpecError
from unperturbed.instrument.binaries.interposition import find_function, interposer_source
from unperturbed.instrument.events import Event, parse_event
from unperturbed.instrument.python import (
    PythonSites,
    find_python_sites,
    prepare_python_hook,
    python_environment,
)
from unperturbed.instrument.python.injected import hook, rewriting
from unperturbed.instrument.python.injected.command_line import read_command_line

SAMPLERS = ("inside", "outside")
NAMES = (
    "python3.9",
    "python3.10",
    "python3.11",
    "python3.12",
    "python3.13",
    "python3.14",
    "python3.13t",
    "python3.14t",
)


CANDIDATES = {
    "this": str(Path(sys.executable).absolute()),
    "system": "/usr/bin/python3",
    **{name: name for name in NAMES},
}


@functools.cache
def interpreters() -> dict[str, str]:
    """Return this environment's interpreter, the system's, and every other version that is in PATH."""
    found: dict[str, tuple[str, str]] = {}
    for name, path in CANDIDATES.items():
        if shutil.which(path):
            told = subprocess.run(
                [path, "-c", "import sys; print(sys.version); print(sys.executable)"],
                capture_output=True,
                text=True,
                check=False,
            )
            if told.returncode == 0:
                version, _, executable = told.stdout.rstrip("\n").rpartition("\n")
                found.setdefault(version, (name, executable))
    return dict(found.values())


@pytest.fixture
def python(request: pytest.FixtureRequest) -> str:
    """An interpreter; they are asked when the first test runs, as some take a tenth of a second to say that they are
    not there."""
    if request.param not in interpreters():
        pytest.skip(f"there is no {request.param} here that is not one of the others")
    return interpreters()[request.param]


every_interpreter = pytest.mark.parametrize("python", CANDIDATES, indirect=True)


def metrics(*targets: str) -> dict[str, Event]:
    return {f"metric{number}": parse_event({"python": {"enter": target}}) for number, target in enumerate(targets)}


def surroundings(**more: str) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "PYTHONHASHSEED": "0", **more}


def hooked(command: list[str], folder: Path, environment: Mapping[str, str], *targets: str) -> dict[str, str]:
    """Return the environment in which a program counts."""
    hook = prepare_python_hook(
        command,
        metrics(*targets),
        environment=environment,
        folder=folder,
        library=build_python_counter("gcc"),
        cache=folder / "cache of hooks",
    )
    return {**environment, **python_environment(environment, hook)}


def sampled(
    folder: Path, command: list[str], sampler: str, *targets: str, children: bool = False, **environment: str
) -> tuple[Records, subprocess.CompletedProcess[str]]:
    """Run a Python program under a sampler, as the harness does."""
    setup = Setup(
        "none",
        2_000_000,
        "monotonic",
        software=len(targets),
        sampler=sampler,  # type: ignore[arg-type]
        program=Path(command[0]).name,
        children=children,
    )
    environment = hooked(command, folder, surroundings(**environment), *targets)
    return run_sampled(folder, command, [build_preload("gcc")], setup, environment, cwd=folder)


def alone(folder: Path, command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=surroundings(**environment), cwd=folder, capture_output=True, text=True, check=False
    )


def without_addresses(text: str) -> str:
    return re.sub(r"0x[0-9a-f]+", "0x…", text)


EVERYTHING = '''\
"""The script's own text."""
import builtins
import inspect
import os
import sys
import traceback

def plain(a, b=2, *c, d: int = 4, **e):
    """plain's text"""
    return a + b

def generate(n):
    yield n
    yield n + 1

async def wait(): return 1

def decorate(f): return f

class Box:
    @property
    def size(self): return 1
    @staticmethod
    @decorate
    def only(): "text only"
    def outer(self):
        global told
        told = 1
        def inner(): return 3
        return inner() + inner()
    def __private(self):
        return __name__
    def shows(self): return self.__private()

def depth(n):
    try:
        return depth(n + 1)
    except RecursionError:
        return n

for i in range(5): plain(i)
list(generate(1)); Box().size; Box.only(); Box().outer(); Box().shows()
print(depth(0))
try:
    plain("a", 1)
except TypeError:
    traceback.print_exc(file=sys.stdout)
print(inspect.signature(plain), inspect.getsource(plain), plain.__code__.co_firstlineno, plain.__doc__, Box.only.__doc__, plain.__defaults__)
print(plain.__kwdefaults__, plain.__module__, plain.__qualname__, inspect.isgeneratorfunction(generate), inspect.iscoroutinefunction(wait))
print(sys.path, sys.argv, getattr(sys, "orig_argv", None), __file__, __spec__, __builtins__, __name__, __package__, __loader__, __doc__)
print(sorted(globals()), sorted(sys.modules), sys.meta_path, sys.path_hooks, sorted(sys.path_importer_cache), sys.flags)
print(len(inspect.stack()), sys.getprofile(), sys.gettrace(), sorted(dir(sys)), os.getcwd())
print(sorted(item for item in os.environ.items()))
print([name for name in dir(builtins) if "unperturbed" not in name])
'''


@every_interpreter
def test_nothing_else_is_changed(tmp_path: Path, python: str) -> None:
    (tmp_path / "everything.py").write_text(EVERYTHING)
    command = [python, "-X", "utf8", "everything.py", "a", "b"]
    for own in ({}, {"PYTHONPATH": str(tmp_path / "elsewhere")}):
        plain = alone(tmp_path, command, **own)
        assert plain.returncode == 0, plain.stderr
        environment = hooked(
            command,
            tmp_path,
            surroundings(**own),
            "everything.plain",
            "__main__.*",
            "__main__.*.*",
            "everything.Box.outer.inner",
            "inspect.stack",
        )
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert without_addresses(done.stdout) == without_addresses(plain.stdout)
        assert (done.stderr, done.returncode) == (plain.stderr, 0)


PROGRAM = {
    "script.py": """\
import asyncio, collections, json, threading, time
import shop.till as till
from shop import Basket

own = collections.Counter()

def work(n):
    own["work"] += 1
    end = time.process_time() + 0.002
    while time.process_time() < end: pass
    return n

def recur(n):
    own["recur"] += 1
    return n and recur(n - 1)

def generate(n):
    own["generate"] += 1
    yield from range(n)

async def wait(n):
    own["wait"] += 1
    await asyncio.sleep(0)

async def main():
    await asyncio.gather(*(wait(n) for n in range(7)))

def hit(n):
    for _ in range(n): Basket.static()

for n in range(40): work(n)
recur(10)
list(generate(3)); generate(5); next(generate(4))
asyncio.run(main())
basket = Basket()
for n in range(5): basket.add(n)
threads = [threading.Thread(target=hit, args=(20000,)) for _ in range(3)]
for t in threads: t.start()
for t in threads: t.join()
own["add"] = 5
own["static"] = 60000
own["pay"] = till.pay(3)
own["decode"] = 2
json.loads("[1]"), json.loads("{}")
print(json.dumps(own, sort_keys=True))
""",
    "shop/__init__.py": """\
import functools
def traced(f):
    @functools.wraps(f)
    def inner(*a, **k):
        return f(*a, **k)
    return inner
class Basket:
    @traced
    def add(self, n):
        "Docs." ; return n
    @staticmethod
    def static(): return None
""",
    "shop/till.py": """\
if True:
    def pay(n):
        return n if n == 0 else 1 + pay(n - 1)
""",
}
TARGETS = {
    "script.work": "work",
    "__main__.recur": "recur",
    "script.generate": "generate",
    "__main__.wait": "wait",
    "shop.Basket.add": "add",
    "shop.B*.st?tic": "static",
    "json.decoder.JSONDecoder.decode": "decode",
}


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@every_interpreter
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_functions_are_counted_as_they_run(tmp_path: Path, python: str, sampler: str) -> None:
    write(tmp_path, PROGRAM)
    command = [python, "script.py"]
    plain = alone(tmp_path, command)
    targets = [*TARGETS, "shop.till.pay", "shop.traced.inner", "script.*"]
    records, done = sampled(tmp_path, command, sampler, *targets)
    assert (done.stdout, done.stderr, done.returncode) == (plain.stdout, "", 0)
    own = json.loads(plain.stdout)
    expected = [own[name] for name in TARGETS.values()]
    functions = own["work"] + own["recur"] + own["generate"] + own["wait"] + 1 + 3
    assert counts(records) == [*expected, own["pay"] + 1, own["add"], functions]
    seen = records.rows["software"]
    assert (np.diff(seen, axis=0) >= 0).all()
    assert len(np.unique(seen[:, 0])) > 5, "seen while it grows"


def test_what_runs_as_the_main_program(tmp_path: Path) -> None:
    text = "import sys\ndef f(n):\n    return n\nprint([f(n) for n in range(4)], sys.argv, __name__, __spec__ and __spec__.name, sys.path[0])\n"
    write(
        tmp_path,
        {
            "one.py": text,
            "named": text,
            "pack/__init__.py": "def f(n): pass\n",
            "pack/__main__.py": text,
            "pack/part.py": text,
            "dir/__main__.py": text + "import one\n",
            "dir/one.py": text,
        },
    )
    zipapp.create_archive(tmp_path / "dir", tmp_path / "archive.pyz")
    (tmp_path / "link.py").symlink_to(tmp_path / "dir" / "one.py")
    python = sys.executable
    cases: list[tuple[list[str], str, int]] = [
        (["one.py", "x"], "one.f", 4),
        (["-u", str(tmp_path / "one.py")], "__main__.f", 4),
        (["named", "-m"], "named.f", 4),
        (["link.py"], "link.f", 4),
        (["-m", "pack", "y"], "__main__.f", 4),
        (["-m", "pack"], "pack.__main__.f", 4),
        (["-mpack.part"], "pack.part.f", 4),
        (["-m", "pack.part"], "__main__.f", 4),
        (["-c", text, "z"], "__main__.f", 4),
        (["-Bc", text], "__main__.*", 4),
        (["dir"], "__main__.f", 4),
        (["archive.pyz"], "__main__.f", 4),
        (["archive.pyz"], "one.f", 4),
    ]
    for arguments, target, expected in cases:
        command = [python, *arguments]
        plain = alone(tmp_path, command)
        assert plain.returncode == 0, plain.stderr
        records, done = sampled(tmp_path, command, "outside", target)
        assert (done.stdout, done.stderr) == (plain.stdout, plain.stderr), arguments
        assert counts(records) == [expected], (arguments, target)
        found = sites(command, target, folder=tmp_path)
        assert [site.line for site in found.sites] == [2], (arguments, target)


def test_modules_that_come_again_or_by_another_way(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "again.py": "def f(): return 1\nx = [f() for _ in range(3)]\n",
            "script.py": """\
import importlib, importlib.util, sys
import again
importlib.reload(again)
del sys.modules["again"]
import again
spec = importlib.util.spec_from_file_location("again", again.__file__)
other = importlib.util.module_from_spec(spec)
spec.loader.exec_module(other)
print(again.__cached__, again.__loader__.get_source("again"), other.f.__code__ == again.f.__code__)
""",
        },
    )
    command = [sys.executable, "-B", "script.py"]
    plain = alone(tmp_path, command)
    for sampler in SAMPLERS:
        records, done = sampled(tmp_path, command, sampler, "again.f")
        assert (done.stdout, done.stderr) == (plain.stdout, "")
        assert counts(records) == [12]


def test_bytecode_of_chosen_modules_is_neither_read_nor_written(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "chosen.py": "def f(): return 1\n",
            "other.py": "def g(): return 2\n",
            "script.py": "import chosen, other\nchosen.f(); other.g()\n",
        },
    )
    command = [sys.executable, "script.py"]
    records, _ = sampled(tmp_path, command, "outside", "chosen.f")
    assert counts(records) == [1]
    assert [path.name.partition(".")[0] for path in (tmp_path / "__pycache__").iterdir()] == ["other"]
    alone(tmp_path, command)
    before = {path: path.read_bytes() for path in (tmp_path / "__pycache__").iterdir()}
    records, _ = sampled(tmp_path, command, "outside", "chosen.f")
    assert counts(records) == [1]
    assert {path: path.read_bytes() for path in (tmp_path / "__pycache__").iterdir()} == before
    assert len(before) == 2


def test_a_sitecustomize_of_the_programs_own_is_next(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "own/sitecustomize.py": "import sys, shown\nprint('own', __name__, __file__, sys.path[0])\nshown.f()\n",
            "own/shown.py": "def f(): return 1\n",
            "script.py": "import sys, shown, os\nprint(sys.modules['sitecustomize'], "
            "os.environ['PYTHONPATH'])\nshown.f()\n",
            "bad/sitecustomize.py": "import not_there\n",
        },
    )
    command = [sys.executable, "script.py"]
    path = {"PYTHONPATH": str(tmp_path / "own")}
    plain = alone(tmp_path, command, **path)
    records, done = sampled(tmp_path, command, "outside", "shown.f", **path)
    assert (done.stdout, done.stderr) == (plain.stdout, plain.stderr)
    assert plain.stdout.startswith("own sitecustomize")
    assert counts(records) == [2]
    bad = {"PYTHONPATH": f"{tmp_path / 'bad'}:{tmp_path / 'own'}"}
    plain = alone(tmp_path, command, **bad)
    _, done = sampled(tmp_path, command, "outside", "shown.f", **bad)
    assert plain.stderr.startswith("Error in sitecustomize")
    assert done.stderr == plain.stderr


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_that_the_program_starts(tmp_path: Path, method: str) -> None:
    """A forked child counts where children are asked for; one that Python starts anew runs without the hook."""
    write(
        tmp_path,
        {
            "script.py": f"""\
import multiprocessing, os, subprocess, sys
def f(n): return n * n
if __name__ == "__main__":
    f(1)
    with multiprocessing.get_context("{method}").Pool(2) as pool:
        print(pool.map(f, range(6)))
    print(subprocess.run([sys.executable, "-c", "import os, sys; print(os.environ.get('PYTHONPATH'), sys.path[1:2])"], capture_output=True).stdout)
"""
        },
    )
    command = [sys.executable, "script.py"]
    plain = alone(tmp_path, command)
    for children in (False, True):
        records, done = sampled(tmp_path, command, "outside", "script.f", children=children)
        assert (done.stdout, done.stderr) == (plain.stdout, plain.stderr)
        assert counts(records) == [7 if children and method == "fork" else 1]


def test_profilers_and_tracers_of_the_program_see_what_they_saw(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "part.py": "def f(n):\n    'Text.'\n    if n:\n        return g(n)\n    return len([])\n\n\ndef "
            "g(n): return f(n - 1)\n",
            "script.py": """\
import cProfile, io, pstats, sys
import part
lines = []
def trace(frame, event, argument):
    lines.append((event, frame.f_code.co_name, frame.f_lineno))
    return trace
sys.settrace(trace); part.f(3); sys.settrace(None)
calls = []
sys.setprofile(lambda frame, event, argument: calls.append((event, frame.f_code.co_name, getattr(argument, "__name__", argument))))
part.f(2)
sys.setprofile(None)
print(lines, calls)
profile = cProfile.Profile(); profile.runcall(part.f, 5)
print(sorted((key, value[:2]) for key, value in pstats.Stats(profile).stats.items()))
print([list(code.co_lines()) and sorted({line for _, _, line in code.co_lines()}) for code in (part.f.__code__, part.g.__code__)])
""",
        },
    )
    command = [sys.executable, "script.py"]
    plain = alone(tmp_path, command)
    records, done = sampled(tmp_path, command, "inside", "part.f", "part.g")
    assert plain.returncode == 0, plain.stderr
    assert (done.stdout, done.stderr) == (plain.stdout, plain.stderr)
    assert counts(records) == [4 + 3 + 6, 3 + 2 + 5]


def test_a_test_run_of_pytest(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "sums.py": "def add(a, b):\n    return a + b\n",
            "test_sums.py": "from sums import add\ndef test_add():\n    assert add(1, 2) == 3\ndef "
            "test_more():\n    assert add(1, 1) == 2\n",
        },
    )
    for mode in ("prepend", "importlib"):
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--import-mode={mode}",
            "--rootdir=.",
            "test_sums.py",
        ]
        records, done = sampled(
            tmp_path, command, "outside", "sums.add", "test_sums.test_add", PYTHONPATH=str(tmp_path)
        )
        assert "2 passed" in done.stdout, done.stdout
        assert counts(records) == [2, 0]
    found = sites(command, "test_sums.test_add", folder=tmp_path, PYTHONPATH=str(tmp_path))
    assert any("pytest compiles test modules" in text for text in found.uncounted)


def test_every_function_of_the_standard_library_keeps_its_lines() -> None:
    """The text of a function, as its code tells it.

    First line, lines in order, docstring, arguments, names but for the hit's.
    """
    checked = 0
    for file in sorted(Path(sysconfig.get_path("stdlib")).glob("[a-t]*.py")):
        source = file.read_bytes()
        tree = compile(source, str(file), "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
        plain = compile(source, str(file), "exec", dont_inherit=True)
        inserted = rewriting.insert_hits(tree, plain, lambda names: ["__unperturbed_hit_0__"])
        pairs = [(plain, compile(tree, str(file), "exec", dont_inherit=True))]
        found = 0
        while pairs:
            one, other = pairs.pop()
            inner = [[constant for constant in code.co_consts if hasattr(constant, "co_code")] for code in (one, other)]
            pairs += zip(*inner, strict=True)
            names = tuple(name for name in other.co_names if name != "__unperturbed_hit_0__")
            found += names != other.co_names
            for field in (
                "co_name",
                "co_qualname",
                "co_firstlineno",
                "co_flags",
                "co_varnames",
                "co_freevars",
                "co_cellvars",
                "co_argcount",
            ):
                assert getattr(one, field) == getattr(other, field)
            assert set(names) == set(one.co_names)
            assert one.co_consts[:1] == other.co_consts[:1] or hasattr(one.co_consts[0], "co_code")
            lines = [list(dict.fromkeys(line for _, _, line in code.co_lines())) for code in (one, other)]
            assert lines[0] == lines[1], (file, one.co_name)
        assert found == inserted
        checked += found
    assert checked > 3000


def sites(command: list[str], target: str, folder: Path, **environment: str) -> PythonSites:
    ((name, event),) = metrics(target).items()
    return find_python_sites(command, name, event, environment=surroundings(**environment), folder=folder)


def test_sites_are_found_without_running_anything(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "script.py": "raise SystemExit('ran')\ndef f(): pass\n",
            "loud/__init__.py": "raise SystemExit('ran')\n",
            "loud/part.py": "class A:\n    def go(self): pass\n    async def go_on(self): pass\n",
            "loud/deep/__init__.py": "def go(): pass\n",
        },
    )
    targets = ("script.f", "loud.part.A.go*", "loud.*.go", "heapq.*")
    script, part, deep, found = (sites([sys.executable, "script.py"], target, folder=tmp_path) for target in targets)
    assert [(Path(site.file).name, site.line, site.text, site.function) for site in script.sites] == [
        ("script.py", 2, "def f(): pass", "script.f")
    ]
    assert [site.text for site in part.sites] == ["def go(self): pass", "async def go_on(self): pass"]
    assert [site.function for site in deep.sites] == ["loud.deep.go"]
    assert any(text.startswith("heapq.heappush") and "written in C" in text for text in found.uncounted)
    assert {site.function for site in found.sites} >= {"heapq.merge", "heapq.nlargest"}
    assert found.version == ".".join(map(str, sys.version_info[:3]))
    assert found.interpreter == Path(sys.executable)
    elsewhere = sites([sys.executable, "-c", "pass"], "loud.deep.go", folder=Path("/"), PYTHONPATH=str(tmp_path))
    assert elsewhere.sites[0].file == str(tmp_path / "loud" / "deep" / "__init__.py")


@pytest.mark.parametrize(
    ("words", "target", "message"),
    [
        (["script.py"], "json.decoder.JSONDecoder.decod", r"nearest names: json\.decoder\.JSONDecoder\.decode"),
        (["script.py"], "json.JSONDecoder.decode", r"did you mean json\.decoder\.JSONDecoder\.decode\?"),
        (["script.py"], "unittest.TestCase.run", r"did you mean unittest\.case\.TestCase\.run\?"),
        (
            ["script.py"],
            "json.decoder.scanner.py_make_scanner",
            r"no function json\.decoder\.scanner\.py_make_scanner found",
        ),
        (["script.py"], "handed.f", r"did you mean inner\.deep\.f\?"),
        (["script.py"], "handed.gone", r"no function handed\.gone found"),
        (["script.py"], "script.short", r"script\.short is a lambda, .*define a function with `def` instead"),
        (["script.py"], "script.C.method", r"script\.C\.method is a lambda"),
        (
            ["script.py"],
            "_json.scanstring",
            r"the module _json .*is written in C\. Count .*`\{preload: …\}` or `\{probe: \{uprobe: …\}\}`",
        ),
        (
            ["script.py"],
            "script.g",
            r"no function script\.g found in modules that script\.py can import .*; nearest names: script\.f",
        ),
        (["script.py"], "os.path.join", r"the module os .*loaded before the hook"),
        (["script.py"], "codecs.lookup", r"the module codecs .*loaded before the hook"),
        (
            ["script.py"],
            "math.sqrt",
            r"the module math .*written in C\. Count the C function that implements sqrt, with",
        ),
        (["script.py"], "heapq.heappush", r"heapq\.heappush is replaced by _heapq, written in C"),
        (["script.py"], "nothing.f", r"module 'nothing' is missing or defines no functions"),
        (["script.py"], "broken.f", r"not valid source for this Python"),
        (["-I", "script.py"], "script.f", r"-I runs isolated, so the counting hook cannot be installed"),
        (["-BE", "script.py"], "script.f", r"-E runs without PYTHON\* variables"),
        (["-S", "-c", "pass"], "script.f", r"-S runs without the site module"),
        (["-"], "__main__.f", r"read from stdin: save the program to a file"),
    ],
)
def test_what_cannot_be_counted_is_refused(tmp_path: Path, words: list[str], target: str, message: str) -> None:
    files = {
        "script.py": "def f(): pass\nshort = lambda: 1\nclass C:\n    method: object = lambda self: 1\n",
        "broken.py": "def f(:\n",
        "handed.py": "from inner import f, gone\n",
        "inner/__init__.py": "from .deep import f\nfrom handed import gone\n",
        "inner/deep.py": "def f(): pass\n",
    }
    write(tmp_path, files)
    with pytest.raises(SpecError, match=message) as error:
        sites([sys.executable, *words], target, folder=tmp_path)
    assert str(error.value).startswith("software metric 'metric0': ") or " -" in message or "-" in words[0]


def test_only_pythons_are_asked(tmp_path: Path) -> None:
    """Another program would take lookup.py for its input: xz would compress and remove it."""
    scripts = {
        "tool": f"#!{sys.executable} -u\ndef f(): pass\n",
        "by_env": "#!/usr/bin/env python3\ndef f(): pass\n",
        "shell": "#!/bin/sh\nexit 1\n",
        "isolated": f"#!{sys.executable} -I\ndef f(): pass\n",
    }
    write(tmp_path, scripts)
    for name in scripts:
        (tmp_path / name).chmod(0o755)
    assert sites(["./tool"], "tool.f", folder=tmp_path).sites[0].line == 2
    for command, message in (
        ("./by_env", "starts Python through env"),
        ("./shell", "this is a script for /bin/sh, not for Python"),
        ("./isolated", "-I runs isolated"),
        ("/bin/sh", "this is not a Python program"),
        ("nowhere", "no such program"),
    ):
        with pytest.raises(SpecError, match=message):
            sites([command], "tool.f", folder=tmp_path)
    fake = tmp_path / "python-fake"
    shutil.copy("/bin/true", fake)
    with pytest.raises(HostError, match=r"is it CPython 3\.9 or later"):
        sites([str(fake)], "tool.f", folder=tmp_path)


def test_what_a_run_gets(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "pass"]
    environment = hooked(command, tmp_path, surroundings(PYTHONPATH="/own"), "json.dumps")
    hook_folder, own = environment["PYTHONPATH"].split(":")
    assert own == "/own"
    assert {path.name for path in Path(hook_folder).iterdir()} >= {"sitecustomize.pyc", "hook.code", "json.module"}
    assert environment == {**surroundings(), "PYTHONPATH": environment["PYTHONPATH"]}, "nothing else is there"
    assert hooked(command, tmp_path, surroundings(), "json.dumps")["PYTHONPATH"] == hook_folder, "made once"
    assert hooked(command, tmp_path, surroundings(), "json.loads")["PYTHONPATH"] != hook_folder
    assert (
        hooked([sys.executable, "-O", "-c", "pass"], tmp_path, surroundings(), "json.dumps")["PYTHONPATH"]
        != hook_folder
    )
    with pytest.raises(SpecError, match="exceed the limit of 256"):
        hooked(command, tmp_path, surroundings(), *["a.b"] * 257)


def files(*folders: Path) -> dict[Path, tuple[int, int]]:
    """Return everything that is in folders: when it was changed, and its size."""
    found = {path: path.stat() for folder in folders for path in folder.rglob("*")}
    return {path: (state.st_mtime_ns, state.st_size) for path, state in found.items()}


@every_interpreter
def test_the_first_run_does_what_all_others_do(tmp_path: Path, python: str) -> None:
    """Nothing is written by any run, the program allocates as often each time, and no code is compiled."""
    write(
        tmp_path,
        {
            "script.py": """\
import json, sys
def f(n): return json.dumps(n)
for n in range(9): f(n)
print(json.loads('[1]'), '_ast' in sys.modules)
"""
        },
    )
    command = [python, "script.py"]
    alone(tmp_path, command)  # Python keeps what it compiles itself
    own = Path(rewriting.__file__).parent
    before = files(own)
    environment = hooked(command, tmp_path, surroundings(), "script.f", "json.*", "json.*.*.*")
    malloc = find_function(parse_event({"preload": "malloc"}), program=Path(python).resolve(), library_path=())
    libraries = [build_interposer("gcc", interposer_source({3: malloc})), build_preload("gcc")]
    setup = Setup("none", 1_000_000_000, "monotonic", software=4, sampler="outside", program=Path(python).name)
    record = tmp_path / "record"  # of the sampler
    before |= files(tmp_path)
    found = []
    for _ in range(3):
        records, done = run_sampled(tmp_path, command, libraries, setup, environment, cwd=tmp_path)
        assert (done.stdout, done.stderr) == ("[1] False\n", "")
        found.append(counts(records))
        after = files(own, tmp_path)
        assert after.pop(record)
        assert after == before
    assert found[0][0] == 9
    assert found[0][1] == 9 + 1, "dumps, loads"
    assert found[0][2] >= 9 + 1, "encode, decode and what they call"
    assert found[0][3] > 100
    assert found[0] == found[1] == found[2]


@every_interpreter
def test_sources_that_change_after_the_hook_was_made(tmp_path: Path, python: str) -> None:
    """A run counts in what is there, as it is; that it had to be compiled then leaves no trace."""
    text = "import part, sys\n{}def f(): return part.g()\nf(); part.g()\nprint('_ast' in sys.modules, '__future__' in sys.modules)\n"
    write(tmp_path, {"script.py": text.format(""), "part.py": "def g(): return 1\n"})
    command = [python, "script.py"]
    environment = hooked(command, tmp_path, surroundings(), "script.f", "part.g", "late.*")
    setup = Setup("none", 1_000_000_000, "monotonic", software=3, sampler="outside", program=Path(python).name)

    def run() -> list[int]:
        records, done = run_sampled(tmp_path, command, [build_preload("gcc")], setup, environment, cwd=tmp_path)
        assert (done.stdout, done.stderr) == ("False False\n", "")
        return counts(records)

    assert run() == [1, 2, 0]
    write(tmp_path, {"part.py": "import late\ndef g(): return late.h() + late.h()\n", "late.py": "def h(): return 1\n"})
    assert run() == [1, 2, 4]
    write(tmp_path, {"script.py": text.format("f = part.g\nf()\n")})
    assert run() == [1, 3, 6]


def test_programs_that_differ_in_their_place_alone_share_a_hook(tmp_path: Path) -> None:
    for folder in ("one", "other"):
        text = "import part\nclass C:\n    def f(self): return self.f.__code__.co_filename\nprint(C().f(), part.g.__code__.co_filename, part.g())\n"
        write(
            tmp_path,
            {f"{folder}/script.py": text, f"{folder}/part.py": "def g(): return (lambda: 1).__code__.co_filename\n"},
        )
    commands = [[sys.executable, "-B", str(tmp_path / folder / "script.py")] for folder in ("one", "other")]
    one, other = (hooked(command, tmp_path, surroundings(), "script.C.f", "part.g") for command in commands)
    assert one == other
    setup = Setup("none", 1_000_000_000, "monotonic", software=2, sampler="outside", program=Path(sys.executable).name)
    for command in commands:
        records, done = run_sampled(tmp_path, command, [build_preload("gcc")], setup, one, cwd=tmp_path)
        part = str(Path(command[-1]).with_name("part.py"))
        assert (done.stdout, done.stderr) == (f"{command[-1]} {part} {part}\n", "")
        assert counts(records) == [1, 1]


def test_a_loader_that_compiles_by_itself_gets_the_hits(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "part.py": "def g(): return 1\n",
            "script.py": """\
import importlib.util, importlib.machinery
class Loader(importlib.machinery.SourceFileLoader):
    def source_to_code(self, data, path, **more):
        print("compiles", path.rpartition("/")[2])
        return super().source_to_code(data, path, **more)
spec = importlib.util.spec_from_file_location("part", "part.py", loader=Loader("part", "part.py"))
part = importlib.util.module_from_spec(spec)
spec.loader.exec_module(part)
part.g()
""",
        },
    )
    records, done = sampled(tmp_path, [sys.executable, "-B", "script.py"], "outside", "part.g")
    assert (done.stdout, done.stderr) == ("compiles part.py\n", "")
    assert counts(records) == [1]


@pytest.mark.parametrize(
    ("words", "kind", "value", "options"),
    [
        ([], "stdin", "", ()),
        (["-u", "-W", "error", "s.py", "-c"], "script", "s.py", ("-u", "-W", "error")),
        (["-uc", "x", "-m"], "code", "x", ("-u",)),
        (["-Werror", "-mname"], "module", "name", ("-W", "error")),
        (
            ["-Xdev", "--check-hash-based-pycs", "never", "--", "s"],
            "script",
            "s",
            ("-X", "dev", "--check-hash-based-pycs", "never"),
        ),
        (["-"], "stdin", "", ()),
    ],
)
def test_command_lines(words: list[str], kind: str, value: str, options: tuple[str, ...]) -> None:
    line = read_command_line(words)
    assert (line.kind, line.value, line.options) == (kind, value, options)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("f", "f", True),
        ("f", "ff", False),
        ("*", "", True),
        ("f*", "fold", True),
        ("*d", "fold", True),
        ("f*l?", "fold", True),
        ("?", "", False),
        ("*a*b", "cab", True),
    ],
)
def test_globs(pattern: str, name: str, expected: bool) -> None:
    assert hook.matches(pattern, name) is expected
