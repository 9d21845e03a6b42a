"""The JSON of jobs and events: keys are only ever added; instants are RFC 3339 in UTC."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ..eventstore.bodies import archive_of
from .text import iso

if TYPE_CHECKING:
    from ..domain.job import Job
    from ..eventstore.store import JobRow, LeaseRow, LoggedEvent, Store

_PLAIN: Final = ("kind", "queue", "tenant", "owner", "key", "priority", "exclusive_key", "gate")
_STATE: Final = ("status", "wish", "outcome", "reason", "reason_text")
_COUNTS: Final = ("worker", "attempt", "unit_attempt", "crashes", "reclaims", "failures", "done", "skipped", "total")
_INSTANTS: Final = ("due_at", "created_at", "updated_at", "started_at", "last_attempt_at", "finished_at")
_OF_EVENTS: Final = ("args", "cursor", "tallies", "result", "errors", "errors_dropped", "cycle", "unit")
_OWN: Final = ("event_id", "timestamp", "class_version")  #: of an event's envelope, not its data


def of_row(row: JobRow) -> dict[str, Any]:
    """A job as `list` shows it; one that is still in the outbox has little to say."""
    made: dict[str, Any] = {"id": str(row["id"])}
    made |= {name: row.get(name) for name in (*_PLAIN, *_STATE, *_COUNTS)}
    made |= {name: iso(row.get(name)) for name in _INSTANTS}
    made["checkpoint"] = row.get("sequence")
    made["version"] = row.get("version")
    made["parent_id"] = row.get("parent_id") or None
    made["tags"] = json.loads(row.get("tags") or "[]")
    made["in_outbox"] = bool(row.get("in_outbox"))
    return made


def row_part(document: dict[str, Any]) -> dict[str, Any]:
    """What a list shows of a whole job's document."""
    more = {"id", "checkpoint", "version", "parent_id", "tags", "in_outbox", *_INSTANTS}
    return {name: value for name, value in document.items() if name in {*_PLAIN, *_STATE, *_COUNTS, *more}}


def of_job(row: JobRow, job: Job | None, lease: dict[str, Any] | None) -> dict[str, Any]:
    """A job as `show` shows it: the row, and what only its events know (null if they are of a newer joblog)."""
    made = of_row(row) | {name: getattr(job, name, None) for name in _OF_EVENTS}
    return made | {"unit": made["unit"] or None, "lease": lease}


def lease_clock(store: Store) -> tuple[int, str]:
    """The store's lease clock and the boot it belongs to, read once for however many leases."""
    return store.lease_now(), store.boot_id()


def of_holder(lease: LeaseRow) -> dict[str, Any]:
    """Who holds it, which does not change without an event."""
    return {"worker": lease.worker, "epoch": lease.token.epoch, "token": lease.token.grant}


def of_lease(lease: LeaseRow, clock: tuple[int, str]) -> dict[str, Any]:
    """A lease; its end is on the store's lease clock, so only the span left means something to others."""
    now, boot_id = clock
    left = (lease.lease_until - now) / 1_000_000 if lease.boot_id == boot_id else 0.0
    return of_holder(lease) | {"seconds_left": round(left, 3)}


def of_event(event: LoggedEvent, *, stream_key: str = "stream") -> dict[str, Any]:
    """An event as stored, also one that this code does not know; of one in an archive that is not at hand, what is here."""
    if archive := archive_of(event.state):
        here = {"position": event.position, stream_key: str(event.stream_id), "version": event.version}
        return here | {"topic": event.topic, "time": None, "event_id": None, "data": None, "archive": archive}
    data = json.loads(bytes(event.state))
    envelope = {name: data.pop(name, None) for name in _OWN}
    made = {
        "position": event.position,
        stream_key: str(event.stream_id),
        "version": event.version,
        "topic": event.topic,
        "time": str(envelope["timestamp"]).replace("+00:00", "Z"),
        "event_id": envelope["event_id"],
        "data": data,
    }
    if envelope["class_version"] is not None:
        made["class_version"] = envelope["class_version"]
    return made


def of_logged(event: LoggedEvent, epoch: int) -> dict[str, Any]:
    """An event of the whole log, with the cursor to go on behind it."""
    return of_event(event) | {"epoch": epoch, "cursor": f"{epoch}:{event.position}"}
