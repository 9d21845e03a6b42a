"""Queues, and who works on what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...eventstore import inspection
from .. import queue_list, shapes
from ..text import iso
from .route import Answer

if TYPE_CHECKING:
    from ...workers.commands.log import JobLog
    from .route import Call

_LEASES = 1000


def list_queues(call: Call) -> Answer:
    """What waits and runs in each queue."""
    return Answer({"items": queue_documents(call.log)})


def queue_documents(log: JobLog) -> list[dict[str, Any]]:
    """Queues as every way in shows them."""
    found: list[dict[str, Any]] = []
    for one in queue_list.items(log):
        due = one.pop("due")
        found.append(one | {"oldest_due_at": iso(due)})
    return found


def list_leases(call: Call) -> Answer:
    """The leases, the one that ends first at the front."""
    limit = call.query.limit
    found = lease_documents(call.log, limit + 1)
    return Answer({"items": found[:limit], "more": len(found) > limit})


def lease_documents(log: JobLog, limit: int = _LEASES) -> list[dict[str, Any]]:
    """Who holds which job, and for how long."""
    leases, clock = inspection.leases(log.store, limit=limit), shapes.lease_clock(log.store)
    return [{"job": str(one.job_id)} | shapes.of_lease(one, clock) for one in leases]


def list_workers(call: Call) -> Answer:
    """The workers that hold jobs now."""
    return Answer({"items": worker_documents(lease_documents(call.log))})


def worker_documents(leases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Workers by their *leases*, of which the first 1,000 are looked at."""
    found: dict[str, dict[str, Any]] = {}
    for lease in leases:
        left = lease["seconds_left"]
        one = found.setdefault(lease["worker"], {"worker": lease["worker"], "jobs": 0, "seconds_left": left})
        one["jobs"] += 1
        one["seconds_left"] = min(one["seconds_left"], left)
    return sorted(found.values(), key=lambda one: str(one["worker"]))
