"""The log in PostgreSQL, over psycopg 3: many hosts, the same semantics.

An append is one round trip: one autocommit call of a function over arrays.  It takes the log's lock (an advisory lock)
as its last step before the insert, so that positions follow the order of commits, without gaps, on a standby too.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import orjson
import psycopg
import sqlalchemy as sa
from psycopg import errors as pg

from ..domain.errors import (
    CorruptLogError,
    EpochChangedError,
    GenerationChangedError,
    JobLogError,
    LogRewoundError,
    StoreBusyError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
    UnknownOutcomeError,
    UnsafeStoreError,
)
from . import postgres_arrays as arrays
from . import postgres_functions as functions
from .append import Append, EventRow
from .claim_order import level, pick
from .failpoint import failpoint
from .sql_atomic import SqlAtomic
from .sql_connections import Pinned
from .sql_store import SqlStore
from .sqlite_claim import CLAIM_COLUMNS
from .store import NOT_CONSECUTIVE, ConflictError, JobRow, LeaseRow, LockedError, Seen, SnapshotRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..domain.lease import Token
    from .statements import Compiled
    from .store import ClaimQuery

KEEPALIVE: Final = {"keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
_TRANSACTION_TIMEOUT_SINCE: Final = 170000
_FUNCTION_ARGS: Final = 19
#: How a transaction begins, by whether it is durable.
_COMMITS: Final = {
    on: f"SELECT set_config('synchronous_commit', '{'on' if on else 'off'}', true)" for on in (True, False)
}
#: One plan for each of our statements, whatever the statistics: the one that goes by an index.
_ONE_PLAN: Final = "".join(
    f", set_config('{name}', 'off', true)"
    for name in (*functions.SWITCHED_OFF, "enable_sort", "enable_incremental_sort")
)
#: The server has ended an idle or overlong transaction with its connection, before any COMMIT reached it.
_IDLE_TOO_LONG: Final = ("25P03", "25P04")


def make_engine(url: str | sa.URL, *, lease_seconds: float | None = 30, pooler_safe: bool = False) -> sa.Engine:
    """An engine whose every connection gives up before a lease would; without *lease_seconds* it has all the time.

    A pooler hands one session to many clients, so there nothing of the session may be set.
    """
    parsed = sa.make_url(url)
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    arguments: dict[str, Any] = {**KEEPALIVE, "connect_timeout": 10, "client_encoding": "utf8"}
    if pooler_safe:
        arguments["prepare_threshold"] = None
    else:
        given = parsed.normalized_query.get("options", ())  # such as a search_path: ours would take its place
        arguments["options"] = " ".join((*given, "-c synchronous_commit=on"))
    engine = sa.create_engine(parsed, connect_args=arguments, poolclass=sa.NullPool)
    sa.event.listen(engine, "connect", lambda driver, _: arrays.register(driver))
    if lease_seconds is not None and not pooler_safe:
        milliseconds = int(lease_seconds * 1000 / 3)
        sa.event.listen(engine, "connect", lambda driver, _: _bound(driver, milliseconds))
    return engine


def _bound(driver: Any, milliseconds: int) -> None:
    """No transaction of ours may outlive a third of the lease, whoever stopped us in it."""
    names = ["idle_in_transaction_session_timeout"]
    if driver.info.server_version >= _TRANSACTION_TIMEOUT_SINCE:
        names.append("transaction_timeout")
    for name in names:
        driver.execute(f"SET {name} = {milliseconds}")
    driver.commit()


#: Let the next job of an exclusive key be claimed, by generation.  A row that somebody holds is passed over: it may be
#: paused or cancelled there.
_UNBLOCK: Final = tuple(
    f"UPDATE jobs_{p} SET ready = 1, blocked = 0 WHERE id = (SELECT id FROM jobs_{p} "
    "WHERE exclusive_key = %s AND blocked = 1 ORDER BY priority, due_at, id LIMIT 1 FOR UPDATE SKIP LOCKED)"
    for p in (0, 1)
)

#: What the server's refusals are in our words.
_OURS: Final[tuple[tuple[tuple[type[psycopg.Error], ...], type[BaseException]], ...]] = (
    ((pg.IntegrityError,), ConflictError),
    ((pg.LockNotAvailable, pg.DeadlockDetected, pg.SerializationFailure), LockedError),
    ((pg.DiskFull,), StoreFullError),
    ((pg.DataCorrupted, pg.IndexCorrupted), CorruptLogError),
    ((pg.TooManyConnections, pg.ConfigurationLimitExceeded, pg.QueryCanceled), StoreBusyError),
)


class PostgresStore(SqlStore):
    """See ``Store``."""

    mark = "%s"
    unblock = _UNBLOCK

    def __init__(self, url: str | sa.URL, *, lease_seconds: float = 30, pooler_safe: bool = False) -> None:
        super().__init__(make_engine(url, lease_seconds=lease_seconds, pooler_safe=pooler_safe))
        self.pooler_safe = pooler_safe
        self._prepare = None if pooler_safe else True
        self._append_pin = self.pin()
        self._guard_append = threading.Lock()
        marks = ", ".join(["%s", "%s", "%s", "%s"] + ["%b"] * (_FUNCTION_ARGS - 5) + ["%s"])
        self._append_sql = tuple(f"SELECT joblog_append_{p}({marks})" for p in (0, 1))

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
        if isinstance(error, JobLogError):
            return error
        if isinstance(error, sa.exc.DBAPIError) and error.orig is not None:
            error = error.orig
        if not isinstance(error, psycopg.Error):
            return error
        state = error.sqlstate or ""
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        made: dict[str, BaseException] = {
            functions.NOT_AS_EXPECTED: ConflictError(text),
            functions.GENERATION: GenerationChangedError(f"the job table is in generation {text}"),
            functions.REWOUND: LogRewoundError(
                f"the log ends at {text}; if it was restored on purpose, run `joblog epoch raise`"
            ),
            functions.EPOCH: EpochChangedError(f"the log's epoch is {text} now"),
        }
        if state in made:
            return made[state]
        if isinstance(error, pg.ReadOnlySqlTransaction):
            self._distrust()
            return StoreUnavailableError(f"{text}: a standby by now, or set to read only")
        for classes, ours in _OURS:
            if isinstance(error, classes):
                return ours(text)
        if state in _IDLE_TOO_LONG:
            return StoreUnavailableError(f"{text}: this process was too slow inside a transaction, which was undone")
        lost = not state or state[:2] in ("08", "57") or isinstance(error, psycopg.InterfaceError)
        if lost:
            return UnknownOutcomeError(text) if committing else StoreUnavailableError(text)
        return StoreError(f"{state} {text}")

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
        arguments = self._arguments(batch, generation, seen, wait=side)
        pinned = self._own("side") if side else self._append_pin
        try:
            cursor = pinned.open()
        except Exception as error:
            pinned.drop()
            raise self.translate(error) from error
        try:
            failpoint("append.before_commit")
            cursor.execute(self._append_sql[generation % 2], arguments, prepare=self._prepare)
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

    def _arguments(self, batch: Sequence[Append], generation: int, seen: Seen, *, wait: bool) -> tuple[Any, ...]:
        """The function's arguments: what all appends have as packed arrays, what only some have as JSON."""
        streams: list[bytes] = []
        events: list[EventRow] = []
        units: list[str | None] = []  # of each event; only some have one
        has_units = False
        hot: list[tuple[Any, ...]] = []
        rest: dict[str, list[Any]] = {}
        for append in batch:
            stream, base = append.stream_id.bytes, len(events)
            for upcoming, event in enumerate(append.events, append.expected + 1):
                if event.version != upcoming:
                    raise ConflictError(NOT_CONSECUTIVE)
            events += append.events
            streams += [stream] * len(append.events)
            units += [None] * len(append.events)
            for unit, index in append.units:
                units[base + index], has_units = unit, True
            fence = append.fence
            if fence is not None and fence.token.epoch == seen.epoch and append.is_hot:
                row = append.row
                moved = (row["version"], row["updated_at"], row["done"], row["sequence"], row["cursor"])
                hot.append((stream, append.expected, *moved, fence.token.grant, fence.renew))
            else:
                _add_rest(rest, append)
        hot.sort(key=itemgetter(0))  # rows are locked in id order by everyone
        extra = orjson.dumps(rest).decode() if rest else None
        return (
            *(seen.epoch, seen.position, generation, wait),
            *(arrays.uuids(streams), arrays.bigints([event.version for event in events])),
            *(arrays.topics([event.topic for event in events]), arrays.byteas([event.state for event in events])),
            arrays.texts(units) if has_units else None,
            *_hot_columns(hot),
            extra,
        )

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
        arguments = self._arguments(batch, generation, seen, wait=wait)
        return int(cursor.execute(self._append_sql[generation % 2], arguments, prepare=self._prepare).fetchone()[0][0])

    # -- transactions of more than one round trip --------------------------------------------------------------------

    @contextmanager
    def writing(self, name: str, *, durable: bool = True) -> Iterator[Any]:
        """A transaction on this thread's connection for *name*."""
        self.check_writable()
        pinned = self._own(name)
        committing = False
        try:
            cursor = pinned.open()
            cursor.execute("BEGIN")
            is_ours = name != "atomic"  # the user's own SQL is planned as they want
            cursor.execute(_COMMITS[durable] + _ONE_PLAN * is_ours)
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

    def hold_row(self, cursor: Any, job_id: UUID, generation: int) -> None:
        """Lock the job's row; whoever appends meanwhile waits for it in its side lane."""
        cursor.execute(f"SELECT 1 FROM jobs_{generation % 2} WHERE id = %s FOR UPDATE", (job_id,))

    def pick(self, cursor: Any, query: ClaimQuery, parity: int) -> tuple[list[JobRow], int]:
        """See ``SqlStore``."""
        now = cursor.execute("SELECT joblog_now()").fetchone()[0]
        room = self._room(cursor, query, now)

        def look(reach: int) -> list[JobRow]:
            candidates = self._candidates(cursor, query, now, parity, room, reach)
            if self._lock_room(cursor, candidates, room):
                room.update(self._room(cursor, query, now))
            return candidates

        def block(rows: list[JobRow]) -> None:
            sql = f"UPDATE jobs_{parity} SET ready = 0, blocked = 1 WHERE id = ANY(%s)"
            cursor.execute(sql, ([row["id"] for row in rows],))

        return pick(look, query.limit, room, partial(self._held_keys, cursor), block), now

    @staticmethod
    def _room(cursor: Any, query: ClaimQuery, now: int) -> dict[str, int | None]:
        """How many jobs each queue and gate still takes."""
        sql = (
            "SELECT 'queue ' || q.queue, CASE WHEN q.paused = 1 THEN 0 WHEN q.slots IS NULL THEN NULL ELSE greatest("
            "q.slots - (SELECT count(*) FROM leases l WHERE l.queue = q.queue), 0) END FROM queues q WHERE q.queue = ANY(%s) "
            "UNION ALL SELECT 'gate ' || g.gate, CASE WHEN g.closed_until > %s THEN 0 WHEN g.slots IS NULL THEN NULL ELSE "
            "greatest(g.slots - (SELECT count(*) FROM leases l WHERE l.gate = g.gate AND l.gate <> '') - (SELECT count(DISTINCT "
            "t.job_id) FROM gate_turns t CROSS JOIN LATERAL (SELECT 1 FROM leases l WHERE l.job_id = t.job_id "
            "AND l.epoch = t.epoch AND l.token = t.token AND l.gate <> g.gate OFFSET 0) l "  # one plan: turns, then leases
            "WHERE t.gate = g.gate AND t.holds = 1), 0) END FROM gates g"
        )
        return dict(cursor.execute(sql, (list(query.queues), now)).fetchall())

    @staticmethod
    def _lock_room(cursor: Any, candidates: list[JobRow], room: dict[str, int | None]) -> bool:
        """Take the rows of the queues and gates that have slots: two claims at once must not count the same one free."""
        locked = False
        for what in ("queue", "gate"):
            names = sorted({row[what] for row in candidates if room.get(f"{what} {row[what]}") is not None})
            if names:
                sql = f"SELECT 1 FROM {what}s WHERE {what} = ANY(%s) ORDER BY {what} FOR UPDATE"
                cursor.execute(sql, (names,))
                locked = True
        return locked

    def _candidates(
        self, cursor: Any, query: ClaimQuery, now: int, parity: int, room: dict[str, int | None], reach: int
    ) -> list[JobRow]:
        shut = [name.removeprefix("gate ") for name, free in room.items() if free == 0 and name.startswith("gate ")]
        kinds = None if query.kinds is None else sorted(query.kinds)
        sql = f"SELECT * FROM joblog_claim_{parity}(%s, %s::text[], %s::text[], %s, %s, %s, %s, %s)"
        candidates: list[JobRow] = []
        for queue in query.queues:
            if room.get(f"queue {queue}") != 0:
                arguments = (queue, kinds, shut, reach, query.vocabulary, query.after_tenant, now, query.max_crashes)
                found = cursor.execute(sql, arguments, prepare=self._prepare).fetchall()
                candidates += [dict(zip((*CLAIM_COLUMNS, "round", "turn"), values, strict=True)) for values in found]
        _add_levels(candidates, now)
        return candidates

    @staticmethod
    def _held_keys(cursor: Any, keys: set[str]) -> set[str]:
        if not keys:
            return set()
        sql = "SELECT exclusive_key FROM leases WHERE exclusive_key = ANY(%s) AND exclusive_key <> ''"
        return {key for (key,) in cursor.execute(sql, (sorted(keys),)).fetchall()}

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

    def has_suspects(self, queues: Sequence[str], crashes: int) -> bool:
        """See ``Store``."""
        sql = f"SELECT joblog_suspects_{self._live % 2}(%s, %s)"
        return bool(self.sql_rows(sql, (list(queues), crashes))[0][0])

    # -- reading that is written for this database -------------------------------------------------------------------

    def jobs(self, job_ids: Sequence[UUID]) -> dict[UUID, JobRow]:
        """The rows of many jobs."""
        return {row["id"]: row for row in self.live_rows("id = ANY(%s)", (list(job_ids),))}

    def read_many(self, stream_ids: Sequence[UUID]) -> dict[UUID, tuple[SnapshotRow | None, list[EventRow]]]:
        """Snapshot and tail of many streams, in one query."""
        sql = (
            "SELECT i.id, 0 AS kind, s.version, s.topic, s.state FROM unnest(%s::uuid[]) i(id) "
            "JOIN snapshots s ON s.stream_id = i.id "
            "UNION ALL SELECT i.id, 1, e.version, e.topic, e.state FROM unnest(%s::uuid[]) i(id) CROSS JOIN LATERAL ("
            "SELECT coalesce((SELECT version FROM snapshots WHERE stream_id = i.id), 0) AS after) a "
            "JOIN events e ON e.stream_id = i.id AND e.version > a.after ORDER BY 1, 2, 3"
        )
        ids = list(dict.fromkeys(stream_ids))
        kept: dict[UUID, SnapshotRow] = {}
        tails: dict[UUID, list[EventRow]] = {}
        for stream, kind, *event in self.sql_rows(sql, (ids, ids)):
            tails.setdefault(stream, [])
            if kind == 0:
                kept[stream] = SnapshotRow(*event)
            else:
                tails[stream].append(EventRow(*event))
        return {stream: (kept.get(stream), tail) for stream, tail in tails.items()}


def _hot_columns(hot: list[tuple[Any, ...]]) -> list[Any]:
    """The columns of plain unit commits, each an array; NULL if there are none."""
    if not hot:
        return [None] * 9
    ids, expected, version, updated, done, sequence, cursor, grant, renew = zip(*hot, strict=True)
    numbers = [arrays.bigints(column) for column in (expected, version, updated, done, sequence)]
    return [
        arrays.uuids(ids),
        *numbers,
        arrays.texts(cursor),
        arrays.bigints(grant),
        arrays.bigints(renew) if any(renew) else None,
    ]


def _add_levels(candidates: list[JobRow], now: int) -> None:
    oldest: dict[tuple[Any, ...], int] = {}
    lane = ("queue", "kind", "gate", "priority")
    for row in candidates:
        key = tuple(row[name] for name in lane)
        oldest[key] = min(oldest.get(key, row["due_at"]), row["due_at"])
    for row in candidates:
        row["level"] = level(row["priority"], oldest[tuple(row[name] for name in lane)], now)


def _add_rest(rest: dict[str, list[Any]], append: Append) -> None:
    """What only some appends change, as JSON for the function."""
    job = append.stream_id
    if append.expected:
        rest.setdefault("after", []).append({"id": job, "version": append.expected})
    if append.row:
        if append.expected == 0:
            rest.setdefault("new", []).append(append.row)
        else:
            changes = {name: value for name, value in append.row.items() if name != "id"}
            if append.grant is not None and changes.keys() <= functions.CLAIMED.keys():
                rest.setdefault("claimed", []).append({"id": job, "expected": append.expected, **changes})
            else:
                rest.setdefault("set", []).append({"id": job, "expected": append.expected, "c": changes})
    if append.evidence is not None:
        rest.setdefault("evidence", []).append({"job_id": job, "n": append.evidence})
    _add_lease(rest, append)
    if append.receipt is not None:
        rest.setdefault("receipt", []).append(append.receipt._asdict())
    if append.queue_row is not None:
        rest.setdefault("queue", []).append(append.queue_row)
    if append.gate_row is not None:
        rest.setdefault("gate", []).append(append.gate_row)
    if append.tracking is not None:
        name, position = append.tracking
        rest.setdefault("tracking", []).append({"application_name": name, "notification_id": position})


def _add_lease(rest: dict[str, list[Any]], append: Append) -> None:
    job = append.stream_id
    if (fence := append.fence) is not None:
        held = {"id": job, "epoch": fence.token.epoch, "token": fence.token.grant}
        if fence.end:
            rest.setdefault("end", []).append({**held, "how": "holder"})
        else:
            rest.setdefault("fence", []).append({**held, "renew": fence.renew})
    if (takeover := append.takeover) is not None:
        held = {"id": job, "epoch": takeover.token.epoch, "token": takeover.token.grant}
        rest.setdefault("end", []).append({**held, "how": "proven" if takeover.proven else "expired"})
    if (grant := append.grant) is not None:
        made = grant._asdict()
        token = made.pop("token")
        rest.setdefault("grant", []).append({"id": job, "epoch": token.epoch, "token": token.grant, **made})
