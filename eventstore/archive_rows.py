"""Which archives there are, which streams may go into the next one, and the one transaction that empties their bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from ..domain.errors import EpochChangedError, StoreBusyError
from ..domain.identity import LOG_STREAM
from .archive_files import ArchiveRow
from .entry_sql import entry_columns
from .failpoint import failpoint
from .placed import placed
from .sql_store import SqlStore
from .statements import chunks, placeholders
from .store import ConflictError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from .append import Append
    from .store import JobRow, Store

OVERTAKEN: Final = "somebody else archived some of these streams meanwhile; nothing was changed, run it again"
_COLUMNS: Final = ", ".join(ArchiveRow._fields)
_IN: Final = 500


class Place(NamedTuple):
    """Where the events of a stream lie."""

    position: int
    version: int
    topic: str


class ArchiveRows(Protocol):
    """One port, two adapters: SQL and memory."""

    def archives(self) -> list[ArchiveRow]:
        """All archives, the oldest first."""

    def ended(self, status: str, before: int, after: tuple[int, UUID] | None, limit: int) -> list[JobRow]:
        """Jobs of a status that ended before an instant and are in no archive, behind (created_at, id), in that order."""

    def places(self, stream_id: UUID) -> list[Place]:
        """The events of a stream, in order."""

    def at(self, positions: Sequence[int]) -> list[Any]:
        """The rows at these positions, as entries, in order."""

    def rows_of(self, archive: ArchiveRow, after: int, limit: int) -> list[Any]:
        """What the log keeps of the events of an archive, behind a position, as entries."""

    def write(self, append: Append, archive: ArchiveRow, streams: Sequence[UUID], epoch: int) -> int:
        """Append the event that records *archive* and empty the bodies that it has, in one transaction.

        Raises:
            StoreBusyError: the log is not as it was when the archive was made; nothing was changed.
            EpochChangedError: it is in another epoch.
        """

    def move(self, name: str, folder: str) -> bool:
        """Say where an archive is by now; False if there is none of that name."""


def archive_rows(store: Store) -> ArchiveRows:
    """The rows that belong to *store*."""
    return SqlArchives(store) if isinstance(store, SqlStore) else store.archives  # type: ignore[attr-defined]


class SqlArchives:
    """See ``ArchiveRows``."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._entry = entry_columns(store.dialect)

    def _sql(self, sql: str) -> str:
        return placed(sql, self._store.dialect)

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        return self._store.sql_rows(self._sql(sql), values)

    def archives(self) -> list[ArchiveRow]:
        """See ``ArchiveRows``."""
        return [ArchiveRow(*row) for row in self._rows(f"SELECT {_COLUMNS} FROM archives ORDER BY event")]

    def ended(self, status: str, before: int, after: tuple[int, UUID] | None, limit: int) -> list[JobRow]:
        """See ``ArchiveRows``."""
        where = (
            "status = ? AND finished_at < ? AND NOT EXISTS (SELECT 1 FROM archived_streams s WHERE s.stream_id = id)"
        )
        bound: list[Any] = [status, before]
        if after is not None:
            where += " AND (created_at, id) > (?, ?)"
            bound += [after[0], self._store.to_id(after[1])]
        sql = self._sql(f"{where} ORDER BY created_at, id LIMIT ?")
        return self._store.live_rows(sql, (*bound, limit))

    def places(self, stream_id: UUID) -> list[Place]:
        """See ``ArchiveRows``."""
        sql = "SELECT position, version, topic FROM events WHERE stream_id = ? ORDER BY version"
        return [Place(*row) for row in self._rows(sql, self._store.to_id(stream_id))]

    def at(self, positions: Sequence[int]) -> list[Any]:
        """See ``ArchiveRows``."""
        found: list[Any] = []
        for some in chunks(positions, _IN):
            sql = f"SELECT {self._entry} FROM events WHERE position IN ({placeholders(len(some))}) ORDER BY position"
            found += self._rows(sql, *some)
        return found

    def rows_of(self, archive: ArchiveRow, after: int, limit: int) -> list[Any]:
        """See ``ArchiveRows``."""
        sql = (
            f"SELECT {self._entry} FROM events WHERE position > ? AND position BETWEEN ? AND ? "
            "AND stream_id IN (SELECT stream_id FROM archived_streams WHERE archive = ?) ORDER BY position LIMIT ?"
        )
        return self._rows(sql, after, archive.first, archive.last, archive.event, limit)

    def write(self, append: Append, archive: ArchiveRow, streams: Sequence[UUID], epoch: int) -> int:
        """See ``ArchiveRows``."""
        store, statements = self._store, self._store.statements
        with store.writing("archive") as cursor:
            store.lock_log(cursor)
            _, now, _, head = statements.state.run(cursor, {}).fetchone()
            if now != epoch:
                raise EpochChangedError(f"the log's epoch is {now} now, the archive was made in {epoch}")
            [version] = statements.max_version.run(cursor, {"stream_id": LOG_STREAM}).fetchone()
            if version != append.expected:
                raise StoreBusyError(OVERTAKEN)
            position = int(head) + 1
            event = {"position": position, "stream_id": append.stream_id, **append.events[0]._asdict()}
            statements.insert_event.run(cursor, event)
            self._record(cursor, archive._replace(event=position), [store.to_id(stream) for stream in streams])
            failpoint("archive.before_commit")
        failpoint("archive.after_commit")
        return position

    def _record(self, cursor: Any, archive: ArchiveRow, streams: list[Any]) -> None:
        for some in chunks(streams, _IN):
            sql = f"SELECT count(*) FROM archived_streams WHERE stream_id IN ({placeholders(len(some))})"
            if cursor.execute(self._sql(sql), some).fetchone()[0]:
                raise StoreBusyError(OVERTAKEN)
        put = self._sql("INSERT INTO archived_streams (stream_id, archive) VALUES (?, ?)")
        cursor.executemany(put, [(stream, archive.event) for stream in streams])
        cursor.execute(
            self._sql(f"INSERT INTO archives ({_COLUMNS}) VALUES ({placeholders(len(archive))})"), tuple(archive)
        )
        empty = self._sql("UPDATE events SET state = ? WHERE stream_id = ? AND position BETWEEN ? AND ?")
        cursor.executemany(empty, [(b"", stream, archive.first, archive.last) for stream in streams])
        if cursor.rowcount != archive.events:
            raise ConflictError(f"{cursor.rowcount} bodies, not {archive.events}")
        cursor.executemany(
            self._sql("UPDATE unit_results SET state = ? WHERE job_id = ?"), [(b"", stream) for stream in streams]
        )

    def move(self, name: str, folder: str) -> bool:
        """See ``ArchiveRows``."""
        with self._store.writing("archive") as cursor:
            cursor.execute(self._sql("UPDATE archives SET folder = ? WHERE name = ?"), (folder, name))
            return bool(cursor.rowcount == 1)
