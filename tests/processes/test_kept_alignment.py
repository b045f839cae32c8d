"""Where compiled code is kept, and when the compiler is loaded: both are seen from a process of its own."""

import shutil
from pathlib import Path

import pytest

from tests.processes.fresh import process
from unperturbed.analysis.alignment.dtw import kernels

# The kernel that compiles in the shortest time.
ALIGN = "from unperturbed.analysis.alignment import dtw_cost; print(dtw_cost([1., 2., 4.], [1., 3., 4.]))"


def run(code, **environment):
    return process(code, **environment).stdout.strip()


def test_importing_the_package_does_not_load_the_compiler():
    loaded = run("import sys, unperturbed.analysis.alignment; print('numba' in sys.modules)")
    assert loaded == "False"


LOUD = "import logging; logging.basicConfig(level=logging.INFO, format='%(name)s: %(message)s'); "


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """What a first process said, and the home folder in which it found no cache; a relative place of one is none."""
    home = tmp_path_factory.mktemp("home")
    place = {"HOME": str(home), "XDG_CACHE_HOME": "relative", "PYTHONDONTWRITEBYTECODE": "1"}
    return process(LOUD + ALIGN, **place), home, place


def test_compiled_code_is_kept_in_the_users_cache_folder_alone(compiled):
    first, home, _ = compiled
    assert first.stdout == "1.0\n"
    written = [path for path in home.rglob("*") if path.is_file()]
    assert written
    assert all(path.is_relative_to(home / ".cache" / "unperturbed") for path in written)
    assert not list(Path(kernels.__file__).parent.rglob("*.nb[ic]"))


def test_a_second_process_compiles_nothing_and_says_nothing(compiled):
    first, home, place = compiled
    again = process(LOUD + ALIGN, **place)
    assert first.stderr.startswith(
        "unperturbed.analysis.alignment.dtw: compiling the alignment kernel pair_costs for float64: takes some "
        "seconds, only once"
    )
    assert f"kept in {home / '.cache'}" in first.stderr
    assert first.stderr.count("\n") == 1
    assert again.stderr == ""
    assert again.stdout == "1.0\n"


def test_xdg_cache_home_is_respected_and_code_of_another_source_is_not_taken(compiled, tmp_path):
    cache, home = tmp_path / "cache", tmp_path / "home"
    shutil.copytree(compiled[1] / ".cache", cache)
    place = {"XDG_CACHE_HOME": str(cache), "HOME": str(home)}
    change = (
        "from unperturbed.analysis.alignment.dtw import kernels; from pathlib import Path; read = Path.read_bytes; "
    )
    change += "Path.read_bytes = lambda path: read(path) + b'#'; "
    assert process(LOUD + ALIGN, **place).stderr == ""
    other = process(LOUD + change + ALIGN, **place)
    assert "compiling" in other.stderr
    assert f"kept in {cache}" in other.stderr
    assert other.stdout == "1.0\n"
    assert len(list((cache / "unperturbed" / "kernels").iterdir())) == 2
    assert not home.exists()


def test_a_cache_folder_that_cannot_be_written_costs_only_time(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    done = process(LOUD + ALIGN, XDG_CACHE_HOME=str(blocked))
    assert done.stdout == "1.0\n"
    assert "because the cache folder is not writable" in done.stderr
    assert not list(Path(kernels.__file__).parent.rglob("*.nb[ic]"))


def test_other_users_of_the_compiler_keep_their_setting():
    code = f"{ALIGN}; import numba; print(numba.config.CACHE_DIR)"
    assert run(code, NUMBA_CACHE_DIR="/nowhere/else").split() == ["1.0", "/nowhere/else"]
