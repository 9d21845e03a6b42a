"""The views of a log in memory: the same rules in the plainest code."""

from __future__ import annotations

from contextlib import contextmanager
from copy import deepcopy
from operator import itemgetter
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ..domain.errors import RebuildRunningError
from .failpoint import failpoint
from .view_schema import view_state
from .views import Rebuilding, Select, Standing, Turn, TurnLostError, ViewWrite, dumped, key_columns, merged, tracked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import sqlalchemy as sa

    from .memory_store import MemoryStore
    from .views import Making

Rows = dict[tuple[Any, ...], dict[str, Any]]


class MemoryViews:
    """See ``Views``."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self._standings: dict[str, Standing] = {}
        self._rebuilds: dict[str, tuple[Rebuilding, int]] = {}
        self._tables: dict[tuple[str, int], Rows] = {}
        self._states: dict[tuple[str, int], dict[UUID, str]] = {}

    def standings(self) -> dict[str, Standing]:
        """See ``Views``."""
        return {
            name: one._replace(position=self._position(name, one.generation)) for name, one in self._standings.items()
        }

    def _position(self, view: str, generation: int) -> int:
        return self.store.tracking_position(tracked(view, generation)) or 0

    def _first(self, view: str, version: int) -> Standing:
        return self._standings.setdefault(view, Standing(view, version, 0, "", 0, 0, None, "", None, 0))

    def elect(self, versions: Mapping[str, int], owner: str, micros: int) -> dict[str, Turn]:
        """See ``Views``."""
        got: dict[str, Turn] = {}
        with self.store.serving():
            now = self.store.now()
            for name, version in versions.items():
                one = self._first(name, version)
                if one.version == version and (one.owner == owner or one.alive_until <= now):
                    one = one._replace(owner=owner, token=one.token + 1, alive_until=now + micros)
                    self._standings[name] = one
                    got[name] = Turn(name, one.generation, one.token)
        failpoint("view.elected")
        return got

    def resign(self, turns: Sequence[Turn], owner: str) -> None:
        """See ``Views``."""
        with self.store.serving():
            for turn in turns:
                one = self._standings[turn.name]
                if (one.owner, one.token, one.generation) == (owner, turn.token, turn.generation):
                    self._standings[turn.name] = one._replace(owner="", alive_until=0)

    def write(self, writes: Mapping[Turn, Making], owner: str, micros: int) -> dict[Turn, ViewWrite]:
        """See ``Views``."""
        made = {turn: writes[turn]() for turn in sorted(writes)}
        with self.store.serving():
            for turn, write in made.items():
                one = self._standings[turn.name]
                mine = (one.owner, one.token, one.generation) == (owner, turn.token, turn.generation)
                if not mine or self._position(turn.name, turn.generation) != write.before:
                    raise TurnLostError(turn.name)
            failpoint("view.rows_written")
            failpoint("view.before_commit")
            for turn, write in made.items():
                self._standings[turn.name] = self._kept(self._standings[turn.name], write, micros)
                self._move(turn.name, turn.generation, write)
        failpoint("view.after_commit")
        return made

    def _kept(self, one: Standing, write: ViewWrite, micros: int) -> Standing:
        if write.stop is not None:
            at, why = write.stop
            return one._replace(owner="", alive_until=0, stopped_at=at, reason=why)
        one = one._replace(alive_until=self.store.now() + micros)
        return one if write.before == write.after else one._replace(stopped_at=None, reason="")

    def _move(self, view: str, generation: int, write: ViewWrite) -> None:
        if write.before != write.after:
            self.store.track(tracked(view, generation), write.after)
        for table, rows in write.rows.items():
            kept = self._tables.setdefault((table.name, generation), {})
            for key, row in rows.items():
                if row is None:
                    kept.pop(key, None)
                else:
                    kept[key] = merged(table, kept.get(key), dict(zip(key_columns(table), key, strict=True)) | row)
        states = self._states.setdefault((view, generation), {})
        for state_key, text in write.states.items():
            if text is None:
                states.pop(state_key, None)
            else:
                states[state_key] = text

    def states(self, view: str, generation: int, keys: Sequence[UUID]) -> dict[UUID, str]:
        """See ``Views``."""
        with self.store.serving():
            have = self._states.get((view, generation), {})
            return {key: have[key] for key in keys if key in have}

    # -- rebuild -----------------------------------------------------------------------------------------------------

    def rebuilds(self) -> dict[str, Rebuilding]:
        """See ``Views``."""
        return {name: work for name, (work, _) in self._rebuilds.items()}

    def rebuild_begin(self, view: str, version: int, tables: Sequence[sa.Table], owner: str, micros: int) -> Rebuilding:
        """See ``Views``."""
        with self.store.serving():
            now = self.store.now()
            generation = self._first(view, version).generation + 1
            before, of_version = self._rebuilds.get(view, (None, 0))
            if before is not None and before.owner != owner and before.alive_until > now:
                raise RebuildRunningError(
                    f"{before.owner} is rebuilding at position {before.position}; wait for it, or until it dies"
                )
            goes_on = before is not None and (before.generation, of_version) == (generation, version)
            position = before.position if before is not None and goes_on else 0
            if not position:
                self._clear(view, tables, generation)
            work = Rebuilding(view, generation, position, owner, now + micros)
            self._rebuilds[view] = (work, version)
        failpoint("view.rebuild_begun")
        return work

    def _clear(self, view: str, tables: Sequence[sa.Table], generation: int) -> None:
        self.store.untrack(tracked(view, generation))
        for table in tables:
            self._tables.pop((table.name, generation), None)
        self._states.pop((view, generation), None)

    def rebuild_write(self, work: Rebuilding, write: ViewWrite, micros: int) -> Rebuilding:
        """See ``Views``."""
        with self.store.serving():
            made = self._advance(work, write, micros)
        failpoint("view.rebuild_batch")
        return made

    def _advance(self, work: Rebuilding, write: ViewWrite, micros: int) -> Rebuilding:
        found, version = self._rebuilds.get(work.name, (None, 0))
        mine = found is not None and (found.owner, found.generation) == (work.owner, work.generation)
        if found is None or not mine or found.position != write.before:
            raise RebuildRunningError("this rebuild was taken over by another process")
        self._move(work.name, work.generation, write)
        made = work._replace(position=write.after, alive_until=self.store.now() + micros)
        self._rebuilds[work.name] = (made, version)
        return made

    def rebuild_switch(
        self, work: Rebuilding, version: int, fold: Callable[[int, int], ViewWrite], keep_micros: int
    ) -> int:
        """See ``Views``."""
        with self.store.serving():
            one = self._standings[work.name]
            if one.generation != work.generation - 1:
                raise RebuildRunningError("another rebuild was switched in meanwhile")
            upto = max(work.position, self._position(work.name, one.generation))
            write = fold(work.position, upto)
            failpoint("view.before_switch")
            self._advance(work, write, keep_micros)
            old_until = self.store.now() + keep_micros
            made = Standing(work.name, version, work.generation, "", one.token + 1, 0, None, "", old_until, 0)
            self._standings[work.name] = made
            del self._rebuilds[work.name]
        failpoint("view.after_switch")
        return upto

    def drop(self, view: str, tables: Sequence[sa.Table], limit: int) -> bool:
        """See ``Views``."""
        del limit
        with self.store.serving():
            live = self._standings[view].generation
            for generation in range(live):
                self._clear(view, tables, generation)
            self._standings[view] = self._standings[view]._replace(old_until=None)
        failpoint("view.dropped")
        return False

    # -- read --------------------------------------------------------------------------------------------------------

    def _rows(self, view: str, table: sa.Table) -> Rows:
        one = self._standings.get(view)
        return self._tables.get((table.name, one.generation if one else 0), {})

    def find(self, view: str, select: Select) -> list[dict[str, Any]]:
        """See ``Views``."""
        with self.store.serving():
            found = [deepcopy(row) for row in self._rows(view, select.table).values() if _fits(row, select)]
        for name in reversed(select.order):
            found.sort(key=itemgetter(name.lstrip("-")), reverse=name.startswith("-"))
        return found[select.skip : None if select.limit is None else select.skip + select.limit]

    def count(self, view: str, select: Select, limit: int | None = None) -> int:
        """See ``Views``."""
        found = sum(_fits(row, select) for row in self._rows(view, select.table).values())
        return found if limit is None else min(found, limit)

    def sums(self, view: str, table: sa.Table, column: str, by: Sequence[str], equal: Mapping[str, Any]) -> list[Any]:
        """See ``Views``."""
        made: dict[tuple[Any, ...], int] = {} if by else {(): 0}
        for row in self.find(view, Select(table, equal=equal)):
            key = tuple(row[name] for name in by)
            made[key] = made.get(key, 0) + row[column]
        return [(*key, total) for key, total in sorted(made.items())]

    @contextmanager
    def dump(self, view: str) -> Iterator[MemoryDump]:
        """See ``Views``."""
        with self.store.serving():
            one = self._standings.get(view)
            generation = one.generation if one else 0
            tables = {name: deepcopy(rows) for (name, of), rows in self._tables.items() if of == generation}
            states = dict(self._states.get((view, generation), {}))
            yield MemoryDump(generation, self._position(view, generation), tables, states)


class MemoryDump:
    """See ``Dump``."""

    def __init__(self, generation: int, position: int, tables: dict[str, Rows], states: dict[UUID, str]) -> None:
        self.generation, self.position = generation, position
        self._tables, self._states = tables, states

    def values(self, table: sa.Table) -> Iterator[tuple[Any, ...]]:
        """See ``Dump``."""
        if table is view_state:
            yield from ((key.bytes, self._states[key]) for key in sorted(self._states))
            return
        for _, row in sorted(self._tables.get(table.name, {}).items()):
            values = (row[name] for name in dumped(table))
            yield tuple(value.bytes if isinstance(value, UUID) else value for value in values)


def _fits(row: dict[str, Any], select: Select) -> bool:
    return (
        all(row[name] == value for name, value in select.equal.items())
        and all(row[name] >= value for name, value in select.least.items())
        and all(row[name] < value for name, value in select.below.items())
        and (select.among is None or row[select.among[0]] in select.among[1])
        and (select.behind is None or tuple(row[name] for name in select.order) > select.behind)
        and (select.contains is None or select.contains[1] in row[select.contains[0]])
    )
