"""The screens: each asks what programs ask too, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from ...domain.errors import JobLogError
from ...domain.status import Status
from ...eventstore import inspection
from ...projections import queries
from .. import attempts, explain, gate_list, history, queue_list
from ..http import problems
from ..http.holders import lease_documents, worker_documents
from ..http.jobs import JobList, replayed, unit_document
from ..http.route import Answer
from .render import page

if TYPE_CHECKING:
    from ...eventstore.store import JobRow
    from ..http.route import Call

_SOME: Final = 101  #: ready jobs that are counted where only "is there any" matters
_LEAST_AGE: Final = 1.0  #: seconds of work before a time left is guessed
ACTIONS: Final = {
    "pause": ("queued", "waiting", "running"),
    "resume": ("paused", "failed"),
    "retry": ("failed", "paused"),
    "cancel": ("queued", "waiting", "running", "paused"),
}


def overview(call: Call) -> Answer:
    """What is stuck, what failed, what runs."""
    store, who = call.log.store, call.principal
    mine: dict[str, Any] = {"tenant": who.tenant or None, "owner": who.owner or None}
    counts: dict[str, int] = {}
    behind = 0
    if not who.owner:  # owners are not counted
        found = queries.counters(store, by=("status",), tenant=who.tenant or None)
        counts = {key[0]: jobs for key, jobs in found.items()}
        behind = next((one.events for one in queries.lag(store) if one.name == "counters"), 0)
    queues = [] if who.is_bound else queue_list.items(call.log, limit=_SOME)
    return page(
        call,
        "overview.html",
        counts=counts,
        behind=behind,
        statuses=[status.value for status in Status],
        running=store.find_jobs(status="running", limit=10, **mine),
        failed=store.find_jobs(status="failed", limit=5, **mine),
        parked=store.find_jobs(status="paused", limit=5, **mine),
        newest=store.find_jobs(limit=5, **mine),
        idle=_without_workers(queues),
        left=_seconds_left(call),
    )


def _without_workers(queues: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Queues where something is due and nothing runs."""
    return [one for one in queues if one["ready"] and not one["running"] and not one["paused"]]


def _seconds_left(call: Call) -> Any:
    """A guess at when a running job is done, from how far it is."""
    now = call.log.store.now()

    def left(row: JobRow) -> float | None:
        age = 0.0 if row["started_at"] is None else (now - row["started_at"]) / 1_000_000
        if not row["total"] or not row["done"] or age < _LEAST_AGE or row["status"] != "running":
            return None
        return float(age / row["done"] * max(row["total"] - row["done"], 0))

    return left


def jobs_page(call: Call) -> Answer:
    """The table of jobs."""
    listed = JobList(call)
    return page(
        call,
        "jobs.html",
        jobs=listed.rows,
        next=None if listed.next is None else listed.url(listed.next),
        previous=None if listed.previous is None else listed.url(listed.previous),
        query=call.query,
        filtered=any(listed.filters.values()),
        statuses=[status.value for status in Status],
        left=_seconds_left(call),
    )


def job_page(call: Call) -> Answer:
    """One job: where it stands and why, what happened, its units, its events."""
    return _job(call, call.row())


def _job(call: Call, row: JobRow, *, status: int = 200, refusal: JobLogError | None = None) -> Answer:
    log, query = call.log, call.query
    after_event, after_unit = getattr(query, "events", 0), getattr(query, "units", "")
    limit = 50
    events = [] if row.get("in_outbox") else inspection.stream(log.store, row["id"], after=after_event, limit=limit + 1)
    units = [] if row.get("in_outbox") else inspection.units(log.store, row["id"], after=after_unit, limit=limit + 1)
    children = [] if row.get("in_outbox") else inspection.children(log.store, row["id"], limit=50)
    points = [] if row.get("in_outbox") else history.turning_points(log, row["id"])
    rows = log.store.jobs(children)
    return page(
        call,
        "job.html",
        status=status,
        refusal=refusal,
        row=row,
        job=None if row.get("in_outbox") else replayed(call, row),
        reasons=explain.reasons(log, row, call.principal.sees),
        turns=[] if row.get("in_outbox") else list(history.turns(log, row["id"], points)),
        attempts=[] if row.get("in_outbox") else attempts.attempts(log, row["id"], points),
        units=[unit_document(*one) for one in units[:limit]],
        more_units=units[limit - 1][0] if len(units) > limit else None,
        events=events[:limit],
        event_data=_event_data,
        more_events=events[limit - 1].version if len(events) > limit else None,
        children=[rows[one] for one in children if one in rows and call.principal.sees(rows[one])],
        actions=[name for name, fit in ACTIONS.items() if row["status"] in fit],
        left=_seconds_left(call),
        moment=call.log.now(),
    )


def _event_data(event: Any) -> Any:
    from ..shapes import of_event

    return of_event(event, stream_key="job")


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
    return _see_other(f"/jobs/{row['id']}")


def queues_page(call: Call) -> Answer:
    """What waits and runs in each queue."""
    items = queue_list.items(call.log)
    return page(call, "queues.html", queues=items, idle=_without_workers(items))


def command_queue_page(call: Call) -> Answer:
    """What the buttons of a queue do."""
    name, action = call.request.match_info["name"], call.request.match_info["action"]
    call.log.control_queue(name, action, call.actor(call.body.reason, key=call.body.key), may=call.may)
    return _see_other("/queues")


def workers_page(call: Call) -> Answer:
    """Who works on what, and for how long they may."""
    leases = lease_documents(call.log)
    return page(call, "workers.html", workers=worker_documents(leases), leases=leases[:200])


def gates_page(call: Call) -> Answer:
    """What passes each provider's gate."""
    return page(call, "gates.html", gates=gate_list.items(call.log))


def recovery_page(call: Call) -> Answer:
    """What was taken back, tried again, given up, or reported: ten rows, counted when it is opened or searched."""
    query, store = call.query, call.log.store
    found = queries.recovery_page(store, filter=query.filter, search=query.q, page=query.page, total=query.total)
    base, counted = {"filter": query.filter, "q": query.q}, {"total": found.total}
    return page(
        call,
        "recovery.html",
        found=found,
        query=query,
        filters=queries.FILTERS,
        behind=max(store.head() - found.position, 0),
        # Refresh, which is the link to this page, counts again; turning pages does not.
        url=lambda number: (
            "/recovery?" + urlencode(base | {"page": number} | ({} if number == found.window.page else counted))
        ),
    )


def projections_page(call: Call) -> Answer:
    """How far each view is behind the log."""
    return page(call, "projections.html", views=queries.lag(call.log.store), head=call.log.store.head())


def security_page(call: Call) -> Answer:
    """Refusals that somebody should look at."""
    return page(call, "security.html", rows=queries.security(call.log.store, limit=50))


# -- coming and going ------------------------------------------------------------------------------------------------


def sign_in_page(call: Call) -> Answer:
    """Spend the code of a link; then the overview."""
    from ..http.auth import COOKIE, SESSION

    if not call.query.code:
        return page(call, "sign_in.html", refusal=None)
    secret = call.service.auth.sign_in(call.query.code)
    kept = f"{COOKIE}={secret}; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age={int(SESSION.total_seconds())}"
    return Answer(b"", 303, {"Location": "/", "Set-Cookie": kept})


def sign_out_page(call: Call) -> Answer:
    """End the session."""
    from ..http.auth import COOKIE

    call.service.auth.sign_out(call.principal)
    gone = f"{COOKIE}=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0"
    return Answer(b"", 303, {"Location": "/sign-in", "Set-Cookie": gone})


def refusal_page(call: Call, error: JobLogError, status: int) -> Answer:
    """A refusal for people: what it was and where to go on."""
    template = "sign_in.html" if error.code == "unauthorized" else "refusal.html"
    return page(call, template, status=status, refusal=error)


def _see_other(where: str) -> Answer:
    return Answer(b"", 303, {"Location": where})
