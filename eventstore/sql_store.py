"""What the SQLite and the PostgreSQL store share: connections per thread, reading, diagnosing a refused append."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import sqlalchemy as sa

from ..domain.errors import (
    ExclusiveKeyHeldError,
    IncompleteError,
    LeaseHeldError,
    LeaseLostError,
    RequestConflictError,
    UnitConflictError,
    UnitDoneError,
    VersionConflictError,
)
from ..domain.lease import Token
from . import schema as s
from .append import Append, EventRow, Stored
from .failpoint import failpoint
from .gate_sql import Gates
from .mapper import event_id, evidence_of
from .rebuild_sql import Rebuilds
from .sql_connections import SqlConnections
from .statements import Statements
from .store import ConflictError, JobRow, LeaseRow, LoggedEvent, LogState, Outlook, SnapshotRow
from .view_reads import SqlViews

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from .gates import GateAnswer, GateEntry, GateState
    from .statements import Compiled
    from .store import RowChange

#: Let the next job of an exclusive key be claimed; *lock*: where others write meanwhile, a row that one of them holds is
#: passed over, for it may be paused or cancelled there.
UNBLOCK: Final = (
    "UPDATE jobs_{p} SET ready = 1, blocked = 0 WHERE id = (SELECT id FROM jobs_{p} "
    "WHERE exclusive_key = {key} AND blocked = 1 ORDER BY priority, due_at, id LIMIT 1{lock})"
)


class SqlStore(SqlConnections):
    """The half of the store that is the same on both databases."""

    def __init__(self, engine: sa.Engine) -> None:
        super().__init__(engine)
        self.statements = Statements(engine.dialect)
        self._live = 0  #: the generation that reads try first

    # -- values: ids come and go as the driver wants them ------------------------------------------------------------

    def to_id(self, value: UUID) -> Any:
        """A UUID for the driver."""
        return value

    def from_id(self, value: Any) -> UUID:
        """A UUID from the driver."""
        return value if type(value) is UUID else UUID(str(value))

    # -- reading -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def now(self) -> int:
        """The store's wall clock in microseconds."""

    @abstractmethod
    def lease_now(self) -> int:
        """The store's lease clock in microseconds."""

    def boot_id(self) -> str:
        """The boot that lease ends belong to; empty where the store's clock outlives boots."""
        return ""

    def state(self) -> LogState:
        """Epoch, generation and head."""
        row = self.rows(self.statements.state, {})[0]
        return LogState(self.from_id(row[0]), *row[1:])

    def head(self) -> int:
        """The last position; 0 in an empty log."""
        return int(self.rows(self.statements.head, {})[0][0])

    def read(
        self,
        stream_id: UUID,
        *,
        after: int = 0,
        upto: int | None = None,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> list[EventRow]:
        """The events of one stream."""
        compiled = self.statements.read(upto=upto is not None, newest_first=newest_first, limit=limit is not None)
        params = {"stream_id": stream_id, "after": after, "upto": upto, "count": limit}
        return [EventRow(*row) for row in self.rows(compiled, params)]

    def log(
        self,
        after: int,
        limit: int,
        *,
        upto: int | None = None,
        topics: Sequence[str] = (),
        bare: Sequence[str] = (),
    ) -> list[LoggedEvent]:
        """The log behind position *after*, in order."""
        compiled = self.statements.log(upto=upto is not None, topics=len(topics), bare=len(bare))
        params = {"after": after, "upto": upto, "count": limit, **{f"topic_{i}": t for i, t in enumerate(topics)}}
        params |= {f"bare_{i}": topic for i, topic in enumerate(bare)}
        from_id = self.from_id
        return [LoggedEvent(r[0], from_id(r[1]), *r[2:]) for r in self.rows(compiled, params)]

    def position_of(self, stream_id: UUID, version: int) -> int | None:
        """The position of one event."""
        found = self.rows(self.statements.position_of, {"stream_id": stream_id, "version": version})
        return found[0][0] if found else None

    def snapshot(self, stream_id: UUID) -> SnapshotRow | None:
        """The last snapshot of a stream."""
        found = self.rows(self.statements.snapshot, {"stream_id": stream_id})
        return SnapshotRow(*found[0]) if found else None

    def job(self, job_id: UUID) -> JobRow | None:
        """The job's row."""
        return self.jobs([job_id]).get(job_id)

    @abstractmethod
    def jobs(self, job_ids: Sequence[UUID]) -> dict[UUID, JobRow]:
        """The rows of many jobs."""

    def live_rows(self, where: str, params: Sequence[Any]) -> list[JobRow]:
        """Job rows of whichever generation is live: all from the old one or all from the new one (S14).

        The generation is checked inside the statement, so a switch can't come between; then the statement is repeated.
        """
        columns = ", ".join(f'"{name}"' for name in s.JOB_COLUMNS)
        mark = "?" if self.dialect == "sqlite" else "%s"
        while True:
            generation = self._live
            live = f"(SELECT generation FROM log_state WHERE id = 1) = {mark}"
            sql = f"SELECT {columns} FROM jobs_{generation % 2} WHERE {live} AND {where}"
            found = self.sql_rows(sql, (generation, *params))
            if found:
                return [self._row(row) for row in found]
            self._live = self.state().generation
            if self._live == generation:
                return []

    def _row(self, found: Any) -> JobRow:
        row = dict(zip(s.JOB_COLUMNS, found, strict=True))
        row["id"] = self.from_id(row["id"])
        return row

    def children(self, parent_id: UUID) -> list[UUID]:
        """The jobs that a job has spawned."""
        mark = "?" if self.dialect == "sqlite" else "%s"
        return [row["id"] for row in self.live_rows(f"parent_id = {mark} AND parent_id <> ''", (str(parent_id),))]

    def find_jobs(
        self,
        *,
        status: str | None = None,
        before: tuple[int, UUID] | None = None,
        after: tuple[int, UUID] | None = None,
        limit: int = 25,
        tenant: str | None = None,
        owner: str | None = None,
        queue: str | None = None,
        kind: str | None = None,
    ) -> list[JobRow]:
        """A page of jobs, newest first; see ``Store``."""
        mark = "?" if self.dialect == "sqlite" else "%s"
        where: list[str] = ["1 = 1"]
        params: list[Any] = []
        wanted = {"status": status, "tenant": tenant, "owner": owner, "queue": queue, "kind": kind}
        for column, value in wanted.items():
            if value is not None:
                where.append(f"{column} = {mark}")
                params.append(value)
                if value and column != "status":
                    where.append(f"{column} <> ''")  # as its index says
        for key, sign in ((before, "<"), (after, ">")):
            if key is not None:
                where.append(f"(created_at, id) {sign} ({mark}, {mark})")
                params += [key[0], self.to_id(key[1])]
        way = "DESC" if after is None else "ASC"
        order = f"ORDER BY created_at {way}, id {way} LIMIT {mark}"
        found = self.live_rows(f"{' AND '.join(where)} {order}", (*params, limit))
        return found if after is None else found[::-1]

    def unit_states(
        self, job_id: UUID, units: Sequence[str] | None = None, *, prefix: str | None = None
    ) -> dict[str, bytes]:
        """Stored unit-completed bytes by unit key; see ``Store``."""
        if prefix is not None:
            # Keys hold no control characters, so everything with the prefix lies before prefix + U+10FFFF.
            bounds = {"job_id": job_id, "least": prefix, "most": prefix + "\U0010ffff"}
            return dict(self.rows(self.statements.units_like, bounds))
        if units is None:
            return dict(self.rows(self.statements.units, {"job_id": job_id}))
        found: dict[str, bytes] = {}
        for unit in units:
            for (state,) in self.rows(self.statements.unit, {"job_id": job_id, "unit": unit}):
                found[unit] = state
        return found

    def count_units(self, job_id: UUID) -> int:
        """How many unit results a job has."""
        return int(self.rows(self.statements.count_units, {"job_id": job_id})[0][0])

    def receipt(self, request_id: str) -> tuple[str, str, str, str] | None:
        """(action, target, actor, answer) of a command."""
        found = self.rows(self.statements.receipt, {"request_id": request_id})
        return tuple(found[0]) if found else None

    def _lease_row(self, row: Any) -> LeaseRow:
        return LeaseRow(self.from_id(row[0]), Token(row[1], row[2]), *row[3:])

    def lease(self, job_id: UUID) -> LeaseRow | None:
        """The job's lease row."""
        found = self.rows(self.statements.lease, {"job_id": job_id})
        return self._lease_row(found[0]) if found else None

    def queue_rows(self) -> dict[str, dict[str, Any]]:
        """The queues that were ever paused or limited."""
        found = self.rows(self.statements.queues, {})
        return {q: {"paused": bool(p), "slots": slots, "generation": g} for q, p, slots, g in found}

    def outlook(self, queues: Sequence[str], presence: str = "") -> Outlook:
        """One look at what there is to do; see ``Store``."""
        values = self._look(self._live % 2, queues, presence)
        found, due, end, others, self._live, now, box, wakes, rebooted = values
        now, lease_now = (self.now(), self.lease_now()) if now is None else (now, now)
        next_due = 0.0 if wakes else None if due is None else (due - now) / 1_000_000
        next_end = 0.0 if rebooted else None if end is None else (end - lease_now) / 1_000_000
        return Outlook(bool(found), next_due, next_end, others, bool(box))

    @abstractmethod
    def _look(self, parity: int, queues: Sequence[str], presence: str) -> tuple[Any, ...]:
        """What ``outlook`` is made of, in one statement; the store's clock where it is the database's."""

    @abstractmethod
    def free_keys(self, parity: int) -> list[str]:
        """The exclusive keys that jobs wait for and nobody holds."""

    def wake_blocked(self, parity: int) -> int:
        """Make one job ready of each exclusive key that nobody holds any more; returns how many.

        The end of a holder does that too, but whom it woke may have been paused since, or nobody saw it.
        """
        keys, woken = self.free_keys(parity), 0
        if keys:
            mark, lock = ("?", "") if self.dialect == "sqlite" else ("%s", " FOR UPDATE SKIP LOCKED")
            with self.writing("claim") as cursor:
                for key in keys:
                    cursor.execute(UNBLOCK.format(p=parity, key=mark, lock=lock), (key,))
                    woken += int(cursor.rowcount)
        return woken

    def tracking_position(self, name: str) -> int | None:
        """How far the named follower has come."""
        found = self.rows(self.statements.tracked, {"name": name})
        return found[0][0] if found else None

    # -- lists of items ----------------------------------------------------------------------------------------------

    def put_list(self, job_id: UUID, name: str, chunks: Sequence[bytes]) -> None:
        """Store a list before its first unit."""
        rows = [{"job_id": job_id, "name": name, "chunk": n, "items": chunk} for n, chunk in enumerate(chunks)]
        with self.writing("claim") as cursor:
            self.statements.delete_list.run(cursor, {"job_id": job_id, "name": name})
            if rows:
                self.statements.insert_list.run_many(cursor, rows)

    def get_list(self, job_id: UUID, name: str) -> list[bytes]:
        """The chunks of a stored list, in order."""
        return [bytes(row[0]) for row in self.rows(self.statements.get_list, {"job_id": job_id, "name": name})]

    # -- outbox ------------------------------------------------------------------------------------------------------

    def outbox(self, limit: int, *, after: int = 0) -> list[tuple[int, str]]:
        """Committed outbox rows (id, spec) behind the id *after*, in the order of their ids."""
        return [(row[0], row[1]) for row in self.rows(self.statements.outbox, {"count": limit, "after": after})]

    def delete_outbox(self, ids: Sequence[int]) -> None:
        """Remove rows that are in the log now."""
        with self.writing("claim") as cursor:
            self.statements.delete_outbox.run_many(cursor, [{"id": row_id} for row_id in ids])

    def outbox_spec(self, job_id: UUID) -> str | None:
        """The spec of a job that is still in the outbox."""
        found = self.rows(self.statements.outbox_spec, {"job_id": job_id})
        return found[0][0] if found else None

    # -- rebuild of the job table ------------------------------------------------------------------------------------

    @abstractmethod
    def writing(self, name: str, *, durable: bool = True) -> AbstractContextManager[Any]:
        """A write transaction on the connection *name*.

        One that is not *durable* waits for no disk: a power cut may take the last ones, whole, until a durable commit
        takes them along.  Nobody was told of them: views, snapshots, turns at a gate.
        """

    def pacing(self) -> AbstractContextManager[Any]:
        """A write transaction of a gate: slots and turns that a power cut takes bound nothing any more."""
        return self.writing("claim", durable=False)

    @abstractmethod
    def lock_log(self, cursor: Any) -> None:
        """Keep appends out until the transaction ends."""

    def clear_jobs(self, cursor: Any, parity: int, delete: Compiled) -> None:
        """Empty the generation that is not live."""
        del parity
        delete.run(cursor, {})

    @cached_property
    def _rebuilds(self) -> Rebuilds:
        return Rebuilds(self)

    @cached_property
    def views(self) -> SqlViews:
        """The views that follow the log."""
        return SqlViews(self)

    def rebuild_begin(self, owner: str, micros: int) -> tuple[int, int]:
        """See ``Store``."""
        return self._rebuilds.begin(owner, micros)

    def rebuild_write(self, generation: int, rows: Sequence[RowChange], position: int, owner: str, micros: int) -> None:
        """See ``Store``."""
        self._rebuilds.write(generation, rows, position, owner, micros)

    def rebuild_switch(
        self, generation: int, position: int, owner: str, fold: Callable[[list[LoggedEvent]], list[RowChange]]
    ) -> int:
        """See ``Store``."""
        return self._rebuilds.switch(generation, position, owner, fold)

    def write_rows(self, cursor: Any, parity: int, rows: Sequence[RowChange]) -> None:
        """Put *rows* into a generation of the job table, in an open transaction."""
        self._rebuilds.write_rows(cursor, parity, rows)

    def rebuild_drop_old(self) -> None:
        """See ``Store``."""
        self._rebuilds.drop_old()

    # -- gates -------------------------------------------------------------------------------------------------------

    @cached_property
    def gate_tables(self) -> Gates:
        """The gates' half of the store."""
        return Gates(self)

    def set_gate(self, gate: str, slots: int | None, closed_until: int) -> None:
        """See ``Store``."""
        self.gate_tables.put(gate, slots, closed_until)

    def enter_gate(self, entry: GateEntry) -> GateAnswer:
        """See ``Store``."""
        return self.gate_tables.enter(entry)

    def leave_gate(self, gate: str, entry: str) -> None:
        """See ``Store``."""
        self.gate_tables.leave(gate, entry)

    def close_gate(self, gate: str, until: int, *, by: str, reason: str) -> int:
        """See ``Store``."""
        return self.gate_tables.close(gate, until, by=by, reason=reason)

    def gates(self, gate: str | None = None) -> list[GateState]:
        """See ``Store``."""
        return self.gate_tables.states(gate)

    def next_opening(self) -> float | None:
        """See ``Store``."""
        return self.gate_tables.next_opening()

    # -- diagnosing --------------------------------------------------------------------------------------------------

    def diagnose(self, append: Append) -> Stored:
        """Where a refused append stands; see ``Store.diagnose``."""
        failpoint("append.diagnosing")
        first = {"stream_id": append.stream_id, "version": append.expected + 1}
        found = self.rows(self.statements.event_at, first)
        if found and append.event_id and event_id(found[0][2]) == append.event_id:
            return Stored(found[0][0])
        self._diagnose_lease(append)
        for unit, index in append.units:
            stored = self.unit_states(append.stream_id, [unit]).get(unit)
            if stored is not None:
                same = evidence_of(stored) == evidence_of(append.events[index].state)
                raise (UnitDoneError if same else UnitConflictError)(append.stream_id, unit)
        if append.receipt is not None and self.receipt(append.receipt.request_id) is not None:
            text = f"request id {append.receipt.request_id!r} was already used; use a new one"
            raise RequestConflictError(append.stream_id, text)
        if found or self.rows(self.statements.max_version, first)[0][0] != append.expected:
            raise VersionConflictError(append.stream_id, append.expected)
        if append.evidence is not None and (have := self.count_units(append.stream_id)) != append.evidence:
            raise IncompleteError(append.stream_id, f"{have} unit results are stored, {append.evidence} are due")
        if append.grant is not None and append.grant.exclusive_key:
            raise ExclusiveKeyHeldError(append.stream_id, f"exclusive key {append.grant.exclusive_key!r} is held")
        raise ConflictError(f"nothing stands against version {append.expected + 1} of {append.stream_id}")

    def _diagnose_lease(self, append: Append) -> None:
        want = append.fence or append.takeover
        if want is None:
            return
        lease = self.lease(append.stream_id)
        if lease is None or lease.token != want.token:
            raise LeaseLostError(append.stream_id, want.token.grant)
        live = lease.lease_until > self.lease_now() and lease.boot_id == self.boot_id()
        if append.fence is not None and not live:
            raise LeaseLostError(append.stream_id, want.token.grant)
        if append.takeover is not None and live and not append.takeover.proven:
            raise LeaseHeldError(append.stream_id, lease.worker)
