"""Build of the library that counts in a Java virtual machine."""

from __future__ import annotations

import hashlib
from pathlib import Path

from unperturbed.collectors.runtime import BOUNDS, build_library
from unperturbed.common import supervision
from unperturbed.common.scratch import scratch_folder, whole_file
from unperturbed.common.user_cache import is_own_file, user_cache
from unperturbed.errors import HostError

_FOLDER = Path(__file__).parent / "program"
_JAVA = (_FOLDER / "UnperturbedCounts.java").resolve()  # javac compares it with the module's folder
_CLASS = "java/lang/UnperturbedCounts.class"


def build_jvm_counter(compiler: str, home: Path, include: Path, *, methods: bool) -> Path:
    """Compile the library that a Java virtual machine loads to count, and return its path.

    `home`: The development kit of the Java virtual machine. `include`: The folder of its headers. `methods`: Whether
    methods are counted, which needs a class compiled by the kit's javac.
    """
    content = _counting_class(home) if methods else b"\0"
    text = (
        f"const unsigned char unperturbed_counts_class[] = {{{','.join(map(str, content))}}};\n"
        "const unsigned unperturbed_counts_class_bytes = sizeof unperturbed_counts_class;\n"
    )
    first, last = BOUNDS
    sources = (first, _FOLDER / "jvm.c", _FOLDER / "class_file.c", last)
    return build_library(compiler, "jvm.so", (f"-I{include}", f"-I{include}/linux"), sources, text)


def _counting_class(home: Path) -> bytes:
    """Return the class file of the class that counts, compiled by the development kit."""
    release = (home / "release").read_bytes() if (home / "release").is_file() else b""
    digest = hashlib.sha256(_JAVA.read_bytes() + str(home).encode() + release).hexdigest()[:16]
    kept = user_cache() / f"{digest}-UnperturbedCounts.class"
    if is_own_file(kept):
        return kept.read_bytes()
    with scratch_folder("java", user_cache()) as place:
        command = [str(home / "bin/javac"), "--patch-module", f"java.base={_JAVA.parent}", "-d", str(place), str(_JAVA)]
        try:
            done = supervision.run(command, capture_output=True, text=True)
        except FileNotFoundError:
            raise HostError(
                f"{home}/bin/javac is missing, which metrics of Java methods need (on Debian: apt-get install "
                "default-jdk-headless)"
            ) from None
        if done.returncode != 0:
            raise HostError(f"{home}/bin/javac cannot compile this tool's class:\n{done.stderr.strip()[-2000:]}")
        content = (place / _CLASS).read_bytes()
        with whole_file(kept) as file:
            file.write(content)
    return content
