"""What is answered about jobs, queues, workers, gates and the log: one place for the command line, HTTP and the page.

Each function makes a plain document; keys are only ever added.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ..domain.errors import UnknownEventError
from ..eventstore import inspection
from ..eventstore.archive_rows import archive_rows
from ..projections import queries
from ..projections.compare import JOBS
from ..projections.views import VIEWS
from . import explain, gate_list, history, queue_list, shapes
from .text import iso

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from ..domain.job import Job
    from ..domain.spec import JobSpec
    from ..eventstore.store import JobRow
    from ..projections.feed.consumers import Lag
    from ..projections.queries import RecoveryPage
    from ..workers.commands.answers import Commanded, Submitted
    from ..workers.commands.log import JobLog

    Document = dict[str, Any]
    Sees = Callable[[JobRow], bool]

_LEASES: Final = 1000
_INSTANTS: Final = ("at", "recorded_at", "next_retry_at")


# -- jobs ------------------------------------------------------------------------------------------------------------


def replayed(log: JobLog, row: JobRow) -> Job | None:
    """The job as its events tell it; None if newer code wrote some."""
    try:
        return log.job(row["id"])
    except UnknownEventError:
        return None


def job(log: JobLog, row: JobRow, *, now: bool = False) -> Document:
    """A job as the log and its events tell it.

    Without the seconds left of its lease, unless it is told as it is *now*: they change without the job's version, by which
    an answer is known again.
    """
    if row.get("in_outbox"):
        return shapes.of_job(row, None, None)
    found = log.store.lease(row["id"]) if row["worker"] else None  # a holder stands in both, or in none
    held = (
        None
        if found is None
        else shapes.of_lease(found, shapes.lease_clock(log.store))
        if now
        else shapes.of_holder(found)
    )
    return shapes.of_job(row, replayed(log, row), held)


def lease(log: JobLog, job_id: UUID) -> Document:
    """A job's lease as it stands now, if it has one."""
    found = log.store.lease(job_id)
    return {"lease": None if found is None else shapes.of_lease(found, shapes.lease_clock(log.store))}


def turns(log: JobLog, job_id: UUID) -> Document:
    """The turning points of a job's life, with the units between them counted."""
    return {"items": [turn.document() for turn in history.turns(log, job_id)]}


def events(log: JobLog, job_id: UUID, *, after: int, limit: int) -> Document:
    """A page of a job's events as stored, oldest first."""
    found = inspection.stream(log.store, job_id, after=after, limit=limit + 1)
    page = found[:limit]
    following = page[-1].version if len(found) > limit else None
    return {"items": [shapes.of_event(event, stream_key="job") for event in page], "next": following}


def units(log: JobLog, job_id: UUID, *, after: str, limit: int) -> Document:
    """A page of a job's finished units with their evidence, by key."""
    found = inspection.units(log.store, job_id, after=after, limit=limit + 1)
    page = found[:limit]
    return {"items": [unit(*one) for one in page], "next": page[-1][0] if len(found) > limit else None}


def unit(key: str, version: int, state: bytes) -> Document:
    """A finished unit."""
    data = json.loads(state)
    time = str(data["timestamp"]).replace("+00:00", "Z")
    return {"unit": key, "version": version, "time": time, "evidence": data.get("evidence")}


def why(log: JobLog, row: JobRow, sees: Sees = explain.all_seen) -> Document:
    """The conditions of a claim, evaluated one by one for this job."""
    found = explain.reasons(log, row, sees)
    text = explain.paragraph(row, found)
    reasons = [one.document() for one in found]
    return {"id": str(row["id"]), "status": row["status"], "text": text, "reasons": reasons}


def submitted(spec: JobSpec, made: Submitted) -> Document:
    """A job that is in the log."""
    head = {"id": str(made.job_id), "created": made.created, "position": made.position}
    return head | {"kind": spec.kind, "queue": spec.queue, "key": spec.key}


def commanded(action: str, made: Commanded) -> Document:
    """What a command did to a job."""
    return {
        "id": str(made.job_id),
        "action": action,
        "status": made.status,
        "wish": made.wish,
        "version": made.version,
        "repeated": made.repeated,
    }


def retried(job_id: UUID, made: list[Submitted]) -> Document:
    """The jobs that retry what one has passed over."""
    items = [{"id": str(one.job_id), "created": one.created} for one in made]
    return {"id": str(job_id), "action": "retry", "items": items}


# -- queues, workers, gates ------------------------------------------------------------------------------------------


def queues(log: JobLog) -> Document:
    """What waits and runs in each queue."""
    items: list[Document] = []
    for one in queue_list.items(log):
        due = one.pop("due")
        items.append(one | {"oldest_due_at": iso(due)})
    return {"items": items}


def leases(log: JobLog, limit: int = _LEASES) -> list[Document]:
    """Who holds which job, and for how long; the one that ends first at the front."""
    found, clock = inspection.leases(log.store, limit=limit), shapes.lease_clock(log.store)
    return [{"job": str(one.job_id)} | shapes.of_lease(one, clock) for one in found]


def workers(held: list[Document]) -> list[Document]:
    """Workers by their leases, of which the first 1,000 are looked at."""
    found: dict[str, Document] = {}
    for one in held:
        left = one["seconds_left"]
        mine = found.setdefault(one["worker"], {"worker": one["worker"], "jobs": 0, "seconds_left": left})
        mine["jobs"] += 1
        mine["seconds_left"] = min(mine["seconds_left"], left)
    return sorted(found.values(), key=lambda one: str(one["worker"]))


def gates(log: JobLog) -> Document:
    """What passes each provider's gate, and until when it is closed."""
    return {"items": gate_list.items(log)}


def gate(log: JobLog, name: str) -> Document:
    """One gate."""
    [found] = gate_list.items(log, name)
    return found


# -- what is derived from the log ------------------------------------------------------------------------------------


def recovery(found: RecoveryPage, head: int) -> Document:
    """A page of the report."""
    made: Document = {"items": [_reported(row) for row in found.rows], "total": found.total}
    made |= {"page": found.window.page, "pages": found.window.pages, "position": found.position, "head": head}
    return made


def _reported(row: Document) -> Document:
    from .http.view_types import RecoveryRow  # here: it describes what goes out, and only this needs it

    return {name: iso(row[name]) if name in _INSTANTS else row[name] for name in RecoveryRow.__struct_fields__}


def projections(log: JobLog) -> Document:
    """How far each has come, and what stands in its way: the job table, the views, and whoever else follows by position."""
    store = log.store
    state, followers, now = store.state(), inspection.followers(store), store.now()
    rebuilds = {one.name: one for one in store.views.rebuilds().values()}

    def under_way(found: Any) -> Document | None:
        if found is None:
            return None
        alive = {"alive_until": iso(found.alive_until), "alive": found.alive_until > now}
        return {"position": found.position, "owner": found.owner, **alive}

    # The job table is written in the transaction of each append: it is never behind.
    jobs: Document = {"name": JOBS, "position": state.head, "behind": 0, "generation": state.generation}
    items = [jobs | {"rebuild": under_way(inspection.rebuild(store))}]
    for one in queries.lag(store):
        item: Document = {"name": one.name, "position": one.position, "behind": one.events}
        item |= {"generation": one.generation, "rebuild": under_way(rebuilds.get(one.name))}
        item |= {"seconds": round(one.seconds, 3), "owner": one.owner if one.leads else None}
        items.append(item | {"stopped_at": one.stopped_at, "reason": one.reason})
    for name, position in followers.items():
        if name not in VIEWS and name != JOBS:
            items.append({"name": name, "position": position, "behind": max(state.head - position, 0), "rebuild": None})
    return {"items": items, "head": state.head}


def archives(log: JobLog) -> Document:
    """Where the bodies of finished jobs are that were moved out of the log."""
    files = log.store.bodies.files
    items: list[Document] = []
    for row in archive_rows(log.store).archives():
        found = files.find(row)
        made = {"name": row.name, "position": row.event, "first": row.first, "last": row.last, "events": row.events}
        folder = row.folder if found is None else str(found[0].parent)
        items.append(made | {"digest": row.digest, "folder": folder, "here": found is not None})
    return {"items": items}


def consumer(one: Lag) -> Document:
    """A named reader of the log."""
    return {
        "name": one.name,
        "cursor": str(one.cursor),
        "behind": one.behind,
        "moved_at": iso(one.moved_at),
        "rewound": one.is_rewound,
    }
