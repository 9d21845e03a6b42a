"""Destinations of webhooks, and one delivery record for each event and destination, apart from the log.

A record holds the frozen request until it was accepted; then only its receipt is left, which keeps the same event from
being sent again.  All functions work inside a transaction of the log's database, the application's own among them.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import sqlalchemy as sa

from ..domain.errors import StoreError
from .placed import placed
from .schema import webhook_deliveries as records
from .schema import webhook_destinations as destinations
from .sql_store import SqlStore

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from .store import Store

PENDING: Final = "pending"
SENT: Final = "sent"
REFUSED: Final = "refused"
CANCELLED: Final = "cancelled"  #: its destination was removed before it was sent
#: As part of the append whose events are the receipts (``Append.delivery``); what was sent sheds its body (SEC-11).
SETTLE: Final = (
    "UPDATE webhook_deliveries SET state = :state, code = :code, settled_at = :settled_at, "
    f"body = CASE WHEN :state = '{SENT}' THEN NULL ELSE body END WHERE seq = :seq"
)
_PRUNED_AT_ONCE: Final = 1000


class Destination(NamedTuple):
    """Where events of a tenant go."""

    tenant: str
    name: str
    url: str
    secrets: tuple[str, ...]  #: references; all of them sign, so that a receiver can change over
    enabled: bool
    reason: str  #: why it is disabled
    revision: int  #: of its URL
    courier: int  #: how many couriers it has had
    idle: bool  #: the last one found nothing left

    @property
    def is_removed(self) -> bool:
        """Whether it only stands for the couriers that it has had."""
        return not self.url


class Record(NamedTuple):
    """One event for one destination."""

    seq: int
    id: str  #: the webhook-id, the same in every request
    event: str
    revision: int  #: of the URL that it was meant for
    digest: str
    body: bytes | None  #: None once it was accepted
    state: str
    code: str


_DESTINATION: Final = [destinations.c[name] for name in Destination._fields]
_RECORD: Final = [records.c[name] for name in Record._fields]
_NEXT: Final = (
    f"SELECT {', '.join(f'd.{name}' for name in Destination._fields)}, "
    f"{', '.join(f'r.{name}' for name in Record._fields)} "
    "FROM webhook_destinations d LEFT JOIN webhook_deliveries r ON r.seq = ("
    f"SELECT min(p.seq) FROM webhook_deliveries p WHERE p.tenant = d.tenant AND p.destination = d.name "
    f"AND p.state = '{PENDING}') WHERE (d.tenant, d.name) IN (VALUES {{marks}})"
)


def _of(store: Store) -> SqlStore:
    if not isinstance(store, SqlStore):
        raise StoreError("only a log in a database has webhooks")
    return store


def _destination(row: Any) -> Destination:
    made = Destination(*row)
    return made._replace(secrets=tuple(json.loads(row.secrets)), enabled=bool(made.enabled), idle=bool(made.idle))


def _named(tenant: str, name: str) -> Any:
    return sa.and_(destinations.c.tenant == tenant, destinations.c.name == name)


def _for(tenant: str, name: str) -> Any:
    return sa.and_(records.c.tenant == tenant, records.c.destination == name)


# -- destinations ----------------------------------------------------------------------------------------------------


def all_of(connection: sa.Connection, tenant: str | None = None) -> list[Destination]:
    """The destinations of a tenant, or all."""
    statement = sa.select(*_DESTINATION).order_by(destinations.c.tenant, destinations.c.name)
    statement = statement.where(destinations.c.url != "")
    if tenant is not None:
        statement = statement.where(destinations.c.tenant == tenant)
    return [_destination(row) for row in connection.execute(statement)]


def locked(connection: sa.Connection, tenant: str, names: Sequence[str] | None = None) -> list[Destination]:
    """Those named, or all of a tenant, kept from everybody else until the transaction ends, in the order of their names.

    Who adds a record and who lets a courier go meet here.
    """
    chosen = destinations.c.tenant == tenant
    if names is not None:
        chosen = sa.and_(chosen, destinations.c.name.in_(names))
    if connection.dialect.name == "sqlite":  # which locks the whole file, with the first thing that is written
        connection.execute(sa.update(destinations).where(chosen).values(idle=destinations.c.idle))
    statement = sa.select(*_DESTINATION).where(chosen).order_by(destinations.c.name).with_for_update()
    return [_destination(row) for row in connection.execute(statement)]


def present(connection: sa.Connection, tenant: str, names: Sequence[str] | None = None) -> list[Destination]:
    """As ``locked``, without those that were removed."""
    return [one for one in locked(connection, tenant, names) if not one.is_removed]


def put(connection: sa.Connection, tenant: str, name: str, url: str, secrets: Sequence[str], by: str, at: int) -> None:
    """Add a destination or edit it; a new URL is a new revision."""
    old = next(iter(locked(connection, tenant, [name])), None)
    said: dict[str, Any] = {"url": url, "secrets": json.dumps(list(secrets)), "changed_by": by, "changed_at": at}
    if old is None:
        new = {"tenant": tenant, "name": name, "enabled": 1, "reason": "", "revision": 1, "courier": 0, "idle": 1}
        connection.execute(sa.insert(destinations).values(**new, **said))
    else:
        said["revision"] = old.revision + (url != old.url)
        if old.is_removed:
            said |= {"enabled": 1, "reason": ""}
        connection.execute(sa.update(destinations).where(_named(tenant, name)).values(**said))


def enable(connection: sa.Connection, tenant: str, name: str, *, enabled: bool, reason: str, by: str, at: int) -> bool:
    """Enable or disable one; False if there is none."""
    said = {"enabled": int(enabled), "reason": reason, "changed_by": by, "changed_at": at}
    where = sa.and_(_named(tenant, name), destinations.c.url != "")
    return bool(connection.execute(sa.update(destinations).where(where).values(**said)).rowcount)


def remove(connection: sa.Connection, tenant: str, name: str, by: str, at: int) -> int | None:
    """Take one away: nothing more is sent to it (RTY-14).  Returns how many records that ended, None if there is none.

    The row stays, for the numbers of couriers and revisions go on if the name is set again.
    """
    if not present(connection, tenant, [name]):
        return None
    gone = {"url": "", "secrets": "[]", "enabled": 0, "reason": "removed", "changed_by": by, "changed_at": at}
    connection.execute(sa.update(destinations).where(_named(tenant, name)).values(**gone))
    left = sa.and_(_for(tenant, name), records.c.state.in_([PENDING, REFUSED]))
    said = {"state": CANCELLED, "code": "destination-gone", "body": None, "settled_at": at}
    return int(connection.execute(sa.update(records).where(left).values(**said)).rowcount)


def hire(connection: sa.Connection, destination: Destination) -> int:
    """Count a new courier; returns its number."""
    number = destination.courier + 1
    where = _named(destination.tenant, destination.name)
    connection.execute(sa.update(destinations).where(where).values(courier=number, idle=0))
    return number


# -- records ---------------------------------------------------------------------------------------------------------


def add(
    connection: sa.Connection, to: Sequence[Destination], ids: Sequence[str], event: str, body: bytes, at: int
) -> set[str]:
    """Freeze the request of one event for destinations of a tenant; returns the names of those for which it is new.

    Where the event has a record already nothing happens, whatever its body says.
    """
    if not to:
        return set()
    where = sa.and_(records.c.tenant == to[0].tenant, records.c.event == event)
    where = sa.and_(where, records.c.destination.in_([one.name for one in to]))
    known = set(connection.scalars(sa.select(records.c.destination).where(where)))
    said: dict[str, Any] = {"event": event, "body": body, "digest": hashlib.sha256(body).hexdigest(), "created_at": at}
    said |= {"state": PENDING, "code": "", "settled_at": None}
    new = [
        said | {"id": record_id, "tenant": one.tenant, "destination": one.name, "revision": one.revision}
        for one, record_id in zip(to, ids, strict=True)
        if one.name not in known
    ]
    if new:
        connection.execute(sa.insert(records), new)
    return {row["destination"] for row in new}


def again(connection: sa.Connection, tenant: str, name: str, revision: int, record_id: str = "") -> int:
    """Make what was refused, or frozen for an older URL, pending for the present one; returns how many there were."""
    where = [_for(tenant, name), records.c.body.is_not(None)]
    where.append(sa.or_(records.c.state == REFUSED, records.c.revision < revision))
    if record_id:
        where.append(records.c.id == record_id)
    said = {"state": PENDING, "code": "", "settled_at": None, "revision": revision}
    return int(connection.execute(sa.update(records).where(*where).values(said)).rowcount)


def next_of(store: Store, couriers: Sequence[tuple[str, str]]) -> list[tuple[Destination | None, Record | None]]:
    """For each (tenant, destination) the destination as it is now and its oldest record to be sent; all in one query."""
    mine = _of(store)
    names = list(dict.fromkeys(couriers))
    marks = ", ".join(["(?, ?)"] * len(names))
    sql = _NEXT.format(marks=marks)
    found: dict[tuple[str, str], tuple[Destination, Record | None]] = {}
    for row in mine.sql_rows(placed(sql, mine.dialect), tuple(one for pair in names for one in pair)):
        destination, record = row[: len(_DESTINATION)], row[len(_DESTINATION) :]
        made = _destination(Destination(*destination))
        found[made.tenant, made.name] = (made, None if record[0] is None else Record(*record))
    return [found.get(pair, (None, None)) for pair in couriers]


def is_pending(connection: sa.Connection, tenant: str, name: str) -> bool:
    """Whether anything is still to be sent."""
    where = sa.and_(_for(tenant, name), records.c.state == PENDING)
    return connection.execute(sa.select(records.c.seq).where(where).limit(1)).first() is not None


def rest(connection: sa.Connection, tenant: str, name: str) -> bool:
    """Let the courier go if nothing is pending; False if something is.  Nobody can add a record in between."""
    locked(connection, tenant, [name])
    if is_pending(connection, tenant, name):
        return False
    connection.execute(sa.update(destinations).where(_named(tenant, name)).values(idle=1))
    return True


def counts(connection: sa.Connection) -> dict[tuple[str, str, str], int]:
    """How many records there are, by tenant, destination and state."""
    of = (records.c.tenant, records.c.destination, records.c.state)
    rows = connection.execute(sa.select(*of, sa.func.count()).group_by(*of))
    return {(row[0], row[1], row[2]): row[3] for row in rows}


def newest(connection: sa.Connection, tenant: str, name: str, limit: int) -> list[Record]:
    """The newest records of a destination."""
    statement = sa.select(*_RECORD).where(_for(tenant, name)).order_by(records.c.seq.desc()).limit(limit)
    return [Record(*row) for row in connection.execute(statement)]


def prune(connection: sa.Connection, before: int, after: int, tenant: str | None = None) -> tuple[int, int | None]:
    """Forget some records that were settled *before*, behind the record *after*; returns how many, and where to go on.

    Whoever announces such an event once more sends it once more; what was refused can't be replayed any more.
    """
    where = [records.c.seq > after, records.c.state != PENDING, records.c.settled_at < before]
    if tenant is not None:
        where.append(records.c.tenant == tenant)
    chosen = sa.select(records.c.seq).where(*where).order_by(records.c.seq).limit(_PRUNED_AT_ONCE)
    found = list(connection.scalars(chosen))
    if found:
        connection.execute(sa.delete(records).where(records.c.seq.in_(found)))
    return len(found), found[-1] if len(found) == _PRUNED_AT_ONCE else None


def reading(store: Store) -> AbstractContextManager[sa.Connection]:
    """A connection to look only."""
    return _of(store).reading()
