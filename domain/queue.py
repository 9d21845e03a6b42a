"""A queue's own stream: its durable pause, its slots, and commands to all its jobs with a cut-off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final
from uuid import UUID

from eventsourcing.domain import AggregateEvent, BaseAggregate, OriginatorVersionError

from . import identity, storable
from .errors import InvalidFieldError
from .making import made

if TYPE_CHECKING:
    from datetime import datetime

    from .job import Actor

BULK_ACTIONS: Final = ("cancel", "retry", "pause", "resume")


class QueueEvent(AggregateEvent):
    """What all events of a queue carry."""

    VOCABULARY: ClassVar[int] = 1
    event_id: str
    queue: str
    actor: str
    request_id: str
    generation: int  #: number of the command; a newer one supersedes an older one


class QueueOpened(QueueEvent):
    """A queue got a stream; it was used before without one."""

    TOPIC = "joblog.queue.opened"

    def mutate(self, aggregate: Any) -> Any:
        """The new queue."""
        if aggregate is not None:
            raise OriginatorVersionError(self.originator_version, aggregate.version + 1)
        queue = object.__new__(Queue)
        queue.__base_init__(self.originator_id, self.originator_version, self.timestamp)
        queue.name, queue.paused, queue.slots = self.queue, False, None
        queue.generation = queue.bulk_generation = self.generation
        return queue


class QueuePaused(QueueEvent):
    """Nothing of this queue is claimed, now or later, until it is resumed (CTL-05)."""

    TOPIC = "joblog.queue.paused"

    def apply(self, aggregate: Queue) -> None:
        """Hold it."""
        aggregate.paused, aggregate.generation = True, self.generation


class QueueResumed(QueueEvent):
    """Its jobs are claimed again."""

    TOPIC = "joblog.queue.resumed"

    def apply(self, aggregate: Queue) -> None:
        """Let it go on."""
        aggregate.paused, aggregate.generation = False, self.generation


class QueueLimited(QueueEvent):
    """How many of its jobs may run at once, over all processes."""

    TOPIC = "joblog.queue.limited"

    slots: int | None

    def apply(self, aggregate: Queue) -> None:
        """Set the limit."""
        aggregate.slots, aggregate.generation = self.slots, self.generation


class BulkCommanded(QueueEvent):
    """A command to every job of the queue that exists at its position; later ones are left (CTL-03)."""

    TOPIC = "joblog.queue.bulk-commanded"

    action: str

    def apply(self, aggregate: Queue) -> None:
        """The newest bulk command is the one in force."""
        aggregate.generation = aggregate.bulk_generation = self.generation


class BulkFinished(QueueEvent):
    """A bulk command has reached every job it could; its counts."""

    TOPIC = "joblog.queue.bulk-finished"

    done: int
    refused: int


class Queue(BaseAggregate[UUID]):
    """The queue as its events tell it."""

    TOPIC = "joblog.queue"
    Event = QueueEvent
    Opened = QueueOpened

    name: str
    paused: bool
    slots: int | None
    generation: int
    bulk_generation: int  #: of the bulk command in force

    def __init__(self) -> None:
        """Left empty: ``QueueOpened`` sets the state."""

    @classmethod
    def open(cls, name: str, actor: Actor, *, now: datetime) -> Queue:
        """Start the stream of queue *name*."""
        storable.name(name, "queue")
        said = {"queue": name, "actor": actor.name, "request_id": "", "generation": 0}
        event = made(QueueOpened, identity.queue_stream(name), 1, now, **said)
        queue: Queue = event.mutate(None)
        queue.pending_events.append(event)
        return queue

    def pause(self, actor: Actor, *, now: datetime) -> None:
        """Hold all its jobs, also future ones."""
        self._record(QueuePaused, actor, now)

    def resume(self, actor: Actor, *, now: datetime) -> None:
        """Let its jobs be claimed again."""
        self._record(QueueResumed, actor, now)

    def limit(self, slots: int | None, actor: Actor, *, now: datetime) -> None:
        """Let at most *slots* of its jobs run at once; None for no limit."""
        if slots is not None and (type(slots) is not int or slots < 0):
            raise InvalidFieldError("slots", f"{slots!r} is no count", "give a whole number >= 0, or None")
        self._record(QueueLimited, actor, now, slots=slots)

    def command(self, action: str, actor: Actor, *, now: datetime) -> int:
        """Record a bulk command; returns its generation."""
        if action not in BULK_ACTIONS:
            raise InvalidFieldError("action", f"{action!r}", f"use one of {', '.join(BULK_ACTIONS)}")
        self._record(BulkCommanded, actor, now, action=action)
        return self.generation

    def finish_command(self, actor: Actor, *, now: datetime, done: int, refused: int) -> None:
        """Record what the bulk command in force has done; it stays the one in force."""
        self._record(BulkFinished, actor, now, done=done, refused=refused)

    def _record(self, event_class: type[QueueEvent], actor: Actor, now: datetime, **fields: Any) -> None:
        generation = self.generation + (event_class is not BulkFinished)
        said = {"queue": self.name, "actor": actor.name, "request_id": actor.request_id, "generation": generation}
        event = made(event_class, self.id, self.version + 1, max(now, self.modified_on), **said, **fields)
        event.mutate(self)
        self.pending_events.append(event)


ALL: Final = (QueueOpened, QueuePaused, QueueResumed, QueueLimited, BulkCommanded, BulkFinished)
