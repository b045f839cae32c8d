"""Runs the compiler wrapper for tests of what it counts, each command in a process forked from one that has loaded it.

To start Python and load the wrapper takes three quarters of a small program's build. The launcher starts a small
client in Python's place; all else is a toolchain's own. Tests of `compiler/` run the wrapper as a build does.

    python wrapper_server.py SOCKET    serves until its standard input ends
"""

from __future__ import annotations

import array
import gc
import importlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import NoReturn

from unperturbed.instrument.compiler.toolchain import Toolchain

__all__ = ["serve_wrapper", "served_wrapper"]

_LOADED = (
    "unperturbed.instrument.compiler.wrapper",
    "unperturbed.instrument.compiler.facts",
    "unperturbed.instrument.compiler.facts",
    "unperturbed.instrument.finding.rewrite",
    "unperturbed.instrument.finding.sites",
    "unperturbed.instrument.layout",
    "unperturbed.instrument.layout",
    "unperturbed.instrument.finding.sites",
)
_CLIENT = Path(__file__).with_name("wrapper_client.c")


def serve_wrapper(toolchain: Toolchain) -> None:
    """Let a toolchain's launchers ask this server where they would start Python."""
    for compiler in (toolchain.cc, toolchain.cxx):
        configuration = compiler.with_name(f"{compiler.name}.launch")
        if configuration.exists():  # scripts do without
            fields = [field for field in configuration.read_bytes().split(b"\0") if not field.startswith(b"P")]
            words = [*served_wrapper(), "--settings", str(toolchain.folder / "settings.json"), "--"]
            configuration.write_bytes(b"\0".join([*(b"P" + os.fsencode(word) for word in words), *fields]))


def served_wrapper() -> list[str]:
    """Return the command that asks this server, in place of one that starts Python."""
    client, address, _ = _server()
    return [str(client), str(address)]


@cache
def _server() -> tuple[Path, Path, tuple[object, ...]]:
    """Return client and address of a server, and what must live as long."""
    place = tempfile.TemporaryDirectory()
    client, address = Path(place.name) / "client", Path(place.name) / "socket"
    subprocess.run(["gcc", "-O1", "-static", str(_CLIENT), "-o", str(client)], check=True)
    server = subprocess.Popen(
        [sys.executable, __file__, str(address)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    assert server.stdout.readline() == "ready\n"
    return client, address, (place, server)


def _serve(address: str) -> None:
    for name in _LOADED:
        importlib.import_module(name)
    importlib.import_module("clang.cindex").conf.get_cindex_library()
    gc.collect()
    gc.freeze()  # collecting what was loaded would copy all of it into each process
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whoever asked learns of the end, not we
    with socket.socket(socket.AF_UNIX) as asked:
        asked.bind(address)
        asked.listen(64)
        print("ready", flush=True)
        while asked in select.select([asked, sys.stdin], [], [])[0]:
            client, _ = asked.accept()
            if not os.fork():
                asked.close()
                _answer(client)
            client.close()


def _answer(client: socket.socket) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    wrapper = importlib.import_module("unperturbed.instrument.compiler.wrapper")
    length, streams, _, _ = socket.recv_fds(client, array.array("I").itemsize, 3)
    message = b""
    while len(message) < int.from_bytes(length, sys.byteorder):
        message += client.recv(1 << 20)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    folder, count, *texts = message.split(b"\0")[:-1]
    arguments, variables = texts[: int(count)], texts[int(count) :]
    os.chdir(folder)
    os.environb.clear()
    os.environb.update(variable.split(b"=", 1) for variable in variables)
    code = wrapper.main([os.fsdecode(word) for word in arguments])
    sys.stdout.flush()
    sys.stderr.flush()
    client.send(bytes([code]))
    os._exit(0)


if __name__ == "__main__":
    _serve(sys.argv[1])
