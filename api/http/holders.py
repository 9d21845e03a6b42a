"""Queues, and who works on what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import documents
from .route import Answer

if TYPE_CHECKING:
    from .route import Call


def list_queues(call: Call) -> Answer:
    """What waits and runs in each queue."""
    return Answer(call.service.together.ask("queues", lambda: documents.queues(call.log)))


def list_leases(call: Call) -> Answer:
    """The leases, the one that ends first at the front."""
    limit = call.query.limit
    found: list[dict[str, Any]] = documents.leases(call.log, limit + 1)
    return Answer({"items": found[:limit], "more": len(found) > limit})


def list_workers(call: Call) -> Answer:
    """The workers that hold jobs now."""
    return Answer(
        call.service.together.ask("workers", lambda: {"items": documents.workers(documents.leases(call.log))})
    )
