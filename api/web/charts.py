"""What is drawn on the server: jobs that ended in the last hour, and when each attempt had its job."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...eventstore import view_schema as v
from ...eventstore.clock import micros
from ...eventstore.views import Select
from ..text import moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...eventstore.store import Store

MINUTES: Final = 60
_MINUTE: Final = 60_000_000
_CHANGES: Final = 500  #: newest changes of jobs that are looked at: a busy log fills less than an hour with them
_LANES: Final = 30  #: newest attempts
#: How what ended an attempt looks; what is none of these gave the job back.
_ENDS: Final = {"completed": "completed", "failed": "failed", "lease-expired": "failed", "retry-scheduled": "waiting"}


class Minute(NamedTuple):
    """One bar."""

    at: int
    completed: int
    failed: int


class Ended(NamedTuple):
    """Jobs that ended, by minute."""

    minutes: tuple[Minute, ...]
    since: int
    most: int  #: in one minute
    completed: int
    failed: int


def ended(store: Store, tenant: str | None) -> Ended:
    """The last hour, or the part of it that the newest changes reach back to."""
    now = store.now()
    since = now // _MINUTE * _MINUTE - (MINUTES - 1) * _MINUTE
    equal = {} if tenant is None else {"tenant": tenant}
    order = ("-from_at",)
    changes = Select(v.job_versions, equal=equal, least={"from_at": since}, order=order, limit=_CHANGES)
    rows = store.views.find("versions", changes)
    counts: dict[tuple[int, str], int] = {}
    for row in rows:
        place = (row["from_at"] - since) // _MINUTE, row["status"]
        counts[place] = counts.get(place, 0) + 1
    minutes = tuple(
        Minute(since + n * _MINUTE, counts.get((n, "completed"), 0), counts.get((n, "failed"), 0))
        for n in range(MINUTES)
    )
    return Ended(
        minutes,
        rows[-1]["from_at"] if len(rows) == _CHANGES else since,
        max(one.completed + one.failed for one in minutes),
        sum(one.completed for one in minutes),
        sum(one.failed for one in minutes),
    )


class Lane(NamedTuple):
    """An attempt, and where it lies in the life of the job, in parts of 1,000."""

    attempt: dict[str, Any]
    look: str
    start: float
    width: float


def lanes(attempts: Sequence[dict[str, Any]], now: int) -> list[Lane]:
    """The newest attempts, oldest first."""
    shown = attempts[-_LANES:]
    if not shown:
        return []
    spans = [(_at(one["claimed_at"], now), _at(one["ended_at"], now)) for one in shown]
    first, last = spans[0][0], max(end for _, end in spans)
    whole = max(last - first, 1)
    return [
        Lane(one, _look(one), 1000 * (start - first) / whole, max(1000 * (end - start) / whole, 4))
        for one, (start, end) in zip(shown, spans, strict=True)
    ]


def _at(text: str | None, now: int) -> int:
    return now if text is None else micros(datetime.fromisoformat(text))


def _look(one: dict[str, Any]) -> str:
    if one["ended_at"] is None:
        return "running"
    return _ENDS.get(str(one["ended_by"]).rpartition(".")[2], "queued")


def clock(at: int) -> str:
    """Hours and minutes, UTC."""
    return f"{moment(at):%H:%M}"
