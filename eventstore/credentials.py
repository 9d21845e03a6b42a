"""Sealed secret values of tenants, by name.  The key that opens them is never here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..domain.errors import StoreError
from .placed import placed
from .sql_store import SqlStore

if TYPE_CHECKING:
    from .store import Store

_DELETE: Final = "DELETE FROM credentials WHERE tenant = ? AND name = ?"


def _of(store: Store) -> SqlStore:
    if not isinstance(store, SqlStore):
        raise StoreError("only a log in a database has credentials; use env:NAME or file:PATH")
    return store


def _rows(store: Store, sql: str, *params: Any) -> list[Any]:
    return _of(store).sql_rows(placed(sql, store.dialect), params)


def find(store: Store, tenant: str, name: str) -> bytes | None:
    """The sealed value."""
    found = _rows(store, "SELECT sealed FROM credentials WHERE tenant = ? AND name = ?", tenant, name)
    return bytes(found[0][0]) if found else None


def listed(store: Store, tenant: str) -> list[tuple[str, int]]:
    """Name and last change of each, by name."""
    sql = "SELECT name, updated_at FROM credentials WHERE tenant = ? ORDER BY name"
    return [(row[0], row[1]) for row in _rows(store, sql, tenant)]


def put(store: Store, tenant: str, name: str, sealed: bytes) -> None:
    """Keep a value, in place of an older one."""
    with _of(store).writing("claim") as cursor:
        cursor.execute(placed(_DELETE, store.dialect), (tenant, name))
        insert = "INSERT INTO credentials (tenant, name, sealed, updated_at) VALUES (?, ?, ?, ?)"
        cursor.execute(placed(insert, store.dialect), (tenant, name, sealed, store.now()))


def remove(store: Store, tenant: str, name: str) -> bool:
    """Forget one; False if there was none."""
    with _of(store).writing("claim") as cursor:
        cursor.execute(placed(_DELETE, store.dialect), (tenant, name))
        return int(cursor.rowcount) > 0
