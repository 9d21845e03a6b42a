"""What is derived from the log, and who follows it: views, the recovery report, security, the schedule, consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...projections import queries
from ...projections.compare import JOBS
from ...projections.feed import consumers
from ...projections.feed.pages import Cursor
from ...projections.views import VIEWS
from ...workers.commands import recovery
from .. import cursors, documents
from ..text import iso
from .route import Answer

if TYPE_CHECKING:
    from .route import Call


def list_projections(call: Call) -> Answer:
    """How far each view is behind the log."""
    found = documents.projections(call.log)
    told = {one["name"]: one for one in found["items"]}
    items: list[dict[str, Any]] = []
    for one in queries.lag(call.log.store):
        more = {name: told[one.name][name] for name in ("behind", "rebuild")}
        items.append(one._asdict() | {"seconds": round(one.seconds, 3)} | more)
    others = [one for name, one in told.items() if name not in VIEWS and name != JOBS]
    return Answer({"items": items, "head": found["head"], "job_table": told[JOBS], "followers": others})


def recovery_report(call: Call) -> Answer:
    """A page of ten rows, newest first; the only list that is counted, and that has numbered pages."""
    query, store = call.query, call.log.store
    found = queries.recovery_page(store, filter=query.filter, search=query.q, page=query.page, total=query.total)
    return Answer(documents.recovery(found, store.head()))


def note_recovery(call: Call) -> Answer:
    """Put what an administrator reports into the log and so into the report; once for an Idempotency-Key."""
    fields = {name: getattr(call.body, name) for name in call.body.__struct_fields__}
    return Answer({"position": recovery.note(call.log, fields, call.actor())})


def list_security(call: Call) -> Answer:
    """Refusals that somebody should look at, the newest kind first."""
    query = call.query
    rows = queries.security(call.log.store, limit=query.limit + 1, below=query.below)
    page = rows[: query.limit]
    items = [
        {str(name): value for name, value in row.items() if name not in {"id", "generation"}}
        | {"first_at": iso(row["first_at"]), "last_at": iso(row["last_at"])}
        for row in page
    ]
    return Answer({"items": items, "next": page[-1]["last_position"] if len(rows) > query.limit else None})


def list_schedule(call: Call) -> Answer:
    """What is due, the first at the front; `next` goes on behind the last one."""
    query, who = call.query, call.principal
    filters = {"status": query.status, "kind": query.kind, "queue": query.queue, "tenant": who.tenant or query.tenant}
    place = cursors.decode(query.cursor, filters) if query.cursor else None
    behind = None if place is None else (place.at, place.id)
    if who.tenant and query.tenant not in {None, who.tenant}:
        return Answer({"items": [], "next": None})
    page = queries.schedule_page(call.log.store, limit=query.limit, behind=behind, **filters)
    rows = call.log.store.jobs([one["job_id"] for one in page.rows]) if who.owner else {}
    mine = (one for one in page.rows if not who.owner or (one["job_id"] in rows and who.sees(rows[one["job_id"]])))
    following = None if page.end is None else cursors.encode(cursors.Place(*page.end), filters)
    return Answer({"items": [_due(one) for one in mine], "next": following})


def _due(row: dict[str, Any]) -> dict[str, Any]:
    plain = {name: row[name] for name in ("status", "reason", "kind", "queue", "tenant", "priority")}
    return {"job": str(row["job_id"]), "due_at": iso(row["due_at"]), **plain}


# -- consumers of the feed -------------------------------------------------------------------------------------------


def list_archives(call: Call) -> Answer:
    """Where the bodies of finished jobs are that were moved out of the log."""
    return Answer(documents.archives(call.log))


def list_consumers(call: Call) -> Answer:
    """Every named consumer and how far it is."""
    return Answer({"items": [documents.consumer(one) for one in consumers.lags(call.log.store)]})


def move_consumer(call: Call) -> Answer:
    """Move a named consumer forward; the first move makes it.  Never back: what was committed does not come again."""
    store, name = call.log.store, call.request.match_info["name"]
    state = store.state()
    position = cursors.log_place(call.body.cursor, state)
    consumers.Consumer.open(store, name).commit(Cursor(state.epoch, position))
    return Answer(documents.consumer(next(one for one in consumers.lags(store) if one.name == name)))


def drop_consumer(call: Call) -> Answer:
    """Forget a consumer."""
    consumers.drop(call.log.store, call.request.match_info["name"])
    return Answer(None, 204)
