"""What operators do to a provider's gate: limits, a closure, an opening that may resume what a long closure has parked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from ...domain import identity, storable
from ...domain.errors import (
    ForbiddenError,
    GateNotFoundError,
    InvalidFieldError,
    JobLogError,
    StateError,
    VersionConflictError,
)
from ...domain.gate import GateClosed, GateLimited, GateOpened
from ...domain.job import Actor
from ...domain.status import Status
from ...eventstore.append import Receipt
from ...eventstore.clock import micros
from ...eventstore.gates import GateLimits, GateRow
from .control import check_actor, command, repeated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime
    from uuid import UUID

    from ...domain.gate import GateEvent
    from .log import JobLog

    May = Callable[[], bool] | None  #: asked again right before each try to append (CTL-07)

#: Why a job is paused whose provider wants it to wait for more than a day.
PROVIDER_WAITS: Final = "provider-waits"
_PAGE: Final = 200
_RIVALS: Final = 20

_Made = tuple["GateEvent", GateRow]


class Opened(NamedTuple):
    """What opening a gate did."""

    gate: str
    resumed: int  #: jobs that a closure of more than a day had paused
    repeated: bool = False


def limit(log: JobLog, gate: str, actor: Actor, limits: GateLimits, *, may: May = None) -> dict[str, Any]:
    """Set how many requests pass at once and how far apart; what the code declares no longer counts."""

    def make(version: int, now: datetime, actor: Actor) -> _Made:
        event = GateLimited.made(gate, version, now, actor, slots=limits.slots, spacing=limits.spacing)
        return event, GateRow(gate, slots=limits.slots, spacing=limits.spacing, pinned=1)

    return _append(log, gate, "gate-limit", actor, make, may)


def with_limits(log: JobLog, gate: str, given: Mapping[str, Any]) -> GateLimits:
    """What is *given* of ``slots`` and ``spacing_seconds``; the rest as the gate has it."""
    from ..registry import gate_limits

    row = log.store.gate_rows([gate]).get(gate, GateRow(gate))
    return gate_limits(given.get("slots", row.slots), given.get("spacing_seconds", row.spacing / 1_000_000))


def close(log: JobLog, gate: str, actor: Actor, until: datetime, *, may: May = None) -> dict[str, Any]:
    """Let nothing pass before then; a longer closure stands."""
    if until <= log.now():
        raise InvalidFieldError("until", "that instant has passed", "give one ahead, or open the gate")

    def make(version: int, now: datetime, actor: Actor) -> _Made:
        row = GateRow(gate, closed_until=micros(until), closed_by=actor.name, closed_at=micros(now))
        reason = storable.text(actor.text, limit=200)
        return GateClosed.made(gate, version, now, actor, until=until), row._replace(closed_reason=reason)

    return _append(log, gate, "gate-close", actor, make, may)


def open_(log: JobLog, gate: str, actor: Actor, *, resume: bool = False, may: May = None) -> Opened:
    """Open it, whatever the provider had said; *resume*: start again just those jobs that its long closure has paused.

    Raises:
        GateNotFoundError: no such gate was ever used or set.
    """
    if not log.store.gate_rows([storable.name(gate, "gate", limit=storable.NAME_BYTES)]):
        raise GateNotFoundError(f"no gate {gate!r} was ever used or set; see `joblog gates`")
    actor = check_actor(log, actor)
    is_repeated = repeated(log, "gate-open", gate, actor) is not None

    def make(version: int, now: datetime, actor: Actor) -> _Made:
        row = GateRow(gate, closed_by=actor.name, closed_at=micros(now))
        return GateOpened.made(gate, version, now, actor), row

    _append(log, gate, "gate-open", actor, make, may)
    log.waker.notify(ready=True)
    resumed = sum(_resume(log, job_id, actor, may) for job_id in _parked(log, gate)) if resume else 0
    return Opened(gate, resumed, is_repeated)


def _parked(log: JobLog, gate: str) -> Iterator[UUID]:
    before: tuple[int, UUID] | None = None
    while page := log.store.find_jobs(status=Status.PAUSED.value, before=before, limit=_PAGE):
        before = (page[-1]["created_at"], page[-1]["id"])
        for row in page:
            if (row["gate"], row["reason"]) == (gate, PROVIDER_WAITS):
                yield row["id"]


def _resume(log: JobLog, job_id: UUID, actor: Actor, may: May) -> bool:
    """A fresh attempt cycle, due now: the operator knows better than the instant that the provider gave."""
    try:
        command(log, "retry", job_id, Actor(actor.name, log.ids.next(), actor.address, actor.text), may=may)
    except StateError:  # it moved on meanwhile: its own state stands
        return False
    return True


def _append(
    log: JobLog, gate: str, action: str, actor: Actor, make: Callable[[int, datetime, Actor], _Made], may: May
) -> dict[str, Any]:
    """One event in the gate's stream, with its row, in one commit; the same request id answers the same."""
    storable.name(gate, "gate", limit=storable.NAME_BYTES)
    actor = check_actor(log, actor)
    command_id, stream = log.ids.next(), identity.gate_stream(gate)
    for last_try in (*[False] * _RIVALS, True):
        if (answer := repeated(log, action, gate, actor)) is not None:
            return dict(answer)
        before, now = len(log.store.read(stream)), log.now()
        event, row = make(before + 1, now, actor)
        append = log.to_append(stream, before, [event], command_id)
        append.gate_row = row._asdict()
        answer = {"gate": gate, "action": action}
        append.receipt = Receipt(actor.request_id, action, gate, actor.name, orjson.dumps(answer).decode())
        if may is not None and not may():
            raise ForbiddenError(f"{actor.name} may not {action.removeprefix('gate-')} {gate!r}")
        stored = log.writer.append(append)
        if not isinstance(stored, JobLogError):
            return answer
        if not isinstance(stored, VersionConflictError) or last_try:
            raise stored
    raise AssertionError  # pragma: no cover - the loop returns or raises
