"""The transaction that rows of a user share with one append, on both databases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from uuid import UUID

    import sqlalchemy as sa

    from .append import Append
    from .sql_store import SqlStore
    from .store import Seen


class SqlAtomic:
    """See ``AtomicTransaction``."""

    def __init__(self, store: SqlStore, connection: sa.Connection, cursor: Any) -> None:
        self.connection = connection
        self._store, self._cursor = store, cursor

    def hold(self, job_id: UUID, generation: int) -> None:
        """See ``AtomicTransaction``."""
        self._store.hold_row(self._cursor, job_id, generation)

    def append(self, append: Append, generation: int, seen: Seen) -> int:
        """Write *append*, undoing only itself if it is refused."""
        self._cursor.execute("SAVEPOINT joblog_append")
        try:
            first = self._store.append_in(self._cursor, append, generation, seen)
        except BaseException as error:
            mine = self._store.translate(error)
            self._cursor.execute("ROLLBACK TO SAVEPOINT joblog_append")
            if mine is error:
                raise
            raise mine from error
        self._cursor.execute("RELEASE SAVEPOINT joblog_append")
        return first
