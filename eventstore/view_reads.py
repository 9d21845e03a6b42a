"""Reading the views: each statement names the live generation itself, so it sees the old rows or the new ones, whole."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from .schema import Id16
from .view_rebuild import ViewRebuilds
from .view_schema import view_state
from .views import Select, dump_sql, tracked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import sqlalchemy as sa

    from .sql_connections import Pinned
    from .sql_store import SqlStore

_TRANSACTION_TIMEOUT_SINCE: Final = 170000
_FETCH: Final = 2000


class SqlViews(ViewRebuilds):
    """``Views`` in a database."""

    def find(self, view: str, select: Select) -> list[dict[str, Any]]:
        """See ``Views``."""
        table = select.table
        where, bound = self._where(view, select)
        columns = ", ".join(f't."{column.name}"' for column in table.c)
        order = [f'"{name.lstrip("-")}"{" DESC" if name.startswith("-") else ""}' for name in select.order]
        ordered = f" ORDER BY {', '.join(order)}" if order else ""
        sql = f"SELECT {columns} FROM {table.name} t WHERE {where}{ordered}"
        if select.limit is not None:
            bound.append(select.limit)
            sql += f" LIMIT {self.mark}"
        if select.skip:  # what is passed over is passed over in the index alone
            bound.append(select.skip)
            names = [f'"{column.name}"' for column in table.primary_key]
            keys = f"SELECT {', '.join(names)} FROM {table.name} WHERE {where}{ordered} LIMIT {self.mark} OFFSET {self.mark}"
            same = " AND ".join(f"t.{name} = k.{name}" for name in names)
            again = ", ".join(f"t.{name}" for name in order)
            sql = f"SELECT {columns} FROM ({keys}) k JOIN {table.name} t ON {same} ORDER BY {again}"
        return _rows(self.store, table, self.store.sql_rows(sql, bound))

    def count(self, view: str, select: Select, limit: int | None = None) -> int:
        """See ``Views``."""
        where, bound = self._where(view, select)
        sql = f"SELECT count(*) FROM {select.table.name} WHERE {where}"
        if limit is not None:
            some = f"SELECT 1 FROM {select.table.name} WHERE {where} LIMIT {self.mark}"
            sql, bound = f"SELECT count(*) FROM ({some}) found", [*bound, limit]
        return int(self.store.sql_rows(sql, bound)[0][0])

    def sums(self, view: str, table: sa.Table, column: str, by: Sequence[str], equal: Mapping[str, Any]) -> list[Any]:
        """See ``Views``."""
        where, bound = self._where(view, Select(table, equal=equal))
        names = ", ".join(f'"{name}"' for name in by)
        total = f'CAST(coalesce(sum("{column}"), 0) AS BIGINT)'
        sql = f"SELECT {names + ', ' if by else ''}{total} FROM {table.name} WHERE {where}"
        if by:
            sql += f" GROUP BY {names} ORDER BY {names}"
        return [tuple(found) for found in self.store.sql_rows(sql, bound)]

    def _where(self, view: str, select: Select) -> tuple[str, list[Any]]:
        mark, table = self.mark, select.table
        parts = [f"generation = (SELECT p.generation FROM projections p WHERE p.name = {mark})"]
        bound: list[Any] = [view]
        for sign, values in (("=", select.equal), (">=", select.least), ("<", select.below)):
            for name, value in values.items():
                parts.append(f'"{name}" {sign} {mark}')
                bound.append(self.store.to_id(value) if isinstance(table.c[name].type, Id16) else value)
        if select.among is not None:
            name, some = select.among
            parts.append(f'"{name}" IN ({", ".join(mark for _ in some)})')
            bound += [self.store.to_id(one) if isinstance(table.c[name].type, Id16) else one for one in some]
        if select.behind is not None:
            names = ", ".join(f'"{name}"' for name in select.order)
            parts.append(f"({names}) > ({', '.join(mark for _ in select.behind)})")
            is_id = [isinstance(table.c[name].type, Id16) for name in select.order]
            pairs = zip(select.behind, is_id, strict=True)
            bound += [self.store.to_id(value) if is_one else value for value, is_one in pairs]
        if select.contains is not None:
            name, text = select.contains
            found = "instr" if self.store.dialect == "sqlite" else "strpos"
            parts.append(f'{found}("{name}", {mark}) > 0')  # literally: nothing in the text means anything else
            bound.append(text)
        return " AND ".join(parts), bound

    @contextmanager
    def dump(self, view: str) -> Iterator[SqlDump]:
        """See ``Views``."""
        pinned = self.store.pin()
        try:
            yield SqlDump(self.store, pinned, view, self.mark)
        finally:
            if pinned.cursor is not None:
                pinned.driver.rollback()
            self.store.unpin(pinned)


class SqlDump:
    """One moment of a view, in one read transaction."""

    def __init__(self, store: SqlStore, pinned: Pinned, view: str, mark: str) -> None:
        self._store, self._pinned, self._view, self._mark = store, pinned, view, mark
        cursor = pinned.open()
        if store.dialect == "sqlite":
            cursor.execute("BEGIN")
        else:
            names = ["idle_in_transaction_session_timeout"]
            if pinned.driver.info.server_version >= _TRANSACTION_TIMEOUT_SINCE:
                names.append("transaction_timeout")
            for name in names:  # a big view takes longer to read than any write may take
                cursor.execute(f"SET {name} = 0")
            cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        found = cursor.execute(f"SELECT generation FROM projections WHERE name = {mark}", (view,)).fetchone()
        self.generation: int = found[0] if found else 0
        sql = f"SELECT notification_id FROM tracking WHERE application_name = {mark}"
        found = cursor.execute(sql, (tracked(view, self.generation),)).fetchone()
        self.position: int = found[0] if found else 0

    def values(self, table: sa.Table) -> Iterator[tuple[Any, ...]]:
        """See ``Dump``."""
        bound: list[Any]
        where, bound = f"generation = {self._mark}", [self.generation]
        if table is view_state:
            where, bound = f"{where} AND view = {self._mark}", [self.generation, self._view]
        sql = dump_sql(table, where)
        if self._store.dialect == "sqlite":
            found: Iterator[Any] = self._pinned.driver.cursor().execute(sql, bound)
            return found
        return self._by_and_by(sql, bound)

    def _by_and_by(self, sql: str, bound: list[Any]) -> Iterator[Any]:
        from psycopg.types.string import ByteaBinaryLoader  # an extra: only who needs it imports it

        with self._pinned.driver.cursor(name="joblog_dump") as cursor:
            cursor.adapters.register_loader("uuid", ByteaBinaryLoader)  # ids as their 16 bytes
            cursor.itersize = _FETCH
            yield from cursor.execute(sql, bound, **self._store.in_bulk)


def _rows(store: SqlStore, table: sa.Table, found: list[Any]) -> list[dict[str, Any]]:
    names = [column.name for column in table.c]
    ids = [column.name for column in table.c if isinstance(column.type, Id16)]
    rows = [dict(zip(names, values, strict=True)) for values in found]
    for row in rows:
        del row["generation"]
        for name in ids:
            row[name] = store.from_id(row[name])
    return rows
