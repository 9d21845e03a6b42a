"""Bringing a database's schema up, down, or only looking: under a lock, all of it or nothing.

Alembic is imported here alone: a worker never needs it.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ..domain.errors import InvalidFieldError, UnsafeStoreError
from . import ddl
from .failpoint import failpoint
from .opening import MIGRATION_LOCK
from .schema import SCHEMA_VERSION, metadata
from .sqlite_store import WriterLock
from .sqlite_store import make_engine as sqlite_engine

if TYPE_CHECKING:
    from collections.abc import Iterator

_HERE = Path(__file__).parent / "migrations"


@contextmanager
def _transaction(url: str) -> Iterator[sa.Connection]:
    """A transaction that only one process in the world has at a time."""
    parsed = sa.make_url(url)
    if parsed.get_backend_name() == "sqlite":
        if not parsed.database:
            raise InvalidFieldError("database", "SQLite in memory is no durable log", "give sqlite:///path")
        engine = sqlite_engine(parsed.database)
        lock = WriterLock(Path(parsed.database + ".writer"))
        lock.acquire()
        begin = "BEGIN IMMEDIATE"
    else:
        from .postgres_store import make_engine

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
    """Bring the schema to what this code writes; returns its version.  A database that is there already is left alone."""
    from alembic import command

    with _transaction(url) as connection:
        fresh = not sa.inspect(connection).has_table("log_state")
        command.upgrade(_config(connection), "head")
        if fresh:
            ddl.first_row(connection)
        connection.exec_driver_sql(f"UPDATE log_state SET schema_version = {SCHEMA_VERSION} WHERE id = 1")
    return SCHEMA_VERSION


def downgrade(url: str, revision: str = "base") -> None:
    """Take the schema back to *revision*.

    Raises:
        UnsafeStoreError: the log has events, and going back would drop them.
    """
    from alembic import command

    with _transaction(url) as connection:
        inspector = sa.inspect(connection)
        if inspector.has_table("events"):
            count = connection.exec_driver_sql("SELECT count(*) FROM (SELECT 1 FROM events LIMIT 1) found").scalar()
            if count:
                raise UnsafeStoreError("the log has events; export it first, then give it a new database")
        command.downgrade(_config(connection), revision)
        if revision == "base":  # an empty stamp would make the file look like somebody else's
            connection.exec_driver_sql("DROP TABLE IF EXISTS alembic_version")


def check(url: str) -> list[str]:
    """What differs between the database and what this code expects, one line each; empty if nothing does."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with _transaction(url) as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": False})
        found = [str(difference) for difference in compare_metadata(context, metadata)]
        revision = context.get_current_revision()
    if revision != f"{SCHEMA_VERSION:04d}":
        found.append(f"revision {revision}, not {SCHEMA_VERSION:04d}")
    return found
