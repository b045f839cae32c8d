"""Where compiled code is kept, and when the compiler is loaded: both are seen from a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from unperturbed.analysis.alignment import kernels

ALIGN = "from unperturbed.analysis.alignment import dtw; print(dtw([1., 2., 4.], [1., 3., 4.]).cost)"


def run(code, **environment):
    inherited = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**inherited, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def test_importing_the_package_does_not_load_the_compiler():
    loaded = run("import sys, unperturbed.analysis.alignment; print('numba' in sys.modules)")
    assert loaded == "False"


def test_compiled_code_is_kept_in_the_users_cache_folder_alone(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    assert run(ALIGN, HOME=str(home), PYTHONDONTWRITEBYTECODE="1") == "1.0"
    written = [path for path in home.rglob("*") if path.is_file()]
    assert written
    assert all(path.is_relative_to(home / ".cache" / "unperturbed") for path in written)
    assert not list(Path(kernels.__file__).parent.rglob("*.nb[ic]"))


def test_xdg_cache_home_is_respected_and_a_second_process_compiles_nothing(tmp_path):
    place = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path / "home")}
    hits = ALIGN + "; from unperturbed.analysis.alignment import kernels; print(len(kernels.warp.stats.cache_hits))"
    assert run(hits, **place).split() == ["1.0", "0"]
    assert run(hits, **place).split() == ["1.0", "1"]
    assert not (tmp_path / "home").exists()
    assert run(ALIGN, HOME=str(tmp_path), XDG_CACHE_HOME="relative") == "1.0"
    assert (tmp_path / ".cache" / "unperturbed").is_dir()


def test_a_cache_folder_that_cannot_be_written_costs_only_time(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert run(ALIGN, XDG_CACHE_HOME=str(blocked)) == "1.0"
    assert not list(Path(kernels.__file__).parent.rglob("*.nb[ic]"))


def test_other_users_of_the_compiler_keep_their_setting():
    code = f"{ALIGN}; import numba; print(numba.config.CACHE_DIR)"
    assert run(code, NUMBA_CACHE_DIR="/nowhere/else").split() == ["1.0", "/nowhere/else"]


def test_compiled_and_plain_python_agree():
    rng = np.random.default_rng(5)
    x, y = rng.integers(0, 4, (30, 2)).astype(float), rng.integers(0, 4, (37, 2)).astype(float)
    for penalty, band in ((0.0, 100), (1.0, 4)):
        compiled, plain = kernels.warp(x, y, penalty, band), kernels.warp.py_func(x, y, penalty, band)
        assert all(np.array_equal(one, other) for one, other in zip(compiled, plain, strict=True))
        assert kernels.path_cost(x, y, *compiled, penalty) == kernels.path_cost.py_func(x, y, *compiled, penalty)
