"""Parents and children: a child's end makes its waiting parent due in the same commit; a cancel goes down to children."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from ...domain.errors import (
    JobLogError,
    JobNotFoundError,
    StateError,
    StoreError,
    UnknownEventError,
    UnknownOutcomeError,
    VersionConflictError,
)
from ...domain.job import Actor
from ...domain.status import ENDED, Status
from ...eventstore.append import Append, Stored

if TYPE_CHECKING:
    from datetime import datetime

    from ...domain.job import Job
    from ...eventstore.outcomes import Answer
    from ...eventstore.writer import GroupWriter
    from .log import JobLog


logger = logging.getLogger(__name__)

LOOKS: Final = 3  #: at a parent that others change meanwhile; then the floor under its waiting has it


class Together(NamedTuple):
    """Appends to several streams in one transaction; the answer is that of the first."""

    appends: list[Append]

    def write(self, writer: GroupWriter) -> Answer:
        """Write all of them or none."""
        placed = writer.append_atomic(self.appends)
        return placed if isinstance(placed, JobLogError) else Stored(placed[0][0])


def with_parent(log: JobLog, job: Job, append: Append, now: datetime) -> Append | Together:
    """*append*, and if it ends a child whose parent waits, the append that wakes the parent."""
    if not job.parent_id or job.status not in ENDED:
        return append
    try:
        parent = log.job(UUID(job.parent_id))
    except (JobNotFoundError, UnknownEventError):  # a parent that only newer code knows looks for itself
        return append
    before = parent.version
    if not parent.wake(job.id, job.status, now=now):
        return append
    return Together([append, log.job_append(parent.id, before, parent.collect_events(), log.ids.next(), now)])


def look_at_parent(log: JobLog, job: Job) -> None:
    """Wake the parent of a stored end whose commit did not.

    Between our look at it and that commit the parent may have begun to wait, and have found the child still at work.
    Of two who both write first and then look, one sees the other.  The end is acknowledged whatever becomes of this: if
    nobody can look, the floor under the parent's waiting does.
    """
    if not job.parent_id or job.status not in ENDED:
        return
    try:
        _wake_parent(log, job)
    except (StoreError, UnknownOutcomeError) as error:
        logger.warning("job %s has ended, its parent looks for itself: %s", job.id, error)


def _wake_parent(log: JobLog, job: Job) -> None:
    for _ in range(LOOKS):
        try:
            parent = log.job(UUID(job.parent_id))
        except (JobNotFoundError, UnknownEventError):
            return
        before, now = parent.version, log.now()
        if not parent.wake(job.id, job.status, now=now):
            return
        append = log.job_append(parent.id, before, parent.collect_events(), log.ids.next(), now)
        if not isinstance(log.writer.append(append), VersionConflictError):
            return


def cancel_children(log: JobLog, parent: Job, actor: Actor) -> int:
    """Cancel what a cancelled parent has spawned; returns how many.  Repeating it does nothing more."""
    if parent.status is not Status.CANCELLED:
        return 0
    done = 0
    for row in log.store.children(parent.id):
        request = Actor(actor.name, "", actor.address, f"its parent {parent.id} was cancelled")
        try:
            log.command("cancel", row, request)
            done += 1
        except StateError:  # it has ended by itself
            continue
    return done


def wake_if_done(log: JobLog, parent: Job) -> None:
    """A child may have ended between the parent's last look and its release: then nobody else wakes it."""
    for child in log.store.jobs(log.store.children(parent.id)).values():
        if Status(child["status"]) in ENDED:
            now, before = log.now(), parent.version
            if parent.wake(child["id"], Status(child["status"]), now=now):
                log.writer.append(log.job_append(parent.id, before, parent.collect_events(), log.ids.next(), now))
            return
