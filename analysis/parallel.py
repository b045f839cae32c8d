"""Work on many runs or pairs of runs, executed where the user wants it, by way of joblib.

The one place that decides between this thread, threads, processes of this host and a dask cluster. The result is the
same to the last bit: a chunk is computed by the same function from the same numbers, and results come in order.

::

    with joblib.parallel_config("loky", n_jobs=4):   # processes of this host
        up.check("campaigns/mine")

    with Client("scheduler:8786"), joblib.parallel_config("dask"):   # the workers of a dask cluster
        up.check("campaigns/mine")
"""

from __future__ import annotations

import operator
import pickle
import sys
import warnings
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from unperturbed.common.extras import load_library
from unperturbed.errors import HostError

_Result = TypeVar("_Result")
_Packed = NDArray[np.uint8]

_WORTH_S = 0.2
"""Shorter work is not sent to other processes: a call of joblib with a memory-mapped array takes 60 ms beside it."""
_CHUNKS_A_WORKER = 4
"""So that a slow worker does not keep the others waiting at the end."""
_MOST_LOSSES = 3
"""Times that data lost with a worker of dask is sent again."""
_ALIGNED = 64
"""Bytes at whose multiples packed arrays begin, as numpy's own begin."""


@dataclass(frozen=True)
class Workers:
    """Who executes the chunks of a piece of work."""

    count: int  # How many chunks are executed at once; 1 is this thread alone
    backend: Any = None  # Joblib's backend, or None in this thread

    @property
    def shares_memory(self) -> bool:
        """Return whether all workers see the objects of this process."""
        return self.backend is None or bool(getattr(self.backend, "supports_sharedmem", False))

    def chunks(self, items: int, *, least: int = 1) -> list[slice]:
        """Cut `items` into a few chunks for each worker, of at least `least` items each."""
        parts = 1 if self.count == 1 else min(self.count * _CHUNKS_A_WORKER, max(1, items // least))
        ends = [items * at // parts for at in range(parts + 1)]
        return [slice(first, end) for first, end in pairwise(ends) if first < end]

    def map(
        self, function: Callable[[Any, Any], _Result], common: object, chunks: Sequence[object]
    ) -> Generator[_Result, None, None]:
        """Yield `function(common, chunk)` of each chunk, in order; after `close`, what was not begun is not executed.

        `common`: What all chunks need. Its arrays are sent once, and are read-only in other processes.
        """
        if self.backend is None or not chunks:
            return (function(common, chunk) for chunk in chunks)
        if self.shares_memory:
            return self._by_joblib(function, common, chunks)
        packed = pack(common)
        if hasattr(self.backend, "client"):
            return self._by_dask(function, packed, chunks)
        return self._by_joblib(_call_packed, packed, [(_version(), function, chunk) for chunk in chunks])

    def _by_joblib(
        self, function: Callable[[Any, Any], _Result], common: object, chunks: Sequence[object]
    ) -> Generator[_Result, None, None]:
        joblib = load_library("joblib")
        # Without a generator, an interrupt waits for all chunks; only the backend `multiprocessing` has none.
        way = "generator" if getattr(self.backend, "supports_return_generator", True) else "list"
        pool = joblib.Parallel(n_jobs=self.count, backend=self.backend, return_as=way, batch_size=1)
        found: Any = None
        try:
            found = pool(joblib.delayed(function)(common, chunk) for chunk in chunks)
            for result in found:  # noqa: UP028  closed below, not by the one who closes this generator
                yield result
        except load_library("joblib.externals.loky.process_executor").BrokenProcessPool as error:
            raise HostError(
                "a worker process ended before its work was done; the usual reason is too little memory. "
                'Use fewer workers: joblib.parallel_config("loky", n_jobs=2), or --jobs 2'
            ) from error
        finally:
            if hasattr(found, "close"):
                with warnings.catch_warnings():  # joblib warns of results that are not fetched, as when a user stops
                    warnings.simplefilter("ignore", UserWarning)
                    found.close()

    def _by_dask(
        self, function: Callable[[Any, Any], _Result], packed: _Packed, chunks: Sequence[object]
    ) -> Generator[_Result, None, None]:
        # By the client itself: joblib's own way waits for ever for what a lost worker had.
        client, options = self.backend.client, getattr(self.backend, "submit_kwargs", {})
        _require_same_version(client)
        # What a worker cannot import ends the worker, unless the task itself imports it.
        dumps, cancelled = load_library("cloudpickle").dumps, load_library("distributed").CancelledError

        def submit(rest: Sequence[object]) -> list[Any]:
            # To all: each needs it, and what one worker alone had would be lost with it.
            shared = client.scatter(packed, hash=False, broadcast=True)
            calls = [dumps((_version(), function, chunk)) for chunk in rest]
            return [client.submit(_call_pickled, shared, call, pure=False, **options) for call in calls]

        pending: list[Any] = []
        losses = 0
        try:
            with self.backend.retrieval_context():  # gives the thread back where this is itself a task of dask
                pending = submit(chunks)
                while pending:
                    try:
                        result = pickle.loads(pending[0].result())
                    except cancelled:  # a busy cluster may not have copied the data before the worker was lost
                        losses += 1
                        if losses > _MOST_LOSSES:
                            raise
                        pending = submit(chunks[-len(pending) :])
                    else:
                        pending = pending[1:]
                        yield result
        except ModuleNotFoundError as error:
            raise HostError(
                f"a worker of the dask cluster cannot import {error.name}: make it importable on all nodes"
            ) from error
        except _lost_by_dask() as error:
            raise HostError(
                "workers of the dask cluster ended before their work was done; the usual reason is too little memory: "
                "give each worker more, or start fewer on each node"
            ) from error
        finally:
            client.cancel(pending)


def choose_workers(workers: int | None = None, *, kernels: bool = True, seconds: float = np.inf) -> Workers:
    """Return who executes a piece of work.

    `workers`: How many; None takes what `joblib.parallel_config` says, else all processors of this process.
    `kernels`: The work is done by compiled functions, which run without Python's lock. Then threads serve by default.
    Otherwise it stays in this thread, unless joblib is told a backend or a number of jobs.
    """
    if workers is not None and operator.index(workers) < 1:
        raise ValueError(f"workers is {workers}: give 1 or more, or None")
    configurable = workers is not None or "joblib" in sys.modules  # joblib that is not loaded has no context
    if seconds < _WORTH_S or not (kernels or configurable):
        return Workers(1)
    parallel = load_library("joblib.parallel")  # slow to load
    backend, configured = parallel.get_active_backend()
    threads, _ = parallel.get_active_backend(prefer="threads")
    # Without a configured backend, joblib takes processes, or threads where those are preferred.
    chosen = type(threads) is type(backend)
    jobs = workers if workers is not None else configured
    if not chosen:
        if kernels:
            backend = threads
        elif jobs is None:
            return Workers(1)
    if jobs is None:  # in a task of joblib's own, the other processors are at work already
        jobs = 1 if backend.nesting_level else -1
    try:
        count = backend.effective_n_jobs(jobs)
    except TimeoutError as error:  # of a cluster that has no worker; the message says how to wait longer
        raise HostError(" ".join(str(error).split())) from error
    # A cluster of one worker is used too: it is elsewhere.
    return Workers(count, backend) if count > 1 or hasattr(backend, "client") else Workers(1)


def pack(value: object) -> _Packed:
    """Return an object as one array, which joblib memory-maps and dask sends once.

    It holds sizes, the pickle without its arrays, and each array at a multiple of 64 bytes.
    """
    buffers: list[pickle.PickleBuffer] = []
    outline = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    parts = [np.frombuffer(outline, np.uint8), *(np.frombuffer(one.raw(), np.uint8) for one in buffers)]
    sizes = np.array([len(parts), *map(len, parts)], np.int64)
    first, *starts = _places(sizes)
    packed = np.zeros(starts[-1], np.uint8)
    packed[: sizes.nbytes] = sizes.view(np.uint8)
    for part, start in zip(parts, (first, *starts), strict=False):
        packed[start : start + len(part)] = part
    return packed


def unpack(packed: _Packed) -> Any:
    """Return the object that `pack` packed; its arrays are views of the packed one, and read-only."""
    if packed.ctypes.data % 8:  # as it came off the network: compiled functions take no array at an odd address
        packed = packed.copy()
    count = int(packed[:8].view(np.int64)[0])
    sizes = packed[: 8 * (count + 1)].view(np.int64)
    whole = packed.view(np.ndarray)
    whole.flags.writeable = False
    outline, *buffers = (
        whole[start : start + size] for start, size in zip(_places(sizes), sizes[1:].tolist(), strict=False)
    )
    return pickle.loads(outline.tobytes(), buffers=buffers)


def _places(sizes: NDArray[np.int64]) -> list[int]:
    """Return where each part begins, and the end."""
    places = [sizes.nbytes]
    for size in sizes[1:].tolist():
        places[-1] += -places[-1] % _ALIGNED
        places.append(places[-1] + size)
    return places


def _call_pickled(packed: _Packed, call: bytes) -> bytes:
    """Execute a chunk in a worker of dask, which would send each number of a list by itself."""
    return pickle.dumps(_call_packed(packed, pickle.loads(call)), protocol=5)


def _call_packed(packed: _Packed, call: tuple[str, Callable[[Any, Any], _Result], object]) -> _Result:
    """Execute a chunk in a worker: of another version, it could give other numbers."""
    version, function, chunk = call
    if version != _version():
        raise HostError(_of_another_version("a worker", _version(), version))
    return function(unpack(packed), chunk)


def _require_same_version(client: Any) -> None:
    """Refuse workers of a dask cluster that lack this tool or have another version; a task would be lost there."""
    for worker, version in client.run(metadata.version, "unperturbed", on_error="return").items():
        if isinstance(version, metadata.PackageNotFoundError):
            raise HostError(
                f"unperturbed is not installed where the dask worker {worker} runs: install "
                f"'unperturbed[analysis]=={_version()}' on all nodes of the cluster"
            )
        if version != _version():
            raise HostError(_of_another_version(f"the dask worker {worker}", version, _version()))


def _of_another_version(worker: str, version: object, own: str) -> str:
    return f"{worker} has unperturbed {version} and this process {own}: install the same on all nodes"


@cache
def _version() -> str:
    return metadata.version("unperturbed")


def _lost_by_dask() -> tuple[type[Exception], ...]:
    """Return what dask raises where workers ended."""
    distributed = load_library("distributed")
    return (distributed.scheduler.KilledWorker, distributed.CancelledError)
