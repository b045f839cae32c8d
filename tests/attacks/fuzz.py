"""Fuzz the readers: changed inputs, one after the other, in a process that another one watches.

::

    python -m tests.attacks.fuzz --minutes 5                  every reader in turn
    python -m tests.attacks.fuzz --reader trace --inputs 1000 --seed 7

A fault is an exception that is not a `UnperturbedError`, a crash of the process, 10 s without an end, or 1 GB of memory.
Where atheris is installed, changes are chosen by the branches that they reach; else, and with `--plain`, at random.
Each fault is kept in the corpus, `tests/attacks/corpus/READER/`, which `make test` reads again.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import importlib.util
import json
import mmap
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["CORPUS", "Found", "attack_reader", "corpus_inputs", "fault_of", "main"]

CORPUS = Path(__file__).parent / "corpus"
HANG_S = 10.0
MOST_BYTES = 1 << 30
_ROOT = Path(__file__).parents[2]
_HEAD = struct.Struct("<QQQ")
"""Of the memory that both processes share: inputs read, a mark that the input is whole, its size."""
_ROOM = 1 << 20
_SEEDED_SHARE = 0.3


@dataclass
class Found:
    """What an attack on one reader found.

    Attributes
    ----------
    inputs : how many it read.
    faults : the first input of each fault, by what it is.
    """

    inputs: int = 0
    seconds: float = 0.0
    guided: bool = False
    faults: dict[str, bytes] = field(default_factory=dict)


def corpus_inputs(reader: str) -> Sequence[bytes]:
    """Return what was found once in a reader."""
    return [gzip.decompress(path.read_bytes()) for path in sorted((CORPUS / reader).glob("*.gz"))]


def fault_of(error: BaseException) -> str:
    """Return an exception's type, and the place in this tool that it came through last."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        frame
        for frame in frames
        if not frame.filename.startswith(("<", sys.prefix)) and "/attacks/" not in frame.filename
    ]
    at = own[-1] if own else frames[-1]
    place = Path(at.filename)
    return f"{type(error).__name__} in {place.parent.name}/{place.name}:{at.name}: {str(error)[:120]!r}"


def attack_reader(
    name: str, *, seed: int = 1, inputs: int = 1 << 62, seconds: float = 1e9, plain: bool = False, keep: bool = True
) -> Found:
    """Attack one reader for so many inputs or seconds, whichever is over first.

    Parameters
    ----------
    name : of `READERS`.
    keep : write what is found into the corpus.
    """
    from tests.attacks.readers import find_reader

    plain = plain or find_reader(name).compiled()
    found = Found(guided=not plain and importlib.util.find_spec("atheris") is not None)
    started = time.monotonic()
    memory_folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory_folder) as place:
        shared = Path(place) / "shared"
        shared.write_bytes(bytes(_HEAD.size + _ROOM))
        with shared.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
            while found.inputs < inputs and time.monotonic() - started < seconds:
                plan = {
                    "reader": name,
                    "seed": seed,
                    "inputs": inputs - found.inputs,
                    "seconds": seconds - (time.monotonic() - started),
                    "guided": found.guided,
                    "place": place,
                }
                memory[: _HEAD.size] = bytes(_HEAD.size)
                ended = _watch(plan, memory, found)
                seed += 1
                if ended:
                    break
    found.seconds = time.monotonic() - started
    if keep:
        for what, content in found.faults.items():
            _keep(name, what, content)
    return found


def _keep(name: str, what: str, content: bytes) -> None:
    folder = CORPUS / name
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{hashlib.sha256(content).hexdigest()[:16]}.gz"
    file.write_bytes(gzip.compress(content, mtime=0))
    print(f"  {name}: {what} ({file.name}, {len(content)} bytes)", flush=True)


def _watch(plan: dict[str, object], memory: mmap.mmap, found: Found) -> bool:
    """Run one process of inputs; return whether it ended as it should."""
    log = Path(str(plan["place"])) / "faults"
    log.write_bytes(b"")
    environment = {**os.environ, "PYTHONPATH": str(_ROOT), "PYTHONFAULTHANDLER": ""}
    with (Path(str(plan["place"])) / "stderr").open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.attacks.fuzz", "--worker", json.dumps(plan)],
            cwd=_ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stderr,
            stderr=stderr,
        )
        hung, known, since = False, -1, 0.0
        while process.poll() is None:
            time.sleep(0.05)
            count, whole, _ = _HEAD.unpack(memory[: _HEAD.size])
            if count != known or not whole:
                known, since = count, _processor_s(process.pid)
            elif _processor_s(process.pid) - since > HANG_S:
                hung = True
                process.kill()
    count, whole, size = _HEAD.unpack(memory[: _HEAD.size])
    found.inputs += count
    for line in log.read_text().splitlines():
        what, text = json.loads(line)
        found.faults.setdefault(what, bytes.fromhex(text))
    if whole and (hung or process.returncode):
        what = "no end in 10 s" if hung else f"the process died ({process.returncode})"
        digest = hashlib.sha256(memory[_HEAD.size : _HEAD.size + size]).hexdigest()[:8]
        found.faults[f"{what} of {digest}"] = memory[_HEAD.size : _HEAD.size + size]
        return False
    if process.returncode:
        raise RuntimeError((Path(str(plan["place"])) / "stderr").read_text()[-2000:])
    return True


def _processor_s(process: int) -> float:
    """Return the CPU time of a process: a busy machine makes no input a hang."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class _Worker:
    """Reads inputs, and notes before each what it reads."""

    def __init__(self, plan: dict[str, object]) -> None:
        from tests.attacks.readers import empty_folder, find_reader
        from unperturbed.errors import UnperturbedError

        self.reader, self._refusal, self._empty = find_reader(str(plan["reader"])), UnperturbedError, empty_folder
        place = Path(str(plan["place"]))
        self._folder = place / "own"
        self._folder.mkdir(exist_ok=True)
        with (place / "shared").open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        self._log = (place / "faults").open("a")
        self._known: set[str] = set()
        self.count, self._largest, self.warm = 0, 0, False
        self.seeds = [*self.reader.seeds(), *corpus_inputs(self.reader.name)]
        for seed in self.seeds[:50]:  # whatever is loaded and compiled once
            self.read(seed)
        self._largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.count, self.warm = 0, True

    def read(self, content: bytes) -> None:
        """Read one input."""
        if len(content) > _ROOM:
            return
        memory = self._memory
        memory[_HEAD.size : _HEAD.size + len(content)] = content
        _HEAD.pack_into(memory, 0, self.count, int(self.warm), len(content))
        try:
            self.reader.read(content, self._folder)
        except self._refusal:
            pass
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  that is what is looked for
            self._note(fault_of(error), content)
        self.count += 1
        _HEAD.pack_into(memory, 0, self.count, 0, 0)
        if self._largest and self.count % 16 == 0:
            largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            if (largest - self._largest) * 1024 > MOST_BYTES:
                self._note("more than 1 GB", content)
                self._largest = largest
            self._empty(self._folder)

    def _note(self, what: str, content: bytes) -> None:
        # One input a place: messages differ with the input.
        place = what.partition(": ")[0]
        if place not in self._known:
            self._known.add(place)
            self._log.write(json.dumps([what, content.hex()]) + "\n")
            self._log.flush()


def _limit() -> None:
    """Keep the machine out of danger: 6 GB of memory, files of 100 MB."""
    resource.setrlimit(resource.RLIMIT_DATA, (6 << 30, 6 << 30))
    resource.setrlimit(resource.RLIMIT_FSIZE, (100 << 20, 100 << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def _work(plan: dict[str, object]) -> int:
    _limit()
    if plan["guided"]:
        return _work_guided(plan)
    worker = _Worker(plan)
    chance, started = random.Random(int(str(plan["seed"]))), time.monotonic()
    inputs, seconds = float(str(plan["inputs"])), float(str(plan["seconds"]))
    pool = list(worker.seeds)
    while worker.count < inputs and time.monotonic() - started < seconds:
        content = worker.reader.mutate(chance.choice(pool), chance, worker.reader.words)
        worker.read(content)
        if chance.random() < 0.02:  # changes upon changes
            pool.append(content)
            del pool[len(worker.seeds) : -200]
    return 0


def _work_guided(plan: dict[str, object]) -> int:
    import atheris

    with atheris.instrument_imports(include=["unperturbed"], enable_loader_override=False):
        worker = _Worker(plan)
    chance, reader = random.Random(int(str(plan["seed"]))), worker.reader
    corpus = Path(str(plan["place"])) / "corpus"
    corpus.mkdir(exist_ok=True)
    for number, seed in enumerate(worker.seeds):
        (corpus / f"seed{number}").write_bytes(seed)

    def mutate(data: bytes, most: int, drawn: int) -> bytes:
        if drawn % 10 < 10 * _SEEDED_SHARE:
            return bytes(atheris.Mutate(data, most))[:most]
        changed = reader.mutate(data, chance, reader.words)
        return changed if len(changed) <= most else data

    def test_one(data: bytes) -> None:
        worker.read(data)

    words = [
        "fuzz",
        str(corpus),
        f"-seed={plan['seed']}",
        f"-max_total_time={max(1, int(float(str(plan['seconds']))))}"
        if float(str(plan["seconds"])) < 1e8
        else "-verbosity=0",
        f"-runs={int(float(str(plan['inputs'])))}" if float(str(plan["inputs"])) < 1 << 60 else "-runs=-1",
        "-timeout=600",
        f"-artifact_prefix={plan['place']}/",
        "-rss_limit_mb=0",
        "-max_len=65536",
        "-print_final_stats=0",
    ]
    atheris.Setup(words, test_one, custom_mutator=mutate)
    atheris.Fuzz()
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Attack readers; return 1 when one has a fault."""
    from tests.attacks.readers import READERS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reader", action="append", choices=list(READERS), help="by default all, in turn")
    parser.add_argument("--minutes", type=float, help="for all readers together")
    parser.add_argument("--inputs", type=int, default=1 << 62, help="for each reader")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plain", action="store_true", help="without atheris")
    asked = parser.parse_args(argv)
    readers = asked.reader or list(READERS)
    seconds = 60 * asked.minutes / len(readers) if asked.minutes else 1e9
    wrong, total = 0, 0
    for name in readers:
        found = attack_reader(name, seed=asked.seed, inputs=asked.inputs, seconds=seconds, plain=asked.plain)
        wrong += len(found.faults)
        total += found.inputs
        guided = "guided" if found.guided else "plain"
        print(
            f"{name:<20} {found.inputs:>9} inputs {found.seconds:>7.1f} s {guided:<7} {len(found.faults)} faults",
            flush=True,
        )
    print(f"{total} inputs, seed {asked.seed}: {wrong or 'no'} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        os._exit(_work(json.loads(sys.argv[2])))
    sys.exit(main())
