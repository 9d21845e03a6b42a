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
from . import family, turn
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
        # Not for which, nor whose: it may be another tenant's.
        raise RequestConflictError(None, f"request id {actor.request_id!r} stands for another command; use a new one")
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
    request = _Request(log, action, job_id, check_actor(log, actor), tenant, if_version, cleanup, may)
    for reload in range(RELOADS + 1):
        try:
            answer = request.attempt(alone=reload > 0)
        except _MovedOn as moved:
            if reload == RELOADS:
                raise moved.refusal from None
            log.job_again(job_id, request.refused_at)
        else:
            family.cancel_children(log, request.job, request.actor)  # also when repeated: the first may have died here
            return answer
    raise AssertionError  # pragma: no cover - the loop returns or raises


class _MovedOn(Exception):  # noqa: N818 - no fault, and nobody outside meets it
    """The job was moved on, or the same request was stored, between the look and the append."""

    def __init__(self, refusal: JobLogError) -> None:
        self.refusal = refusal


class _Request:
    """A command to one job, decided anew at each try and sent under the same event ids."""

    def __init__(
        self,
        log: JobLog,
        action: str,
        job_id: UUID,
        actor: Actor,
        tenant: str | None,
        if_version: int | None,
        cleanup: bool,  # noqa: FBT001 - as in ``command``
        may: Callable[[], bool] | None,
    ) -> None:
        self._log, self._action, self._job_id, self.actor = log, action, job_id, actor
        self._tenant, self._if_version, self._cleanup, self._may = tenant, if_version, cleanup, may
        self._command_id = log.ids.next()
        self.refused_at = -1  #: the version that the last try was decided on
        self.job: Job

    def attempt(self, *, alone: bool) -> Commanded:
        """Look, decide, append."""
        log = self._log
        with turn.writing(log, self._job_id, alone=alone) as write:
            # The job first: a twin of this request that is stored after the look is met by version, one before it
            # has its receipt.
            job = self.job = log.job(self._job_id, tenant=self._tenant)
            if (found := repeated(log, self._action, str(self._job_id), self.actor)) is not None:
                return Commanded(self._job_id, found["status"], found["wish"], found["version"], repeated=True)
            if self._if_version is not None and job.version != self._if_version:
                raise VersionConflictError(self._job_id, self._if_version)
            self.refused_at, now = job.version, log.now()
            _decide(job, self._action, self.actor, now, cleanup=self._cleanup)
            append = log.job_append(job.id, self.refused_at, job.collect_events(), self._command_id, now)
            made: dict[str, Any] = {"status": job.status.value, "wish": job.wish.value, "version": job.version}
            append.receipt = self._receipt(made)
            if self._may is not None and not self._may():
                raise ForbiddenError(f"{self.actor.name} may not {self._action} this job")
            whole = family.with_parent(log, job, append, now)
            try:
                write(whole)
            except (VersionConflictError, RequestConflictError) as refusal:
                raise _MovedOn(refusal) from refusal
        if whole is append:
            family.look_at_parent(log, job)
        return Commanded(job.id, made["status"], made["wish"], made["version"], repeated=False)

    def _receipt(self, made: dict[str, Any]) -> Receipt:
        answer = orjson.dumps(made).decode()
        return Receipt(self.actor.request_id, self._action, str(self._job_id), self.actor.name, answer)


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
    version = log.store.version_of(identity.LOG_STREAM) + 1
    event = EpochRaised.made(version, log.now(), epoch=epoch, actor=actor.name, reason=storable.text(reason))
    append = log.to_append(identity.LOG_STREAM, version - 1, [event], log.ids.next())
    try:
        log.store.raise_epoch(append, epoch)
    except ConflictError as error:
        raise StoreBusyError(f"the epoch was raised by somebody else meanwhile: {error}") from error
    log.writer.refresh()
    return epoch
