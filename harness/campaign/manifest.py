"""The manifest: an SQLite file with the state of every run, so that a campaign survives any interruption."""

from __future__ import annotations

import fcntl
import json
import math
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import NoneType
from typing import Any, Literal

from unperturbed.errors import SpecError
from unperturbed.harness.campaign.plan import PlannedRun

_SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS runs (
    id TEXT PRIMARY KEY,
    configuration TEXT NOT NULL,
    pass TEXT NOT NULL,
    repetition INTEGER NOT NULL,
    block INTEGER NOT NULL,
    pad_bytes INTEGER NOT NULL,
    layout INTEGER NOT NULL DEFAULT 0,
    point INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL CHECK (state IN ('planned', 'running', 'done', 'failed')),
    attempt INTEGER NOT NULL DEFAULT 0,
    started TEXT,
    seconds REAL,
    intervals INTEGER,
    error TEXT NOT NULL DEFAULT '',
    host_before TEXT,
    host_after TEXT
);
CREATE TABLE IF NOT EXISTS failures (
    run TEXT NOT NULL REFERENCES runs (id),
    attempt INTEGER NOT NULL,
    started TEXT,
    seconds REAL,
    error TEXT NOT NULL,
    PRIMARY KEY (run, attempt)
);
"""

_ADDED = ("layout", "point")
"""Columns that later versions added, numbers with the default 0. Only further runs of an older campaign need them."""

_TOTALS = "CREATE TABLE IF NOT EXISTS totals (run TEXT PRIMARY KEY REFERENCES runs (id), content TEXT NOT NULL)"
"""The results of whole runs, which only sweeps have."""

State = Literal["planned", "running", "done", "failed"]

_NUMBER = (int, float)
_FACTS: Mapping[str, Any] = {
    **dict.fromkeys(
        ("id", "purpose", "spec_text", "spec_path", "spec_digest", "name", "begun", "host", "program"), str
    ),
    **dict.fromkeys(("reasons", "skipped", "programs", "imported"), dict),
    "description": {"host": {"name": str, "system": str}, "processor": {"model": str}},
    "builds": {str: dict},
    "sites": {str: {str: int}},
    "inputs": {str: int},
    "layout_notes": {str: [str]},
    "probe_notes": [str],
    "extended": [{"runs": int, "by": int, "at": str}],
    "passes": [{"name": str, "source": str, "metrics": [str]}],
    "expected": {"exit_code": int, "digest": str, "run": str},
    "native": {"exit_code": int, "seconds": _NUMBER, "user_s": _NUMBER, "system_s": _NUMBER, "max_rss_kib": int},
    "pilot:": {"interval_ns": int, "intervals": int, "seconds": _NUMBER, "note": str},
}
"""What facts look like, by name or its beginning; a mapping of a type to a type has any keys.

Others are not checked.
"""

_ROW: Any = (*[str] * 3, *[int] * 5, str, int, (str, NoneType), (*_NUMBER, NoneType), (int, NoneType), str)
"""Types of a run's columns, but for the states of the host."""

_NO_DAMAGE = ("locked", "busy", "full", "disk I/O", "unable to open", "readonly")
"""Words in SQLite's messages on a file that is whole."""


@dataclass(frozen=True)
class RunState:
    """A planned run and its state.

    Attributes
    ----------
    run : PlannedRun
        The run.
    state : State
        How far it got.
    attempt : int
        Number of the last attempt; 0 before the first.
    started : str or None
        When that attempt started, ISO 8601.
    seconds : float or None
        How long it took.
    intervals : int or None
        Length of its trace.
    error : str
        Why it failed; empty otherwise.
    host_before, host_after : dict of str to object or None
        The host's state (`unperturbed.harness.host.state`) before and after it.
    """

    run: PlannedRun
    state: State
    attempt: int
    started: str | None
    seconds: float | None
    intervals: int | None
    error: str
    host_before: dict[str, Any] | None
    host_after: dict[str, Any] | None


@dataclass(frozen=True)
class Failure:
    """One attempt that failed."""

    run: str
    attempt: int
    started: str | None
    seconds: float | None
    error: str


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a campaign folder for this process; the kernel releases it however the process ends.

    Raises
    ------
    SpecError
        Another process holds it.
    """
    with (folder / "campaign.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise SpecError(
                f"{folder}: another process (pid {holder}) is working on this campaign; wait for it, or choose "
                "another folder with --campaign"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def is_locked(folder: Path) -> bool:
    """Return whether a process works on a campaign; nothing is written."""
    try:
        with (folder / "campaign.lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


class Manifest:
    """The campaign's `campaign.sqlite`. Each change is one transaction, on disk when the method returns.

    Parameters
    ----------
    path : Path
        The file. It is made where there is none, unless it is only read.
    read_only : bool
        Open what is there and write nothing, not even a table that an older version did not have.

    Raises
    ------
    SpecError
        The file is no manifest, or is not there and shall only be read.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        place = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}"
        try:
            # A back end may make runs in a thread, one at a time; SQLite serialises access by itself.
            self._db = sqlite3.connect(place, isolation_level=None, check_same_thread=False, uri=True)
            if not read_only:
                self._db.execute("PRAGMA synchronous = FULL")
                self._db.executescript(_SCHEMA)
            columns = {row[1] for row in self._db.execute("PRAGMA table_info(runs)")}
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise SpecError(
                    f"{path.parent}: another process is writing to this campaign's manifest; try again when it is done"
                ) from None
            raise SpecError(f"{path}: the campaign's manifest cannot be opened ({error})") from None
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # names of tables that are no text
            raise SpecError(
                f"{path}: not a campaign's manifest ({error}); choose another folder with --campaign"
            ) from None
        self._missing = [name for name in _ADDED if name not in columns]

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __enter__(self) -> Manifest:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fact(self, name: str) -> Any:
        """Return a fact about the campaign, or None.

        Raises
        ------
        SpecError
            The manifest is damaged.
        """
        rows = self._read("SELECT value FROM facts WHERE name = ?", (name,))
        value = self._decoded(rows[0][0], f"the fact {name}") if rows else None
        shape = _FACTS.get(name, _FACTS.get(f"{name.partition(':')[0]}:"))
        if value is not None and shape is not None and not _has_shape(value, shape):
            raise self._damaged(f"the fact {name} is none")
        return value

    def required_fact(self, name: str) -> Any:
        """Return a fact that every campaign with a finished run has.

        Raises
        ------
        SpecError
            The manifest is damaged, or has no such fact.
        """
        value = self.fact(name)
        if value is None:
            raise self._damaged(f"the fact {name} is missing")
        return value

    def counts(self) -> Mapping[State, int]:
        """Return how many runs are in each state; states without runs are left out."""
        return dict(self._read("SELECT state, count(*) FROM runs GROUP BY state"))

    def set_facts(self, **facts: Any) -> None:
        """Record facts about the campaign, all or none."""
        with self._transaction():
            for name, value in facts.items():
                self._db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(value)))

    def clear(self) -> None:
        """Delete everything: the folder's campaign starts anew."""
        with self._transaction():
            for table in ("failures", "totals", "runs", "facts"):
                if self._has(table):
                    self._db.execute(f"DELETE FROM {table}")

    def plan(self, runs: Iterable[PlannedRun]) -> None:
        """Enter the plan; runs that are there already stay as they are."""
        for name in self._missing:
            self._db.execute(f"ALTER TABLE runs ADD COLUMN {name} INTEGER NOT NULL DEFAULT 0")
        self._missing = []
        with self._transaction():
            self._db.executemany(
                "INSERT OR IGNORE INTO runs (id, configuration, pass, repetition, block, pad_bytes, layout, point, "
                "state)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'planned')",
                (astuple(run) for run in runs),
            )

    def forget(self, configurations: Iterable[str]) -> None:
        """Remove the runs of these configurations that were never started from the plan."""
        with self._transaction():
            for name in configurations:
                self._db.execute(
                    "DELETE FROM runs WHERE state = 'planned' AND attempt = 0 AND configuration = ?", (name,)
                )

    def forget_runs(self, ids: Iterable[str]) -> None:
        """Remove these runs from the plan, unless they were started."""
        with self._transaction():
            self._db.executemany(
                "DELETE FROM runs WHERE state = 'planned' AND attempt = 0 AND id = ?", ((run,) for run in ids)
            )

    def reopen(self) -> None:
        """Plan runs again that were interrupted or had failed in an earlier session."""
        with self._transaction():
            self._db.execute("UPDATE runs SET state = 'planned' WHERE state IN ('running', 'failed')")

    def redo(self, ids: Iterable[str]) -> None:
        """Plan these finished runs again: what they recorded is lost."""
        with self._transaction():
            self._db.executemany("UPDATE runs SET state = 'planned' WHERE id = ?", ((run,) for run in ids))

    def start(self, run: PlannedRun, *, attempt: int, started: str, host: dict[str, Any]) -> None:
        """Record that a run has started."""
        self._db.execute(
            "UPDATE runs SET state = 'running', attempt = ?, started = ?, host_before = ?, error = '' WHERE id = ?",
            (attempt, started, json.dumps(host), run.id),
        )

    def finish(
        self,
        run: PlannedRun,
        *,
        seconds: float,
        intervals: int,
        host: dict[str, Any],
        totals: Mapping[str, Any] | None = None,
    ) -> None:
        """Record that a run is done: its trace is on disk, or its `totals` are recorded with it."""
        if totals is not None:
            self._db.execute(_TOTALS)
        with self._transaction():
            if totals is not None:
                self._db.execute("INSERT OR REPLACE INTO totals VALUES (?, ?)", (run.id, json.dumps(totals)))
            self._db.execute(
                "UPDATE runs SET state = 'done', seconds = ?, intervals = ?, host_after = ? WHERE id = ?",
                (seconds, intervals, json.dumps(host), run.id),
            )

    def fail(self, run: PlannedRun, *, seconds: float, error: str, host: dict[str, Any], final: bool) -> None:
        """Record that an attempt failed; `final` when it is not to be tried again."""
        with self._transaction():
            self._db.execute(
                "INSERT OR REPLACE INTO failures SELECT id, attempt, started, ?, ? FROM runs WHERE id = ?",
                (seconds, error, run.id),
            )
            self._db.execute(
                "UPDATE runs SET state = ?, seconds = ?, error = ?, host_after = ? WHERE id = ?",
                ("failed" if final else "planned", seconds, error, json.dumps(host), run.id),
            )

    def runs(self, *states: State) -> list[RunState]:
        """Return the runs in these states (all, when none is given), in the order of the plan."""
        added = ", ".join("0" if name in self._missing else name for name in _ADDED)
        rows = self._read(
            f"SELECT id, configuration, pass, repetition, block, pad_bytes, {added}, state, attempt, started,"
            " seconds, intervals, error, host_before, host_after FROM runs ORDER BY id"
        )
        found = []
        for row in rows:
            if states and row[8] not in states:
                continue
            if not all(isinstance(value, wanted) for value, wanted in zip(row, _ROW, strict=False)):
                raise self._damaged(f"the entry of run {row[0]}")
            hosts = [
                None if text is None else self._decoded(text, f"a host's state of run {row[0]}") for text in row[14:]
            ]
            if not all(isinstance(host, dict | None) for host in hosts):
                raise self._damaged(f"a host's state of run {row[0]}")
            found.append(RunState(PlannedRun(*row[:8]), *row[8:14], *hosts))
        return found

    def totals(self, *runs: str) -> dict[str, dict[str, Any]]:
        """Return the results of these finished runs of a sweep (of all, when none is named), by run."""
        if not self._has("totals"):
            return {}
        marks = f" WHERE run IN ({', '.join('?' * len(runs))})" if runs else ""
        found = self._read(f"SELECT run, content FROM totals{marks}", runs)
        return {run: self._decoded(text, f"the totals of run {run}") for run, text in found}

    def failures(self) -> list[Failure]:
        """Return every attempt that failed, in order."""
        return [
            Failure(*row)
            for row in self._read("SELECT run, attempt, started, seconds, error FROM failures ORDER BY run, attempt")
        ]

    def _has(self, table: str) -> bool:
        return bool(self._read("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)))

    def _read(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return the rows of a query; damage is an error of this tool."""
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) and any(word in str(error) for word in _NO_DAMAGE):
                raise
            raise self._damaged(str(error)) from None

    def _decoded(self, text: Any, what: str) -> Any:
        try:
            return json.loads(text)
        except (ValueError, TypeError, RecursionError):
            raise self._damaged(what) from None

    def _damaged(self, what: str) -> SpecError:
        return SpecError(
            f"{self.path}: the campaign's manifest is damaged ({what}); the traces in {self.path.with_name('runs')} "
            "may be whole, and each can be read by itself; run the spec in another folder"
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN")
        try:
            yield
        except BaseException:
            # SQLite has rolled back by itself where it could not write; a second time would hide why.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")


def _has_shape(value: Any, shape: Any) -> bool:
    """Return whether a value is of a type, or is built like a list or mapping of types."""
    if isinstance(shape, list):
        return isinstance(value, list) and all(_has_shape(item, shape[0]) for item in value)
    if not isinstance(shape, dict):
        return isinstance(value, shape) and not (
            isinstance(value, bool) or (isinstance(value, float) and math.isnan(value))
        )
    if not isinstance(value, dict):
        return False
    if str in shape:
        return all(_has_shape(item, shape[str]) for item in value.values())
    return all(name in value and _has_shape(value[name], part) for name, part in shape.items())


def now() -> str:
    """Return the time as campaigns record it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
