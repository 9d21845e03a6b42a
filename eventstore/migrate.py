"""Bringing a database's schema up, down, or only looking: under a lock, all of it or nothing.

Alembic is imported here alone: a worker never needs it.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ..domain.errors import InvalidFieldError, SchemaTooNewError, UnsafeStoreError
from . import ddl
from .failpoint import failpoint
from .opening import MIGRATION_LOCK
from .schema import SCHEMA_VERSION, metadata
from .sqlite_lanes import WriterLock
from .sqlite_setup import APPLICATION_ID
from .sqlite_setup import make_engine as sqlite_engine

if TYPE_CHECKING:
    from collections.abc import Iterator

_HERE = Path(__file__).parent / "migrations"


@contextmanager
def _transaction(url: str) -> Iterator[sa.Connection]:
    """A transaction that only one process in the world has at a time."""
    parsed = sa.make_url(url)
    if parsed.get_backend_name() == "sqlite":
        if not parsed.database or parsed.database == ":memory:":
            raise InvalidFieldError("database", "SQLite in memory is no durable log", "give sqlite:///path")
        engine = sqlite_engine(parsed.database)
        lock = WriterLock(Path(parsed.database + ".writer"))
        lock.acquire()
        begin = "BEGIN IMMEDIATE"
    else:
        from .postgres_setup import make_engine

        engine, lock, begin = make_engine(parsed, lease_seconds=None), None, "BEGIN"
    try:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql(begin)
            try:
                if lock is None:
                    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})")
                failpoint("migrate.begin")
                yield connection
                failpoint("migrate.before_commit")
                connection.exec_driver_sql("COMMIT")
            except BaseException:
                connection.exec_driver_sql("ROLLBACK")
                raise
            failpoint("migrate.after_commit")
    finally:
        engine.dispose()
        if lock is not None:
            lock.close()


def _config(connection: sa.Connection) -> Any:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_HERE))
    config.set_main_option("path_separator", "os")
    config.attributes.update(connection=connection, metadata=metadata)
    return config


def upgrade(url: str) -> int:
    """Bring the schema to what this code writes; returns its version.  One that is there already, or newer, is left alone.

    Raises:
        SchemaTooNewError: only newer code may use it.
        UnsafeStoreError: somebody else's tables have our names.
    """
    from alembic import command

    with _transaction(url) as connection:
        version = _version(connection)
        if version > SCHEMA_VERSION:
            return version  # this code may use it; to call it older would let still older code in
        if not version:
            ddl.refuse_foreign(connection)
        command.upgrade(_config(connection), "head")
        if not version:
            ddl.first_row(connection)
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.exec_driver_sql(f"UPDATE log_state SET schema_version = {SCHEMA_VERSION} WHERE id = 1")
    return SCHEMA_VERSION


def _version(connection: sa.Connection) -> int:
    """The schema that the database has; 0 without one."""
    if not sa.inspect(connection).has_table("log_state"):
        return 0
    found = connection.exec_driver_sql("SELECT schema_version, min_code FROM log_state WHERE id = 1").one()
    if found.min_code > SCHEMA_VERSION:
        raise SchemaTooNewError(
            f"this database wants joblog with schema {found.min_code} or newer, this is {SCHEMA_VERSION}; upgrade"
        )
    return int(found.schema_version)


def downgrade(url: str, revision: str = "base") -> None:
    """Take the schema back to *revision*.

    Raises:
        SchemaTooNewError: newer code made it; that knows the way back.
        UnsafeStoreError: the log has events, or submitted jobs that wait for it, and going back would drop them.
    """
    from alembic import command

    with _transaction(url) as connection:
        version = _version(connection)
        if version > SCHEMA_VERSION:
            raise SchemaTooNewError(f"this database has schema {version}; go back with the joblog that made it")
        for table, what in (("events", "events"), ("outbox", "jobs in its outbox")) if version else ():
            if connection.exec_driver_sql(f"SELECT 1 FROM {table} LIMIT 1").first() is not None:
                raise UnsafeStoreError(f"the log has {what}; export it first, then give it a new database")
        command.downgrade(_config(connection), revision)
        if revision == "base":  # an empty stamp would make the file look like somebody else's
            connection.exec_driver_sql(f"DROP TABLE IF EXISTS {ddl.VERSION_TABLE}")


def _is_ours(_: Any, __: str | None, kind: str, reflected: bool, counterpart: Any) -> bool:  # noqa: FBT001 - alembic's
    return not (kind == "table" and reflected and counterpart is None)


def check(url: str) -> list[str]:
    """What differs between the database and what this code expects, one line each; empty if nothing does.

    Tables of an application in the same database are none of our business.
    """
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with _transaction(url) as connection:
        options = {"compare_type": False, "version_table": ddl.VERSION_TABLE, "include_object": _is_ours}
        context = MigrationContext.configure(connection, opts=options)
        found = [str(difference) for difference in compare_metadata(context, metadata)]
        revision = context.get_current_revision()
    if revision != f"{SCHEMA_VERSION:04d}":
        found.append(f"revision {revision}, not {SCHEMA_VERSION:04d}")
    return found
