"""Making rows of the job table new from the log, where the two differ: the log wins, and the difference is reported."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ..domain.status import CLAIMABLE
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
        job_id = row["id"]
        made = fold_row(mapper.decode_all(job_id, store.read(job_id)))
        if made.get("status") in CLAIMABLE and all(row[name] == made[name] for name in row.keys() & made.keys()):
            continue
        logger.warning(
            "job %s: its row said version %d, its log %d; made new from the log",
            job_id,
            row["version"],
            made.get("version", 0),
        )
        store.replace_row(job_id, job_table.with_hints(made, store.now()) if made else None, generation)
        repaired.append(job_id)
    return repaired
