"""Reading jobs: lists by keyset, one job with its ETag, its events, units, attempts, and why it stands where it stands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from ...domain.errors import UnknownEventError
from ...eventstore import inspection
from .. import attempts, explain, history, shapes
from . import cursors
from .route import Answer, etag

if TYPE_CHECKING:
    from ...domain.job import Job
    from ...eventstore.store import JobRow
    from .route import Call

_PRIVATE = "private, no-cache"


def list_jobs(call: Call) -> Answer:
    """A page of jobs, newest first; `next` and the Link header give the neighbours."""
    state = call.log.store.state()
    tag = f'W/"{state.epoch}.{state.generation}.{state.head}"'
    headers = {"ETag": tag, "Cache-Control": _PRIVATE}
    if call.is_known(tag):
        return Answer(None, 304, headers)
    page = JobList(call)
    if links := page.links():
        headers["Link"] = ", ".join(links)
    items = [shapes.of_row(row) for row in page.rows]
    return Answer({"items": items, "next": page.next, "position": state.head}, headers=headers)


class JobList:
    """One page of jobs that the caller may see, with the places of its neighbours."""

    def __init__(self, call: Call) -> None:
        query, who = call.query, call.principal
        self.filters: dict[str, Any] = {
            "status": None if query.status is None else query.status.value,
            "kind": query.kind,
            "queue": query.queue,
            "tenant": who.tenant or query.tenant,
            "owner": who.owner or query.owner,
        }
        self.limit, self._path = query.limit, call.request.path
        place = cursors.decode(query.cursor, self.filters) if query.cursor else None
        edge = None if place is None else (place.at, place.id)
        back = place is not None and place.back
        # A filter for what the caller can't see anyway finds nothing.
        hidden = (who.tenant and query.tenant not in {None, who.tenant}) or (
            who.owner and query.owner not in {None, who.owner}
        )
        found: list[JobRow] = []
        if not hidden:
            before, after = (None, edge) if back else (edge, None)
            found = call.log.store.find_jobs(**self.filters, before=before, after=after, limit=self.limit + 1)
        over = len(found) > self.limit
        self.rows = found[1:] if over and back else found[: self.limit]
        has_next, has_previous = (True, over) if back else (over, place is not None)
        self.next = self._place(self.rows[-1], back=False) if self.rows and has_next else None
        self.previous = self._place(self.rows[0], back=True) if self.rows and has_previous else None

    def _place(self, row: JobRow, *, back: bool) -> str:
        return cursors.encode(cursors.Place(row["created_at"], row["id"], back), self.filters)

    def url(self, cursor: str) -> str:
        """The list from another place."""
        kept = {name: value for name, value in self.filters.items() if value is not None}
        return f"{self._path}?{urlencode({**kept, 'limit': self.limit, 'cursor': cursor})}"

    def links(self) -> list[str]:
        """The neighbours, as RFC 8288 writes them."""
        pairs = (("next", self.next), ("prev", self.previous))
        return [f'<{self.url(cursor)}>; rel="{rel}"' for rel, cursor in pairs if cursor is not None]


def get_job(call: Call) -> Answer:
    """One job; with If-None-Match a poll costs one look at its row."""
    row = call.row()
    headers = {"Cache-Control": _PRIVATE}
    if row.get("in_outbox"):
        return Answer(job_document(call, row), headers=headers)
    headers["ETag"] = etag(row["version"])
    if call.is_known(headers["ETag"]):
        return Answer(None, 304, headers)
    return Answer(job_document(call, row), headers=headers)


def job_document(call: Call, row: JobRow) -> dict[str, Any]:
    """A job as the log and its events tell it.

    Without the seconds left of its lease: they change without the job's version, by which the answer is known.
    """
    if row.get("in_outbox"):
        return shapes.of_job(row, None, None, call.log.store)
    store = call.log.store
    made = shapes.of_job(row, replayed(call, row), store.lease(row["id"]), store)
    if made["lease"] is not None:
        made["lease"].pop("seconds_left")
    return made


def replayed(call: Call, row: JobRow) -> Job | None:
    """The job as its events tell it; None if newer code wrote some."""
    try:
        return call.log.job(row["id"])
    except UnknownEventError:
        return None


def job_events(call: Call) -> Answer:
    """Events of a job as stored, oldest first."""
    row = call.row()
    query = call.query
    found = inspection.stream(call.log.store, row["id"], after=query.after, limit=query.limit + 1)
    page = found[: query.limit]
    following = page[-1].version if len(found) > query.limit else None
    return Answer({"items": [shapes.of_event(event, stream_key="job") for event in page], "next": following})


def job_units(call: Call) -> Answer:
    """Finished units with their evidence, by key."""
    row = call.row()
    query = call.query
    found = inspection.units(call.log.store, row["id"], after=query.after, limit=query.limit + 1)
    page = found[: query.limit]
    following = page[-1][0] if len(found) > query.limit else None
    return Answer({"items": [unit_document(*one) for one in page], "next": following})


def unit_document(unit: str, version: int, state: bytes) -> dict[str, Any]:
    """A finished unit."""
    data = json.loads(state)
    time = str(data["timestamp"]).replace("+00:00", "Z")
    return {"unit": unit, "version": version, "time": time, "evidence": data.get("evidence")}


def job_attempts(call: Call) -> Answer:
    """Who held the job, from when to when, and how that ended."""
    return Answer({"items": attempts.attempts(call.log, call.row()["id"])})


def job_history(call: Call) -> Answer:
    """The turning points of a job's life, with the units between them counted."""
    return Answer({"items": [turn.document() for turn in history.turns(call.log, call.row()["id"])]})


def job_children(call: Call) -> Answer:
    """The jobs that this one spawned, at most 200."""
    store, row = call.log.store, call.row()
    ids = [] if row.get("in_outbox") else store.children(row["id"])[:200]
    rows = store.jobs(ids)
    items = [shapes.of_row(rows[one]) for one in ids if one in rows and call.principal.sees(rows[one])]
    return Answer({"items": items, "next": None, "position": store.head()})


def job_why(call: Call) -> Answer:
    """Why the job stands where it stands."""
    return Answer(why_document(call, call.row()))


def why_document(call: Call, row: JobRow) -> dict[str, Any]:
    """The conditions of a claim, evaluated one by one for this job."""
    found = explain.reasons(call.log, row, call.principal.sees)
    text = explain.paragraph(row, found)
    reasons = [one.document() for one in found]
    return {"id": str(row["id"]), "status": row["status"], "text": text, "reasons": reasons}
