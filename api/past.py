"""Jobs as they stood at a position of the log: from the view of job versions, not by a replay."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from ..domain.errors import InvalidFieldError
from ..projections import queries
from . import shapes
from .cursors import Place, decode, encode
from .http.errors import ViewBehindError
from .text import iso

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from ..eventstore.store import JobRow
    from ..workers.commands.log import JobLog

    Sees = Callable[[JobRow], bool]

_LOOKS: Final = 8  #: pages that are read for one, where most jobs are others'
#: What changes in the life of a job, and is not known of its past.
_CHANGES: Final = (
    "status", "wish", "outcome", "reason", "reason_text", "worker", "attempt", "unit_attempt", "crashes", "reclaims",
    "failures", "done", "skipped", "total", "due_at", "updated_at", "started_at", "last_attempt_at", "finished_at",
    "checkpoint", "version",
)  # fmt: skip
#: What is not even known of the present without its events.
_OF_EVENTS: Final = ("args", "cursor", "tallies", "result", "errors", "errors_dropped", "cycle", "unit", "lease")


def position_of(log: JobLog, text: str) -> int:
    """The position that *text* means: a position, or the last change up to an instant.

    Raises:
        InvalidFieldError: it is neither, or ahead of the log.
        ViewBehindError: the view has not come so far.
    """
    standing = log.store.views.standings().get("versions")
    known = 0 if standing is None else standing.position
    if not text.isascii() or not text.isdecimal():
        return queries.position_at(log.store, _instant(text, log.now()))
    position, head = int(text[:19]), log.store.head()
    if position > head:
        raise InvalidFieldError("at", f"the log ends at {head}", "give a position that there was")
    if position > known:
        raise ViewBehindError(f"job versions are known up to position {known}, the log ends at {head}; try again")
    return position


def _instant(text: str, now: datetime) -> datetime:
    try:
        made = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        made = None
    if made is None or made.tzinfo is None or made > now:
        way_out = "give a position, or an instant that has passed, as RFC 3339 with Z or an offset"
        raise InvalidFieldError("at", f"{text[:40]!r} is neither position nor past instant", way_out)
    return made


def job(log: JobLog, row: JobRow, at: int) -> dict[str, Any] | None:
    """A job as it stood; None before it was submitted."""
    found = queries.job_as_of(log.store, row["id"], at)
    return None if found is None else _document(row, found) | dict.fromkeys(_OF_EVENTS)


def page(log: JobLog, at: int, filters: dict[str, Any], sees: Sees, *, limit: int, cursor: str = "") -> dict[str, Any]:
    """Jobs as they stood, the latest change first.

    Where most of them are others', a page may be short; `next` goes on all the same.
    """
    bound = {**filters, "at": at}
    below = decode(cursor, bound).at if cursor else None
    equal = {name: value for name, value in filters.items() if name != "owner"}
    items: list[dict[str, Any]] = []
    edge: tuple[int, UUID] | None = None
    for _ in range(_LOOKS):
        found = queries.jobs_as_of(log.store, at, limit=limit + 1, below=below, **equal)
        rows = log.store.jobs([one["job_id"] for one in found[:limit]])
        for one in found[:limit]:
            row = rows.get(one["job_id"])
            edge = (one["from_position"], one["job_id"])
            if row is not None and sees(row) and filters["owner"] in {None, row["owner"]}:
                items.append(_document(row, one))
                if len(items) == limit:
                    break
        ended = len(found) <= limit and (not found or edge == (found[-1]["from_position"], found[-1]["job_id"]))
        if ended:
            edge = None
        if ended or edge is None or len(items) == limit:
            break
        below = edge[0]
    following = None if edge is None else encode(Place(*edge), bound)
    return {"items": items, "next": following, "position": at}


def _document(row: JobRow, then: dict[str, Any]) -> dict[str, Any]:
    made = shapes.of_row(row) | dict.fromkeys(_CHANGES)
    made |= {name: then[name] for name in ("status", "worker", "attempt", "reason")}
    return made | {"updated_at": iso(then["from_at"])}
