"""Alembic's entry: runs the revisions on the connection that ``migrate`` holds, inside its transaction."""

from __future__ import annotations

from alembic import context

from joblog.eventstore.ddl import VERSION_TABLE

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=context.config.attributes["metadata"],
    transactional_ddl=False,
    version_table=VERSION_TABLE,
)
context.run_migrations()
