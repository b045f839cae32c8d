"""The user's cache folder of this tool, and the rule that nothing runs from it that somebody else could have put there.

What lies in it is executed later: samplers, compiled loops, launchers. So only the user may write to the folder, no
other user can replace it by its path, and its files are used only if the user owns them.
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
    """Return the user's cache folder of this tool, made if need be, to which others cannot write (a new one: 0700).

    It is `unperturbed` in ``$XDG_CACHE_HOME``, else in ``~/.cache``. A relative ``XDG_CACHE_HOME`` is invalid and
    ignored, as the base directory specification asks.
    """
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        base = named if named.is_absolute() else Path.home() / ".cache"
    except RuntimeError:
        raise HostError(f"this user has no home folder for the cache: {_ADVICE}") from None
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
    """Keep others out of a folder that they could write to; what they may have put there must not be executed."""
    folder.chmod(0o700)
    _LOG.warning("other users could write to %s: it is closed to them now, and was emptied", folder)
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def is_own_file(path: Path) -> bool:
    """Return whether there is such a file in the cache."""
    try:
        state = path.lstat()
    except FileNotFoundError:
        return False
    _require_own(path, state)
    return stat.S_ISREG(state.st_mode)


def _require_own(path: Path, state: os.stat_result) -> os.stat_result:
    if state.st_uid != os.geteuid():
        raise HostError(
            f"{path} belongs to {_name(state.st_uid)}, but {_name(os.geteuid())} would execute its content: "
            f"{_ADVICE}, or remove it"
        )
    return state


def _require_safe_way(path: Path) -> None:
    """Refuse a path if another user could replace one of its folders, as sshd does with a user's keys."""
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
                f"the cache would be at {path}, but {folder} belongs to {_name(state.st_uid)}, who could replace what "
                f"{_name(own)} executes from there: {_ADVICE}"
            )
        # A user's private group has this user alone.
        writable = state.st_mode & (stat.S_IWOTH if state.st_gid == primary else _OTHERS_WRITE)
        if writable and not state.st_mode & stat.S_ISVTX and state.st_uid != _overflow():
            raise HostError(
                f"the cache would be at {path}, but other users can write to {folder} and so replace what is executed "
                f"from there: {_ADVICE}, or chmod go-w {folder}"
            )
        if not state.st_mode & (stat.S_IXGRP | stat.S_IXOTH):
            return  # only the owner can enter this folder


def _overflow() -> int:
    """Return the number of users whom a user namespace does not know: there, the host's folders have this owner."""
    try:
        return int(_OVERFLOW.read_text())
    except (OSError, ValueError):
        return 65534


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"
