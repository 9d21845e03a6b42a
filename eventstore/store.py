"""What a store of the log must do: one port, three adapters (memory, SQLite, PostgreSQL), one conformance suite."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from ..domain.errors import EpochChangedError, GenerationChangedError, LogRewoundError
from .append import EventRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from uuid import UUID

    import sqlalchemy as sa

    from ..domain.lease import Token
    from .append import Append, Stored
    from .bodies import Bodies
    from .gates import GateAnswer, GateEntry, GateRow, GateState
    from .views import Views

JobRow = dict[str, Any]


class LogState(NamedTuple):
    """Where the log stands."""

    store_id: UUID
    epoch: int
    generation: int
    head: int  #: the last position; 0 in an empty log


class LoggedEvent(NamedTuple):
    """One event as stored, with its position."""

    position: int
    stream_id: UUID
    version: int
    topic: str
    state: bytes


class SnapshotRow(NamedTuple):
    """The last snapshot of a stream."""

    version: int
    topic: str
    state: bytes


class LeaseRow(NamedTuple):
    """A lease as it stands in the store."""

    job_id: UUID
    token: Token
    worker: str
    lease_until: int  #: on the store's lease clock, microseconds
    boot_id: str
    presence: str


class RowChange(NamedTuple):
    """What a rebuild writes for one job: a whole new row, or the columns that change."""

    job_id: UUID
    is_new: bool
    row: JobRow


@dataclass(frozen=True, slots=True)
class ClaimQuery:
    """Which due jobs a worker would take.

    *after_tenant* is where the turn of the tenants stands: those behind it come first.
    """

    queues: tuple[str, ...]
    limit: int
    vocabulary: int
    kinds: tuple[str, ...] | None = None
    after_tenant: str = ""
    max_crashes: int = 2**31 - 1  #: leave jobs whose holders died more often at their checkpoint


class Outlook(NamedTuple):
    """What a worker needs to know to decide whether to claim: one cheap look."""

    ready: bool  #: some job of these queues may be claimed now
    next_due: float | None  #: seconds until the next instant that waits; 0 or less: promote
    next_end: float | None  #: seconds until the first lease ends; 0 or less: expire
    others: int  #: leases of others that have a presence file
    outbox: bool  #: something was submitted inside an application's transaction
    crashes: int  #: of a ready job, at its checkpoint; the most there are


class AtomicTransaction(Protocol):
    """A write transaction that the user's rows and an append share."""

    connection: sa.Connection

    def hold(self, job_id: UUID, generation: int) -> None:
        """Keep everybody else's appends from the job until the transaction ends."""

    def append(self, append: Append, generation: int, seen: Seen) -> int:
        """Write *append* in this transaction; raises as ``Store.append``, undoing only itself."""


class Seen(NamedTuple):
    """The newest this process knows of the log; a store that is behind it was rewound."""

    epoch: int
    position: int


def check_seen(seen: Seen, epoch: int, head: int) -> None:
    """Refuse to append to a log that holds less than was already seen of it."""
    if epoch < seen.epoch or (epoch == seen.epoch and head < seen.position):
        raise LogRewoundError(
            f"the log ends at {epoch}:{head}, this process has seen {seen.epoch}:{seen.position}; "
            "if it was restored on purpose, run `joblog epoch raise`"
        )
    if epoch > seen.epoch:
        raise EpochChangedError(f"the log's epoch is {epoch} now, this process works in {seen.epoch}; open it again")


def check_generation(have: int, generation: int) -> None:
    """Refuse what was read from, or is meant for, a job table that is not the live one."""
    if have != generation:
        raise GenerationChangedError(f"the job table is in generation {have}")


class Reading(Enum):
    """How somebody reads who may meet an archive that is not at hand."""

    CHECKED = "the bytes as they were written, or an error"
    TOLD = "the bytes as they were written, or the name of the archive"
    COMPARED = "the bytes as the archive has them, unchecked, or its name"


class Store(Protocol):
    """The log's storage.

    Every method raises a ``StoreError`` when the store can't serve.  Writes are atomic: all of it or nothing.
    """

    dialect: str  #: memory, sqlite or postgresql
    bodies: Bodies  #: the one way to the bytes of an event

    @property
    def views(self) -> Views:
        """The rows of the views that follow the log."""

    # -- life

    def close(self) -> None:
        """Give every connection back."""

    def now(self) -> int:
        """The store's wall clock: microseconds since 1970, UTC."""

    def lease_now(self) -> int:
        """The store's lease clock, microseconds; never compared with ``now``."""

    def state(self) -> LogState:
        """Epoch, generation and head."""

    # -- append

    def turn(self, *, blocking: bool) -> bool:
        """Get this process' turn to write (SQLite: the writer lock between processes); False if not to be had."""

    def end_turn(self) -> None:
        """Let others write."""

    def append(self, batch: Sequence[Append], generation: int, seen: Seen, *, side: bool = False) -> int:
        """Write *batch* in one transaction; returns the position of its first event.

        The caller has the turn.  *side* uses a connection of its own and may wait for row locks.

        Raises:
            ConflictError: something in the batch does not hold; alone, ``diagnose`` tells what.
            LockedError: a row is locked by someone else (never with *side*).
            GenerationChangedError: the job table was rebuilt; ``state`` has the new generation.
            LogRewoundError: the store is behind *seen*.
            UnknownOutcomeError: the commit was sent and not answered.
        """

    def diagnose(self, append: Append) -> Stored:
        """Where a refused *append* stands: already stored, or an exception that says why not.

        Raises:
            RefusedError: the reason.
            ConflictError: none to be found any more (it may be sent again).
        """

    def raise_epoch(self, append: Append, epoch: int) -> int:
        """Make *epoch* the log's, void all leases and write the append that says so."""

    # -- read

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

    def read_many(self, stream_ids: Sequence[UUID]) -> dict[UUID, tuple[SnapshotRow | None, list[EventRow]]]:
        """Snapshot and tail of many streams, read as one."""

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
        """The log behind position *after*, in order: only *topics*, if there are any, and never one of *without*.

        Raises:
            ArchiveMissingError: bodies among them were archived, and the archive is not at hand; see *reading*.
        """

    def head(self) -> int:
        """The last position; 0 in an empty log."""

    def position_of(self, stream_id: UUID, version: int) -> int | None:
        """The position of one event."""

    def version_of(self, stream_id: UUID) -> int:
        """The last version of a stream; 0 if it has none."""

    def snapshot(self, stream_id: UUID) -> SnapshotRow | None:
        """The last snapshot of a stream."""

    def put_snapshots(self, rows: Sequence[tuple[UUID, SnapshotRow, int]]) -> None:
        """Keep each (stream, snapshot, vocabulary) unless a newer one is kept."""

    def job(self, job_id: UUID) -> JobRow | None:
        """The job's row."""

    def jobs(self, job_ids: Sequence[UUID]) -> dict[UUID, JobRow]:
        """The rows of many jobs."""

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
        """A page of jobs, newest first, behind the key (created_at, id) *before*; or the page that ends before *after*."""

    def children(self, parent_id: UUID) -> list[UUID]:
        """The jobs that a job has spawned."""

    def unit_states(
        self, job_id: UUID, units: Sequence[str] | None = None, *, prefix: str | None = None
    ) -> dict[str, bytes]:
        """Stored unit-completed bytes by unit key: of *units*, of those that begin with *prefix*, or all."""

    def count_units(self, job_id: UUID) -> int:
        """How many unit results a job has."""

    def receipt(self, request_id: str) -> tuple[str, str, str, str] | None:
        """(action, target, actor, answer) of a command."""

    def lease(self, job_id: UUID) -> LeaseRow | None:
        """The job's lease row."""

    def queue_rows(self) -> dict[str, dict[str, Any]]:
        """The queues that were ever paused or limited."""

    # -- claim and lease

    def claim(
        self, query: ClaimQuery, build: Callable[[list[JobRow], int], list[Append]], generation: int, seen: Seen
    ) -> tuple[list[Append], int]:
        """Pick due jobs, let *build* make their appends (given rows and store time), write them: one transaction.

        Returns what was written and the position of its first event.  Raises as ``append``.
        """

    def claim_candidates(self, query: ClaimQuery, generation: int) -> list[JobRow]:
        """The rows a claim would pick now; what an exclusive key holds back is marked on the way, as a claim does."""

    def replace_row(self, job_id: UUID, row: JobRow | None, generation: int) -> None:
        """Put a whole job row, made new from the log, in place of what is there; None where the log has no such job.

        Nothing happens if the stream has moved on since: a row that is behind its stream would refuse every append.
        """

    def boot_id(self) -> str:
        """The boot that lease ends belong to; empty where the store's clock outlives boots."""

    def release_thread(self) -> None:
        """Give back what the calling thread holds, before it ends."""

    def renew(self, held: Sequence[tuple[UUID, Token]], micros: int) -> set[UUID]:
        """Move the end of all these leases in one statement; returns the jobs whose lease still stood."""

    def expired(self, limit: int) -> list[LeaseRow]:
        """Leases whose end has passed by the store's clock, or of another boot."""

    def held_by_others(self, presence: str, limit: int) -> list[LeaseRow]:
        """Leases with a presence file, not *presence*: candidates for a proof of death.

        Names don't tell: a worker that is started again may have that of the one that died.
        """

    def promote(self, limit: int) -> tuple[int, int | None]:
        """Make jobs ready whose instant has come, or whose exclusive key is free; returns how many, and the next instant."""

    # -- gates

    def set_gate(self, gate: str, slots: int | None, closed_until: int) -> None:
        """Put a gate's slots and until when it is closed."""

    def enter_gate(self, entry: GateEntry) -> GateAnswer:
        """Let a request pass the gate now and take its slot, or keep the turn at which it may (see ``gates.decide``)."""

    def gate_rows(self, names: Sequence[str]) -> dict[str, GateRow]:
        """The rows of those gates that were ever used or set."""

    def leave_gate(self, gate: str, entry: str, *, spaced: bool = False) -> None:
        """Give back the slot of an entry, or its turn; *spaced*: the gate's spacing counts from now."""

    def close_gate(self, gate: str, until: int, *, by: str, reason: str) -> int:
        """Close a gate until then at least, for seven days at most; returns until when it is closed."""

    def gates(self, gate: str | None = None) -> list[GateState]:
        """All gates that were ever used or set, or one, with what is going on there."""

    def next_opening(self) -> float | None:
        """Seconds until the next closed gate opens; None if none is closed."""

    # -- outbox

    def outbox(self, limit: int, *, after: int = 0) -> list[tuple[int, str]]:
        """Committed outbox rows (id, spec) behind the id *after*, in the order of their ids."""

    def delete_outbox(self, ids: Sequence[int]) -> None:
        """Remove rows that are in the log now."""

    def outbox_spec(self, job_id: UUID) -> str | None:
        """The spec of a job that is still in the outbox."""

    # -- rebuild of the job table

    def rebuild_begin(self, owner: str, micros: int) -> tuple[int, int]:
        """The generation to fill and the position to go on behind; alive for *micros*.

        Raises:
            RebuildRunningError: somebody else's rebuild is alive.
        """

    def rebuild_write(self, generation: int, rows: Sequence[RowChange], position: int, owner: str, micros: int) -> None:
        """Put *rows* into the new generation and move its position, in one transaction."""

    def rebuild_switch(
        self, generation: int, position: int, owner: str, fold: Callable[[list[LoggedEvent]], list[RowChange]]
    ) -> int:
        """Catch up and make *generation* the live one, under the log's lock."""

    def rebuild_drop_old(self) -> None:
        """Empty the generation that is not live."""

    # -- lists of items

    def put_list(self, job_id: UUID, name: str, chunks: Sequence[bytes]) -> None:
        """Store a list before its first unit; one that was left by a crash before ``list-frozen`` is replaced."""

    def get_list(self, job_id: UUID, name: str) -> list[bytes]:
        """The chunks of a stored list, in order."""

    # -- for workers

    def outlook(self, queues: Sequence[str], presence: str = "") -> Outlook:
        """One look at what there is to do."""

    def atomic(self) -> AbstractContextManager[AtomicTransaction]:
        """A transaction for the user's rows and one append; commits at the end of the block."""

    # -- followers

    def tracking_position(self, name: str) -> int | None:
        """How far the named follower has come."""

    def track(self, name: str, position: int) -> bool:
        """Move it forward; False if it is already there or further."""


NOT_CONSECUTIVE: Final = "the events of an append do not follow each other"


class ConflictError(Exception):
    """Something in a batch does not hold (internal: the writer runs it one by one and diagnoses)."""


class LockedError(Exception):
    """A row of the batch is locked by another transaction (internal: it goes to the side lane)."""


@contextmanager
def taking_turn(store: Store) -> Iterator[None]:
    """Hold the store's turn for a block."""
    store.turn(blocking=True)
    try:
        yield
    finally:
        store.end_turn()
