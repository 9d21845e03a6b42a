"""Failures by fingerprint: the same fault of the same kind of job is one row, with how often, since when, and in which jobs."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, Final

from ..domain import events as e
from ..eventstore.view_schema import failed_jobs, failures
from .view import View, remembered

if TYPE_CHECKING:
    from .view import Folded, Happened, State

_FAILING: Final = (e.RetryScheduled, e.Paused, e.Failed, e.UnitSkipped, e.LeaseExpired)
#: What a worker puts behind the text of an exception: a hash over the places it came through.
_PLACE: Final = re.compile(r"\[([0-9a-f]{12})\]$")
#: What differs between two texts of the same fault: numbers, ids, what stands in quotes.
_VARIES: Final = re.compile(r"'[^']*'|\"[^\"]*\"|\b[0-9a-f]{8,}(?:-[0-9a-f]{4,})*\b|\d+")


def fold(state: State | None, happened: Happened) -> Folded:
    """Count the failure under its fingerprint, and there under its job."""
    event = happened.event
    if isinstance(event, e.Submitted):
        return {"kind": event.kind}, ()
    if isinstance(event, e.Completed | e.Cancelled):
        return None, ()
    kind = remembered(state, happened)["kind"]
    category, text, unit = _told(event)
    if not category:
        return state, ()
    at, job = happened.at, event.originator_id
    once = {"count": 1, "first_at": at, "last_at": at}
    row = {"kind": kind, "category": category, "text": text, **once, "last_job": job, "last_unit": unit}
    row["last_position"] = happened.position
    key = fingerprint(kind, category, text)
    attempt = getattr(event, "attempt", 0)
    return state, (
        (failures, (key,), row),
        (failed_jobs, (key, job), once | {"attempt": attempt}),
    )


def _told(event: Any) -> tuple[str, str, str]:
    """Category, text and unit of what failed; an empty category if nothing did."""
    match event:
        case e.RetryScheduled():
            return event.category, event.text, event.unit
        case e.UnitSkipped():
            return event.code, event.text, event.unit
        case e.LeaseExpired():
            return f"reclaimed-{event.cause}", "", event.unit
        case e.Paused() if event.reason == "operator":
            return "", "", ""
    return event.reason, event.text, event.unit


def fingerprint(kind: str, category: str, text: str) -> str:
    """The same for the same fault: by the place it came from if that is known, else by its text without what varies."""
    found = _PLACE.search(text)
    place = found[1] if found else _VARIES.sub("#", text)
    return hashlib.sha256(f"{kind}\x00{category}\x00{place}".encode()).hexdigest()[:16]


EVENTS: Final = frozenset({e.Submitted, e.Completed, e.Cancelled, *_FAILING})
VIEW: Final = View("failures", 1, (failures, failed_jobs), EVENTS, fold)
