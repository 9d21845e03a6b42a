"""A view folded into a file of its own, to be compared and thrown away: no indexes, no journal, nobody else in it."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from .statements import chunks, placeholders
from .view_schema import view_state
from .view_writes import TableWriter
from .views import dump_sql

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from .views import TableRows, ViewWrite

_GENERATION = 0
_IN = 400  #: keys asked for in one statement
_PRAGMAS = ("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE", "cache_size = -65536")


class Scratch:
    """One view's rows in *path*, a ``Dump`` that can also be written."""

    generation = _GENERATION

    def __init__(self, path: Path, view: str, tables: Sequence[sa.Table]) -> None:
        self.position = 0
        self._view = view
        self._db = sqlite3.connect(path, isolation_level=None)
        for pragma in _PRAGMAS:
            self._db.execute(f"PRAGMA {pragma}")
        self._writers = {table: TableWriter(table) for table in (*tables, view_state)}
        for table in self._writers:
            self._db.execute(str(sa.schema.CreateTable(table).compile(dialect=sqlite.dialect())))

    def close(self) -> None:
        """The file may go."""
        self._db.close()

    def write(self, write: ViewWrite) -> None:
        """Take the changes in."""
        cursor = self._db.cursor()
        cursor.execute("BEGIN")
        for table, rows in write.rows.items():
            self._writers[table].put(cursor, (_GENERATION,), rows)
        states: TableRows = {(key,): None if text is None else {"state": text} for key, text in write.states.items()}
        self._writers[view_state].put(cursor, (self._view, _GENERATION), states)
        cursor.execute("COMMIT")
        self.position = write.after

    def states(self, view: str, generation: int, keys: Sequence[UUID]) -> dict[UUID, str]:
        """See ``Views``."""
        found: dict[UUID, str] = {}
        for some in chunks(keys, _IN):
            sql = f"SELECT key, state FROM view_state WHERE view = ? AND generation = ? AND key IN ({placeholders(len(some))})"
            rows = self._db.execute(sql, (view, generation, *(key.bytes for key in some)))
            found |= {UUID(bytes=key): state for key, state in rows}
        return found

    def values(self, table: sa.Table) -> Iterator[tuple[Any, ...]]:
        """See ``Dump``."""
        return self._db.execute(dump_sql(table, f"generation = {_GENERATION}"))  # else it does not know its own order
