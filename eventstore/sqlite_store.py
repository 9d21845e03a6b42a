"""The log in one SQLite file: the embedded default, for one machine and several processes.

Every write transaction takes the writer lock (``flock`` on ``<file>.writer``) before ``BEGIN IMMEDIATE``: SQLite's own
busy handler polls and is unfair.  Checkpoints run only under that lock, PASSIVE on a second connection while the first
holds the write lock: SQLite 3.7.0 to 3.51.2 can lose commits when one connection writes while another resets the WAL.
"""

from __future__ import annotations

import logging
import sqlite3
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from ..domain.errors import StoreBusyError, StoreError, UnknownOutcomeError
from .append import Append, EventRow
from .clock import SystemClock, micros
from .failpoint import failpoint
from .sql_atomic import SqlAtomic
from .sql_connections import Pinned
from .sql_store import SqlStore
from .sqlite_append import SqliteAppends
from .sqlite_checkpoint import Checkpoints
from .sqlite_claim import FREE_KEYS, UNBLOCK, SqliteClaims
from .sqlite_errors import translated
from .sqlite_lanes import Lane, WriterLock
from .sqlite_setup import make_engine
from .statements import chunks, placeholders
from .store import JobRow, LeaseRow, Seen, SnapshotRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..domain.lease import Token
    from ..domain.ports import Clock
    from .store import ClaimQuery

logger = logging.getLogger(__name__)

#: A page of the log names few streams many times; the same object again also compares faster.
_uuid: Final = lru_cache(maxsize=10_000)(lambda value: UUID(bytes=value))

_CLOSE_SECONDS: Final = 30.0  # for a statement under way to end
#: The lane whose commits wait for no disk: a connection of its own, so that no event is ever written with less than FULL.
_RELAXED: Final = "relaxed"


class SqliteStore(SqlStore):
    """See ``Store``."""

    mark = "?"
    unblock = UNBLOCK

    def __init__(self, path: str | Path, *, clock: Clock | None = None) -> None:
        self.path = Path(path).absolute()
        super().__init__(make_engine(self.path))
        self.clock: Clock = clock or SystemClock()
        self._lock_path = self.path.with_name(self.path.name + ".writer")
        self._lanes: dict[str, Lane] = {}
        self.checkpoints = Checkpoints(self.path, self.pin())
        self._claims = SqliteClaims()
        self._appends = SqliteAppends(self)

    # -- life --------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Give every connection and descriptor back."""
        if self._closed:
            return
        super().close()
        for lane in self._lanes.values():  # in a forked child they are closed already
            lane.lock.close()
        self._lanes.clear()

    def close_all(self, pinned: Sequence[Pinned]) -> None:
        """Interrupt what reads, wait for what writes: sqlite3 may crash where a connection is closed under a statement."""
        lanes = list(self._lanes.values())
        guards = [lane.guard for lane in lanes] + [one.guard for one in pinned]
        written = {id(lane.pinned) for lane in lanes} | {id(self.checkpoints.pinned)}
        for one in pinned:
            if id(one) not in written and one.cursor is not None:
                with suppress(sqlite3.ProgrammingError):  # its thread has just ended and closed it
                    one.driver.interrupt()
        with ExitStack() as held:
            for guard in guards:
                if not guard.acquire(timeout=_CLOSE_SECONDS):
                    logger.warning(
                        "%s: closed while another thread was still at work; its connection ends with it", self.path
                    )
                    return
                held.callback(guard.release)
            super().close_all(pinned)

    def now(self) -> int:
        """Wall clock, microseconds."""
        return micros(self.clock.now())

    def lease_now(self) -> int:
        """CLOCK_BOOTTIME, microseconds: a stepped wall clock can't matter."""
        return round(self.clock.boottime() * 1_000_000)

    def boot_id(self) -> str:
        """The kernel's name of this boot."""
        return self.clock.boot_id()

    def to_id(self, value: UUID) -> Any:
        """16 bytes."""
        return value.bytes

    def from_id(self, value: Any) -> UUID:
        """And back."""
        return _uuid(value)

    def translate(self, error: BaseException, *, committing: bool = False) -> BaseException:
        """sqlite3's result codes as ours."""
        return translated(error, self.path, committing=committing)

    # -- write transactions ------------------------------------------------------------------------------------------

    def lane(self, name: str) -> Lane:
        """The writing connection *name* with its descriptor of the writer lock."""
        self.check_writable()
        lane = self._lanes.get(name)
        if lane is None:
            with self._guard:
                lane = self._lanes.get(name)
                if lane is None:
                    self.check_usable()  # it may have been closed meanwhile
                    setting = "PRAGMA synchronous=NORMAL" if name == _RELAXED else ""
                    lane = self._lanes[name] = Lane(Pinned(self.engine, setting=setting), WriterLock(self._lock_path))
                    self._pinned.append(lane.pinned)
        return lane

    def turn(self, *, blocking: bool) -> bool:
        """The writer lock, for the append lane."""
        return self.lane("append").lock.acquire(blocking=blocking)

    def end_turn(self) -> None:
        """Checkpoint if the WAL has grown, then let others write."""
        lane = self.lane("append")
        try:
            self.checkpoints.run_if_long(lane)
        finally:
            lane.lock.release()

    @contextmanager
    def _write(self, lane: Lane) -> Iterator[Any]:
        """BEGIN IMMEDIATE … COMMIT on *lane*, whose lock the caller holds."""
        committing = False
        try:
            cursor = lane.pinned.open()
            cursor.execute("BEGIN IMMEDIATE")
            failpoint("append.begin")
            yield cursor
            committing = True
            failpoint("append.before_commit")
            cursor.execute("COMMIT")
            failpoint("append.after_commit")
            done = self.checkpoints
            done.commits += 1
            done.pages += 3 + lane.changes()
        except BaseException as error:
            lane.roll_back()
            mine = self.translate(error, committing=committing)
            if isinstance(mine, StoreError | UnknownOutcomeError) and not isinstance(mine, StoreBusyError):
                lane.pinned.drop()
            if mine is error:
                raise
            raise mine from error

    @contextmanager
    def writing(self, name: str, *, durable: bool = True) -> Iterator[Any]:
        """A write transaction on the lane *name*, with the writer lock."""
        lane = self.lane(name if durable else _RELAXED)
        with lane.guard:
            lane.lock.acquire()
            try:
                with self._write(lane) as cursor:
                    yield cursor
                if name != "renew":  # which nothing may delay
                    self.checkpoints.run_if_long(lane)
            finally:
                lane.lock.release()

    def checkpoint(self) -> None:
        """Write the WAL back into the file, as far as readers allow."""
        lane = self.lane("checkpoint")  # not that of the appends: one may be under way
        with lane.guard:
            lane.lock.acquire()
            try:
                self.checkpoints.run(lane)
            finally:
                lane.lock.release()

    # -- append ------------------------------------------------------------------------------------------------------

    def append(self, batch: Sequence[Append], generation: int, seen: Seen, *, side: bool = False) -> int:
        """See ``Store``; there are no row locks here, so *side* is the same."""
        del side
        lane = self.lane("append")
        with lane.guard, self._write(lane) as cursor:
            first = self._appends.write(cursor, batch, generation, seen)
        failpoint("append.acknowledged")
        return first

    @contextmanager
    def atomic(self) -> Iterator[SqlAtomic]:
        """See ``Store``.  The write lock is held from the start, so nobody can change the job meanwhile."""
        lane = self.lane("atomic")
        with lane.guard:  # until SQLAlchemy's own is over too: the next thread's transaction is on the same connection
            try:
                with self.writing("atomic") as cursor:
                    yield SqlAtomic(self, lane.pinned.connection, cursor)
            finally:
                if lane.pinned.is_open and lane.pinned.connection.in_transaction():
                    lane.pinned.connection.rollback()  # ends SQLAlchemy's nominal transaction; ours has ended

    def append_in(self, cursor: Any, append: Append, generation: int, seen: Seen) -> int:
        """One append inside an open write transaction."""
        return self._appends.write(cursor, [append], generation, seen)

    # -- claim and lease ---------------------------------------------------------------------------------------------

    def pick(self, cursor: Any, query: ClaimQuery, parity: int) -> tuple[list[JobRow], int]:
        """See ``SqlStore``."""
        now = self.now()
        rows = self._claims.pick(cursor, query, now, parity)
        for row in rows:
            row["id"] = UUID(bytes=row["id"])
        return rows, now

    def append_claimed(self, cursor: Any, batch: Sequence[Append], generation: int, seen: Seen) -> int:
        """See ``SqlStore``."""
        return self._appends.write(cursor, batch, generation, seen)

    def hold_row(self, cursor: Any, job_id: UUID, generation: int) -> None:
        """Nothing more: the write lock is held."""

    def renew(self, held: Sequence[tuple[UUID, Token]], micros: int) -> set[UUID]:
        """See ``Store``."""
        if not held:
            return set()
        failpoint("renew.before")
        renewed: set[UUID] = set()
        with self.writing("renew") as cursor:
            now, boot = self.lease_now(), self.boot_id()
            for some in chunks(held, 200):
                values = ", ".join(["(?, ?, ?)"] * len(some))
                sql = (
                    f"UPDATE leases SET lease_until = max(lease_until, ?) WHERE (job_id, epoch, token) IN (VALUES {values}) "
                    "AND lease_until > ? AND boot_id = ? RETURNING job_id"
                )
                flat = [value for job, token in some for value in (job.bytes, *token)]
                for (job,) in cursor.execute(sql, (now + micros, *flat, now, boot)).fetchall():
                    renewed.add(UUID(bytes=job))
        failpoint("renew.after")
        return renewed

    def expired(self, limit: int) -> list[LeaseRow]:
        """See ``Store``."""
        sql = (
            "SELECT job_id, epoch, token, worker, lease_until, boot_id, presence FROM leases "
            "WHERE lease_until <= ? OR boot_id <> ? ORDER BY lease_until LIMIT ?"
        )
        return [self._lease_row(row) for row in self.sql_rows(sql, (self.lease_now(), self.boot_id(), limit))]

    def lock_log(self, cursor: Any) -> None:
        """The write transaction keeps them out already."""
        del cursor

    def _look(self, parity: int, queues: Sequence[str], presence: str) -> tuple[Any, ...]:
        jobs = f"FROM jobs_{parity} INDEXED BY jobs_{parity}"  # each index is named: one plan, whatever the statistics
        ready = " OR ".join(f"EXISTS (SELECT 1 {jobs}_claim WHERE ready = 1 AND queue = ?)" for _ in queues)
        waiting = f"{jobs}_due WHERE ready = 0 AND blocked = 0 AND status IN ('queued', 'waiting')"
        suspects = f"{jobs}_suspects WHERE ready = 1 AND crashes > 0 AND queue = ?"
        most = ", ".join(f"coalesce((SELECT crashes {suspects} ORDER BY crashes DESC LIMIT 1), 0)" for _ in queues)
        sql = (
            f"SELECT ({ready or 0}), (SELECT due_at {waiting} ORDER BY due_at LIMIT 1), "
            "(SELECT min(lease_until) FROM leases), (SELECT count(*) FROM leases WHERE presence <> '' AND presence <> ?), "
            "(SELECT generation FROM log_state WHERE id = 1), NULL, EXISTS (SELECT 1 FROM outbox), "
            f"EXISTS ({FREE_KEYS.format(p=parity)}), EXISTS (SELECT 1 FROM leases WHERE boot_id <> ?), max(0, {most or 0})"
        )
        found: tuple[Any, ...] = self.sql_rows(sql, (*queues, presence, self.boot_id(), *queues))[0]
        return found

    def free_keys(self, parity: int) -> list[str]:
        """See ``SqlStore``."""
        return [key for (key,) in self.sql_rows(FREE_KEYS.format(p=parity))]

    def promote(self, limit: int) -> tuple[int, int | None]:
        """See ``Store``."""
        parity = self.state().generation % 2
        woken = self.wake_blocked(parity)
        due = f"FROM jobs_{parity} INDEXED BY jobs_{parity}_due WHERE ready = 0 AND blocked = 0 AND status IN ('queued', 'waiting')"
        waiting = self.sql_rows(f"SELECT due_at {due} ORDER BY due_at LIMIT 1")
        now = self.now()
        if not waiting or waiting[0][0] > now:
            return woken, (waiting[0][0] if waiting else None)
        with self.writing("claim") as cursor:
            cursor.execute(
                f"UPDATE jobs_{parity} SET ready = 1 WHERE id IN (SELECT id {due} AND due_at <= ? ORDER BY due_at, id LIMIT ?)",
                (now, limit),
            )
            promoted = int(cursor.rowcount)
            rest = cursor.execute(f"SELECT due_at {due} ORDER BY due_at LIMIT 1").fetchone()
            failpoint("promote.before_commit")
        failpoint("promote.after_commit")
        return woken + promoted, (rest[0] if rest else None)

    # -- reading that is written for this database -------------------------------------------------------------------

    def jobs(self, job_ids: Sequence[UUID]) -> dict[UUID, JobRow]:
        """The rows of many jobs."""
        found: dict[UUID, JobRow] = {}
        for some in chunks(job_ids, 500):
            rows = self.live_rows(f"id IN ({placeholders(len(some))})", [job.bytes for job in some])
            found.update((row["id"], row) for row in rows)
        return found

    def read_many(self, stream_ids: Sequence[UUID]) -> dict[UUID, tuple[SnapshotRow | None, list[EventRow]]]:
        """Snapshot and tail of many streams, read as one."""
        found: dict[UUID, tuple[SnapshotRow | None, list[EventRow]]] = {}
        for some in chunks(stream_ids, 500):
            ids = [stream.bytes for stream in some]
            marks = placeholders(len(some))
            kept = {
                row[0]: SnapshotRow(*row[1:])
                for row in self.sql_rows(
                    f"SELECT stream_id, version, topic, state FROM snapshots WHERE stream_id IN ({marks})", ids
                )
            }
            tails: dict[bytes, list[EventRow]] = {stream: [] for stream in ids}
            plain = [stream for stream in ids if stream not in kept]
            if plain:
                sql = (
                    "SELECT stream_id, version, topic, state FROM events "
                    f"WHERE stream_id IN ({placeholders(len(plain))}) ORDER BY stream_id, version"
                )
                for stream, *event in self.sql_rows(sql, plain):
                    tails[stream].append(EventRow(*event))
            for stream, row in kept.items():
                tails[stream] = self.read(UUID(bytes=stream), after=row.version)
            for stream in ids:
                if stream in kept or tails[stream]:
                    tail = self.bodies.of_stream(UUID(bytes=stream), tails[stream])
                    found[UUID(bytes=stream)] = (kept.get(stream), tail)
        return found
