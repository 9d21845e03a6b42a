"""A job's attempts: who held it, from when to when, and how that ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..domain import events as e
from ..domain.errors import UnknownEventError
from .history import turning_points
from .sentences import sentence
from .text import stamp

if TYPE_CHECKING:
    from uuid import UUID

    from ..eventstore.append import EventRow
    from ..workers.commands.log import JobLog

#: What ends a holder's time, beside a release or a takeover.
_ENDS = (e.LeaseReleased, e.LeaseExpired, e.RetryScheduled, e.Paused, e.Completed, e.Failed, e.Cancelled)


def attempts(log: JobLog, job_id: UUID, rows: list[EventRow] | None = None) -> list[dict[str, Any]]:
    """The newest attempts, oldest first, as far as the newest turning points tell."""
    found: list[dict[str, Any]] = []
    now = log.now()
    for row in turning_points(log, job_id) if rows is None else rows:
        try:
            event = log.mapper.decode(job_id, *row)
        except UnknownEventError:
            continue
        if isinstance(event, e.Claimed):
            found.append(
                {
                    "attempt": event.attempt,
                    "worker": event.worker,
                    "token": event.token,
                    "claimed_at": stamp(event.timestamp),
                    "ended_at": None,
                    "ended_by": None,
                    "text": "",
                }
            )
        elif isinstance(event, _ENDS) and found and found[-1]["ended_at"] is None:
            found[-1] |= {"ended_at": stamp(event.timestamp), "ended_by": row[1], "text": sentence(event, now)}
    return found
