"""A job's life: every event, or the turning points with the units between them counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..domain import events as e
from ..domain.errors import UnknownEventError
from ..eventstore import inspection
from ..eventstore.bodies import archive_of
from .sentences import sentence
from .text import clean, clock_time, stamp

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from uuid import UUID

    from ..eventstore.append import EventRow
    from ..eventstore.store import LoggedEvent
    from ..workers.commands.log import JobLog

#: The steady work: too many to tell one by one.
STEADY: Final = (e.UnitAttempted.TOPIC, e.UnitCompleted.TOPIC, e.CheckpointAdvanced.TOPIC)
SHOWN: Final = 200  #: turning points, the newest
_PAGE: Final = 500


class Turn(NamedTuple):
    """A turning point, or the steady work before the next one."""

    at: datetime | None
    version: int
    topic: str
    text: str

    def line(self, now: datetime) -> str:
        """For people."""
        when = "" if self.at is None else clock_time(self.at, now)
        return f"{when:>8}  {self.text}"

    def document(self) -> dict[str, Any]:
        """For programs."""
        at = None if self.at is None else stamp(self.at)
        return {"time": at, "version": self.version, "topic": self.topic, "text": self.text}


def turning_points(log: JobLog, job_id: UUID) -> list[EventRow]:
    """The newest events of a job that are no steady work, oldest first; read once for turns and attempts."""
    return inspection.newest_but(log.store, job_id, STEADY, limit=SHOWN)


def turns(log: JobLog, job_id: UUID, rows: list[EventRow] | None = None) -> Iterator[Turn]:
    """What happened to a job, oldest first: at most the newest ``SHOWN`` turning points."""
    rows = turning_points(log, job_id) if rows is None else rows
    now, before, counted = log.now(), 0, 0
    if rows and rows[0].version > 1:
        yield Turn(None, 0, "", f"… {rows[0].version - 1:,} earlier events; see them all with --events")
        before = rows[0].version - 1
        counted, _ = _steady(log, job_id, 0, rows[0].version, 0)
    for row in rows:
        if row.version > before + 1:
            counted, steady = _steady(log, job_id, before, row.version, counted)
            yield from steady
        yield _turn(log, job_id, row, now)
        before = row.version
    yield from _steady(log, job_id, before, 2**62, counted)[1]


def turn(log: JobLog, event: LoggedEvent, now: datetime) -> Turn:
    """One event of the log, as a turning point."""
    return _turn(log, event.stream_id, (event.version, event.topic, event.state), now)


def _turn(log: JobLog, job_id: UUID, row: tuple[int, str, bytes], now: datetime) -> Turn:
    if archive := archive_of(row[2]):
        return Turn(None, row[0], row[1], f"{clean(row[1])}: in archive {clean(archive)}")
    try:
        event = log.mapper.decode(job_id, *row)
    except UnknownEventError:
        return Turn(None, row[0], row[1], f"{clean(row[1])}: written by a newer joblog")
    return Turn(event.timestamp, row[0], row[1], sentence(event, now))


def _steady(log: JobLog, job_id: UUID, after: int, before: int, counted: int) -> tuple[int, list[Turn]]:
    """The units done between two turning points, told by the last checkpoint there."""
    row = inspection.last_of(log.store, job_id, e.CheckpointAdvanced.TOPIC, after=after, before=before)
    if row is None:
        return counted, []
    event = log.mapper.decode(job_id, *row)
    units = event.sequence - counted
    text = f"{units:,} unit{'' if units == 1 else 's'} done, to checkpoint {event.sequence:,}"
    return event.sequence, [Turn(event.timestamp, row.version, row.topic, text)]


def events(log: JobLog, job_id: UUID) -> Iterator[LoggedEvent]:
    """Every event of a job, page by page."""
    after = 0
    while page := inspection.stream(log.store, job_id, after=after, limit=_PAGE):
        yield from page
        after = page[-1].version
