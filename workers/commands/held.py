"""A job that this process holds: the commands of its holder, each one append under its fencing token.

Each command exists twice with one logic: plain for threads, ``…_soon`` for event loops.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ...domain import storable
from ...domain.errors import JobLogError, LeaseLostError, VersionConflictError
from ...domain.status import ENDED, Status
from ...eventstore.append import Append, Fence
from . import drive, family
from .decision import Decision, Unit, UnitsDone, bound_checkpoint

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from concurrent.futures import Executor
    from datetime import datetime
    from uuid import UUID

    from ...domain.job import Job
    from ...domain.lease import Token
    from ...eventstore.append import Delivery
    from .log import JobLog

RELOADS: Final = 3  #: after a refusal by version, while the token is still the newest

Step = "Generator[Any, Any, int]"


class Held:
    """A claimed job.  One command at a time; not shared between threads.

    ``deadline`` is on the holder's monotonic clock, counted from before it asked: past it, without a renewal, the
    holder must no longer touch the job.
    """

    __slots__ = ("_fenced", "_job", "_log", "_renew_at", "attempt", "crashes", "deadline", "job_id", "kind", "token")

    def __init__(
        self, log: JobLog, job_id: UUID, token: Token, *, kind: str, attempt: int, crashes: int, asked_at: float
    ) -> None:
        self._log, self.job_id, self.token = log, job_id, token
        self._fenced = Fence(token)
        self.kind, self.attempt, self.crashes = kind, attempt, crashes
        self._job: Job | None = None
        self.renewed(asked_at)

    def __repr__(self) -> str:
        """Which job, under which token."""
        return f"<Held {self.kind} {self.job_id} under {self.token}>"

    @property
    def job(self) -> Job:
        """The job, replayed from the log on first use and after any refused command."""
        if self._job is None:
            self.replayed(self._log.job(self.job_id))
        return self._job  # type: ignore[return-value]

    def replayed(self, job: Job) -> None:
        """Take the job as replayed with others in one query."""
        self._job = job

    def renewed(self, asked_at: float) -> None:
        """The lease stands as of *asked_at* on the monotonic clock."""
        self._renew_at = asked_at + self._log.leases.lease.total_seconds() / 3
        self.deadline = asked_at + self._log.leases.stop_after.total_seconds()

    @property
    def is_overdue(self) -> bool:
        """Whether the holder must stop touching the job."""
        return self._log.clock.monotonic() >= self.deadline

    def apart(self) -> Held:
        """The same hold for another thread, with a replay of its own: the unit in flight may still use this one."""
        asked_at = self.deadline - self._log.leases.stop_after.total_seconds()
        return Held(
            self._log,
            self.job_id,
            self.token,
            kind=self.kind,
            attempt=self.attempt,
            crashes=self.crashes,
            asked_at=asked_at,
        )

    # -- commands ----------------------------------------------------------------------------------------------------

    def attempt_unit(self, unit: str) -> int:
        """Spend an attempt of *unit* before its body runs (see ``Job.attempt_unit``)."""
        self._run(self.attempting(unit))
        return self.job.unit_attempt

    def attempting(self, unit: str) -> Generator[Any, Any, int]:
        """``attempt_unit`` as a command to be driven."""
        storable.name(unit, "unit")
        return (yield from self._decided(Decision(lambda job, now: job.attempt_unit(self.token, unit, now=now))))

    def complete_units(self, units: Sequence[Unit], **checkpoint: Any) -> int:
        """Record finished units and move the checkpoint in one commit; returns the position of the first event.

        *checkpoint*: ``cursor``, ``advance``, ``tallies`` (see ``Job.complete_units``).

        Raises:
            UnitDoneError: a unit already has this evidence; go on at the checkpoint.
            UnitConflictError: a unit already has other evidence.
            LeaseLostError: the token is not the newest, or the lease has expired; drop the work.
            CheckpointError: the checkpoint would move back or past units without evidence.
            UnknownOutcomeError: it may or may not be in the log; reload and look the units up.
        """
        return self._run(self.completing_units(units, checkpoint))

    async def complete_units_soon(
        self, units: Sequence[Unit], readers: Executor | None = None, **checkpoint: Any
    ) -> int:
        """As ``complete_units``, on an event loop."""
        return await drive.run_soon(self.completing_units(units, checkpoint), self._log.writer, readers)

    def skip_unit(self, unit: str, *, code: str, text: str, cursor: Any = None, advance: int = 1) -> int:
        """Pass over a bad unit: recorded with its reason, never counted as done (see ``Job.skip_unit``)."""
        storable.name(unit, "unit")
        storable.name(code, "code")
        storable.payload(cursor, "cursor")

        def decide(job: Job, now: datetime) -> None:
            job.skip_unit(self.token, unit, code=code, text=text, now=now, cursor=cursor, advance=advance)

        return self._run(self._decided(Decision(decide, lambda append: bound_checkpoint(append.events))))

    def freeze_list(self, name: str, *, count: int, digest: str) -> int:
        """Record that the list *name* was stored (see ``Job.freeze_list``)."""
        return self._run(self.freezing_list(name, count=count, digest=digest))

    def freezing_list(self, name: str, *, count: int, digest: str) -> Generator[Any, Any, int]:
        """``freeze_list`` as a command to be driven."""
        storable.name(name, "list")
        storable.name(digest, "digest")

        def decide(job: Job, now: datetime) -> None:
            job.freeze_list(self.token, name, count=count, digest=digest, now=now)

        return (yield from self._decided(Decision(decide)))

    def schedule_retry(
        self,
        unit: str,
        *,
        category: str,
        text: str,
        origin: str = "backoff",
        next_attempt_at: datetime | None = None,
        lengthens: bool = False,
    ) -> int:
        """Store when *unit* is tried again and give the lease back; by default the policy's jittered back-off.

        The jitter is drawn once and stored, so a restart can't roll it again.  *lengthens*: the back-off stands where
        it is over later than *next_attempt_at*.

        Raises:
            ExhaustedError: no attempt is left; ``park`` or ``fail`` the job.
        """
        storable.name(unit, "unit")
        storable.name(category, "category")
        storable.name(origin, "origin")
        random = self._log.random.random()

        def decide(job: Job, now: datetime) -> None:
            at, whose = next_attempt_at, origin
            if at is None or lengthens:
                backoff = now + job.policy.delay(job.failed_attempt(self.token, unit), random)
                if at is None or backoff > at:
                    at, whose = backoff, "backoff" if lengthens else origin
            job.schedule_retry(
                self.token, unit, category=category, text=text, next_attempt_at=at, origin=whose, now=now
            )

        return self._run(self._decided(Decision(decide)))

    def release(self, cause: str, *, due_at: datetime | None = None) -> int:
        """Give the lease back at a boundary (yield, shutdown, wait), honouring an operator's wish first."""
        storable.name(cause, "cause")
        decide = Decision(lambda job, now: job.release(self.token, cause=cause, now=now, due_at=due_at))
        return self._run(self._decided(decide))

    def await_gate(self, gate: str, *, unit: str, due_at: datetime | None) -> int:
        """Give the lease back until *gate* lets the job through, and the attempt of *unit* with it."""
        storable.name(gate, "gate", limit=storable.NAME_BYTES)

        def decide(job: Job, now: datetime) -> None:
            job.await_gate(self.token, gate, unit=unit, now=now, due_at=due_at)

        return self._run(self._decided(Decision(decide)))

    def park(
        self, *, reason: str, text: str, not_before: datetime | None = None, unit: str = "", gate: str = ""
    ) -> int:
        """Keep the work, paused, for an operator: exhausted, or something outside the input is missing.

        *gate*: it may be resumed by opening this one.
        """
        storable.name(reason, "reason")
        storable.name(unit, "unit", empty=True)

        def decide(job: Job, now: datetime) -> None:
            job.park(self.token, reason=reason, text=text, now=now, not_before=not_before, unit=unit, gate=gate)

        return self._run(self._decided(Decision(decide)))

    def fail(self, *, reason: str, text: str, unit: str = "") -> int:
        """Keep the work, failed: a verdict about the input."""
        storable.name(reason, "reason")
        storable.name(unit, "unit", empty=True)
        decide = Decision(lambda job, now: job.fail(self.token, reason=reason, text=text, now=now, unit=unit))
        return self._run(self._decided(decide))

    def complete(self, result: Any = None) -> int:
        """End the job: evidence and checkpoint cover every unit.

        Raises:
            IncompleteError: they do not, by the log or by the stored unit results.
        """
        return self._run(self._completing(result))

    async def complete_soon(self, result: Any = None, readers: Executor | None = None) -> int:
        """As ``complete``, on an event loop."""
        return await drive.run_soon(self._completing(result), self._log.writer, readers)

    def forget(self) -> None:
        """Drop the replayed job: it may be ahead of the log, whose open transaction was undone."""
        self._job = None

    # -- inside ------------------------------------------------------------------------------------------------------

    def _run(self, command: Generator[Any, Any, int]) -> int:
        return drive.run(command, self._log.writer)

    def completing_units(
        self,
        units: Sequence[Unit],
        checkpoint: dict[str, Any],
        *,
        uncommitted: bool = False,
        delivery: Delivery | None = None,
    ) -> Generator[Any, Any, int]:
        """``complete_units`` as a command to be driven; *uncommitted*: inside a transaction that is still open.

        *delivery*: of a webhook, settled in the same commit.
        """
        return self._decided(UnitsDone(self.token, units, checkpoint, delivery), uncommitted=uncommitted)

    def _completing(self, result: Any) -> Generator[Any, Any, int]:
        storable.payload(result, "result")

        def finish(append: Append) -> None:
            if append.row["status"] == Status.COMPLETED:  # a cancel that stands is honoured instead, without evidence
                storable.bounded(append.events[-1].state, "result", storable.EVIDENCE_LIMIT)
                append.evidence = self.job.done

        decide = Decision(lambda job, now: job.complete(self.token, now=now, result=result), finish)
        return (yield from self._decided(decide))

    def _decided(self, decision: Decision, *, uncommitted: bool = False) -> Generator[Any, Any, int]:
        """Decide, append; when only the version was in the way, reload, decide and send again under the same ids."""
        decision.check()
        log = self._log
        command_id, before, job_id = log.ids.next(), -1, self.job_id
        for reload in range(RELOADS + 1):
            job = self._job
            if job is None:
                job = self._job = yield partial(log.job_again, job_id, before)
            before, now, asked_at = job.version, log.now(), log.clock.monotonic()
            try:
                decision.decide(job, now)
                append = log.job_append(job_id, before, job.collect_events(), command_id, now)
                append.fence = self._fence(job, asked_at)
                decision.finish(append)
            except BaseException:
                self._job = None  # it may be ahead of its stream: never saved again
                raise
            if not append.events:
                return 0
            self._job = None  # until the answer says that its events are stored; the wait for it may be cancelled
            whole: Any = append
            if job.parent_id and not uncommitted:
                whole = yield partial(family.with_parent, log, job, append, now)
            answer = yield whole
            if not isinstance(answer, JobLogError):
                self._job = job
                if not uncommitted:
                    self._stored(append, job, before, asked_at)
                    if job.parent_id and whole is append and job.status in ENDED:
                        yield partial(family.look_at_parent, log, job)
                return int(answer.position)
            if not isinstance(answer, VersionConflictError) or reload == RELOADS:
                raise answer
        raise LeaseLostError(self.job_id, self.token.grant)  # pragma: no cover - the loop returns or raises

    def _fence(self, job: Job, asked_at: float) -> Fence:
        """Ends the lease where the command ended it; else renews it when a third of it has gone by."""
        if job.lease is None:
            return Fence(self.token, end=True)
        if asked_at < self._renew_at:
            return self._fenced
        return Fence(self.token, renew=int(self._log.leases.lease.total_seconds() * 1_000_000))

    def _stored(self, append: Append, job: Job, before: int, asked_at: float) -> None:
        """Take note of the commit; a snapshot must never be ahead of the log."""
        if append.fence is not None and append.fence.renew:
            self.renewed(asked_at)
        self._log.snapshot_later(job, before)
