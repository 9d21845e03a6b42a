"""What the SQLite and the PostgreSQL store share in writing: claims, and what is written beside appends."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import UUID

import sqlalchemy as sa

from . import schema as s
from .append import Append, Stored
from .diagnosis import diagnose
from .failpoint import failpoint
from .gate_sql import Gates
from .rebuild_sql import Rebuilds
from .sql_reads import SqlReads
from .store import (
    ConflictError,
    JobRow,
    LoggedEvent,
    SnapshotRow,
    check_generation,
)
from .view_reads import SqlViews

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from .gates import GateAnswer, GateEntry, GateRow, GateState
    from .statements import Compiled
    from .store import ClaimQuery, RowChange, Seen


class SqlStore(SqlReads):
    """The half of the store that is the same on both databases."""

    unblock: tuple[str, ...]  #: SQL that lets the next job of an exclusive key be claimed, by generation

    def __init__(self, engine: sa.Engine) -> None:
        super().__init__(engine)
        statements = self.statements
        self._upsert_snapshot = statements.compile(statements.upsert(s.snapshots, "stream_id", newer="version"))
        self.upsert_tracking = statements.compile(
            statements.upsert(s.tracking, "application_name", newer="notification_id")
        )

    @abstractmethod
    def free_keys(self, parity: int) -> list[str]:
        """The exclusive keys that jobs wait for and nobody holds."""

    def wake_blocked(self, parity: int) -> int:
        """Make one job ready of each exclusive key that nobody holds any more; returns how many.

        The end of a holder does that too, but whom it woke may have been paused since, or nobody saw it.
        """
        keys, woken = self.free_keys(parity), 0
        if keys:
            with self.writing("claim") as cursor:
                for key in keys:
                    cursor.execute(self.unblock[parity], (key,))
                    woken += int(cursor.rowcount)
        return woken

    # -- claim -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def pick(self, cursor: Any, query: ClaimQuery, parity: int) -> tuple[list[JobRow], int]:
        """The rows to claim and the store's time, in an open transaction."""

    def claim(
        self, query: ClaimQuery, build: Callable[[list[JobRow], int], list[Append]], generation: int, seen: Seen
    ) -> tuple[list[Append], int]:
        """See ``Store``."""
        with self.writing("claim") as cursor:
            failpoint("claim.begin")
            rows, now = self.pick(cursor, query, generation % 2)
            batch = build(rows, now)
            failpoint("claim.selected")
            first = 0
            if batch:
                first = self.append_claimed(cursor, batch, generation, seen)
            else:
                self._check_live(cursor, generation)
            failpoint("claim.before_commit")
        failpoint("claim.after_commit")
        return batch, first

    @abstractmethod
    def append_claimed(self, cursor: Any, batch: Sequence[Append], generation: int, seen: Seen) -> int:
        """Write the appends of a claim, whose rows are locked already."""

    @staticmethod
    def _check_live(cursor: Any, generation: int) -> None:
        """Whether rows that held nothing were the live ones."""
        [have] = cursor.execute("SELECT generation FROM log_state WHERE id = 1").fetchone()
        check_generation(have, generation)

    def claim_candidates(self, query: ClaimQuery, generation: int) -> list[JobRow]:
        """See ``Store``."""
        with self.writing("claim") as cursor:
            return self.pick(cursor, query, generation % 2)[0]

    @abstractmethod
    def hold_row(self, cursor: Any, job_id: UUID, generation: int) -> None:
        """Keep everybody else's appends from a job until the transaction ends."""

    def replace_row(self, job_id: UUID, row: JobRow | None, generation: int) -> None:
        """See ``Store``; an append under way is waited for, the statements behind it see what it wrote."""
        with self.writing("claim") as cursor:
            self.hold_row(cursor, job_id, generation)
            [version] = self.statements.max_version.run(cursor, {"stream_id": job_id}).fetchone()
            if version != (row["version"] if row else 0):
                return
            cursor.execute(f"DELETE FROM jobs_{generation % 2} WHERE id = {self.mark}", (self.to_id(job_id),))
            if row is not None:
                self.statements.insert_job[generation % 2].run(cursor, row)

    # -- other appends -----------------------------------------------------------------------------------------------

    @abstractmethod
    def append_in(self, cursor: Any, append: Append, generation: int, seen: Seen) -> int:
        """Write one append in an open transaction."""

    def raise_epoch(self, append: Append, epoch: int) -> int:
        """See ``Store``."""
        with self.writing("claim") as cursor:
            self.lock_log(cursor)
            position = int(self.statements.head.run(cursor, {}).fetchone()[0]) + 1
            sql = f"UPDATE log_state SET epoch = {self.mark} WHERE id = 1 AND epoch < {self.mark}"
            if cursor.execute(sql, (epoch, epoch)).rowcount != 1:
                raise ConflictError(f"the epoch is {epoch} or higher already")
            cursor.execute("UPDATE leases SET lease_until = 0")
            event = {"position": position, "stream_id": append.stream_id, **append.events[0]._asdict()}
            self.statements.insert_event.run(cursor, event)
        return position

    def diagnose(self, append: Append) -> Stored:
        """See ``Store``."""
        return diagnose(self, append)

    # -- snapshots and tracking --------------------------------------------------------------------------------------

    def put_snapshots(self, rows: Sequence[tuple[UUID, SnapshotRow, int]]) -> None:
        """See ``Store``."""
        failpoint("snapshot.before")
        values = [{"stream_id": stream, **row._asdict(), "vocabulary": number} for stream, row, number in rows]
        with self.writing("claim", durable=False) as cursor:  # losing a snapshot loses nothing
            self._upsert_snapshot.run_many(cursor, values)
            failpoint("snapshot.before_commit")
        failpoint("snapshot.after")

    def track(self, name: str, position: int) -> bool:
        """See ``Store``."""
        with self.writing("claim") as cursor:
            self.upsert_tracking.run(cursor, {"application_name": name, "notification_id": position})
            return bool(cursor.rowcount == 1)

    # -- lists of items ----------------------------------------------------------------------------------------------

    def put_list(self, job_id: UUID, name: str, chunks: Sequence[bytes]) -> None:
        """Store a list before its first unit."""
        rows = [{"job_id": job_id, "name": name, "chunk": n, "items": chunk} for n, chunk in enumerate(chunks)]
        with self.writing("claim") as cursor:
            self.statements.delete_list.run(cursor, {"job_id": job_id, "name": name})
            if rows:
                self.statements.insert_list.run_many(cursor, rows)

    # -- outbox ------------------------------------------------------------------------------------------------------

    def delete_outbox(self, ids: Sequence[int]) -> None:
        """Remove rows that are in the log now."""
        with self.writing("claim") as cursor:
            self.statements.delete_outbox.run_many(cursor, [{"id": row_id} for row_id in ids])

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

    def gate_rows(self, names: Sequence[str]) -> dict[str, GateRow]:
        """See ``Store``."""
        return self.gate_tables.rows(names)

    def leave_gate(self, gate: str, entry: str, *, spaced: bool = False) -> None:
        """See ``Store``."""
        self.gate_tables.leave(gate, entry, spaced=spaced)

    def close_gate(self, gate: str, until: int, *, by: str, reason: str) -> int:
        """See ``Store``."""
        return self.gate_tables.close(gate, until, by=by, reason=reason)

    def gates(self, gate: str | None = None) -> list[GateState]:
        """See ``Store``."""
        return self.gate_tables.states(gate)

    def next_opening(self) -> float | None:
        """See ``Store``."""
        return self.gate_tables.next_opening()
