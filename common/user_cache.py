"""This tool's cache folder, protected against other users because its files are executed.

The cache contains samplers, compiled loops and launchers. So only the user may write to the folder, no other user can
replace a folder on its path, and files are used only if the user owns them.
"""

from __future__ import annotations

import logging
import os
import pwd
import shutil
import stat
from pathlib import Path

from unperturbed.errors import HostError

_OVERFLOW = Path("/proc/sys/kernel/overflowuid")
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_ADVICE = "set XDG_CACHE_HOME to a folder of your own"
_LOG = logging.getLogger(__name__)


def user_cache() -> Path:
    """Return this tool's cache folder, created with mode 0700 if missing; other users cannot write to the folder.

    The folder is `unperturbed` in ``$XDG_CACHE_HOME``, else in ``~/.cache``. A relative ``XDG_CACHE_HOME`` is ignored,
    as the base directory specification requires.
    """
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        base = named if named.is_absolute() else Path.home() / ".cache"
    except RuntimeError:
        raise HostError(f"there is no folder for the cache, because this user has no home folder: {_ADVICE}") from None
    folder = base / "unperturbed"
    _require_safe_way(folder)
    try:
        base.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}: {_ADVICE}", error.filename) from None
    state = _require_own(folder, folder.lstat())
    if stat.S_ISLNK(state.st_mode):
        _require_safe_way(folder.resolve() / "content")
        state = _require_own(folder, folder.stat())
    if state.st_mode & _OTHERS_WRITE:
        _close(folder)
    return folder


def _close(folder: Path) -> None:
    """Remove other users' access to the folder, and empty it: files that they may have put there must not run."""
    folder.chmod(0o700)
    _LOG.warning("other users could write to %s: removed their access and emptied the folder", folder)
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def is_own_file(path: Path) -> bool:
    """Return whether a path is a regular file; raise HostError if another user owns it."""
    try:
        state = path.lstat()
    except FileNotFoundError:
        return False
    _require_own(path, state)
    return stat.S_ISREG(state.st_mode)


def _require_own(path: Path, state: os.stat_result) -> os.stat_result:
    if state.st_uid != os.geteuid():
        raise HostError(
            f"{path} belongs to {_name(state.st_uid)}, who could change code that {_name(os.geteuid())} executes: "
            f"{_ADVICE}, or remove {path}"
        )
    return state


def _require_safe_way(path: Path) -> None:
    """As sshd does for a user's keys, refuse a path if another user could replace one of its folders."""
    own = os.geteuid()
    try:
        primary = pwd.getpwuid(own).pw_gid
    except KeyError:
        primary = -1
    trusted = {0, own, _overflow()}
    for folder in reversed(path.resolve().parents):
        try:
            state = folder.stat()
        except FileNotFoundError:
            continue
        if state.st_uid not in trusted:
            raise HostError(
                f"the cache would be at {path}, but {folder} belongs to {_name(state.st_uid)}, who could replace files "
                f"that {_name(own)} executes: {_ADVICE}"
            )
        # A user's private group contains only this user.
        writable = state.st_mode & (stat.S_IWOTH if state.st_gid == primary else _OTHERS_WRITE)
        if writable and not state.st_mode & stat.S_ISVTX and state.st_uid != _overflow():
            raise HostError(
                f"the cache would be at {path}, but other users can write to {folder} and could replace files that "
                f"{_name(own)} executes: {_ADVICE}, or run chmod go-w {folder}"
            )
        if not state.st_mode & (stat.S_IXGRP | stat.S_IXOTH):
            return  # only the owner can enter this folder


def _overflow() -> int:
    """Return the overflow user id, which owns the host's folders when seen inside a user namespace."""
    try:
        return int(_OVERFLOW.read_text())
    except (OSError, ValueError):
        return 65534


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"
