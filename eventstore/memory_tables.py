"""What the store in memory holds, and the questions that its writers and readers both ask of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from .clock import micros
from .memory_gates import MemoryGates
from .store import JobRow, LeaseRow, LoggedEvent, SnapshotRow

if TYPE_CHECKING:
    from ..domain.lease import Token
    from ..domain.ports import Clock
    from .archive_files import ArchiveRow


@dataclass(slots=True)
class MemoryLease:
    """A row of the leases."""

    token: Token
    worker: str
    until: int
    boot: str
    queue: str
    gate: str
    exclusive_key: str
    presence: str


class MemoryTables:
    """The log and what is written with it.  The caller has the store's lock."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.epoch, self.generation = 1, 0
        self.log: list[LoggedEvent] = []
        self.streams: dict[UUID, list[int]] = {}  #: positions of a stream's events
        self.jobs: tuple[dict[UUID, JobRow], dict[UUID, JobRow]] = ({}, {})
        self.leases: dict[UUID, MemoryLease] = {}
        self.units: dict[tuple[UUID, str], bytes] = {}
        self.receipts: dict[str, tuple[str, str, str, str]] = {}
        self.queues: dict[str, dict[str, Any]] = {}
        self.gates = MemoryGates(self._slot_stands)
        self.snapshots: dict[UUID, SnapshotRow] = {}
        self.tracking: dict[str, int] = {}
        self.lists: dict[tuple[UUID, str], list[bytes]] = {}
        self.tiles: dict[tuple[int, int], bytes] = {}  #: of the tree: (level, number)
        self.unit_versions: dict[tuple[UUID, str], int] = {}  #: of those whose bytes an archive has
        self.archives: dict[int, ArchiveRow] = {}  #: by the position of their event
        self.archived: dict[UUID, int] = {}  #: streams, and which archive has them

    # -- clocks ------------------------------------------------------------------------------------------------------

    def now(self) -> int:
        """Wall clock, microseconds."""
        return micros(self.clock.now())

    def lease_now(self) -> int:
        """Boot clock, microseconds."""
        return round(self.clock.boottime() * 1_000_000)

    def boot_id(self) -> str:
        """This boot."""
        return self.clock.boot_id()

    # -- streams -----------------------------------------------------------------------------------------------------

    def version_of(self, stream_id: UUID) -> int:
        """The last version of a stream; 0 if there is none."""
        return len(self.streams.get(stream_id, ()))

    def count_units(self, job_id: UUID) -> int:
        """How many unit results a job has."""
        return sum(job == job_id for job, _ in self.units)

    # -- jobs --------------------------------------------------------------------------------------------------------

    @property
    def table(self) -> dict[UUID, JobRow]:
        """The job rows of the live generation."""
        return self.jobs[self.generation % 2]

    def rows(self) -> list[JobRow]:
        """The same as a list."""
        return list(self.table.values())

    def waiting(self) -> list[JobRow]:
        """Jobs that wait for an instant, the next one first."""
        found = [r for r in self.rows() if not r["ready"] and not r["blocked"] and r["status"] in ("queued", "waiting")]
        return sorted(found, key=lambda row: (row["due_at"], row["id"].bytes))

    # -- leases and exclusive keys -----------------------------------------------------------------------------------

    def is_live(self, lease: MemoryLease | None) -> bool:
        """Whether its holder may still write."""
        return lease is not None and lease.until > self.lease_now() and lease.boot == self.boot_id()

    def lease_rows(self) -> list[LeaseRow]:
        """All leases as the port shows them."""
        return [_row(job, lease) for job, lease in self.leases.items()]

    def lease_row(self, job_id: UUID) -> LeaseRow | None:
        """The lease of one job."""
        lease = self.leases.get(job_id)
        return None if lease is None else _row(job_id, lease)

    def _slot_stands(self, job_id: UUID, token: Token) -> bool:
        lease = self.leases.get(job_id)
        return lease is not None and lease.token == token and self.is_live(lease)

    def held_keys(self) -> set[str]:
        """The exclusive keys of jobs that run."""
        return {lease.exclusive_key for lease in self.leases.values()} - {""}

    def free_keys(self) -> set[str]:
        """The exclusive keys with jobs that wait for them and no holder."""
        return {row["exclusive_key"] for row in self.rows() if row["blocked"]} - self.held_keys()

    def unblock(self, key: str) -> None:
        """Let the next job of an exclusive key be claimed."""
        blocked = [row for row in self.rows() if key and row["exclusive_key"] == key and row["blocked"]]
        if blocked:
            row = min(blocked, key=lambda row: (row["priority"], row["due_at"], row["id"].bytes))
            row["ready"], row["blocked"] = 1, 0


def _row(job_id: UUID, lease: MemoryLease) -> LeaseRow:
    return LeaseRow(job_id, lease.token, lease.worker, lease.until, lease.boot, lease.presence)
