"""Mail that is still to be sent, apart from the log: what was sent leaves only its receipt there (SEC-11)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..domain.errors import StoreError
from ..domain.withheld import refuse
from .placed import placed
from .schema import letters
from .sql_store import SqlStore

if TYPE_CHECKING:
    import sqlalchemy as sa

    from .store import Store

_INSERT: Final = "INSERT INTO letters (id, digest, content, created_at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"


class LetterRow(NamedTuple):
    """A letter as it was handed in."""

    digest: str
    content: bytes
    created_at: int


def _of(store: Store) -> SqlStore:
    if not isinstance(store, SqlStore):
        raise StoreError("only a log in a database has letters")
    return store


def put(store: Store, letter_id: str, digest: str, content: bytes) -> None:
    """Keep a letter, once for an id."""
    with _of(store).writing("claim") as cursor:
        cursor.execute(placed(_INSERT, store.dialect), (letter_id, digest, refuse(content, "letter"), store.now()))


def put_in(connection: sa.Connection, store: Store, letter_id: str, digest: str, content: bytes) -> None:
    """As ``put``, inside the caller's own transaction."""
    import sqlalchemy as sa

    _of(store)
    if connection.execute(sa.select(letters.c.id).where(letters.c.id == letter_id)).first() is None:
        row: dict[str, Any] = {"id": letter_id, "digest": digest, "content": refuse(content, "letter")}
        connection.execute(sa.insert(letters).values(row | {"created_at": store.now()}))


def find(store: Store, letter_id: str) -> LetterRow | None:
    """One of them."""
    sql = "SELECT digest, content, created_at FROM letters WHERE id = ?"
    found = _of(store).sql_rows(placed(sql, store.dialect), (letter_id,))
    return LetterRow(found[0][0], bytes(found[0][1]), found[0][2]) if found else None


def remove(store: Store, letter_id: str) -> None:
    """Forget one."""
    with _of(store).writing("claim") as cursor:
        cursor.execute(placed("DELETE FROM letters WHERE id = ?", store.dialect), (letter_id,))
