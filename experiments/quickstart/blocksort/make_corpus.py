"""Write a corpus of program text: the standard library's sources of the Python that runs this, one after the other.

    python make_corpus.py --size BYTES FILE

The modules at the top of the library (`*.py`), in the order of their names, cut off at BYTES. The same Python gives the
same bytes.
"""

from __future__ import annotations

import argparse
import sys
import sysconfig
from pathlib import Path


def corpus(library: Path, size: int) -> bytes:
    """Return the first `size` bytes of the library's modules, laid end to end in the order of their names."""
    sources = sorted(library.glob("*.py"), key=lambda path: path.name)
    parts: list[bytes] = []
    missing = size
    for source in sources:
        if missing <= 0:
            break
        parts.append(source.read_bytes()[:missing])
        missing -= len(parts[-1])
    if not sources:
        raise LookupError(
            f"{library}: no Python sources here; use a Python that is installed with its library's sources"
        )
    if missing > 0:
        raise LookupError(
            f"{library}: the sources are {size - missing} bytes, {size} are wanted; ask for fewer by --size"
        )
    return b"".join(parts)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    parser = argparse.ArgumentParser(
        description="Write the Python standard library's sources, laid end to end, to a file."
    )
    parser.add_argument("--size", type=int, required=True, metavar="BYTES", help="size of the file")
    parser.add_argument("file", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    if options.size < 1:
        parser.error(f"--size must be at least 1, it is {options.size}")
    try:
        options.file.write_bytes(corpus(Path(sysconfig.get_path("stdlib")), options.size))
    except (LookupError, OSError) as error:
        print(f"make_corpus: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
