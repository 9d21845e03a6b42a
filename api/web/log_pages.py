"""The log as it grows, who follows it, and who may come in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...domain import events, gate, log_events, queue, recovery, security
from ...eventstore import tokens
from ...eventstore.store import Reading
from ...projections.feed import consumers
from .. import history, shapes
from ..http import auth
from ..http.route import Answer
from .render import page, see_other

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..cli.checks import Check
    from ..http.route import Call

_ROWS: Final = 50
_WINDOW: Final = 500  #: positions in which events of one topic are looked for
_DAY: Final = 86_400_000_000
TOPICS: Final = tuple(
    sorted({kind.TOPIC for module in (events, gate, log_events, queue, recovery, security) for kind in module.ALL})
)


def feed_page(call: Call) -> Answer:
    """The newest events, or those before a position; and the consumers with their lag."""
    log, query = call.log, call.query
    head = log.store.head()
    upto = head if query.before is None else min(query.before - 1, head)
    width = _WINDOW if query.topic else _ROWS
    topics = (query.topic,) if query.topic else ()
    found = (
        log.store.log(max(upto - width, 0), width, upto=upto, topics=topics, reading=Reading.TOLD) if upto > 0 else []
    )
    now = log.now()
    rows = [
        (shapes.of_event(one), history.turn(log, one, now), one.topic.startswith("joblog.job."))
        for one in reversed(found[-_ROWS:])
    ]
    cut = found[-_ROWS].position if len(found) > _ROWS else upto - width + 1
    return page(
        call,
        "feed.html",
        rows=rows,
        query=query,
        topics=TOPICS,
        window=_WINDOW,
        head=head,
        older=cut if cut > 1 else None,
        consumers=consumers.lags(log.store),
    )


# -- admin -----------------------------------------------------------------------------------------------------------


def admin_page(call: Call) -> Answer:
    """Tokens; and what `joblog doctor` finds, when it is asked."""
    return _admin(call, doctor=call.query.doctor)


def _admin(call: Call, *, doctor: bool = False, **made: Any) -> Answer:
    store = call.log.store
    found = list(_findings(call)) if doctor else None
    common = {"secret": None, "name": None} | made
    return page(call, "admin.html", tokens=tokens.listed(store, "token"), scopes=auth.SCOPES, findings=found, **common)


def _findings(call: Call) -> Iterator[Check]:
    """What can be said of the log from inside the service."""
    from ..cli import checks, evidence

    log = call.log
    yield from checks.of_database(log)
    yield checks.of_clock(log)
    yield checks.of_leases(log)
    yield from checks.of_lag(log)
    yield from checks.of_projections(log)
    yield from evidence.of_evidence(log)


def create_token_page(call: Call) -> Answer:
    """Make a token: its secret stands in this one answer and nowhere else."""
    form, store = call.body, call.log.store
    now = store.now()
    ends = None if form.days is None else now + form.days * _DAY
    secret, row = auth.minted(
        name=form.name,
        scopes=form.scope,
        now=now,
        key=f"{call.principal.token_id}:{form.key}",
        tenant=form.tenant,
        owner=form.owner,
        expires_at=ends,
    )
    is_new = tokens.add(store, row)  # else the button was pressed twice
    return _admin(call, secret=secret if is_new else None, name=row.name)


def revoke_token_page(call: Call) -> Answer:
    """End a token; one that has ended stays so."""
    which = call.request.match_info["token"]
    known = tokens.find(call.log.store, which)
    if known is None or known.revoked_at is None:
        auth.revoke(call.log, which)
    return see_other("/admin")
