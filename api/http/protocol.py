"""The worker protocol: any language works on jobs over plain HTTP, under the same leases and fencing tokens.

Nothing is kept between two requests: a claim is its job and its token, so a worker outlives a restart of the service.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from ...domain.errors import ExhaustedError, JobNotFoundError, LeaseLostError, UnitDoneError
from ...domain.lease import Token
from ...workers.commands import claiming, gating
from ...workers.commands.held import Held
from ...workers.outbound import retry_after
from .route import Answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .route import Call

_LOOK_SECONDS: Final = 1.0


async def claim_jobs(call: Call) -> Answer:
    """Take due jobs; with `wait` the answer is held until there is one."""
    service, clock = call.service, call.log.clock
    until = clock.monotonic() + min(call.body.wait, service.limits.wait_seconds)
    while True:
        found, pause = await service.ask(_claim, call)
        left = until - clock.monotonic()
        if found or left <= 0 or service.feed.stopped.is_set():
            return Answer({"claims": found})
        await service.feed.changed(max(min(left, pause), 0.02))


def _claim(call: Call) -> tuple[list[dict[str, Any]], float]:
    """One look: keep house as every worker does, then claim.  Also how long until a look may find more."""
    log, body = call.log, call.body
    asked_at = log.clock.monotonic()
    outlook = log.store.outlook(body.queues)
    if outlook.outbox:
        log.drain_outbox()
    if outlook.next_end is not None and outlook.next_end <= 0:
        log.expire(body.worker)
    if outlook.next_due is not None and outlook.next_due <= 0:
        log.promote()
    held = log.claim(body.worker, queues=body.queues, limit=body.limit, kinds=body.kinds)
    parked = claiming.replay(log, held)
    for one in parked:
        one.release("yield")
    waits = [_LOOK_SECONDS, *(span for span in (outlook.next_due, outlook.next_end) if span is not None and span > 0)]
    return [_claim_document(call, one, asked_at) for one in held if one not in parked], min(waits)


def _claim_document(call: Call, held: Held, asked_at: float) -> dict[str, Any]:
    job = held.job
    return {
        "id": str(held.job_id),
        "token": f"{held.token.epoch}.{held.token.grant}",
        "kind": job.kind,
        "queue": job.queue,
        "args": job.args,
        "attempt": job.attempt,
        "checkpoint": job.sequence,
        "cursor": job.cursor,
        "tallies": job.tallies,
        "unit": job.unit,
        "unit_attempt": job.unit_attempt,
        "crashes": job.crashes,
        "wish": job.wish.value,
        "lease_seconds": _left(call, asked_at),
        "version": job.version,
    }


def _left(call: Call, asked_at: float) -> float:
    """Seconds of the lease from now on, counted from before the store was asked."""
    log = call.log
    return round(max(log.leases.lease.total_seconds() - (log.clock.monotonic() - asked_at), 0.0), 3)


# -- a claim ---------------------------------------------------------------------------------------------------------


def _token(text: str) -> Token:
    epoch, _, grant = text.partition(".")
    return Token(int(epoch), int(grant))


def _held(call: Call) -> tuple[Held, float]:
    """The claim that the request names; every command of it renews the lease."""
    log, token = call.log, _token(call.body.token)
    row = log.store.job(call.job_id)
    if row is None:
        raise JobNotFoundError(call.job_id)
    asked_at = log.clock.monotonic()
    long_ago = asked_at - log.leases.lease.total_seconds()
    held = Held(
        log, row["id"], token, kind=row["kind"], attempt=row["attempt"], crashes=row["crashes"], asked_at=long_ago
    )
    return held, asked_at


def _answer(call: Call, held: Held, asked_at: float, position: int) -> Answer:
    job = held.job
    return Answer(
        {
            "id": str(held.job_id),
            "token": call.body.token,
            "status": job.status.value,
            "wish": job.wish.value,
            "lease_seconds": _left(call, asked_at) if job.lease is not None else 0.0,
            "checkpoint": job.sequence,
            "version": job.version,
            "position": position,
        }
    )


def renew_claim(call: Call) -> Answer:
    """Move the end of the lease; the answer tells what an operator asked meanwhile."""
    held, asked_at = _held(call)
    if claiming.renew(call.log, [held]):
        raise LeaseLostError(held.job_id, held.token.grant)
    return _answer(call, held, asked_at, 0)


def attempt_unit(call: Call) -> Answer:
    """Spend an attempt of a unit before its body runs, so that a crash in it counts."""
    held, asked_at = _held(call)
    held.attempt_unit(call.body.unit)
    return _answer(call, held, asked_at, 0)


def advance_claim(call: Call) -> Answer:
    """Record a finished unit and move the checkpoint behind it, in one commit; the same again changes nothing."""
    held, asked_at = _held(call)
    body = call.body
    more = {} if body.cursor is None else {"cursor": body.cursor}
    try:
        position = held.complete_units([(body.unit, body.evidence)], tallies=body.tallies, **more)
    except UnitDoneError:
        position = 0  # an answer was lost: it stands
        if claiming.renew(call.log, [held]):
            raise LeaseLostError(held.job_id, held.token.grant) from None
    return _answer(call, held, asked_at, position)


def retry_later(call: Call) -> Answer:
    """Store when the unit is tried again, and give the lease back: by what the provider said, in seconds, or by back-off.

    A provider that wants more than a day has the job paused: nothing but an operator resumes it.
    """
    held, asked_at = _held(call)
    body, now = call.body, call.log.now()
    told = None if body.status is None else retry_after.parse(body.headers.items(), body.status, now)
    if told is not None and told.over_cap:
        until = told.until(now)
        text = f"{body.text or body.status}: the provider takes nothing before {until:%Y-%m-%d %H:%M:%S} UTC"
        position = held.park(reason=gating.PROVIDER_WAITS, text=text, not_before=until, unit=body.unit)
        return _answer(call, held, asked_at, position)
    at, origin, lengthens = None, "backoff", False
    if told is not None:
        at, origin, lengthens = told.until(now), told.origin, not told.authoritative
    elif body.seconds is not None:
        at, origin = now + timedelta(seconds=body.seconds), "delta"
    try:
        position = held.schedule_retry(
            body.unit, category=body.category, text=body.text, origin=origin, next_attempt_at=at, lengthens=lengthens
        )
    except ExhaustedError:  # the work is kept, for an operator
        position = held.park(reason=f"exhausted-{body.category}", text=body.text, not_before=at, unit=body.unit)
    return _answer(call, held, asked_at, position)


def complete_claim(call: Call) -> Answer:
    """End the job: its units are all recorded."""
    held, asked_at = _held(call)
    return _answer(call, held, asked_at, held.complete(call.body.result))


def fail_claim(call: Call) -> Answer:
    """End the job with a verdict about its input; it is kept, and an operator may retry it."""
    held, asked_at = _held(call)
    body = call.body
    return _answer(call, held, asked_at, held.fail(reason=body.reason, text=body.text, unit=body.unit))


def release_claim(call: Call) -> Answer:
    """Give the job back at a boundary; an operator's wish is honoured."""
    held, asked_at = _held(call)
    body = call.body
    due_at = None if body.seconds is None else call.log.now() + timedelta(seconds=body.seconds)
    return _answer(call, held, asked_at, held.release(body.cause, due_at=due_at))


def find_unit(call: Call) -> Answer:
    """Whether a unit is done already, by its key: ask before its body runs."""
    unit = call.request.match_info["unit"]
    if call.log.store.job(call.job_id) is None:
        raise JobNotFoundError(call.job_id)
    states: Sequence[bytes] = list(call.log.store.unit_states(call.job_id, [unit]).values())
    evidence = json.loads(bytes(states[0])).get("evidence") if states else None
    return Answer({"unit": unit, "done": bool(states), "evidence": evidence})
