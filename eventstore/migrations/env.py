"""Alembic's entry: runs the revisions on the connection that ``migrate`` holds, inside its transaction."""

from __future__ import annotations

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=context.config.attributes["metadata"], transactional_ddl=False)
context.run_migrations()
