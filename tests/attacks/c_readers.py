"""Fuzz what is written in C: the launcher of the compiler wrapper, and the runtime's side of the record file.

::

    python -m tests.attacks.c_readers --minutes 10 --seed 1

libFuzzer of clang chooses inputs by the branches that they reach; AddressSanitizer and UndefinedBehaviorSanitizer end
the process at the first access or operation that C does not define. `tools/setup.sh attack` installs what they need.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.attacks.fuzz import CORPUS, Found, corpus_inputs
from tests.attacks.seeds import ROOT, record_files

__all__ = ["TARGETS", "attack_c", "build_target", "missing"]

_C = Path(__file__).parent / "c"
_LAUNCHER = ROOT / "instrument" / "launcher"
_RUNTIME = ROOT / "collectors" / "runtime"
_RENAMED = [f"-D{name}=fuzz_{name}" for name in ("malloc", "calloc", "realloc")]
TARGETS = ("launcher", "record-c")
_FLAGS = ["-g", "-O1", "-std=gnu11", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer", "-w"]
_SECONDS_AN_INPUT = 10


def missing() -> str:
    """Return why these fuzzers cannot be built here; empty when they can."""
    clang = shutil.which("clang")
    if clang is None:
        return "clang is not installed"
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "a.c"
        source.write_text(
            "#include <stdint.h>\n#include <stddef.h>\nint LLVMFuzzerTestOneInput(const uint8_t *d, size_t s) { return 0; }\n"
        )
        done = subprocess.run(
            [clang, "-fsanitize=fuzzer,address", source, "-o", f"{name}/a"], capture_output=True, check=False
        )
    return "" if done.returncode == 0 else "clang has no libFuzzer here (Debian's libclang-rt-dev)"


def build_target(name: str, folder: Path) -> Path:
    """Compile a fuzzer; return the program."""
    program = folder / name
    if name == "record-c":
        sources = [_C / "record.c", _RUNTIME / "common" / "record.c"]
        words = [
            "clang",
            *_FLAGS,
            "-fsanitize=fuzzer,address,undefined",
            f"-I{_RUNTIME / 'common'}",
            *sources,
            "-o",
            program,
        ]
        subprocess.run(words, check=True)
        return program
    seed = folder / "seed.launch"
    seed.write_bytes(configuration(folder))
    flags = [*_FLAGS, "-fsanitize=fuzzer-no-link,address,undefined", f"-I{_LAUNCHER}"]
    objects = []
    for source in sorted(_LAUNCHER.glob("*.c")):
        if source.name != "main.c":
            objects.append(folder / f"{source.stem}.o")
            subprocess.run(["clang", *flags, *_RENAMED, "-c", source, "-o", objects[-1]], check=True)
    own = folder / "own.o"
    subprocess.run(["clang", *flags, f'-DSEED="{seed}"', "-c", _C / "launcher.c", "-o", own], check=True)
    words = ["clang", "-fsanitize=fuzzer,address,undefined", "-Wl,--wrap=fail", own, *objects, "-o", program]
    subprocess.run(words, check=True)
    return program


def configuration(folder: Path) -> bytes:
    """Return the configuration of a launcher whose metrics need text, words and files."""
    from unperturbed.instrument.compiler.toolchain import write_toolchain
    from unperturbed.instrument.events import parse_event

    events = {
        "a": parse_event({"enter": "alpha"}),
        "b": parse_event({"write": "rec.beta"}),
        "c": parse_event({"call": "gamma", "file": "two.h"}),
    }
    write_toolchain(folder / "toolchain", events, compilers={}, runtime=(), objects=folder / "objects")
    return (folder / "toolchain" / "cc.launch").read_bytes()


def _seeds(name: str, folder: Path) -> list[bytes]:
    if name == "record-c":
        sizes = [(len(content) // 64).to_bytes(2, "little") for content in record_files()]
        return [content[:12_000] + size for content, size in zip(record_files(), sizes, strict=True)]
    sources = [path.read_bytes() for path in sorted(_LAUNCHER.glob("*.c"))]
    own = b'#include "two.h"\n#define alpha(x) x##ha\nint alpha(int n);\n\n//@@\nint beta;\n#define DECLARE(n, a) int n a\n\n//@@\n'
    texts = [own, *(text[:3000] + b"\n//@@\nint gamma(void);\n\n//@@\n" for text in sources)]
    words = b"-O2\0-Iinc\0-isystem\0sys\0-include\0a.h\0-c\0a.c\0-o\0a.o\0-DX=1\0-MMD"
    return [b"\0" + configuration(folder), b"\1" + words, *(b"\2" + text for text in texts), b"\3T1 2\0d/usr/include\0DX=1\0",
            b"\2" + own + b"D1 /\0Fx\0Ny\0Walpha beta\0X#define alpha beta\n\0"]  # fmt: skip


def attack_c(name: str, *, seed: int = 1, inputs: int = 0, seconds: float = 0, keep: bool = True) -> Found:
    """Fuzz one of `TARGETS` for so many inputs or seconds."""
    found, began = Found(guided=True), time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        program = build_target(name, folder)
        corpus = folder / "corpus"
        corpus.mkdir()
        for number, content in enumerate([*_seeds(name, folder), *corpus_inputs(name)]):
            (corpus / str(number)).write_bytes(content)
        began = time.monotonic()
        while (not inputs or found.inputs < inputs) and (not seconds or time.monotonic() - began < seconds):
            left = max(1, int(seconds - (time.monotonic() - began))) if seconds else 0
            words = [program, corpus, f"-seed={seed}", f"-artifact_prefix={folder}/", "-max_len=16384", "-print_final_stats=1",
                     f"-timeout={_SECONDS_AN_INPUT}", "-rss_limit_mb=1024", f"-max_total_time={left}",
                     f"-runs={inputs - found.inputs if inputs else -1}", "-verbosity=0", "-detect_leaks=0"]  # fmt: skip
            done = subprocess.run(
                list(map(str, words)), capture_output=True, text=True, errors="replace", check=False, cwd=folder
            )
            told = re.search(r"number_of_executed_units:\s*(\d+)", done.stderr)
            found.inputs += int(told[1]) if told else 0
            seed += 1
            if done.returncode == 0:
                break
            if not _note(name, folder, done.stderr, found, keep=keep):
                break
    for left_folder in Path("/dev/shm").glob("launcher-fuzz-*"):
        if not Path("/proc", left_folder.name.rpartition("-")[2]).exists():
            shutil.rmtree(left_folder, ignore_errors=True)
    found.seconds = time.monotonic() - began
    return found


def _note(name: str, folder: Path, said: str, found: Found, *, keep: bool) -> bool:
    """Keep the input that ended the fuzzer; return whether it is a new fault."""
    what = re.search(r"SUMMARY: .*|.*runtime error: .*", said)
    text = re.sub(r"0x[0-9a-f]{6,}", "0x…", (what[0] if what else said[-300:]).replace(f"{ROOT}/", ""))
    frames = re.findall(r"#\d+ \S+ in (\w+) \S*/(\w+\.c:\d+)", said)
    text += f" in {frames[0][0]} {frames[0][1]}" if frames else ""
    for file in folder.glob("*-*"):
        if file.name.split("-")[0] in ("crash", "timeout", "oom"):
            content = file.read_bytes()
            file.unlink()
            if text in found.faults:
                return False  # the same again: mend it first
            found.faults[text] = content
            if keep:
                target = CORPUS / name / f"{hashlib.sha256(content).hexdigest()[:16]}.gz"
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(gzip.compress(content, mtime=0))
                print(f"  {name}: {text} ({target.name}, {len(content)} bytes)", flush=True)
            return True
    return False


def main(argv: Sequence[str] | None = None) -> int:
    """Fuzz both; return 1 when one has a fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", action="append", choices=TARGETS)
    parser.add_argument("--minutes", type=float, default=0, help="for all together")
    parser.add_argument("--inputs", type=int, default=0, help="for each")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(argv)
    if why := missing():
        print(why)
        return 3
    targets, wrong = asked.target or TARGETS, 0
    for name in targets:
        found = attack_c(name, seed=asked.seed, inputs=asked.inputs, seconds=60 * asked.minutes / len(targets))
        wrong += len(found.faults)
        print(
            f"{name:<20} {found.inputs:>9} inputs {found.seconds:>7.1f} s guided  {len(found.faults)} faults",
            flush=True,
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
