"""Claim, renew, and take back the jobs of dead holders."""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from ...domain import storable
from ...domain.errors import (
    EpochChangedError,
    GenerationChangedError,
    JobLogError,
    LeaseHeldError,
    LeaseLostError,
    StoreBusyError,
    StoreError,
    UnknownEventError,
    UnknownOutcomeError,
    VersionConflictError,
    WrongStateError,
)
from ...domain.events import CODE_VOCABULARY
from ...domain.granting import claim_from_row
from ...domain.job import Actor
from ...domain.lease import Token
from ...eventstore.append import Append, Grant, Takeover
from ...eventstore.failpoint import failpoint
from ...eventstore.store import ClaimQuery, ConflictError, LockedError
from ...projections import job_table, repair
from . import family
from .answers import Reclaimed
from .held import RELOADS, Held

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ...eventstore.store import JobRow, LeaseRow
    from .log import JobLog

logger = logging.getLogger(__name__)

#: Answers to a takeover that came too late: the holder or another reaper was there first.
_TAKEN_BY_OTHERS: Final = (LeaseLostError, LeaseHeldError, WrongStateError, VersionConflictError)

_TRIES: Final = 4  #: of a claim that met locks or rows that did not fit
_SWITCHES: Final = (
    20  #: of job tables that a claim follows: others may rebuild one after the other while it waits for its turn
)

_Claim = tuple["JobRow", Append, Token]


def claim(
    log: JobLog,
    worker: str,
    *,
    queues: Sequence[str],
    limit: int,
    kinds: Sequence[str] | None = None,
    presence: str = "",
    max_crashes: int = 2**31 - 1,
) -> list[Held]:
    """Take up to *limit* due jobs in one transaction: ``claimed`` at version n+1 of each, with its lease.

    The index rows only say where to look; the unique (stream, version) decides.  A row that turns out to be stale is
    made new from the log, and reported.
    """
    storable.name(worker, "worker")
    if limit < 1:
        return []
    query = _query(log, queues, limit, kinds, max_crashes)
    asked_at = log.clock.monotonic()
    made: list[_Claim] = []
    doubtful: list[_Claim] = []

    def build(rows: list[JobRow], now: int) -> list[Append]:
        made[:] = [(row, *_claim_append(log, row, worker, now, presence)) for row in rows]
        return [append for _, append, _ in made]

    def attempt() -> tuple[list[Append], int]:
        made.clear()
        try:
            return log.store.claim(query, build, log.writer.generation, log.writer.seen)
        except UnknownOutcomeError:
            doubtful.extend(made)
            made.clear()
            raise

    try:
        written, first = _claim_transaction(log, query, attempt)
    except UnknownOutcomeError:
        logger.warning("a claim of %s got no answer; what it has taken is looked up", worker)
    else:
        if written:
            log.writer.saw(first + len(written) - 1)
            log.waker.notify()
    # Else nobody would work on them until their leases end, and that would count as a crash.
    made += [entry for entry in doubtful if _is_ours(log, entry[1])]
    if made:
        log.served_tenant = made[-1][0]["tenant"]
    return [_held(log, row, token, asked_at) for row, _, token in made]


def _query(log: JobLog, queues: Sequence[str], limit: int, kinds: Sequence[str] | None, max_crashes: int) -> ClaimQuery:
    return ClaimQuery(
        queues=tuple(dict.fromkeys(queues)),
        limit=limit,
        vocabulary=CODE_VOCABULARY,
        kinds=None if kinds is None else tuple(dict.fromkeys(kinds)),
        after_tenant=log.served_tenant,
        max_crashes=max_crashes,
    )


def _claim_append(log: JobLog, row: JobRow, worker: str, now: int, presence: str) -> tuple[Append, Token]:
    at = max(job_table.moment(now), job_table.moment(row["updated_at"]))
    lease = log.leases.lease
    epoch = log.writer.seen.epoch
    event = claim_from_row(row, worker, epoch=epoch, lease=lease, now=at)
    token = Token(epoch, row["token"] + 1)
    append = log.job_append(row["id"], row["version"], [event], log.ids.next(), at)
    append.grant = Grant(
        token, worker, lease // timedelta(microseconds=1), row["queue"], row["gate"], row["exclusive_key"], presence
    )
    return append, token


def _claim_transaction(
    log: JobLog, query: ClaimQuery, attempt: Callable[[], tuple[list[Append], int]]
) -> tuple[list[Append], int]:
    left, switches = _TRIES, _SWITCHES
    while True:
        try:
            return log.busy.run(attempt)
        except (GenerationChangedError, EpochChangedError):  # no try of its own: nothing was wrong with the rows
            switches -= 1
            if not switches:
                raise
            log.writer.refresh()
        except LockedError as error:
            left -= 1
            if not left:
                raise StoreBusyError(str(error)) from error
        except ConflictError as error:
            left -= 1
            if not left:
                raise StoreBusyError(f"the claim index does not fit the log: {error}") from error
            before = log.writer.generation
            log.writer.refresh()
            if log.writer.generation == before:  # else it was the old rows that did not fit
                repair.stale_rows(log.store, log.mapper, query, before)


def _is_ours(log: JobLog, append: Append) -> bool:
    try:
        log.store.diagnose(append)
    except (JobLogError, ConflictError):
        return False
    return True


def _held(log: JobLog, row: JobRow, token: Token, asked_at: float) -> Held:
    return Held(
        log,
        row["id"],
        token,
        kind=row["kind"],
        attempt=row["attempt"] + 1,
        crashes=row["crashes"],
        asked_at=asked_at,
    )


def replay(log: JobLog, held: Sequence[Held]) -> list[Held]:
    """Replay the streams of all claimed jobs, read in one query; returns those whose events this code does not know."""
    parked: list[Held] = []
    try:
        jobs = log.load([one.job_id for one in held])
    except UnknownEventError:
        jobs = {}
        for one in held:
            try:
                jobs[one.job_id] = log.job(one.job_id)
            except UnknownEventError as error:
                logger.warning("%s", error)
                parked.append(one)
    for one in held:
        if (job := jobs.get(one.job_id)) is not None:
            one.replayed(job)
    return parked


def renew(log: JobLog, held: Iterable[Held]) -> list[Held]:
    """Move the end of all these leases in one statement; returns the lost ones."""
    mine = list(held)
    asked_at = log.clock.monotonic()
    micros = log.leases.lease // timedelta(microseconds=1)
    leases = [(one.job_id, one.token) for one in mine]
    renewed = log.busy.run(lambda: log.store.renew(leases, micros))
    for one in mine:
        if one.job_id in renewed:
            one.renewed(asked_at)
    with suppress(StoreError):
        log.measure_clock()  # ours may have been stepped since
    return [one for one in mine if one.job_id not in renewed]


def expire(log: JobLog, by: str, *, limit: int) -> list[Reclaimed]:
    """Take back jobs whose lease has passed its end by the store's clock; the row under its lock decides."""
    storable.name(by, "by")
    leases = log.store.expired(limit + len(log.parked))
    if not leases:
        return []
    epoch, boot = log.store.state().epoch, log.store.boot_id()  # the newest: this process may not have met it yet
    taken: list[Reclaimed] = []
    for lease in leases:
        if lease.job_id in log.parked:
            continue
        if lease.token.epoch < epoch:
            cause, counts = "epoch-raised", False
        elif lease.boot_id != boot:
            cause, counts = "reboot", False
        else:
            cause, counts = "expired", True
        answer = reclaim(log, lease, by, cause=cause, proven=False, counts=counts)
        if isinstance(answer, Reclaimed):
            taken.append(answer)
        elif not isinstance(answer, _TAKEN_BY_OTHERS):
            logger.warning("job %s could not be taken back: %s", lease.job_id, answer)
            if isinstance(answer, UnknownEventError):
                log.parked.add(lease.job_id)  # left to newer code; it must not stand in the way of the others
    return taken


def reclaim(
    log: JobLog, lease: LeaseRow, by: str, *, cause: str, proven: bool, counts: bool
) -> Reclaimed | JobLogError:
    """End one dead holder's lease: ``lease-expired``, and what its wish or its crashes make of the job."""
    command_id, before = log.ids.next(), -1
    answer: Any = None
    for _ in range(RELOADS + 1):
        try:
            job = log.job_again(lease.job_id, before)
        except JobLogError as error:
            return error
        if job.lease is None or job.lease.token != lease.token:
            return LeaseLostError(lease.job_id, lease.token.grant)
        before, now = job.version, log.now()
        job.expire(cause=cause, by=by, now=now, counts=counts)
        append = log.job_append(job.id, before, job.collect_events(), command_id, now)
        append.takeover = Takeover(lease.token, proven)
        failpoint("expire.before")
        whole = family.with_parent(log, job, append, now)
        answer = whole.write(log.writer) if isinstance(whole, family.Together) else log.writer.append(whole)
        failpoint("expire.after")
        if not isinstance(answer, VersionConflictError):
            break
    if isinstance(answer, JobLogError):
        return answer
    if whole is append:
        family.look_at_parent(log, job)
    family.cancel_children(log, job, Actor(by))
    return Reclaimed(lease.job_id, lease.worker, cause, job.status.value, answer.position)
