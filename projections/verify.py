"""Checking what is derived against the log: job rows, and the unit results that are an authority of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from ..domain.errors import UnknownEventError
from ..domain.events import CODE_VOCABULARY, Submitted, UnitCompleted
from ..domain.status import Status
from ..eventstore.schema import HINTS
from . import job_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..eventstore.mapper import OrjsonMapper
    from ..eventstore.store import JobRow, Store

_PAGE: Final = 500


class Difference(NamedTuple):
    """One place where a table does not say what the log says."""

    job_id: UUID
    what: str  #: the column, ``row``, or ``unit <key>``
    stored: Any
    folded: Any


def row_differences(
    store: Store,
    mapper: OrjsonMapper,
    *,
    units: bool = False,
    passed: Callable[[int, int], None] | None = None,
) -> Iterator[Difference]:
    """Compare every job's row with the fold of its events up to the row's version; workers may run meanwhile.

    *units*: every stored unit result, too.  *passed* is told the position and how many jobs, after each page of them.
    """
    position = 0
    while page := store.log(position, _PAGE, topics=(Submitted.TOPIC,)):
        rows = store.jobs([logged.stream_id for logged in page])
        for logged in page:
            row = rows.get(logged.stream_id)
            if row is None:
                yield Difference(logged.stream_id, "row", None, "a submitted job")
            else:
                yield from compare_row(store, mapper, row)
            if units:
                yield from unit_differences(store, mapper, logged.stream_id)
        position = page[-1].position
        if passed is not None:
            passed(position, len(page))
    for job_id in _rows(store):
        if store.position_of(job_id, 1) is None:
            yield Difference(job_id, "row", "a row", None)


def _rows(store: Store) -> Iterator[UUID]:
    """Every row, by status, as there is an index for that; one that moves meanwhile may come twice or not at all."""
    for status in Status:
        before: tuple[int, UUID] | None = None
        while page := store.find_jobs(status=status.value, before=before, limit=_PAGE):
            before = (page[-1]["created_at"], page[-1]["id"])
            for row in page:
                yield row["id"]


def compare_row(store: Store, mapper: OrjsonMapper, row: JobRow) -> Iterator[Difference]:
    """The columns of *row* that differ from what its events say.

    Of a job with events that only newer code knows, this code can tell one thing: whether its row is parked (S18).
    """
    try:
        events = mapper.decode_all(row["id"], store.read(row["id"], upto=row["version"]))
    except UnknownEventError:
        if row["vocabulary"] <= CODE_VOCABULARY:
            yield Difference(row["id"], "vocabulary", row["vocabulary"], f"over {CODE_VOCABULARY}")
        return
    folded = job_table.changes(events)
    for column in sorted((folded.keys() | row.keys()) - HINTS):
        if row.get(column) != folded.get(column):
            yield Difference(row["id"], column, row.get(column), folded.get(column))


def unit_differences(store: Store, mapper: OrjsonMapper, job_id: UUID) -> Iterator[Difference]:
    """Compare a job's unit results with the ``unit-completed`` events of the log, byte for byte."""
    logged: dict[str, bytes] = {}
    for version, topic, state in store.read(job_id):
        if topic == UnitCompleted.TOPIC:
            logged[mapper.decode(job_id, version, topic, state).unit] = bytes(state)
    stored = store.unit_states(job_id)
    for unit in sorted(logged.keys() | stored.keys()):
        if bytes(stored.get(unit, b"")) != logged.get(unit, b""):
            yield Difference(job_id, f"unit {unit}", stored.get(unit), logged.get(unit))
