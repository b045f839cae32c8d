"""The manifest: an SQLite file with the state of every run, which lets a campaign resume after any interruption."""

from __future__ import annotations

import fcntl
import json
import os
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from unperturbed.collectors.data.files import Shape, misfit
from unperturbed.errors import HostError, SpecError
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

_IN_ORDER = "length({0}), {0}"
"""Sort order of runs by name; names are numbers of at least four digits, and 9999 comes before 10000."""

_ADDED = ("layout", "point")
"""Integer columns that later versions added, with default 0; old campaigns need them only for additional runs."""

_TOTALS = "CREATE TABLE IF NOT EXISTS totals (run TEXT PRIMARY KEY REFERENCES runs (id), content TEXT NOT NULL)"
"""Results of whole runs; only sweeps have this table."""

State = Literal["planned", "running", "done", "failed"]

_FACTS: Mapping[str, Shape] = {
    **dict.fromkeys(("id", "name", "begun", "host", "program", "purpose", "shared", "staged"), str),
    **dict.fromkeys(("builds_wanted", "processes_wanted", "spec_digest", "spec_path", "spec_text"), str),
    **dict.fromkeys(("candidates", "programs", "reasons", "skipped"), dict),
    "description": {"host": {"name": str, "system": str}, "processor": {"model": str}},
    "builds": {str: dict},
    "sites": {str: {str: int}},
    "inputs": {str: int},
    "layout_notes": {str: [str]},
    "one_build": {"families": {str: [str]}, "why_not": str},
    "choice_pilot": {str: int},
    "chosen_families": {"families": {str: [str]}, "note": str},
    "probe_notes": [str],
    "rewriting": {str: {"before": int, "after": int, "functions": list}},
    "part": int,
    "expected": {"exit_code": int, "digest": str, "run": str},
    "extended": [{"runs": int, "by": int, "at": str}],
    "imported": {"configurations": dict, "files": list, "align_on": [str], "notes": [str]},
    "native": {"exit_code": int, "seconds": float, "user_s": float, "system_s": float, "max_rss_kib": int},
    "passes": [{"name": str, "source": str, "metrics": [str]}],
}
"""Expected types of facts; others are not checked."""

_PILOT: Shape = {"interval_ns": int, "intervals": int, "seconds": float, "note": str}
_RUN: tuple[tuple[str, Shape], ...] = (
    *((name, str) for name in ("id", "configuration", "pass")),
    *((name, int) for name in ("repetition", "block", "pad_bytes", "layout", "point")),
    ("state", str),
    ("attempt", int),
    ("started", str),
    ("seconds", float),
    ("intervals", int),
    ("error", str),
)
_NONE = frozenset(("started", "seconds", "intervals"))
"""Columns without a value before a run has started or finished."""

_NO_DAMAGE = ("locked", "busy", "full", "disk I/O", "unable to open", "readonly")
"""Words in SQLite's error messages about an undamaged file."""

_ID = re.compile(r"\w[\w.-]*")  # Allowed names of a run's folder; none can lead outside


@dataclass(frozen=True)
class RunState:
    """A planned run and its state."""

    run: PlannedRun  # The run
    state: State  # The run's state
    attempt: int  # Number of the last attempt; 0 before the first
    started: str | None  # Start of the last attempt, ISO 8601
    seconds: float | None  # Duration of the last attempt
    intervals: int | None  # Number of intervals in the trace
    error: str  # Why the run failed; empty otherwise
    # host_before, host_after: The host's state (`unperturbed.harness.host.state`) before and after the attempt.
    host_before: dict[str, Any] | None
    host_after: dict[str, Any] | None


@dataclass(frozen=True)
class Failure:
    """A failed attempt at a run."""

    run: str
    attempt: int
    started: str | None
    seconds: float | None
    error: str


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a campaign folder for this process; the kernel releases the lock however the process ends."""
    with (folder / "campaign.lock").open("a+") as file:
        for pause in (0.02, 0.1, 0.0):  # checking whether a campaign is locked takes the lock for some microseconds
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(pause)
        else:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise SpecError(
                f"{folder}: another process (pid {holder}) is working on this campaign; wait until that process ends, "
                "or choose another folder with --campaign"
            )
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


class Manifest:
    """The file `campaign.sqlite`; each change is one transaction, on disk when the method returns (except `finish`).

    `read_only`: Open the existing file and write nothing, not even a table that older versions lack.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path, self._closed = path, False
        place = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}"
        try:
            # An engine may make runs in a thread, one at a time; SQLite serialises access by itself.
            self._db = sqlite3.connect(place, isolation_level=None, check_same_thread=False, uri=True)
            try:
                if not read_only:
                    self._db.execute("PRAGMA synchronous = FULL")
                    self._db.executescript(_SCHEMA)
                columns = {row[1] for row in self._db.execute("PRAGMA table_info(runs)")}
            except BaseException:
                self._db.close()
                raise
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise SpecError(
                    f"{path.parent}: another process is writing to this campaign's manifest; try again later"
                ) from None
            if "disk" in str(error):
                raise HostError(
                    f"{path}: cannot open the campaign's manifest ({error}): is the disk full, or was the file-size "
                    "limit (ulimit -f) reached?"
                ) from None
            raise SpecError(f"{path}: cannot open the campaign's manifest ({error})") from None
        except sqlite3.DatabaseError as error:
            raise SpecError(
                f"{path} is not a campaign's manifest ({error}); choose another folder with --campaign"
            ) from None
        except UnicodeDecodeError:  # a name in a table is not UTF-8
            raise self._damaged("the tables cannot be read") from None
        self._missing = [name for name in _ADDED if name not in columns]

    def close(self) -> None:
        """Write a waiting change, and close the file."""
        try:
            self.settle()
        finally:
            self._db.close()
            self._closed = True

    def settle(self) -> None:
        """Write a waiting change to disk; a closed manifest has already written it."""
        if not self._closed and self._db.in_transaction:
            self._db.execute("COMMIT")

    def __enter__(self) -> Manifest:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fact(self, name: str) -> Any:
        """Return a fact about the campaign; None if not recorded."""
        rows = self._rows("SELECT CAST(value AS BLOB) FROM facts WHERE name = ?", (name,))
        place = f"in the table `facts`, the entry {name!r}"
        value = self._parsed(rows[0][0], place) if rows else None
        shape = _PILOT if name.startswith("pilot:") else _FACTS.get(name)
        if value is not None and shape is not None and (fault := misfit(value, shape, place)):
            raise self._damaged(fault)
        return value

    def required_fact(self, name: str) -> Any:
        """Return a fact that every campaign with a finished run has; raise SpecError if it is missing."""
        value = self.fact(name)
        if value is None:
            raise self._damaged(f"in the table `facts`, the entry {name!r} is missing")
        return value

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        try:
            return self._db.execute(statement, values).fetchall()
        except UnicodeDecodeError:  # a name in a table is not UTF-8, and SQLite's message would quote it
            raise self._damaged("the tables cannot be read") from None
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) and any(word in str(error) for word in _NO_DAMAGE):
                raise
            raise self._damaged(str(error)) from None

    def _parsed(self, text: bytes | str, what: str) -> Any:
        try:
            return json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise self._damaged(f"{what} is not JSON ({error})") from None

    def _damaged(self, fault: str) -> SpecError:
        runs = self.path.parent / "runs"
        return SpecError(
            f"{self.path}: the campaign's manifest is damaged: {fault}. The traces in {runs} are separate files: "
            f"`unperturbed import parquet {runs}/*/trace.parquet --as NAME -o FOLDER` makes a new campaign from the "
            "traces of one configuration"
        )

    def counts(self) -> Mapping[State, int]:
        """Return the number of runs in each state that has runs."""
        return dict(self._rows("SELECT state, count(*) FROM runs GROUP BY state"))

    def tally(self) -> list[tuple[str, State, int, float]]:
        """Return the number of runs and their total seconds, for each pass and state."""
        return self._rows("SELECT pass, state, count(*), total(seconds) FROM runs GROUP BY pass, state")

    def has_done(self) -> bool:
        """Return whether any run is done, or was submitted to nodes, which have their own manifests."""
        return bool(self._rows("SELECT 1 FROM runs WHERE state = 'done' LIMIT 1") or self.fact("submitted"))

    def set_facts(self, **facts: Any) -> None:
        """Record facts about the campaign in one transaction."""
        with self._transaction():
            for name, value in facts.items():
                self._change("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(value)))

    def clear(self) -> None:
        """Delete all facts, runs and failures, to restart the campaign."""
        with self._transaction():
            for table in ("failures", "totals", "runs", "facts"):
                if self._has(table):
                    self._change(f"DELETE FROM {table}")

    def plan(self, runs: Iterable[PlannedRun]) -> None:
        """Add runs to the plan; existing runs stay unchanged."""
        for name in self._missing:
            self._db.execute(f"ALTER TABLE runs ADD COLUMN {name} INTEGER NOT NULL DEFAULT 0")
        self._missing = []
        with self._transaction():
            self._db.executemany(
                "INSERT OR IGNORE INTO runs (id, configuration, pass, repetition, block, pad_bytes, layout, point, "
                "state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'planned')",
                (astuple(run) for run in runs),
            )

    def forget(self, configurations: Iterable[str]) -> None:
        """Remove these configurations' runs from the plan, except runs that were started."""
        with self._transaction():
            for name in configurations:
                self._change("DELETE FROM runs WHERE state = 'planned' AND attempt = 0 AND configuration = ?", (name,))

    def forget_runs(self, ids: Iterable[str]) -> None:
        """Remove these runs from the plan, except runs that were started."""
        with self._transaction():
            self._db.executemany(
                "DELETE FROM runs WHERE state = 'planned' AND attempt = 0 AND id = ?", ((run,) for run in ids)
            )

    def reopen(self) -> None:
        """Set interrupted and failed runs back to planned."""
        with self._transaction():
            self._change("UPDATE runs SET state = 'planned' WHERE state IN ('running', 'failed')")

    def redo(self, ids: Iterable[str]) -> None:
        """Set these finished runs back to planned, because their traces are lost."""
        with self._transaction():
            self._db.executemany("UPDATE runs SET state = 'planned' WHERE id = ?", ((run,) for run in ids))

    def start(self, run: PlannedRun, *, attempt: int, started: str, host: dict[str, Any]) -> None:
        """Record that a run has started."""
        with self._transaction():
            self._change(
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
        waits: bool = False,
    ) -> None:
        """Record that a run is done: its trace is on disk, or its `totals` are recorded here.

        With `waits`, the change goes to disk with the next change or `settle`, to wait for the disk only once between
        two runs. If the process is killed before that, the run is made again.
        """
        if totals is not None:
            self._db.execute(_TOTALS)
        with self._transaction(waits=waits):
            if totals is not None:
                self._change("INSERT OR REPLACE INTO totals VALUES (?, ?)", (run.id, json.dumps(totals)))
            self._change(
                "UPDATE runs SET state = 'done', seconds = ?, intervals = ?, host_after = ? WHERE id = ?",
                (seconds, intervals, json.dumps(host), run.id),
            )

    def fail(self, run: PlannedRun, *, seconds: float, error: str, host: dict[str, Any], final: bool) -> None:
        """Record a failed attempt; after a `final` attempt, the run is not repeated."""
        with self._transaction():
            self._change(
                "INSERT OR REPLACE INTO failures SELECT id, attempt, started, ?, ? FROM runs WHERE id = ?",
                (seconds, error, run.id),
            )
            self._change(
                "UPDATE runs SET state = ?, seconds = ?, error = ?, host_after = ? WHERE id = ?",
                ("failed" if final else "planned", seconds, error, json.dumps(host), run.id),
            )

    def runs(self, *states: State, hosts: bool = True) -> list[RunState]:
        """Return the runs in these states (default: all), in the order of the plan.

        `hosts`: Include the host's state before and after each run, which takes twice as long.
        """
        host = "host_before, host_after" if hosts else "NULL, NULL"
        chosen = f"WHERE CAST(state AS TEXT) IN ({', '.join('?' * len(states))})" if states else ""
        added = ", ".join("0" if name in self._missing else name for name in _ADDED)
        self._db.text_factory = bytes  # texts in a damaged file may not be UTF-8
        try:
            rows = self._rows(
                f"SELECT id, configuration, pass, repetition, block, pad_bytes, {added}, state, attempt, started,"
                f" seconds, intervals, error, {host} FROM runs {chosen} ORDER BY {_IN_ORDER.format('id')}",
                states,
            )
        finally:
            self._db.text_factory = str
        return [self._run_state(row) for row in rows]

    def _run_state(self, row: tuple[Any, ...]) -> RunState:
        """Return the run in a row of the table."""
        values: list[Any] = []
        for (name, shape), value in zip(_RUN, row, strict=False):
            read = value.decode(errors="replace") if isinstance(value, bytes) else value
            fine = type(read) is shape or (read is None and name in _NONE)
            fault = "" if fine else misfit(read, shape, f"`{name}` of a run")
            if not fault and name == "id" and not _ID.fullmatch(read):
                fault = f"a run has the invalid name {read!r}"
            if fault:
                raise self._damaged(fault)
            values.append(read)
        hosts = [None if text is None else self._parsed(text, f"the host of run {values[0]}") for text in row[14:]]
        for host in hosts:
            if host is not None and (fault := misfit(host, dict, f"the host of run {values[0]}")):
                raise self._damaged(fault)
        return RunState(PlannedRun(*values[:8]), *values[8:14], *hosts)

    def totals(self, *runs: str) -> dict[str, dict[str, Any]]:
        """Return the results of these finished runs of a sweep (default: all), by run."""
        if not self._has("totals"):
            return {}
        marks = f" WHERE run IN ({', '.join('?' * len(runs))})" if runs else ""
        return {
            run: self._parsed(text, f"the totals of run {run}")
            for run, text in self._rows(f"SELECT run, CAST(content AS BLOB) FROM totals{marks}", runs)
        }

    def failures(self) -> list[Failure]:
        """Return all failed attempts, in the order of runs and attempts."""
        return [
            Failure(*row)
            for row in self._rows(
                "SELECT run, attempt, started, seconds, error FROM failures "
                f"ORDER BY {_IN_ORDER.format('run')}, attempt"
            )
        ]

    def _has(self, table: str) -> bool:
        return bool(self._rows("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)))

    def _change(self, statement: str, values: Sequence[Any] = ()) -> None:
        """Execute one statement of a transaction; tests kill the process between two statements."""
        self._db.execute(statement, values)

    @contextmanager
    def _transaction(self, *, waits: bool = False) -> Iterator[None]:
        another_waits = self._db.in_transaction  # the waiting change stays, whether this transaction succeeds or fails
        self._db.execute("SAVEPOINT change" if another_waits else "BEGIN")
        try:
            yield
        except BaseException:
            # After a write error, SQLite has already rolled back; a second rollback would hide the reason.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK TO change" if another_waits else "ROLLBACK")
            raise
        if not waits:
            self._db.execute("COMMIT")


def now() -> str:
    """Return the current UTC time as ISO 8601, in seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")
