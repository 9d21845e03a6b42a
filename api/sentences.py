"""What each event says, in a sentence: who died where, and who went on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..domain import events as e
from ..domain import gate, log_events, queue
from .text import clean, clock_time

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

#: Why a lease ended without its holder, and what the holder is said to have done.
_DEATHS: Final = {
    "holder-died": "{who} died{where}",
    "expired": "{who} went silent{where} and its lease ran out",
    "reboot": "the machine of {who} was started again{where}",
    "shutdown": "{who} was stopped before it could hand the job back{where}",
    "epoch-raised": "the log's epoch was raised while {who} held the job{where}",
}
_RELEASES: Final = {
    "shutdown": "handed back: the worker was told to stop",
    "yield": "handed back behind other due jobs",
    "wait": "waits without a worker until {due}",
    "child": "waits without a worker for a child to end",
    "pause": "handed back: a pause was asked for",
    "cancel": "handed back: a cancel was asked for",
}


def sentence(event: Any, now: datetime) -> str:
    """One event of a job, a queue or the log itself, for people."""
    make = _SENTENCES.get(type(event))
    return clean(make(event, now)) if make else event.TOPIC


def _because(text: str, start: str = ": ") -> str:
    return f"{start}{text}" if text else ""


def _submitted(event: e.Submitted, now: datetime) -> str:
    due = f", due {clock_time(event.due_at, now)}" if event.due_at > event.timestamp else ""
    by = f" by {event.owner}" if event.owner else ""
    return f"submitted{by}: {event.kind} in queue {event.queue}, priority {event.priority}{due}"


def _lease_expired(event: e.LeaseExpired, now: datetime) -> str:
    where = f" in unit {event.unit}" if event.unit else ""
    death = _DEATHS.get(event.cause, "{who} lost the job{where} (" + event.cause + ")")
    said = death.format(who=event.worker, where=where)
    held = f"it had held the job since {clock_time(event.held_since, now)}"
    count = f"; crash {event.crashes} at this checkpoint" if event.crashes else ""
    return f"{said}; {held}; {event.reclaimed_by} took it back{count}"


def _retry_scheduled(event: e.RetryScheduled, now: datetime) -> str:
    said = f"unit {event.unit} failed on attempt {event.attempt} ({event.category}){_because(event.text)}"
    return f"{said}; next try {clock_time(event.next_attempt_at, now)} ({event.origin})"


def _paused(event: e.Paused, now: datetime) -> str:
    by = f" by {event.actor}" if event.actor else ""
    until = f"; not before {clock_time(event.not_before, now)}" if event.not_before else ""
    where = f" in unit {event.unit}" if event.unit else ""
    return f"paused{by}{where} ({event.reason}){_because(event.text)}{until}"


def _resumed(event: e.Resumed, now: datetime) -> str:
    verb = {"retry": "retried", "withdrawn": "pause withdrawn"}.get(event.cause, "resumed")
    due = f"; due {clock_time(event.due_at, now)}" if event.due_at > event.timestamp else ""
    return f"{verb} by {event.actor}{_because(event.text)}{due}"


def _released(event: e.LeaseReleased, now: datetime) -> str:
    return _RELEASES.get(event.cause, f"handed back ({event.cause})").format(due=clock_time(event.due_at, now))


def _gate_awaited(event: e.GateAwaited, now: datetime) -> str:
    turn = f", from its turn at {clock_time(event.due_at, now)} on" if event.due_at > event.timestamp else ""
    return f"waits without a worker until gate {event.gate} lets it through{turn}"


def _gate_limited(event: gate.GateLimited, _: datetime) -> str:
    slots = "any number of requests pass" if event.slots is None else f"{event.slots:,} requests pass"
    return f"gate {event.gate}: {slots} at once, {event.spacing / 1_000_000:g} s apart, says {event.actor}"


def _checkpoint(event: e.CheckpointAdvanced, _: datetime) -> str:
    tallies = ", ".join(f"{name} {count:,}" for name, count in (event.tallies or {}).items())
    return f"checkpoint {event.sequence:,}{_because(tallies)}"


def _failed(event: e.Failed, _: datetime) -> str:
    where = f" in unit {event.unit}" if event.unit else ""
    return f"failed{where} ({event.reason}){_because(event.text)}"


def _cancelled(event: e.Cancelled, _: datetime) -> str:
    by = f" by {event.actor}" if event.actor else ", as was asked for"
    return f"cancelled{by}{_because(event.text)}{'; what it made is removed' if event.cleanup else ''}"


_SENTENCES: Final[dict[type[Any], Callable[[Any, datetime], str]]] = {
    e.Submitted: _submitted,
    e.Woken: lambda event, _: f"child {event.child_id} {event.status}: due again",
    e.Claimed: lambda event, _: f"claimed by {event.worker} (attempt {event.attempt})",
    e.ListFrozen: lambda event, _: f"list {event.name} stored: {event.count:,} items",
    e.UnitAttempted: lambda event, _: f"unit {event.unit}: attempt {event.attempt} begins",
    e.UnitCompleted: lambda event, _: f"unit {event.unit} done ({event.done:,} in all)",
    e.UnitSkipped: lambda event, _: f"unit {event.unit} skipped ({event.code}){_because(event.text)}",
    e.CheckpointAdvanced: _checkpoint,
    e.LeaseReleased: _released,
    e.GateAwaited: _gate_awaited,
    e.LeaseExpired: _lease_expired,
    e.RetryScheduled: _retry_scheduled,
    e.PauseRequested: lambda event, _: f"{event.actor} asked for a pause{_because(event.text)}",
    e.Paused: _paused,
    e.Resumed: _resumed,
    e.CancelRequested: lambda event, _: f"{event.actor} asked to cancel{_because(event.text)}",
    e.Cancelled: _cancelled,
    e.Failed: _failed,
    e.Completed: lambda event, _: f"completed{' with warnings' if event.outcome == 'with-warnings' else ''}",
    queue.QueueOpened: lambda event, _: f"queue {event.queue} is first spoken of",
    queue.QueuePaused: lambda event, _: f"queue {event.queue} paused by {event.actor}",
    queue.QueueResumed: lambda event, _: f"queue {event.queue} resumed by {event.actor}",
    queue.QueueLimited: lambda event, _: f"queue {event.queue} limited to {event.slots} by {event.actor}",
    queue.BulkCommanded: lambda event, _: f"queue {event.queue}: {event.actor} begins to {event.action} all its jobs",
    queue.BulkFinished: lambda event, _: (
        f"queue {event.queue}: {event.done:,} jobs done, {event.refused:,} had moved on"
    ),
    gate.GateLimited: _gate_limited,
    gate.GateClosed: lambda event, now: (
        f"gate {event.gate} closed until {clock_time(event.until, now)} by {event.actor}{_because(event.text)}"
    ),
    gate.GateOpened: lambda event, _: f"gate {event.gate} opened by {event.actor}{_because(event.text)}",
    log_events.Archived: lambda event, _: (
        f"{event.events:,} events of {event.streams:,} jobs moved into archive {event.name} by {event.actor}"
    ),
    log_events.EpochRaised: lambda event, _: f"epoch {event.epoch} begins, says {event.actor}: {event.reason}",
}
