"""The rows of the views in a database, with the turn that fences their writers; shared by both SQL stores."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from . import schema as s
from .failpoint import failpoint
from .statements import chunks
from .view_schema import projections, view_state
from .view_writes import PostgresTableWriter, TableWriter
from .views import Standing, Turn, TurnLostError, ViewWrite, tracked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from uuid import UUID

    from .sql_store import SqlStore
    from .views import Making, TableRows

_STANDING: Final = (
    "name",
    "version",
    "generation",
    "owner",
    "token",
    "alive_until",
    "stopped_at",
    "reason",
    "old_until",
)
_IN: Final = 400  #: keys asked for in one statement


class ViewRows:
    """Electing, writing and remembering; what reads and rebuilds builds upon it."""

    def __init__(self, store: SqlStore) -> None:
        self.store = store
        compile_ = store.statements.compile
        p, t = projections.c, s.tracking.c
        mine = sa.and_(
            p.name == sa.bindparam("b_name"),
            p.owner == sa.bindparam("b_owner"),
            p.token == sa.bindparam("b_token"),
            p.generation == sa.bindparam("b_generation"),
        )
        until: dict[str, Any] = {"alive_until": sa.bindparam("until")}
        self._keep = compile_(sa.update(projections).where(mine).values(**until))
        self._halt = compile_(
            sa.update(projections)
            .where(mine)
            .values(owner="", alive_until=0, stopped_at=sa.bindparam("at"), reason=sa.bindparam("why"))
        )
        self._go_on = compile_(sa.update(projections).where(mine).values(stopped_at=sa.null(), reason="", **until))
        self._resign = compile_(sa.update(projections).where(mine).values(owner="", alive_until=0))
        self._take = compile_(
            sa.update(projections)
            .where(
                p.name == sa.bindparam("b_name"),
                p.version == sa.bindparam("b_version"),
                sa.or_(p.owner == sa.bindparam("b_owner"), p.alive_until <= sa.bindparam("b_now")),
            )
            .values(owner=sa.bindparam("owner"), token=p.token + 1, **until)
        )
        self._first = compile_(self._unless_there(projections))
        self._track_first = compile_(self._unless_there(s.tracking))
        name = t.application_name == sa.bindparam("b_follower")
        self._track = compile_(
            sa.update(s.tracking)
            .where(name, t.notification_id == sa.bindparam("b_before"))
            .values(notification_id=sa.bindparam("after"))
        )
        self._untrack = compile_(sa.delete(s.tracking).where(name))
        self._writers: dict[str, TableWriter] = {}

    def _dialect_insert(self, table: sa.Table) -> Any:
        if self.store.dialect == "sqlite":
            from sqlalchemy.dialects.sqlite import insert
        else:
            from sqlalchemy.dialects.postgresql import insert  # type: ignore[assignment]
        return insert(table).values({c: sa.bindparam(c.name) for c in table.c})

    def _unless_there(self, table: sa.Table) -> Any:
        return self._dialect_insert(table).on_conflict_do_nothing()

    @cached_property
    def mark(self) -> str:
        """The driver's placeholder."""
        return "?" if self.store.dialect == "sqlite" else "%s"

    # -- turns -------------------------------------------------------------------------------------------------------

    @contextmanager
    def writing(self) -> Iterator[Any]:
        """A transaction of a view: losing the last ones in a crash loses nothing, as rows and position go together."""
        with self.store.writing("views", durable=False) as cursor:
            yield cursor

    def standings(self) -> dict[str, Standing]:
        """See ``Views``."""
        columns = ", ".join(f"p.{name}" for name in _STANDING)
        sql = (
            f"SELECT {columns}, coalesce(t.notification_id, 0) FROM projections p LEFT JOIN tracking t "
            "ON t.application_name = 'joblog.view.' || p.name || '.' || p.generation"
        )
        return {row[0]: Standing(*row) for row in self.store.sql_rows(sql)}

    def elect(self, versions: Mapping[str, int], owner: str, micros: int) -> dict[str, Turn]:
        """See ``Views``."""
        got: dict[str, Turn] = {}
        with self.writing() as cursor:
            now = self.store.now()
            for name, version in sorted(versions.items()):
                first = {"name": name, "version": version, "generation": 0, "owner": "", "token": 0, "alive_until": 0}
                self._first.run(cursor, first | {"stopped_at": None, "reason": "", "old_until": None})
                bound = {"b_name": name, "b_version": version, "b_owner": owner, "b_now": now}
                self._take.run(cursor, bound | {"owner": owner, "until": now + micros})
                if cursor.rowcount == 1:
                    sql = f"SELECT generation, token FROM projections WHERE name = {self.mark}"
                    got[name] = Turn(name, *cursor.execute(sql, (name,)).fetchone())
            failpoint("view.elected")
        return got

    def resign(self, turns: Sequence[Turn], owner: str) -> None:
        """See ``Views``."""
        with self.writing() as cursor:
            for turn in turns:
                self._resign.run(cursor, _mine(turn, owner))

    # -- writing -----------------------------------------------------------------------------------------------------

    def write(self, writes: Mapping[Turn, Making], owner: str, micros: int) -> dict[Turn, ViewWrite]:
        """See ``Views``."""
        turns = sorted(writes)  # rows are locked in one order by everyone
        made = {} if self._is_server else {turn: writes[turn]() for turn in turns}  # before all wait for the file
        with self.writing() as cursor:
            until = self.store.now() + micros
            for turn in turns:
                self._hold(cursor, turn, owner)
            with self._sending(cursor):  # the server writes one view while the next is folded here
                for turn in turns:
                    if turn not in made:
                        made[turn] = writes[turn]()
                    self._put(cursor, turn.name, turn.generation, made[turn])
            for turn, write in made.items():
                self._fence(cursor, turn, write, owner, until)
                self._step_on(cursor, turn.name, turn.generation, write)
            failpoint("view.before_commit")
        failpoint("view.after_commit")
        return made

    @cached_property
    def _is_server(self) -> bool:
        return self.store.dialect == "postgresql"

    def _sending(self, cursor: Any) -> AbstractContextManager[Any]:
        """Statements are sent without waiting for the answers, where that is safe; the end waits for all of them."""
        if not self._is_server or getattr(self.store, "pooler_safe", False):
            return nullcontext()
        import psycopg  # an extra: only who needs it imports it

        pipeline: AbstractContextManager[Any] = cursor.connection.pipeline()
        return pipeline if psycopg.Pipeline.is_supported() else nullcontext()

    def _hold(self, cursor: Any, turn: Turn, owner: str) -> None:
        """Keep everybody else out of this view until the end of the transaction."""
        where = " AND ".join(f"{name} = {self.mark}" for name in ("name", "owner", "token", "generation"))
        sql = f"SELECT 1 FROM projections WHERE {where}{' FOR UPDATE' if self._is_server else ''}"
        if cursor.execute(sql, (turn.name, owner, turn.token, turn.generation)).fetchone() is None:
            raise TurnLostError(turn.name)

    def _fence(self, cursor: Any, turn: Turn, write: ViewWrite, owner: str, until: int) -> None:
        mine = _mine(turn, owner)
        if write.stop is not None:
            self._halt.run(cursor, mine | {"at": write.stop[0], "why": write.stop[1]})
        elif write.before == write.after:
            self._keep.run(cursor, mine | {"until": until})
        else:
            self._go_on.run(cursor, mine | {"until": until})
        if cursor.rowcount != 1:
            raise TurnLostError(turn.name)

    def move(self, cursor: Any, view: str, generation: int, write: ViewWrite) -> None:
        """Move the position from *before* to *after*, with the rows.

        Raises:
            TurnLostError: it is elsewhere.
        """
        self._step_on(cursor, view, generation, write)
        self._put(cursor, view, generation, write)

    def _step_on(self, cursor: Any, view: str, generation: int, write: ViewWrite) -> None:
        follower = tracked(view, generation)
        if write.before != write.after:
            if write.before == 0:
                self._track_first.run(cursor, {"application_name": follower, "notification_id": write.after})
            else:
                bound = {"b_follower": follower, "b_before": write.before, "after": write.after}
                self._track.run(cursor, bound)
            if cursor.rowcount != 1:
                raise TurnLostError(view)

    def _put(self, cursor: Any, view: str, generation: int, write: ViewWrite) -> None:
        for table, rows in write.rows.items():
            self._writer(table).put(cursor, (generation,), rows)
        states: TableRows = {(key,): None if text is None else {"state": text} for key, text in write.states.items()}
        self._writer(view_state).put(cursor, (view, generation), states)
        failpoint("view.rows_written")

    def _writer(self, table: sa.Table) -> TableWriter:
        made = self._writers.get(table.name)
        if made is None:
            kind = TableWriter if self.store.dialect == "sqlite" else PostgresTableWriter
            made = self._writers[table.name] = kind(table)
        return made

    def states(self, view: str, generation: int, keys: Sequence[UUID]) -> dict[UUID, str]:
        """See ``Views``."""
        found: dict[UUID, str] = {}
        for some in chunks(keys, _IN):
            marks = ", ".join([self.mark] * len(some))
            sql = (
                f"SELECT key, state FROM view_state WHERE view = {self.mark} AND generation = {self.mark} "
                f"AND key IN ({marks})"
            )
            bound = (view, generation, *(self.store.to_id(key) for key in some))
            found |= {self.store.from_id(key): state for key, state in self.store.sql_rows(sql, bound)}
        return found


def _mine(turn: Turn, owner: str) -> dict[str, Any]:
    return {"b_name": turn.name, "b_owner": owner, "b_token": turn.token, "b_generation": turn.generation}
