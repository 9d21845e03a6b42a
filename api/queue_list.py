"""What waits and runs in each queue: the same answer for the command line, HTTP and the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..eventstore import inspection

if TYPE_CHECKING:
    from ..workers.commands.log import JobLog


def items(log: JobLog) -> list[dict[str, Any]]:
    """Every queue that holds something, or was ever paused or limited; ``due`` in microseconds since 1970.

    Of what is ready, ``inspection.FEW`` are looked at in each.
    """
    store = log.store
    known, running = store.queue_rows(), inspection.leases_by_queue(store)
    names = sorted({*known, *running, *inspection.ready_queues(store)})
    ready = inspection.ready(store, names)
    return [
        {
            "queue": name,
            "paused": bool(known.get(name, {}).get("paused")),
            "slots": known.get(name, {}).get("slots"),
            "running": running.get(name, 0),
            "ready": ready[name].jobs,
            "ready_is_exact": ready[name].jobs < inspection.FEW,
            "due": ready[name].oldest_due,
        }
        for name in names
    ]
