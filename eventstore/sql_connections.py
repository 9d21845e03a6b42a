"""The connections of one log in a database: each thread has its own, and ``close`` ends them all."""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ..domain.errors import JobLogError, StoreClosedError, StoreError, StoreForkedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .statements import Compiled


class Pinned:
    """One driver connection of the engine, kept open; reopened after it broke.

    *setting* is SQL that each new connection runs first.
    """

    def __init__(self, engine: sa.Engine, *, setting: str = "") -> None:
        self._engine, self._setting = engine, setting
        self._connection: sa.Connection | None = None
        self.cursor: Any = None
        self.is_stale = False  #: another connection has learnt that the server is not what it was
        #: Held by the thread that uses it: a driver may not survive that a connection is closed under a running statement.
        self.guard = threading.RLock()

    def open(self) -> Any:
        """The driver's cursor; asked for at the beginning of a transaction."""
        if self.is_stale:
            self.drop()
        if self.cursor is None:
            self._connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            driver = self._connection.connection.driver_connection
            assert driver is not None  # noqa: S101 - a pooled connection always has one
            self.driver: Any = driver
            cursor = driver.cursor()
            if self._setting:
                cursor.execute(self._setting)
            self.cursor = cursor
        return self.cursor

    @property
    def is_open(self) -> bool:
        """Whether there is a connection."""
        return self._connection is not None and not self._connection.closed

    @property
    def connection(self) -> sa.Connection:
        """The SQLAlchemy connection around the driver's: in AUTOCOMMIT mode, the transaction is ours."""
        if self.cursor is None:
            self.open()
        assert self._connection is not None  # noqa: S101 - opened above
        return self._connection

    def drop(self) -> None:
        """Forget a connection that may be broken."""
        connection, self._connection, self.cursor = self._connection, None, None  # the log may be closed meanwhile
        self.is_stale = False
        if connection is not None:
            connection.invalidate()
            connection.close()

    def close(self) -> None:
        """Give the connection back for good."""
        connection, self._connection, self.cursor = self._connection, None, None
        if connection is not None:
            connection.close()


class _OfThread:
    """The connections of one thread; they are closed when it ends."""

    def __init__(self, store: SqlConnections) -> None:
        self._store = weakref.ref(store)
        self.pinned: dict[str, Pinned] = {}

    def __del__(self) -> None:
        """Give them back: threads come and go, a server's connections are few."""
        store = self._store()
        if store is not None and not store.is_foreign:
            for pinned in self.pinned.values():
                store.unpin(pinned)


class SqlConnections(ABC):
    """Who may use the log's database, over which connection; and reading, which a broken one does not fail."""

    read_only = False  #: opened by a follower, which never decides anything: it may read from a replica

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine
        self.dialect: str = engine.dialect.name
        self._local = threading.local()
        self._pinned: list[Pinned] = []
        self._guard = threading.Lock()
        self._pid = os.getpid()
        self._closed = False

    def check_usable(self) -> None:
        """Refuse use after ``close`` or across ``fork``: a carried connection corrupts files and protocols."""
        if self._closed:
            raise StoreClosedError("this log was closed; open it again")
        if self.is_foreign:
            raise StoreForkedError("this log was opened before fork(); open it in the child")

    def check_writable(self) -> None:
        """As ``check_usable``, and refuse to write through a store that was opened for reading."""
        self.check_usable()
        if self.read_only:
            raise StoreError("this log was opened with read_only: it follows and never writes; open it without")

    @property
    def is_foreign(self) -> bool:
        """Whether this is a forked child: nothing in here is its own."""
        return os.getpid() != self._pid

    def pin(self) -> Pinned:
        """A connection that ``close`` will close."""
        pinned = Pinned(self.engine)
        with self._guard:
            self.check_usable()
            self._pinned.append(pinned)
        return pinned

    def unpin(self, pinned: Pinned) -> None:
        """Close a connection before ``close`` does."""
        with pinned.guard:
            pinned.close()
        with self._guard, suppress(ValueError):  # closed with all others
            self._pinned.remove(pinned)

    def _own(self, lane: str) -> Pinned:
        """This thread's connection for *lane*."""
        self.check_usable()
        mine: _OfThread | None = getattr(self._local, "mine", None)
        if mine is None:
            mine = self._local.mine = _OfThread(self)
        if lane not in mine.pinned:
            mine.pinned[lane] = self.pin()
        return mine.pinned[lane]

    def release_thread(self) -> None:
        """Give back what the calling thread holds, before it ends."""
        self._local.__dict__.pop("mine", None)

    def close(self) -> None:
        """Give every connection back."""
        if self._closed:
            return
        self._closed = True
        if self.is_foreign:
            return  # they are the parent's: closing them here would end its sessions and drop its locks
        with self._guard:
            pinned, self._pinned = self._pinned, []
        self.close_all(pinned)
        self.engine.dispose()

    def close_all(self, pinned: Sequence[Pinned]) -> None:
        """Close the connections of all threads; one that is at work gets the driver's error."""
        for one in pinned:
            one.close()

    @abstractmethod
    def translate(self, error: BaseException, *, committing: bool = False) -> BaseException:
        """The driver's *error* as one of ours."""

    def rows(self, compiled: Compiled, params: dict[str, Any], **how: Any) -> list[Any]:
        """Run a reading statement on this thread's connection."""
        return self.sql_rows(compiled.sql, compiled.bind(params), **how)

    def sql_rows(self, sql: str, params: Any = (), **how: Any) -> list[Any]:
        """Run reading SQL on this thread's connection, *how* the driver knows; a broken one is reopened once."""
        pinned = self._own("reader")
        with pinned.guard:
            for last_try in (False, True):
                self.check_usable()
                try:
                    found: list[Any] = pinned.open().execute(sql, params, **how).fetchall()
                except Exception as error:
                    mine = self.translate(error)
                    if isinstance(mine, JobLogError) or last_try:
                        pinned.drop()
                    if last_try or not isinstance(mine, JobLogError):
                        raise mine from error
                else:
                    return found
        raise AssertionError  # pragma: no cover - the loop returns or raises

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """This thread's reading connection, for statements of SQLAlchemy; not to be kept."""
        pinned = self._own("reader")
        with pinned.guard:
            self.check_usable()
            try:
                yield pinned.connection
            except Exception as error:
                mine = self.translate(error)
                if mine is error:
                    raise
                if isinstance(mine, JobLogError):
                    pinned.drop()
                raise mine from error
