"""JobLog: an open log with all its commands."""

from __future__ import annotations

import asyncio
import logging
import threading
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from ...domain.errors import (
    JobLogError,
    JobNotFoundError,
    KeyConflictError,
    UnknownEventError,
    VersionConflictError,
)
from ...domain.events import CODE_VOCABULARY
from ...domain.job import Job, fold
from ...domain.lease import LeasePolicy
from ...domain.snapshot import JobSnapshot
from ...eventstore.append import Append, Stored
from ...eventstore.application import LogApplication
from ...eventstore.busy import BusyRetry
from ...eventstore.clock import SystemClock, SystemIds, SystemRandom
from ...eventstore.opening import open_store
from ...eventstore.recorder import StoreRecorder
from ...eventstore.store import SnapshotRow
from ...eventstore.wake import waker_for
from ...eventstore.writer import GroupWriter
from ...projections import job_table, repair
from . import claiming, control, drive, outbox, queueing
from .answers import BulkAnswer, Commanded, Reclaimed, Submitted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from datetime import datetime
    from pathlib import Path
    from typing import Self

    import sqlalchemy as sa

    from ...domain.job import Actor
    from ...domain.ports import Clock, Ids, Random
    from ...domain.spec import JobSpec
    from ...eventstore.mapper import OrjsonMapper
    from ...eventstore.store import JobRow, LeaseRow, Store
    from .decision import Unit
    from .held import Held

logger = logging.getLogger(__name__)

SNAPSHOT_EVERY: Final = 256  #: events between snapshots of one job
GROUP: Final = 256  #: jobs that are handed in with one transaction, of very many


class JobLog:
    """An open log.

    Thread-safe; one per process and database.  Not to be carried over ``fork``: open it in the child.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        ids: Ids | None = None,
        leases: LeasePolicy | None = None,
        busy: BusyRetry | None = None,
    ) -> None:
        self.store = store
        self.clock: Clock = clock or SystemClock()
        self.random: Random = random or SystemRandom()
        self.ids: Ids = ids or SystemIds()
        self.leases = leases or LeasePolicy()
        self.waker = waker_for(store)
        self.busy = busy or BusyRetry.from_env(self.clock, self.random)
        self.writer = GroupWriter(store, self.busy, on_commit=lambda ready: self.waker.notify(ready=ready))
        self.application = LogApplication(StoreRecorder(store, self.writer, self.waker), self.ids)
        self.mapper: OrjsonMapper = self.application.mapper  # type: ignore[assignment]
        self.served_tenant = ""  #: where the turn of the tenants stands
        self.parked: set[UUID] = set()  #: jobs of dead holders that only newer code can take back
        self._offset = timedelta(0)
        self._anchor = self.clock.now(), self.clock.boottime()
        self._snapshots: dict[UUID, SnapshotRow] = {}
        self._snapshot_lock = threading.Lock()
        self.measure_clock()

    @classmethod
    def open(
        cls,
        url: str,
        *,
        leases: LeasePolicy | None = None,
        pooler_safe: bool = False,
        read_only: bool = False,
        archives: Path | None = None,
        **ports: Any,
    ) -> Self:
        """Open the log at *url* (``sqlite:///path``, ``postgresql://…``), creating the schema in an empty database.

        *read_only*: to follow it, also on a standby; every write is refused.  *archives*: where archives are that were moved.
        Raises what ``open_store`` raises.
        """
        policy = leases or LeasePolicy()
        store = open_store(
            url,
            clock=ports.get("clock"),
            lease_seconds=policy.lease.total_seconds(),
            pooler_safe=pooler_safe,
            read_only=read_only,
            archives=archives,
        )
        return cls(store, leases=policy, **ports)

    def close(self) -> None:
        """Write what is waiting, then give everything back."""
        self.writer.close()
        self.waker.close()
        self.application.close()
        self.store.close()

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    # -- time --------------------------------------------------------------------------------------------------------

    def now(self) -> datetime:
        """This process' estimate of the store's time, for events that are built before the writer has the lock."""
        clock = self.clock
        if self.store.dialect != "postgresql":
            return clock.now() + self._offset
        instant, measured_at = self._anchor  # so that steps of this machine's wall clock change nothing
        return instant + timedelta(seconds=clock.boottime() - measured_at)

    def measure_clock(self) -> None:
        """Measure how far the store's clock is from ours; half the round trip is the error."""
        before, began = self.clock.now(), self.clock.boottime()
        theirs = job_table.moment(self.store.now())
        after, ended = self.clock.now(), self.clock.boottime()
        self._offset = theirs - (before + (after - before) / 2)
        self._anchor = theirs, (began + ended) / 2

    # -- read --------------------------------------------------------------------------------------------------------

    def job(self, job_id: UUID, *, version: int | None = None, tenant: str | None = None) -> Job:
        """The job as its events tell it (snapshot and tail), now or at *version*.

        Raises:
            JobNotFoundError: no such job, or of another tenant.
            UnknownEventError: written by newer code; the job is parked for this one (S18).
        """
        if version is not None:
            rows = self.store.read(job_id, upto=version)
            job = fold(None, self.mapper.decode_all(job_id, rows))
        else:
            job = self.load([job_id]).get(job_id)
        if job is None or (tenant is not None and job.tenant != tenant):
            raise JobNotFoundError(job_id)
        return job

    def job_again(self, job_id: UUID, refused_at: int, *, tenant: str | None = None) -> Job:
        """The job after an append at version *refused_at* was refused by version.

        If the stream has not moved, the row stood in the way: it is made new from the log.
        """
        job = self.job(job_id, tenant=tenant)
        if job.version == refused_at:
            repair.row_in_the_way(self.store, self.mapper, job_id, self.writer.generation)
        return job

    def load(self, job_ids: Sequence[UUID]) -> dict[UUID, Job]:
        """Many jobs, replayed from snapshot and tail, read in one query."""
        found: dict[UUID, Job] = {}
        for job_id, (snapshot, tail) in self.store.read_many(job_ids).items():
            job: Job | None = None
            if snapshot is not None:
                job = self._from_snapshot(job_id, snapshot)
                if job is None:
                    tail = self.store.read(job_id)  # noqa: PLW2901
            job = fold(job, self.mapper.decode_all(job_id, tail))
            if job is not None:
                found[job_id] = job
        return found

    def _from_snapshot(self, job_id: UUID, row: SnapshotRow) -> Job | None:
        """The job at its snapshot; None if that can't be used: then the log itself is replayed."""
        try:
            snapshot = self.mapper.decode(job_id, *row)
            if snapshot.vocabulary > CODE_VOCABULARY:
                return None
            job: Job = snapshot.mutate(None)
        except UnknownEventError:
            return None
        except Exception as error:  # noqa: BLE001 - a snapshot is never the truth, whatever is wrong with it
            logger.warning("the snapshot of job %s is broken (%r); its whole log is replayed", job_id, error)
            return None
        return job

    def row(self, job_id: UUID, *, tenant: str | None = None) -> JobRow:
        """The job's row; a job that is still in the outbox reads as queued.

        Raises:
            JobNotFoundError: no such job, or of another tenant.
        """
        row = self.store.job(job_id)
        if row is None:
            if (spec := outbox.find(self, job_id)) is not None:
                row = {"id": job_id, "status": "queued", "in_outbox": True, "kind": spec.kind, "tenant": spec.tenant}
            else:
                row = self.store.job(job_id)  # it may have been moved between the two looks
        if row is None or (tenant is not None and row["tenant"] != tenant):
            raise JobNotFoundError(job_id)
        return row

    # -- appending ---------------------------------------------------------------------------------------------------

    def to_append(
        self, stream_id: UUID, expected: int, events: Sequence[Any], command_id: str, row: JobRow | None = None
    ) -> Append:
        """Encode *events* under ids that follow from *command_id*, so that sending again sends the same."""
        encoded = self.mapper.row
        rows = [encoded(event, f"{command_id}.{index}") for index, event in enumerate(events)]
        return Append(stream_id, expected, rows, f"{command_id}.0", row if row is not None else {})

    def job_append(self, job_id: UUID, expected: int, events: Sequence[Any], command_id: str, now: datetime) -> Append:
        """An append to a job, with the changes of its row."""
        row = job_table.changes(events)
        if "status" in row:
            job_table.with_hints(row, job_table.micros(now))
        return self.to_append(job_id, expected, events, command_id, row)

    # -- work --------------------------------------------------------------------------------------------------------

    def claim(self, worker: str, *, queues: Sequence[str] = ("default",), limit: int = 1, **more: Any) -> list[Held]:
        """Take up to *limit* due jobs for *worker*; see ``claiming.claim``."""
        return claiming.claim(self, worker, queues=queues, limit=limit, **more)

    def complete_many(self, work: Sequence[tuple[Held, Sequence[Unit], dict[str, Any]]]) -> list[int | JobLogError]:
        """Units of several jobs in one commit, each job with its own answer; see ``Held.complete_units``."""
        commands = [held.completing_units(units, checkpoint) for held, units, checkpoint in work]
        return drive.run_all(commands, self.writer)  # type: ignore[return-value]

    def renew(self, held: Iterable[Held]) -> list[Held]:
        """Renew the leases of a whole process in one statement; returns those that are lost."""
        return claiming.renew(self, held)

    def promote(self, limit: int = 1000) -> tuple[int, datetime | None]:
        """Make jobs ready whose instant has come; returns how many, and the next instant that waits."""
        promoted, upcoming = self.busy.run(lambda: self.store.promote(limit))
        return promoted, None if upcoming is None else job_table.moment(upcoming)

    def expire(self, by: str, *, limit: int = 100) -> list[Reclaimed]:
        """Take back the jobs of holders whose lease has expired by the store's clock."""
        return claiming.expire(self, by, limit=limit)

    def reclaim(self, lease: LeaseRow, by: str) -> Reclaimed | JobLogError:
        """Take back the job of a holder that is proven dead; whoever calls this has the proof."""
        return claiming.reclaim(self, lease, by, cause="holder-died", proven=True, counts=True)

    # -- operators ---------------------------------------------------------------------------------------------------

    def command(self, action: str, job_id: UUID, actor: Actor, **options: Any) -> Commanded:
        """``pause``, ``resume``, ``cancel`` or ``retry`` a job; see ``control.command``."""
        return control.command(self, action, job_id, actor, **options)

    def control_queue(self, queue: str, action: str, actor: Actor, **options: Any) -> dict[str, Any]:
        """``pause``, ``resume`` or ``limit`` a queue; see ``queueing.control``."""
        return queueing.control(self, queue, action, actor, **options)

    def command_queue(self, queue: str, action: str, actor: Actor, **options: Any) -> BulkAnswer:
        """``pause``, ``resume``, ``cancel`` or ``retry`` every job a queue has now; see ``queueing.bulk``."""
        return queueing.bulk(self, queue, action, actor, **options)

    def raise_epoch(self, actor: Actor, *, reason: str) -> int:
        """Accept a log that was restored or failed over: every lease and cursor of the older epoch is void."""
        return control.raise_epoch(self, actor, reason=reason)

    # -- submit ------------------------------------------------------------------------------------------------------

    def submit(self, spec: JobSpec) -> Submitted:
        """Hand in a job; the same (tenant, kind, key, args) again is the same job.

        Raises:
            KeyConflictError: the key already stands for other arguments.
            UnknownOutcomeError: it may or may not be in the log; submit the same spec again (without a key that would
                be another job).
            StoreError: the store can't serve; nothing was written.
        """
        answer = self.submit_many([spec])[0]
        if isinstance(answer, JobLogError):
            raise answer
        return answer

    def submit_many(self, specs: Iterable[JobSpec]) -> list[Submitted | JobLogError]:
        """Hand in many jobs, each with its own answer; they travel in as few transactions as possible.

        Of very many, one group is written while the next is made.
        """
        keyed = [spec if spec.key else spec.with_key(self.ids.next()) for spec in specs]
        refused: dict[int, JobLogError] = {}
        groups = (self._offered(keyed, start, refused) for start in range(0, len(keyed), GROUP))
        writer, is_many = self.writer, len(keyed) > GROUP
        written = iter(writer.append_groups(groups) if is_many else writer.append_many(chain.from_iterable(groups)))
        return [refused.get(index) or self._submitted(spec, next(written)) for index, spec in enumerate(keyed)]

    async def submit_soon(
        self, specs: Sequence[JobSpec], ask: Callable[..., Awaitable[Any]]
    ) -> list[Submitted | JobLogError]:
        """As ``submit_many``, on an event loop; *ask* runs in a thread what reads the store."""
        keyed = [spec if spec.key else spec.with_key(self.ids.next()) for spec in specs]
        futures = self.writer.append_soon(self._new_appends(keyed), asyncio.get_running_loop())
        answers = await asyncio.gather(*futures)
        made: list[Submitted | JobLogError] = []
        for spec, answer in zip(keyed, answers, strict=True):
            is_plain = isinstance(answer, Stored)
            made.append(self._submitted(spec, answer) if is_plain else await ask(self._submitted, spec, answer))
        return made

    def submit_in(self, connection: sa.Connection, spec: JobSpec) -> UUID:
        """Hand in a job inside the caller's own transaction, through the outbox; see ``outbox.submit``."""
        return outbox.submit(self, spec, connection)

    def drain_outbox(self, engine: sa.Engine | None = None, *, limit: int = 500) -> int:
        """Move committed outbox rows into the log, once, in order; see ``outbox.drain``."""
        return outbox.drain(self, engine, limit=limit)

    def _new_append(self, spec: JobSpec, now: datetime) -> Append:
        job = Job.submit(spec, now=now)
        return self.job_append(job.id, 0, job.collect_events(), self.ids.next(), now)

    def _new_appends(self, specs: Sequence[JobSpec]) -> list[Append]:
        now = self.now()
        return [self._new_append(spec, now) for spec in specs]

    def _offered(self, specs: Sequence[JobSpec], start: int, refused: dict[int, JobLogError]) -> list[Append]:
        """The group that begins at *start*; what stands against one before it is tried is put into *refused*."""
        now = self.now()
        made: list[Append] = []
        for index, spec in enumerate(specs[start : start + GROUP], start):
            try:
                made.append(self._new_append(spec, now))
            except JobLogError as error:
                refused[index] = error
        return made

    def _submitted(self, spec: JobSpec, answer: Stored | JobLogError) -> Submitted | JobLogError:
        if isinstance(answer, Stored):
            return Submitted(spec.job_id, created=True, position=answer.position)
        if not isinstance(answer, VersionConflictError):
            return answer
        row = self.store.job(spec.job_id)
        if row is None:
            return answer
        # A child's id follows from its parent and key alone: kind and tenant are compared too.
        if any(row[name] != getattr(spec, name) for name in ("args_digest", "kind", "tenant")):
            return KeyConflictError(spec.job_id, spec.key)
        return Submitted(spec.job_id, created=False, position=self.store.position_of(spec.job_id, 1) or 0)

    # -- snapshots ---------------------------------------------------------------------------------------------------

    def snapshot_later(self, job: Job, before: int) -> None:
        """Keep a snapshot beside when *job* has passed another 256 events; best effort, after the acknowledgement."""
        if job.version // SNAPSHOT_EVERY == before // SNAPSHOT_EVERY:
            return
        _, version, topic, state = self.mapper.encode(JobSnapshot.take(job), "")
        with self._snapshot_lock:
            first = not self._snapshots
            self._snapshots[job.id] = SnapshotRow(version, topic, state)
        if first:
            self.writer.later(self._write_snapshots)

    def _write_snapshots(self) -> None:
        with self._snapshot_lock:
            taken, self._snapshots = self._snapshots, {}
        self.store.put_snapshots([(job_id, row, CODE_VOCABULARY) for job_id, row in taken.items()])
