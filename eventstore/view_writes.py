"""Merging many rows into one table of a view, as few and as plain statements as each database allows."""

from __future__ import annotations

from itertools import chain, islice, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from .schema import Id16
from .view_schema import view_state

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from .views import TableRows

_PARAMETERS: Final = 900  #: of a statement: fewer than any SQLite takes


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
        gone = [key for key, row in rows.items() if row is None]
        if gone:
            self.drop(cursor, common, self._key_values(gone))
            rows = {key: row for key, row in rows.items() if row is not None}
        if rows:
            self.merge(cursor, common, [*self._key_values(rows), *self._row_values(rows.values())])

    def _key_values(self, keys: Collection[tuple[Any, ...]]) -> list[Sequence[Any]]:
        """Column by column, as all of these are: turning many rows over is quicker than taking up each."""
        values: list[Sequence[Any]] = list(zip(*keys, strict=True))
        for index in self._key_ids:
            values[index] = [value.bytes for value in values[index]]
        return values

    def _row_values(self, rows: Iterable[Any]) -> list[Sequence[Any]]:
        if self._get is None:
            return [[row[self.rest[0].name] for row in rows]]
        values: list[Sequence[Any]] = list(zip(*map(self._get, rows), strict=True))
        for index in self._rest_ids:
            values[index] = [value.bytes for value in values[index]]
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
        upsert = f"INSERT INTO {self.table.name} ({self.names(columns)}) VALUES {{}} {self.merging()}"
        where = " AND ".join(f'"{name}" = ?' for name in (*self.common, *(key.name for key in self.keys)))
        return upsert, f"DELETE FROM {self.table.name} WHERE {where}"

    def merge(self, cursor: Any, common: tuple[Any, ...], values: list[Sequence[Any]]) -> None:
        """Merge rows, whose values stand in *values* column by column, into what is there."""
        width, rows = len(common) + len(values), _with(common, values)
        marks = f"({', '.join('?' * width)})"
        many = _PARAMETERS // width  # rows a statement: beginning one costs half of what a row does
        flat = list(chain.from_iterable(islice(rows, len(values[0]) // many * many)))
        if flat:
            sql = self._upsert.format(", ".join([marks] * many))
            for start in range(0, len(flat), many * width):
                cursor.execute(sql, flat[start : start + many * width])
        cursor.executemany(self._upsert.format(marks), rows)  # the rest

    def drop(self, cursor: Any, common: tuple[Any, ...], values: list[Sequence[Any]]) -> None:
        """Drop the rows with these keys."""
        cursor.executemany(self._delete, _with(common, values))


def _with(common: tuple[Any, ...], values: list[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
    """Row by row again; what is common is there as often as it is wanted."""
    return zip(*map(repeat, common), *values, strict=False)


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

    def merge(self, cursor: Any, common: tuple[Any, ...], values: list[Sequence[Any]]) -> None:
        """See ``TableWriter``."""
        cursor.execute(self._upsert, (*common, *_packed((*self.keys, *self.rest), values)))

    def drop(self, cursor: Any, common: tuple[Any, ...], values: list[Sequence[Any]]) -> None:
        """See ``TableWriter``."""
        cursor.execute(self._delete, (*_packed(self.keys, values), *common))


def _packed(columns: Iterable[sa.Column[Any]], values: list[Sequence[Any]]) -> list[Any]:
    return [_array(column, some) for column, some in zip(columns, values, strict=True)]


def _array(column: sa.Column[Any], values: Sequence[Any]) -> Any:
    from . import postgres_arrays as arrays  # with psycopg: only who needs it imports it

    if isinstance(column.type, Id16):
        return arrays.uuids(values)
    if isinstance(column.type, sa.Text) or not isinstance(column.type, sa.Integer):
        return arrays.texts(values)
    if column.nullable:
        return arrays.texts([None if value is None else str(value) for value in values])
    return arrays.bigints(values)
