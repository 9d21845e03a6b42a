"""Jobs: the table now and as it stood, one job, and what the buttons of both do."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ...domain.errors import InvalidFieldError, JobLogError
from ...domain.status import ENDED, Status
from ...eventstore import inspection
from ...eventstore.store import Reading
from .. import attempts, documents, explain, history, job_list, past, shapes
from ..http import chores, problems
from ..http.jobs import JobList, filters_of
from ..http.route import Answer
from ..http.types import BulkCommand, Chosen, Expected
from ..measure import Measure, Measuring
from . import charts, facets
from .render import page, see_other

if TYPE_CHECKING:
    from uuid import UUID

    from ...eventstore.store import JobRow
    from ..http.route import Call

_LEAST_AGE: Final = 1.0  #: seconds of work before a time left is guessed
_ROWS: Final = 50
ACTIONS: Final = {
    "pause": ("queued", "waiting", "running"),
    "resume": ("paused", "failed"),
    "retry": ("failed", "paused"),
    "cancel": ("queued", "waiting", "running", "paused"),
}


def seconds_left(call: Call) -> Any:
    """A guess at when a running job is done, from how far it is."""
    now = call.log.store.now()

    def left(row: JobRow, done: int | None = None, total: int | None = None) -> float | None:
        done, total = (row["done"], row["total"]) if total is None else (done, total)
        age = 0.0 if row["started_at"] is None else (now - row["started_at"]) / 1_000_000
        if not total or not done or age < _LEAST_AGE or row["status"] != "running":
            return None
        return float(age / done * max(total - done, 0))

    return left


# -- the table -------------------------------------------------------------------------------------------------------


def jobs_page(call: Call) -> Answer:
    """The table of jobs, as it is or as it stood."""
    filters, query = filters_of(call) or {}, call.query
    common: dict[str, Any] = {
        "query": query,
        "filters": filters,
        "filtered": any(filters.values()) or query.id is not None,
        "statuses": [status.value for status in Status],
        # names of others are no more told than their numbers
        "facets": facets.facets(call, filters) if filters and not call.principal.owner else None,
        "known": _known(call),
        "url": facets.url,
        "left": seconds_left(call),
        "told": None if query.told is None else call.row_of(query.told),
    }
    if query.at:
        return page(call, "jobs_past.html", **common, **_past(call, filters))
    if query.id:
        rows = job_list.beginning(call.log, query.id.replace("-", ""), call.principal.sees, limit=query.limit)
        return page(call, "jobs.html", **common, jobs=rows, next=None, previous=None)
    listed = JobList(call)
    following, previous = (None if one is None else listed.url(one) for one in (listed.next, listed.previous))
    return page(call, "jobs.html", **common, jobs=listed.rows, next=following, previous=previous)


def _known(call: Call) -> int:
    """How far the past is known."""
    standing = call.log.store.views.standings().get("versions")
    return 0 if standing is None else standing.position


def _past(call: Call, filters: dict[str, Any]) -> dict[str, Any]:
    at = past.position_of(call.log, call.query.at)
    found: dict[str, Any] = {"items": [], "next": None}
    if filters:
        sees = call.principal.sees
        found = past.page(call.log, at, filters, sees, limit=call.query.limit, cursor=call.query.cursor)
    return {"items": found["items"], "next": found["next"], "at": at, "moment": _moment(call, at)}


def _moment(call: Call, at: int) -> str:
    """When the event at a position was appended."""
    found = call.log.store.log(at - 1, 1, reading=Reading.TOLD) if at > 0 else []
    return str(shapes.of_event(found[0])["time"] or "")[:19].replace("T", " ") if found else ""


def bulk_page(call: Call) -> Answer:
    """One command to the ticked rows, or to all that match: as one job, after a question where that is due."""
    form = call.body
    every = form.scope == "all"
    if not every and not form.job:
        raise InvalidFieldError("job", "no row was ticked", "go back and tick some, or choose all that match")
    chosen = Chosen(status=form.status, kind=form.kind, queue=form.queue, tenant=form.tenant, owner=form.owner)
    command = BulkCommand(
        command=form.command, filter=chosen if every else None, ids=None if every else form.job, reason=form.reason
    )
    if form.most is None and (every or form.command == "cancel"):
        dry = replace(call, body=_changed(command, dry_run=True), form_key=form.key)
        return page(call, "bulk.html", form=form, plan=chores.bulk_jobs(dry).body)
    if every:
        command = _changed(command, expect=Expected(max=form.most))
    made = chores.bulk_jobs(replace(call, body=command, form_key=form.key))
    filters = {name: getattr(form, name) for name in ("kind", "queue", "tenant", "owner")}
    filters["status"] = form.status.value if form.status else None
    return see_other(facets.url(filters, told=made.body["id"]))


def _changed(command: BulkCommand, **changes: Any) -> BulkCommand:
    """The same with changes."""
    from msgspec.structs import replace as changed

    return changed(command, **changes)


# -- one job ---------------------------------------------------------------------------------------------------------


def job_page(call: Call) -> Answer:
    """One job: where it stands and why, what happened, its units, its events."""
    row = call.row()
    if call.query.at:
        at = past.position_of(call.log, call.query.at)
        then = past.job(call.log, row, at)
        return page(call, "job_past.html", row=row, then=then, at=at, moment=_moment(call, at))
    return _job(call, row)


def _job(call: Call, row: JobRow, *, status: int = 200, refusal: JobLogError | None = None) -> Answer:
    log, query = call.log, call.query
    is_in = not row.get("in_outbox")
    asked = getattr(query, "verify", False) and call.principal.has("audit")
    lives: dict[str, Any] = _life(call, row) if is_in else {"turns": [], "lanes": [], "units": {}, "events": {}}
    return page(
        call,
        "job.html",
        status=status,
        refusal=refusal,
        row=row,
        job=documents.replayed(log, row) if is_in else None,
        reasons=explain.reasons(log, row, call.principal.sees),
        actions=[name for name, fit in ACTIONS.items() if row["status"] in fit],
        left=seconds_left(call),
        rows=_rows(call, row) if is_in else None,
        is_in=is_in,
        known=_known(call),
        paged=bool(getattr(query, "events", 0) or getattr(query, "units", "")),
        verified=_verified(log.store, row) if is_in and asked else None,
        **lives,
    )


def _rows(call: Call, row: JobRow) -> Measure | None:
    """How far a file is read, where that is what tells how much of the job is done."""
    if row["status"] in ENDED:
        return None
    found = Measuring(call.log).of(row)
    return found if found.noun == "row" else None


def _life(call: Call, row: JobRow) -> dict[str, Any]:
    """What happened to it."""
    log, query = call.log, call.query
    after_event, after_unit = getattr(query, "events", 0), getattr(query, "units", "")
    ids = inspection.children(log.store, row["id"], limit=_ROWS)
    rows, points = log.store.jobs(ids), history.turning_points(log, row["id"])
    return {
        "turns": list(history.turns(log, row["id"], points)),
        "lanes": charts.lanes(attempts.attempts(log, row["id"], points), log.store.now()),
        "units": documents.units(log, row["id"], after=after_unit, limit=_ROWS),
        "events": documents.events(log, row["id"], after=after_event, limit=_ROWS),
        "children": [rows[one] for one in ids if one in rows and call.principal.sees(rows[one])],
    }


def _verified(store: Any, row: JobRow) -> dict[str, Any] | None:
    """The job's events held against the tree of hashes and its signed heads; not while it is too long to wait for."""
    if row["version"] > chores.AT_ONCE:
        return None
    from ...projections.proof.known import check

    job_id: UUID = row["id"]
    return check(store, job=job_id).document()


def command_page(call: Call) -> Answer:
    """What the buttons of a job do; then the job again."""
    row, action = call.row(), call.request.match_info["action"]
    try:
        call.log.command(
            action,
            row["id"],
            call.actor(call.body.reason, key=call.body.key),
            tenant=row["tenant"],
            if_version=call.body.version,
            may=call.may,
        )
    except JobLogError as refusal:
        return _job(call, call.row(), status=problems.status_of(refusal), refusal=refusal)
    return see_other(f"/jobs/{row['id']}")
