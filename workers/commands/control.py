"""What operators do to one job: pause, resume, cancel, retry; each once per request id."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import orjson

from ...domain import identity, storable
from ...domain.errors import (
    ForbiddenError,
    InvalidFieldError,
    JobLogError,
    RequestConflictError,
    StoreBusyError,
    VersionConflictError,
)
from ...domain.job import Actor, Job
from ...domain.log_events import EpochRaised
from ...eventstore.append import Receipt
from ...eventstore.store import ConflictError
from . import family
from .answers import Commanded
from .held import RELOADS

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from uuid import UUID

    from .log import JobLog

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:-]{20,64}")
ACTIONS: Final = ("pause", "resume", "cancel", "retry")


def check_actor(log: JobLog, actor: Actor) -> Actor:
    """Check who commands; a command without a request id gets one."""
    storable.name(actor.name, "actor")
    storable.name(actor.address, "address", empty=True)
    if not actor.request_id:
        return Actor(actor.name, log.ids.next(), actor.address, actor.text)
    if not _REQUEST_ID.fullmatch(actor.request_id):
        raise InvalidFieldError(
            "request_id", f"{actor.request_id!r}", "give 20 to 64 of letters, digits, '.', '_', ':', '-'"
        )
    return actor


def repeated(log: JobLog, action: str, target: str, actor: Actor) -> Any:
    """The first answer to this request id, or None if it is new.

    Raises:
        RequestConflictError: the id stands for another command (CTL-06).
    """
    found = log.store.receipt(actor.request_id)
    if found is None:
        return None
    if found[:3] != (action, target, actor.name):
        text = f"request id {actor.request_id!r} stands for {found[0]} of {found[1]} by {found[2]}; use a new one"
        raise RequestConflictError(None, text)
    return orjson.loads(found[3])


def command(
    log: JobLog,
    action: str,
    job_id: UUID,
    actor: Actor,
    *,
    tenant: str | None = None,
    if_version: int | None = None,
    cleanup: bool = False,
    may: Callable[[], bool] | None = None,
) -> Commanded:
    """Do *action* to a job, once per request id; repeating the id gives the first answer (CTL-01).

    *if_version* refuses if the job has moved on; *may* is asked again right before each try to append, so that a right
    withdrawn meanwhile counts (CTL-07).

    Raises:
        InvalidFieldError: no such action, or a bad request id.
        JobNotFoundError: no such job, or of another tenant.
        WrongStateError: the job's status does not allow it.
        SupersededError: a newer cancel stands.
        VersionConflictError: not at *if_version*.
        ForbiddenError: *may* says no.
    """
    if action not in ACTIONS:
        raise InvalidFieldError("action", f"{action!r}", f"use one of {', '.join(ACTIONS)}")
    actor = check_actor(log, actor)
    command_id, before = log.ids.next(), -1
    for reload in range(RELOADS + 1):
        if (answer := repeated(log, action, str(job_id), actor)) is not None:
            return Commanded(job_id, answer["status"], answer["wish"], answer["version"], repeated=True)
        job = log.job_again(job_id, before, tenant=tenant)
        if if_version is not None and job.version != if_version:
            raise VersionConflictError(job_id, if_version)
        before, now = job.version, log.now()
        _decide(job, action, actor, now, cleanup=cleanup)
        append = log.job_append(job_id, before, job.collect_events(), command_id, now)
        made: dict[str, Any] = {"status": job.status.value, "wish": job.wish.value, "version": job.version}
        append.receipt = Receipt(actor.request_id, action, str(job_id), actor.name, orjson.dumps(made).decode())
        if may is not None and not may():
            raise ForbiddenError(f"{actor.name} may not {action} this job")
        whole = family.with_parent(log, job, append, now)
        stored = whole.write(log.writer) if isinstance(whole, family.Together) else log.writer.append(whole)
        if not isinstance(stored, JobLogError):
            family.cancel_children(log, job, actor)
            return Commanded(job_id, made["status"], made["wish"], made["version"], repeated=False)
        if not isinstance(stored, VersionConflictError | RequestConflictError) or reload == RELOADS:
            raise stored
    raise AssertionError  # pragma: no cover - the loop returns or raises


def _decide(job: Job, action: str, actor: Actor, now: datetime, *, cleanup: bool) -> None:
    if action == "pause":
        job.pause(actor, now=now)
    elif action == "resume":
        job.resume(actor, now=now)
    elif action == "retry":
        job.retry_now(actor, now=now)
    else:
        job.cancel(actor, now=now, cleanup=cleanup)


def raise_epoch(log: JobLog, actor: Actor, *, reason: str) -> int:
    """Start a new epoch: the answer to a log that was restored or failed over."""
    actor = check_actor(log, actor)
    state = log.store.state()
    epoch = max(state.epoch, log.writer.seen.epoch) + 1
    version = len(log.store.read(identity.LOG_STREAM)) + 1
    event = EpochRaised.made(version, log.now(), epoch=epoch, actor=actor.name, reason=storable.text(reason))
    append = log.to_append(identity.LOG_STREAM, version - 1, [event], log.ids.next())
    try:
        log.store.raise_epoch(append, epoch)
    except ConflictError as error:
        raise StoreBusyError(f"the epoch was raised by somebody else meanwhile: {error}") from error
    log.writer.refresh()
    return epoch
