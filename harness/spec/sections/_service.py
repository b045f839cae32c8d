"""Rules on the keys of a service in the section `program`: `ready`, `load`, `duration`, `stop`."""

from __future__ import annotations

import re
import signal
import socket
from typing import Annotated
from urllib.parse import urlsplit

from unperturbed.harness.spec.model import Draft, reading
from unperturbed.harness.spec.text import PARAMETER, PLACEHOLDERS, Text, find_placeholders, substitute

_ADDRESS = re.compile(r"(https?|tcp)://", re.IGNORECASE)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_SOME_PORT = "1"
_OF_A_SERVICE = ("ready", "ready_timeout", "stop")
_MEASURES = "`load`, a command that uses the service, or `duration`"


def _signal_name(text: str) -> str:
    """Return the name of a signal as the system writes it: `SIGTERM` for `term`."""
    name = text.strip().upper()
    name = name if name.startswith("SIG") else f"SIG{name}"
    if name not in signal.Signals.__members__:
        raise ValueError(f"`{text}` is not the name of a signal: write one such as SIGTERM, SIGINT or SIGQUIT")
    return name


StopSignal = Annotated[str, reading(Text, _signal_name)]


def is_address(text: str) -> bool:
    """Return whether `ready` is an address and not a command."""
    return _ADDRESS.match(text) is not None


def address_of(text: str) -> tuple[str, str, int]:
    """Return the scheme, host and port of an address; ValueError if it has no host or no port."""
    parts = urlsplit(text)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    if not parts.hostname or port is None:
        raise ValueError(text)
    return parts.scheme, parts.hostname, port


def check_service(draft: Draft) -> None:
    """Report keys of a service that have no effect or contradict others."""
    has_load, has_duration = draft.has("program", "load"), draft.has("program", "duration")
    is_service = has_load or has_duration
    for field in _OF_A_SERVICE:
        if draft.has("program", field) and not is_service and not draft.has("program", "attach"):
            draft.report_key(
                ("program", field), f"`{field}` is for a service, which does not end by itself: add {_MEASURES}"
            )
    if draft.has("program", "attach"):
        return
    if draft.has("program", "ready_timeout") and is_service and not draft.has("program", "ready"):
        draft.report_key(("program", "ready_timeout"), "`ready_timeout` has no effect without `ready`: add `ready`")
    ready = draft.text("program", "ready")
    if ready is not None:
        _check_ready(draft, ready)
    if not is_service:
        return
    if draft.has("program", "output_digest") and not draft.value("program", "outputs"):
        draft.report_key(
            ("program", "output_digest"),
            "`output_digest` has no effect for a service without `outputs`, because what a service prints is not "
            "compared: remove `output_digest`",
        )


def _check_ready(draft: Draft, text: str) -> None:
    """Check the address in `ready`; unknown placeholders are reported elsewhere."""
    scheme = _SCHEME.match(text)
    if not is_address(text):
        if scheme and not find_placeholders(scheme[0]):
            draft.report(
                ("program", "ready"),
                f"`{scheme[1]}://` is not known: use `http://`, `https://` or `tcp://HOST:PORT`, or a command",
            )
        return
    names = find_placeholders(text)
    if any(name not in PLACEHOLDERS and not name.startswith(PARAMETER) for name in names):
        return
    try:
        address_of(substitute(text, dict.fromkeys(names, _SOME_PORT)))
    except ValueError:
        draft.report(
            ("program", "ready"), f"`{text}` lacks a host or a port: write it as in `tcp://127.0.0.1:{{port}}`"
        )


def find_free_port() -> int:
    """Return a TCP port that no program of this host uses now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
