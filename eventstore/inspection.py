"""Questions that only people who look after the log ask; nothing is written, each answer is bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from ..domain.errors import StoreError
from .append import EventRow
from .placed import placed
from .sql_store import SqlStore
from .statements import chunks
from .store import LeaseRow, LoggedEvent
from .views import VIEW_FOLLOWERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .store import Store

FEW: Final = 101  #: of a queue's ready jobs so many are looked at; then it means "at least"
COUNT_LIMIT: Final = 1_001  #: counts stop here and then mean "at least"
_AT_ONCE: Final = 100  #: queues asked for in one statement
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

    jobs: int  #: at most as many as were looked at
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


class Looked(NamedTuple):
    """A job that was looked at."""

    created_at: int
    id: UUID
    fits: bool


def look(
    store: Store, by: str, wanted: Mapping[str, str], *, edge: tuple[int, UUID] | None, back: bool, limit: int
) -> list[Looked]:
    """The next jobs that have ``wanted[by]``, read from *edge* to older ones, or *back*; and which of them fit all of it.

    So many are looked at and no more, however few of them fit.
    """
    parity = store.state().generation % 2
    others = [name for name in wanted if name != by]
    fits = " AND ".join(f"{name} = ?" for name in others) or "1 = 1"
    where = f"{by} = ?" if by == "status" else f"{by} = ? AND {by} <> ''"  # as its index says
    params: list[Any] = [*(wanted[name] for name in others), wanted[by]]
    sign, way = (">", "ASC") if back else ("<", "DESC")
    if edge is not None:
        where += f" AND (created_at, id) {sign} (?, ?)"
        params += [edge[0], _id(store, edge[1])]
    sql = (
        f"SELECT created_at, id, CASE WHEN {fits} THEN 1 ELSE 0 END FROM jobs_{parity} WHERE {where} "
        f"ORDER BY created_at {way}, id {way} LIMIT ?"
    )
    return [Looked(row[0], _uuid(row[1]), bool(row[2])) for row in _rows(store, sql, *params, limit)]


# -- one stream ------------------------------------------------------------------------------------------------------


def stream(store: Store, stream_id: UUID, *, after: int, limit: int) -> list[LoggedEvent]:
    """A page of one stream's events with their positions, behind version *after*."""
    sql = (
        "SELECT position, stream_id, version, topic, state FROM events "
        "WHERE stream_id = ? AND version > ? ORDER BY version LIMIT ?"
    )
    found = _rows(store, sql, _id(store, stream_id), after, limit)
    return store.bodies.logged([LoggedEvent(row[0], _uuid(row[1]), *row[2:]) for row in found])


def newest_but(store: Store, stream_id: UUID, topics: Sequence[str], *, limit: int) -> list[EventRow]:
    """The newest events of a stream that are none of *topics*, oldest first."""
    marks = ", ".join("?" * len(topics))
    sql = (
        f"SELECT version, topic, state FROM events WHERE stream_id = ? AND topic NOT IN ({marks}) "
        "ORDER BY version DESC LIMIT ?"
    )
    found = [EventRow(*row) for row in _rows(store, sql, _id(store, stream_id), *topics, limit)][::-1]
    return store.bodies.of_stream(stream_id, found)


def last_of(store: Store, stream_id: UUID, topic: str, *, after: int = 0, before: int = 2**62) -> EventRow | None:
    """The last event of *topic* between two versions of a stream."""
    sql = (
        "SELECT version, topic, state FROM events WHERE stream_id = ? AND version > ? AND version < ? AND topic = ? "
        "ORDER BY version DESC LIMIT 1"
    )
    found = _rows(store, sql, _id(store, stream_id), after, before, topic)
    return store.bodies.of_stream(stream_id, [EventRow(*found[0])])[0] if found else None


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
    """The queues in which a job is ready: one probe of the claim index each, all in one statement."""
    jobs = f"jobs_{store.state().generation % 2}"
    sql = (
        f"WITH RECURSIVE found(queue) AS (SELECT (SELECT queue FROM {jobs} WHERE ready = 1 ORDER BY queue LIMIT 1) "
        f"UNION ALL SELECT (SELECT j.queue FROM {jobs} j WHERE j.ready = 1 AND j.queue > f.queue ORDER BY j.queue LIMIT 1) "
        "FROM found f WHERE f.queue IS NOT NULL) SELECT queue FROM found WHERE queue IS NOT NULL"
    )
    return [row[0] for row in _rows(store, sql)]


def ready(store: Store, queues: Sequence[str], *, limit: int = FEW) -> dict[str, Ready]:
    """How many jobs of each queue are ready, as far as *limit*, and since when the oldest that is known.

    The claim index has them by priority, the schedule by when they were due: where that view is behind, the oldest is that
    of those that were looked at.
    """
    if not queues:
        return {}
    jobs = f"jobs_{store.state().generation % 2}"
    some = f"SELECT * FROM (SELECT queue, due_at FROM {jobs} WHERE ready = 1 AND queue = ? LIMIT {limit}) f"
    found: dict[str, list[int]] = {queue: [] for queue in queues}
    for few in chunks(queues, _AT_ONCE):
        for queue, due_at in _rows(store, " UNION ALL ".join([some] * len(few)), *few):
            found[queue].append(due_at)
    for queue, due_at in _first_due(store, [queue for queue, due in found.items() if len(due) == limit]):
        found[queue][0] = min(due_at, found[queue][0])
    return {queue: Ready(len(due), min(due, default=None)) for queue, due in found.items()}


def _first_due(store: Store, queues: Sequence[str]) -> Iterator[tuple[str, int]]:
    """The job of each queue that is due first, as the schedule has it, if it is ready."""
    one = (
        "SELECT * FROM (SELECT job_id FROM due_jobs WHERE generation = (SELECT generation FROM projections "
        "WHERE name = 'schedule') AND queue = ? ORDER BY due_at, job_id LIMIT 1) f"
    )
    ids: list[UUID] = []
    for few in chunks(queues, _AT_ONCE):
        ids += [_uuid(row[0]) for row in _rows(store, " UNION ALL ".join([one] * len(few)), *few)]
    for row in store.jobs(ids).values() if ids else ():
        if row["ready"] and row["queue"] in queues:
            yield row["queue"], row["due_at"]


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
    found = [(row[0], row[1], bytes(row[2])) for row in _rows(store, sql, _id(store, job_id), after, limit)]
    bodies = store.bodies.at_versions(job_id, [version for _, version, state in found if not state])
    return [(unit, version, state or bodies.get(version, state)) for unit, version, state in found]
