"""A view's second generation: filled beside the live one, caught up and put in its place, in steps that survive a kill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ..domain.errors import RebuildRunningError
from . import schema as s
from .failpoint import failpoint
from .view_rows import ViewRows
from .view_schema import projections, view_state
from .views import Rebuilding, TurnLostError, ViewWrite, tracked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .sql_store import SqlStore


class ViewRebuilds(ViewRows):
    """``ViewRows`` with rebuilds."""

    def __init__(self, store: SqlStore) -> None:
        super().__init__(store)
        compile_ = store.statements.compile
        r, p = s.rebuilds.c, projections.c
        name = r.name == sa.bindparam("b_name")
        self._save_rebuild = compile_(store.statements.upsert(s.rebuilds, "name"))
        self._step = compile_(
            sa.update(s.rebuilds)
            .where(
                name,
                r.owner == sa.bindparam("b_owner"),
                r.generation == sa.bindparam("b_generation"),
                r.position == sa.bindparam("b_before"),
            )
            .values(position=sa.bindparam("position"), alive_until=sa.bindparam("until"))
        )
        self._end_rebuild = compile_(sa.delete(s.rebuilds).where(name))
        self._replace = compile_(
            sa.update(projections)
            .where(p.name == sa.bindparam("b_name"), p.generation == sa.bindparam("b_old"))
            .values(
                version=sa.bindparam("version"),
                generation=sa.bindparam("b_old") + 1,
                owner="",
                token=p.token + 1,
                alive_until=0,
                stopped_at=sa.null(),
                reason="",
                old_until=sa.bindparam("keep"),
            )
        )
        self._lock = compile_(
            sa.update(projections).where(p.name == sa.bindparam("b_name")).values(generation=p.generation)
        )

    def rebuilds(self) -> dict[str, Rebuilding]:
        """See ``Views``."""
        sql = "SELECT name, generation, position, owner, alive_until FROM rebuilds WHERE version > 0"
        return {row[0]: Rebuilding(*row) for row in self.store.sql_rows(sql)}

    def rebuild_begin(self, view: str, version: int, tables: Sequence[sa.Table], owner: str, micros: int) -> Rebuilding:
        """See ``Views``."""
        with self.writing() as cursor:
            now = self.store.now()
            first = {"name": view, "version": version, "generation": 0, "owner": "", "token": 0, "alive_until": 0}
            self._first.run(cursor, first | {"stopped_at": None, "reason": "", "old_until": None})
            self._lock.run(cursor, {"b_name": view})
            [live] = cursor.execute(f"SELECT generation FROM projections WHERE name = {self.mark}", (view,)).fetchone()
            sql = f"SELECT generation, position, owner, alive_until, version FROM rebuilds WHERE name = {self.mark}"
            found = cursor.execute(sql, (view,)).fetchone()
            if found is not None and found[2] != owner and found[3] > now:
                raise RebuildRunningError(
                    f"{found[2]} is rebuilding at position {found[1]}; wait for it, or until it dies"
                )
            goes_on = found is not None and (found[0], found[4]) == (live + 1, version)
            position = found[1] if goes_on else 0
            if not position:
                self._clear(cursor, view, tables, live + 1)
            row = {"name": view, "version": version, "generation": live + 1, "position": position, "owner": owner}
            self._save_rebuild.run(cursor, row | {"alive_until": now + micros})
        failpoint("view.rebuild_begun")
        return Rebuilding(view, live + 1, position, owner, now + micros)

    def _clear(self, cursor: Any, view: str, tables: Sequence[sa.Table], generation: int) -> None:
        self._untrack.run(cursor, {"b_follower": tracked(view, generation)})
        for table in tables:
            cursor.execute(f"DELETE FROM {table.name} WHERE generation = {self.mark}", (generation,))
        sql = f"DELETE FROM view_state WHERE view = {self.mark} AND generation = {self.mark}"
        cursor.execute(sql, (view, generation))

    def rebuild_write(self, work: Rebuilding, write: ViewWrite, micros: int) -> Rebuilding:
        """See ``Views``."""
        with self.writing() as cursor:
            made = self._advance(cursor, work, write, micros)
        failpoint("view.rebuild_batch")
        return made

    def _advance(self, cursor: Any, work: Rebuilding, write: ViewWrite, micros: int) -> Rebuilding:
        until = self.store.now() + micros
        bound = {"b_name": work.name, "b_owner": work.owner, "b_generation": work.generation, "b_before": write.before}
        self._step.run(cursor, bound | {"position": write.after, "until": until})
        if cursor.rowcount != 1:
            raise RebuildRunningError("this rebuild was taken over by another process")
        try:
            self.move(cursor, work.name, work.generation, write)
        except TurnLostError as error:
            raise RebuildRunningError("this rebuild was taken over by another process") from error
        return work._replace(position=write.after, alive_until=until)

    def rebuild_switch(
        self, work: Rebuilding, version: int, fold: Callable[[int, int], ViewWrite], keep_micros: int
    ) -> int:
        """See ``Views``."""
        with self.writing() as cursor:
            now = self.store.now()
            bound = {"b_name": work.name, "b_old": work.generation - 1, "version": version}
            self._replace.run(cursor, bound | {"keep": now + keep_micros})
            if cursor.rowcount != 1:
                raise RebuildRunningError("another rebuild was switched in meanwhile")
            # From here the live one's writer is kept out: what it has come to stays.
            sql = f"SELECT notification_id FROM tracking WHERE application_name = {self.mark}"
            live = cursor.execute(sql, (tracked(work.name, work.generation - 1),)).fetchone()
            upto = max(work.position, live[0] if live else 0)
            self._advance(cursor, work, fold(work.position, upto), keep_micros)
            self._end_rebuild.run(cursor, {"b_name": work.name})
            failpoint("view.before_switch")
        failpoint("view.after_switch")
        return upto

    def drop(self, view: str, tables: Sequence[sa.Table], limit: int) -> bool:
        """See ``Views``."""
        more = False
        with self.writing() as cursor:
            [live] = cursor.execute(f"SELECT generation FROM projections WHERE name = {self.mark}", (view,)).fetchone()
            for table in (*tables, view_state):
                keys = ", ".join(f'"{column.name}"' for column in table.primary_key)
                where, bound = f"generation < {self.mark}", [live]
                if table is view_state:
                    where, bound = f"{where} AND view = {self.mark}", [live, view]
                some = f"SELECT {keys} FROM {table.name} WHERE {where} LIMIT {self.mark}"
                cursor.execute(f"DELETE FROM {table.name} WHERE ({keys}) IN ({some})", (*bound, limit))
                more = more or cursor.rowcount == limit
            if not more:
                sql = f"UPDATE projections SET old_until = NULL WHERE name = {self.mark} AND generation = {self.mark}"
                cursor.execute(sql, (view, live))
                self._untrack.run(cursor, {"b_follower": tracked(view, live - 1)})
        failpoint("view.dropped")
        return more
