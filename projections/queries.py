"""What pages and commands ask the views; every answer is bounded, and none counts jobs or folds events."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from ..domain.errors import InvalidFieldError
from ..eventstore import view_schema as v
from ..eventstore.clock import micros
from ..eventstore.store import Reading
from ..eventstore.views import Select
from .counters import ALL_TENANTS
from .views import VIEWS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from ..eventstore.store import Store

Row = dict[str, Any]

PAGE_ROWS: Final = 10  #: of the recovery report; nothing else knows this number
FILTERS: Final = ("all", "done", "failed", "deleted")
SEARCH_LIMIT: Final = 200  #: characters of a search
COUNT_LIMIT: Final = 10_001  #: counts of jobs under one fingerprint stop here, and then mean "at least"
_LOOKS: Final = 500  #: rows of the schedule that are looked at for a page
_DIMENSIONS: Final = ("status", "kind", "queue", "tenant")


# -- counters --------------------------------------------------------------------------------------------------------


def counters(store: Store, *, by: Sequence[str] = ("status",), **equal: str | None) -> dict[tuple[str, ...], int]:
    """How many jobs stand where, by any of status, kind, queue and tenant; *equal* narrows by the same names.

    A tuple of the values of *by* -> jobs; what has none is left out.
    """
    given = {name: value for name, value in equal.items() if value is not None}
    for name in (*by, *given):
        if name not in _DIMENSIONS:
            raise InvalidFieldError("by", f"{name!r} is not counted", f"use {', '.join(_DIMENSIONS)}")
    if "tenant" not in by:
        given.setdefault("tenant", ALL_TENANTS)
    found = store.views.sums("counters", v.job_counts, "jobs", by, given)
    if "tenant" in by:
        place = list(by).index("tenant")
        found = [row for row in found if row[place] != ALL_TENANTS]
    return {tuple(key): jobs for *key, jobs in found if jobs}


# -- one job, and all jobs, as they stood ----------------------------------------------------------------------------


def job_as_of(store: Store, job_id: UUID, at: int | datetime) -> Row | None:
    """How a job stood at a position or an instant; None before it was submitted."""
    found = store.views.find("versions", _as_of(at, equal={"job_id": job_id}, limit=1))
    return _span(found[0]) if found else None


def jobs_as_of(
    store: Store,
    at: int | datetime,
    *,
    limit: int = 50,
    below: int | None = None,
    down_to: int | None = None,
    **equal: str | None,
) -> list[Row]:
    """How all jobs stood at a position, the latest change first; *below*: the page behind that position.

    *down_to*: no change before that position is looked at, however few jobs were found.
    An instant means the position of the last change up to then: clocks of hosts may differ, and a state that is shown
    is one that there was.  *equal* narrows by status, kind, queue or tenant.
    """
    position = position_at(store, at) if isinstance(at, datetime) else at
    given = {name: value for name, value in equal.items() if value is not None}
    select = _as_of(position, equal=given, limit=limit, below=below, down_to=down_to)
    return [_span(row) for row in store.views.find("versions", select)]


def position_at(store: Store, at: datetime) -> int:
    """The position of the last change of a job up to an instant; 0 before the first."""
    select = Select(v.job_versions, below={"from_at": micros(at) + 1}, order=("-from_at",), limit=1)
    found = store.views.find("versions", select)
    return int(found[0]["from_position"]) if found else 0


def many_as_of(store: Store, job_ids: Sequence[UUID], at: int) -> dict[UUID, Row]:
    """How these jobs stood at a position; those that were submitted later are left out."""
    if not job_ids:
        return {}
    select = Select(
        v.job_versions,
        among=("job_id", job_ids),
        least={"to_position": at + 1},
        below={"from_position": at + 1},
    )
    return {row["job_id"]: _span(row) for row in store.views.find("versions", select)}


def time_of(store: Store, position: int) -> int:
    """When the last change of a job up to a position was, in microseconds; 0 before the first."""
    select = Select(v.job_versions, below={"from_position": position + 1}, order=("-from_position",), limit=1)
    found = store.views.find("versions", select)
    return int(found[0]["from_at"]) if found else 0


def job_life(store: Store, job_id: UUID, *, limit: int = 1000) -> list[Row]:
    """Every span of a job in which status, holder and attempt were the same, oldest first."""
    select = Select(v.job_versions, equal={"job_id": job_id}, order=("from_position",), limit=limit)
    return [_span(row) for row in store.views.find("versions", select)]


def _as_of(
    at: int | datetime, *, equal: Row, limit: int, below: int | None = None, down_to: int | None = None
) -> Select:
    if isinstance(at, datetime):
        started, ended, value = "from_at", "to_at", micros(at)
    else:
        started, ended, value = "from_position", "to_position", at
    until = value + 1 if below is None else min(value + 1, below)
    order = ("-from_position",)
    least = {ended: value + 1} if down_to is None else {ended: value + 1, started: down_to}
    return Select(v.job_versions, equal=equal, least=least, below={started: until}, order=order, limit=limit)


def _span(row: Row) -> Row:
    for name in ("to_position", "to_at"):
        row[name] = None if row[name] == v.OPEN else row[name]
    return row


# -- recovery report -------------------------------------------------------------------------------------------------


class Window(NamedTuple):
    """Which page of how many, and where it begins."""

    page: int
    pages: int
    skip: int


class RecoveryPage(NamedTuple):
    """A page of the report with the window that it stands in."""

    rows: list[Row]
    total: int
    window: Window
    position: int  #: how far the report has come in the log


def page_window(total: int, page: object, rows: int = PAGE_ROWS) -> Window:
    """The page that is shown when *page* is asked for: clamped to those that exist, at least one; no number is the first."""
    pages = max((total + rows - 1) // rows, 1)
    try:
        wanted = int(str(page))
    except ValueError:
        wanted = 1
    wanted = min(max(wanted, 1), pages)
    return Window(wanted, pages, (wanted - 1) * rows)


def recovery_count(store: Store, *, filter: str = "all", search: str = "") -> int:  # noqa: A002 - as it is called
    """How many rows there are under a filter and a search: asked when they change, not with every page."""
    return store.views.count("recovery", _recovery(filter, search))


def recovery_page(
    store: Store,
    *,
    filter: str = "all",  # noqa: A002 - as it is called
    search: str = "",
    page: object = 1,
    total: int | None = None,
) -> RecoveryPage:
    """A page of the report, newest first; *total* as it was counted before, else it is counted now.

    Raises:
        InvalidFieldError: a filter that does not exist.
    """
    select = _recovery(filter, search)
    total = store.views.count("recovery", select) if total is None else max(total, 0)
    window = page_window(total, page)
    chosen = Select(
        select.table,
        equal=select.equal,
        contains=select.contains,
        order=("-at", "-position"),
        limit=PAGE_ROWS,
        skip=window.skip,
    )
    rows = [_report_row(row) for row in store.views.find("recovery", chosen)]
    standing = store.views.standings().get("recovery")
    return RecoveryPage(rows, total, window, standing.position if standing else 0)


def _recovery(chosen: str, search: str) -> Select:
    if chosen not in FILTERS:
        raise InvalidFieldError("filter", f"{chosen!r} is no filter", f"use {', '.join(FILTERS)}")
    equal: Row = {"done": {"done": 1}, "failed": {"done": 0}, "deleted": {"deleted": 1}}.get(chosen, {})
    words = search.strip()[:SEARCH_LIMIT].replace("\0", "").casefold()
    return Select(v.recovery_rows, equal=equal, contains=("needle", words) if words else None)


def _report_row(row: Row) -> Row:
    del row["needle"]
    flags = {name: bool(row[name]) for name in ("done", "deleted", "reclaimed")}
    return row | flags | {name: orjson.loads(row[name]) for name in ("ids", "titles")}


# -- failures, security, schedule ------------------------------------------------------------------------------------


def failures(
    store: Store, *, limit: int = 25, kind: str | None = None, below: int | None = None, jobs: bool = True
) -> list[Row]:
    """Failures by fingerprint, the newest first; *below*: the page behind that position.

    *jobs*: each with in how many jobs, which are counted for that.
    """
    found = store.views.find(
        "failures",
        Select(
            v.failures,
            equal={} if kind is None else {"kind": kind},
            below={} if below is None else {"last_position": below},
            order=("-last_position",),
            limit=limit,
        ),
    )
    for row in found if jobs else ():
        same = Select(v.failed_jobs, equal={"fingerprint": row["fingerprint"]})
        row["jobs"] = store.views.count("failures", same, COUNT_LIMIT)
    return found


def jobs_of_failure(store: Store, fingerprint: str, *, limit: int = 100) -> list[Row]:
    """The jobs that failed under one fingerprint, with how often."""
    select = Select(v.failed_jobs, equal={"fingerprint": fingerprint}, order=("job_id",), limit=limit)
    return store.views.find("failures", select)


def security(store: Store, *, limit: int = 25, below: int | None = None) -> list[Row]:
    """The security stream, the newest kind of problem first; *below*: the page behind that position."""
    until = {} if below is None else {"last_position": below}
    found = store.views.find("security", Select(v.security_rows, below=until, order=("-last_position",), limit=limit))
    return [row | {name: orjson.loads(row[name]) for name in ("actors", "addresses")} for row in found]


def schedule(
    store: Store,
    *,
    limit: int = 25,
    before: datetime | None = None,
    after: datetime | None = None,
    behind: tuple[int, UUID] | None = None,
    **equal: str | None,
) -> list[Row]:
    """What is due, the first at the front; *equal* narrows by queue, kind, tenant or status.

    *behind*: the page behind this (due_at, job_id).
    """
    select = Select(
        v.due_jobs,
        equal={name: value for name, value in equal.items() if value is not None},
        least={} if after is None else {"due_at": micros(after)},
        below={} if before is None else {"due_at": micros(before)},
        behind=behind,
        order=("due_at", "job_id"),
        limit=limit,
    )
    return store.views.find("schedule", select)


class SchedulePage(NamedTuple):
    """A page of what is due, and the (due_at, job_id) behind which the next one begins."""

    rows: list[Row]
    end: tuple[int, UUID] | None


def schedule_page(
    store: Store, *, limit: int, behind: tuple[int, UUID] | None = None, **equal: str | None
) -> SchedulePage:
    """The same in pages, each a bounded look: beside a queue, filters may leave a page with few rows, and a next one."""
    queue = equal.pop("queue", None)
    given = {name: value for name, value in equal.items() if value is not None}
    looks = _LOOKS if given else limit + 1
    seen = schedule(store, limit=looks, behind=behind, queue=queue)
    rows = [row for row in seen if all(row[name] == value for name, value in given.items())]
    if len(rows) > limit:
        return SchedulePage(rows[:limit], _due_key(rows[limit - 1]))
    return SchedulePage(rows, _due_key(seen[-1]) if len(seen) == looks else None)


def _due_key(row: Row) -> tuple[int, UUID]:
    return row["due_at"], row["job_id"]


# -- how far they are ------------------------------------------------------------------------------------------------


class Lag(NamedTuple):
    """How far one view is behind the log."""

    name: str
    generation: int
    position: int
    events: int
    seconds: float  #: since the first event that it does not show
    owner: str  #: who follows for it, or did last
    leads: bool  #: whether that one's turn lasts
    stopped_at: int | None
    reason: str


def lag(store: Store) -> list[Lag]:
    """Each view with its distance to the end of the log, in events and in seconds."""
    standings, head, now = store.views.standings(), store.head(), store.now()
    made: list[Lag] = []
    for name in VIEWS:
        one = standings.get(name)
        if one is None:
            made.append(Lag(name, 0, 0, head, _since(store, 0, now, head), "", leads=False, stopped_at=None, reason=""))
            continue
        seconds = _since(store, one.position, now, head)
        leads = bool(one.owner) and one.alive_until > now
        events = max(head - one.position, 0)
        made.append(
            Lag(name, one.generation, one.position, events, seconds, one.owner, leads, one.stopped_at, one.reason)
        )
    return made


def _since(store: Store, position: int, now: int, head: int) -> float:
    if position >= head:
        return 0.0
    happened = next_at(store, position)
    return 0.0 if happened is None else max((now - happened) / 1_000_000, 0.0)


def next_at(store: Store, position: int) -> int | None:
    """When the event behind *position* happened, in microseconds; None if there is none, or it does not say."""
    for event in store.log(position, 1, reading=Reading.TOLD):
        try:
            return micros(datetime.fromisoformat(orjson.loads(event.state)["timestamp"]))
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):  # somebody else's event
            return None
    return None
