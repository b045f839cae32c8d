"""Debian's source packages, from the host's own package sources."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from unperturbed.common.user_cache import user_cache
from unperturbed.errors import HostError, SpecError
from unperturbed.harness.program import sources
from unperturbed.harness.program.sources import copy_source, debian_source

STANZAS = """\
# comment
Types: deb
URIs: http://mirror/debian
Suites: bookworm bookworm-updates
Components: main

Types: deb
URIs: http://vendor/apt
Suites: vendor-bookworm
Components: main
"""

LINES = """\
# deb http://old/debian bookworm main
deb [signed-by=/usr/share/k.gpg] http://mirror/debian bookworm main
deb-src http://mirror/debian bookworm-security main
deb http://vendor/apt stable main
"""


def test_only_the_distributions_own_sources_are_taken() -> None:
    assert sources._as_source_stanzas(STANZAS, "bookworm") == (
        "Types: deb-src\nURIs: http://mirror/debian\nSuites: bookworm bookworm-updates\nComponents: main\n"
    )
    assert sources._as_source_lines(LINES, "bookworm") == (
        "deb-src [signed-by=/usr/share/k.gpg] http://mirror/debian bookworm main\n"
        "deb-src http://mirror/debian bookworm-security main\n"
    )
    assert sources._as_source_stanzas(STANZAS, "trixie") == ""


def test_a_real_package_is_fetched_and_unpacked() -> None:
    folder = debian_source("bzip2", user_cache())
    assert "BZ2_compressBlock" in (folder / "compress.c").read_text(errors="replace")
    assert debian_source("bzip2", user_cache()) == folder


def test_upstreams_source_alone() -> None:
    folder = debian_source("upstream:bzip2", user_cache())
    assert "BZ2_compressBlock" in (folder / "compress.c").read_text(errors="replace")
    assert not (folder / "debian").exists()
    assert (debian_source("bzip2", user_cache()) / "debian").is_dir()


def test_a_package_that_does_not_exist() -> None:
    with pytest.raises(SpecError, match="no Debian source package 'no-such-package-here'"):
        debian_source("no-such-package-here", user_cache())


def test_tools_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(HostError, match="apt-get is missing"):
        debian_source("bzip2", tmp_path)


def test_a_copy_leaves_version_control_behind(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / ".git").mkdir(parents=True)
    (source / "sub").mkdir()
    (source / "sub" / "a.c").write_text("int a;")
    (source / "link").symlink_to("sub/a.c")
    copy_source(source, tmp_path / "copy")
    assert sorted(path.name for path in (tmp_path / "copy").rglob("*")) == ["a.c", "link", "sub"]
    assert (tmp_path / "copy" / "link").is_symlink()


def test_two_campaigns_that_fetch_at_once_wait_for_each_other(tmp_path: Path) -> None:
    code = "from unperturbed.harness.program.sources import debian_source\n"
    code += "import sys, pathlib\nprint(debian_source(sys.argv[1], pathlib.Path(sys.argv[2])))"
    fetching = [
        subprocess.Popen(
            [sys.executable, "-c", code, package, tmp_path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for package in ("hello", "upstream:hello", "hello")
    ]
    said = [process.communicate(timeout=120) for process in fetching]
    assert [process.returncode for process in fetching] == [0, 0, 0], said
    assert {Path(out.strip()).name for out, _ in said} == {"unpacked"}
    assert (debian_source("hello", tmp_path) / "src" / "hello.c").is_file()


def test_the_name_of_a_binary_package_is_not_taken_for_a_source(tmp_path: Path) -> None:
    # apt would fetch the source that the binary is made from: sqlite3, for this one.
    with pytest.raises(SpecError, match="no Debian source package 'lemon'"):
        debian_source("lemon", tmp_path)
    assert [path.name for path in (tmp_path / "sources").iterdir()] == [".lock"]
