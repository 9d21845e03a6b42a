"""Job, the aggregate: commands decide by the state machine, events record; the state is ``JobState``.

Every command takes ``now`` and either raises one of ``errors`` or triggers events; none does input or output.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn
from uuid import UUID

from . import events as e
from . import storable
from .errors import (
    CheckpointError,
    EpochChangedError,
    ExhaustedError,
    IncompleteError,
    LeaseHeldError,
    LeaseLostError,
    NotDueError,
    SupersededError,
    TooLargeError,
    WrongStateError,
)
from .granting import grant
from .job_state import JobState
from .lease import Token
from .making import made
from .status import TRANSITIONS, Status, Wish

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime, timedelta

    from .spec import JobSpec

CRASH_LIMIT: Final = 3  # crashes at one checkpoint before the unit counts as poison
LISTS_LIMIT: Final = 1000  # lists of items in one job
TALLIES_LIMIT: Final = 100  # names in the tallies, which every checkpoint repeats


_new: Final = object.__new__
_set: Final = object.__setattr__


@dataclass(frozen=True, slots=True)
class Actor:
    """Who commands: shown in the history of the job."""

    name: str
    request_id: str = ""
    address: str = ""
    text: str = ""

    def __post_init__(self) -> None:
        """Refuse what can't be stored; the text is made storable instead."""
        storable.name(self.name, "actor")
        storable.name(self.request_id, "request_id", empty=True)
        storable.name(self.address, "address", empty=True)

    def said(self) -> dict[str, str]:
        """What an event says of it."""
        return {
            "actor": self.name,
            "request_id": self.request_id,
            "address": self.address,
            "text": storable.text(self.text),
        }


class Job(JobState):
    """One submitted job: what may happen to it, and who may say so."""

    TOPIC = "joblog.job"
    Event = e.JobEvent
    Submitted = e.Submitted

    def __init__(self) -> None:
        """Left empty: ``Submitted.apply`` sets the state, live and on replay."""

    # -- submit and claim ------------------------------------------------------------------------------------

    @classmethod
    def submit(cls, spec: JobSpec, *, now: datetime) -> Job:
        """Create the job that *spec* describes.  Its id follows from tenant, kind and key, so it needs a key."""
        if not spec.key:
            storable.name(spec.key, "key")  # which says what is wrong
        event = made(e.Submitted, spec.job_id, 1, now, originator_topic=cls.TOPIC, **spec.to_event(now))
        job: Job = event.mutate(None)
        job._pending_events.append(event)
        return job

    def claim(self, worker: str, *, epoch: int, lease: timedelta, now: datetime) -> Token:
        """Lease the job to *worker* under a new token.

        Raises:
            LeaseHeldError: another worker holds it; an expired lease must be ended by ``expire`` first.
            WrongStateError: not claimable.
            EpochChangedError: the log's epoch was raised behind the caller's back (S7).
            NotDueError: its stored instant lies ahead (S11).
        """
        if self.lease is not None:
            raise LeaseHeldError(self.id, self.lease.worker)
        self._require(Status.RUNNING, "claim it")
        if self.due_at > now:
            raise NotDueError(self.id, f"is due at {self.due_at.isoformat()}, not before")
        if epoch < self.epoch:
            raise EpochChangedError(f"job {self.id} was leased in epoch {self.epoch}; open the log again")
        token = Token(epoch, self.token + 1)
        self._trigger(
            e.Claimed,
            now,
            **grant(worker, token, lease=lease, attempt=self.attempt + 1, now=now),
        )
        return token

    def expire(self, *, cause: str, by: str, now: datetime, counts: bool = True) -> None:
        """End the lease of a dead holder; honour what an operator had asked of it.

        *counts* is False where the death says nothing about the unit (shutdown grace, reboot, node loss).
        The third death that counts at one checkpoint parks the job as poison; only a cancel outranks that.
        """
        lease = self.lease
        if lease is None:
            self._refuse("expire its lease")
        crashes = self.crashes + 1 if counts else self.crashes
        self._trigger(
            e.LeaseExpired,
            now,
            worker=lease.worker,
            token=lease.token.grant,
            held_since=lease.since,
            unit=self.unit,
            cause=cause,
            reclaimed_by=by,
            crashes=crashes,
            reclaims=self.reclaims + 1,
        )
        if crashes >= CRASH_LIMIT and self.wish is not Wish.CANCEL:
            text = f"{crashes} holders died at checkpoint {self.sequence}"
            self._trigger(e.Paused, now, reason="poison-unit", text=text)
        elif self.wish:
            self._honour(now)

    # -- units (the holder's commands carry its token) -------------------------------------------------------

    def freeze_list(self, token: Token, name: str, *, count: int, digest: str, now: datetime) -> None:
        """Record that the list *name* was stored; a second time it must be the same list."""
        self._fence(token)
        known = self.lists.get(name)
        if known is not None:
            if known != {"count": count, "digest": digest}:
                raise CheckpointError(self.id, f"list {name!r} differs from the one stored before its first unit")
            return
        if len(self.lists) >= LISTS_LIMIT:
            raise TooLargeError("lists", f"{len(self.lists):,} lists", "put the items into fewer lists")
        self._trigger(e.ListFrozen, now, name=name, count=count, digest=digest)

    def attempt_unit(self, token: Token, unit: str, *, now: datetime) -> int:
        """Spend an attempt of *unit* before its body runs; returns its number in this cycle.

        Raises:
            ExhaustedError: none is left.
        """
        self._fence(token)
        spent, _ = self.tries.get(unit, (0, 0))
        if self.policy.is_exhausted(spent):
            raise ExhaustedError(self.id, f"unit {unit!r} has spent its {spent} attempts")
        self._trigger(e.UnitAttempted, now, unit=unit, attempt=spent + 1)
        return spent + 1

    def complete_units(
        self,
        token: Token,
        units: Sequence[tuple[str, Any]],
        *,
        now: datetime,
        cursor: Any = None,
        advance: int | None = None,
        tallies: dict[str, int] | None = None,
    ) -> None:
        """Record finished units with their evidence and move the checkpoint, in one append.

        *advance* is how many units the finished prefix grows by; by default all of *units*.  0 leaves the
        checkpoint where it is: units may finish out of order while it moves only over the finished prefix.
        No *cursor* leaves that of before.
        """
        self._fence(token)
        step = len(units) if advance is None else advance
        self._check_advance(step, len(units), tallies)
        done = self.done
        for unit, evidence in units:
            done += 1
            self._trigger(e.UnitCompleted, now, unit=unit, evidence=evidence, done=done)
        if step or cursor is not None or tallies is not None:
            self._advance(step, cursor, tallies, now)

    def skip_unit(
        self,
        token: Token,
        unit: str,
        *,
        code: str,
        text: str,
        now: datetime,
        cursor: Any = None,
        advance: int = 1,
    ) -> None:
        """Pass over a bad unit: recorded with its reason, never counted as done."""
        self._fence(token)
        self._check_advance(advance, 1, None)
        self._trigger(e.UnitSkipped, now, unit=unit, code=code, text=storable.text(text), skipped=self.skipped + 1)
        if advance or cursor is not None:
            self._advance(advance, cursor, None, now)

    def _check_advance(self, step: int, new: int, tallies: dict[str, int] | None) -> None:
        """Refuse before anything is recorded: a refused command leaves no event behind."""
        settled = self.done + self.skipped + new
        if step < 0 or self.sequence + step > settled:
            raise CheckpointError(
                self.id, f"checkpoint {self.sequence} can't move by {step}: {settled} units done or skipped"
            )
        if self.total is not None and settled > self.total:
            raise CheckpointError(self.id, f"unit {settled} lies past the total of {self.total}")
        if tallies is not None and len(tallies) > TALLIES_LIMIT:
            raise TooLargeError("tallies", f"{len(tallies)} names", f"at most {TALLIES_LIMIT} are kept")

    def _advance(self, step: int, cursor: Any, tallies: dict[str, int] | None, now: datetime) -> None:
        said: dict[str, Any] = {} if tallies is None else {"tallies": dict(tallies)}
        if not step:
            said["crashes"] = self.crashes
        cursor = self.cursor if cursor is None else cursor
        self._trigger(e.CheckpointAdvanced, now, sequence=self.sequence + step, cursor=cursor, **said)

    def failed_attempt(self, token: Token, unit: str) -> int:
        """Which attempt of *unit* it is that fails under *token*: counted once, announced or not."""
        spent, announced_under = self.tries.get(unit, (0, 0))
        return spent if announced_under == token.grant else spent + 1

    def schedule_retry(
        self,
        token: Token,
        unit: str,
        *,
        category: str,
        text: str,
        next_attempt_at: datetime,
        origin: str,
        now: datetime,
    ) -> None:
        """Store when *unit* is tried again, then honour an operator's wish; gives the lease back.

        Raises:
            ExhaustedError: it was the last one.
        """
        self._fence(token)
        attempt = self.failed_attempt(token, unit)
        if self.policy.is_exhausted(attempt):
            raise ExhaustedError(self.id, f"unit {unit!r} has spent its {attempt} attempts")
        self._trigger(
            e.RetryScheduled,
            now,
            unit=unit,
            attempt=attempt,
            category=category,
            text=storable.text(text),
            next_attempt_at=max(next_attempt_at, now, self.due_at),
            origin=origin,
            failures=self.failures + 1,
        )
        if self.wish:
            self._honour(now)

    def release(self, token: Token, *, cause: str, now: datetime, due_at: datetime | None = None) -> None:
        """Give the lease back at a boundary (yield, shutdown, wait, pause); honour an operator's wish."""
        self._fence(token)
        due_at = max(due_at or now, self.due_at)
        if self.wish:
            self._honour(now, due_at)
        else:
            self._trigger(e.LeaseReleased, now, cause=cause, due_at=due_at)

    def await_gate(self, token: Token, gate: str, *, unit: str, now: datetime, due_at: datetime | None = None) -> None:
        """Give the lease back until *gate* lets the job through; the attempt of *unit* is given back with it (RTY-12)."""
        self._fence(token)
        due_at = max(due_at or now, self.due_at)
        spent = self._spent_without(token, unit)
        self._trigger(e.GateAwaited, now, gate=gate, due_at=due_at, unit=unit, attempt=spent)
        if self.wish:
            self._honour(now)

    def _spent_without(self, token: Token, unit: str) -> int:
        """Attempts of *unit* without the one that was announced under *token*."""
        spent, announced_under = self.tries.get(unit, (0, 0))
        return spent - (announced_under == token.grant)

    def wake(self, child_id: UUID, child_status: Status, *, now: datetime) -> bool:
        """Make a waiting job due because its child has ended; False if it is not waiting (it will look for itself)."""
        if self.status is not Status.WAITING or self.reason != "child":  # a retry's instant is never shortened
            return False
        self._trigger(e.Woken, now, child_id=str(child_id), status=child_status.value)
        return True

    def park(
        self,
        token: Token,
        *,
        reason: str,
        text: str,
        now: datetime,
        not_before: datetime | None = None,
        unit: str = "",
        gate: str = "",
    ) -> None:
        """Exhausted or missing something outside the input: keep the work, paused, for an operator.

        *gate*: what it waits for lies behind this gate, and opening it may resume the job.
        """
        self._fence(token)
        if self.wish is Wish.CANCEL:
            self._honour(now)
            return
        if gate:
            spent = self.failed_attempt(token, unit) if unit else 0
            self._trigger(e.GateAwaited, now, gate=gate, due_at=max(now, self.due_at), unit=unit, attempt=spent)
        self._trigger(
            e.Paused,
            now,
            reason=reason,
            text=storable.text(text),
            failures=self.failures + 1,
            not_before=None if not_before is None else max(not_before, self.due_at),
            unit=unit,
        )

    def fail(self, token: Token, *, reason: str, text: str, now: datetime, unit: str = "") -> None:
        """A verdict about the input: keep the work, failed."""
        self._fence(token)
        if self.wish is Wish.CANCEL:
            self._honour(now)
            return
        failures = self.failures + 1
        self._trigger(e.Failed, now, reason=reason, text=storable.text(text), failures=failures, unit=unit)

    def complete(self, token: Token, *, now: datetime, result: Any = None) -> None:
        """End the job: every unit has evidence or was skipped, and the checkpoint covers them all (STA-04).

        A cancel that stands is honoured instead.
        """
        self._fence(token)
        if self.wish is Wish.CANCEL:
            self._honour(now)
            return
        settled = self.done + self.skipped
        if self.sequence != settled or (self.total is not None and settled != self.total):
            total = "?" if self.total is None else self.total
            raise IncompleteError(
                self.id,
                f"checkpoint {self.sequence}, {self.done} done, {self.skipped} skipped, of {total} units",
            )
        self._trigger(e.Completed, now, result=result, outcome="with-warnings" if self.skipped else "done")

    # -- operators -------------------------------------------------------------------------------------------

    def pause(self, actor: Actor, *, now: datetime) -> None:
        """Hold the job; a running one stops at its next boundary."""
        said = actor.said()
        if self.status is Status.RUNNING:
            if self.wish is Wish.CANCEL:
                raise SupersededError(self.id, "a cancel stands already")
            if self.wish is Wish.PAUSE:
                self._refuse("pause it again")
            self._trigger(e.PauseRequested, now, **said)
        else:
            self._require(Status.PAUSED, "pause it")
            self._trigger(e.Paused, now, reason="operator", **said)

    def resume(self, actor: Actor, *, now: datetime) -> None:
        """Let a paused or failed job go on, not before its stored instant; withdraw a pause not honoured."""
        if self.status is Status.RUNNING and self.wish is Wish.PAUSE:
            self._trigger(e.Resumed, now, cause="withdrawn", due_at=self.due_at, **actor.said())
            return
        if self.wish is Wish.CANCEL:
            raise SupersededError(self.id, "a cancel stands; an earlier resume can't lift it")
        self._require(Status.QUEUED, "resume it", only=(Status.PAUSED, Status.FAILED))
        self._trigger(e.Resumed, now, cause="resume", due_at=max(now, self.due_at), **actor.said())

    def retry_now(self, actor: Actor, *, now: datetime) -> None:
        """Start a fresh attempt cycle of a paused or failed job, due at once; lifetime counts stay."""
        self._require(Status.QUEUED, "retry it", only=(Status.PAUSED, Status.FAILED))
        self._trigger(e.Resumed, now, cause="retry", due_at=now, **actor.said())

    def cancel(self, actor: Actor, *, now: datetime, cleanup: bool = False) -> None:
        """Withdraw the job; a running one ends at its next boundary, by its holder or who finds it dead."""
        if self.status is Status.RUNNING:
            if self.wish is Wish.CANCEL:
                self._refuse("cancel it again")
            self._trigger(e.CancelRequested, now, cleanup=cleanup, **actor.said())
        else:
            self._require(Status.CANCELLED, "cancel it")
            self._trigger(e.Cancelled, now, cleanup=cleanup, **actor.said())

    # -- inside ----------------------------------------------------------------------------------------------

    def _honour(self, now: datetime, due_at: datetime | None = None) -> None:
        """Do at the boundary what the operator asked for; the caller has checked that there is a wish."""
        if self.lease is not None:
            self._trigger(e.LeaseReleased, now, cause=self.wish.value, due_at=due_at or self.due_at)
        if self.wish is Wish.CANCEL:
            self._trigger(e.Cancelled, now, cleanup=self.cleanup)
        else:
            self._trigger(e.Paused, now, reason="operator")

    def _fence(self, token: Token) -> None:
        if self.lease is None or self.lease.token != token:
            raise LeaseLostError(self.id, token.grant)

    def _require(self, target: Status, action: str, only: Iterable[Status] | None = None) -> None:
        if target not in TRANSITIONS[self.status] or (only is not None and self.status not in only):
            self._refuse(action)

    def _refuse(self, action: str) -> NoReturn:
        raise WrongStateError(self.id, action, self.status.value, self.version)

    def collect_events(self) -> Sequence[Any]:
        """The events since the last call, as the library has it, without taking them one by one."""
        collected, self._pending_events = self._pending_events, []
        return collected

    def _trigger(self, event_class: type[e.JobEvent], now: datetime, **fields: Any) -> None:
        """As ``trigger_event``, without its checks at each call (2 µs, not 7): ``test_events`` has them.

        Timestamps never decrease within a stream, whatever clock the caller has.
        """
        event = _new(event_class)
        fields["originator_id"] = self._id
        fields["originator_version"] = version = self._version + 1
        fields["timestamp"] = timestamp = now if now > self._modified_on else self._modified_on  # noqa: FURB136 - max() takes 3 times as long
        _set(event, "__dict__", fields)  # events are frozen
        event.apply(self)
        self._version, self._modified_on = version, timestamp
        self._pending_events.append(event)


def fold(job: Job | None, happened: Iterable[Any]) -> Job | None:
    """Replay events (or a snapshot, then events) onto *job*.

    The library's own projector checks a runtime Protocol for each event, which takes 60 to 85 % of a replay.
    """
    for event in happened:
        job = event.mutate(job)
    return job
