"""The quickstart's program: an honest compressor that can be trusted with any input."""

from __future__ import annotations

import bz2
import ctypes
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

EXPERIMENTS = Path(__file__).parents[3] / "experiments" / "quickstart"
SOURCE = EXPERIMENTS / "blocksort"
GOOD, SYSTEM, USAGE, DAMAGED = 0, 1, 2, 3
SANITIZERS = "-fsanitize=address,undefined -fno-sanitize-recover=all -static-libasan -static-libubsan"
"""Linked into the program, they begin in two thirds of the time, and these tests start it 700 times."""

CORPUS_BYTES = 300_000


def build(folder: Path, flags: str) -> Path:
    """Build in a copy of the sources, as a campaign does."""
    for source in [*SOURCE.glob("*.[ch]"), SOURCE / "Makefile"]:
        (folder / source.name).write_bytes(source.read_bytes())
    made = subprocess.run(
        ["make", "-j2", "CC=gcc", f"CFLAGS={flags}"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    assert made.stderr == ""
    return folder / "blocksort"


@pytest.fixture(scope="session")
def ordinary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("ordinary"), "-O2 -g -Werror")


@pytest.fixture(scope="session")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("sanitized"), f"-O1 -g -Werror {SANITIZERS}")


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    file = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    subprocess.run([sys.executable, SOURCE / "make_corpus.py", "--size", str(CORPUS_BYTES), file], check=True)
    return file.read_bytes()


def run(program: Path, *arguments: str | Path, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([program, *arguments], stdout=stdout, stderr=subprocess.PIPE, check=False, timeout=60)


def compress(program: Path, folder: Path, data: bytes, *options: str) -> bytes:
    file = folder / "original"
    file.write_bytes(data)
    done = run(program, "-c", *options, file)
    assert (done.returncode, done.stderr) == (GOOD, b"")
    return done.stdout


def decompress(program: Path, folder: Path, code: bytes) -> subprocess.CompletedProcess[bytes]:
    file = folder / "code"
    file.write_bytes(code)
    return run(program, "-d", file)


def assert_round_trip(program: Path, folder: Path, data: bytes, *options: str) -> bytes:
    code = compress(program, folder, data, *options)
    done = decompress(program, folder, code)
    assert (done.returncode, done.stderr) == (GOOD, b"")
    assert done.stdout == data
    return code


def assert_one_clear_line(stderr: bytes) -> None:
    lines = stderr.decode().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("blocksort: ")


def fibonacci_word(length: int) -> bytes:
    """Text whose suffixes agree for as long as can be without a period."""
    before, word = b"a", b"b"
    while len(word) < length:
        before, word = word, word + before
    return word[:length]


def words(length: int, seed: int) -> bytes:
    random_ = random.Random(seed)
    vocabulary = ["".join(random_.choices("etaoinshrdlu", k=random_.randint(1, 9))) for _ in range(300)]
    text = bytearray()
    while len(text) < length:
        text += random_.choice(vocabulary).encode() + random_.choice([b" ", b" ", b"\n", b", "])
    return bytes(text[:length])


EDGES = {
    "empty": b"",
    "one byte": b"x",
    "one zero": b"\0",
    "two bytes": b"ba",
    "zeros": b"\0" * 3000,
    "ends in zeros": b"ab\0" + b"\0" * 40,
    "zeros of many lengths": b"\0".join(b"\0" * n + b"a" for n in range(40)),
    "one byte, many times": b"a" * 5000,
    "run of 3": b"aaab",
    "run of 4": b"aaaab",
    "run of 259": b"a" * 259 + b"b",
    "run of 260": b"a" * 260,
    "run of 263": b"a" * 263,
    "period 2": b"ab" * 3000,
    "period 3 with an end": b"abc" * 1500 + b"abd",
    "period 300": bytes(random.Random(1).choices(range(256), k=300)) * 30,
    "Fibonacci word": fibonacci_word(8000),
    "every byte": bytes(range(256)) * 3,
    "every byte, backwards": bytes(reversed(range(256))),
    "random": random.Random(2).randbytes(20_000),
    "words": words(20_000, 3),
    "a block": words(1024, 4),
    "a block and a byte": words(1025, 5),
    "many blocks": words(10_240, 6),
    "quads": b"".join(bytes([n]) * 4 for n in range(256)),
}


@pytest.mark.parametrize("name", EDGES)
def test_edge_inputs_come_back(sanitized: Path, tmp_path: Path, name: str) -> None:
    for options in ([], ["-b", "1"]):
        assert_round_trip(sanitized, tmp_path, EDGES[name], *options)


PIECES = st.one_of(
    st.binary(max_size=300),
    st.binary(min_size=1, max_size=8).flatmap(lambda piece: st.integers(1, 400).map(lambda n: piece * n)),
    st.text("ab", max_size=300).map(str.encode),
    st.text("\0\1", max_size=100).map(lambda text: text.encode("latin-1")),
)


@settings(
    max_examples=120, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.lists(PIECES, max_size=12).map(b"".join), block_kb=st.sampled_from([1, 2, 64]))
def test_any_input_comes_back(sanitized: Path, tmp_path: Path, data: bytes, block_kb: int) -> None:
    assert_round_trip(sanitized, tmp_path, data, "-b", str(block_kb))


def test_long_input_comes_back(ordinary: Path, tmp_path: Path, corpus: bytes) -> None:
    for options in (["-b", "16"], [], ["-b", "4096"]):
        assert_round_trip(ordinary, tmp_path, corpus, *options)


@pytest.mark.parametrize(
    "data",
    [b"ab" * 500_000, fibonacci_word(1_000_000), b"abcdefgh\n" * 100_000, EDGES["period 300"] * 100],
    ids=lambda _: "",
)
def test_long_repetition_is_sorted_in_bounded_time(ordinary: Path, tmp_path: Path, data: bytes) -> None:
    """Comparing suffixes byte by byte would take hours here."""
    code = assert_round_trip(ordinary, tmp_path, data, "-b", "1024")
    assert len(code) < len(data) / 100


def test_output_is_the_same_in_every_run_and_build(ordinary: Path, sanitized: Path, tmp_path: Path) -> None:
    data = EDGES["words"] + EDGES["random"]
    codes = {compress(program, tmp_path, data, "-b", "8") for program in (ordinary, ordinary, sanitized)}
    assert len(codes) == 1


def test_corpus_shrinks_about_as_much_as_by_bzip2(ordinary: Path, tmp_path: Path, corpus: bytes) -> None:
    code = compress(ordinary, tmp_path, corpus, "-b", "100")
    assert len(code) < len(corpus) / 3
    assert len(code) < 1.05 * len(bz2.compress(corpus, 1))  # bzip2's blocks are of 100 kB then, too


def test_incompressible_input_grows_by_its_headers_alone(sanitized: Path, tmp_path: Path) -> None:
    data = random.Random(7).randbytes(8 * 1024)
    code = assert_round_trip(sanitized, tmp_path, data, "-b", "1")
    assert len(code) == 8 + 8 * (20 + 1024) + 8


def test_regions_of_the_corpus_compress_differently(ordinary: Path, tmp_path: Path, corpus: bytes) -> None:
    """The trace of a run has to change over time."""
    sizes = [len(compress(ordinary, tmp_path, corpus[at : at + 50_000])) for at in range(0, CORPUS_BYTES, 50_000)]
    assert max(sizes) > 1.1 * min(sizes)


# ---- The sort against its slow, obvious twin ----


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    target = tmp_path_factory.mktemp("library") / "bwt.so"
    sources = [SOURCE / name for name in ("bwt.c", "suffixsort.c", "progress.c")]
    subprocess.run(["gcc", "-std=c11", "-O2", "-shared", "-fPIC", "-o", target, *sources], check=True)
    return ctypes.CDLL(str(target))


def transform(library: ctypes.CDLL, text: bytes) -> tuple[bytes, int]:
    sorter, progress = ctypes.create_string_buffer(256), ctypes.create_string_buffer(64)
    assert library.suffixsort_open(sorter, len(text)) == 0
    out = ctypes.create_string_buffer(len(text))
    primary = library.bwt_forward(sorter, text + bytes(8), len(text), out, progress)
    library.suffixsort_close(sorter)
    return out.raw, primary


def transform_naively(text: bytes) -> tuple[bytes, int]:
    order = sorted(range(len(text) + 1), key=lambda start: text[start:])
    return bytes(text[start - 1] for start in order if start > 0), order.index(0)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(text=st.lists(PIECES, max_size=4).map(b"".join).filter(bool))
def test_transform_is_that_of_sorted_suffixes(library: ctypes.CDLL, text: bytes) -> None:
    assert transform(library, text) == transform_naively(text)


@pytest.mark.parametrize("name", [name for name, data in EDGES.items() if 0 < len(data) <= 5000])
def test_transform_of_edge_inputs(library: ctypes.CDLL, name: str) -> None:
    assert transform(library, EDGES[name]) == transform_naively(EDGES[name])


# ---- Damage and misuse ----


def test_every_truncation_is_noticed(sanitized: Path, tmp_path: Path) -> None:
    code = compress(sanitized, tmp_path, EDGES["words"][:1500], "-b", "1")
    for length in [*range(60), *range(60, len(code), 37), len(code) - 1]:
        done = decompress(sanitized, tmp_path, code[:length])
        assert done.returncode == DAMAGED
        assert_one_clear_line(done.stderr)


def test_every_damage_is_noticed_or_harmless(sanitized: Path, tmp_path: Path) -> None:
    data = EDGES["words"][:3000] + random.Random(8).randbytes(1024) + b"a" * 500
    code = compress(sanitized, tmp_path, data, "-b", "1")
    random_ = random.Random(9)
    places = [*range(32), *random_.sample(range(32, len(code)), 150)]
    noticed = 0
    for place in places:
        damaged = bytearray(code)
        damaged[place] ^= 1 << random_.randrange(8)
        done = decompress(sanitized, tmp_path, bytes(damaged))
        if done.returncode == GOOD:
            assert done.stdout == data
            continue
        assert done.returncode == DAMAGED
        assert_one_clear_line(done.stderr)
        noticed += 1
    assert noticed >= 0.95 * len(places)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noise=st.binary(max_size=200))
def test_noise_behind_a_right_header_is_noticed(sanitized: Path, tmp_path: Path, noise: bytes) -> None:
    header = b"BSC1" + (1024).to_bytes(4, "little")
    block = b"".join(number.to_bytes(4, "little") for number in (1000, 0, 1000, 1, len(noise)))
    done = decompress(sanitized, tmp_path, header + block + noise)
    assert done.returncode == DAMAGED
    assert_one_clear_line(done.stderr)


def test_reordered_dropped_and_appended_blocks_are_noticed(sanitized: Path, tmp_path: Path) -> None:
    data = random.Random(10).randbytes(3 * 1024)
    code = compress(sanitized, tmp_path, data, "-b", "1")
    step = 20 + 1024
    blocks = [code[8 + step * i : 8 + step * (i + 1)] for i in range(3)]
    for order in ([1, 0, 2], [0, 2], [0, 1, 2, 2], []):
        done = decompress(sanitized, tmp_path, code[:8] + b"".join(blocks[i] for i in order) + code[-8:])
        assert done.returncode == DAMAGED
    assert decompress(sanitized, tmp_path, code + b"\0").returncode == DAMAGED


@pytest.mark.parametrize("data", [b"", b"BSC", b"BSC2" + bytes(20), b"\x1f\x8b" + bytes(30)])
def test_other_files_are_refused(sanitized: Path, tmp_path: Path, data: bytes) -> None:
    done = decompress(sanitized, tmp_path, data)
    assert done.returncode == DAMAGED
    assert b"not a blocksort file" in done.stderr
    assert_one_clear_line(done.stderr)


@pytest.mark.parametrize("block", [0, 1, 1023, 1025, 4097 * 1024, 2**32 - 1])
def test_impossible_block_sizes_are_refused(sanitized: Path, tmp_path: Path, block: int) -> None:
    done = decompress(sanitized, tmp_path, b"BSC1" + block.to_bytes(4, "little") + bytes(8))
    assert done.returncode == DAMAGED
    assert_one_clear_line(done.stderr)


def test_files_that_cannot_be_read_or_written(sanitized: Path, tmp_path: Path) -> None:
    missing = run(sanitized, "-c", tmp_path / "missing")
    assert missing.returncode == SYSTEM
    assert_one_clear_line(missing.stderr)
    for option in ("-c", "-d"):
        folder = run(sanitized, option, tmp_path)
        assert folder.returncode == SYSTEM
        assert_one_clear_line(folder.stderr)
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        (tmp_path / "file").write_bytes(EDGES["words"])
        done = run(sanitized, "-c", tmp_path / "file", stdout=full)
    finally:
        os.close(full)
    assert done.returncode == SYSTEM
    assert b"standard output" in done.stderr
    assert_one_clear_line(done.stderr)


@pytest.mark.parametrize(
    "arguments",
    [[], ["-c"], ["file"], ["-c", "-d", "file"], ["-c", "a", "b"], ["-x", "file"], ["-c", "-b", "file"]]
    + [["-c", "-b", size, "file"] for size in ("0", "4097", "-1", "1k", "", "99999999999999999999")]
    + [["-d", "-b", "1", "file"], ["-d", "-v", "file"]],
)
def test_wrong_usage_is_explained(ordinary: Path, arguments: list[str]) -> None:
    done = run(ordinary, *arguments)
    assert done.returncode == USAGE
    assert done.stderr.startswith(b"blocksort: ")
    assert b"usage: blocksort" in done.stderr


def test_progress_depends_on_the_input_alone(ordinary: Path, tmp_path: Path, corpus: bytes) -> None:
    file = tmp_path / "corpus"
    file.write_bytes(corpus)
    first, again = (run(ordinary, "-c", "-v", file) for _ in range(2))
    assert first.stderr == again.stderr
    steps = first.stderr.count(b".")
    assert f"{steps} steps of 32768 units".encode() in first.stderr
    assert 3 * CORPUS_BYTES / 32768 < steps < 10 * CORPUS_BYTES / 32768


# ---- The corpus ----


def make_corpus(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SOURCE / "make_corpus.py", *arguments], capture_output=True, text=True, check=False
    )


def test_corpus_is_the_library_in_order(corpus: bytes, tmp_path: Path) -> None:
    assert len(corpus) == CORPUS_BYTES
    library = Path(os.__file__).parent
    first = min(library.glob("*.py"), key=lambda path: path.name)
    assert corpus.startswith(first.read_bytes())
    assert make_corpus("--size", "1000", tmp_path / "short").returncode == 0
    assert (tmp_path / "short").read_bytes() == corpus[:1000]


def test_corpus_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    for arguments in (["--size", "10000000000", tmp_path / "huge"], ["--size", "10", tmp_path / "missing" / "file"]):
        done = make_corpus(*arguments)
        assert done.returncode == 1
        assert done.stderr.startswith("make_corpus: ")
        assert len(done.stderr.splitlines()) == 1
    assert make_corpus("--size", "0", tmp_path / "none").returncode == 2


def test_library_without_sources_is_named(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import make_corpus, pathlib; "
        "make_corpus.corpus(pathlib.Path(sys.argv[2]), 1)"
    )
    done = subprocess.run([sys.executable, "-c", code, SOURCE, tmp_path], capture_output=True, text=True, check=False)
    assert "no Python sources here" in done.stderr
