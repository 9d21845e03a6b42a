"""The log in memory: the same rules in the plainest code, with faults that a test or the simulator can inject.

It is a real port, run through the same conformance suite; what it decides by looking at everything, the databases
decide by an index, so each is a check on the other.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import UUID

from ..domain.errors import (
    StoreError,
    StoreUnavailableError,
    UnknownOutcomeError,
)
from .append import Append, Stored
from .clock import SystemClock
from .diagnosis import diagnose
from .failpoint import failpoint
from .memory_append import check, write
from .memory_archives import MemoryArchives
from .memory_claim import pick_from
from .memory_reads import MemoryReads
from .memory_rebuild import MemoryRebuild
from .memory_views import MemoryViews
from .proof_memory import MemoryProofs
from .store import (
    ClaimQuery,
    ConflictError,
    JobRow,
    LoggedEvent,
    RowChange,
    Seen,
    SnapshotRow,
    check_generation,
    check_seen,
)
from .wake import Waker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from ..domain.lease import Token
    from ..domain.ports import Clock
    from .gates import GateAnswer, GateEntry, GateRow, GateState
    from .store import AtomicTransaction


class MemoryStore(MemoryReads):
    """See ``Store``."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        super().__init__(clock or SystemClock())
        self.waker = Waker()
        #: refuse, lose-request, lose-answer: each is drawn once, in order, by the next write
        self.faults: deque[str] = deque()
        self.fired: dict[str, int] = {}
        self.proofs = MemoryProofs(self)
        self.archives = MemoryArchives(self)
        self._rebuild = MemoryRebuild(self.tables, self.bodies)
        self.views = MemoryViews(self)

    # -- life --------------------------------------------------------------------------------------------------------

    def reopen(self) -> None:
        """The same log after the end of its process."""
        self._closed = False
        self.tables.snapshots.clear()  # written without being acknowledged: a crash may drop them

    def release_thread(self) -> None:
        """Nothing is held."""

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
        with self._injected():
            with self._lock:
                first = self._append(batch, generation, seen)
            failpoint("append.after_commit")
        failpoint("append.acknowledged")
        return first

    @contextmanager
    def _injected(self) -> Iterator[None]:
        """A write under the next of ``faults``: refused, or its request or its answer is lost."""
        fault = self.faults.popleft() if self.faults else ""
        if fault:
            self.fired[fault] = self.fired.get(fault, 0) + 1
        if fault == "refuse":
            raise StoreUnavailableError("injected: refused")
        if fault == "lose-request":
            raise UnknownOutcomeError("injected: request lost")
        yield
        if fault == "lose-answer":
            raise UnknownOutcomeError("injected: answer lost")

    def _append(self, batch: Sequence[Append], generation: int, seen: Seen) -> int:
        self.check_usable()
        failpoint("append.begin")
        check_seen(seen, self.tables.epoch, len(self.tables.log))
        check_generation(self.tables.generation, generation)
        check(self.tables, batch)
        for point in ("units_inserted", "rows_written", "locked", "events_inserted", "before_commit"):
            failpoint(f"append.{point}")
        first = len(self.tables.log) + 1
        for append in batch:
            write(self.tables, append)
        return first

    def diagnose(self, append: Append) -> Stored:
        """See ``Store``."""
        with self._lock:
            return diagnose(self, append)

    def put_snapshots(self, rows: Sequence[tuple[UUID, SnapshotRow, int]]) -> None:
        """See ``Store``."""
        failpoint("snapshot.before")
        with self._lock:
            failpoint("snapshot.before_commit")
            for stream_id, row, _ in rows:
                kept = self.tables.snapshots.get(stream_id)
                if kept is None or kept.version < row.version:
                    self.tables.snapshots[stream_id] = row
        failpoint("snapshot.after")

    def raise_epoch(self, append: Append, epoch: int) -> int:
        """See ``Store``."""
        with self._lock:
            if epoch <= self.tables.epoch:
                raise ConflictError(f"the epoch is {self.tables.epoch} already")
            check(self.tables, [append])
            self.tables.epoch = epoch
            for lease in self.tables.leases.values():
                lease.until = 0
            write(self.tables, append)
            return len(self.tables.log)

    # -- claim and lease ---------------------------------------------------------------------------------------------

    def claim(
        self, query: ClaimQuery, build: Callable[[list[JobRow], int], list[Append]], generation: int, seen: Seen
    ) -> tuple[list[Append], int]:
        """See ``Store``."""
        with self._injected():
            with self._lock:
                failpoint("claim.begin")
                now = self.now()
                batch = build(pick_from(self.tables, query, now), now)
                failpoint("claim.selected")
                failpoint("claim.before_commit")
                first = self._append(batch, generation, seen) if batch else 0
            failpoint("claim.after_commit")
        return batch, first

    def claim_candidates(self, query: ClaimQuery, generation: int) -> list[JobRow]:
        """See ``Store``."""
        del generation
        with self._lock:
            return pick_from(self.tables, query, self.now())

    def replace_row(self, job_id: UUID, row: JobRow | None, generation: int) -> None:
        """See ``Store``."""
        with self._lock:
            if self.tables.version_of(job_id) != (row["version"] if row else 0):
                return
            table = self.tables.jobs[generation % 2]
            table.pop(job_id, None)
            if row is not None:
                table[job_id] = row

    def renew(self, held: Sequence[tuple[UUID, Token]], micros: int) -> set[UUID]:
        """See ``Store``."""
        failpoint("renew.before")
        renewed = set()
        with self._lock:
            for job, token in held:
                lease = self.tables.leases.get(job)
                if lease and lease.token == token and self.tables.is_live(lease):
                    lease.until = max(lease.until, self.lease_now() + micros)
                    renewed.add(job)
        failpoint("renew.after")
        return renewed

    def promote(self, limit: int) -> tuple[int, int | None]:
        """See ``Store``."""
        with self._lock:
            free = self.tables.free_keys()
            for key in free:
                self.tables.unblock(key)
            waiting, now = self.tables.waiting(), self.now()
            due = [row for row in waiting if row["due_at"] <= now][:limit]
            failpoint("promote.before_commit")
            for row in due:
                row["ready"] = 1
            rest = [row["due_at"] for row in waiting[len(due) :]]
        failpoint("promote.after_commit")
        return len(free) + len(due), (rest[0] if rest else None)

    # -- gates -------------------------------------------------------------------------------------------------------

    def set_gate(self, gate: str, slots: int | None, closed_until: int) -> None:
        """See ``Store``."""
        with self._lock:
            self.tables.gates.put(gate, slots, closed_until)

    def enter_gate(self, entry: GateEntry) -> GateAnswer:
        """See ``Store``."""
        with self._lock:
            answer = self.tables.gates.enter(entry, self.now())
            failpoint("gate.before_commit")
        failpoint("gate.after_commit")
        return answer

    def gate_rows(self, names: Sequence[str]) -> dict[str, GateRow]:
        """See ``Store``."""
        with self._lock:
            return {name: self.tables.gates.rows[name] for name in names if name in self.tables.gates.rows}

    def leave_gate(self, gate: str, entry: str, *, spaced: bool = False) -> None:
        """See ``Store``."""
        with self._lock:
            self.tables.gates.leave(gate, entry, self.now() if spaced else None)

    def close_gate(self, gate: str, until: int, *, by: str, reason: str) -> int:
        """See ``Store``."""
        with self._lock:
            return self.tables.gates.close(gate, until, self.now(), by=by, reason=reason)

    def gates(self, gate: str | None = None) -> list[GateState]:
        """See ``Store``."""
        with self._lock:
            jobs = [lease.gate for lease in self.tables.leases.values()]
            return self.tables.gates.states(gate, self.now(), jobs)

    def next_opening(self) -> float | None:
        """See ``Store``."""
        with self._lock:
            now = self.now()
            closed = [row.closed_until for row in self.tables.gates.rows.values() if row.closed_until > now]
        return (min(closed) - now) / 1_000_000 if closed else None

    # -- lists of items ----------------------------------------------------------------------------------------------

    def put_list(self, job_id: UUID, name: str, chunks: Sequence[bytes]) -> None:
        """Store a list before its first unit."""
        with self._lock:
            self.tables.lists[job_id, name] = list(chunks)

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
            begun = self._rebuild.begin(owner, micros)
        failpoint("rebuild.begun")
        return begun

    def rebuild_write(self, generation: int, rows: Sequence[RowChange], position: int, owner: str, micros: int) -> None:
        """See ``Store``."""
        with self._lock:
            self._rebuild.write(generation, rows, position, owner, micros)
        failpoint("rebuild.batch")

    def rebuild_switch(
        self, generation: int, position: int, owner: str, fold: Callable[[list[LoggedEvent]], list[RowChange]]
    ) -> int:
        """See ``Store``."""
        with self._lock:
            head = self._rebuild.switch(generation, position, owner, fold)
        failpoint("rebuild.after_switch")
        return head

    def rebuild_drop_old(self) -> None:
        """See ``Store``."""
        with self._lock:
            self._rebuild.drop_old()
        failpoint("rebuild.dropped")

    def atomic(self) -> AbstractContextManager[AtomicTransaction]:
        """There are no rows of a user here."""
        raise StoreError("the store in memory has no SQL: use atomic() with SQLite or PostgreSQL")

    # -- followers ---------------------------------------------------------------------------------------------------

    def track(self, name: str, position: int) -> bool:
        """Move it forward."""
        with self._lock:
            if (have := self.tables.tracking.get(name)) is not None and have >= position:
                return False
            self.tables.tracking[name] = position
            return True

    def untrack(self, name: str) -> None:
        """Forget a follower."""
        self.tables.tracking.pop(name, None)

    def serving(self) -> AbstractContextManager[None]:
        """The store's lock, for what is kept beside the log."""
        return self._lock
