"""Everything that can happen to a job, in the past tense.

Events are for ever: explicit topics, fields only added (with a default), old ones lifted by an upcaster on
the class. ``apply`` only assigns, new values for old: replay must not depend on today's rules, nor a snapshot
change with its job.  Counters are absolute, so that a projection can write what an event says without knowing
what was there before.

``VOCABULARY`` numbers the release of the vocabulary that brought the class.  Code claims, commands and
snapshot-loads only jobs whose highest number it knows (S18).
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

from eventsourcing.domain import AggregateCreated, AggregateEvent, OriginatorVersionError
from eventsourcing.utils import resolve_topic

from .lease import Lease, Token
from .status import Status, Wish

if TYPE_CHECKING:
    from .job import Job

#: The newest vocabulary this code speaks.
CODE_VOCABULARY: Final = 1


#: Causes of a release after which the job waits; after the others any worker may go on.
WAITING_CAUSES: Final = frozenset({"wait", "child"})


class JobEvent(AggregateEvent):
    """What all events of a job carry: stream, version, instant, and an id: the same when sent again."""

    TOPIC: ClassVar[str]
    VOCABULARY: ClassVar[int] = 1
    INSTANTS: ClassVar[tuple[str, ...]] = ()  #: fields that hold an aware datetime, besides ``timestamp``

    event_id: str  #: given when the event is encoded for the log, and again the same when it is sent again


class Submitted(JobEvent, AggregateCreated):
    """A job was handed in; it may run from ``due_at`` on."""

    TOPIC = "joblog.job.submitted"
    INSTANTS = ("due_at",)

    kind: str
    tenant: str
    owner: str
    queue: str
    priority: int
    args: Any
    args_digest: str
    key: str
    due_at: datetime
    exclusive_key: str = ""
    gate: str = ""
    tags: tuple[str, ...] = ()
    retry: dict[str, Any] | None = None
    total: int | None = None
    parent_id: str = ""

    def mutate(self, aggregate: Any) -> Any:
        """The new job.  As in the library, without inspecting signatures each time (22 µs to 2 µs)."""
        if aggregate is not None:
            raise OriginatorVersionError(self.originator_version, aggregate.version + 1)
        job = object.__new__(resolve_topic(self.originator_topic))
        job.__base_init__(self.originator_id, self.originator_version, self.timestamp)
        self.apply(job)
        return job

    def apply(self, job: Job) -> None:
        """Set every attribute of a new job."""
        job.kind, job.tenant, job.owner = self.kind, self.tenant, self.owner
        job.queue, job.priority = self.queue, self.priority
        job.args, job.args_digest, job.key = self.args, self.args_digest, self.key
        job.exclusive_key, job.gate, job.tags = self.exclusive_key, self.gate, list(self.tags)
        job.retry, job.total, job.parent_id = self.retry, self.total, self.parent_id
        job.due_at = self.due_at
        job.start_empty()


class Claimed(JobEvent):
    """A worker took the lease under a token higher than any before."""

    TOPIC = "joblog.job.claimed"
    INSTANTS = ("lease_until",)

    worker: str
    epoch: int
    token: int
    lease_until: datetime
    attempt: int

    def apply(self, job: Job) -> None:
        """The job runs under this lease."""
        job.status = Status.RUNNING
        job.lease = Lease(self.worker, Token(self.epoch, self.token), self.timestamp, self.lease_until)
        job.epoch, job.token = self.epoch, self.token
        job.attempt = self.attempt
        job.started_on = job.started_on or self.timestamp
        job.last_attempt_on = self.timestamp
        job.reason = job.reason_text = ""


class ListFrozen(JobEvent):
    """A list of items was stored before its first unit; its boundaries never move."""

    TOPIC = "joblog.job.list-frozen"

    name: str
    count: int
    digest: str

    def apply(self, job: Job) -> None:
        """Remember how to check the stored list on every resume."""
        job.lists = {**job.lists, self.name: {"count": self.count, "digest": self.digest}}


class UnitAttempted(JobEvent):
    """An attempt of a unit is spent, even if the process dies in it."""

    TOPIC = "joblog.job.unit-attempted"

    unit: str
    attempt: int

    def apply(self, job: Job) -> None:
        """The unit is in flight."""
        job.note_attempt(self.unit, self.attempt)
        job.last_attempt_on = self.timestamp


class UnitCompleted(JobEvent):
    """A unit's effect is done and verified; here is its evidence."""

    TOPIC = "joblog.job.unit-completed"

    unit: str
    evidence: Any
    done: int

    def apply(self, job: Job) -> None:
        """One more unit has evidence."""
        job.done = self.done
        job.settle(self.unit)


class UnitSkipped(JobEvent):
    """A bad unit was passed over, by the operation's policy; it can be retried alone."""

    TOPIC = "joblog.job.unit-skipped"

    unit: str
    code: str
    text: str
    skipped: int

    def apply(self, job: Job) -> None:
        """The unit never counts as done."""
        job.skipped = self.skipped
        job.settle(self.unit)
        job.note_error(self.timestamp, self.unit, self.code, self.text)


class CheckpointAdvanced(JobEvent):
    """The finished prefix of units grew; the job goes on behind it."""

    TOPIC = "joblog.job.checkpoint-advanced"

    sequence: int
    cursor: Any
    tallies: dict[str, int] | None = None
    crashes: int = 0  #: left where the checkpoint only got a new cursor or tallies

    def apply(self, job: Job) -> None:
        """Nothing before the checkpoint runs again; crashes count from here."""
        job.sequence, job.cursor = self.sequence, self.cursor
        job.crashes = self.crashes
        if self.tallies is not None:
            job.tallies = self.tallies


class LeaseReleased(JobEvent):
    """The holder gave the job back in order: pause, shutdown, yield or wait."""

    TOPIC = "joblog.job.lease-released"
    INSTANTS = ("due_at",)

    cause: str  #: pause, cancel, shutdown, yield; wait (for an instant), child (for a child's end)
    due_at: datetime

    def apply(self, job: Job) -> None:
        """Claimable again from ``due_at`` on."""
        job.status = Status.WAITING if self.cause in WAITING_CAUSES else Status.QUEUED
        job.lease = None
        job.due_at = self.due_at
        job.reason, job.reason_text = ("child" if self.cause == "child" else ""), ""


class GateAwaited(JobEvent):
    """The holder gave the job back because a gate lets nothing through for longer than a moment; no attempt is spent by that."""

    TOPIC = "joblog.job.gate-awaited"
    INSTANTS = ("due_at",)

    gate: str  #: from now on the job is claimed only when this gate has room
    due_at: datetime  #: the turn that was kept for it, or now if the gate alone decides
    unit: str = ""
    attempt: int = 0  #: attempts of *unit* that stay spent

    def apply(self, job: Job) -> None:
        """Claimable from ``due_at`` on, as soon as the gate lets it through."""
        job.status = Status.WAITING
        job.lease = None
        job.gate, job.due_at = self.gate, self.due_at
        job.reason, job.reason_text = "gate", ""
        if self.unit:
            job.give_attempt_back(self.unit, self.attempt)


class Woken(JobEvent):
    """A child that a waiting job waits for has ended; the parent is due at once, in the same commit."""

    TOPIC = "joblog.job.woken"

    child_id: str
    status: str  #: how the child ended

    def apply(self, job: Job) -> None:
        """Claimable now."""
        job.due_at = self.timestamp


class LeaseExpired(JobEvent):
    """A dead holder's job was taken over."""

    TOPIC = "joblog.job.lease-expired"
    INSTANTS = ("held_since",)

    worker: str  #: who held it
    token: int
    held_since: datetime
    unit: str  #: the unit in flight
    cause: str  #: expired, holder-died, shutdown, reboot, epoch-raised
    reclaimed_by: str
    crashes: int
    reclaims: int

    def apply(self, job: Job) -> None:
        """Claimable at once; the checkpoint stands."""
        job.status = Status.QUEUED
        job.lease = None
        job.crashes, job.reclaims = self.crashes, self.reclaims
        job.due_at = self.timestamp


class RetryScheduled(JobEvent):
    """A unit failed for a passing cause; when to try again is stored before anyone waits."""

    TOPIC = "joblog.job.retry-scheduled"
    INSTANTS = ("next_attempt_at",)

    unit: str
    attempt: int
    category: str
    text: str
    next_attempt_at: datetime
    origin: str  #: of the wait: backoff, delta, date, reset
    failures: int

    def apply(self, job: Job) -> None:
        """The job waits without lease or worker."""
        job.status = Status.WAITING
        job.lease = None
        job.note_attempt(self.unit, self.attempt)
        job.failures = self.failures
        job.due_at = self.next_attempt_at
        job.reason, job.reason_text = self.category, self.text
        job.note_error(self.timestamp, self.unit, self.category, self.text)


class PauseRequested(JobEvent):
    """An operator wants a running job to stop at its next boundary."""

    TOPIC = "joblog.job.pause-requested"

    actor: str
    request_id: str
    text: str = ""
    address: str = ""

    def apply(self, job: Job) -> None:
        """The holder reads the wish at its boundary."""
        job.wish = Wish.PAUSE


class Paused(JobEvent):
    """The job needs someone: nothing runs it until it is resumed."""

    TOPIC = "joblog.job.paused"
    INSTANTS = ("not_before",)

    reason: str
    text: str = ""
    actor: str = ""
    request_id: str = ""
    address: str = ""
    failures: int | None = None
    not_before: datetime | None = None
    unit: str = ""

    def apply(self, job: Job) -> None:
        """Checkpoint kept, lease given back."""
        job.status, job.lease, job.wish = Status.PAUSED, None, Wish.NONE
        job.reason, job.reason_text = self.reason, self.text
        if self.failures is not None:
            job.failures = self.failures
            job.note_error(self.timestamp, self.unit or job.unit, self.reason, self.text)
        if self.not_before is not None:
            job.due_at = self.not_before


class Resumed(JobEvent):
    """An operator lets a paused or failed job go on, or withdraws a pause that was not honoured yet."""

    TOPIC = "joblog.job.resumed"
    INSTANTS = ("due_at",)

    cause: str  #: resume, retry, withdrawn
    due_at: datetime
    actor: str
    request_id: str
    text: str = ""
    address: str = ""

    def apply(self, job: Job) -> None:
        """A retry starts a fresh attempt cycle; lifetime counters stay."""
        job.wish = Wish.NONE
        if self.cause == "withdrawn":
            return
        job.status = Status.QUEUED
        job.due_at = self.due_at
        job.reason = job.reason_text = ""
        job.finished_on = None
        job.crashes = 0
        if self.cause == "retry":
            job.unit_attempt = 0
            job.tries = {}
            job.cycle += 1


class CancelRequested(JobEvent):
    """An operator wants a running job to end at its next boundary."""

    TOPIC = "joblog.job.cancel-requested"

    actor: str
    request_id: str
    text: str = ""
    address: str = ""
    cleanup: bool = False  #: also remove what was created

    def apply(self, job: Job) -> None:
        """The holder, or whoever finds it dead, finalizes it."""
        job.wish, job.cleanup = Wish.CANCEL, self.cleanup


class Cancelled(JobEvent):
    """The job ended at a boundary without finishing."""

    TOPIC = "joblog.job.cancelled"

    actor: str = ""
    request_id: str = ""
    text: str = ""
    address: str = ""
    cleanup: bool = False

    def apply(self, job: Job) -> None:
        """Final."""
        job.finish(Status.CANCELLED, self.timestamp)
        job.cleanup = self.cleanup
        job.reason, job.reason_text = "cancelled", self.text


class Failed(JobEvent):
    """A verdict about the input ended the job; it is kept, and may be retried by hand."""

    TOPIC = "joblog.job.failed"

    reason: str
    text: str
    failures: int
    unit: str = ""

    def apply(self, job: Job) -> None:
        """Nothing runs it by itself any more."""
        job.finish(Status.FAILED, self.timestamp)
        job.failures = self.failures
        job.reason, job.reason_text = self.reason, self.text
        job.note_error(self.timestamp, self.unit, self.reason, self.text)


class Completed(JobEvent):
    """Every unit has evidence or was skipped by policy."""

    TOPIC = "joblog.job.completed"

    result: Any = None
    outcome: str = "done"  #: done, or with-warnings when units were skipped

    def apply(self, job: Job) -> None:
        """Final."""
        job.finish(Status.COMPLETED, self.timestamp)
        job.result, job.outcome = self.result, self.outcome
        job.reason = job.reason_text = ""


#: Every class, in the order of the table in the design.
ALL: Final[tuple[type[JobEvent], ...]] = (
    Submitted,
    Claimed,
    ListFrozen,
    UnitAttempted,
    UnitCompleted,
    CheckpointAdvanced,
    UnitSkipped,
    LeaseReleased,
    GateAwaited,
    Woken,
    LeaseExpired,
    RetryScheduled,
    PauseRequested,
    Paused,
    Resumed,
    CancelRequested,
    Cancelled,
    Failed,
    Completed,
)
