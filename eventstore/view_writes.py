"""Merging many rows into one table of a view, as few and as plain statements as each database allows."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from .schema import Id16
from .view_schema import view_state

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .views import TableRows


class TableWriter:
    """Writes and drops rows of *table*; ``?`` for each value, as SQLite wants it."""

    def __init__(self, table: sa.Table) -> None:
        self.table = table
        self.common: Final = ("view", "generation") if table is view_state else ("generation",)
        self.keys = tuple(c for c in table.primary_key if c.name not in self.common)
        self.rest = tuple(c for c in table.c if not c.primary_key)
        self._get = itemgetter(*(c.name for c in self.rest)) if len(self.rest) > 1 else None
        self._key_ids = tuple(i for i, c in enumerate(self.keys) if isinstance(c.type, Id16))
        self._rest_ids = tuple(i for i, c in enumerate(self.rest) if isinstance(c.type, Id16))
        self._upsert, self._delete = self._statements()

    def put(self, cursor: Any, common: tuple[Any, ...], rows: TableRows) -> None:
        """Merge *rows* into the table, and drop those that are None."""
        gone = [self._key(key) for key, row in rows.items() if row is None]
        kept = [(*self._key(key), *self._values(row)) for key, row in rows.items() if row is not None]
        if gone:
            self.run(cursor, self._delete, common, gone, self.keys)
        if kept:
            self.run(cursor, self._upsert, common, kept, (*self.keys, *self.rest))

    def _key(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        for index in self._key_ids:
            key = (*key[:index], key[index].bytes, *key[index + 1 :])
        return key

    def _values(self, row: dict[str, Any]) -> tuple[Any, ...]:
        values: tuple[Any, ...] = (row[self.rest[0].name],) if self._get is None else self._get(row)
        for index in self._rest_ids:
            values = (*values[:index], values[index].bytes, *values[index + 1 :])
        return values

    def merging(self) -> str:
        """What happens to a row that is there."""
        changes: list[str] = []
        for column in self.rest:
            name, fold = f'"{column.name}"', column.info.get("fold")
            if fold == "sum":
                changes.append(f"{name} = {self.table.name}.{name} + excluded.{name}")
            elif fold != "first":
                changes.append(f"{name} = excluded.{name}")
        keys = ", ".join(f'"{column.name}"' for column in self.table.primary_key)
        return f"ON CONFLICT ({keys}) DO UPDATE SET {', '.join(changes)}"

    def names(self, columns: Iterable[sa.Column[Any]]) -> str:
        """The columns that are the same for all rows, then *columns*."""
        return ", ".join(f'"{name}"' for name in (*self.common, *(column.name for column in columns)))

    def _statements(self) -> tuple[str, str]:
        columns = (*self.keys, *self.rest)
        marks = ", ".join("?" * (len(self.common) + len(columns)))
        upsert = f"INSERT INTO {self.table.name} ({self.names(columns)}) VALUES ({marks}) {self.merging()}"
        where = " AND ".join(f'"{name}" = ?' for name in (*self.common, *(key.name for key in self.keys)))
        return upsert, f"DELETE FROM {self.table.name} WHERE {where}"

    def run(
        self, cursor: Any, sql: str, common: tuple[Any, ...], rows: list[Any], columns: tuple[sa.Column[Any], ...]
    ) -> None:
        """Run *sql* for all rows."""
        del columns
        cursor.executemany(sql, [(*common, *row) for row in rows])


class PostgresTableWriter(TableWriter):
    """One statement for all rows, which travel as an array for each column."""

    def _statements(self) -> tuple[str, str]:
        columns = (*self.keys, *self.rest)
        common = ", ".join("%s::text" if name == "view" else "%s::bigint" for name in self.common)
        arrays = ", ".join(["%b"] * len(columns))
        given = ", ".join(f"u.c{i}::bigint" if c.nullable else f"u.c{i}" for i, c in enumerate(columns))
        names = ", ".join(f"c{i}" for i in range(len(columns)))
        upsert = (
            f"INSERT INTO {self.table.name} ({self.names(columns)}) SELECT {common}, {given} "
            f"FROM unnest({arrays}) u({names}) {self.merging()}"
        )
        keys = ", ".join(f"k{i}" for i in range(len(self.keys)))
        where = [f'"{key.name}" = u.k{i}' for i, key in enumerate(self.keys)]
        where += [f'"{name}" = %s' for name in self.common]
        arrays = ", ".join(["%b"] * len(self.keys))
        delete = f"DELETE FROM {self.table.name} USING unnest({arrays}) u({keys}) WHERE {' AND '.join(where)}"
        return upsert, delete

    def run(
        self, cursor: Any, sql: str, common: tuple[Any, ...], rows: list[Any], columns: tuple[sa.Column[Any], ...]
    ) -> None:
        """Run *sql* once."""
        packed = [_packed(column, values) for column, values in zip(columns, zip(*rows, strict=True), strict=True)]
        arguments = (*packed, *common) if sql.startswith("DELETE") else (*common, *packed)
        cursor.execute(sql, arguments)


def _packed(column: sa.Column[Any], values: tuple[Any, ...]) -> Any:
    from . import postgres_arrays as arrays  # with psycopg: only who needs it imports it

    if isinstance(column.type, Id16):
        return arrays.uuids(values)
    if isinstance(column.type, sa.Text) or not isinstance(column.type, sa.Integer):
        return arrays.texts(values)
    if column.nullable:
        return arrays.texts([None if value is None else str(value) for value in values])
    return arrays.bigints(values)
