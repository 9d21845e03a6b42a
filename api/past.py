"""Jobs as they stood at a position of the log: from the view of job versions, not by a replay."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from ..domain.errors import InvalidFieldError
from ..projections import queries
from . import shapes
from .cursors import Place, decode, encode
from .http.errors import ViewBehindError
from .text import iso, moment

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..eventstore.store import JobRow
    from ..workers.commands.log import JobLog

    Sees = Callable[[JobRow], bool]

_FIRST_LOOK: Final = 500  #: positions; each further look is four times as far
_LONGEST_LOOK: Final = 20_000
_LOOKS: Final = 4  #: pages of an owner's jobs that are read for one
_LEAST_WIDTH: Final = 50  #: of such a page
_SKEW: Final = 60_000_000  #: microseconds that the clocks of hosts may differ
_NEVER_CHANGES: Final = ("kind", "queue", "tenant", "owner")
_NOBODY: Final = UUID(int=0)
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
        instant = _instant(text, log.now())
        following = queries.next_at(log.store, known)
        if following is not None and moment(following) <= instant:
            raise ViewBehindError(
                f"job versions are known up to position {known}, which is before that instant; try again"
            )
        return queries.position_at(log.store, instant)
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

    So many changes are looked at and no more: where few of them are of such jobs, a page is short and `next` goes on.
    """
    bound = {**filters, "at": at}
    if filters["owner"] is not None:
        return _of_owner(log, at, filters, sees, limit, cursor, bound)
    below = decode(cursor, bound).at if cursor else at + 1
    never = {name: filters[name] for name in _NEVER_CHANGES if filters[name] is not None}
    items: list[dict[str, Any]] = []
    if any(not log.store.find_jobs(**{name: value}, limit=1) for name, value in never.items()):
        below = 0  # there is no such job at all; asked of each by itself, as no index tells of two
    span, last = _FIRST_LOOK, max(below - _LONGEST_LOOK, 0)
    while below > 1 and below > last and len(items) < limit:
        down_to = max(below - span, last)
        found, below = _look(log, at, filters, limit - len(items), below, down_to)
        rows = log.store.jobs([one["job_id"] for one in found])
        pairs = ((rows.get(one["job_id"]), one) for one in found)
        items += [_document(row, one) for row, one in pairs if row is not None and sees(row)]
        span *= 4
    following = encode(Place(below, _NOBODY), bound) if below > 1 else None
    return {"items": items, "next": following, "position": at}


def _of_owner(
    log: JobLog, at: int, filters: dict[str, Any], sees: Sees, limit: int, cursor: str, bound: dict[str, Any]
) -> dict[str, Any]:
    """The same of one owner, whom the view does not know: by their jobs, the newest first."""
    store, status = log.store, filters["status"]
    never = {name: filters[name] for name in _NEVER_CHANGES if filters[name] is not None}
    width = max(limit, _LEAST_WIDTH)
    place = decode(cursor, bound) if cursor else Place(queries.time_of(store, at) + _SKEW, UUID(int=2**128 - 1))
    items: list[dict[str, Any]] = []
    edge: tuple[int, UUID] | None = (place.at, place.id)
    for _ in range(_LOOKS):
        rows = store.find_jobs(owner=filters["owner"], before=edge, limit=width)
        edge = (rows[-1]["created_at"], rows[-1]["id"]) if len(rows) == width else None
        fitting = [row for row in rows if all(row[name] == value for name, value in never.items())]
        stood = queries.many_as_of(store, [row["id"] for row in fitting], at)
        for row in fitting:
            then = stood.get(row["id"])
            if then is not None and sees(row) and status in {None, then["status"]}:
                items.append(_document(row, then))
                if len(items) == limit:
                    edge = (row["created_at"], row["id"])
                    break
        if edge is None or len(items) == limit:
            break
    return {"items": items, "next": None if edge is None else encode(Place(*edge), bound), "position": at}


def _look(
    log: JobLog, at: int, filters: dict[str, Any], limit: int, below: int, down_to: int
) -> tuple[list[dict[str, Any]], int]:
    """Changes between two positions, the latest first; and the position that the next look begins at."""
    equal = {name: value for name, value in filters.items() if name != "owner"}  # which is None
    found = queries.jobs_as_of(log.store, at, limit=limit, below=below, down_to=down_to, **equal)
    return found, found[-1]["from_position"] if len(found) == limit else down_to


def _document(row: JobRow, then: dict[str, Any]) -> dict[str, Any]:
    made = shapes.of_row(row) | dict.fromkeys(_CHANGES)
    made |= {name: then[name] for name in ("status", "worker", "attempt", "reason")}
    return made | {"updated_at": iso(then["from_at"])}
