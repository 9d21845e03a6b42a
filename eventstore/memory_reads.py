"""Reading the log in memory: looking at everything, under the store's lock."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ..domain.errors import StoreClosedError
from .append import EventRow
from .bodies import Bodies
from .clock import new_uuid
from .memory_archives import MemoryPlaces
from .memory_tables import MemoryTables
from .store import JobRow, LeaseRow, LoggedEvent, LogState, Outlook, Reading, SnapshotRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..domain.ports import Clock


class _Serving:
    """The store's lock, to be had while the store is open."""

    def __init__(self, reads: MemoryReads) -> None:
        self._reads = reads
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._reads.check_usable()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class MemoryReads:
    """The half of ``Store`` that changes nothing."""

    dialect = "memory"

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.tables = MemoryTables(clock)
        self.bodies = Bodies(MemoryPlaces(self.tables))
        self._lock = _Serving(self)
        self._store_id = new_uuid()
        self._closed = False

    # -- life --------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Refuse everything from now on."""
        self._closed = True

    def check_usable(self) -> None:
        """Refuse use after ``close``."""
        if self._closed:
            raise StoreClosedError("this log was closed; open it again")

    def now(self) -> int:
        """Wall clock, microseconds."""
        return self.tables.now()

    def lease_now(self) -> int:
        """Boot clock, microseconds."""
        return self.tables.lease_now()

    def boot_id(self) -> str:
        """This boot."""
        return self.tables.boot_id()

    def state(self) -> LogState:
        """Epoch, generation and head."""
        with self._lock:
            return LogState(self._store_id, self.tables.epoch, self.tables.generation, len(self.tables.log))

    # -- events ------------------------------------------------------------------------------------------------------

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
        with self._lock:
            positions = self.tables.streams.get(stream_id, [])[after:upto]
            if newest_first:
                positions = positions[::-1]
            found = [EventRow(*self.tables.log[p - 1][2:]) for p in positions[:limit]]
            return self.bodies.of_stream(stream_id, found)

    def read_many(self, stream_ids: Sequence[UUID]) -> dict[UUID, tuple[SnapshotRow | None, list[EventRow]]]:
        """Snapshot and tail of many streams."""
        with self._lock:
            found = {}
            for stream in stream_ids:
                kept = self.tables.snapshots.get(stream)
                tail = self.read(stream, after=kept.version if kept else 0)
                if kept or tail:
                    found[stream] = (kept, tail)
            return found

    def log(
        self,
        after: int,
        limit: int,
        *,
        upto: int | None = None,
        topics: Sequence[str] = (),
        without: Sequence[str] = (),
        reading: Reading = Reading.CHECKED,
    ) -> list[LoggedEvent]:
        """The log behind *after*."""
        with self._lock:
            wanted = (e for e in self.tables.log[after:upto] if e.topic not in without)
            found = (e for e in wanted if not topics or e.topic in topics)
            return self.bodies.logged([event for _, event in zip(range(limit), found, strict=False)], reading)

    def stream_log(self, stream_id: UUID, after: int, upto: int, reading: Reading) -> list[LoggedEvent]:
        """The events of one stream between two positions."""
        with self._lock:
            positions = [p for p in self.tables.streams.get(stream_id, []) if after < p <= upto]
            return self.bodies.logged([self.tables.log[p - 1] for p in positions], reading)

    def head(self) -> int:
        """The last position."""
        with self._lock:
            return len(self.tables.log)

    def position_of(self, stream_id: UUID, version: int) -> int | None:
        """The position of one event."""
        with self._lock:
            positions = self.tables.streams.get(stream_id, [])
            return positions[version - 1] if 0 < version <= len(positions) else None

    def snapshot(self, stream_id: UUID) -> SnapshotRow | None:
        """The last snapshot."""
        with self._lock:
            return self.tables.snapshots.get(stream_id)

    def event_at(self, stream_id: UUID, version: int) -> tuple[int, bytes] | None:
        """See ``Standing``."""
        position = self.position_of(stream_id, version)
        return None if position is None else (position, self.log(position - 1, 1)[0].state)

    def version_of(self, stream_id: UUID) -> int:
        """See ``Standing``."""
        with self._lock:
            return self.tables.version_of(stream_id)

    # -- jobs, units, leases -----------------------------------------------------------------------------------------

    def job(self, job_id: UUID) -> JobRow | None:
        """The job's row."""
        return self.jobs([job_id]).get(job_id)

    def jobs(self, job_ids: Sequence[UUID]) -> dict[UUID, JobRow]:
        """The rows of many jobs."""
        with self._lock:
            table = self.tables.table
            return {job: dict(table[job]) for job in job_ids if job in table}

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
        """See ``Store``."""
        wanted = {"status": status, "tenant": tenant, "owner": owner, "queue": queue, "kind": kind}
        with self._lock:
            found = [
                dict(row)
                for row in self.tables.rows()
                if all(value in (None, row[column]) for column, value in wanted.items())
            ]
        if before is not None:
            found = [row for row in found if (row["created_at"], row["id"].bytes) < (before[0], before[1].bytes)]
        if after is not None:
            found = [row for row in found if (row["created_at"], row["id"].bytes) > (after[0], after[1].bytes)]
        found.sort(key=lambda row: (row["created_at"], row["id"].bytes), reverse=True)
        return found[:limit] if after is None else found[-limit:]

    def children(self, parent_id: UUID) -> list[UUID]:
        """The jobs that a job has spawned."""
        with self._lock:
            return [row["id"] for row in self.tables.rows() if row["parent_id"] == str(parent_id)]

    def unit_states(
        self, job_id: UUID, units: Sequence[str] | None = None, *, prefix: str | None = None
    ) -> dict[str, bytes]:
        """Stored unit-completed bytes by unit key."""
        with self._lock:
            mine = {unit: state for (job, unit), state in self.tables.units.items() if job == job_id}
            if prefix is not None:
                mine = {unit: state for unit, state in mine.items() if unit.startswith(prefix)}
            if units is not None:
                mine = {unit: mine[unit] for unit in units if unit in mine}
            gone = {unit: self.tables.unit_versions.get((job_id, unit), 0) for unit in mine if not mine[unit]}
            found = self.bodies.at_versions(job_id, list(gone.values())) if gone else {}
        return mine | {unit: found[version] for unit, version in gone.items() if version in found}

    def count_units(self, job_id: UUID) -> int:
        """How many unit results a job has."""
        with self._lock:
            return self.tables.count_units(job_id)

    def receipt(self, request_id: str) -> tuple[str, str, str, str] | None:
        """(action, target, actor, answer) of a command."""
        with self._lock:
            return self.tables.receipts.get(request_id)

    def lease(self, job_id: UUID) -> LeaseRow | None:
        """The job's lease row."""
        with self._lock:
            return self.tables.lease_row(job_id)

    def queue_rows(self) -> dict[str, dict[str, Any]]:
        """The queues that were ever paused or limited."""
        with self._lock:
            return {
                name: {"paused": bool(row["paused"]), "slots": row["slots"], "generation": row["generation"]}
                for name, row in self.tables.queues.items()
            }

    def expired(self, limit: int) -> list[LeaseRow]:
        """See ``Store``."""
        with self._lock:
            now, boot = self.lease_now(), self.boot_id()
            found = [row for row in self.tables.lease_rows() if row.lease_until <= now or row.boot_id != boot]
        return sorted(found, key=lambda row: row.lease_until)[:limit]

    def held_by_others(self, presence: str, limit: int) -> list[LeaseRow]:
        """See ``Store``."""
        with self._lock:
            return [row for row in self.tables.lease_rows() if row.presence not in ("", presence)][:limit]

    def get_list(self, job_id: UUID, name: str) -> list[bytes]:
        """The chunks of a stored list."""
        with self._lock:
            return list(self.tables.lists.get((job_id, name), ()))

    # -- for workers and followers -----------------------------------------------------------------------------------

    def outlook(self, queues: Sequence[str], presence: str = "") -> Outlook:
        """One look at what there is to do."""
        with self._lock:
            ready = [row["crashes"] for row in self.tables.rows() if row["ready"] and row["queue"] in queues]
            due = min((row["due_at"] for row in self.tables.waiting()), default=None)
            leases = self.tables.lease_rows()
            wakes = bool(self.tables.free_keys())
        end = min((row.lease_until for row in leases), default=None)
        rebooted = any(row.boot_id != self.boot_id() for row in leases)
        others = sum(row.presence not in ("", presence) for row in leases)
        next_due = 0.0 if wakes else None if due is None else (due - self.now()) / 1_000_000
        next_end = 0.0 if rebooted else None if end is None else (end - self.lease_now()) / 1_000_000
        return Outlook(bool(ready), next_due, next_end, others, outbox=False, crashes=max(ready, default=0))

    def tracking_position(self, name: str) -> int | None:
        """How far the named follower has come."""
        with self._lock:
            return self.tables.tracking.get(name)
