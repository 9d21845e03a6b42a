"""From a URL to a store that is safe to use: created if it is empty, refused if it can't keep what it acknowledges."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from ..domain.errors import InvalidFieldError, SchemaMissingError, SchemaTooNewError, UnsafeStoreError
from . import ddl
from .schema import SCHEMA_VERSION
from .sqlite_setup import APPLICATION_ID, WAL_RESET_FIXED
from .sqlite_store import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

    from ..domain.ports import Clock
    from .postgres_store import PostgresStore
    from .store import Store

#: The lock under which a schema is made or changed.
MIGRATION_LOCK: Final = 7460710


def open_store(
    url: str,
    *,
    clock: Clock | None = None,
    lease_seconds: float = 30,
    pooler_safe: bool = False,
    create: bool = True,
    read_only: bool = False,
    archives: Path | None = None,
) -> Store:
    """Open the log at *url*: ``sqlite:///path``, ``postgresql://…`` or ``memory://``.

    An empty database gets the schema, unless *create* is off.  *read_only* is for followers: it also takes a standby, and
    refuses every write.  *archives* is where archives are looked for before the folder that each was put into.

    Raises:
        InvalidFieldError: a URL of another kind.
        UnsafeStoreError: a store that can lose acknowledged events, or a file that is not ours.
        SchemaMissingError: no schema, or an older one; migrate first.
        SchemaTooNewError: only newer code may use it.
    """
    if url == "memory://":
        from .memory_store import MemoryStore  # for tests: nobody else loads it

        return MemoryStore(clock=clock)
    store = _store_at(url, clock=clock, lease_seconds=lease_seconds, pooler_safe=pooler_safe)
    if archives is not None:
        store.bodies.files.folders = (archives,)
    try:
        store.read_only = read_only
        _prepare(store, create=create and not read_only)
    except BaseException:
        store.close()
        raise
    return store


def _store_at(url: str, *, clock: Clock | None, lease_seconds: float, pooler_safe: bool) -> SqliteStore | PostgresStore:
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:  # its text repeats the URL, which may hold a password
        raise InvalidFieldError("database", "no URL", "give sqlite:///path or postgresql://…") from None
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        if not parsed.database or parsed.database == ":memory:":
            raise InvalidFieldError(
                "database", "SQLite in memory is no durable log", "give a path, or memory:// for tests"
            )
        return SqliteStore(parsed.database, clock=clock)
    if backend in ("postgresql", "postgres"):
        from .postgres_store import PostgresStore  # psycopg is an extra: only who needs it imports it

        return PostgresStore(parsed, lease_seconds=lease_seconds, pooler_safe=pooler_safe)
    raise InvalidFieldError("database", f"{backend!r} is not supported", "give sqlite:///path or postgresql://…")


def _prepare(store: SqliteStore | PostgresStore, *, create: bool) -> None:
    if not isinstance(store, SqliteStore):
        store.check_safe()
    if not _has_schema(store):
        if not create:
            raise SchemaMissingError("this database has no job log; run `joblog migrate`")
        if isinstance(store, SqliteStore):
            _create_sqlite(store)
        else:
            _create_postgres(store)
    _check_version(store)


def _has_schema(store: SqliteStore | PostgresStore) -> bool:
    if store.dialect == "sqlite":
        sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'log_state'"
    else:
        sql = "SELECT 1 WHERE to_regclass('log_state') IS NOT NULL"
    return bool(store.sql_rows(sql))


def _create_sqlite(store: SqliteStore) -> None:
    lane = store.lane("append")
    lane.lock.acquire()
    try:
        tables = store.sql_rows("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        if tables and not _has_schema(store):
            raise UnsafeStoreError(
                f"{store.path} is a database of something else ({tables[0][0]!r}); choose another path"
            )
        with store.engine.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            if not _has_schema(store):
                ddl.create(connection)
                connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.exec_driver_sql("COMMIT")
    finally:
        lane.lock.release()


def _create_postgres(store: PostgresStore) -> None:
    from .postgres_setup import make_engine

    engine = make_engine(store.engine.url, lease_seconds=None, pooler_safe=store.pooler_safe)  # no lease bounds this
    with engine.begin() as connection:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})")
        if connection.exec_driver_sql("SELECT to_regclass('log_state')").scalar() is None:
            ddl.create(connection)


def _check_version(store: SqliteStore | PostgresStore) -> None:
    """Refuse a log whose schema is older or newer than this code can use."""
    version, least = store.sql_rows("SELECT schema_version, min_code FROM log_state WHERE id = 1")[0]
    if least > SCHEMA_VERSION:
        raise SchemaTooNewError(
            f"this database wants joblog with schema {least} or newer, this is {SCHEMA_VERSION}; upgrade"
        )
    if version < SCHEMA_VERSION:
        raise SchemaMissingError(
            f"this database has schema {version}, this code {SCHEMA_VERSION}; run `joblog migrate`"
        )


def wal_reset_case() -> str:
    """Whether this SQLite has the WAL-reset bug, and what we do about it; for ``doctor``."""
    version = sqlite3.sqlite_version_info
    fixed = version >= WAL_RESET_FIXED or (version[:2] == (3, 50) and version >= (3, 50, 7))
    fixed = fixed or (version[:2] == (3, 44) and version >= (3, 44, 6))
    state = (
        "has the fix of the WAL-reset bug"
        if fixed
        else "has the WAL-reset bug: checkpoints run only under the writer lock"
    )
    return f"SQLite {sqlite3.sqlite_version} {state}"
