"""The three kinds of store behind one handle: what a test does to a store from outside, it does through here."""

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from uuid import UUID

import psycopg
from sqlalchemy.engine import make_url

from joblog.domain.errors import UnknownOutcomeError
from joblog.eventstore.append import Append
from joblog.eventstore.busy import BusyRetry
from joblog.eventstore.clock import SystemRandom
from joblog.eventstore.memory_append import write
from joblog.eventstore.memory_store import MemoryStore
from joblog.workers.commands.log import JobLog
from tests.clocks import DatabaseClock, MovedClock, connect


class Backend(ABC):
    """A place for one log, its clock, and what a stranger may do to it."""

    kind: str

    def __init__(self, url: str, clock: MovedClock) -> None:
        self.url, self.clock = url, clock
        self.waits: list[float] = []  # what the busy retry would have waited
        self._logs: list[JobLog] = []

    def open(self, **ports: Any) -> JobLog:
        """Open the log, as one more process would."""
        return self._kept(JobLog.open(self.url, **self._ports(ports)))

    def _ports(self, given: dict[str, Any]) -> dict[str, Any]:
        busy = BusyRetry(self.clock, SystemRandom(), wait=self.waits.append)
        return {"clock": self.clock, "busy": busy} | given

    def _kept(self, log: JobLog) -> JobLog:
        self._logs.append(log)
        return log

    def reopen(self, log: JobLog) -> JobLog:
        """End the process that has *log*, and open it in another."""
        log.close()
        return self.open()

    def close(self) -> None:
        for log in self._logs:
            log.close()

    @abstractmethod
    def lost(self) -> BaseException:
        """What the store meets when the connection is gone and the answer with it."""

    @abstractmethod
    def spoil(self, job_id: UUID, **columns: Any) -> None:
        """Make the job's row say something else than the log."""

    @abstractmethod
    def switch_generation(self) -> None:
        """Switch to the other job table, as a rebuild does at its end."""

    @abstractmethod
    def slip_in(self, append: Append) -> None:
        """Write the events of *append* behind the back of the log."""

    @abstractmethod
    def count(self, table: str) -> int:
        """How many rows *table* has."""


class MemoryBackend(Backend):
    kind = "memory"

    def __init__(self, url: str, clock: MovedClock) -> None:
        super().__init__(url, clock)
        self.store = MemoryStore(clock=clock)

    def open(self, **ports: Any) -> JobLog:
        return self._kept(JobLog(self.store, **self._ports(ports)))

    def reopen(self, log: JobLog) -> JobLog:
        log.close()
        self.store.reopen()
        return self.open()

    def lost(self) -> BaseException:
        return UnknownOutcomeError("the connection is gone")

    def _table(self) -> dict[UUID, dict[str, Any]]:
        return self.store.tables.table

    def spoil(self, job_id: UUID, **columns: Any) -> None:
        self._table()[job_id] |= columns

    def switch_generation(self) -> None:
        old = self._table()
        self.store.tables.generation += 1
        self._table().update({job_id: dict(row) for job_id, row in old.items()})

    def slip_in(self, append: Append) -> None:
        write(self.store.tables, Append(append.stream_id, append.expected, append.events, append.event_id))

    def count(self, table: str) -> int:
        tables = self.store.tables
        sizes = {"events": len(tables.log), "leases": len(tables.leases), "unit_results": len(tables.units)}
        return sizes[table]


class SqlBackend(Backend, ABC):
    @abstractmethod
    def run(self, sql: str, *values: Any) -> list[Any]:
        """Run *sql* on a connection of a stranger; ``?`` stands for a value."""

    def to_id(self, job_id: UUID) -> Any:
        return job_id

    def _jobs(self) -> int:
        generation: int = self.run("SELECT generation FROM log_state")[0][0]
        return generation % 2

    def spoil(self, job_id: UUID, **columns: Any) -> None:
        changes = ", ".join(f"{name} = ?" for name in columns)
        self.run(f"UPDATE jobs_{self._jobs()} SET {changes} WHERE id = ?", *columns.values(), self.to_id(job_id))

    def switch_generation(self) -> None:
        old = self._jobs()
        self.run(f"DELETE FROM jobs_{1 - old}")
        self.run(f"INSERT INTO jobs_{1 - old} SELECT * FROM jobs_{old}")
        self.run("UPDATE log_state SET generation = generation + 1")

    def slip_in(self, append: Append) -> None:
        insert = "INSERT INTO events SELECT max(position) + 1, ?, ?, ?, ? FROM events"
        for version, topic, state in append.events:
            self.run(insert, self.to_id(append.stream_id), version, topic, state)

    def count(self, table: str) -> int:
        rows: int = self.run(f"SELECT count(*) FROM {table}")[0][0]
        return rows


class SqliteBackend(SqlBackend):
    kind = "sqlite"

    @property
    def path(self) -> str:
        return str(make_url(self.url).database)

    def run(self, sql: str, *values: Any) -> list[Any]:
        with self.connection() as connection:
            return connection.execute(sql, values).fetchall()

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """Give a connection with SQLite's own defaults."""
        connection = sqlite3.connect(self.path, isolation_level=None)
        try:
            yield connection
        finally:
            connection.close()

    def to_id(self, job_id: UUID) -> Any:
        return job_id.bytes

    def lost(self) -> BaseException:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        return error


class PostgresBackend(SqlBackend):
    kind = "postgres"

    def __init__(self, url: str, clock: DatabaseClock) -> None:
        super().__init__(url, clock)

    def run(self, sql: str, *values: Any) -> list[Any]:
        with self.connection() as connection:
            found = connection.execute(sql.replace("?", "%s").encode(), values)
            return found.fetchall() if found.description else []

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection]:
        connection = connect(self.url)
        try:
            yield connection
        finally:
            with suppress(psycopg.Error):
                connection.close()

    def lost(self) -> BaseException:
        return psycopg.OperationalError("server closed the connection unexpectedly")
