"""The recovery report: what was taken back, tried again, given up, commanded or reported, newest first.

A row says what happened, never what did not: an action that failed or is left to an operator has ``done`` = 0, and a
plain restart has no row at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from ..domain import addresses, gate, queue, storable
from ..domain import events as e
from ..domain import log_events as le
from ..domain import recovery as r
from ..eventstore.clock import micros
from ..eventstore.view_schema import recovery_rows
from .view import View, remembered

if TYPE_CHECKING:
    from collections.abc import Callable

    from .view import Change, Folded, Happened, State

_EMPTY: Final[dict[str, Any]] = {
    "database": "jobs",
    "detail": "",
    "severity": "info",
    "source": "server",
    "done": 1,
    "deleted": 0,
    "actor_id": "",
    "actor_name": "",
    "ipv4": "",
    "ipv6": "",
    "ids": "[]",
    "titles": "[]",
    "job_id": "",
    "operation": "",
    "provider": "",
    "checkpoint": None,
    "attempt": None,
    "next_retry_at": None,
    "reason": "",
    "reclaimed": 0,
    "tenant": "",
}
#: Reasons whose text may name what a guard refused: that belongs to the security stream, here stands the category.
GENERIC: Final = frozenset({"destination-refused", "egress-refused", "address-refused", "ssrf-refused"})


def fold(state: State | None, happened: Happened) -> Folded:
    """A row for what belongs into the report; the job's facts are remembered for it."""
    event = happened.event
    if not isinstance(event, e.JobEvent):
        told = _OTHER[type(event)](event)
        return None, () if told is None else (_change(happened, told),)
    if isinstance(event, e.Submitted):
        facts = {"operation": event.kind, "tenant": event.tenant, "provider": event.gate}
        return facts | {"checkpoint": 0, "attempt": 0}, ()
    state = remembered(state, happened)
    if isinstance(event, e.CheckpointAdvanced):
        return {**state, "checkpoint": event.sequence}, ()
    if isinstance(event, e.Claimed):
        return {**state, "attempt": event.attempt}, ()
    if isinstance(event, e.GateAwaited):  # a job that waits its turn is no trouble; whose fault it was has a row
        return {**state, "provider": event.gate}, ()
    after = None if isinstance(event, e.Completed | e.Cancelled) else state
    if isinstance(event, e.Completed):
        return after, ()
    said = state | _JOB[type(event)](event) | {"job_id": str(event.originator_id)}
    return after, (_change(happened, said),)


def _change(happened: Happened, said: dict[str, Any]) -> Change:
    row = _EMPTY | {"at": happened.at, "recorded_at": happened.at} | said
    if row["reason"] in GENERIC:
        row["detail"] = "refused by policy; see the security stream"
    row["needle"] = "\n".join((row["type"], row["detail"], row["database"])).casefold()
    return (recovery_rows, (happened.position,), row)


def _by(event: Any) -> dict[str, Any]:
    """An operator's command: who, from where, and why."""
    ipv4, ipv6 = addresses.split(event.address)
    return {"actor_id": event.actor, "actor_name": event.actor, "ipv4": ipv4, "ipv6": ipv6, "source": "admin"}


def _reclaimed(event: e.LeaseExpired) -> dict[str, Any]:
    unit = f", in unit {event.unit}" if event.unit else ""
    text = storable.text(f"taken back from {event.worker} by {event.reclaimed_by}: {event.cause}{unit}")
    row: dict[str, Any] = {"type": "job-reclaimed-after-restart", "severity": "warning", "reclaimed": 1, "detail": text}
    return row | {"reason": event.cause}


def _retry(event: e.RetryScheduled) -> dict[str, Any]:
    kind = "job-retry-scheduled" if event.origin == "backoff" else "job-throttled"  # the provider gave the instant
    row: dict[str, Any] = {"type": kind, "detail": event.text, "reason": event.category}
    return row | {"attempt": event.attempt, "next_retry_at": micros(event.next_attempt_at)}


def _paused(event: e.Paused) -> dict[str, Any]:
    row: dict[str, Any] = {"reason": event.reason, "detail": event.text}
    if event.not_before is not None:
        row["next_retry_at"] = micros(event.not_before)
    if event.reason == "operator":
        return row | {"type": "job-paused"} | (_by(event) if event.actor else {"source": "server"})
    exhausted = event.reason.startswith("exhausted")
    kind = "job-attempts-exhausted" if exhausted else "job-paused"
    return row | {"type": kind, "done": 0, "severity": "error" if exhausted else "warning"}


def _resumed(event: e.Resumed) -> dict[str, Any]:
    kinds = {"resume": "job-resumed", "retry": "job-retried", "withdrawn": "job-pause-withdrawn"}
    return {"type": kinds.get(event.cause, "job-resumed"), "detail": event.text, "reason": event.cause} | _by(event)


def _failed(event: e.Failed) -> dict[str, Any]:
    return {"type": "job-failed", "detail": event.text, "reason": event.reason, "done": 0, "severity": "error"}


def _asked(event: e.PauseRequested | e.CancelRequested) -> dict[str, Any]:
    kind = "job-pause-requested" if isinstance(event, e.PauseRequested) else "job-cancel-requested"
    return {"type": kind, "detail": event.text} | _by(event)


def _cancelled(event: e.Cancelled) -> dict[str, Any]:
    return {"type": "job-cancelled", "detail": event.text} | (_by(event) if event.actor else {})


def _queue(event: Any) -> dict[str, Any] | None:
    row: dict[str, Any] = {"database": "queues", "source": "admin", "actor_id": event.actor, "actor_name": event.actor}
    row["detail"] = f"queue {event.queue}"
    match event:
        case queue.QueuePaused():
            return row | {"type": "queue-paused"}
        case queue.QueueResumed():
            return row | {"type": "queue-resumed"}
        case queue.QueueLimited():
            slots = "no limit" if event.slots is None else f"{event.slots} at a time"
            return row | {"type": "queue-limited", "detail": f"queue {event.queue}: {slots}"}
        case queue.BulkCommanded():
            return row | {"type": f"queue-{event.action}-all-requested"}
        case queue.BulkFinished() if event.refused:  # each job that it reached has its own row
            counts = f"queue {event.queue}: {event.done} done, {event.refused} refused"
            return row | {"type": "queue-command-refused-for-some", "detail": counts, "done": 0, "severity": "warning"}
    return None


def _gate(event: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"database": "gates", "source": "admin", "actor_id": event.actor, "actor_name": event.actor}
    row |= {"provider": event.gate, "detail": storable.text(f"gate {event.gate}: {event.text}".removesuffix(": "))}
    match event:
        case gate.GateClosed():
            return row | {"type": "gate-closed", "next_retry_at": micros(event.until)}
        case gate.GateOpened():
            return row | {"type": "gate-opened"}
    return row | {"type": "gate-limited"}


def _epoch(event: le.EpochRaised) -> dict[str, Any]:
    row = {"type": "log-epoch-raised", "database": "log", "severity": "warning", "source": "admin"}
    return row | {"detail": storable.text(event.reason), "actor_id": event.actor, "actor_name": event.actor}


def _noted(event: r.RecoveryNoted) -> dict[str, Any]:
    row = {name: getattr(event, name) for name in ("type", "detail", "severity", "source", "ipv4", "ipv6", "actor_id")}
    row |= {"database": event.subsystem, "actor_name": event.actor}
    row |= {"done": int(event.done), "deleted": int(event.deleted)}
    row |= {"ids": orjson.dumps(event.ids).decode(), "titles": orjson.dumps(event.titles).decode()}
    return row if event.happened_at is None else row | {"at": micros(event.happened_at)}


def _file(event: r.RecoveryFileRead) -> dict[str, Any] | None:
    if not event.problem:
        return None
    row = {"type": "recovery-import-failed", "database": "recovery", "done": 0, "severity": "warning"}
    return row | {"detail": storable.text(f"{event.file}: {event.problem}")}


_JOB: Final[dict[type[Any], Callable[[Any], dict[str, Any]]]] = {
    e.LeaseExpired: _reclaimed,
    e.RetryScheduled: _retry,
    e.Paused: _paused,
    e.Resumed: _resumed,
    e.Failed: _failed,
    e.PauseRequested: _asked,
    e.CancelRequested: _asked,
    e.Cancelled: _cancelled,
}
_OTHER: Final[dict[type[Any], Callable[[Any], dict[str, Any] | None]]] = {
    **dict.fromkeys(queue.ALL, _queue),
    **dict.fromkeys(gate.ALL, _gate),
    le.EpochRaised: _epoch,
    r.RecoveryNoted: _noted,
    r.RecoveryFileRead: _file,
}
_FACTS: Final = frozenset({e.Submitted, e.Claimed, e.CheckpointAdvanced, e.GateAwaited, e.Completed})
VIEW: Final = View("recovery", 1, (recovery_rows,), frozenset({*_FACTS, *_JOB, *_OTHER}), fold)
