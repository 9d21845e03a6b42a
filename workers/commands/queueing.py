"""What operators do to a whole queue: a pause that lasts, a limit, and commands to all its present jobs.

A bulk command is recorded with its generation first, then done job by job under derived request ids: killed and sent
again it goes on, and a newer bulk command supersedes an older one (CTL-03…05).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from ...domain import identity, storable
from ...domain.errors import ForbiddenError, InvalidFieldError, JobLogError, StateError, VersionConflictError
from ...domain.job import Actor
from ...domain.queue import Queue
from ...domain.status import Status
from ...eventstore.append import Receipt
from .answers import BulkAnswer
from .control import check_actor, command, repeated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime
    from uuid import UUID

    from .log import JobLog

#: Jobs that each bulk action can touch.
FITTING: Final = {
    "pause": (Status.QUEUED, Status.WAITING, Status.RUNNING),
    "resume": (Status.PAUSED,),
    "retry": (Status.FAILED, Status.PAUSED),
    "cancel": (Status.QUEUED, Status.WAITING, Status.RUNNING, Status.PAUSED),
}
_PAGE: Final = 200
_RIVALS: Final = 20  #: commands to one queue at once: each that is refused by version was overtaken by one that was not
ACTIONS: Final = ("pause", "resume", "limit")


def load(log: JobLog, name: str) -> Queue | None:
    """The queue as its events tell it; None if it was never touched."""
    stream = identity.queue_stream(storable.name(name, "queue"))
    queue: Queue | None = None
    for event in log.mapper.decode_all(stream, log.store.read(stream)):
        queue = event.mutate(queue)
    return queue


def control(
    log: JobLog,
    name: str,
    action: str,
    actor: Actor,
    *,
    slots: int | None = None,
    may: Callable[[], bool] | None = None,
) -> dict[str, Any]:
    """``pause``, ``resume`` or ``limit`` a queue; it holds future jobs too and survives an empty queue.

    Returns ``{"queue", "paused", "slots", "generation"}``; repeating the request id returns the first answer.
    """
    if action not in ACTIONS:
        raise InvalidFieldError("action", f"{action!r}", f"use one of {', '.join(ACTIONS)}")
    actor = check_actor(log, actor)

    def decide(queue: Queue, now: datetime) -> None:
        if action == "pause":
            queue.pause(actor, now=now)
        elif action == "resume":
            queue.resume(actor, now=now)
        else:
            queue.limit(slots, actor, now=now)

    return _append(log, name, f"queue-{action}", actor, decide, may)[0]


def _append(
    log: JobLog,
    name: str,
    action: str,
    actor: Actor,
    decide: Callable[[Queue, datetime], Any],
    may: Callable[[], bool] | None,
) -> tuple[dict[str, Any], int]:
    """One append to the queue's stream; returns its answer and the position (0 when it was a repetition)."""
    command_id = log.ids.next()
    for last_try in (*[False] * _RIVALS, True):
        if (answer := repeated(log, action, name, actor)) is not None:
            return answer, 0
        now = log.now()
        queue = load(log, name)
        before = 0 if queue is None else queue.version
        if queue is None:
            queue = Queue.open(name, actor, now=now)
        decide(queue, now)
        append = log.to_append(queue.id, before, queue.collect_events(), command_id)
        row = {"queue": name, "slots": queue.slots, "generation": queue.generation}
        append.queue_row = {**row, "paused": int(queue.paused)}
        answer = {**row, "paused": queue.paused}
        append.receipt = Receipt(actor.request_id, action, name, actor.name, orjson.dumps(answer).decode())
        if may is not None and not may():
            raise ForbiddenError(f"{actor.name} may not {action} {name!r}")
        stored = log.writer.append(append)
        if not isinstance(stored, JobLogError):
            return answer, stored.position + len(append.events) - 1
        if not isinstance(stored, StateError) or last_try:
            raise stored
    raise AssertionError  # pragma: no cover - the loop returns or raises


def bulk(log: JobLog, name: str, action: str, actor: Actor, *, may: Callable[[], bool] | None = None) -> BulkAnswer:
    """Do *action* to every job that the queue has at this command's position; later ones are left.

    Sending the same request id again goes on where it stopped, or answers ``superseded`` once a newer command stands.
    """
    actor = check_actor(log, actor)
    recorded = f"bulk-{action}"
    finished = Actor(actor.name, f"{actor.request_id}:end", actor.address)
    if (answer := repeated(log, recorded, name, finished)) is not None:
        return BulkAnswer(**answer)
    answer, position = _append(
        log, name, recorded, actor, lambda queue, now: queue.command(action, actor, now=now), may
    )
    run = _Bulk(log, name, action, actor, answer["generation"], position, may)
    if not position:
        run.go_on_after_a_crash()
    while not run.superseded and run.reach_present_jobs():
        """Again, until a whole look finds nobody new: a job may have changed its status while it was looked for."""
    if run.superseded:
        return run.answer
    return _finish(log, name, recorded, finished, run.answer)


class _Bulk:
    """A bulk command under way.  What it did to a job is known by the receipt, so each is commanded once."""

    def __init__(
        self,
        log: JobLog,
        name: str,
        action: str,
        actor: Actor,
        generation: int,
        position: int,
        may: Callable[[], bool] | None,
    ) -> None:
        self._log, self._name, self._action, self._actor, self._may = log, name, action, actor, may
        self._generation, self._cut_off = generation, position
        self._done = 0
        self._refused: set[UUID] = set()
        self.superseded = False

    @property
    def answer(self) -> BulkAnswer:
        return BulkAnswer(self._generation, self._done, len(self._refused), self.superseded)

    def go_on_after_a_crash(self) -> None:
        """Find the command's own position, and count the jobs that it has reached already, in whatever status."""
        self._cut_off = _position_of(self._log, self._name, self._generation)
        self._done = len({job_id for job_id in self._jobs(tuple(Status)) if self._is_done(job_id)})

    def reach_present_jobs(self) -> int:
        """Command those that it has not reached yet; returns how many there were."""
        reached = 0
        for job_id in self._jobs(FITTING[self._action]):
            if job_id in self._refused or self._is_done(job_id):
                continue
            queue = load(self._log, self._name)
            if queue is None or queue.bulk_generation != self._generation:
                self.superseded = True
                break
            self._command(job_id)
            reached += 1
        return reached

    def _command(self, job_id: UUID) -> None:
        one = Actor(self._actor.name, self._request(job_id), self._actor.address, self._actor.text)
        try:
            command(self._log, self._action, job_id, one, may=self._may)
        except StateError:  # it moved on meanwhile: its own state stands
            self._refused.add(job_id)
        else:
            self._done += 1

    def _request(self, job_id: UUID) -> str:
        """A job is in one queue, and the queue counts its commands: no other command to this job has this id."""
        return f"bulk.{self._generation}:{job_id}"

    def _is_done(self, job_id: UUID) -> bool:
        return self._log.store.receipt(self._request(job_id)) is not None

    def _jobs(self, statuses: Iterable[Status]) -> Iterator[UUID]:
        """Jobs of the queue in these statuses that were submitted before the cut-off."""
        store = self._log.store
        for status in statuses:
            before: tuple[int, UUID] | None = None
            while page := store.find_jobs(status=status.value, queue=self._name, before=before, limit=_PAGE):
                before = (page[-1]["created_at"], page[-1]["id"])
                for row in page:
                    position = store.position_of(row["id"], 1)
                    if position is not None and position < self._cut_off:
                        yield row["id"]


def _finish(log: JobLog, name: str, recorded: str, actor: Actor, answer: BulkAnswer) -> BulkAnswer:
    """Keep the counts under the request id, so that a repetition gives them again."""
    command_id = log.ids.next()
    for _ in range(_RIVALS):
        queue = load(log, name)
        if queue is None or queue.bulk_generation != answer.generation:
            return answer
        version = queue.version
        queue.finish_command(actor, now=log.now(), done=answer.done, refused=answer.refused)
        append = log.to_append(queue.id, version, queue.collect_events(), command_id)
        made = orjson.dumps(answer._asdict()).decode()
        append.receipt = Receipt(actor.request_id, recorded, name, actor.name, made)
        stored = log.writer.append(append)
        if not isinstance(stored, JobLogError):
            return answer
        if (first := repeated(log, recorded, name, actor)) is not None:
            return BulkAnswer(**first)  # the same request came from two sides
        if not isinstance(stored, VersionConflictError):
            raise stored
    return answer  # every job is reached; only the note of it is missing, and sending it again makes that


def _position_of(log: JobLog, name: str, generation: int) -> int:
    """The log position of the command that made *generation*: its cut-off."""
    stream = identity.queue_stream(name)
    for event in log.mapper.decode_all(stream, log.store.read(stream)):
        if event.generation == generation:
            return log.store.position_of(stream, event.originator_version) or 0
    return 0
