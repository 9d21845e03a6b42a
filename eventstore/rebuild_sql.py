"""The job table's second generation: filled beside the live one, caught up and switched under the log's lock.

Shared by both SQL stores; each step is one transaction, so that a rebuild that was killed goes on at its position.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ..domain.errors import RebuildRunningError, StoreBusyError
from . import schema as s
from .failpoint import failpoint
from .statements import Compiled
from .store import LockedError, LoggedEvent, RowChange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .sql_store import SqlStore

JOBS = "jobs"


class Rebuilds:
    """Rebuild steps of one store."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        r, st = s.rebuilds.c, s.log_state.c
        name = r.name == sa.bindparam("b_name")
        compile_ = store.statements.compile
        self._find = compile_(sa.select(r.generation, r.position, r.owner, r.alive_until).where(name))
        self._save = compile_(store.statements.upsert(s.rebuilds, "name"))
        self._end = compile_(sa.delete(s.rebuilds).where(name))
        self._switch = compile_(
            sa.update(s.log_state).where(st.generation == sa.bindparam("b_old")).values(generation=sa.bindparam("new"))
        )
        self._clear = tuple(compile_(sa.delete(table)) for table in s.jobs)
        self._set: dict[tuple[int, frozenset[str]], Compiled] = {}

    @contextmanager
    def _writing(self) -> Iterator[Any]:
        try:
            with self._store.writing("rebuild") as cursor:
                yield cursor
        except LockedError as error:
            text = (
                "somebody reads the rows that a rebuild would empty, a backup perhaps; nothing was changed, try again"
            )
            raise StoreBusyError(text) from error

    def begin(self, owner: str, micros: int) -> tuple[int, int]:
        """The generation to fill and the position to go on behind.

        Raises:
            RebuildRunningError: somebody else's rebuild is alive.
        """
        with self._writing() as cursor:
            self._store.lock_log(cursor)
            now = self._store.now()
            generation = self._store.statements.state.run(cursor, {}).fetchone()[2] + 1
            found = self._find.run(cursor, {"b_name": JOBS}).fetchone()
            if found is not None and found[2] != owner and found[3] > now:
                raise RebuildRunningError(
                    f"{found[2]} is rebuilding at position {found[1]}; wait for it, or until it dies"
                )
            position = found[1] if found is not None and found[0] == generation else 0
            if position == 0:
                self._store.clear_jobs(cursor, generation % 2, self._clear[generation % 2])
            self._mark(cursor, generation, position, owner, now + micros)
        failpoint("rebuild.begun")
        return generation, position

    def _mark(self, cursor: Any, generation: int, position: int, owner: str, until: int) -> None:
        row = {
            "name": JOBS,
            "version": 0,
            "generation": generation,
            "position": position,
            "owner": owner,
            "alive_until": until,
        }
        self._save.run(cursor, row)

    def write(self, generation: int, rows: Sequence[RowChange], position: int, owner: str, micros: int) -> None:
        """Put *rows* into the new generation and move its position, in one transaction."""
        with self._writing() as cursor:
            self._check_owner(cursor, generation, owner)
            self.write_rows(cursor, generation % 2, rows)
            self._mark(cursor, generation, position, owner, self._store.now() + micros)
        failpoint("rebuild.batch")

    def _check_owner(self, cursor: Any, generation: int, owner: str) -> None:
        found = self._find.run(cursor, {"b_name": JOBS}).fetchone()
        if found is None or found[2] != owner or found[0] != generation:
            raise RebuildRunningError("this rebuild was taken over by another process")

    def write_rows(self, cursor: Any, parity: int, rows: Sequence[RowChange]) -> None:
        """Put *rows* into a generation."""
        for change in rows:
            if change.is_new:
                self._store.statements.insert_job[parity].run(cursor, change.row)
            else:
                self._setter(parity, frozenset(change.row)).run(cursor, {**change.row, "b_id": change.job_id})

    def _setter(self, parity: int, columns: frozenset[str]) -> Compiled:
        made = self._set.get((parity, columns))
        if made is None:
            table = s.jobs[parity]
            where = table.c.id == sa.bindparam("b_id", type_=s.Id16())
            statement = sa.update(table).where(where).values({name: sa.bindparam(name) for name in sorted(columns)})
            made = self._set[parity, columns] = self._store.statements.compile(statement)
        return made

    def switch(
        self, generation: int, position: int, owner: str, fold: Callable[[list[LoggedEvent]], list[RowChange]]
    ) -> int:
        """Catch up and make *generation* the live one, under the log's lock; returns the position of the switch."""
        statements = self._store.statements
        with self._writing() as cursor:
            self._store.lock_log(cursor)
            self._check_owner(cursor, generation, owner)
            everything = {"after": position, "upto": None, "count": 2**31 - 1}
            found = statements.log(upto=False, topics=0).run(cursor, everything).fetchall()
            logged = [LoggedEvent(row[0], self._store.from_id(row[1]), *row[2:]) for row in found]
            tail = self._store.bodies.logged(logged)
            self.write_rows(cursor, generation % 2, fold(tail))
            self._switch.run(cursor, {"b_old": generation - 1, "new": generation})
            if cursor.rowcount != 1:
                raise RebuildRunningError("another rebuild was switched in meanwhile")
            self._end.run(cursor, {"b_name": JOBS})
            failpoint("rebuild.before_switch")
        failpoint("rebuild.after_switch")
        return tail[-1].position if tail else position

    def drop_old(self) -> None:
        """Empty the generation that is not live, unless a rebuild is filling it."""
        with self._writing() as cursor:
            self._store.lock_log(cursor)
            generation = self._store.statements.state.run(cursor, {}).fetchone()[2]
            if self._find.run(cursor, {"b_name": JOBS}).fetchone() is None:
                parity = (generation + 1) % 2
                self._store.clear_jobs(cursor, parity, self._clear[parity])
        failpoint("rebuild.dropped")
