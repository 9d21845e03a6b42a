"""The log in PostgreSQL, over psycopg 3: many hosts, the same semantics.

An append is one round trip: one autocommit call of a function over arrays.  It takes the log's lock (an advisory lock)
as its last step before the insert, so that positions follow the order of commits, without gaps, on a standby too.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final
from uuid import UUID

import psycopg
import sqlalchemy as sa
from psycopg import errors as pg

from ..domain.errors import UnknownOutcomeError, UnsafeStoreError
from . import postgres_arrays as arrays
from . import postgres_functions as functions
from .append import Append, EventRow
from .failpoint import failpoint
from .postgres_append import APPEND, arguments
from .postgres_claim import UNBLOCK, PostgresClaims
from .postgres_errors import translated, unwrapped
from .postgres_setup import make_engine
from .sql_atomic import SqlAtomic
from .sql_connections import Pinned
from .sql_store import SqlStore
from .store import JobRow, LeaseRow, Seen, SnapshotRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..domain.lease import Token
    from .statements import Compiled
    from .store import ClaimQuery

#: How a transaction begins, by whether it is durable.
_COMMITS: Final = {
    on: f"SELECT set_config('synchronous_commit', '{'on' if on else 'off'}', true)" for on in (True, False)
}
#: One plan for each of our statements, whatever the statistics: the one that goes by an index.
_ONE_PLAN: Final = (
    "".join(
        f", set_config('{name}', 'off', true)"
        for name in (*functions.SWITCHED_OFF, "enable_sort", "enable_incremental_sort")
    )
    + ", set_config('plan_cache_mode', 'force_generic_plan', true)"
)


class PostgresStore(SqlStore):
    """See ``Store``."""

    mark = "%s"
    in_bulk: ClassVar[dict[str, Any]] = {
        "binary": True
    }  # as text, bodies take twice the bytes and ids are parsed: half the time
    unblock = UNBLOCK

    def __init__(self, url: str | sa.URL, *, lease_seconds: float = 30, pooler_safe: bool = False) -> None:
        super().__init__(make_engine(url, lease_seconds=lease_seconds, pooler_safe=pooler_safe))
        self.pooler_safe = pooler_safe
        self._prepare = None if pooler_safe else True
        self._append_pin = self.pin()
        self._claims = PostgresClaims(prepare=self._prepare)

    def check_safe(self) -> None:
        """Refuse a server that can lose what it acknowledged; a reader may have any."""
        if self.read_only:
            return
        for name in ("fsync", "full_page_writes"):
            if (value := self.sql_rows(f"SHOW {name}")[0][0]) != "on":
                raise UnsafeStoreError(f"the server runs with {name}={value}; switch it on, or use another server")
        if self.sql_rows("SELECT pg_is_in_recovery()")[0][0]:
            raise UnsafeStoreError("this server is a standby: decisions are never made on a replica; give the primary")

    def now(self) -> int:
        """The server's clock, microseconds."""
        return int(self.sql_rows("SELECT joblog_now()")[0][0])

    def lease_now(self) -> int:
        """The same clock: it is shared by all hosts and outlives their boots."""
        return self.now()

    def translate(self, error: BaseException, *, committing: bool = False) -> BaseException:
        """SQLSTATEs as ours."""
        if isinstance(unwrapped(error), pg.ReadOnlySqlTransaction):
            self._distrust()
        return translated(error, committing=committing)

    def _distrust(self) -> None:
        """The server was demoted behind open connections: each is replaced when its thread begins something new."""
        with self._guard:
            for pinned in self._pinned:
                pinned.is_stale = True
        self.engine.dispose()

    # -- append ------------------------------------------------------------------------------------------------------

    def turn(self, *, blocking: bool) -> bool:
        """Nothing to wait for: the log's lock is taken inside the append."""
        del blocking
        return True

    def end_turn(self) -> None:
        """Nothing to give back."""

    def append(self, batch: Sequence[Append], generation: int, seen: Seen, *, side: bool = False) -> int:
        """See ``Store``."""
        self.check_writable()
        failpoint("append.begin")
        packed = arguments(batch, generation, seen, wait=side)
        pinned = self._own("side") if side else self._append_pin
        try:
            cursor = pinned.open()
        except Exception as error:
            pinned.drop()
            raise self.translate(error) from error
        try:
            failpoint("append.before_commit")
            cursor.execute(APPEND[generation % 2], packed, prepare=self._prepare)
            failpoint("append.after_commit")
            first = int(cursor.fetchone()[0][0])
        except BaseException as error:
            mine = self.translate(error, committing=True)
            if not isinstance(error, psycopg.Error) or pinned.driver.broken or isinstance(mine, UnknownOutcomeError):
                pinned.drop()
            if mine is error:
                raise
            raise mine from error
        failpoint("append.acknowledged")
        return first

    @contextmanager
    def atomic(self) -> Iterator[SqlAtomic]:
        """See ``Store``."""
        connection: sa.Connection | None = None
        try:
            with self.writing("atomic") as cursor:
                connection = self._own("atomic").connection
                yield SqlAtomic(self, connection, cursor)
        finally:
            if connection is not None and not connection.closed and connection.in_transaction():
                connection.rollback()  # ends SQLAlchemy's nominal transaction; ours has ended

    def append_in(self, cursor: Any, append: Append, generation: int, seen: Seen) -> int:
        """One append inside an open transaction, whose deferred constraints are checked before it takes the log's lock."""
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        return self._append(cursor, [append], generation, seen, wait=True)

    def _append(self, cursor: Any, batch: Sequence[Append], generation: int, seen: Seen, *, wait: bool) -> int:
        """Write *batch* in an open transaction; *wait* for row locks that others hold."""
        packed = arguments(batch, generation, seen, wait=wait)
        return int(cursor.execute(APPEND[generation % 2], packed, prepare=self._prepare).fetchone()[0][0])

    # -- transactions of more than one round trip --------------------------------------------------------------------

    @contextmanager
    def writing(self, name: str, *, durable: bool = True) -> Iterator[Any]:
        """A transaction on this thread's connection for *name*."""
        self.check_writable()
        pinned = self._own(name)
        committing = False
        try:
            cursor = pinned.open()
            is_ours = name != "atomic"  # the user's own SQL is planned as they want
            cursor.execute(f"BEGIN; {_COMMITS[durable]}{_ONE_PLAN * is_ours}", prepare=False)
            yield cursor
            committing = True
            cursor.execute("COMMIT")
        except BaseException as error:
            mine = self.translate(error, committing=committing)
            self._roll_back(pinned)
            if mine is error:
                raise
            raise mine from error

    def lock_log(self, cursor: Any) -> None:
        """The log's lock, until the transaction ends."""
        cursor.execute(f"SELECT {functions.LOCK}")

    def clear_jobs(self, cursor: Any, parity: int, delete: Compiled) -> None:
        """TRUNCATE: nobody has read the generation that is not live for a long time, unless by a backup.

        That one is not waited for: whoever appends waits for the log's lock, which we hold.
        """
        del delete
        cursor.execute("SELECT set_config('lock_timeout', '500', true)")
        cursor.execute(f"TRUNCATE jobs_{parity}")
        cursor.execute("SELECT set_config('lock_timeout', '0', true)")

    @staticmethod
    def _roll_back(pinned: Pinned) -> None:
        if pinned.cursor is None:
            return
        try:
            pinned.driver.rollback()
        except psycopg.Error:
            pinned.drop()
        else:
            if pinned.driver.broken:
                pinned.drop()

    # -- claim and lease ---------------------------------------------------------------------------------------------

    def append_claimed(self, cursor: Any, batch: Sequence[Append], generation: int, seen: Seen) -> int:
        """See ``SqlStore``."""
        return self._append(cursor, batch, generation, seen, wait=False)

    def pick(self, cursor: Any, query: ClaimQuery, parity: int) -> tuple[list[JobRow], int]:
        """See ``SqlStore``."""
        return self._claims.pick(cursor, query, parity)

    def hold_row(self, cursor: Any, job_id: UUID, generation: int) -> None:
        """Lock the job's row; whoever appends meanwhile waits for it in its side lane."""
        cursor.execute(f"SELECT 1 FROM jobs_{generation % 2} WHERE id = %s FOR UPDATE", (job_id,))

    def renew(self, held: Sequence[tuple[UUID, Token]], micros: int) -> set[UUID]:
        """See ``Store``."""
        if not held:
            return set()
        failpoint("renew.before")
        sql = (
            "UPDATE leases l SET lease_until = greatest(l.lease_until, joblog_now() + %s) "
            "FROM unnest(%s::uuid[], %s::bigint[], %s::bigint[]) h(job_id, epoch, token) "
            "WHERE l.job_id = h.job_id AND l.epoch = h.epoch AND l.token = h.token AND l.lease_until > joblog_now() "
            "RETURNING l.job_id"
        )
        jobs, tokens = [job for job, _ in held], [token for _, token in held]
        arguments = (micros, jobs, [token.epoch for token in tokens], [token.grant for token in tokens])
        with self.writing("renew") as cursor:
            found = cursor.execute(sql, arguments).fetchall()
        failpoint("renew.after")
        return {job for (job,) in found}

    def expired(self, limit: int) -> list[LeaseRow]:
        """See ``Store``."""
        sql = (
            "SELECT job_id, epoch, token, worker, lease_until, boot_id, presence FROM leases "
            "WHERE lease_until <= joblog_now() ORDER BY lease_until LIMIT %s"
        )
        return [self._lease_row(row) for row in self.sql_rows(sql, (limit,))]

    def promote(self, limit: int) -> tuple[int, int | None]:
        """See ``Store``."""
        parity = self.state().generation % 2
        woken = self.wake_blocked(parity)
        due = f"FROM jobs_{parity} WHERE ready = 0 AND blocked = 0 AND status IN ('queued', 'waiting')"
        next_due = f"SELECT * FROM joblog_due_{parity}()"
        waiting, now = self.sql_rows(next_due)[0]
        if waiting is None or waiting > now:
            return woken, waiting
        with self.writing("claim") as cursor:
            cursor.execute(
                f"UPDATE jobs_{parity} SET ready = 1 WHERE id = ANY(ARRAY("
                f"SELECT id {due} AND due_at <= %s ORDER BY due_at, id LIMIT %s FOR UPDATE SKIP LOCKED))",
                (now, limit),
            )
            promoted = int(cursor.rowcount)
            rest = cursor.execute(next_due).fetchone()[0]
            failpoint("promote.before_commit")
        failpoint("promote.after_commit")
        return woken + promoted, rest

    def _look(self, parity: int, queues: Sequence[str], presence: str) -> tuple[Any, ...]:
        found: tuple[Any, ...] = self.sql_rows(
            f"SELECT * FROM joblog_outlook_{parity}(%s, %s)", (list(queues), presence)
        )[0]
        return found

    def free_keys(self, parity: int) -> list[str]:
        """See ``SqlStore``."""
        return [key for (key,) in self.sql_rows(f"SELECT * FROM joblog_free_keys_{parity}()")]

    # -- reading that is written for this database -------------------------------------------------------------------

    def jobs(self, job_ids: Sequence[UUID]) -> dict[UUID, JobRow]:
        """The rows of many jobs."""
        return {row["id"]: row for row in self.live_rows("id = ANY(%s)", (list(job_ids),))}

    def read_many(self, stream_ids: Sequence[UUID]) -> dict[UUID, tuple[SnapshotRow | None, list[EventRow]]]:
        """Snapshot and tail of many streams, in one query."""
        ids = list(dict.fromkeys(stream_ids))
        found: list[tuple[SnapshotRow | None, list[EventRow]]] = [(None, []) for _ in ids]
        sql = "SELECT * FROM joblog_streams(%b)"
        for number, kind, *row in self.sql_rows(sql, (arrays.uuids([each.bytes for each in ids]),)):
            if kind == 0:
                found[number - 1] = SnapshotRow(*row), []
            else:
                found[number - 1][1].append(EventRow(*row))
        return {
            stream: (kept, self.bodies.of_stream(stream, tail))
            for stream, (kept, tail) in zip(ids, found, strict=True)
            if kept is not None or tail
        }
