"""Making rows of the job table new from the log, where the two differ: the log wins, and the difference is reported."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

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
    """Find candidates of a claim whose row is not at its stream's version, and make them new."""
    repaired: list[UUID] = []
    for row in store.claim_candidates(query, generation):
        events = mapper.decode_all(row["id"], store.read(row["id"]))
        if events and events[-1].originator_version == row["version"]:
            continue
        logger.warning(
            "job %s: its row said version %d, its log %d; made new from the log", row["id"], row["version"], len(events)
        )
        store.replace_row(job_table.with_hints(fold_row(events), store.now()), generation)
        repaired.append(row["id"])
    return repaired
