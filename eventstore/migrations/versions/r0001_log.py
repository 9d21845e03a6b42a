"""The log, its job table and its authorities.

Frozen: the statements of this release stand in ``0001_<database>_<direction>.sql``, whatever the code says later.
Alembic loads this file by its path, hence the absolute import.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

from joblog.eventstore.failpoint import failpoint

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_SEPARATOR = "\n--;\n"


def _run(name: str) -> None:
    connection = op.get_bind()
    file = Path(__file__).with_name(f"0001_{connection.dialect.name}_{name}.sql")
    for statement in file.read_text(encoding="utf-8").split(_SEPARATOR):
        if statement.strip():
            escaped = statement.replace("%", "%%") if connection.dialect.paramstyle == "pyformat" else statement
            connection.exec_driver_sql(escaped)
            failpoint("migrate.statement")


def upgrade() -> None:
    """Make everything."""
    _run("up")


def downgrade() -> None:
    """Drop everything; ``migrate.downgrade`` has made sure that the log is empty."""
    _run("down")
