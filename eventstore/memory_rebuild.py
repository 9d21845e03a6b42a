"""The second generation of the job table in memory; see ``rebuild_sql`` for what the databases do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..domain.errors import RebuildRunningError
from .failpoint import failpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .bodies import Bodies
    from .memory_tables import MemoryTables
    from .store import LoggedEvent, RowChange


class MemoryRebuild:
    """Rebuild steps.  The caller has the store's lock."""

    def __init__(self, tables: MemoryTables, bodies: Bodies) -> None:
        self._tables, self._bodies = tables, bodies
        self._running: tuple[int, int, str, int] | None = None  #: generation, position, owner, alive until

    def begin(self, owner: str, micros: int) -> tuple[int, int]:
        """See ``Store.rebuild_begin``."""
        generation, found, now = self._tables.generation + 1, self._running, self._tables.now()
        if found is not None and found[2] != owner and found[3] > now:
            raise RebuildRunningError(f"{found[2]} is rebuilding at position {found[1]}")
        position = found[1] if found is not None and found[0] == generation else 0
        if position == 0:
            self._tables.jobs[generation % 2].clear()
        self._running = (generation, position, owner, now + micros)
        return generation, position

    def write(self, generation: int, rows: Sequence[RowChange], position: int, owner: str, micros: int) -> None:
        """See ``Store.rebuild_write``."""
        self._check_owner(generation, owner)
        self._put(generation, rows)
        self._running = (generation, position, owner, self._tables.now() + micros)

    def _check_owner(self, generation: int, owner: str) -> None:
        if self._running is None or self._running[0] != generation or self._running[2] != owner:
            raise RebuildRunningError("this rebuild was taken over by another process")

    def _put(self, generation: int, rows: Sequence[RowChange]) -> None:
        table = self._tables.jobs[generation % 2]
        for job_id, is_new, row in rows:
            if is_new or job_id in table:  # else a stream of newer code that is no job
                table[job_id] = dict(row) if is_new else {**table[job_id], **row}

    def switch(
        self, generation: int, position: int, owner: str, fold: Callable[[list[LoggedEvent]], list[RowChange]]
    ) -> int:
        """See ``Store.rebuild_switch``."""
        self._check_owner(generation, owner)
        self._put(generation, fold(self._bodies.logged(self._tables.log[position:])))
        failpoint("rebuild.before_switch")
        self._tables.generation, self._running = generation, None
        return len(self._tables.log)

    def drop_old(self) -> None:
        """See ``Store.rebuild_drop_old``."""
        if self._running is None:
            self._tables.jobs[(self._tables.generation + 1) % 2].clear()
