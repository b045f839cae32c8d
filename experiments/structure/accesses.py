"""A real path of accesses: the pages that bzip2 brings into a memory that is too small for it, and its stages.

    python -m experiments.structure.accesses [--frames 88]

Section 1 of "Structural analysis of measurement paths": a path is "a sequence of accesses to the elements of some fixed
finite set, for example, to program pages […] or to the physical addresses of data blocks stored in external memories".
valgrind's lackey prints each access of bzip2 to its data. The memory has `--frames` frames and drops the least recently
used page; the path is the sequence of pages that are brought in. bzip2 compresses 16 files of
two sizes in a random order: small ones go through another sort than large ones. Its stages are known by the addresses
of its functions. Writes experiments/structure/bzip2_faults.csv, which `methods` reads.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.common.provenance import made_by
from unperturbed.common.user_cache import user_cache
from unperturbed.harness.program.sources import debian_source

HERE = Path(__file__).parent
FAULTS = HERE / "bzip2_faults.csv"
CORPUS = HERE.parent / "quickstart" / "blocksort" / "make_corpus.py"

PAGE_BITS = 12
FRAMES = 88
FILES, SIZES, APART = 16, (6_000, 14_000), 50_000
"""Files; bytes of one (bzip2 sorts blocks below 10,000 bytes by its `fallbackSort`); bytes of text between two."""
SOURCES = ("blocksort", "huffman", "crctable", "randtable", "compress", "decompress", "bzlib", "bzip2")
STAGES: Mapping[str, str] = {
    "BZ2_bzCompressInit": "open",
    "copy_input_until_stop": "read",
    "mainSort": "sort",
    "fallbackSort": "sort a small file",
    "generateMTFValues": "move to front",
    "sendMTFValues": "code",
}
"""From the function that a stage begins with to the stage."""
START = "start"

_ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
"""Always the same, as are the arguments: both lie on the stack and move what is below them."""
_CHUNK = 1 << 24
_FETCH, _SPACE, _COMMA, _LINE = b"I ,\n"
_PREFIX = 3
"""Characters before an address, in `I  04016b80,3` as in ` L 1ffefff7e0,8`."""
_DIGITS = np.zeros(256, np.int64)
_DIGITS[list(b"0123456789abcdefABCDEF")] = [*range(16), *range(10, 16)]


@dataclass(frozen=True)
class AccessPath:
    """A path of accesses, with the stage of the program at each."""

    pages: tuple[int, ...]  # Pages in the order in which they were brought in
    stages: tuple[str, ...]  # Of each
    recorded: str  # Where and when


def read_path(file: Path = FAULTS) -> AccessPath:
    """Read a path that was recorded."""
    recorded, _, *lines = file.read_text(encoding="utf-8").splitlines()
    pages, stages = zip(*(line.split(",") for line in lines), strict=True)
    return AccessPath(tuple(int(page, 16) for page in pages), stages, recorded.removeprefix("# "))


def parse_accesses(chunks: Iterable[bytes], marks: Mapping[int, int]) -> Iterator[NDArray[np.int64]]:
    """Yield what lackey printed as events: addresses of data, and −1 − n for an instruction with the mark n."""
    marked = np.array(sorted(marks), np.int64)
    numbers = np.array([marks[address] for address in sorted(marks)], np.int64)
    rest = b""
    for chunk in chunks:
        text, line_end, rest = (rest + chunk).rpartition(b"\n")
        characters = np.frombuffer(text + line_end, np.uint8)
        ends = np.flatnonzero(characters == _LINE)
        begins = np.concatenate((np.zeros(min(len(ends), 1), np.int64), ends[:-1] + 1))
        fetches = characters[begins] == _FETCH
        # Lines of other kinds are valgrind's messages, and empty ones.
        known = (ends - begins > _PREFIX + 1) & (fetches | (characters[begins] == _SPACE))
        begins, ends, fetches = begins[known], ends[known], fetches[known]
        addresses = _addresses(characters, begins, ends)
        place = np.minimum(np.searchsorted(marked, addresses), len(marked) - 1)
        is_mark = fetches & (marked[place] == addresses)
        yield np.where(is_mark, -1 - numbers[place], addresses)[is_mark | ~fetches]


def _addresses(characters: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the hexadecimal number of each line, which ends at its comma."""
    commas = np.flatnonzero(characters == _COMMA)
    comma = commas[np.searchsorted(commas, begins)]
    assert (comma < ends).all(), "a line of lackey without a comma"
    addresses = np.zeros(len(begins), np.int64)
    for place in range(16):
        digit = comma - 1 - place
        is_digit = digit >= begins + _PREFIX
        if not is_digit.any():
            break
        addresses += np.where(is_digit, _DIGITS[characters[digit]] << (4 * place), 0)
    return addresses


def faults_of(events: Iterable[NDArray[np.int64]], frames: int, stages: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the pages that a memory of `frames` frames lacks, and the stages; the least recently used page leaves."""
    memory: OrderedDict[int, None] = OrderedDict()
    stage = START
    for some in events:
        pages = np.where(some < 0, some, some >> PAGE_BITS)
        # A page that is accessed again at once is in memory, and the most recent one already.
        for page in pages[np.append(True, pages[1:] != pages[:-1])].tolist():
            if page < 0:
                stage = stages[-1 - page]
            elif page in memory:
                memory.move_to_end(page)
            else:
                memory[page] = None
                if len(memory) > frames:
                    memory.popitem(last=False)
                yield page, stage


def record(command: Sequence[str | Path], stages: Mapping[str, str], frames: int) -> Iterator[tuple[int, str]]:
    """Run a program that is linked to fixed addresses under lackey, in its folder; yield its faults and the stages."""
    symbols = subprocess.run(["nm", command[0]], capture_output=True, text=True, check=True).stdout
    placed = {name: int(line.split()[0], 16) for line in symbols.splitlines() if (name := line.split()[-1]) in stages}
    if missing := stages.keys() - placed.keys():
        raise SystemExit(f"{command[0]} has no function {', '.join(sorted(missing))}")
    marks = {placed[name]: number for number, name in enumerate(stages)}
    # lackey prints on standard error.
    program = Path(command[0])
    traced = ["valgrind", "--tool=lackey", "--trace-mem=yes", f"./{program.name}", *command[1:]]
    with subprocess.Popen(
        traced, cwd=program.parent, env=_ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        chunks = iter(partial(process.stderr.read, _CHUNK), b"")  # type: ignore[union-attr]
        yield from faults_of(parse_accesses(chunks, marks), frames, tuple(stages.values()))
    if process.returncode:
        raise SystemExit(f"{command[0]} ended with {process.returncode} under valgrind")


def lengths_of_files() -> list[int]:
    """Return the bytes of each file that is compressed."""
    chance = random.Random(1)
    return [chance.choice(SIZES) for _ in range(FILES)]


def prepare(folder: Path) -> list[str | Path]:
    """Build bzip2 and cut its input in a folder; return the command that compresses it."""
    source = debian_source("upstream:bzip2", user_cache())
    program, corpus = folder / "bzip2", folder / "corpus.txt"
    # Without inlining each stage is a function; without -fPIE its address is the one in the file.
    flags = ["-O1", "-fno-inline", "-fno-pie", "-no-pie"]
    subprocess.run(["gcc", *flags, "-o", program, *(source / f"{name}.c" for name in SOURCES)], check=True)
    size = FILES * (max(SIZES) + APART)
    subprocess.run([sys.executable, CORPUS, "--size", str(size), corpus], check=True, stdout=subprocess.DEVNULL)
    text, at = corpus.read_bytes(), 0
    files = []
    for number, length in enumerate(lengths_of_files()):
        files.append(f"{number:02d}.txt")
        (folder / files[-1]).write_bytes(text[at : at + length])
        at += length + APART
    return [program, "-1", "-c", *files]


def main() -> None:
    """Record the path, and write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--frames", type=int, default=FRAMES, help=f"pages that the memory holds ({FRAMES})")
    frames = parser.parse_args().frames
    made = made_by()
    with tempfile.TemporaryDirectory() as folder:
        lines = [f"{page:#x},{stage}" for page, stage in record(prepare(Path(folder)), STAGES, frames)]
    FAULTS.write_text("\n".join([f"# {made}", "page,stage", *lines]) + "\n", encoding="utf-8")
    print(f"written: {FAULTS}, {len(lines)} accesses")


if __name__ == "__main__":
    main()
