"""The tokens of the service: who may come in.  Secrets are never here, only their hashes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..domain.errors import StoreError
from .placed import placed
from .sql_store import SqlStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .store import Store

_COLUMNS: Final = "id, name, purpose, hash, scopes, tenant, owner, created_at, expires_at, used_at, revoked_at"


class TokenRow(NamedTuple):
    """A token, a browser's session, or a sign-in link."""

    id: str
    name: str
    purpose: str  #: token, session or sign-in
    hash: str  #: SHA-256 of the secret, hexadecimal
    scopes: str  #: with spaces between
    tenant: str = ""  #: empty: of all tenants
    owner: str = ""  #: empty: of all owners
    created_at: int = 0
    expires_at: int | None = None
    used_at: int | None = None
    revoked_at: int | None = None

    def is_live(self, now: int) -> bool:
        """Whether it still opens anything."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def _of(store: Store) -> SqlStore:
    if not isinstance(store, SqlStore):
        raise StoreError("only a log in a database has tokens")
    return store


def _write(store: Store, text: str, *params: Any) -> int:
    mine = _of(store)
    with mine.writing("claim") as cursor:
        cursor.execute(placed(text, store.dialect), params)
        return int(cursor.rowcount)


def find(store: Store, token_id: str) -> TokenRow | None:
    """One of them by its public part."""
    found = _of(store).sql_rows(placed(f"SELECT {_COLUMNS} FROM tokens WHERE id = ?", store.dialect), (token_id,))
    return TokenRow(*found[0]) if found else None


def may(store: Store, token_id: str, scope: str) -> bool:
    """Whether a token still opens *scope*: asked anew right before an effect (CTL-07)."""
    return may_all(store, [(token_id, scope)])[token_id, scope]


def may_all(store: Store, asked: Sequence[tuple[str, str]]) -> dict[tuple[str, str], bool]:
    """The same of many tokens and scopes, in one question."""
    wanted = list({token_id for token_id, _ in asked})
    marks = ", ".join("?" * len(wanted))
    found = _of(store).sql_rows(placed(f"SELECT {_COLUMNS} FROM tokens WHERE id IN ({marks})", store.dialect), wanted)
    rows = [TokenRow(*row) for row in found]
    # Each command asks, and the store's time is a question of its own: only where an end is set.
    now = store.now() if any(row.expires_at is not None for row in rows) else 0
    opened = {row.id: {*row.scopes.split()} for row in rows if row.is_live(now)}
    return {(token_id, scope): bool({scope, "admin"} & opened.get(token_id, set())) for token_id, scope in asked}


def listed(store: Store, purpose: str, *, limit: int = 1000) -> list[TokenRow]:
    """All of one purpose, by name."""
    sql = f"SELECT {_COLUMNS} FROM tokens WHERE purpose = ? ORDER BY name, created_at, id LIMIT ?"
    return [TokenRow(*row) for row in _of(store).sql_rows(placed(sql, store.dialect), (purpose, limit))]


def add(store: Store, row: TokenRow) -> bool:
    """Keep a new one; False if there is one of its id already, which stays as it is."""
    marks = ", ".join("?" * len(row))
    return _write(store, f"INSERT INTO tokens ({_COLUMNS}) VALUES ({marks}) ON CONFLICT (id) DO NOTHING", *row) > 0


def revoke(store: Store, token_id: str, now: int) -> bool:
    """End one; False if there was none that still stood."""
    return _write(store, "UPDATE tokens SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL", now, token_id) > 0


def used(store: Store, token_id: str, now: int) -> None:
    """Note when it was last used."""
    _write(store, "UPDATE tokens SET used_at = ? WHERE id = ?", now, token_id)


def spend(store: Store, token_id: str) -> bool:
    """Take one that works once; True for the one caller that got it."""
    return _write(store, "DELETE FROM tokens WHERE id = ? AND purpose = 'sign-in'", token_id) > 0


def sweep(store: Store, before: int) -> int:
    """Forget sessions and sign-in links that ended before *before*."""
    return _write(store, "DELETE FROM tokens WHERE purpose <> 'token' AND expires_at < ?", before)
