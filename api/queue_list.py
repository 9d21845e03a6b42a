"""What waits and runs in each queue: the same answer for the command line, HTTP and the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..eventstore import inspection

if TYPE_CHECKING:
    from ..workers.commands.log import JobLog


def items(log: JobLog, *, limit: int = inspection.COUNT_LIMIT) -> list[dict[str, Any]]:
    """Every queue that holds something, or was ever paused or limited; ``due`` in microseconds since 1970.

    What is ready is counted up to *limit*.
    """
    store = log.store
    known, running = store.queue_rows(), inspection.leases_by_queue(store)
    found: list[dict[str, Any]] = []
    for name in sorted({*known, *running, *inspection.ready_queues(store)}):
        row = known.get(name, {"paused": False, "slots": None})
        waits = inspection.ready(store, name, limit=limit)
        found.append(
            {
                "queue": name,
                "paused": row["paused"],
                "slots": row["slots"],
                "running": running.get(name, 0),
                "ready": waits.jobs,
                "ready_is_exact": waits.jobs < limit,
                "due": waits.oldest_due,
            }
        )
    return found
