"""Writes the statements of the present schema into files, for the revision that brings it (``python -m`` this module)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from .. import ddl  # also brings the tables of the views
from ..archive_ddl import FUNCTIONS
from ..schema import SCHEMA_VERSION, metadata, speak_postgresql

if TYPE_CHECKING:
    from collections.abc import Iterator

SEPARATOR = "\n--;\n"
_DIALECTS: dict[str, Any] = {"sqlite": sqlite.dialect(), "postgresql": postgresql.dialect()}  # type: ignore[no-untyped-call]


def up(name: str) -> Iterator[str]:
    """Everything behind an empty database, for one kind of database."""
    dialect = _DIALECTS[name]
    speak_postgresql()
    for table in metadata.sorted_tables:
        yield str(CreateTable(table).compile(dialect=dialect)).strip()
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            yield str(CreateIndex(index).compile(dialect=dialect)).strip()
    yield from (statement.strip() for statement in ddl.statements(name))


def down(name: str) -> Iterator[str]:
    """Back to an empty database."""
    for table in reversed(metadata.sorted_tables):
        yield f"DROP TABLE {table.name}"
    if name == "postgresql":
        for parity in (0, 1):
            yield f"DROP FUNCTION joblog_append_{parity}"
            yield f"DROP FUNCTION joblog_claim_{parity}"
            for look in ("free_keys", "outlook", "due"):
                yield f"DROP FUNCTION joblog_{look}_{parity}"
        yield "DROP FUNCTION joblog_no_row"
        yield "DROP FUNCTION joblog_streams"
        yield "DROP FUNCTION joblog_refuse"
        yield from (f"DROP FUNCTION {name}" for name in FUNCTIONS)
        yield "DROP FUNCTION joblog_now"


def write(folder: Path) -> None:
    """Write the files of this revision."""
    for name in _DIALECTS:
        for direction, make in (("up", up), ("down", down)):
            file = folder / f"{SCHEMA_VERSION:04d}_{name}_{direction}.sql"
            file.write_text(SEPARATOR.join(make(name)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(__file__).parent / "versions")
