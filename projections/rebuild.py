"""Rebuilding the job table from the log while workers run: beside the live one, then switched in under the log's lock.

Killed at any point it goes on at its last written position; a second one at once is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..domain.errors import UnknownEventError
from ..domain.events import CODE_VOCABULARY, JobEvent, Submitted
from ..eventstore.store import LoggedEvent, RowChange
from . import job_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from uuid import UUID

    from ..eventstore.mapper import OrjsonMapper
    from ..eventstore.store import Store

BATCH: Final = 2000  #: events a transaction
CATCH_UP: Final = 500  #: events left over for the switch, at most, when writers allow it
ALIVE_MICROS: Final = 30_000_000  #: without a step for so long a rebuild counts as dead


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a rebuild has come."""

    position: int
    head: int


def fold_changes(events: Iterable[LoggedEvent], mapper: OrjsonMapper, now: int) -> list[RowChange]:
    """What these events of the log change in the job table, one entry a job, in the order of first appearance.

    An event of newer code parks its job: the row may not be trusted, so this code and older leave it alone (S18).
    """
    by_job: dict[UUID, list[Any]] = {}
    parked: dict[UUID, int] = {}
    for logged in events:
        try:
            event = mapper.decode(logged.stream_id, logged.version, logged.topic, logged.state)
        except UnknownEventError:
            parked[logged.stream_id] = logged.version
            continue
        if isinstance(event, JobEvent):
            by_job.setdefault(logged.stream_id, []).append(event)
    changes: list[RowChange] = []
    for job_id in by_job | parked:
        mine = by_job.get(job_id, [])
        row = job_table.with_hints(job_table.changes(mine), now)
        if (version := parked.get(job_id)) is not None:
            row |= {"version": max(version, row.get("version", 0)), "vocabulary": CODE_VOCABULARY + 1, "ready": 0}
        changes.append(RowChange(job_id, bool(mine) and isinstance(mine[0], Submitted), row))
    return changes


def rebuild(
    store: Store, mapper: OrjsonMapper, owner: str, *, report: Callable[[Progress], None] = lambda _: None
) -> int:
    """Fold the whole log into a new generation of the job table and switch to it; returns the position of the switch.

    Raises:
        RebuildRunningError: another one is alive, or took this one over.
    """
    generation, position = store.rebuild_begin(owner, ALIVE_MICROS)
    while True:
        batch = store.log(position, BATCH)
        if batch:
            store.rebuild_write(
                generation, fold_changes(batch, mapper, store.now()), batch[-1].position, owner, ALIVE_MICROS
            )
            position = batch[-1].position
        head = store.head()
        report(Progress(position, head))
        if head - position <= CATCH_UP:
            break
    return store.rebuild_switch(generation, position, owner, lambda tail: fold_changes(tail, mapper, store.now()))
