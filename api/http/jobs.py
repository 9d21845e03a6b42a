"""Reading jobs: lists by keyset, one job with its ETag, its events, units, attempts, and why it stands where it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from ...domain.errors import JobNotFoundError
from ...eventstore import inspection
from .. import attempts, documents, job_list, past, shapes
from .route import Answer, etag

if TYPE_CHECKING:
    from ...eventstore.store import JobRow
    from .route import Call

_PRIVATE: Final = "private, no-cache"
_FOREVER: Final = "private, max-age=31536000, immutable"


def filters_of(call: Call) -> dict[str, Any] | None:
    """What a list is narrowed to; None if the caller can see nothing of it anyway."""
    query, who = call.query, call.principal
    if (who.tenant and query.tenant not in {None, who.tenant}) or (who.owner and query.owner not in {None, who.owner}):
        return None
    return {
        "status": None if query.status is None else query.status.value,
        "kind": query.kind,
        "queue": query.queue,
        "tenant": who.tenant or query.tenant,
        "owner": who.owner or query.owner,
    }


def list_jobs(call: Call) -> Answer:
    """A page of jobs, newest first; `next` and the Link header give the neighbours."""
    if call.query.at:
        return _list_past(call)
    state = call.log.store.state()
    tag = f'W/"{state.epoch}.{state.generation}.{state.head}"'
    headers = {"ETag": tag, "Cache-Control": _PRIVATE}
    if call.is_known(tag):
        return Answer(None, 304, headers)
    if call.query.id:
        found = job_list.beginning(
            call.log, call.query.id.replace("-", ""), call.principal.sees, limit=call.query.limit
        )
        items = [shapes.of_row(row) for row in found]
        return Answer({"items": items, "next": None, "position": state.head}, headers=headers)
    page = JobList(call)
    if links := page.links():
        headers["Link"] = ", ".join(links)
    return Answer(page.document(state.head), headers=headers)


def _list_past(call: Call) -> Answer:
    """The list as it stood at a position or an instant."""
    query, at = call.query, past.position_of(call.log, call.query.at)
    filters = filters_of(call)
    headers = {"Cache-Control": _FOREVER if query.at.isdecimal() else _PRIVATE}
    if filters is None:
        return Answer({"items": [], "next": None, "position": at}, headers=headers)
    made = past.page(call.log, at, filters, call.principal.sees, limit=query.limit, cursor=query.cursor)
    if made["next"] is not None:
        kept = {name: value for name, value in filters.items() if value is not None}
        onward = urlencode({**kept, "at": at, "limit": query.limit, "cursor": made["next"]})
        headers["Link"] = f'<{call.request.path}?{onward}>; rel="next"'
    return Answer(made, headers=headers)


class JobList(job_list.JobPage):
    """One page of jobs that the caller may see, with the places of its neighbours."""

    def __init__(self, call: Call) -> None:
        filters, query = filters_of(call), call.query
        self._path = call.request.path
        if filters is None:
            self.filters, self.limit = {}, query.limit
            self.rows: list[JobRow] = []
            self.next = self.previous = None
            return
        after = None
        if query.after is not None and not query.cursor:
            after = call.row_of(query.after)
        super().__init__(call.log, filters, limit=query.limit, cursor=query.cursor, after=after)

    def url(self, cursor: str) -> str:
        """The list from another place."""
        kept = {name: value for name, value in self.filters.items() if value is not None}
        return f"{self._path}?{urlencode({**kept, 'limit': self.limit, 'cursor': cursor})}"

    def links(self) -> list[str]:
        """The neighbours, as RFC 8288 writes them."""
        pairs = (("next", self.next), ("prev", self.previous))
        return [f'<{self.url(cursor)}>; rel="{rel}"' for rel, cursor in pairs if cursor is not None]


def get_job(call: Call) -> Answer:
    """One job; with If-None-Match a poll costs one look at its row, with `at` it is as it stood then."""
    row = call.row()
    if call.query.at:
        return _past_job(call, row)
    headers = {"Cache-Control": _PRIVATE}
    if row.get("in_outbox"):
        return Answer(documents.job(call.log, row), headers=headers)
    headers["ETag"] = etag(row["version"])
    if call.is_known(headers["ETag"]):
        return Answer(None, 304, headers)
    return Answer(documents.job(call.log, row), headers=headers)


def _past_job(call: Call, row: JobRow) -> Answer:
    at = past.position_of(call.log, call.query.at)
    made = past.job(call.log, row, at)
    if made is None:
        raise JobNotFoundError(row["id"])
    headers = {"Cache-Control": _FOREVER if call.query.at.isdecimal() else _PRIVATE}
    return Answer(made, headers=headers)


def job_events(call: Call) -> Answer:
    """Events of a job as stored, oldest first."""
    query = call.query
    return Answer(documents.events(call.log, call.row()["id"], after=query.after, limit=query.limit))


def job_units(call: Call) -> Answer:
    """Finished units with their evidence, by key."""
    query = call.query
    return Answer(documents.units(call.log, call.row()["id"], after=query.after, limit=query.limit))


def job_attempts(call: Call) -> Answer:
    """Who held the job, from when to when, and how that ended."""
    return Answer({"items": attempts.attempts(call.log, call.row()["id"])})


def job_history(call: Call) -> Answer:
    """The turning points of a job's life, with the units between them counted."""
    return Answer(documents.turns(call.log, call.row()["id"]))


def job_lease(call: Call) -> Answer:
    """Who holds the job now, and for how long."""
    return Answer(documents.lease(call.log, call.row()["id"]))


def job_children(call: Call) -> Answer:
    """The jobs that this one spawned, by id; `next` goes on."""
    store, row, query = call.log.store, call.row(), call.query
    ids = inspection.children(store, row["id"], after=query.after, limit=query.limit + 1)
    rows = store.jobs(ids[: query.limit])
    items = [shapes.of_row(rows[one]) for one in ids[: query.limit] if one in rows and call.principal.sees(rows[one])]
    following = str(ids[query.limit - 1]) if len(ids) > query.limit else None
    return Answer({"items": items, "next": following, "position": store.head()})


def job_why(call: Call) -> Answer:
    """Why the job stands where it stands."""
    return Answer(documents.why(call.log, call.row(), call.principal.sees))
