"""The schema beyond tables: triggers that keep the log insert-only, PostgreSQL's functions, the first row.

``create`` makes an empty database ready in one transaction, without alembic, so that a first submit is quick; the
migrations make the same (a test compares).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import sqlalchemy as sa

from ..domain.errors import UnsafeStoreError
from . import (
    archive_ddl,
    view_schema,  # noqa: F401 - its tables are part of the schema
)
from . import schema as s
from .clock import new_uuid
from .postgres_functions import all_functions

if TYPE_CHECKING:
    from collections.abc import Iterator

_SQLITE_TRIGGERS: Final = (
    "CREATE TRIGGER events_no_delete BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'the log is insert-only'); END",
    # INSERT OR REPLACE deletes first, and the delete trigger fires only with recursive_triggers: refuse it by itself.
    (
        "CREATE TRIGGER events_no_replace BEFORE INSERT ON events "
        "WHEN EXISTS (SELECT 1 FROM events WHERE position = NEW.position) "
        "OR EXISTS (SELECT 1 FROM events WHERE stream_id = NEW.stream_id AND version = NEW.version) "
        "BEGIN SELECT RAISE(ABORT, 'the log is insert-only'); END"
    ),
)

_POSTGRES_TRIGGERS: Final = (
    (
        "CREATE OR REPLACE FUNCTION joblog_refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'the log is insert-only' USING ERRCODE = 'JL009'; END $$"
    ),
    ("CREATE TRIGGER events_no_delete BEFORE DELETE ON events FOR EACH STATEMENT EXECUTE FUNCTION joblog_refuse()"),
    "CREATE TRIGGER events_no_truncate BEFORE TRUNCATE ON events FOR EACH STATEMENT EXECUTE FUNCTION joblog_refuse()",
    # ALWAYS: also under session_replication_role = replica, which switches ordinary triggers off.
    "ALTER TABLE events ENABLE ALWAYS TRIGGER events_no_delete",
    "ALTER TABLE events ENABLE ALWAYS TRIGGER events_no_truncate",
)

#: Tables that change all the time get vacuumed by count, not by share of their size.
_POSTGRES_STORAGE: Final = (
    "ALTER TABLE leases SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000)",
    "ALTER TABLE jobs_0 SET (autovacuum_vacuum_scale_factor = 0.02)",
    "ALTER TABLE jobs_1 SET (autovacuum_vacuum_scale_factor = 0.02)",
    "ALTER TABLE events ALTER COLUMN state SET STORAGE EXTERNAL",
)


def statements(dialect: str) -> Iterator[str]:
    """Everything behind the tables, statement by statement."""
    if dialect == "sqlite":
        yield from _SQLITE_TRIGGERS
        yield from archive_ddl.sqlite_triggers()
    else:
        yield from _POSTGRES_TRIGGERS
        yield from archive_ddl.postgres_triggers()
        yield from _POSTGRES_STORAGE
        yield from all_functions()


#: Where alembic keeps our revision: an application in the same database may have an ``alembic_version`` of its own.
VERSION_TABLE: Final = "joblog_version"
STAMP: Final = (
    (
        f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL, "
        f"CONSTRAINT {VERSION_TABLE}_pkc PRIMARY KEY (version_num))"
    ),
    f"INSERT INTO {VERSION_TABLE} (version_num) VALUES ('{s.SCHEMA_VERSION:04d}')",
)


def first_row(connection: sa.Connection, store_id: UUID | None = None) -> None:
    """The log's state in an empty database."""
    row: dict[str, Any] = {"id": 1, "store_id": store_id or new_uuid(), "epoch": 1, "generation": 0}
    connection.execute(sa.insert(s.log_state).values(**row, schema_version=s.SCHEMA_VERSION, min_code=s.SCHEMA_VERSION))


def refuse_foreign(connection: sa.Connection) -> None:
    """In a database without our schema nobody else's table may have one of our names: it would become insert-only.

    Raises:
        UnsafeStoreError: one has.
    """
    taken = sorted({*s.metadata.tables, VERSION_TABLE} & set(sa.inspect(connection).get_table_names()))
    if taken:
        raise UnsafeStoreError(
            f"this database has tables of something else with our names ({', '.join(taken)}); "
            "give the log a database of its own, or on PostgreSQL a schema"
        )


def create(connection: sa.Connection) -> None:
    """Every table, trigger and function, and the first row, in the caller's transaction."""
    if connection.dialect.name == "postgresql":
        s.speak_postgresql()
    refuse_foreign(connection)
    s.metadata.create_all(connection)
    for statement in statements(connection.dialect.name):
        connection.exec_driver_sql(
            statement.replace("%", "%%") if connection.dialect.paramstyle == "pyformat" else statement
        )
    for statement in STAMP:
        connection.exec_driver_sql(statement)
    first_row(connection)
