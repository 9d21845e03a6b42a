"""An append inside SQLite's write transaction: unit results, job rows, leases and all else that goes with the events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from . import schema as s
from .append import HOT_VALUES, Append
from .failpoint import failpoint
from .sqlite_claim import UNBLOCK
from .store import NOT_CONSECUTIVE, ConflictError, Seen, check_generation, check_seen
from .webhooks import SETTLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .sql_store import SqlStore

#: ``statements.update_job`` for a plain unit commit, by generation: nearly every append there is.
_HOT_UPDATE: Final = tuple(
    f"UPDATE jobs_{parity} SET version = ?, updated_at = ?, done = ?, sequence = ?, cursor = ?, unit_attempt = 0, crashes = 0 "
    "WHERE id = ? AND version = ? AND EXISTS (SELECT 1 FROM leases WHERE job_id = ? AND epoch = ? AND token = ? "
    "AND lease_until > ? AND boot_id = ?)"
    for parity in (0, 1)
)
_MOVE_END: Final = "UPDATE leases SET lease_until = max(lease_until, ?) WHERE job_id = ?"


class SqliteAppends:
    """Writes appends; who calls holds the write lock, so there is nothing to wait for."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._statements = store.statements
        self._upsert_queue = store.statements.compile(store.statements.upsert(s.queues, "queue"))

    def write(self, cursor: Any, batch: Sequence[Append], generation: int, seen: Seen) -> int:
        """Write *batch* in an open transaction; returns the position of its first event."""
        _, epoch, have, head = self._statements.state.run(cursor, {}).fetchone()
        check_seen(seen, epoch, head)
        check_generation(have, generation)
        streams = [append.stream_id.bytes for append in batch]
        self._write_units(cursor, batch, streams)
        failpoint("append.units_inserted")
        self._write_rows(cursor, batch, streams, generation % 2)
        if delivered := [append.delivery._asdict() for append in batch if append.delivery is not None]:
            cursor.executemany(SETTLE, delivered)
        failpoint("append.rows_written")
        failpoint("append.locked")
        rows: list[Any] = []
        position = head
        for stream, append in zip(streams, batch, strict=True):
            upcoming = append.expected
            for version, topic, state in append.events:
                upcoming += 1
                position += 1
                if version != upcoming:
                    raise ConflictError(NOT_CONSECUTIVE)
                rows.append((position, stream, version, topic, state))
        cursor.executemany(self._statements.insert_event.sql, rows)
        failpoint("append.events_inserted")
        return int(head) + 1

    def _write_units(self, cursor: Any, batch: Sequence[Append], streams: Sequence[bytes]) -> None:
        rows: list[Any] = []
        for stream, append in zip(streams, batch, strict=True):
            for unit, index in append.units:
                version, _, state = append.events[index]
                rows.append((stream, unit, version, state))
        if rows:
            cursor.executemany(self._statements.insert_unit.sql, rows)
        for append in batch:
            if append.evidence is not None:
                have = self._statements.count_units.run(cursor, {"job_id": append.stream_id}).fetchone()[0]
                if have != append.evidence:
                    raise ConflictError(f"{have} unit results, not {append.evidence}")

    def _write_rows(self, cursor: Any, batch: Sequence[Append], streams: Sequence[bytes], parity: int) -> None:
        lease_now, boot = self._store.lease_now(), self._store.boot_id()
        hot: list[tuple[Any, ...]] = []
        renewed: list[tuple[int, bytes]] = []
        others: list[Append] = []
        for stream, append in zip(streams, batch, strict=True):
            if append.is_hot and append.fence is not None:
                held = (*append.fence.token, lease_now, boot)
                hot.append((*HOT_VALUES(append.row), stream, append.expected, stream, *held))
                if append.fence.renew:
                    renewed.append((lease_now + append.fence.renew, stream))
            else:
                others.append(append)
        if hot and cursor.executemany(_HOT_UPDATE[parity], hot).rowcount != len(hot):
            raise ConflictError(f"of {len(hot)} jobs not all are as expected")
        if renewed:
            cursor.executemany(_MOVE_END, renewed)
        if others:
            self._write_jobs(cursor, others, lease_now, boot, parity)
        for append in others:
            self._check_predecessor(cursor, append)
            self._write_lease(cursor, append, lease_now, boot, parity)
            self._write_rest(cursor, append)

    def _write_jobs(self, cursor: Any, appends: list[Append], lease_now: int, boot: str, parity: int) -> None:
        """Job rows: new ones, and compare-and-set of those that are there, by the columns that change."""
        groups: dict[tuple[frozenset[str], bool], list[dict[str, Any]]] = {}
        for append in appends:
            if append.row and append.expected == 0:
                self._statements.insert_job[parity].run(cursor, append.row)
            elif append.row:
                fence = append.fence
                bound = {**append.row, "b_id": append.stream_id, "b_expected": append.expected}
                if fence is not None:
                    bound["b_epoch"], bound["b_token"] = fence.token
                    bound["b_now"], bound["b_boot"] = lease_now, boot
                groups.setdefault((frozenset(append.row), fence is not None), []).append(bound)
        for (columns, fenced), rows in groups.items():
            done = self._statements.update_job(parity, columns, fenced=fenced).run_many(cursor, rows)
            if done != len(rows):
                raise ConflictError(f"{len(rows) - done} of {len(rows)} jobs are not as expected")

    def _check_predecessor(self, cursor: Any, append: Append) -> None:
        """The unique key alone would take an event far ahead of its stream; a hot append was made from a replay."""
        before = {"stream_id": append.stream_id, "version": append.expected}
        if append.expected and self._statements.position_of.run(cursor, before).fetchone() is None:
            raise ConflictError(f"{append.stream_id} is not at {append.expected}")

    def _write_lease(self, cursor: Any, append: Append, now: int, boot: str, parity: int) -> None:
        job = append.stream_id.bytes
        end: tuple[str, tuple[Any, ...]] | None = None
        if append.fence is not None:
            if not append.row:
                self._check_fence(cursor, append, now, boot)
            if append.fence.end:
                end = ("", ())  # the fence held when the row was updated
            elif append.fence.renew:
                cursor.execute(_MOVE_END, (now + append.fence.renew, job))
        if append.takeover is not None:
            token, proven = append.takeover
            end = ("AND epoch = ? AND token = ?", tuple(token))
            if not proven:
                end = (end[0] + " AND (lease_until <= ? OR boot_id <> ?)", (*end[1], now, boot))
        if end is not None:
            sql = f"DELETE FROM leases WHERE job_id = ? {end[0]} RETURNING exclusive_key"
            deleted = cursor.execute(sql, (job, *end[1])).fetchall()
            if len(deleted) != 1:
                raise ConflictError("the lease is not as expected")
            if deleted[0][0]:
                cursor.execute(UNBLOCK[parity], deleted[0])
        if append.grant is not None:
            g = append.grant
            row = {"job_id": append.stream_id, "epoch": g.token.epoch, "token": g.token.grant, "worker": g.worker}
            row |= {"lease_until": now + g.micros, "boot_id": boot, "queue": g.queue, "gate": g.gate}
            row |= {"exclusive_key": g.exclusive_key, "presence": g.presence}
            self._statements.insert_lease.run(cursor, row)

    @staticmethod
    def _check_fence(cursor: Any, append: Append, now: int, boot: str) -> None:
        """For an append that changes no row, whose update would check it."""
        sql = "SELECT 1 FROM leases WHERE job_id = ? AND epoch = ? AND token = ? AND lease_until > ? AND boot_id = ?"
        token = append.fence.token  # type: ignore[union-attr]
        if cursor.execute(sql, (append.stream_id.bytes, *token, now, boot)).fetchone() is None:
            raise ConflictError("the lease is not as expected")

    def _write_rest(self, cursor: Any, append: Append) -> None:
        if append.receipt is not None:
            self._statements.insert_receipt.run(cursor, append.receipt._asdict())
        if append.queue_row is not None:
            self._upsert_queue.run(cursor, append.queue_row)
        if append.gate_row is not None:
            self._store.gate_tables.change(cursor, append.gate_row)
        if append.tracking is not None:
            name, position = append.tracking
            self._store.upsert_tracking.run(cursor, {"application_name": name, "notification_id": position})
            if cursor.rowcount != 1:
                raise ConflictError(f"{name} is at {position} or further")
