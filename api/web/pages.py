"""The screens: each asks what programs ask too, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from ...domain.errors import JobLogError
from ...domain.status import Status
from ...projections import queries
from .. import documents, queue_list
from ..http import chores
from ..http.route import Answer
from ..job_list import JobPage
from . import charts
from .job_pages import seconds_left
from .render import page, see_other

if TYPE_CHECKING:
    from ...eventstore.store import JobRow
    from ...workers.commands.log import JobLog
    from ..http.auth import Principal
    from ..http.route import Call


_LEASES: Final = 50  #: that are shown


def overview(call: Call) -> Answer:
    """What is stuck, what failed, what runs."""
    who = call.principal
    found = call.service.together.ask(f"overview {(who.tenant, who.owner)}", lambda: _overview(call.log, who))
    return page(call, "overview.html", **found, clock=charts.clock, left=seconds_left(call))


def _overview(log: JobLog, who: Principal) -> dict[str, Any]:
    """What the overview shows to all who may see the same jobs."""
    store = log.store
    mine: dict[str, Any] = {"tenant": who.tenant or None, "owner": who.owner or None}

    def newest(limit: int, status: str | None = None) -> list[JobRow]:
        return JobPage(log, {"status": status, **mine}, limit=limit).rows

    counts: dict[str, int] = {}
    if not who.owner:  # owners are not counted
        found = queries.counters(store, by=("status",), tenant=who.tenant or None)
        counts = {key[0]: jobs for key, jobs in found.items()}
    lags = queries.lag(store)
    queues = [] if who.is_bound else queue_list.items(log)
    return {
        "counts": counts,
        "behind": next((one.events for one in lags if one.name == "counters"), 0),
        "lag": max(lags, key=lambda one: (one.events, one.seconds)),
        "ended": None if who.owner else charts.ended(store, who.tenant or None),
        "failures": [] if who.is_bound else queries.failures(store, limit=5, jobs=False),
        "oldest": min((one for one in queues if one["due"] is not None), key=lambda one: one["due"], default=None),
        "lease": None if who.is_bound else next(iter(documents.leases(log, 1)), None),
        "statuses": [status.value for status in Status],
        "running": newest(10, "running"),
        "failed": newest(5, "failed"),
        "parked": newest(5, "paused"),
        "newest": newest(5),
        "idle": _without_workers(queues),
    }


def _without_workers(queues: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Queues where something is due and nothing runs."""
    return [one for one in queues if one["ready"] and not one["running"] and not one["paused"]]


def queues_page(call: Call) -> Answer:
    """What waits and runs in each queue."""
    items = call.service.together.ask("queue items", lambda: queue_list.items(call.log))
    counts = queries.counters(call.log.store, by=("queue", "status"))
    return page(call, "queues.html", queues=items, idle=_without_workers(items), counts=counts)


def command_queue_page(call: Call) -> Answer:
    """What the buttons of a queue do."""
    name, action = call.request.match_info["name"], call.request.match_info["action"]
    call.log.control_queue(name, action, call.actor(call.body.reason, key=call.body.key), may=call.may)
    return see_other("/queues")


def workers_page(call: Call) -> Answer:
    """Who works on what, and for how long they may."""
    leases = documents.leases(call.log)
    return page(call, "workers.html", workers=documents.workers(leases), leases=leases[:_LEASES], count=len(leases))


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
    store, query = call.log.store, call.query
    told = None if query.told is None else call.row_of(query.told)
    return page(call, "projections.html", views=queries.lag(store), head=store.head(), told=told)


def care_page(call: Call) -> Answer:
    """Rebuild a view, or compare it with the log: a job, which can be followed."""
    made = chores.care_for_projection(replace(call, form_key=call.body.key))
    return see_other(f"/projections?told={made.body['id']}")


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
