"""What is derived from the log, and who follows it: gates, views, the recovery report, security, consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...projections import queries
from ...projections.feed import consumers
from ...projections.feed.pages import Cursor
from .. import gate_list
from ..text import iso
from . import cursors
from .route import Answer
from .view_types import RecoveryRow

if TYPE_CHECKING:
    from .route import Call

_REPORTED: Final = frozenset(RecoveryRow.__struct_fields__)
_INSTANTS: Final = ("at", "recorded_at", "next_retry_at")


def list_gates(call: Call) -> Answer:
    """What passes each provider's gate, and until when it is closed."""
    return Answer({"items": gate_list.items(call.log)})


def list_projections(call: Call) -> Answer:
    """How far each view is behind the log."""
    store = call.log.store
    items = [one._asdict() | {"seconds": round(one.seconds, 3)} for one in queries.lag(store)]
    return Answer({"items": items, "head": store.head()})


def recovery_report(call: Call) -> Answer:
    """A page of ten rows, newest first; the only list that is counted, and that has numbered pages."""
    query = call.query
    found = queries.recovery_page(call.log.store, filter=query.filter, search=query.q, page=query.page)
    document: dict[str, Any] = {"items": [_report(row) for row in found.rows], "total": found.total}
    document |= {"page": found.window.page, "pages": found.window.pages, "position": found.position}
    return Answer(document)


def _report(row: dict[str, Any]) -> dict[str, Any]:
    made = {str(name): value for name, value in row.items() if name in _REPORTED}  # names of columns are no plain text
    return made | {name: iso(row[name]) for name in _INSTANTS}


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


# -- consumers of the feed -------------------------------------------------------------------------------------------


def list_consumers(call: Call) -> Answer:
    """Every named consumer and how far it is."""
    return Answer({"items": [_consumer(one) for one in consumers.lags(call.log.store)]})


def _consumer(one: consumers.Lag) -> dict[str, Any]:
    return {
        "name": one.name,
        "cursor": str(one.cursor),
        "behind": one.behind,
        "moved_at": iso(one.moved_at),
        "rewound": one.is_rewound,
    }


def move_consumer(call: Call) -> Answer:
    """Move a named consumer forward; the first move makes it.  Never back: what was committed does not come again."""
    store, name = call.log.store, call.request.match_info["name"]
    state = store.state()
    position = cursors.log_place(call.body.cursor, state)
    consumers.Consumer.open(store, name).commit(Cursor(state.epoch, position))
    return Answer(_consumer(next(one for one in consumers.lags(store) if one.name == name)))


def drop_consumer(call: Call) -> Answer:
    """Forget a consumer."""
    consumers.drop(call.log.store, call.request.match_info["name"])
    return Answer(None, 204)
