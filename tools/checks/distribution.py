"""Build wheel and source distribution, and check that both are whole.

    python tools/checks/distribution.py [FOLDER]

Without a folder the files are removed again. Prints one line a fault and exits with 1 where there is any: metadata that
an index would refuse (twine check --strict), a relative link in the description, a warning of the build, a file of the
checkout that the source distribution lacks, a file of a package or one that the description names that the wheel lacks.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
MADE_BY_THE_BUILD = ("PKG-INFO", "setup.cfg")
_WARNINGS = ("is absent from the `packages` configuration", "DeprecationWarning", "UserWarning", "warning: no files")


def main(words: list[str]) -> int:
    """Build into a folder, print every fault, return the exit code."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(words[0] if words else place).absolute()
        all_faults = list(faults(folder))
    for fault in all_faults:
        print(fault)
    print(f"{len(all_faults)} faults in the distribution" if all_faults else "distribution: no fault")
    return 1 if all_faults else 0


def faults(folder: Path) -> Iterator[str]:
    """Build both into a folder and yield what is wrong with them."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        yield f"the build failed:\n{made.stdout}{made.stderr}"
        return
    yield from (line for line in (made.stdout + made.stderr).splitlines() if any(text in line for text in _WARNINGS))
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    check = [sys.executable, "-m", "twine", "--no-color", "check", "--strict", str(sdist), str(wheel)]
    checked = subprocess.run(check, capture_output=True, text=True, check=False)
    if checked.returncode:
        yield checked.stdout + checked.stderr
    with tarfile.open(sdist) as archive:
        source = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    with zipfile.ZipFile(wheel) as archive:
        installed = set(archive.namelist())
        metadata = next(archive.read(name).decode() for name in installed if name.endswith(".dist-info/METADATA"))
    yield from dead_links(metadata)
    yield from missing_in_source(source)
    yield from (f"the wheel lacks {name}" for name in sorted(in_packages(source) - installed))
    for page in ("share/man/man1/unperturbed.1", *(f"share/doc/unperturbed/{name}" for name in named_files(metadata))):
        if not any(name.endswith(f".data/data/{page}") for name in installed):
            yield f"the wheel lacks {page}"


def dead_links(metadata: str) -> Iterator[str]:
    """Yield each link of a package's description that leads nowhere on an index, or that there is no description."""
    description = metadata.partition("\n\n")[2]
    if not description.strip():
        yield "the wheel has no description; see setup.py"
    for target in re.findall(r"\]\(([^)]*)\)|(?:src|href)=\"([^\"]*)\"", description):
        link = "".join(target)
        if not link.startswith(("https://", "http://", "#")):
            yield f"the description links to {link}, which an index does not have; see setup.py"


def named_files(metadata: str) -> list[str]:
    """Return the Markdown files that a package's description names in place of links, without their anchors."""
    return sorted(set(re.findall(r"`([\w/-]+\.md)(?:#[\w-]+)?`", metadata.partition("\n\n")[2])))


def missing_in_source(source: set[str]) -> Iterator[str]:
    """Yield how a source distribution differs from the checkout; nothing where this is not a checkout of git."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode or not (ROOT / ".git").exists():
        return
    checkout = {name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()}
    yield from (f"the source distribution lacks {name}; see MANIFEST.in" for name in sorted(checkout - source))
    extra = {name for name in source - checkout if name not in MADE_BY_THE_BUILD and ".egg-info/" not in name}
    yield from (f"the source distribution has {name}, which git does not know" for name in sorted(extra))


def in_packages(source: Iterable[str]) -> set[str]:
    """Return where the wheel must have the files of the packages, given the files of the source distribution."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    places = {folder: name.replace(".", "/") for name, folder in project["tool"]["setuptools"]["package-dir"].items()}
    return {
        f"{place}/{name.removeprefix(f'{folder}/')}"
        for name in source
        for folder, place in places.items()
        if name.startswith(f"{folder}/")
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
