"""Questions that only people who look after the log ask; nothing is written, each answer is bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from ..domain.errors import StoreError
from .append import EventRow
from .placed import placed
from .sql_store import SqlStore
from .store import LeaseRow, LoggedEvent
from .views import VIEW_FOLLOWERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .store import Store

FEW: Final = 101  #: where only "is there any, are there many" matters
COUNT_LIMIT: Final = 1_001  #: counts stop here and then mean "at least"
_LEASE: Final = "job_id, epoch, token, worker, lease_until, boot_id, presence"
_PRAGMAS: Final = (
    "journal_mode",
    "synchronous",
    "wal_autocheckpoint",
    "recursive_triggers",
    "foreign_keys",
    "page_size",
)
_SETTINGS: Final = (
    "server_version",
    "fsync",
    "full_page_writes",
    "synchronous_commit",
    "wal_level",
    "max_connections",
)


class Schema(NamedTuple):
    """What the database says of itself."""

    version: int
    min_code: int


class Rebuild(NamedTuple):
    """A rebuild that is under way, or died."""

    generation: int
    position: int
    owner: str
    alive_until: int  #: microseconds since 1970


class Ready(NamedTuple):
    """What waits in a queue for a worker."""

    jobs: int  #: at most ``COUNT_LIMIT``
    oldest_due: int | None


def _rows(store: Store, sql: str, *params: Any) -> list[Any]:
    if not isinstance(store, SqlStore):
        raise StoreError("only a log in a database can be inspected")
    return store.sql_rows(placed(sql, store.dialect), params)


def _id(store: Store, job_id: UUID) -> Any:
    return job_id.bytes if store.dialect == "sqlite" else job_id


def _uuid(value: Any) -> UUID:
    return value if isinstance(value, UUID) else UUID(bytes=value)


def schema(store: Store) -> Schema:
    """Which schema the database has, and the oldest code that may use it."""
    return Schema(*_rows(store, "SELECT schema_version, min_code FROM log_state WHERE id = 1")[0])


def settings(store: Store) -> dict[str, str]:
    """The settings that decide whether an acknowledged event survives, as this process' connections have them."""
    if store.dialect == "sqlite":
        return {name: str(_rows(store, f"PRAGMA {name}")[0][0]) for name in _PRAGMAS}
    return {name: str(_rows(store, f"SHOW {name}")[0][0]) for name in _SETTINGS}


def connections(store: Store) -> int:
    """How many connections the server has; 0 where there is none."""
    if store.dialect == "sqlite":
        return 0
    return int(_rows(store, "SELECT count(*) FROM pg_stat_activity")[0][0])


def jobs_beginning(store: Store, digits: str, *, limit: int) -> list[UUID]:
    """Ids of jobs that begin with these hexadecimal digits."""
    low, high = (UUID(digits.ljust(32, fill)) for fill in "0f")
    parity = store.state().generation % 2
    sql = f"SELECT id FROM jobs_{parity} WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?"
    return [_uuid(row[0]) for row in _rows(store, sql, _id(store, low), _id(store, high), limit)]


# -- one stream ------------------------------------------------------------------------------------------------------


def stream(store: Store, stream_id: UUID, *, after: int, limit: int) -> list[LoggedEvent]:
    """A page of one stream's events with their positions, behind version *after*."""
    sql = (
        "SELECT position, stream_id, version, topic, state FROM events "
        "WHERE stream_id = ? AND version > ? ORDER BY version LIMIT ?"
    )
    found = _rows(store, sql, _id(store, stream_id), after, limit)
    return [LoggedEvent(row[0], _uuid(row[1]), *row[2:]) for row in found]


def newest_but(store: Store, stream_id: UUID, topics: Sequence[str], *, limit: int) -> list[EventRow]:
    """The newest events of a stream that are none of *topics*, oldest first."""
    marks = ", ".join("?" * len(topics))
    sql = (
        f"SELECT version, topic, state FROM events WHERE stream_id = ? AND topic NOT IN ({marks}) "
        "ORDER BY version DESC LIMIT ?"
    )
    return [EventRow(*row) for row in _rows(store, sql, _id(store, stream_id), *topics, limit)][::-1]


def last_of(store: Store, stream_id: UUID, topic: str, *, after: int = 0, before: int = 2**62) -> EventRow | None:
    """The last event of *topic* between two versions of a stream."""
    sql = (
        "SELECT version, topic, state FROM events WHERE stream_id = ? AND version > ? AND version < ? AND topic = ? "
        "ORDER BY version DESC LIMIT 1"
    )
    found = _rows(store, sql, _id(store, stream_id), after, before, topic)
    return EventRow(*found[0]) if found else None


def children(
    store: Store, parent_id: UUID, *, after: UUID | None = None, limit: int, going: bool = False
) -> list[UUID]:
    """The jobs that a job has spawned, by id, behind *after*; *going*: those that have not ended."""
    parity = store.state().generation % 2
    where = "parent_id = ? AND parent_id <> '' AND id > ?"
    where += " AND status IN ('queued', 'running', 'waiting', 'paused')" if going else ""
    sql = f"SELECT id FROM jobs_{parity} WHERE {where} ORDER BY id LIMIT ?"
    least = _id(store, after or UUID(int=0))
    return [_uuid(row[0]) for row in _rows(store, sql, str(parent_id), least, limit)]


def first_positions(store: Store, stream_ids: Sequence[UUID]) -> dict[UUID, int]:
    """Where each of these streams begins in the log."""
    if not stream_ids:
        return {}
    marks = ", ".join("?" * len(stream_ids))
    sql = f"SELECT stream_id, position FROM events WHERE version = 1 AND stream_id IN ({marks})"
    return {_uuid(row[0]): row[1] for row in _rows(store, sql, *(_id(store, one) for one in stream_ids))}


# -- leases and gates ------------------------------------------------------------------------------------------------


def leases(store: Store, *, limit: int) -> list[LeaseRow]:
    """The leases, the one that ends first at the front."""
    return [_lease(row) for row in _rows(store, f"SELECT {_LEASE} FROM leases ORDER BY lease_until LIMIT ?", limit)]


def holder_of(store: Store, exclusive_key: str) -> LeaseRow | None:
    """The lease that holds an exclusive key."""
    found = _rows(store, f"SELECT {_LEASE} FROM leases WHERE exclusive_key = ?", exclusive_key)
    return _lease(found[0]) if found else None


def _lease(row: Any) -> LeaseRow:
    from ..domain.lease import Token

    return LeaseRow(_uuid(row[0]), Token(row[1], row[2]), *row[3:])


def leases_by_queue(store: Store) -> dict[str, int]:
    """How many jobs run in each queue."""
    return dict(_rows(store, "SELECT queue, count(*) FROM leases GROUP BY queue"))


# -- what waits ------------------------------------------------------------------------------------------------------


def ready_queues(store: Store) -> list[str]:
    """The queues in which a job is ready: one probe of the claim index each."""
    parity = store.state().generation % 2
    sql = f"SELECT queue FROM jobs_{parity} WHERE ready = 1 AND queue > ? ORDER BY queue LIMIT 1"
    found: list[str] = []
    while row := _rows(store, sql, found[-1] if found else ""):
        found.append(row[0][0])
    return found


def ready(store: Store, queue: str, *, limit: int = COUNT_LIMIT) -> Ready:
    """How many jobs of a queue are ready, counted up to *limit*, and since when the oldest of those."""
    parity = store.state().generation % 2
    some = f"SELECT due_at FROM jobs_{parity} WHERE ready = 1 AND queue = ? LIMIT {limit}"
    if limit <= FEW:  # as a page asks: nothing is counted there
        found = [row[0] for row in _rows(store, some, queue)]
        return Ready(len(found), min(found, default=None))
    jobs, oldest = _rows(store, f"SELECT count(*), min(due_at) FROM ({some}) found", queue)[0]
    return Ready(int(jobs), oldest)


def overdue(store: Store, before: int) -> int | None:
    """When the oldest job was due that no worker has even made ready, if that is before *before*."""
    parity = store.state().generation % 2
    sql = (
        f"SELECT due_at FROM jobs_{parity} WHERE ready = 0 AND blocked = 0 AND status IN ('queued', 'waiting') "
        "AND due_at < ? ORDER BY due_at LIMIT 1"
    )
    found = _rows(store, sql, before)
    return found[0][0] if found else None


def outbox_size(store: Store) -> int:
    """Submits that no worker has moved into the log yet."""
    return int(_rows(store, f"SELECT count(*) FROM (SELECT 1 FROM outbox LIMIT {COUNT_LIMIT}) found")[0][0])


# -- what follows the log --------------------------------------------------------------------------------------------


def followers(store: Store) -> dict[str, int]:
    """How far each named follower has come; a view goes by its name, whichever generation of it is live."""
    found = dict(_rows(store, "SELECT application_name, notification_id FROM tracking ORDER BY application_name"))
    named = {name: position for name, position in found.items() if not name.startswith(VIEW_FOLLOWERS)}
    return named | {name: one.position for name, one in sorted(store.views.standings().items())}


def rebuild(store: Store) -> Rebuild | None:
    """The rebuild of the job table that was begun and not finished."""
    found = _rows(store, "SELECT generation, position, owner, alive_until FROM rebuilds WHERE name = 'jobs'")
    return Rebuild(*found[0]) if found else None


# -- units -----------------------------------------------------------------------------------------------------------


def units(store: Store, job_id: UUID, *, after: str, limit: int) -> list[tuple[str, int, bytes]]:
    """(key, version, stored unit-completed event) of a job's finished units behind the key *after*, by key."""
    sql = "SELECT unit, version, state FROM unit_results WHERE job_id = ? AND unit > ? ORDER BY unit LIMIT ?"
    return [(row[0], row[1], bytes(row[2])) for row in _rows(store, sql, _id(store, job_id), after, limit)]
