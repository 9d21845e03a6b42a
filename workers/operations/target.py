"""Writes rows into a table, in the caller's transaction; the rows that can't go there are answered, not lost."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import sqlalchemy as sa

from ...domain import storable
from .conversion import Conversion
from .errors import TargetRefusedError
from .row_key import row_key
from .rows import Code, Row, UnfitError
from .target_table import BOUND, TargetSpec, ensure_table, kinds_of


class Fitted(NamedTuple):
    """Rows that fit the table by their form, each with its values, and those that do not."""

    rows: list[Row]
    values: list[dict[str, Any]]
    refused: list[Row]


class Target:
    """A table and how it is written to."""

    def __init__(self, table: sa.Table, spec: TargetSpec, source: str) -> None:
        kinds = kinds_of(table, spec)
        self._spec, self._source = spec, source
        self._conversion = Conversion(kinds, spec.null)
        columns = [sa.column(name, BOUND[kind]) for name, kind in kinds.items()]
        self._table = sa.table(table.name, *columns, schema=table.schema)

    @classmethod
    def prepare(
        cls,
        connection: sa.Connection,
        spec: TargetSpec,
        columns: Sequence[str],
        *,
        source: str,
        is_fixed: bool,
    ) -> Target:
        """Reflect the table or create it; *columns* are the source's, and *is_fixed* if every row has them all.

        *source* is what row keys are counted in: see ``row_key``.

        Raises:
            TargetRefusedError: these columns, or this key, do not fit the table that is there.
        """
        if spec.row_key and spec.row_key in columns:
            raise TargetRefusedError("row_key", f"the source has a column {spec.row_key!r}", "take another name")
        for name in (*spec.key, *spec.columns):
            if is_fixed and name not in columns:
                raise TargetRefusedError("key", f"the source has no column {name!r}", f"it has: {', '.join(columns)}")
        table = ensure_table(connection, spec, columns)
        if is_fixed and (unknown := [name for name in columns if name not in table.c]):
            problem = f"{table.name} has no column for {', '.join(map(repr, unknown[:10]))} of the source"
            raise TargetRefusedError("table", problem, "add it, or rename it in the source")
        return cls(table, spec, source)

    def fit(self, rows: Iterable[Row]) -> Fitted:
        """Convert rows, before any transaction is begun."""
        fitted = Fitted([], [], [])
        for row in rows:
            if row.problem:
                fitted.refused.append(row)
                continue
            try:
                values = self._values(row)
            except UnfitError as unfit:
                fitted.refused.append(unfit.refuse(row.number, row.line))
            else:
                fitted.rows.append(row)
                fitted.values.append(values)
        return fitted

    def _values(self, row: Row) -> dict[str, Any]:
        values = self._conversion.apply(row.values)
        for name in self._spec.key:
            if values.get(name) is None:
                raise UnfitError(Code.MISSING_KEY, "no value in a column of the key", name)
        if self._spec.row_key:
            values[self._spec.row_key] = row_key(row, self._spec.key, self._source)
        return values

    def write(self, connection: sa.Connection, fitted: Fitted) -> list[Row]:
        """Insert or upsert the rows in their order; answers those that a constraint refused, the others are written.

        One statement a batch; if any row is refused, all are undone and repeated one by one.  The caller commits.
        """
        _begin(connection)
        try:
            with connection.begin_nested():
                for names, group in groupby(fitted.values, dict.keys):
                    connection.execute(self._statement(connection, names), list(group))
        except (sa.exc.IntegrityError, sa.exc.DataError):
            return self._write_each(connection, fitted)
        return []

    def _write_each(self, connection: sa.Connection, fitted: Fitted) -> list[Row]:
        refused = []
        for row, values in zip(fitted.rows, fitted.values, strict=True):
            try:
                with connection.begin_nested():
                    connection.execute(self._statement(connection, values.keys()), values)
            except (sa.exc.IntegrityError, sa.exc.DataError) as problem:
                unfit = UnfitError(Code.REFUSED_BY_TARGET, _reason(problem))
                refused.append(unfit.refuse(row.number, row.line))
        return refused

    def _statement(self, connection: sa.Connection, names: Collection[str]) -> sa.Insert:
        unique = self._spec.unique
        if not unique:
            return sa.insert(self._table)
        if connection.dialect.name == "postgresql":  # a dialect is loaded where it is spoken
            from sqlalchemy.dialects.postgresql import insert
        else:
            from sqlalchemy.dialects.sqlite import insert  # type: ignore[assignment]
        statement = insert(self._table)
        updated = {name: statement.excluded[name] for name in names if self._spec.key and name not in unique}
        if not updated:
            return statement.on_conflict_do_nothing(index_elements=unique)
        return statement.on_conflict_do_update(index_elements=unique, set_=updated)


def _begin(connection: sa.Connection) -> None:
    """Begin what SQLAlchemy takes for begun: sqlite3 by itself would let the first savepoint commit."""
    if connection.dialect.name == "sqlite":
        opened = connection.connection.dbapi_connection
        if not getattr(opened, "in_transaction", True):
            connection.exec_driver_sql("BEGIN IMMEDIATE")


def _reason(problem: sa.exc.DBAPIError) -> str:
    """What the database says, as far as it repeats no value of the row."""
    cause = problem.orig
    if diagnosis := getattr(cause, "diag", None):
        names = (diagnosis.sqlstate, diagnosis.constraint_name, diagnosis.column_name)
        return storable.text(" ".join(name for name in names if name))
    text = str(cause)
    return storable.text(text if "constraint failed" in text else type(cause).__name__)
