"""The log in memory: the same rules in the plainest code, with faults that a test or the simulator can inject.

It is a real port, run through the same conformance suite; what it decides by looking at everything, the databases
decide by an index, so each is a check on the other.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ..domain.errors import (
    RebuildRunningError,
    StoreClosedError,
    StoreError,
    StoreUnavailableError,
    UnknownOutcomeError,
)
from .append import Append, EventRow, Stored
from .claim_order import level, pick
from .clock import SystemClock, micros, new_uuid
from .diagnosis import diagnose
from .failpoint import failpoint
from .gates import GateRow
from .memory_gates import MemoryGates
from .memory_views import MemoryViews
from .proof_memory import MemoryProofs
from .store import (
    NOT_CONSECUTIVE,
    ClaimQuery,
    ConflictError,
    JobRow,
    LeaseRow,
    LoggedEvent,
    LogState,
    Outlook,
    RowChange,
    Seen,
    SnapshotRow,
    check_generation,
    check_seen,
)
from .wake import Waker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from ..domain.lease import Token
    from ..domain.ports import Clock
    from .gates import GateAnswer, GateEntry, GateState
    from .store import AtomicTransaction


class _Serving:
    """The store's lock, to be had while the store is open."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._store.check_usable()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class MemoryStore:
    """See ``Store``."""

    dialect = "memory"

    def __init__(self, *, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self.waker = Waker()
        #: refuse, lose-request, lose-answer: each is drawn once, in order, by the next write
        self.faults: deque[str] = deque()
        self.fired: dict[str, int] = {}
        self._lock = _Serving(self)
        self._store_id = new_uuid()
        self._epoch, self._generation = 1, 0
        self._log: list[LoggedEvent] = []
        self._streams: dict[UUID, list[int]] = {}
        self._jobs: tuple[dict[UUID, JobRow], dict[UUID, JobRow]] = ({}, {})
        self._leases: dict[UUID, dict[str, Any]] = {}
        self._units: dict[tuple[UUID, str], bytes] = {}
        self._receipts: dict[str, tuple[str, str, str, str]] = {}
        self._queues: dict[str, dict[str, Any]] = {}
        self._gates = MemoryGates(self._slot_stands)
        self._snapshots: dict[UUID, SnapshotRow] = {}
        self._tracking: dict[str, int] = {}
        self._lists: dict[tuple[UUID, str], list[bytes]] = {}
        self.proofs = MemoryProofs(self)
        self._closed = False
        self._rebuild: tuple[int, int, str, int] | None = None
        self.views = MemoryViews(self)

    # -- life --------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Refuse everything from now on."""
        self._closed = True

    def reopen(self) -> None:
        """The same log after the end of its process."""
        self._closed = False
        self._snapshots.clear()  # written without being acknowledged: a crash may drop them

    def release_thread(self) -> None:
        """Nothing is held."""

    def check_usable(self) -> None:
        """Refuse use after ``close``."""
        if self._closed:
            raise StoreClosedError("this log was closed; open it again")

    def now(self) -> int:
        """Wall clock, microseconds."""
        return micros(self.clock.now())

    def lease_now(self) -> int:
        """Boot clock, microseconds."""
        return round(self.clock.boottime() * 1_000_000)

    def boot_id(self) -> str:
        """This boot."""
        return self.clock.boot_id()

    def state(self) -> LogState:
        """Epoch, generation and head."""
        with self._lock:
            return LogState(self._store_id, self._epoch, self._generation, len(self._log))

    # -- append ------------------------------------------------------------------------------------------------------

    def turn(self, *, blocking: bool) -> bool:
        """Nothing to wait for."""
        del blocking
        return True

    def end_turn(self) -> None:
        """Nothing to give back."""

    def append(self, batch: Sequence[Append], generation: int, seen: Seen, *, side: bool = False) -> int:
        """See ``Store``."""
        del side
        fault = self._draw()
        if fault == "refuse":
            raise StoreUnavailableError("injected: refused")
        if fault == "lose-request":
            raise UnknownOutcomeError("injected: request lost")
        with self._lock:
            first = self._append(batch, generation, seen)
        failpoint("append.after_commit")
        if fault == "lose-answer":
            raise UnknownOutcomeError("injected: answer lost")
        failpoint("append.acknowledged")
        return first

    def _draw(self) -> str | None:
        if not self.faults:
            return None
        fault = self.faults.popleft()
        self.fired[fault] = self.fired.get(fault, 0) + 1
        return fault

    def _append(self, batch: Sequence[Append], generation: int, seen: Seen) -> int:
        self.check_usable()
        failpoint("append.begin")
        check_seen(seen, self._epoch, len(self._log))
        check_generation(self._generation, generation)
        self._check(batch)
        for point in ("units_inserted", "rows_written", "locked", "events_inserted", "before_commit"):
            failpoint(f"append.{point}")
        first = len(self._log) + 1
        for append in batch:
            self._write(append)
        return first

    def _check(self, batch: Sequence[Append]) -> None:
        """Everything that must hold, before anything is written."""
        versions: dict[UUID, int] = {}
        units: set[tuple[UUID, str]] = set()
        keys = {lease["exclusive_key"] for lease in self._leases.values()} - {""}
        for append in batch:
            stream = append.stream_id
            have = versions.get(stream, len(self._streams.get(stream, ())))
            if have != append.expected or (append.row and append.expected and self._row_version(stream, have) != have):
                raise ConflictError(f"{stream} is at {have}")
            if [event.version for event in append.events] != list(range(have + 1, have + 1 + len(append.events))):
                raise ConflictError(NOT_CONSECUTIVE)
            versions[stream] = append.expected + len(append.events)
            new = {(stream, unit) for unit, _ in append.units}
            if len(new) != len(append.units) or new & units or any(unit in self._units for unit in new):
                raise ConflictError("unit key")
            units |= new
            if append.evidence is not None and self.count_units(stream) + len(new) != append.evidence:
                raise ConflictError("evidence")
            self._check_lease(append, keys)
            if append.receipt is not None and append.receipt.request_id in self._receipts:
                raise ConflictError("receipt")
            if append.tracking is not None and self._tracking.get(append.tracking[0], 0) >= append.tracking[1]:
                raise ConflictError("tracking")

    def _row_version(self, stream: UUID, default: int) -> int:
        row = self._jobs[self._generation % 2].get(stream)
        return default if row is None else row["version"]

    def _check_lease(self, append: Append, keys: set[str]) -> None:
        lease = self._leases.get(append.stream_id)
        if append.fence is not None and not (lease and lease["token"] == append.fence.token and self._is_live(lease)):
            raise ConflictError("lease")
        if (takeover := append.takeover) is not None:
            held = lease and lease["token"] == takeover.token
            if not held or (self._is_live(lease) and not takeover.proven):
                raise ConflictError("lease")
        if (grant := append.grant) is not None:
            if lease is not None and append.takeover is None:
                raise ConflictError("lease")
            if grant.exclusive_key and grant.exclusive_key in keys:
                raise ConflictError("exclusive key")
            keys.add(grant.exclusive_key)

    def _is_live(self, lease: dict[str, Any] | None) -> bool:
        return lease is not None and lease["until"] > self.lease_now() and lease["boot"] == self.boot_id()

    def _write(self, append: Append) -> None:
        stream = append.stream_id
        for version, topic, state in append.events:
            self._log.append(LoggedEvent(len(self._log) + 1, stream, version, topic, state))
            self._streams.setdefault(stream, []).append(len(self._log))
        for unit, index in append.units:
            self._units[stream, unit] = append.events[index].state
        if append.row:
            self._jobs[self._generation % 2].setdefault(stream, {}).update(append.row)
        self._write_lease(append)
        if append.receipt is not None:
            request_id, *answer = append.receipt
            self._receipts[request_id] = tuple(answer)  # type: ignore[assignment]
        if append.queue_row is not None:
            self._queues[append.queue_row["queue"]] = append.queue_row
        if append.gate_row is not None:
            self._gates.change(GateRow(**append.gate_row))
        if append.tracking is not None:
            self._tracking.update([append.tracking])

    def _write_lease(self, append: Append) -> None:
        stream = append.stream_id
        if append.takeover is not None or (append.fence is not None and append.fence.end):
            self._unblock(self._leases.pop(stream)["exclusive_key"])
        elif append.fence is not None and append.fence.renew:
            lease = self._leases[stream]
            lease["until"] = max(lease["until"], self.lease_now() + append.fence.renew)
        if (g := append.grant) is not None:
            lease = {"token": g.token, "worker": g.worker, "until": self.lease_now() + g.micros, "boot": self.boot_id()}
            lease |= {"queue": g.queue, "gate": g.gate, "exclusive_key": g.exclusive_key, "presence": g.presence}
            self._leases[stream] = lease

    def _unblock(self, key: str) -> None:
        if not key:
            return
        blocked = [row for row in self._rows() if row["exclusive_key"] == key and row["blocked"]]
        if blocked:
            row = min(blocked, key=lambda row: (row["priority"], row["due_at"], row["id"].bytes))
            row["ready"], row["blocked"] = 1, 0

    def event_at(self, stream_id: UUID, version: int) -> tuple[int, bytes] | None:
        """See ``Standing``."""
        position = self.position_of(stream_id, version)
        return None if position is None else (position, self._log[position - 1].state)

    def version_of(self, stream_id: UUID) -> int:
        """See ``Standing``."""
        with self._lock:
            return len(self._streams.get(stream_id, ()))

    def diagnose(self, append: Append) -> Stored:
        """See ``Store``."""
        with self._lock:
            return diagnose(self, append)

    def raise_epoch(self, append: Append, epoch: int) -> int:
        """See ``Store``."""
        with self._lock:
            if epoch <= self._epoch:
                raise ConflictError(f"the epoch is {self._epoch} already")
            self._check([append])
            self._epoch = epoch
            for lease in self._leases.values():
                lease["until"] = 0
            self._write(append)
            return len(self._log)

    # -- read --------------------------------------------------------------------------------------------------------

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
            positions = self._streams.get(stream_id, [])[after:upto]
            if newest_first:
                positions = positions[::-1]
            return [EventRow(*self._log[p - 1][2:]) for p in positions[:limit]]

    def read_many(self, stream_ids: Sequence[UUID]) -> dict[UUID, tuple[SnapshotRow | None, list[EventRow]]]:
        """Snapshot and tail of many streams."""
        with self._lock:
            found = {}
            for stream in stream_ids:
                kept = self._snapshots.get(stream)
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
        bare: Sequence[str] = (),
    ) -> list[LoggedEvent]:
        """The log behind *after*."""
        with self._lock:
            found = (e for e in self._log[after:upto] if not topics or e.topic in topics)
            page = [event for _, event in zip(range(limit), found, strict=False)]
        return [event._replace(state=b"") if event.topic in bare else event for event in page] if bare else page

    def head(self) -> int:
        """The last position."""
        with self._lock:
            return len(self._log)

    def position_of(self, stream_id: UUID, version: int) -> int | None:
        """The position of one event."""
        with self._lock:
            positions = self._streams.get(stream_id, [])
            return positions[version - 1] if 0 < version <= len(positions) else None

    def snapshot(self, stream_id: UUID) -> SnapshotRow | None:
        """The last snapshot."""
        with self._lock:
            return self._snapshots.get(stream_id)

    def put_snapshots(self, rows: Sequence[tuple[UUID, SnapshotRow, int]]) -> None:
        """See ``Store``."""
        failpoint("snapshot.before")
        with self._lock:
            failpoint("snapshot.before_commit")
            for stream_id, row, _ in rows:
                kept = self._snapshots.get(stream_id)
                if kept is None or kept.version < row.version:
                    self._snapshots[stream_id] = row
        failpoint("snapshot.after")

    def _rows(self) -> list[JobRow]:
        return list(self._jobs[self._generation % 2].values())

    def job(self, job_id: UUID) -> JobRow | None:
        """The job's row."""
        return self.jobs([job_id]).get(job_id)

    def jobs(self, job_ids: Sequence[UUID]) -> dict[UUID, JobRow]:
        """The rows of many jobs."""
        with self._lock:
            table = self._jobs[self._generation % 2]
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
                for row in self._rows()
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
            return [row["id"] for row in self._rows() if row["parent_id"] == str(parent_id)]

    def unit_states(
        self, job_id: UUID, units: Sequence[str] | None = None, *, prefix: str | None = None
    ) -> dict[str, bytes]:
        """Stored unit-completed bytes by unit key."""
        with self._lock:
            mine = {unit: state for (job, unit), state in self._units.items() if job == job_id}
        if prefix is not None:
            return {unit: state for unit, state in mine.items() if unit.startswith(prefix)}
        return mine if units is None else {unit: mine[unit] for unit in units if unit in mine}

    def count_units(self, job_id: UUID) -> int:
        """How many unit results a job has."""
        with self._lock:
            return sum(job == job_id for job, _ in self._units)

    def receipt(self, request_id: str) -> tuple[str, str, str, str] | None:
        """(action, target, actor, answer) of a command."""
        with self._lock:
            return self._receipts.get(request_id)

    def _lease_row(self, job_id: UUID, lease: dict[str, Any]) -> LeaseRow:
        return LeaseRow(job_id, lease["token"], lease["worker"], lease["until"], lease["boot"], lease["presence"])

    def lease(self, job_id: UUID) -> LeaseRow | None:
        """The job's lease row."""
        with self._lock:
            lease = self._leases.get(job_id)
            return None if lease is None else self._lease_row(job_id, lease)

    def queue_rows(self) -> dict[str, dict[str, Any]]:
        """The queues that were ever paused or limited."""
        with self._lock:
            return {
                name: {"paused": bool(row["paused"]), "slots": row["slots"], "generation": row["generation"]}
                for name, row in self._queues.items()
            }

    # -- claim and lease ---------------------------------------------------------------------------------------------

    def claim(
        self, query: ClaimQuery, build: Callable[[list[JobRow], int], list[Append]], generation: int, seen: Seen
    ) -> tuple[list[Append], int]:
        """See ``Store``."""
        fault = self._draw()
        if fault == "refuse":
            raise StoreUnavailableError("injected: refused")
        if fault == "lose-request":
            raise UnknownOutcomeError("injected: request lost")
        with self._lock:
            failpoint("claim.begin")
            now = self.now()
            rows = self._pick(query, now)
            batch = build(rows, now)
            failpoint("claim.selected")
            failpoint("claim.before_commit")
            first = self._append(batch, generation, seen) if batch else 0
        failpoint("claim.after_commit")
        if fault == "lose-answer":
            raise UnknownOutcomeError("injected: answer lost")
        return batch, first

    def _pick(self, query: ClaimQuery, now: int) -> list[JobRow]:
        room = {f"queue {queue}": self._free("queue", queue, now) for queue in query.queues}
        room |= {f"gate {gate}": self._free("gate", gate, now) for gate in self._gates.rows}

        def look(reach: int) -> list[JobRow]:
            lanes: dict[tuple[Any, ...], list[JobRow]] = {}
            for row in self._rows():
                if (
                    _fits(row, query, now)
                    and room[f"queue {row['queue']}"] != 0
                    and room.get(f"gate {row['gate']}") != 0
                ):
                    lanes.setdefault((row["queue"], row["kind"], row["gate"], row["priority"]), []).append(row)
            return [head for rows in lanes.values() for head in _heads(rows, query.after_tenant, reach, now)]

        return pick(look, query.limit, room, self._held_keys, self._block)

    def _held_keys(self, keys: set[str]) -> set[str]:
        return keys & {lease["exclusive_key"] for lease in self._leases.values()}

    def _block(self, rows: list[JobRow]) -> None:
        for row in rows:
            live = self._jobs[self._generation % 2][row["id"]]
            live["ready"], live["blocked"] = 0, 1

    def _free(self, what: str, name: str, now: int) -> int | None:
        if what == "queue":
            row = self._queues.get(name)
            if row is None:
                return None
            if row["paused"]:
                return 0
            slots: int | None = row["slots"]
        else:
            slots, closed_until = self._gates.rows[name].slots, self._gates.rows[name].closed_until
            if closed_until > now:
                return 0
        if slots is None:
            return None
        running = {job for job, lease in self._leases.items() if lease[what] == name}
        if what == "gate":
            leases = {(job, lease["token"]) for job, lease in self._leases.items()}
            running |= {job for job, _ in self._gates.holders(name) & leases}
        return max(slots - len(running), 0)

    def claim_candidates(self, query: ClaimQuery, generation: int) -> list[JobRow]:
        """See ``Store``."""
        del generation
        with self._lock:
            return self._pick(query, self.now())

    def replace_row(self, job_id: UUID, row: JobRow | None, generation: int) -> None:
        """See ``Store``."""
        with self._lock:
            if len(self._streams.get(job_id, ())) != (row["version"] if row else 0):
                return
            self._jobs[generation % 2].pop(job_id, None)
            if row is not None:
                self._jobs[generation % 2][job_id] = row

    def renew(self, held: Sequence[tuple[UUID, Token]], micros: int) -> set[UUID]:
        """See ``Store``."""
        failpoint("renew.before")
        renewed = set()
        with self._lock:
            for job, token in held:
                lease = self._leases.get(job)
                if lease and lease["token"] == token and self._is_live(lease):
                    lease["until"] = max(lease["until"], self.lease_now() + micros)
                    renewed.add(job)
        failpoint("renew.after")
        return renewed

    def expired(self, limit: int) -> list[LeaseRow]:
        """See ``Store``."""
        with self._lock:
            found = [self._lease_row(job, lease) for job, lease in self._leases.items() if not self._is_live(lease)]
        return sorted(found, key=lambda row: row.lease_until)[:limit]

    def held_by_others(self, presence: str, limit: int) -> list[LeaseRow]:
        """See ``Store``."""
        with self._lock:
            found = [self._lease_row(job, lease) for job, lease in self._leases.items()]
        return [row for row in found if row.presence not in ("", presence)][:limit]

    def promote(self, limit: int) -> tuple[int, int | None]:
        """See ``Store``."""
        with self._lock:
            free = self._free_keys()
            for key in free:
                self._unblock(key)
            waiting = [
                r for r in self._rows() if not r["ready"] and not r["blocked"] and r["status"] in ("queued", "waiting")
            ]
            waiting.sort(key=lambda row: (row["due_at"], row["id"].bytes))
            now = self.now()
            due = [row for row in waiting if row["due_at"] <= now][:limit]
            failpoint("promote.before_commit")
            for row in due:
                row["ready"] = 1
            rest = [row["due_at"] for row in waiting[len(due) :]]
        failpoint("promote.after_commit")
        return len(free) + len(due), (rest[0] if rest else None)

    def _free_keys(self) -> set[str]:
        """The exclusive keys with jobs that wait for them and no holder."""
        waited = {row["exclusive_key"] for row in self._rows() if row["blocked"]}
        return waited - self._held_keys(waited)

    # -- gates -------------------------------------------------------------------------------------------------------

    def _slot_stands(self, job_id: UUID, token: Token) -> bool:
        lease = self._leases.get(job_id)
        return lease is not None and lease["token"] == token and self._is_live(lease)

    def set_gate(self, gate: str, slots: int | None, closed_until: int) -> None:
        """See ``Store``."""
        with self._lock:
            self._gates.put(gate, slots, closed_until)

    def enter_gate(self, entry: GateEntry) -> GateAnswer:
        """See ``Store``."""
        with self._lock:
            answer = self._gates.enter(entry, self.now())
            failpoint("gate.before_commit")
        failpoint("gate.after_commit")
        return answer

    def leave_gate(self, gate: str, entry: str) -> None:
        """See ``Store``."""
        with self._lock:
            self._gates.turns.pop((gate, entry), None)

    def close_gate(self, gate: str, until: int, *, by: str, reason: str) -> int:
        """See ``Store``."""
        with self._lock:
            return self._gates.close(gate, until, self.now(), by=by, reason=reason)

    def gates(self, gate: str | None = None) -> list[GateState]:
        """See ``Store``."""
        with self._lock:
            jobs = [lease["gate"] for lease in self._leases.values()]
            return self._gates.states(gate, self.now(), jobs)

    def next_opening(self) -> float | None:
        """See ``Store``."""
        with self._lock:
            now = self.now()
            closed = [row.closed_until for row in self._gates.rows.values() if row.closed_until > now]
        return (min(closed) - now) / 1_000_000 if closed else None

    # -- lists of items ----------------------------------------------------------------------------------------------

    def put_list(self, job_id: UUID, name: str, chunks: Sequence[bytes]) -> None:
        """Store a list before its first unit."""
        with self._lock:
            self._lists[job_id, name] = list(chunks)

    def get_list(self, job_id: UUID, name: str) -> list[bytes]:
        """The chunks of a stored list."""
        with self._lock:
            return list(self._lists.get((job_id, name), ()))

    # -- outbox: there is no transaction of an application to share ---------------------------------------------------

    def outbox(self, limit: int, *, after: int = 0) -> list[tuple[int, str]]:
        """Always empty."""
        del limit, after
        return []

    def delete_outbox(self, ids: Sequence[int]) -> None:
        """Nothing to remove."""

    def outbox_spec(self, job_id: UUID) -> str | None:
        """Never there."""
        del job_id
        return None

    # -- rebuild of the job table ------------------------------------------------------------------------------------

    def rebuild_begin(self, owner: str, micros: int) -> tuple[int, int]:
        """See ``Store``."""
        with self._lock:
            generation, found, now = self._generation + 1, self._rebuild, self.now()
            if found is not None and found[2] != owner and found[3] > now:
                raise RebuildRunningError(f"{found[2]} is rebuilding at position {found[1]}")
            position = found[1] if found is not None and found[0] == generation else 0
            if position == 0:
                self._jobs[generation % 2].clear()
            self._rebuild = (generation, position, owner, now + micros)
        failpoint("rebuild.begun")
        return generation, position

    def rebuild_write(self, generation: int, rows: Sequence[RowChange], position: int, owner: str, micros: int) -> None:
        """See ``Store``."""
        with self._lock:
            self._check_rebuild(generation, owner)
            self._write_rebuilt(generation, rows)
            self._rebuild = (generation, position, owner, self.now() + micros)
        failpoint("rebuild.batch")

    def _check_rebuild(self, generation: int, owner: str) -> None:
        if self._rebuild is None or self._rebuild[0] != generation or self._rebuild[2] != owner:
            raise RebuildRunningError("this rebuild was taken over by another process")

    def _write_rebuilt(self, generation: int, rows: Sequence[RowChange]) -> None:
        table = self._jobs[generation % 2]
        for job_id, is_new, row in rows:
            if is_new or job_id in table:  # else a stream of newer code that is no job
                table[job_id] = dict(row) if is_new else {**table[job_id], **row}

    def rebuild_switch(
        self, generation: int, position: int, owner: str, fold: Callable[[list[LoggedEvent]], list[RowChange]]
    ) -> int:
        """See ``Store``."""
        with self._lock:
            self._check_rebuild(generation, owner)
            self._write_rebuilt(generation, fold(self._log[position:]))
            failpoint("rebuild.before_switch")
            self._generation, self._rebuild = generation, None
        failpoint("rebuild.after_switch")
        return len(self._log)

    def rebuild_drop_old(self) -> None:
        """See ``Store``."""
        with self._lock:
            if self._rebuild is None:
                self._jobs[(self._generation + 1) % 2].clear()
        failpoint("rebuild.dropped")

    # -- for workers -------------------------------------------------------------------------------------------------

    def outlook(self, queues: Sequence[str], presence: str = "") -> Outlook:
        """One look at what there is to do."""
        with self._lock:
            rows = self._rows()
            ready = any(row["ready"] and row["queue"] in queues for row in rows)
            waiting = [r for r in rows if not r["ready"] and not r["blocked"] and r["status"] in ("queued", "waiting")]
            due = min((row["due_at"] for row in waiting), default=None)
            end = min((lease["until"] for lease in self._leases.values()), default=None)
            wakes, rebooted = bool(self._free_keys()), any(e["boot"] != self.boot_id() for e in self._leases.values())
            others = sum(lease["presence"] not in ("", presence) for lease in self._leases.values())
        next_due = 0.0 if wakes else None if due is None else (due - self.now()) / 1_000_000
        next_end = 0.0 if rebooted else None if end is None else (end - self.lease_now()) / 1_000_000
        return Outlook(ready, next_due, next_end, others, outbox=False)

    def has_suspects(self, queues: Sequence[str], crashes: int) -> bool:
        """Whether a suspect is ready."""
        with self._lock:
            return any(r["ready"] and r["crashes"] >= crashes and r["queue"] in queues for r in self._rows())

    def atomic(self) -> AbstractContextManager[AtomicTransaction]:
        """There are no rows of a user here."""
        raise StoreError("the store in memory has no SQL: use atomic() with SQLite or PostgreSQL")

    # -- followers ---------------------------------------------------------------------------------------------------

    def tracking_position(self, name: str) -> int | None:
        """How far the named follower has come."""
        with self._lock:
            return self._tracking.get(name)

    def track(self, name: str, position: int) -> bool:
        """Move it forward."""
        with self._lock:
            if (have := self._tracking.get(name)) is not None and have >= position:
                return False
            self._tracking[name] = position
            return True

    def untrack(self, name: str) -> None:
        """Forget a follower."""
        self._tracking.pop(name, None)

    def serving(self) -> AbstractContextManager[None]:
        """The store's lock, for what is kept beside the log."""
        return self._lock


def _fits(row: JobRow, query: ClaimQuery, now: int) -> bool:
    if not row["ready"] or row["queue"] not in query.queues or row["due_at"] > max(now, row["updated_at"]):
        return False
    if row["crashes"] > query.max_crashes or row["vocabulary"] > query.vocabulary:
        return False
    return query.kinds is None or row["kind"] in query.kinds


def _heads(rows: list[JobRow], after_tenant: str, reach: int, now: int) -> list[JobRow]:
    """The oldest due of each tenant in one lane and priority, annotated for ``choose``."""
    tenants = sorted({row["tenant"] for row in rows})
    tenants = [t for t in tenants if t > after_tenant] + [t for t in tenants if t <= after_tenant]
    tenants = tenants[:reach]
    share = -(-reach // len(tenants))
    found: list[JobRow] = []
    for turn, tenant in enumerate(tenants):
        mine = sorted((r for r in rows if r["tenant"] == tenant), key=lambda row: (row["due_at"], row["id"].bytes))
        found += [{**row, "round": index, "turn": turn} for index, row in enumerate(mine[:share])]
    oldest = min(row["due_at"] for row in found)
    return [{**row, "level": level(row["priority"], oldest, now)} for row in found]
