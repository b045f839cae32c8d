"""Parallel execution of analyses with joblib: in this thread, in threads, in processes or on a dask cluster.

The result is the same everywhere, to the last bit: a chunk is computed by the same function from the same numbers, and
results come in order.

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
"""Shorter work stays in this thread: one joblib call with a memory-mapped array has an overhead of 60 ms."""
_CHUNKS_A_WORKER = 4
"""Several chunks for each worker: otherwise all would wait for a slow worker at the end."""
_MOST_LOSSES = 3
"""Maximum number of times that data are sent again after a dask worker is lost."""
_ALIGNED = 64
"""Alignment of packed arrays in bytes, the same as that of numpy's own arrays."""


@dataclass(frozen=True)
class Workers:
    """Workers that execute the chunks of a task."""

    count: int  # Number of chunks executed at once; 1: only this thread works
    backend: Any = None  # Joblib's backend; None: this thread does the work

    @property
    def shares_memory(self) -> bool:
        """Return whether all workers share this process's memory."""
        return self.backend is None or bool(getattr(self.backend, "supports_sharedmem", False))

    def chunks(self, items: int, *, least: int = 1) -> list[slice]:
        """Split `items` into a few chunks for each worker, with at least `least` items in each chunk."""
        parts = 1 if self.count == 1 else min(self.count * _CHUNKS_A_WORKER, max(1, items // least))
        ends = [items * at // parts for at in range(parts + 1)]
        return [slice(first, end) for first, end in pairwise(ends) if first < end]

    def map(
        self, function: Callable[[Any, Any], _Result], common: object, chunks: Sequence[object]
    ) -> Generator[_Result, None, None]:
        """Yield `function(common, chunk)` for each chunk, in order; `close` cancels chunks that have not started.

        `common`: Data that all chunks need. Its arrays are sent once, and are read-only in other processes.
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
        # Without a generator, an interrupt waits for all chunks; only the backend `multiprocessing` does not support
        # generators.
        way = "generator" if getattr(self.backend, "supports_return_generator", True) else "list"
        pool = joblib.Parallel(n_jobs=self.count, backend=self.backend, return_as=way, batch_size=1)
        results: Any = None
        try:
            results = pool(joblib.delayed(function)(common, chunk) for chunk in chunks)
            for result in results:  # noqa: UP028  `yield from` would pass `close` on; the code below closes `results`
                yield result
        except load_library("joblib.externals.loky.process_executor").BrokenProcessPool as error:
            raise HostError(
                "a worker process ended before its work was done, usually because the host ran out of memory: use "
                'fewer workers, with `joblib.parallel_config("loky", n_jobs=2)` or `--jobs 2`'
            ) from error
        finally:
            if hasattr(results, "close"):
                with warnings.catch_warnings():  # unfetched results are normal after an interrupt
                    warnings.simplefilter("ignore", UserWarning)
                    results.close()

    def _by_dask(
        self, function: Callable[[Any, Any], _Result], packed: _Packed, chunks: Sequence[object]
    ) -> Generator[_Result, None, None]:
        # Submit through dask's client: joblib's dask backend waits forever for the results of a lost worker.
        client, options = self.backend.client, getattr(self.backend, "submit_kwargs", {})
        _require_same_version(client)
        # A failed import ends the worker, unless it happens inside a task: so calls are sent pickled.
        dumps, cancelled = load_library("cloudpickle").dumps, load_library("distributed").CancelledError

        def submit(rest: Sequence[object]) -> list[Any]:
            # Broadcast: every worker needs the data, and a single copy would be lost with its worker.
            shared = client.scatter(packed, hash=False, broadcast=True)
            calls = [dumps((_version(), function, chunk)) for chunk in rest]
            return [client.submit(_call_pickled, shared, call, pure=False, **options) for call in calls]

        pending: list[Any] = []
        losses = 0
        try:
            with self.backend.retrieval_context():  # releases the thread if this code runs in a dask task
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
                f"a worker of the dask cluster cannot import {error.name}: install that module on all nodes"
            ) from error
        except _lost_by_dask() as error:
            raise HostError(
                "workers of the dask cluster ended before their work was done, usually because they ran out of memory: "
                "give each worker more memory, or start fewer workers on each node"
            ) from error
        finally:
            client.cancel(pending)


def choose_workers(workers: int | None = None, *, kernels: bool = True, seconds: float = np.inf) -> Workers:
    """Return the workers that execute a task.

    `workers`: Number of workers; None takes the number from `joblib.parallel_config`, or else one for each processor
    that this process may use.
    `kernels`: Compiled functions do the work and release Python's lock, so threads are the default. Otherwise the work
    stays in this thread, unless joblib is configured with a backend or a number of jobs.
    `seconds`: Estimated duration; short tasks stay in this thread.
    """
    if workers is not None and operator.index(workers) < 1:
        raise ValueError(f"`workers` is {workers}: use 1 or more, or None")
    is_loaded = "joblib" in sys.modules  # if joblib is not loaded, nobody configured it
    if seconds < _WORTH_S or (not is_loaded and (workers == 1 or (workers is None and not kernels))):
        return Workers(1)
    parallel = load_library("joblib.parallel")  # loads slowly
    backend, configured = parallel.get_active_backend()
    threads, _ = parallel.get_active_backend(prefer="threads")
    # Without a configured backend, joblib uses processes, or threads if these are preferred.
    chosen = type(threads) is type(backend)
    jobs = workers if workers is not None else configured
    if not chosen:
        if kernels:
            backend = threads
        elif jobs is None:
            return Workers(1)
    if jobs is None:  # inside a joblib task, the other processors are already busy
        jobs = 1 if backend.nesting_level else -1
    try:
        count = backend.effective_n_jobs(jobs)
    except TimeoutError as error:  # the cluster has no worker; dask's message explains how to wait longer
        raise HostError(" ".join(str(error).split())) from error
    # A cluster with a single worker is used too: it may be on a different host.
    return Workers(count, backend) if count > 1 or hasattr(backend, "client") else Workers(1)


def pack(value: object) -> _Packed:
    """Pack an object into one array, which joblib memory-maps and dask sends once.

    The array contains the sizes of all parts, the pickle without its arrays, and the arrays, aligned to 64 bytes.
    """
    buffers: list[pickle.PickleBuffer] = []
    outline = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    parts = [np.frombuffer(outline, np.uint8), *(np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers)]
    sizes = np.array([len(parts), *map(len, parts)], np.int64)
    first, *starts = _places(sizes)
    packed = np.zeros(starts[-1], np.uint8)
    packed[: sizes.nbytes] = sizes.view(np.uint8)
    for part, start in zip(parts, (first, *starts), strict=False):
        packed[start : start + len(part)] = part
    return packed


def unpack(packed: _Packed) -> Any:
    """Return the object that `pack` packed; its arrays are read-only views of the packed array."""
    if packed.ctypes.data % 8:  # arrays from the network may be unaligned, and compiled functions need alignment
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
    """Return the offset of each part, and the total size."""
    places = [sizes.nbytes]
    for size in sizes[1:].tolist():
        places[-1] += -places[-1] % _ALIGNED
        places.append(places[-1] + size)
    return places


def _call_pickled(packed: _Packed, call: bytes) -> bytes:
    """Execute a pickled chunk in a dask worker; dask would send each number of an unpickled list separately."""
    return pickle.dumps(_call_packed(packed, pickle.loads(call)), protocol=5)


def _call_packed(packed: _Packed, call: tuple[str, Callable[[Any, Any], _Result], object]) -> _Result:
    """Execute a chunk in a worker; refuse if the versions of this tool differ, because the numbers could differ."""
    version, function, chunk = call
    if version != _version():
        raise HostError(_of_another_version("a worker", _version(), version))
    return function(unpack(packed), chunk)


def _require_same_version(client: Any) -> None:
    """Refuse a dask cluster in which a worker lacks this tool or has a different version: tasks there would fail."""
    for worker, version in client.run(metadata.version, "unperturbed", on_error="return").items():
        if isinstance(version, metadata.PackageNotFoundError):
            raise HostError(
                f"unperturbed is not installed on the host of dask worker {worker}: install "
                f"'unperturbed[analysis]=={_version()}' on all nodes of the cluster"
            )
        if version != _version():
            raise HostError(_of_another_version(f"dask worker {worker}", version, _version()))


def _of_another_version(worker: str, version: object, own: str) -> str:
    return f"{worker} has unperturbed {version}, but this process has {own}: install the same version on all nodes"


@cache
def _version() -> str:
    return metadata.version("unperturbed")


def _lost_by_dask() -> tuple[type[Exception], ...]:
    """Return the exceptions that dask raises if a worker ends."""
    distributed = load_library("distributed")
    return (distributed.scheduler.KilledWorker, distributed.CancelledError)
