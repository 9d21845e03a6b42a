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
    if tenant is not None:
        statement = statement.where(destinations.c.tenant == tenant)
    return [_destination(row) for row in connection.execute(statement)]


def find(connection: sa.Connection, tenant: str, name: str) -> Destination | None:
    """One of them."""
    row = connection.execute(sa.select(*_DESTINATION).where(_named(tenant, name))).first()
    return None if row is None else _destination(row)


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


def put(connection: sa.Connection, tenant: str, name: str, url: str, secrets: Sequence[str], by: str, at: int) -> None:
    """Add a destination or edit it; a new URL is a new revision."""
    old = next(iter(locked(connection, tenant, [name])), None)
    said: dict[str, Any] = {"url": url, "secrets": json.dumps(list(secrets)), "changed_by": by, "changed_at": at}
    if old is None:
        new = {"tenant": tenant, "name": name, "enabled": 1, "reason": "", "revision": 1, "courier": 0, "idle": 1}
        connection.execute(sa.insert(destinations).values(**new, **said))
    else:
        said["revision"] = old.revision + (url != old.url)
        connection.execute(sa.update(destinations).where(_named(tenant, name)).values(**said))


def enable(connection: sa.Connection, tenant: str, name: str, *, enabled: bool, reason: str, by: str, at: int) -> bool:
    """Enable or disable one; False if there is none."""
    said = {"enabled": int(enabled), "reason": reason, "changed_by": by, "changed_at": at}
    return bool(connection.execute(sa.update(destinations).where(_named(tenant, name)).values(**said)).rowcount)


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


def settle(connection: sa.Connection, record: Record, state: str, code: str, at: int) -> None:
    """What became of a record; an accepted one sheds its body (SEC-11)."""
    said: dict[str, Any] = {"state": state, "code": code, "settled_at": at}
    if state == SENT:
        said["body"] = None
    connection.execute(sa.update(records).where(records.c.seq == record.seq).values(said))


def again(connection: sa.Connection, tenant: str, name: str, revision: int, record_id: str = "") -> int:
    """Make what was refused, or frozen for an older URL, pending for the present one; returns how many there were."""
    where = [_for(tenant, name), records.c.body.is_not(None)]
    where.append(sa.or_(records.c.state == REFUSED, records.c.revision < revision))
    if record_id:
        where.append(records.c.id == record_id)
    said = {"state": PENDING, "code": "", "settled_at": None, "revision": revision}
    return int(connection.execute(sa.update(records).where(*where).values(said)).rowcount)


def first_pending(connection: sa.Connection, tenant: str, name: str) -> Record | None:
    """The oldest record that is still to be sent."""
    where = sa.and_(_for(tenant, name), records.c.state == PENDING)
    row = connection.execute(sa.select(*_RECORD).where(where).order_by(records.c.seq).limit(1)).first()
    return None if row is None else Record(*row)


def rest(connection: sa.Connection, tenant: str, name: str) -> bool:
    """Let the courier go if nothing is pending; False if something is.  Nobody can add a record in between."""
    locked(connection, tenant, [name])
    if first_pending(connection, tenant, name) is not None:
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


def reading(store: Store) -> AbstractContextManager[sa.Connection]:
    """A connection to look only."""
    return _of(store).reading()
