"""Making rows of the job table new from the log, where the two differ: the log wins, and the difference is reported."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ..domain.errors import UnknownEventError
from ..domain.events import CODE_VOCABULARY
from ..domain.status import CLAIMABLE
from ..eventstore.schema import HINTS
from . import job_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from ..eventstore.mapper import OrjsonMapper
    from ..eventstore.store import ClaimQuery, JobRow, Store

logger = logging.getLogger(__name__)


def fold_row(events: Sequence[Any]) -> JobRow:
    """The row that the events of one job make."""
    return job_table.changes(events)


def stale_rows(store: Store, mapper: OrjsonMapper, query: ClaimQuery, generation: int) -> list[UUID]:
    """Find candidates of a claim whose row says something else than the log, and make them new."""
    repaired: list[UUID] = []
    for row in store.claim_candidates(query, generation):
        made = _row_of_log(store, mapper, row["id"])
        if made.get("status") not in CLAIMABLE or _differs(row, made):
            _replace(store, row, made, generation)
            repaired.append(row["id"])
    return repaired


def row_in_the_way(store: Store, mapper: OrjsonMapper, job_id: UUID, generation: int) -> None:
    """Make the row of a job new that refused an append although its stream had not moved."""
    row = store.job(job_id)
    made = _row_of_log(store, mapper, job_id)
    if row is None or _differs(row, made):
        _replace(store, row or {"id": job_id, "version": 0}, made, generation)


def _row_of_log(store: Store, mapper: OrjsonMapper, job_id: UUID) -> JobRow:
    """The row that the log makes; empty if there is no such job."""
    stored = store.read(job_id)
    try:
        return fold_row(mapper.decode_all(job_id, stored))
    except UnknownEventError:
        # Only newer code knows what its row should hold: it is parked for that code (S18).
        parked = {"version": stored[-1].version, "vocabulary": CODE_VOCABULARY + 1}
        return {**(store.job(job_id) or {}), **parked}


def _differs(row: JobRow, made: JobRow) -> bool:
    return any(row[name] != made[name] for name in (row.keys() & made.keys()) - HINTS)


def _replace(store: Store, row: JobRow, made: JobRow, generation: int) -> None:
    logger.warning(
        "job %s: its row said version %d, its log %d; made new from the log",
        row["id"],
        row["version"],
        made.get("version", 0),
    )
    store.replace_row(row["id"], job_table.with_hints(made, store.now()) if made else None, generation)
