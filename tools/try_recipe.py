"""Build the conda recipe without a conda channel: in a local one that is made of the wheels of an index.

    python -m venv v && v/bin/pip install py-rattler-build py-rattler backports.zstd
    v/bin/python tools/try_recipe.py FOLDER

Packages of a real channel are built otherwise: this shows that the recipe builds, that its tests pass, and that the
installed command runs a program. The environment is in FOLDER/env.
"""

from __future__ import annotations

import asyncio
import email
import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import rattler
import rattler_build
from backports import zstd

ROOT = Path(__file__).parents[1]
LIBRARY = Path(f"lib/python{sys.version_info.major}.{sys.version_info.minor}")
OTHER_PLATFORMS = re.compile(r"extra|win32|Windows|emscripten|pypy|python_(full_)?version\s*<")
OF_CONDA = {"backports-zstd": "backports.zstd", "typing-extensions": "typing_extensions", "libclang": "python-clang"}


def conda_name(name: str) -> str:
    """Return the name of a package on conda-forge."""
    plain = re.sub(r"[-_.]+", "-", name).lower()
    return OF_CONDA.get(plain, plain)


def pack(channel: Path, folder: Path, name: str, version: str, depends: list[str]) -> None:
    """Add a folder to the channel as a package."""
    rattler_build.assemble_package(
        name, version, "linux-64", "0", channel / "linux-64", files_dir=folder, depends=depends, detect_prefix=False
    )


def pack_python(channel: Path, folder: Path) -> None:
    """Add this Python."""
    base, (major, minor, micro) = Path(sys.base_prefix), sys.version_info[:3]
    left_out = shutil.ignore_patterns("site-packages", "test", "__pycache__")
    shutil.copytree(base / LIBRARY, folder / LIBRARY, symlinks=True, ignore=left_out)
    (folder / LIBRARY / "site-packages").mkdir()
    (folder / LIBRARY / "site-packages" / "README").touch()
    for library in (base / "lib").glob("libpython3*"):
        shutil.copy(library, folder / "lib", follow_symlinks=False)
    shutil.copytree(base / "include", folder / "include")
    (folder / "bin").mkdir()
    shutil.copy(base / "bin" / LIBRARY.name, folder / "bin")
    (folder / "bin" / "python").symlink_to(LIBRARY.name)
    pack(channel, folder, "python", f"{major}.{minor}.{micro}", [])


def pack_wheel(channel: Path, folder: Path, wheel: Path) -> None:
    """Add the content of a wheel; a library of libclang is a package of its own, as on conda-forge."""
    packages = folder / LIBRARY / "site-packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    for part in packages.glob("*.data/p*lib"):
        shutil.copytree(part, packages, dirs_exist_ok=True)
    facts = email.message_from_bytes(next(packages.glob("*.dist-info/METADATA")).read_bytes())
    depends = [
        conda_name(re.match(r"[\w.-]+", needed)[0])
        for needed in facts.get_all("Requires-Dist") or []
        if not OTHER_PLATFORMS.search(needed.partition(";")[2])
    ]
    if (native := packages / "clang" / "native").is_dir():
        library = folder.with_name("libclang") / "lib"
        library.mkdir(parents=True)
        shutil.move(native / "libclang.so", library)
        shutil.rmtree(native)
        pack(channel, library.parent, "libclang", facts["Version"], [])
        depends.append("libclang")
    pack(channel, folder, conda_name(facts["Name"]), facts["Version"], ["python", *depends])


def index(channel: Path) -> None:
    """Write the lists of the channel's packages."""
    for part in ("linux-64", "noarch"):
        (channel / part).mkdir(exist_ok=True)
        packages = {}
        for path in (channel / part).glob("*.conda"):
            with zipfile.ZipFile(path) as archive:
                name = next(name for name in archive.namelist() if name.startswith("info-"))
                with tarfile.open(fileobj=io.BytesIO(zstd.decompress(archive.read(name)))) as info:
                    facts = json.load(info.extractfile("info/index.json"))
            content = path.read_bytes()
            packages[path.name] = {**facts, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        listed = {"info": {"subdir": part}, "packages": {}, "packages.conda": packages, "repodata_version": 1}
        (channel / part / "repodata.json").write_text(json.dumps(listed))


async def install(channels: list[str], prefix: Path) -> None:
    """Make an environment with the package."""
    platforms = ["linux-64", "noarch"]
    found = await rattler.solve(
        [rattler.Channel(url) for url in channels],
        ["unperturbed"],
        platforms=platforms,
        virtual_packages=rattler.VirtualPackage.detect(),
    )
    await rattler.install(found, target_prefix=str(prefix))


def main() -> None:
    """Make the channel, build the recipe, install the package and run it."""
    folder = Path(sys.argv[1]).absolute()
    folder.mkdir(parents=True)
    source, channel, wheels = folder / "source", folder / "channel", folder / "wheels"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(source)], check=True)
    recipe = rattler_build.Stage0Recipe.from_file(str(source / "recipe" / "recipe.yaml"))
    wanted = [line.partition("#")[0].strip() for line in (source / "recipe" / "recipe.yaml").read_text().splitlines()]
    needed = [line.removeprefix("- ").replace(" ", "") for line in wanted if re.match(r"- [\w.-]+ >=|- pip$", line)]
    needed = [name for name in needed if not name.startswith(("python>", "python-clang"))]
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:", "-d", str(wheels)]
    subprocess.run([*words, *needed], check=True)
    pack_python(channel, folder / "stage" / "python")
    for wheel in sorted(wheels.glob("*.whl")):
        pack_wheel(channel, folder / "stage" / wheel.stem, wheel)
    index(channel)
    (variant,) = recipe.render(rattler_build.VariantConfig())
    plain = rattler_build.ToolConfiguration(test_strategy="native", use_zstd=False, use_bz2=False, use_sharded=False)
    built = variant.run_build(tool_config=plain, output_dir=str(folder / "out"), channels=[channel.as_uri()])
    print(built)
    asyncio.run(install([(folder / "out").as_uri(), channel.as_uri()], folder / "env"))
    (folder / "program.c").write_text(
        "int main(void) { volatile long sum = 0; for (long i = 0; i < 30000000; i++) if (i % 7) sum += i; return 0; }\n"
    )
    spec = {
        "name": "conda",
        "program": {"source": ".", "build": "{cc} -O1 -o program program.c", "run": "{build}/program"},
        "measure": {"source": "simulated", "hardware": ["PAPI_TOT_INS"], "software": {"turns": {"loop": "main"}}},
        "campaign": {"baseline_runs": 5, "runs": 5, "subsets": {"turns": ["turns"]}},
    }
    (folder / "spec.yaml").write_text(json.dumps(spec))
    done = subprocess.run([str(folder / "env" / "bin" / "unperturbed"), "run", "spec.yaml"], cwd=folder, check=False)
    sys.exit(0 if done.returncode in (0, 4) else done.returncode)


if __name__ == "__main__":
    main()
