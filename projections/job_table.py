"""The job table: one row per job, written in the transaction of the append, derivable from the log at any time.

``changes(event)`` is all of it: what a row holds after an event is what the event says, never a sum of our own.  The
same function serves the append (inline), the rebuild and the verification.  ``ready`` and ``blocked`` are hints of the
claim index and no part of the fold: the promoter and the claim set them right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from ..domain import events as e
from ..domain.status import CLAIMABLE, Status, Wish
from ..eventstore.clock import micros, moment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ("Row", "change", "changes", "micros", "moment", "with_hints")

Row = dict[str, Any]


#: Plain texts: an enum works its value out anew each time, and the views fold millions of events.
_CANCELLED: Final = Status.CANCELLED.value
_COMPLETED: Final = Status.COMPLETED.value
_FAILED: Final = Status.FAILED.value
_PAUSED: Final = Status.PAUSED.value
_QUEUED: Final = Status.QUEUED.value
_RUNNING: Final = Status.RUNNING.value
_WAITING: Final = Status.WAITING.value


def _submitted(event: e.Submitted) -> Row:
    created = micros(event.timestamp)
    return {
        "id": event.originator_id,
        "vocabulary": 1,
        "kind": event.kind,
        "tenant": event.tenant,
        "owner": event.owner,
        "queue": event.queue,
        "priority": event.priority,
        "gate": event.gate,
        "exclusive_key": event.exclusive_key,
        "parent_id": event.parent_id,
        "key": event.key,
        "args_digest": event.args_digest,
        "tags": orjson.dumps(event.tags).decode(),
        "status": _QUEUED,
        "wish": "",
        "outcome": "",
        "reason": "",
        "reason_text": "",
        "due_at": micros(event.due_at),
        "worker": "",
        "token": 0,
        "attempt": 0,
        "unit_attempt": 0,
        "crashes": 0,
        "reclaims": 0,
        "failures": 0,
        "done": 0,
        "skipped": 0,
        "total": event.total,
        "sequence": 0,
        "cursor": None,
        "created_at": created,
        "started_at": None,
        "last_attempt_at": None,
        "finished_at": None,
    }


def _claimed(event: e.Claimed) -> Row:
    at = micros(event.timestamp)
    row: Row = {
        "status": _RUNNING,
        "worker": event.worker,
        "token": event.token,
        "attempt": event.attempt,
        "last_attempt_at": at,
        "reason": "",
        "reason_text": "",
    }
    if event.attempt == 1:
        row["started_at"] = at
    return row


def _unit_attempted(event: e.UnitAttempted) -> Row:
    return {"unit_attempt": event.attempt, "last_attempt_at": micros(event.timestamp)}


def _unit_completed(event: e.UnitCompleted) -> Row:
    return {"done": event.done, "unit_attempt": 0}


def _unit_skipped(event: e.UnitSkipped) -> Row:
    return {"skipped": event.skipped, "unit_attempt": 0}


def _checkpoint_advanced(event: e.CheckpointAdvanced) -> Row:
    cursor = None if event.cursor is None else orjson.dumps(event.cursor).decode()
    return {"sequence": event.sequence, "cursor": cursor, "crashes": event.crashes}


def _lease_released(event: e.LeaseReleased) -> Row:
    status = _WAITING if event.cause in e.WAITING_CAUSES else _QUEUED
    reason = "child" if event.cause == "child" else ""
    return {"status": status, "worker": "", "due_at": micros(event.due_at), "reason": reason, "reason_text": ""}


def _gate_awaited(event: e.GateAwaited) -> Row:
    row: Row = {"status": _WAITING, "worker": "", "gate": event.gate, "due_at": micros(event.due_at)}
    if event.unit:
        row["unit_attempt"] = event.attempt
    return row | {"reason": "gate", "reason_text": ""}


def _woken(event: e.Woken) -> Row:
    return {"status": _WAITING, "due_at": micros(event.timestamp)}


def _lease_expired(event: e.LeaseExpired) -> Row:
    row: Row = {"status": _QUEUED, "worker": "", "due_at": micros(event.timestamp)}
    return row | {"crashes": event.crashes, "reclaims": event.reclaims}


def _retry_scheduled(event: e.RetryScheduled) -> Row:
    row: Row = {"status": _WAITING, "worker": "", "due_at": micros(event.next_attempt_at)}
    row |= {"unit_attempt": event.attempt, "failures": event.failures}
    return row | {"reason": event.category, "reason_text": event.text}


def _pause_requested(_: e.PauseRequested) -> Row:
    return {"wish": Wish.PAUSE.value}


def _paused(event: e.Paused) -> Row:
    row: Row = {"status": _PAUSED, "worker": "", "wish": ""}
    row |= {"reason": event.reason, "reason_text": event.text}
    if event.failures is not None:
        row["failures"] = event.failures
    if event.not_before is not None:
        row["due_at"] = micros(event.not_before)
    return row


def _resumed(event: e.Resumed) -> Row:
    if event.cause == "withdrawn":
        return {"wish": ""}
    row: Row = {"status": _QUEUED, "due_at": micros(event.due_at), "wish": "", "finished_at": None}
    row |= {"reason": "", "reason_text": "", "crashes": 0}
    if event.cause == "retry":
        row["unit_attempt"] = 0
    return row


def _cancel_requested(_: e.CancelRequested) -> Row:
    return {"wish": Wish.CANCEL.value}


def _ended(event: e.JobEvent, status: str) -> Row:
    return {"status": status, "worker": "", "wish": "", "finished_at": micros(event.timestamp)}


def _cancelled(event: e.Cancelled) -> Row:
    return _ended(event, _CANCELLED) | {"reason": "cancelled", "reason_text": event.text}


def _failed(event: e.Failed) -> Row:
    row = _ended(event, _FAILED)
    return row | {"reason": event.reason, "reason_text": event.text, "failures": event.failures}


def _completed(event: e.Completed) -> Row:
    return _ended(event, _COMPLETED) | {"outcome": event.outcome, "reason": "", "reason_text": ""}


_CHANGES: Final[dict[type[Any], Callable[[Any], Row]]] = {
    e.Submitted: _submitted,
    e.Claimed: _claimed,
    e.ListFrozen: lambda _: {},
    e.UnitAttempted: _unit_attempted,
    e.UnitCompleted: _unit_completed,
    e.UnitSkipped: _unit_skipped,
    e.CheckpointAdvanced: _checkpoint_advanced,
    e.LeaseReleased: _lease_released,
    e.GateAwaited: _gate_awaited,
    e.Woken: _woken,
    e.LeaseExpired: _lease_expired,
    e.RetryScheduled: _retry_scheduled,
    e.PauseRequested: _pause_requested,
    e.Paused: _paused,
    e.Resumed: _resumed,
    e.CancelRequested: _cancel_requested,
    e.Cancelled: _cancelled,
    e.Failed: _failed,
    e.Completed: _completed,
}


def change(event: Any) -> Row:
    """What one event says of the job's row."""
    return _CHANGES[type(event)](event)


def changes(happened: Iterable[Any]) -> Row:
    """What the job's row holds after these events of one stream, as far as they say."""
    row: Row = {}
    event = None
    for event in happened:
        row.update(_CHANGES[type(event)](event))
        if event.VOCABULARY > 1:
            row["vocabulary"] = max(event.VOCABULARY, row.get("vocabulary", 1))
    if event is not None:
        row["version"] = event.originator_version
        row["updated_at"] = micros(event.timestamp)
    return row


_CLAIMABLE: Final = frozenset(status.value for status in CLAIMABLE)


def with_hints(row: Row, now: int) -> Row:
    """Add the claim index' hints to *row* changes: ready if claimable and due at store time *now*."""
    if (status := row.get("status")) is not None:
        row["ready"] = int(status in _CLAIMABLE and row["due_at"] <= now)
        row["blocked"] = 0
    return row
