"""What operators do to a whole queue: a pause that lasts, a limit, and commands to all its present jobs.

A bulk command is recorded with its generation first, then done job by job under derived request ids: killed and sent
again it goes on, and a newer bulk command supersedes an older one (CTL-03…05).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from ...domain import identity, storable
from ...domain.errors import ForbiddenError, JobLogError, StateError, VersionConflictError
from ...domain.job import Actor
from ...domain.queue import Queue
from ...domain.status import Status
from ...eventstore.append import Receipt
from .answers import BulkAnswer
from .control import check_actor, command, repeated
from .held import RELOADS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from uuid import UUID

    from .log import JobLog

#: Jobs that each bulk action can touch.
_FITTING: Final = {
    "pause": (Status.QUEUED, Status.WAITING, Status.RUNNING),
    "resume": (Status.PAUSED,),
    "retry": (Status.FAILED, Status.PAUSED),
    "cancel": (Status.QUEUED, Status.WAITING, Status.RUNNING, Status.PAUSED),
}
_PAGE: Final = 200


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
    for reload in range(RELOADS + 1):
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
        if not isinstance(stored, StateError) or reload == RELOADS:
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
    answer, _ = _append(log, name, recorded, actor, lambda queue, now: queue.command(action, actor, now=now), may)
    generation, cut_off = answer["generation"], _position_of(log, name, answer["generation"])
    done = refused = 0
    for job_id in _present(log, name, action, cut_off):
        queue = load(log, name)
        if queue is None or queue.bulk_generation != generation:
            return BulkAnswer(generation, done, refused, superseded=True)
        one = Actor(actor.name, f"{actor.request_id[:27]}:{job_id}", actor.address, actor.text)
        try:
            command(log, action, job_id, one, may=may)
            done += 1
        except StateError:  # it moved on meanwhile: its own state stands
            refused += 1
    return _finish(log, name, recorded, finished, BulkAnswer(generation, done, refused, superseded=False))


def _finish(log: JobLog, name: str, recorded: str, actor: Actor, answer: BulkAnswer) -> BulkAnswer:
    """Keep the counts under the request id, so that a repetition gives them again."""
    queue = load(log, name)
    if queue is None or queue.bulk_generation != answer.generation:
        return answer
    version = queue.version
    queue.finish_command(actor, now=log.now(), done=answer.done, refused=answer.refused)
    append = log.to_append(queue.id, version, queue.collect_events(), log.ids.next())
    made = orjson.dumps(answer._asdict()).decode()
    append.receipt = Receipt(actor.request_id, recorded, name, actor.name, made)
    stored = log.writer.append(append)
    if isinstance(stored, JobLogError) and not isinstance(stored, VersionConflictError):
        raise stored
    return answer


def _position_of(log: JobLog, name: str, generation: int) -> int:
    """The log position of the command that made *generation*: its cut-off."""
    stream = identity.queue_stream(name)
    for event in log.mapper.decode_all(stream, log.store.read(stream)):
        if event.generation == generation:
            return log.store.position_of(stream, event.originator_version) or 0
    return 0


def _present(log: JobLog, name: str, action: str, cut_off: int) -> Iterator[UUID]:
    """Jobs of the queue that were submitted before *cut_off* and that *action* fits."""
    for status in _FITTING[action]:
        before: tuple[int, UUID] | None = None
        while page := log.store.find_jobs(status=status.value, queue=name, before=before, limit=_PAGE):
            before = (page[-1]["created_at"], page[-1]["id"])
            for row in page:
                position = log.store.position_of(row["id"], 1)
                if position is not None and position < cut_off:
                    yield row["id"]
